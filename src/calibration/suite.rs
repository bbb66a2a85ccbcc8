//! `Suite`: which benchmarks a workload needs, most telling first, and running them in turns inside a time budget.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::benchmark::{Benchmark, Kernel, Pass, Work, word_of};
use crate::device::{Device, DeviceFacts};
use crate::statistics::{Statistics, six_figures};
use gpuplan_hardware::NumberFormat;
use gpuplan_units::Bytes;
use gpuplan_workload::operators::{Gemm, head_product, layer_products};
use gpuplan_workload::{Layout, Model, Precision, Task};

static QUICK: &str = include_str!("../../benchmarks/suites/quick.toml");
static FULL: &str = include_str!("../../benchmarks/suites/full.toml");

/// Sizes and patience; see the comments of `benchmarks/suites/quick.toml`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    pub seconds: f64,
    pub samples: u32,
    pub least_samples: u32,
    pub sample_seconds: f64,
    pub squares: Vec<u64>,
    pub most_tokens: u64,
    pub most_attention_tokens: u64,
    pub optimizer_values: u64,
    pub stream_bytes: Vec<u64>,
    pub host_copy_bytes: Vec<u64>,
    pub peer_copy_bytes: Vec<u64>,
    pub all_reduce_bytes: Vec<u64>,
}

/// The workload as one rank computes it.
#[derive(Clone, Copy, Debug)]
pub struct Shapes<'a> {
    pub model: &'a Model,
    pub task: Task,
    pub precision: Precision,
    pub layout: Layout,
    pub micro_batch: u32,
    /// Tokens of a sequence.
    pub sequence: u32,
}

/// Part of the device's memory that one benchmark may take.
const MEMORY_SHARE: f64 = 0.4;
/// Part of the time budget after which nothing more is prepared.
const PREPARING_SHARE: f64 = 0.5;

impl Suite {
    pub fn quick() -> Result<Self, toml::de::Error> {
        toml::from_str(QUICK)
    }

    pub fn full() -> Result<Self, toml::de::Error> {
        toml::from_str(FULL)
    }

    /// Every benchmark, the most telling first: where time runs out, the last are waived.
    pub fn benchmarks(&self, shapes: Option<&Shapes>, facts: &DeviceFacts) -> Vec<Benchmark> {
        let mut list = Vec::new();
        if let Some(shapes) = shapes.filter(|shapes| shapes.model.kind.is_transformer()) {
            self.products(shapes, facts, &mut list);
        }
        self.memory(shapes, &mut list);
        let general = |name: &str, work| Benchmark::new(name, work, 0.0);
        for graph in [false, true] {
            list.push(general("kernel launch", Work::Launch { graph }));
        }
        for side in &self.squares {
            for format in FORMATS {
                let work = Work::Matmul { m: *side, n: *side, k: *side, format, pass: Pass::Forward };
                list.push(general("square product", work));
            }
        }
        for bytes in &self.host_copy_bytes {
            for (to_device, pinned) in [(true, true), (true, false), (false, true)] {
                list.push(general("host copy", Work::HostCopy { to_device, pinned, bytes: *bytes }));
            }
        }
        list.extend(self.peer_copy_bytes.iter().map(|bytes| general("peer copy", Work::PeerCopy { bytes: *bytes })));
        list.extend(self.all_reduce_bytes.iter().map(|bytes| general("all-reduce", Work::AllReduce { bytes: *bytes })));
        if let Some(shapes) = shapes.filter(|shapes| shapes.model.kind.is_transformer() && shapes.model.heads > 0) {
            list.push(self.attention(shapes, facts));
        }
        list
    }

    /// Forward, and both gradients where weights are trained, of every linear layer.
    fn products(&self, shapes: &Shapes, facts: &DeviceFacts, list: &mut Vec<Benchmark>) {
        let per_rank =
            u64::from(shapes.micro_batch) * u64::from(shapes.sequence) / u64::from(shapes.layout.context.max(1));
        let tokens = per_rank.clamp(1, self.most_tokens) as f64;
        let format = layer_format(shapes.precision, facts.compute_capability);
        let layers = layer_products(shapes.model, &shapes.layout, tokens).map(|product| (product, format));
        // Recipes in eight bits and less keep the head in sixteen.
        let wide = if matches!(format, NumberFormat::Fp8 | NumberFormat::Fp4) { NumberFormat::Bf16 } else { format };
        let head = head_product(shapes.model, &shapes.layout, tokens).map(|mut product| {
            product.gemm.count = 1.0 / f64::from(shapes.model.layers.max(1));
            (product, wide)
        });
        for (product, format) in layers.chain(head) {
            let mut passes = vec![("forward", Pass::Forward, product.gemm)];
            if shapes.task.has_backward() {
                passes.push(("input gradient", Pass::InputGradient, product.gemm.input_gradient()));
            }
            if shapes.task.has_backward() && !shapes.task.has_adapters() {
                passes.push(("weight gradient", Pass::WeightGradient, product.gemm.weight_gradient()));
            }
            for (word, pass, gemm) in passes {
                list.push(Benchmark::new(
                    format!("{}, {word}", product.what),
                    matmul(gemm, format, pass),
                    six_figures(gemm.count),
                ));
            }
        }
    }

