//! The committed tables, and what they answer about points that they do not know.
#![cfg(test)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gpuplan_embedded::{KERNELS, text};
use gpuplan_hardware::{Gpu, Hardware};
use gpuplan_units::{Bytes, Seconds};
use gpuplan_workload::{Gemm, Precision};

use crate::constants::Constants;
use crate::device::DeviceRates;
use crate::kernels::names::Part;
use crate::kernels::{Attention, Collective, Engine, ExpertLayer, KernelPrecision, KernelTable, Library, PackedError};
use crate::measurements::correction::Factors;
use crate::time;

fn gpu(hardware: &Hardware, id: &str) -> Gpu {
    hardware.gpus().iter().find(|gpu| gpu.id == id).unwrap().clone()
}

fn table(id: &str) -> KernelTable {
    KernelTable::embedded(&gpu(&Hardware::embedded().unwrap(), id)).unwrap()
}

/// Asks what a row of `left_out.csv` was measured for.
fn ask(table: &KernelTable, name: &str, shape: &str) -> Option<Seconds> {
    let figures: Vec<f64> = shape.split(' ').map(|figure| figure.parse().unwrap()).collect();
    let attention = |head_dim, window| Attention {
        batch: figures[0],
        heads: figures[1],
        kv_heads: figures[2],
        head_dim,
        length: figures[figures.len() - 1],
        window: Some(window).filter(|window| *window > 0),
    };
    match Part::named(name).unwrap() {
        Part::Gemm(engine, precision) => table.gemm_seconds(engine, precision, figures[0], figures[1], figures[2]),
        Part::Context { engine, arithmetic, cache, head_dim, window } => {
            table.context_seconds(engine, arithmetic, cache, &attention(head_dim, window))
        }
        Part::Encoder { engine, head_dim, .. } => table.encoder_seconds(engine, &attention(head_dim, 0)),
        Part::Decode { engine, cache, head_dim, window } => {
            table.decode_seconds(engine, cache, &attention(head_dim, window))
        }
        Part::LatentContext(engine, cache) => {
            table.latent_context_seconds(engine, cache, figures[1], figures[0], figures[2])
        }
        Part::LatentDecode(engine, cache) => {
            table.latent_decode_seconds(engine, cache, figures[1], figures[0], figures[2])
        }
        Part::Experts(engine, precision, routing) => {
            let [tokens, hidden, width, top_k, experts, expert_parallel] = *figures.as_slice() else {
                panic!("{shape}")
            };
            let layer = ExpertLayer { tokens, hidden, width, top_k, experts, expert_parallel };
            table.moe_layer_seconds(engine, precision, routing, &layer)
        }
        Part::Collective(library, operation) => {
            table.collective_seconds(library, operation, figures[0] as u32, Bytes(figures[1]))
        }
    }
}

fn benchmarks() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benchmarks/kernels")
}

/// Relative errors on the left-out points of a folder, by GPU and part of the name, and how many had no answer.
fn errors(folder: &Path, words: usize) -> (BTreeMap<(String, String), Vec<f64>>, usize) {
    let hardware = Hardware::embedded().unwrap();
    let mut tables = BTreeMap::new();
    let (mut errors, mut unanswered) = (BTreeMap::new(), 0);
    for record in csv::Reader::from_path(folder.join("left_out.csv")).unwrap().records() {
        let record = record.unwrap();
        let (id, name, shape) = (&record[0], &record[1], &record[2]);
        let table = tables.entry(id.to_owned()).or_insert_with(|| {
            let packed = std::fs::read(folder.join(format!("{id}.txt.zst"))).unwrap();
            KernelTable::read(&text(&packed).unwrap(), &gpu(&hardware, id)).unwrap()
        });
        let kind = name.split(' ').take(words).collect::<Vec<_>>().join(" ");
        match ask(table, name, shape) {
            Some(Seconds(seconds)) => {
                let error = (seconds * 1e6 / record[3].parse::<f64>().unwrap() - 1.0).abs();
                errors.entry((id.to_owned(), kind)).or_insert_with(Vec::new).push(error);
            }
            None => unanswered += 1,
        }
    }
    (errors, unanswered)
}

