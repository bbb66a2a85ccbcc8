//! Diffusion transformers in training: layers as of other transformers, over the patches of a latent picture or video and a prompt.
//!
//! A layer multiplies every token by one set of weights, whichever stream it is of; the weights of the other stream, and those that bring the
//! time step into the layers, are held, gathered, dequantised and updated beside them. Text encoders and autoencoder are frozen.

use crate::memory::MemoryBreakdown;
use crate::setting::Setting;
use crate::time::breakdown::TimeBreakdown;
use crate::time::input::StepInput;
use crate::time::vision;
use gpuplan_workload::model::pipeline::networks::picture_encoder;
use gpuplan_workload::model::pipeline::{Pipeline, TextEncoder};
use gpuplan_workload::{Layout, Model, ModelKind, Training};

/// Bytes of a frozen weight of an encoder, which stays in 16 bits.
const HALF: f64 = 2.0;
/// A forward pass over forward and backward, in which `vision::pass` counts.
const FORWARD_SHARE: f64 = 1.0 / 3.0;

/// A diffusion transformer as the layers of a model, and what they are trained on.
#[derive(Clone, Debug)]
pub struct Denoiser {
    pub model: Model,
    /// Its sequence is of tokens.
    pub training: Training,
    pub tokens: f64,
    /// Run in every micro-step; none where prompts and pictures were encoded before.
    encoders: Vec<TextEncoder>,
    prompt_tokens: u32,
    encodes: bool,
}

impl Denoiser {
    /// `None`: it is no diffusion model, or one whose layers are not known.
    pub fn from_model(model: &Model, training: &Training) -> Option<Self> {
        let is_known = |pipeline: &&Pipeline| model.kind == ModelKind::Diffusion && pipeline.is_transformer();
        let pipeline = model.pipeline.as_ref().filter(is_known)?;
        let frames = training.latents.frames.unwrap_or(pipeline.frames);
        let tokens = pipeline.trained_tokens(f64::from(training.sequence_length), frames);
        let encodes = training.latents.encoded_in_steps;
        Some(Self {
            model: pipeline.trained(model),
            training: Training { sequence_length: tokens.max(1.0) as u32, ..training.clone() },
            tokens,
            encoders: if encodes { pipeline.text_encoders.clone() } else { Vec::new() },
            prompt_tokens: pipeline.prompt_tokens,
            encodes,
        })
    }

    /// Memory with what passes through a layer backward, and the weights of the encoders that run in the steps, on every rank.
    pub fn complete(&self, held: MemoryBreakdown, setting: &Setting) -> MemoryBreakdown {
        let held = held.fuller(self.gradients_of_a_layer(setting), 1.0);
        if !self.encodes {
            return held;
        }
        let texts: f64 = self.encoders.iter().map(|encoder| encoder.model().parameters).sum();
        held.beside_weights(HALF * (texts + picture_encoder().parameters))
    }

    /// Gradients of the hidden values of a feed-forward block, before and after its activation: the most that is there at once. Where a model has a
    /// vocabulary, its logits are gone by then.
    fn gradients_of_a_layer(&self, setting: &Setting) -> f64 {
        if !self.training.task.has_backward() {
            return 0.0;
        }
        let ranks = f64::from(setting.layout.tensor) * f64::from(setting.layout.context);
        let values = f64::from(setting.micro_batch) * self.tokens * f64::from(self.model.ffn_hidden) / ranks;
        2.0 * values * self.training.precision.activation_bytes()
    }

    /// Seconds in which `input`'s step encodes prompts and pictures of `side` pixels; `None`: they are encoded already.
    pub fn encoding(&self, input: &StepInput, side: u32) -> Option<TimeBreakdown> {
        if !self.encodes {
            return None;
        }
        let whole = Layout { data: input.setting.layout.data, ..Layout::default() };
        let setting = Setting { layout: whole, ..*input.setting };
        let mut all = self.pictures(input, side);
        for encoder in &self.encoders {
            let (model, tokens) = (encoder.model(), encoder.tokens(self.prompt_tokens));
            let frozen = Training { sequence_length: tokens as u32, base_weights: None, ..self.training.frozen() };
            let step = StepInput {
                model: &model,
                training: &frozen,
                setting: &setting,
                products: None,
                sequence: tokens,
                ..*input
            };
            all = all.followed_by(&step.time(), 0.0);
        }
        Some(all)
    }

