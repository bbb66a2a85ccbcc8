//! Diffusion models: prompts are read, the network runs once or twice in every step, and the latent image is decoded.
//!
//! Each of the three runs as such networks do elsewhere: text encoders and transformers as encoders that answer in one pass, the decoder as a net of
//! convolutions, a U-Net with the rates and the traffic of its training.

use crate::constants::DECODER_LAYER_OPERATORS;
use crate::device::DeviceRates;
use crate::misfit::Infeasible;
use crate::serving::one_pass::{EAGER_ELEMENTS, MERGED_ELEMENTS, MOST_SAMPLES};
use crate::serving::{ENGINE_BYTES, KERNEL_SECONDS, PassTime, Replica, ReplicaMemory};
use crate::time::{gemm, vision};
use gpuplan_workload::model::pipeline::networks::decoder;
use gpuplan_workload::model::pipeline::u_net::WEIGHTS_OF_3X3;
use gpuplan_workload::model::pipeline::{CLIP_TOKENS, Pipeline, UNet};
use gpuplan_workload::{Gemm, Model, Sampling, Serving, StoredFormat, Training};

/// Forward FLOPs of the U-Net whose training the constants of diffusion were fitted on, Stable Diffusion 2 at a side of 256 (catalogs/models.toml,
/// a quarter of those at 512). What a step of that training takes beyond three times as many belongs to its encoders.
const FITTED_FORWARD_FLOPS: f64 = 804.257e9 / 4.0;
/// Elements a token and hidden unit of a transformer's layer that are left where operators are merged: two norms with their scales read and
/// write once (4), norms and rotations of queries and keys once (4), values are put beside those of the prompt (2), two gated sums read two and
/// write one (6). The activation is merged into its product, as engines do. Counted.
const MERGED_LAYER_ELEMENTS: f64 = 16.0;
/// Kernels that are left of so many operators where they are merged: 410 of 920 and 1,130 of 2,360 of the U-Nets of Stable Diffusion 1.5 and XL (five of
/// a residual block, fourteen of a layer, three around layers). Counted.
const MERGED_KERNELS: f64 = 0.46;
/// Elements of a decoded pixel that are held at once: four tensors of 256 channels in the first block at full size. Counted.
const DECODER_HELD: f64 = 4.0 * 256.0;
/// Bytes of an element in 16 bits, in which everything beside the network stays.
const HALF: f64 = 2.0;