fn quantile(errors: &mut [f64], share: f64) -> f64 {
    errors.sort_by(f64::total_cmp);
    errors[((errors.len() - 1) as f64 * share).round() as usize]
}

#[test]
fn points_that_a_table_does_not_know_are_answered_within_three_percent_in_the_median() {
    let (by_kind, unanswered) = errors(&benchmarks(), 1);
    let all: usize = by_kind.values().map(Vec::len).sum();
    assert!(all > 300 * KERNELS.len(), "{all}");
    assert!(unanswered * 100 < all, "{unanswered} of {all} without an answer");
    let (mut of_gpu, mut of_kind) = (BTreeMap::new(), BTreeMap::new());
    for ((id, kind), errors) in by_kind {
        of_gpu.entry(id).or_insert_with(Vec::new).extend(errors.clone());
        of_kind.entry(kind).or_insert_with(Vec::new).extend(errors);
    }
    for (name, mut errors) in of_gpu.into_iter().chain(of_kind) {
        let median = quantile(&mut errors, 0.5);
        assert!(median <= 0.03, "{name}: median error {median}");
    }
}

/// Prints the errors of README.md for the folder that `GPUPLAN_KERNELS` names.
#[test]
#[ignore = "needs tables that were packed without a tenth of the points"]
fn errors_of_a_folder() {
    let folder = PathBuf::from(std::env::var("GPUPLAN_KERNELS").unwrap());
    let words = std::env::var("GPUPLAN_KERNELS_WORDS").map_or(1, |words| words.parse().unwrap());
    let (by_kind, unanswered) = errors(&folder, words);
    println!("{unanswered} without an answer");
    for ((id, kind), mut errors) in by_kind {
        let (median, ninety) = (quantile(&mut errors, 0.5), quantile(&mut errors, 0.9));
        println!("{id},{kind},{},{:.1},{:.1}", errors.len(), median * 100.0, ninety * 100.0);
    }
}

#[test]
fn every_part_of_every_table_reads() {
    let hardware = Hardware::embedded().unwrap();
    for (id, _) in KERNELS {
        let table = KernelTable::embedded(&gpu(&hardware, id)).unwrap();
        assert!(table.packed.parts().count() > 10, "{id}");
        for part in table.packed.parts() {
            assert!(table.packed.surface(part).is_some(), "{id} {part:?}");
        }
    }
}

#[test]
fn what_was_not_measured_is_unknown() {
    let hardware = Hardware::embedded().unwrap();
    assert!(KernelTable::embedded(&gpu(&hardware, "mi300x")).is_none());
    let (vllm, nccl) = (Engine::Vllm, Library::Nccl);
    let h100 = table("h100-sxm5-80");
    assert!(h100.gemm_seconds(vllm, KernelPrecision::Nvfp4, 4096.0, 4096.0, 4096.0).is_none());
    assert!(h100.collective_seconds(nccl, Collective::AllReduce, 8, Bytes(1e6)).is_some());
    assert!(h100.collective_seconds(nccl, Collective::AllReduce, 16, Bytes(1e6)).is_none());
    let layer = Attention { batch: 1.0, heads: 8.0, kv_heads: 8.0, head_dim: 32, length: 4096.0, window: None };
    assert!(h100.context_seconds(vllm, KernelPrecision::Bf16, KernelPrecision::Bf16, &layer).is_none());
    let other_window = Attention { head_dim: 128, window: Some(777), ..layer };
    assert!(h100.context_seconds(vllm, KernelPrecision::Bf16, KernelPrecision::Bf16, &other_window).is_none());
}

#[test]
fn a_window_longer_than_the_sequence_changes_nothing() {
    let table = table("b200-sxm-180");
    let plain = Attention { batch: 2.0, heads: 32.0, kv_heads: 8.0, head_dim: 128, length: 4096.0, window: None };
    let seconds = |attention: &Attention| {
        table.context_seconds(Engine::TensorRtLlm, KernelPrecision::Bf16, KernelPrecision::Bf16, attention)
    };
    assert_eq!(seconds(&plain), seconds(&Attention { window: Some(4096), ..plain }));
    // Between two measured head dimensions lies the time between theirs.
    let at = |head_dim| seconds(&Attention { head_dim, ..plain }).unwrap().0;
    assert!(at(64) < at(96) && at(96) < at(128));
}

