//! The closed forms against published kernels of cards without a table: `benchmarks/kernels/published.csv`.
#![cfg(test)]

use std::collections::BTreeMap;

use gpuplan_hardware::Hardware;
use gpuplan_workload::{Gemm, Precision};
use serde::Deserialize;

use crate::constants as c;
use crate::device::DeviceRates;
use crate::measurements::correction::Factors;
use crate::time;

static PUBLISHED: &str = include_str!("../../../benchmarks/kernels/published.csv");

#[derive(Deserialize)]
struct Row {
    kernel: String,
    gpu: String,
    /// Part of the catalog's card that was measured: a die of two.
    card_share: f64,
    precision: String,
    shape: String,
    tflops: f64,
    source: String,
}

impl Row {
    fn precision(&self) -> Precision {
        match self.precision.as_str() {
            "fp32" => Precision::Fp32,
            "tf32" => Precision::Tf32,
            "fp16" | "bf16" => Precision::Bf16,
            other => panic!("unknown precision {other}"),
        }
    }

    /// Predicted over measured time, less one.
    fn error(&self, hardware: &Hardware) -> f64 {
        let gpu = hardware.gpus().iter().find(|gpu| gpu.id == self.gpu).unwrap();
        let rates = DeviceRates::of_part(gpu, self.precision(), self.card_share);
        let figures: Vec<f64> = self.shape.split(' ').map(|figure| figure.parse().unwrap()).collect();
        let predicted = match (self.kernel.as_str(), figures.as_slice()) {
            ("gemm", [m, n, k]) => {
                let product = Gemm::new(*m, *n, *k, 1.0);
                product.flops() / time::gemm::seconds(product, &rates, &Factors::unmeasured())
            }
            ("attention-forward" | "attention-backward", [_, _, _, tokens, causal]) => {
                let half = if *causal > 0.0 { c::FLASH_CAUSAL_SEQUENCE } else { c::FLASH_FULL_SEQUENCE };
                rates.flash * tokens / (tokens + half)
            }
            _ => panic!("{} of {}", self.kernel, self.shape),
        };
        self.tflops * 1e12 / predicted - 1.0
    }
}

fn median(mut errors: Vec<f64>) -> f64 {
    errors.sort_by(f64::total_cmp);
    errors[errors.len() / 2]
}

#[test]
fn closed_forms_meet_published_kernels_of_cards_without_a_table() {
    let hardware = Hardware::embedded().unwrap();
    let rows: Vec<Row> =
        csv::Reader::from_reader(PUBLISHED.as_bytes()).deserialize().collect::<Result<_, _>>().unwrap();
    assert!(rows.iter().all(|row| row.source.starts_with("https://")));
    let mut of = BTreeMap::<_, Vec<f64>>::new();
    for row in &rows {
        let error = row.error(&hardware);
        let what = if row.kernel == "gemm" { row.precision.as_str() } else { row.kernel.as_str() };
        of.entry((row.gpu.clone(), what)).or_default().push(error);
        of.entry(("all".to_owned(), if row.kernel == "gemm" { "gemm" } else { "attention" })).or_default().push(error);
    }
    for ((gpu, what), errors) in &of {
        let (size, sign) = (median(errors.iter().map(|error| error.abs()).collect()), median(errors.clone()));
        println!("{gpu:14} {what:18} {:3} points, median {:5.1} % ({:+.1} %)", errors.len(), 100.0 * size, 100.0 * sign);
    }
    let all = |what| median(of[&("all".to_owned(), what)].iter().map(|error| error.abs()).collect());
    assert!(rows.len() >= 80 && all("gemm") <= 0.15 && all("attention") <= 0.15, "{} {}", all("gemm"), all("attention"));
}
