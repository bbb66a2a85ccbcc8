//! What only a real GPU can show; `benchmarks/on_gpu.sh` runs these.

#![cfg(test)]

use std::time::Instant;

use cudarc::driver::result;

use crate::benchmark::{Pass, Work};
use crate::cuda::CudaDevice;
use crate::device::Device;
use crate::suite::{self, Shapes, Suite};
use gpuplan_hardware::NumberFormat;
use gpuplan_workload::Models;
use gpuplan_workload::{Layout, Precision, Task};

fn outcome(device: &mut CudaDevice) -> suite::Outcome {
    let model = Models::embedded().unwrap().find("llama-2-7b").unwrap().to_model();
    let shapes = Shapes {
        model: &model,
        task: Task::Pretrain,
        precision: Precision::Bf16,
        layout: Layout::default(),
        micro_batch: 1,
        sequence: 4096,
    };
    let suite = Suite::quick().unwrap();
    let benchmarks = suite.benchmarks(Some(&shapes), device.facts());
    suite::run(&suite, benchmarks, device, &mut |_, _| {})
}

#[test]
#[ignore = "needs a GPU"]
fn the_quick_suite_measures_every_product_in_its_time_and_twice_the_same() {
    let measured: Vec<suite::Outcome> = (0..2)
        .map(|_| {
            let begun = Instant::now();
            let outcome = outcome(&mut CudaDevice::open().unwrap());
            assert!(begun.elapsed().as_secs_f64() < 17.0, "{:?}", begun.elapsed());
            outcome
        })
        .collect();
    let products = |outcome: &suite::Outcome| -> Vec<f64> {
        let products = outcome.sampled.iter().filter(|one| one.benchmark.weight > 0.0);
        products.map(|one| one.statistics.median_seconds).collect()
    };
    let (first, second) = (products(&measured[0]), products(&measured[1]));
    assert_eq!((first.len(), second.len()), (15, 15), "{:?}", measured[0].waived);
    for (one, other) in first.iter().zip(&second) {
        assert!((one / other - 1.0).abs() < 0.1, "{one} {other}");
    }
}

/// Every pass against sums on the host, so that no operand lies the wrong way round.
#[test]
#[ignore = "needs a GPU"]
fn products_are_right_in_every_pass() {
    let (m, n, k) = (64_usize, 96_usize, 128_usize);
    for pass in [Pass::Forward, Pass::InputGradient, Pass::WeightGradient] {
        let mut device = CudaDevice::open().unwrap();
        let work = Work::Matmul { m: m as u64, n: n as u64, k: k as u64, format: NumberFormat::Fp32, pass };
        device.prepare(&work).unwrap();
        let (operands, out) = device.memory_of(NumberFormat::Fp32);
        // Operands are 256-byte aligned, as these sizes are.
        let (first, second) = (read(operands, m * k), read(operands + (m * k * 4) as u64, k * n));
        let result = read(out, m * n);
        for (row, column) in [(0, 0), (3, 7), (63, 95), (17, 50)] {
            let first_at = |inner: usize| {
                if pass == Pass::WeightGradient { first[inner * m + row] } else { first[row * k + inner] }
            };
            let second_at = |inner: usize| {
                if pass == Pass::Forward { second[column * k + inner] } else { second[inner * n + column] }
            };
            let sum: f32 = (0..k).map(|inner| first_at(inner) * second_at(inner)).sum();
            assert!(
                (sum - result[row * n + column]).abs() < 1e-3,
                "{pass:?} at {row}, {column}: {sum} {}",
                result[row * n + column]
            );
        }
    }
}

fn read(at: u64, values: usize) -> Vec<f32> {
    let mut list = vec![0.0_f32; values];
    // SAFETY: the device's context is current and holds as many values there.
    unsafe { result::memcpy_dtoh_sync(&mut list, at) }.unwrap();
    list
}