#[test]
fn no_product_is_faster_than_the_peak_and_a_huge_one_runs_at_the_rate_of_the_edge() {
    let hardware = Hardware::embedded().unwrap();
    for (id, _) in KERNELS {
        let chip = gpu(&hardware, id);
        let table = KernelTable::embedded(&chip).unwrap();
        let tera = chip.peak_tflops.bf16.unwrap();
        for size in [1.0, 100.0, 3000.0, 20_000.0, 1e6] {
            let seconds = table.gemm_seconds(Engine::Vllm, KernelPrecision::Bf16, size, size, size).unwrap().0;
            // But for the last bits.
            assert!(seconds >= 2.0 * size.powi(3) / (tera * 1e12) * (1.0 - 1e-9), "{id} {size}");
        }
        let seconds = |m| table.gemm_seconds(Engine::Vllm, KernelPrecision::Bf16, m, 4096.0, 4096.0).unwrap().0;
        assert!((seconds(262_144.0) / seconds(131_072.0) - 2.0).abs() < 1e-3, "{id}");
    }
}

#[test]
fn a_damaged_table_is_an_error_and_not_a_panic() {
    let chip = gpu(&Hardware::embedded().unwrap(), "l40s");
    let read = |text: &str| KernelTable::read(text, &chip).map(drop);
    assert_eq!(read(""), Err(PackedError::Header));
    assert_eq!(read("gpu,l40s\nstep,0.02\ntable,dance\n"), Err(PackedError::Part("dance".to_owned())));
    let torn = KernelTable::read("gpu,l40s\nstep,0.02\ntable,gemm vllm bf16", &chip).unwrap();
    assert!(torn.gemm_seconds(Engine::Vllm, KernelPrecision::Bf16, 1.0, 1.0, 1.0).is_none());
}

/// Prints what the closed form, without and with the shares that training reaches, answers on products of a folder's left-out
/// points that take at least 100 microseconds: median error and its median with sign, in per cent.
#[test]
#[ignore = "needs tables that were packed without a tenth of the points"]
fn errors_of_the_closed_form() {
    let folder = PathBuf::from(std::env::var("GPUPLAN_KERNELS").unwrap());
    let hardware = Hardware::embedded().unwrap();
    let mut errors = BTreeMap::new();
    for record in csv::Reader::from_path(folder.join("left_out.csv")).unwrap().records() {
        let record = record.unwrap();
        let (id, microseconds) = (record[0].to_owned(), record[3].parse::<f64>().unwrap());
        let Part::Gemm(_, precision) = Part::named(&record[1]).unwrap() else { continue };
        let recipe = match precision {
            KernelPrecision::Bf16 => Precision::Bf16,
            KernelPrecision::Fp8 => Precision::Fp8,
            KernelPrecision::Fp8Block => Precision::Mxfp8,
            KernelPrecision::Nvfp4 => Precision::Nvfp4,
            _ => continue,
        };
        if microseconds < 100.0 {
            continue;
        }
        let figures: Vec<f64> = record[2].split(' ').map(|figure| figure.parse().unwrap()).collect();
        let chip = gpu(&hardware, &id);
        let product = Gemm::new(figures[0], figures[1], figures[2], 1.0);
        let trained = DeviceRates::new(&chip, recipe, 1.0, Constants::embedded());
        let both = [DeviceRates::of_benchmark(&chip, recipe), trained]
            .map(|rates| time::gemm::seconds(product, &rates, &Factors::unmeasured()) * 1e6 / microseconds - 1.0);
        errors.entry((id, format!("{recipe:?}"))).or_insert_with(Vec::new).push(both);
    }
    for ((id, precision), both) in errors {
        let of = |which: usize, sign: bool| {
            let mut errors: Vec<f64> = both.iter().map(|e| if sign { e[which] } else { e[which].abs() }).collect();
            quantile(&mut errors, 0.5) * 100.0
        };
        let (alone, trained) = ((of(0, false), of(0, true)), (of(1, false), of(1, true)));
        println!("{id},{precision},{},{:.1},{:+.1},{:.1},{:+.1}", both.len(), alone.0, alone.1, trained.0, trained.1);
    }
}