    fn memory(&self, shapes: Option<&Shapes>, list: &mut Vec<Benchmark>) {
        for bytes in &self.stream_bytes {
            for writes in [false, true] {
                list.push(Benchmark::new("memory", Work::Stream { writes, bytes: *bytes }, 0.0));
            }
        }
        let transformer = shapes.filter(|shapes| shapes.model.kind.is_transformer());
        let rows = transformer.map_or(self.most_tokens, |shapes| {
            (u64::from(shapes.micro_batch) * u64::from(shapes.sequence)).clamp(1, self.most_tokens)
        });
        // Without a workload the sizes of Llama 3.1 8B.
        let (hidden, ffn, vocab) = transformer.map_or((4096, 14336, 128_256), |shapes| {
            let m = shapes.model;
            (u64::from(m.hidden), u64::from(m.ffn_hidden.max(1)), u64::from(m.vocab))
        });
        for kernel in Kernel::ALL {
            let (rows, columns) = match kernel {
                Kernel::Norm | Kernel::Add | Kernel::Reduction => (rows, hidden),
                Kernel::Activation => (rows, ffn),
                Kernel::CrossEntropy => (rows, vocab),
                Kernel::Optimizer => (1, self.optimizer_values),
            };
            if columns > 0 {
                // Eight 16-bit values are read at once; stacks pad such sizes too.
                let work = Work::Kernel { kernel, rows, columns: columns.next_multiple_of(8) };
                list.push(Benchmark::new("training kernel", work, 0.0));
            }
        }
    }

    fn attention(&self, shapes: &Shapes, facts: &DeviceFacts) -> Benchmark {
        let sequence = u64::from(shapes.sequence).min(self.most_attention_tokens).next_multiple_of(8);
        let heads = u64::from((shapes.model.heads / shapes.layout.tensor.max(1)).max(1));
        let narrow = layer_format(shapes.precision, facts.compute_capability);
        let format = if matches!(narrow, NumberFormat::Fp8 | NumberFormat::Fp4) { NumberFormat::Bf16 } else { narrow };
        let work = Work::Attention { heads, sequence, head_size: u64::from(shapes.model.head_dim), format };
        Benchmark::new("attention without a fused kernel", work, 0.0)
    }
}

/// Formats of the comparison between GPUs.
const FORMATS: [NumberFormat; 5] =
    [NumberFormat::Bf16, NumberFormat::Fp16, NumberFormat::Tf32, NumberFormat::Fp8, NumberFormat::Fp32];

/// NVIDIA's list of compute capabilities (CUDA C++ programming guide, "Arithmetic instructions"): bf16 and tf32 from 8.0, fp8
/// from 8.9.
pub fn has_format(capability: (u32, u32), format: NumberFormat) -> bool {
    match format {
        NumberFormat::Fp32 | NumberFormat::Int8 => true,
        NumberFormat::Fp16 => capability >= (5, 3),
        NumberFormat::Bf16 | NumberFormat::Tf32 => capability >= (8, 0),
        NumberFormat::Fp8 => capability >= (8, 9),
        NumberFormat::Fp4 => capability >= (10, 0),
    }
}

/// The format in which a recipe really multiplies on this chip: what it lacks falls to the next wider one.
pub fn layer_format(precision: Precision, capability: (u32, u32)) -> NumberFormat {
    let wanted: &[NumberFormat] = match precision {
        Precision::Fp32 => &[],
        Precision::Tf32 => &[NumberFormat::Tf32],
        Precision::Fp16 | Precision::AmpFp16 => &[NumberFormat::Fp16],
        Precision::Bf16 | Precision::PureBf16 => &[NumberFormat::Bf16, NumberFormat::Fp16],
        Precision::Fp8 | Precision::Mxfp8 => &[NumberFormat::Fp8, NumberFormat::Bf16, NumberFormat::Fp16],
        Precision::Nvfp4 => &[NumberFormat::Fp4, NumberFormat::Fp8, NumberFormat::Bf16, NumberFormat::Fp16],
    };
    wanted.iter().copied().find(|format| has_format(capability, *format)).unwrap_or(NumberFormat::Fp32)
}

