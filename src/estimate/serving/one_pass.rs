//! Models that answer in one pass, encoders and image models, as an inference engine compiles them, or as a framework runs them.
//!
//! An engine merges what stands around a product or a convolution into it: bias, activation, normalisation that is a scale by then,
//! and the sum with a shortcut (NVIDIA, TensorRT developer guide, "Layer Fusion"). What is left goes through memory once. PyTorch launches every
//! operator for itself, so that each reads what the one before it wrote; its host launches ahead, and is waited for by small batches alone.

use crate::misfit::Infeasible;
use crate::serving::{ENGINE_BYTES, KERNEL_SECONDS, PassTime, Replica, ReplicaMemory};
use crate::time::vision::{self, Pass};
use gpuplan_workload::model::ConvolutionNorm;
use gpuplan_workload::{ModelKind, ServingEngine};

/// Samples of one pass. Larger batches gain nothing that the estimate knows of; judged.
pub(super) const MOST_SAMPLES: u32 = 256;
/// What a server adds to a pass of its engine. Seconds: 0.2, 0.6, 0.6 and 0.7 ms beside BERT Large of one sample on A100, A30, V100 and T4
/// (NVIDIA/DeepLearningExamples, PyTorch/LanguageModeling/BERT/triton/large, TensorRT).
const HOST_SECONDS: f64 = 0.5e-3;
/// Kernels of a merged convolution net: ResNet-50 has 53 convolutions, a pool and a product.
const CONVOLUTION_KERNELS: f64 = 55.0;
/// Elements that a merged forward pass of convolutions reads and writes for each that its operators write: 28.4 million an image of ResNet-50
/// (11.6 read and 11.3 written by convolutions and pools, 5.5 of shortcuts, counted layer by layer from torchvision's resnet.py) of 11.11 million.
pub(super) const MERGED_ELEMENTS: f64 = 28.4 / 11.11;
/// The same where nothing is merged (prior 6 +- 1.5: two of a convolution, two of its norm, two of its activation), and times that with layer
/// norms (prior 1.3 +- 0.3) and without norms (prior 0.7 +- 0.2). Fitted by `benchmarks/images/fit.py`.
pub(super) const EAGER_ELEMENTS: f64 = 5.56;
const EAGER_LAYER_NORMS: f64 = 1.22;
const EAGER_NO_NORMS: f64 = 0.69;
/// Elements a token and hidden unit of the two sums with a shortcut in a layer of an encoder: each reads two and, normalised, writes one.
const SUM_ELEMENTS: f64 = 6.0;
/// The same where nothing is merged, in elements of 16 bits. AMP keeps the sums, and what norms compute, in 32: each of the two norms reads 2 and
/// writes 2, which the product after it has read and written once more in 16 bits (3); each sum reads 3 and writes 2; heads are put together
/// (2). Counted. The activation between the products reads and writes the width of the feed-forward block.
const EAGER_SUM_ELEMENTS: f64 = 26.0;
const EAGER_ACTIVATION_ELEMENTS: f64 = 2.0;

