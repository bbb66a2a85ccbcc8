//! How well one measured card of a generation stands for another.
#![cfg(test)]

use super::{Lent, measured};
use gpuplan_hardware::{Gpu, Hardware};
use gpuplan_workload::{Gemm, Precision};

use crate::constants::Constants;
use crate::device::DeviceRates;
use crate::kernels::{Engine, KernelPrecision, KernelTable};
use crate::measurements::correction::Factors;
use crate::time;

const FORMATS: [(&str, KernelPrecision, Precision); 3] = [
    ("fp8", KernelPrecision::Fp8, Precision::Fp8),
    ("fp8 in blocks", KernelPrecision::Fp8Block, Precision::Mxfp8),
    ("nvfp4", KernelPrecision::Nvfp4, Precision::Nvfp4),
];

/// Products of layers from 1,024 to 28,672 units, and of 512 to 16,384 tokens.
fn products() -> Vec<Gemm> {
    let mut all = Vec::new();
    for m in [512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16_384.0] {
        for n in [1024.0, 2048.0, 4096.0, 8192.0, 14_336.0, 28_672.0] {
            all.extend([1024.0, 2048.0, 4096.0, 8192.0, 14_336.0].map(|k| Gemm::new(m, n, k, 1.0)));
        }
    }
    all
}

fn alone(table: &KernelTable, precision: KernelPrecision, gemm: Gemm) -> Option<f64> {
    let seconds = |engine| table.product_seconds(engine, precision, gemm.m, gemm.n, gemm.k);
    [Engine::TensorRtLlm, Engine::Vllm].into_iter().filter_map(seconds).map(|one| one.0).reduce(f64::min)
}

/// Median of the sizes of relative errors, and of the errors.
fn medians(errors: Vec<f64>) -> [f64; 2] {
    let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    let mut errors = errors;
    [&mut sizes, &mut errors].map(|all| {
        all.sort_by(f64::total_cmp);
        100.0 * all[all.len() / 2]
    })
}

/// Every measured card, asked through another one's table and by the closed form as if it had none itself: the table of
/// `benchmarks/kernels/README.md`. A generation of one card has no sibling and asks the nearest card of another, which the program does not.
#[test]
fn sibling_of_each_measured_card() {
    let constants = Constants::embedded();
    let mut with_sibling = 0;
    for gpu in measured() {
        let own = KernelTable::embedded(gpu).unwrap();
        for (name, precision, recipe) in FORMATS {
            if !own.has_products(precision) {
                continue;
            }
            let error = |predicted: &dyn Fn(Gemm) -> f64| {
                let one = |gemm| Some(predicted(gemm) / alone(&own, precision, gemm)? - 1.0);
                medians(products().into_iter().filter_map(one).collect())
            };
            let rates = DeviceRates::of_benchmark(gpu, recipe);
            let closed = error(&|gemm| time::gemm::seconds(gemm, &rates, &Factors::unmeasured()));
            let by = |lent: Lent| error(&|gemm| lent.seconds(gemm, alone(&lent.table, precision, gemm).unwrap()));
            let others = |same: bool| {
                let of = move |lender: &&Gpu| (lender.architecture == gpu.architecture) == same;
                Lent::among(measured().iter().filter(of), gpu, precision, constants)
            };
            let [sibling, generation] = [others(true), others(false)].map(|lent| lent.map(by));
            println!(
                "{} {name}: closed form {closed:.1?}, sibling {sibling:.1?}, another generation {generation:.1?}",
                gpu.id
            );
            if let Some([size, _]) = sibling {
                with_sibling += 1;
                assert!(size <= 15.0, "{} {name}: {size} %", gpu.id);
            }
        }
    }
    assert!(with_sibling >= 16, "{with_sibling}");
}

#[test]
fn a_card_of_a_measured_generation_borrows_and_no_other_does() {
    let hardware = Hardware::embedded().unwrap();
    let lent = |id: &str, precision| {
        let gpu = hardware.gpus().iter().find(|gpu| gpu.id == id).unwrap();
        Lent::to(gpu, precision, Constants::embedded())
    };
    for id in ["h100-pcie-80", "h20-sxm-96", "gh200-96", "l4", "rtx-4090", "rtx-5090", "rtx-pro-4500-blackwell-se"] {
        let lent = lent(id, KernelPrecision::Fp8).unwrap_or_else(|| panic!("{id}"));
        let large = Gemm::new(8192.0, 8192.0, 8192.0, 1.0);
        let share = 2.0 * 8192.0_f64.powi(3) * lent.fastest
            / lent.seconds(large, alone(&lent.table, KernelPrecision::Fp8, large).unwrap());
        assert!((0.3..=1.0).contains(&share), "{id} {share}");
    }
    for id in ["mi300x", "mi355x", "a100-pcie-80", "v100-sxm2-32"] {
        assert!(lent(id, KernelPrecision::Fp8).is_none(), "{id}");
    }
    assert!(lent("h100-pcie-80", KernelPrecision::Nvfp4).is_none());
}