fn matmul(gemm: Gemm, format: NumberFormat, pass: Pass) -> Work {
    let whole = |size: f64| (size.round() as u64).max(1);
    Work::Matmul { m: whole(gemm.m), n: whole(gemm.n), k: whole(gemm.k), format, pass }
}

/// A benchmark with its samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sampled {
    pub benchmark: Benchmark,
    pub statistics: Statistics,
}

/// A benchmark that did not run, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NotRun {
    pub benchmark: Benchmark,
    pub reason: String,
}

/// What a suite brought.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub sampled: Vec<Sampled>,
    pub waived: Vec<NotRun>,
}

/// A benchmark in the making.
struct Ready {
    benchmark: Benchmark,
    /// Of one sample, to keep the budget. Seconds.
    cost: f64,
    samples: Vec<f64>,
}

/// Prepares everything, then samples all in turns, so that heat and clock drift fall on all alike. `said` hears what is done
/// and which share of the work that is.
pub fn run(
    suite: &Suite,
    benchmarks: Vec<Benchmark>,
    device: &mut dyn Device,
    said: &mut dyn FnMut(f64, &str),
) -> Outcome {
    let mut outcome = Outcome::default();
    let mut ready = prepare(suite, benchmarks, device, said, &mut outcome);
    drop_what_no_time_is_left_for(suite, device.elapsed(), &mut ready, &mut outcome);
    for round in 0..suite.samples {
        let round_seconds: f64 = ready.iter().map(|one| one.cost).sum();
        if round >= suite.least_samples && device.elapsed() + round_seconds > suite.seconds {
            break;
        }
        said(PREPARING_SHARE + (1.0 - PREPARING_SHARE) * f64::from(round) / f64::from(suite.samples), "measuring");
        let mut failed = Vec::new();
        for (index, one) in ready.iter_mut().enumerate() {
            match device.sample(&one.benchmark.work, suite.sample_seconds) {
                Ok(seconds) => one.samples.push(seconds),
                Err(waived) => failed.push((index, waived.0)),
            }
        }
        for (index, reason) in failed.into_iter().rev() {
            outcome.waived.push(NotRun { benchmark: ready.remove(index).benchmark, reason });
        }
    }
    for one in ready {
        match Statistics::from_samples(&one.samples) {
            Some(statistics) => outcome.sampled.push(Sampled { benchmark: one.benchmark, statistics }),
            None => outcome
                .waived
                .push(NotRun { benchmark: one.benchmark, reason: "the clock gave no time for it".to_owned() }),
        }
    }
    outcome
}

fn prepare(
    suite: &Suite,
    benchmarks: Vec<Benchmark>,
    device: &mut dyn Device,
    said: &mut dyn FnMut(f64, &str),
    outcome: &mut Outcome,
) -> Vec<Ready> {
    let all = benchmarks.len().max(1) as f64;
    let room = device.facts().memory_bytes as f64 * MEMORY_SHARE;
    let mut ready = Vec::new();
    for (index, benchmark) in benchmarks.into_iter().enumerate() {
        said(PREPARING_SHARE * index as f64 / all, &benchmark.name);
        let need = benchmark.work.footprint() as f64;
        let (major, minor) = device.facts().compute_capability;
        let lacking = benchmark.work.format().filter(|format| !has_format((major, minor), *format));
        let prepared = if let Some(format) = lacking {
            Err(format!("compute capability {major}.{minor} has no {} units", word_of(format)))
        } else if need > room {
            Err(format!("needs {} of a memory of which {} are taken at most", Bytes(need), Bytes(room)))
        } else if device.elapsed() > PREPARING_SHARE * suite.seconds {
            Err(format!("no time left of {:.0} s; --seconds allows more", suite.seconds))
        } else {
            let sampled = device.prepare(&benchmark.work).and_then(|()| {
                let before = device.elapsed();
                device.sample(&benchmark.work, suite.sample_seconds)?;
                Ok(device.elapsed() - before)
            });
            sampled.map_err(|waived| waived.0)
        };
        match prepared {
            Ok(cost) => ready.push(Ready { benchmark, cost, samples: Vec::new() }),
            Err(reason) => outcome.waived.push(NotRun { benchmark, reason }),
        }
    }
    ready
}