impl Replica<'_> {
    /// Nothing of a sample is kept after its pass.
    pub(super) fn held_once(&self) -> Result<ReplicaMemory, Infeasible> {
        let m = self.model;
        if m.kind == ModelKind::Diffusion {
            return self.held_for_pictures();
        }
        let weights = m.parameters * self.serving.weights.bytes();
        if m.kind.is_transformer() {
            let widest = 4.0 * f64::from(m.hidden) + m.mlp_matrices() * f64::from(m.ffn_hidden);
            return Ok(self.holding(weights, ENGINE_BYTES, 0.0, 2.0 * self.prompt * widest, MOST_SAMPLES));
        }
        // What training keeps of a sample is more than a forward pass holds at once.
        let sample = self.convolutions(1.0, false)?.kept * self.rates.element_bytes;
        Ok(self.holding(weights, ENGINE_BYTES, 0.0, sample, MOST_SAMPLES))
    }

    pub(super) fn is_eager(&self) -> bool {
        self.serving.engine == ServingEngine::PyTorch
    }

    /// `batch` samples from one end to the other.
    pub fn once(&self, batch: f64) -> Result<PassTime, Infeasible> {
        let host = PassTime { launch: HOST_SECONDS * self.launch_factor(), ..PassTime::default() };
        let kind = self.model.kind;
        if kind == ModelKind::Diffusion {
            return Ok(host.plus(self.pictures(batch)?, 1.0));
        }
        if !kind.is_transformer() {
            return if self.is_eager() {
                self.convolved_one_by_one(batch)
            } else {
                Ok(host.plus(self.convolved(batch)?, 1.0))
            };
        }
        if matches!(kind, ModelKind::Decoder | ModelKind::Moe) {
            return Ok(host.plus(self.stage_prompt(batch * self.prompt), self.stages()));
        }
        Ok(host.plus(self.encoded(batch), self.stages()))
    }

    /// `batch` samples through the layers of one stage of an encoder.
    pub(super) fn encoded(&self, batch: f64) -> PassTime {
        let stage = self.stage_prompt(batch * self.prompt);
        let elementwise = self.stage_layers() * self.sums(batch * self.prompt);
        let attention = stage.attention * self.activation_bytes / 2.0;
        PassTime { attention, elementwise, ..stage }
    }

    /// What no product of an encoder's layer takes in: sums with their layer norms, and gates, which meet two products.
    fn sums(&self, tokens: f64) -> f64 {
        let m = self.model;
        let (hidden, width) = (f64::from(m.hidden), f64::from(m.ffn_hidden));
        let gates = 3.0 * (m.mlp_matrices() - 2.0) * width;
        let sums = if self.is_eager() {
            EAGER_SUM_ELEMENTS * hidden + EAGER_ACTIVATION_ELEMENTS * width
        } else {
            SUM_ELEMENTS * hidden
        };
        let bytes = tokens * (sums + gates) * self.activation_bytes;
        bytes / self.rates.memory_bandwidth * self.factors.memory.at_size(bytes / 2.0).time
    }

    /// As an engine merges them.
    pub(super) fn convolved(&self, batch: f64) -> Result<PassTime, Infeasible> {
        let pass = self.convolutions(batch, false)?;
        // Of the forward and backward arithmetic that is fitted, a third is forward.
        let weights = self.model.parameters * self.activation_bytes / self.rates.memory_bandwidth;
        let traffic = pass.written * MERGED_ELEMENTS * self.activation_bytes / pass.bandwidth + weights;
        let (matmul, elementwise) = vision::overlapped(pass.arithmetic / 3.0, traffic);
        let launch = CONVOLUTION_KERNELS * KERNEL_SECONDS * self.launch_factor();
        Ok(PassTime { matmul, elementwise, launch, ..PassTime::default() })
    }

    /// As a framework runs them, channels-last.
    pub(super) fn convolved_one_by_one(&self, batch: f64) -> Result<PassTime, Infeasible> {
        let pass = self.convolutions(batch, true)?;
        let norms = match self.model.convolution_norm {
            ConvolutionNorm::Batch => 1.0,
            ConvolutionNorm::Layer => EAGER_LAYER_NORMS,
            ConvolutionNorm::None => EAGER_NO_NORMS,
        };
        let traffic = pass.written * EAGER_ELEMENTS * norms * self.rates.element_bytes / pass.bandwidth;
        let (matmul, elementwise) = vision::overlapped(pass.arithmetic / 3.0, traffic);
        let launch = (pass.host - matmul - elementwise).max(0.0);
        Ok(PassTime { matmul, elementwise, launch, ..PassTime::default() })
    }

    pub(super) fn convolutions(&self, batch: f64, channels_last: bool) -> Result<Pass, Infeasible> {
        let rates = self.factors.rates(self.rates);
        vision::pass(self.constants, self.model, self.training, &rates, batch, channels_last)
            .map_err(|error| Infeasible::Unsupported { detail: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::serving::load::tests::{on, workload};

    /// Figures that engines published; nothing is fitted on them.
    static PUBLISHED: &str = include_str!("../../../benchmarks/serving/one_pass.csv");
    static IMAGES: &str = include_str!("../../../benchmarks/images/published.csv");

    /// Predicted over measured rate by engine, kind of model and format, and a line for each row.
    fn compared() -> (BTreeMap<String, Vec<f64>>, String) {
        let mut ratios: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let mut said = String::new();
        let mut reader = csv::Reader::from_reader(PUBLISHED.as_bytes());
        for row in reader.records().map(Result::unwrap) {
            let (engine, model, gpu, weights, tokens) = (&row[0], &row[2], &row[3], &row[4], &row[5]);
            let amount = if tokens.is_empty() {
                "images_per_second = 1".to_owned()
            } else {
                format!("requests_per_second = 1\nprompt_tokens = {tokens}\nanswer_tokens = 0")
            };
            let workload = workload(&format!("{amount}\nweights = \"{weights}\""), model);
            let value: f64 = row[8].parse().unwrap();
            let (seconds, batch) = on(gpu, 1, &workload, |flow| match row[6].parse::<f64>() {
                Ok(batch) => (flow.state(batch).unwrap().pass_seconds, batch),
                Err(_) => (1.0 / flow.full().unwrap().requests_per_second, 1.0),
            });
            let measured = if &row[7] == "seconds_per_batch" { batch / value } else { value };
            let ratio = batch / seconds / measured;
            let size = if &row[6] == "1" { "alone" } else { "batch" };
            said.push_str(&format!(
                "{engine} {model} {gpu} {weights} {tokens} {size} {}: {:+.0} %\n",
                &row[6],
                (ratio - 1.0) * 100.0
            ));
            ratios
                .entry(format!("{engine} {} {weights} {size}", model.split('-').next().unwrap()))
                .or_default()
                .push(ratio);
        }
        (ratios, said)
    }

    /// The bounds are what was found. The nets that Paddle runs are copied to the GPU within the time, which the estimate leaves
    /// out, so it has to be faster.
    #[test]
    fn engines_do_about_what_was_published() {
        let (ratios, said) = compared();
        let error = |group: &str| {
            ratios[group].iter().map(|ratio| (ratio - 1.0).abs()).sum::<f64>() / ratios[group].len() as f64
        };
        let bounds = [
            ("tensorrt bert bf16 batch", 0.07),
            ("tensorrt bert int8 batch", 0.10),
            ("tensorrt bert bf16 alone", 0.12),
            ("tensorrt bert int8 alone", 0.21),
            ("triton bert bf16 batch", 0.31),
            ("triton bert bf16 alone", 0.38),
            ("mlperf bert int8 batch", 0.09),
            ("mlperf bert fp8 batch", 0.14),
            ("mlperf resnet int8 batch", 0.29),
            ("tensorrt resnet bf16 batch", 0.27),
            ("tensorrt resnet int8 alone", 0.27),
        ];
        let line = |group: &String| format!("{group}: {} rows, {:.1} %", ratios[group].len(), error(group) * 100.0);
        let lines = ratios.keys().map(line).collect::<Vec<String>>().join("\n");
        println!("{said}{lines}");
        for (group, most) in bounds {
            assert!(error(group) <= most, "{group}: {:.3}\n{said}{lines}", error(group));
        }
        assert!(
            ratios
                .iter()
                .filter(|(group, _)| group.starts_with("paddle"))
                .all(|(_, ratios)| ratios.iter().all(|ratio| *ratio > 1.0))
        );
    }

    /// Rates of PyTorch in 16 bits (`benchmarks/images`), at the sizes that the catalog has: the error in the median, of nets and of transformers.
    #[test]
    fn pytorch_does_about_what_was_published() {
        let models = gpuplan_workload::Models::embedded().unwrap();
        let mut errors: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut said = String::new();
        let mut reader = csv::Reader::from_reader(IMAGES.as_bytes());
        for row in reader.records().map(Result::unwrap) {
            let (model, gpu, batch) = (&row[3], &row[4], row[8].parse::<f64>().unwrap());
            let known = models.find(model).unwrap().to_model();
            if &row[1] != "infer" || &row[6] != "amp-fp16" || known.sample_side.to_string() != row[9] {
                continue;
            }
            let workload = workload("images_per_second = 1\nengine = \"pytorch\"", model);
            let seconds = on(gpu, 1, &workload, |flow| flow.state(batch).unwrap().pass_seconds);
            let ratio = batch / seconds / row[10].parse::<f64>().unwrap();
            said.push_str(&format!("{model} {gpu} {batch}: {:+.0} %\n", (ratio - 1.0) * 100.0));
            let kind = if known.kind.is_transformer() { "transformers" } else { "nets" };
            errors.entry(kind).or_default().push((ratio - 1.0).abs());
        }
        for (kind, most) in [("nets", 0.15), ("transformers", 0.24)] {
            let errors = errors.get_mut(kind).unwrap();
            errors.sort_by(f64::total_cmp);
            let median = errors[errors.len() / 2];
            println!("{kind}: {} rows, median {:.1} %\n{said}", errors.len(), median * 100.0);
            assert!(median <= most, "{kind}: {median:.3}\n{said}");
        }
    }

    #[test]
    fn eight_bits_are_faster_where_the_gpu_has_them_and_nowhere_slower() {
        for (model, load) in [
            ("resnet-50", "images_per_second = 1"),
            ("bert-large", "requests_per_second = 1\nprompt_tokens = 128\nanswer_tokens = 0"),
        ] {
            let most = |gpu: &str, format: &str| {
                let workload = workload(&format!("{load}\nweights = \"{format}\""), model);
                on(gpu, 1, &workload, |flow| flow.full().unwrap().requests_per_second)
            };
            for gpu in ["t4", "a100-sxm4-80", "h100-sxm5-80"] {
                assert!(most(gpu, "int8") > 1.4 * most(gpu, "bf16"), "{model} on {gpu}");
            }
            // A V100 has no such units.
            let (plain, stored) = (most("v100-sxm2-16", "bf16"), most("v100-sxm2-16", "int8"));
            assert!((stored / plain - 1.0).abs() < 0.02, "{model}: {plain} {stored}");
        }
    }
}