    fn pictures(&self, input: &StepInput, side: u32) -> TimeBreakdown {
        let batch = f64::from(input.setting.micro_batch);
        let training = Training { sequence_length: side, ..self.training.frozen() };
        let Ok(pass) = vision::pass(input.constants, &picture_encoder(), &training, input.rates, batch, false) else {
            return TimeBreakdown::default();
        };
        let steps = input.setting.rank_batches() * FORWARD_SHARE;
        let (matmul, elementwise) = (pass.arithmetic.max(pass.least) * steps, pass.traffic * steps);
        TimeBreakdown { matmul, elementwise, total: matmul + elementwise, ..TimeBreakdown::default() }
    }
}

#[cfg(test)]
mod tests {
    use crate::cases::answer::{CaseEstimate, prepared_estimate};
    use crate::cases::case::EstimateCase;
    use crate::constants::Constants;
    use gpuplan_hardware::Hardware;
    use gpuplan_workload::Models;
    use serde_json::{Value, json};

    /// Steps and peaks that were written down before the estimate was run on any of them; nothing is fitted on them.
    static PUBLISHED: &str = include_str!("../../../benchmarks/images/diffusion.csv");

    fn case(row: &csv::StringRecord) -> Value {
        let number = |index: usize| row[index].parse::<u32>().unwrap();
        let (gpus, micro_batch, accumulation) = (number(4), number(12), number(13));
        let is_quantised = !row[6].is_empty();
        let mut training = json!({"task": if is_quantised { "qlora" } else { &row[5] }, "precision": row[7], "optimizer": row[8],
            "recompute": row[11], "micro_batch": micro_batch, "global_batch": micro_batch * accumulation * gpus,
            "sequence_length": number(15), "cache_latents": &row[17] == "yes"});
        if is_quantised {
            training["base_weights"] = json!(row[6]);
        }
        if !row[9].is_empty() {
            training["lora_rank"] = json!(number(9));
            let targets: &[&str] = if &row[10] == "all" { &["all-linear"] } else { &["q", "k", "v", "o"] };
            training["lora_targets"] = json!(targets);
        }
        if !row[16].is_empty() {
            training["frames"] = json!(number(16));
        }
        if !row[20].is_empty() {
            training["measure"] = json!(row[20]);
        }
        json!({"id": row[0], "model": {"name": row[2]}, "training": training, "layout": {"data": gpus, "shard": row[14]},
            "hardware": {"gpu": row[3], "gpus": gpus, "gpus_per_node": gpus.min(8), "node_network_gbit_per_s": 1600}})
    }

    fn median(mut errors: Vec<f64>) -> f64 {
        errors.sort_by(f64::total_cmp);
        errors[errors.len() / 2]
    }

    fn made(case: Value) -> CaseEstimate {
        let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
        let case: EstimateCase = serde_json::from_value(case).unwrap();
        let prepared = case.prepare(&hardware, &models).unwrap();
        prepared_estimate(Constants::embedded(), json!("one"), &prepared).unwrap()
    }