/// The least number of rounds must fit into what is left of the budget.
fn drop_what_no_time_is_left_for(suite: &Suite, elapsed: f64, ready: &mut Vec<Ready>, outcome: &mut Outcome) {
    let left = suite.seconds - elapsed;
    while ready.len() > 1 && ready.iter().map(|one| one.cost).sum::<f64>() * f64::from(suite.least_samples) > left {
        if let Some(last) = ready.pop() {
            let reason = format!("no time left of {:.0} s; --seconds allows more", suite.seconds);
            outcome.waived.push(NotRun { benchmark: last.benchmark, reason });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::tests::simulated;
    use gpuplan_workload::Models;

    fn outcome(suite: &Suite, gpu: &str, seed: u64) -> (Outcome, f64) {
        let (model, mut device) =
            (Models::embedded().unwrap().find("llama-2-7b").unwrap().to_model(), simulated(gpu, seed));
        let shapes = Shapes {
            model: &model,
            task: Task::Pretrain,
            precision: Precision::Bf16,
            layout: Layout::default(),
            micro_batch: 2,
            sequence: 4096,
        };
        let benchmarks = suite.benchmarks(Some(&shapes), device.facts());
        let mut last = 0.0;
        let outcome = run(suite, benchmarks, &mut device, &mut |share, _| {
            assert!((last..=1.0).contains(&share));
            last = share;
        });
        (outcome, device.elapsed())
    }

    #[test]
    fn the_quick_suite_measures_every_product_of_the_workload_inside_its_time() {
        let suite = Suite::quick().unwrap();
        for gpu in ["h100-sxm5-80", "t4", "p100-pcie-16", "l4"] {
            let (outcome, seconds) = outcome(&suite, gpu, 1);
            let products = outcome.sampled.iter().filter(|sampled| sampled.benchmark.weight > 0.0).count();
            // Four of a layer and the head, forward and two gradients.
            assert_eq!(products, 15, "{gpu}: {:?}", outcome.waived);
            assert!(seconds <= suite.seconds, "{gpu}: {seconds}");
            assert!(outcome.sampled.iter().all(|one| one.statistics.samples >= suite.least_samples), "{gpu}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_samples() {
        let suite = Suite::quick().unwrap();
        assert_eq!(outcome(&suite, "a100-sxm4-80", 7), outcome(&suite, "a100-sxm4-80", 7));
        assert_ne!(outcome(&suite, "a100-sxm4-80", 7).0, outcome(&suite, "a100-sxm4-80", 8).0);
    }

    #[test]
    fn what_cannot_run_is_waived_with_its_reason() {
        let (quick, full) = (Suite::quick().unwrap(), Suite::full().unwrap());
        let (outcome_of_one, _) = outcome(&quick, "v100-sxm2-16", 1);
        let reason = |outcome: &Outcome, word: &str| {
            outcome
                .waived
                .iter()
                .find(|waived| waived.benchmark.name == word)
                .map(|waived| waived.reason.clone())
                .unwrap()
        };
        assert_eq!(reason(&outcome_of_one, "peer copy"), "one GPU has no other to talk to");
        // Of the five formats Volta has two.
        let lacking: Vec<&str> =
            outcome_of_one.waived.iter().map(|one| one.reason.as_str()).filter(|why| why.ends_with(" units")).collect();
        assert_eq!(
            lacking[..3],
            ["bf16", "tf32", "fp8"].map(|format| format!("compute capability 7.0 has no {format} units"))
        );
        assert_eq!(lacking.len(), 3 * quick.squares.len());
        // bf16 on Volta is fp16, as the estimate has it.
        let format = |one: &Sampled| matches!(one.benchmark.work, Work::Matmul { format: NumberFormat::Fp16, .. });
        assert!(outcome_of_one.sampled.iter().filter(|one| one.benchmark.weight > 0.0).all(format));
        // The time of a twentieth of the suite leaves the first benchmarks and waives the rest.
        let hurried = Suite { seconds: 0.5, ..full };
        let (outcome, seconds) = outcome(&hurried, "l4", 1);
        assert!(!outcome.sampled.is_empty() && seconds < 1.0, "{seconds}");
        assert!(reason(&outcome, "square product").starts_with("no time left"));
    }
}