impl Replica<'_> {
    fn sampling(&self) -> Result<Sampling, Infeasible> {
        let missing =
            || Infeasible::Unsupported { detail: "nobody says in how many steps an image is made".to_owned() };
        self.serving.images.ok_or_else(missing)
    }

    /// Weights of all networks, which stay on the GPU, and what the largest of them holds for an image.
    pub(super) fn held_for_pictures(&self) -> Result<ReplicaMemory, Infeasible> {
        let asked = self.sampling()?;
        let texts = self.model.pipeline.iter().flat_map(|pipeline| &pipeline.text_encoders);
        let beside: f64 = texts.map(|encoder| encoder.model().parameters).sum::<f64>() + decoder().parameters;
        let weights = self.model.parameters * self.serving.weights.bytes() + beside * HALF;
        let decoded = DECODER_HELD * f64::from(asked.side).powi(2) * HALF;
        let network =
            self.model.pipeline.as_ref().filter(|pipeline| pipeline.is_transformer()).map_or(0.0, |pipeline| {
                let widest = (4.0 + 2.0 * 4.0) * f64::from(pipeline.hidden);
                asked.passes_a_step() * pipeline.tokens(f64::from(asked.side)) * widest * HALF
            });
        let most = asked.batch.unwrap_or(MOST_SAMPLES);
        Ok(self.holding(weights, ENGINE_BYTES, 0.0, decoded.max(network), most))
    }

    /// `batch` images from their prompts to their pixels.
    pub(super) fn pictures(&self, batch: f64) -> Result<PassTime, Infeasible> {
        let asked = self.sampling()?;
        let steps = self.denoised(batch)?;
        Ok(self.read_prompts(batch * asked.passes_a_step())?.plus(steps, 1.0).plus(self.decoded(batch)?, 1.0))
    }

    /// All steps of `batch` images.
    pub(super) fn denoised(&self, batch: f64) -> Result<PassTime, Infeasible> {
        let asked = self.sampling()?;
        let passes = batch * asked.passes_a_step();
        let known = self.model.pipeline.as_ref();
        let step = match known.and_then(|pipeline| pipeline.u_net.as_ref()) {
            Some(u_net) => self.by_u_net(u_net, passes, asked),
            None => match known.filter(|pipeline| pipeline.is_transformer()) {
                Some(pipeline) => self.transformed(pipeline, passes, f64::from(asked.side)),
                None => self.by_operations(passes)?,
            },
        };
        let operators = known.map_or(0.0, |pipeline| pipeline.operators);
        let step = if self.is_eager() {
            self.launched_one_by_one(step, operators)
        } else {
            let launch = MERGED_KERNELS * operators * KERNEL_SECONDS * self.launch_factor();
            PassTime { launch: step.launch.max(launch), ..step }
        };
        Ok(PassTime::default().plus(step, f64::from(asked.steps)))
    }

    /// Another network of the same replica.
    pub(super) fn part<'b>(
        &'b self,
        model: &'b Model,
        training: &'b Training,
        serving: &'b Serving,
        rates: DeviceRates,
    ) -> Replica<'b> {
        let prompt = f64::from(training.sequence_length);
        let activation_bytes = if serving.weights == self.serving.weights { self.activation_bytes } else { HALF };
        Replica { model, training, serving, rates, prompt, activation_bytes, measured: None, ..*self }
    }

    /// What stands beside the network keeps 16 bits.
    fn beside(&self) -> (Serving, DeviceRates) {
        let serving = Serving { weights: StoredFormat::Bf16, ..*self.serving };
        let precision = gpuplan_workload::Precision::Bf16;
        (serving, DeviceRates::new(self.machine.gpu, precision, self.machine.card_share, self.constants))
    }

    fn read_prompts(&self, prompts: f64) -> Result<PassTime, Infeasible> {
        let (serving, rates) = self.beside();
        let Some(pipeline) = &self.model.pipeline else { return Ok(PassTime::default()) };
        let mut all = PassTime::default();
        for encoder in &pipeline.text_encoders {
            let (model, tokens) = (encoder.model(), encoder.tokens(pipeline.prompt_tokens));
            let training = Training { sequence_length: tokens as u32, ..self.training.clone() };
            all = all.plus(self.part(&model, &training, &serving, rates).once(prompts)?, 1.0);
        }
        Ok(all)
    }

    fn decoded(&self, images: f64) -> Result<PassTime, Infeasible> {
        let (serving, rates) = self.beside();
        let model = decoder();
        let part = self.part(&model, self.training, &serving, rates);
        if self.is_eager() { part.convolved_one_by_one(images) } else { part.convolved(images) }
    }

    /// One step of a transformer. Its operations are those of the catalog, where its layers leave something out.
    fn transformed(&self, pipeline: &Pipeline, passes: f64, side: f64) -> PassTime {
        let model = pipeline.transformer();
        let counted = |side: f64| model.training_flops_per_sample(pipeline.tokens(side)) / 3.0;
        let native = f64::from(self.model.sample_side);
        let left_out = (self.model.forward_flops_per_sample / counted(native)).max(1.0);
        let tokens = pipeline.tokens(side);
        let training = Training { sequence_length: tokens as u32, ..self.training.clone() };
        let part = self.part(&model, &training, self.serving, self.rates);
        let stage = part.stage_prompt(passes * tokens);
        let elements = if self.is_eager() { pipeline.eager_elements } else { MERGED_LAYER_ELEMENTS };
        let width = f64::from(pipeline.layers) * f64::from(pipeline.hidden);
        let bytes = passes * tokens * elements * width * HALF;
        let elementwise = bytes / self.rates.memory_bandwidth * self.factors.memory.at_size(bytes / 2.0).time;
        let step =
            PassTime { matmul: stage.matmul * left_out, attention: stage.attention * left_out, elementwise, ..stage };
        if self.is_eager() { self.launched_one_by_one(step, pipeline.operators) } else { step }
    }

    /// One step of a U-Net. Convolutions are as much slower than products of their size as those of nets are.
    fn by_u_net(&self, u_net: &UNet, passes: f64, asked: Sampling) -> PassTime {
        let work = u_net.work(f64::from(asked.side), f64::from(CLIP_TOKENS));
        let of_convolutions =
            DeviceRates { matmul: self.rates.matmul * self.constants.convolution_share, ..self.rates };
        let seconds = |products: &[Gemm], rates: &DeviceRates, width: f64| -> f64 {
            let one = |product: &Gemm| {
                let product = Gemm { m: product.m * passes, ..*product };
                let weights = product.k * product.n * self.serving.weights.bytes();
                let bytes = weights + product.m * (product.k / width + product.n) * self.activation_bytes;
                let memory = product.count * bytes / rates.memory_bandwidth * self.factors.memory.at_size(bytes).time;
                let arithmetic = gemm::bounds(product, rates).0;
                (arithmetic * self.factors.compute.at_size(product.flops()).time).max(memory)
            };
            products.iter().map(one).sum()
        };
        let matmul =
            seconds(&work.convolutions, &of_convolutions, WEIGHTS_OF_3X3) + seconds(&work.products, &self.rates, 1.0);
        let scores = work.attention * passes;
        let attention = scores / self.rates.flash * self.factors.compute.at_size(scores).time;
        let bytes = passes * HALF * if self.is_eager() { work.eager } else { work.merged };
        let elementwise = bytes / self.rates.memory_bandwidth * self.factors.memory.at_size(bytes / 2.0).time;
        PassTime { matmul, attention, elementwise, ..PassTime::default() }
    }

    /// One step of what is known by its operations alone, as U-Nets are trained.
    fn by_operations(&self, passes: f64) -> Result<PassTime, Infeasible> {
        let pass = self.convolutions(passes, !self.is_eager())?;
        let own = 3.0 * FITTED_FORWARD_FLOPS / self.constants.diffusion_flops;
        let arithmetic = (pass.arithmetic * own / 3.0).max(pass.least / 3.0);
        if self.is_eager() {
            let step = PassTime { matmul: arithmetic, elementwise: pass.traffic / 3.0, ..PassTime::default() };
            let launch = (pass.host / 3.0 - step.total()).max(0.0);
            return Ok(PassTime { launch, ..step });
        }
        let weights = self.model.parameters * self.serving.weights.bytes() / self.rates.memory_bandwidth;
        let traffic = pass.traffic / 3.0 * MERGED_ELEMENTS / EAGER_ELEMENTS + weights;
        let (matmul, elementwise) = vision::overlapped(arithmetic, traffic);
        Ok(PassTime { matmul, elementwise, ..PassTime::default() })
    }

    /// Every kernel begins and ends. The host launches ahead, and is waited for where the GPU is faster.
    fn launched_one_by_one(&self, step: PassTime, operators: f64) -> PassTime {
        let host = operators / DECODER_LAYER_OPERATORS * self.constants.launch_seconds * self.rates.host_time;
        self.launched(step, operators, host)
    }

    /// The same where the host takes so long to launch them all.
    pub(super) fn launched(&self, step: PassTime, operators: f64, host: f64) -> PassTime {
        let kernels = operators * KERNEL_SECONDS * self.launch_factor();
        let busy = PassTime { launch: 0.0, ..step }.total();
        PassTime { launch: (host - busy).max(kernels).max(step.launch), ..step }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::band::{Regime, time_band};
    use crate::measurements::correction::Certainty;
    use crate::serving::load::tests::{on, on_replica, workload};
    use crate::serving::round::doubts;
    use gpuplan_workload::model::pipeline::{Makes, Pipeline};
    use gpuplan_workload::{Models, Workload};

    /// Figures that were written down before the estimate was run on any of them; nothing is fitted on them.
    static PUBLISHED: &str = include_str!("../../../benchmarks/serving/images.csv");

    /// `compiled` code and ONNX Runtime merge operators as engines do.
    fn asked(model: &str, engine: &str, weights: &str, side: &str, steps: &str, guidance: bool) -> Workload {
        let engine = if engine == "pytorch" { "pytorch" } else { "tensorrt" };
        let serving = format!(
            "images_per_second = 1\nengine = \"{engine}\"\nweights = \"{weights}\"\nsteps = {steps}\nguidance = {guidance}\nresolution = {side}"
        );
        workload(&serving, model)
    }

    fn median(values: &mut [f64]) -> f64 {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    /// The bounds are what was found.
    #[test]
    fn images_take_about_as_long_as_was_published() {
        let (mut errors, mut inside, mut said) = (Vec::new(), 0, String::new());
        let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let mut reader = csv::Reader::from_reader(PUBLISHED.as_bytes());
        for row in reader.records().map(Result::unwrap) {
            let (model, gpu, engine, what) = (&row[0], &row[1], &row[2], &row[8]);
            let (batch, measured) = (row[7].parse::<f64>().unwrap(), row[9].parse::<f64>().unwrap());
            let workload = asked(model, engine, &row[3], &row[4], &row[5], &row[6] == "1");
            let (seconds, half) = on_replica(gpu, 1, &workload, |replica| {
                let time = if what == "image" { replica.once(batch) } else { replica.denoised(batch) };
                let band = time_band(Regime::Vision, doubts(&replica), Certainty::default(), None);
                (time.unwrap().total(), band.1)
            });
            let ratio = seconds / measured;
            inside += u32::from(ratio.ln().abs() <= half.ln());
            errors.push((ratio - 1.0).abs());
            said.push_str(&format!(
                "{model} {gpu} {engine} {} {batch} {what}: {:+.0} % (x{half:.2})\n",
                &row[3],
                (ratio - 1.0) * 100.0
            ));
            let family =
                if model.starts_with("stable-diffusion-3") || model.starts_with("flux") { "dit" } else { "unet" };
            let alone = if batch == 1.0 { "alone" } else { "batch" };
            let merged = if engine == "pytorch" { "eager" } else { "merged" };
            for group in
                [format!("{family} {merged} {alone}"), format!("source {}", &row[10][..24]), format!("gpu {gpu}")]
            {
                groups.entry(group).or_default().push(ratio);
            }
        }
        for (group, ratios) in &mut groups {
            let bias = median(ratios);
            let mut off: Vec<f64> = ratios.iter().map(|ratio| (ratio - 1.0).abs()).collect();
            said.push_str(&format!(
                "{group}: {} rows, median ratio {bias:.2}, error {:.1} %\n",
                ratios.len(),
                median(&mut off) * 100.0
            ));
        }
        let share = f64::from(inside) / errors.len() as f64;
        let middle = median(&mut errors);
        println!("{said}{} rows, median {:.1} %, {:.0} % inside the band", errors.len(), middle * 100.0, share * 100.0);
        assert!(errors.len() >= 70);
        assert!(middle <= 0.30 && share >= 0.70, "{middle:.3} {share:.2}\n{said}");
    }

    /// No image takes less than its operations at the peak of the card.
    #[test]
    fn no_image_is_faster_than_the_peak() {
        let models = Models::embedded().unwrap();
        let mut seen = 0;
        let is_served = |known: &Pipeline| known.steps.is_some() && known.makes == Makes::Pictures;
        for row in models.rows().iter().filter(|row| row.pipeline.as_ref().is_some_and(is_served)) {
            for gpu in [
                "t4",
                "v100-sxm2-16",
                "a10g",
                "l4",
                "l40s",
                "a100-sxm4-80",
                "h100-sxm5-80",
                "b200-sxm-180",
                "rtx-4090",
                "mi300x",
            ] {
                for (engine, weights) in
                    [("pytorch", "bf16"), ("tensorrt", "bf16"), ("tensorrt", "fp8"), ("tensorrt", "int8")]
                {
                    for batch in [1.0, 8.0] {
                        let workload = asked(&row.id, engine, weights, "1024", "7", true);
                        let (seconds, peak) = on_replica(gpu, 1, &workload, |replica| {
                            let seconds = replica.denoised(batch).unwrap().total();
                            let peak = replica.rates.peak;
                            (seconds, if replica.rates.on_vector_units { peak.max(replica.rates.vector) } else { peak })
                        });
                        let model = row.to_model();
                        let native = (1024.0 / f64::from(model.sample_side)).powi(2);
                        let flops = model.forward_flops_per_sample * native.min(1.0) * 14.0 * batch;
                        assert!(seconds >= flops / peak, "{} {gpu} {engine} {weights}: {seconds}", row.id);
                        seen += 1;
                    }
                }
            }
        }
        assert!(seen >= 500, "{seen}");
    }

    #[test]
    fn images_wait_for_each_other() {
        let asked = "images_per_second = 1\nsteps = 28\nguidance = false\nbatch = 1\ntime_to_first_token = \"8s\"";
        let workload = workload(asked, "flux.1-dev");
        on("h100-sxm5-80", 1, &workload, |flow| {
            let (most, full) = (flow.most().unwrap(), flow.full().unwrap());
            // A target of about two images leaves less to a copy than four fifths of what it can do.
            let share = most.requests_per_second / full.requests_per_second;
            assert!(most.first_token.p90 <= 8.0 && (0.2..0.7).contains(&share), "{most:?} {share}");
            let idle = flow.under(1e-4).unwrap();
            assert!((idle.first_token.p90 / flow.alone - 1.0).abs() < 0.01, "{idle:?}");
            // At four fifths nine of ten wait for five images: ln(8) / 0.4.
            let busy = flow.under(0.8 * full.requests_per_second).unwrap();
            assert!((busy.first_token.p90 / flow.alone - 6.2).abs() < 0.1, "{busy:?}");
            assert!(full.first_token.p90.is_finite());
        });
    }

    #[test]
    fn more_of_anything_takes_longer_and_a_card_holds_all_networks() {
        let seconds = |steps: &str, guidance: bool, side: &str| {
            let workload = asked("flux.1-dev", "tensorrt", "bf16", side, steps, guidance);
            on_replica("h100-sxm5-80", 1, &workload, |replica| replica.once(1.0).unwrap().total())
        };
        assert!(seconds("50", false, "1024") > 1.9 * seconds("25", false, "1024"));
        assert!(seconds("25", true, "1024") > 1.8 * seconds("25", false, "1024"));
        assert!(seconds("25", false, "1024") > 2.0 * seconds("25", false, "512"));
        let workload = asked("flux.1-dev", "tensorrt", "bf16", "1024", "50", false);
        let held = on_replica("h100-sxm5-80", 1, &workload, |replica| replica.held_once().unwrap());
        // 34.7 GB at their peak on an L40S (PrunaAI/pruna, README, FLUX.1-dev in 16 bits).
        let all = held.weights + held.sequence;
        assert!((33e9..38e9).contains(&all) && held.sequences > 1, "{held:?}");
    }
}