    /// The bounds are what was found.
    #[test]
    fn training_of_diffusion_models_is_near_what_was_published() {
        let (mut times, mut peaks, mut inside, mut said) = (Vec::new(), Vec::new(), 0, String::new());
        let mut reader = csv::Reader::from_reader(PUBLISHED.as_bytes());
        for row in reader.records().map(Result::unwrap) {
            let made = made(case(&row));
            // Every one of them ran.
            assert!(made.fits, "{} {}: {} bytes", &row[0], &row[2], made.peak_memory_bytes.expected);
            said.push_str(&format!("{} {} {}", &row[0], &row[2], &row[3]));
            if let Ok(seconds) = row[18].parse::<f64>() {
                let ratio = made.step_seconds.expected / seconds;
                times.push((ratio - 1.0).abs());
                inside += u32::from(made.step_seconds.low <= seconds && seconds <= made.step_seconds.high);
                said.push_str(&format!(" {:.2} of {seconds} s {:+.0} %", ratio * seconds, (ratio - 1.0) * 100.0));
            }
            if let Ok(peak) = row[19].parse::<f64>() {
                let gib = made.peak_memory_bytes.expected / 1024f64.powi(3);
                peaks.push((gib / peak - 1.0).abs());
                said.push_str(&format!(" {gib:.1} of {peak} GiB {:+.0} %", (gib / peak - 1.0) * 100.0));
            }
            said.push('\n');
        }
        let counts = (times.len(), peaks.len());
        let (time, peak) = (median(times), median(peaks));
        println!("{said}{counts:?}: time {:.1} %, {inside} in band; memory {:.1} %", time * 100.0, peak * 100.0);
        assert!(time <= 0.43 && peak <= 0.13, "{time:.3} {peak:.3}\n{said}");
    }

    fn lora(gpu: &str, training: &[(&str, Value)]) -> CaseEstimate {
        let mut stated = json!({"task": "lora", "lora_rank": 16, "precision": "bf16", "optimizer": "adamw-8bit",
            "micro_batch": 1, "global_batch": 1, "recompute": "full", "sequence_length": 1024, "cache_latents": true});
        for (key, value) in training {
            stated[*key] = value.clone();
        }
        made(json!({"id": "one", "model": {"name": "flux.1-dev"}, "training": stated, "layout": {"data": 1},
            "hardware": {"gpu": gpu, "gpus": 1}}))
    }

    /// Guides of trainers say 24 GB for weights in 4 or 8 bits, and more for those in 16 (huggingface/blog, flux-qlora.md; ostris/ai-toolkit,
    /// README).
    #[test]
    fn adapters_of_flux_fit_where_their_guides_say() {
        let quantised = |base: &str| lora("rtx-4090", &[("task", json!("qlora")), ("base_weights", json!(base))]);
        assert!(quantised("nf4").fits && quantised("int8").fits);
        assert!(!lora("rtx-4090", &[]).fits);
        assert!(lora("l40s", &[]).fits);
    }

    #[test]
    fn what_is_done_twice_costs_time_and_saves_memory() {
        let (kept, again) = (lora("h200-sxm-141", &[("recompute", json!("none"))]), lora("h200-sxm-141", &[]));
        assert!(kept.peak_memory_bytes.expected > 1.5 * again.peak_memory_bytes.expected);
        let ratio = again.step_seconds.expected / kept.step_seconds.expected;
        assert!((1.2..1.6).contains(&ratio), "{ratio}");
    }

    #[test]
    fn encoders_in_the_step_cost_time_and_memory() {
        let (before, within) = (lora("h200-sxm-141", &[]), lora("h200-sxm-141", &[("cache_latents", json!(false))]));
        let more = within.peak_memory_bytes.expected - before.peak_memory_bytes.expected;
        // T5 has 4.76 billion parameters, CLIP 0.12.
        assert!((9.5e9..11.0e9).contains(&more), "{more}");
        assert!(within.step_seconds.expected > 1.02 * before.step_seconds.expected);
    }

    /// 81 frames are 21 of the latent, and 33 are nine.
    #[test]
    fn fewer_frames_are_fewer_tokens() {
        let wan = |frames: u32| {
            let training = json!({"task": "lora", "lora_rank": 16, "micro_batch": 1, "global_batch": 1, "recompute": "full",
                "frames": frames});
            made(json!({"id": "one", "model": {"name": "wan2.1-t2v-14b"}, "training": training, "layout": {"data": 1},
                "hardware": {"gpu": "h100-sxm5-80", "gpus": 1}}))
        };
        let ratio = wan(81).step_seconds.expected / wan(33).step_seconds.expected;
        assert!(ratio > 21.0 / 9.0 && ratio < (21.0f64 / 9.0).powi(2), "{ratio}");
    }
}
