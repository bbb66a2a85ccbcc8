//! The closed forms, and in 8 bits the tables of sibling cards, against published kernels of cards without a table: `benchmarks/kernels/published.csv`.
#![cfg(test)]

use std::collections::BTreeMap;

use gpuplan_hardware::Hardware;
use gpuplan_workload::{Gemm, Precision};
use serde::Deserialize;

use crate::constants::{self as c, Constants};
use crate::device::DeviceRates;
use crate::measurements::correction::Factors;
use crate::time;
use crate::time::kernels::RecipeKernels;

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
            "fp8" => Precision::Fp8,
            "fp8_block" => Precision::Mxfp8,
            other => panic!("unknown precision {other}"),
        }
    }

    /// Predicted and measured seconds of so many FLOPs as one forward product or attention takes.
    fn seconds(&self, hardware: &Hardware) -> (f64, f64) {
        let gpu = hardware.gpus().iter().find(|gpu| gpu.id == self.gpu).unwrap();
        let rates = DeviceRates::of_part(gpu, self.precision(), self.card_share);
        let figures: Vec<f64> = self.shape.split(' ').map(|figure| figure.parse().unwrap()).collect();
        match (self.kernel.as_str(), figures.as_slice()) {
            ("gemm", [m, n, k]) => {
                let product = Gemm::new(*m, *n, *k, 1.0);
                let kernels = RecipeKernels::new(gpu, self.precision(), self.card_share, Constants::embedded());
                let lent = kernels.and_then(|kernels| kernels.product(product));
                let closed = || time::gemm::seconds(product, &rates, &Factors::unmeasured());
                let seconds = lent.map_or_else(closed, |[forward, ..]| forward);
                (seconds, product.flops() / (self.tflops * 1e12))
            }
            (pass, [batch, heads, head_dim, tokens, causal]) => {
                let (work, half) =
                    if *causal > 0.0 { (0.5, c::FLASH_CAUSAL_SEQUENCE) } else { (1.0, c::FLASH_FULL_SEQUENCE) };
                let passes = if pass == "attention-forward" { 1.0 } else { 2.5 };
                let flops = 4.0 * batch * heads * head_dim * tokens * tokens * work * passes;
                (flops / (rates.flash * tokens / (tokens + half)), flops / (self.tflops * 1e12))
            }
            _ => panic!("{} of {}", self.kernel, self.shape),
        }
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
    // Training runs attention forward and backward: the two count together.
    let mut kernels = BTreeMap::<_, (f64, f64)>::new();
    for (index, row) in rows.iter().enumerate() {
        let (what, one) = match row.kernel.as_str() {
            "gemm" => (row.precision.as_str(), index.to_string()),
            _ => ("attention", row.shape.clone()),
        };
        let (predicted, measured) = row.seconds(&hardware);
        let both = kernels.entry((row.gpu.as_str(), what, one)).or_default();
        *both = (both.0 + predicted, both.1 + measured);
    }
    let mut of = BTreeMap::<_, Vec<f64>>::new();
    for ((gpu, what, _), (predicted, measured)) in kernels {
        let all = if what == "attention" { what } else { "products" };
        for of_whom in [(gpu, what), ("all", all)] {
            of.entry(of_whom).or_default().push(predicted / measured - 1.0);
        }
    }
    for ((gpu, what), errors) in &of {
        let (size, sign) = (median(errors.iter().map(|error| error.abs()).collect()), median(errors.clone()));
        println!(
            "{gpu:14} {what:18} {:3} points, median {:5.1} % ({:+.1} %)",
            errors.len(),
            100.0 * size,
            100.0 * sign
        );
    }
    let all = |what| median(of[&("all", what)].iter().map(|error| error.abs()).collect());
    let (products, attention) = (all("products"), all("attention"));
    assert!(rows.len() >= 80 && products <= 0.15 && attention <= 0.15, "{products} {attention}");
}
