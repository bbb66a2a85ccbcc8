//! `Subject`: a model in training on a kind of machine; `estimate` answers for one setting.

use crate::band::{Regime, time_band};
use crate::constants::Constants;
use crate::device::DeviceRates;
use crate::doubts::Doubts;
use crate::loading::feeding::{InputLimit, InputPipeline};
use crate::machine::Machine;
use crate::measurements::correction::{Certainty, Correction, Factors};
use crate::measurements::own_runs::Experience;
use crate::memory::{MemoryBreakdown, MemoryInput};
use crate::misfit::Infeasible;
use crate::possible;
use crate::serving::ServingEstimate;
use crate::setting::Setting;
use crate::time::breakdown::{Bound, TimeBreakdown};
use crate::time::diffusion::Denoiser;
use crate::time::input::{Products, StepInput};
use crate::time::kernels::RecipeKernels;
use crate::time::vision;
use crate::unfamiliar::LAUNCHES;
use gpuplan_hardware::{Architecture, Gpu};
use gpuplan_units::Band;
use gpuplan_workload::{Model, ModelKind, Precision, Shard, Task, Training};

/// A step that waits longer than this part of it for samples is bound by them.
const INPUT_SHARE: f64 = 0.1;
/// Published runs on more GPUs than these are of one source (arXiv 2407.21783).
const MOST_COVERED_GPUS: u32 = 2048;
/// Most published runs are of software of this year and later.
const FIRST_COVERED_YEAR: u32 = 2023;

/// One step of one setting.
#[derive(Clone, Debug, PartialEq)]
pub struct StepEstimate {
    pub setting: Setting,
    pub time: TimeBreakdown,
    pub memory: MemoryBreakdown,
    pub fits: bool,
    pub bound: Bound,
    pub regime: Regime,
    pub doubts: Doubts,
    pub certainty: Certainty,
    /// How its machines bring the samples; `None` where nobody looked or could tell.
    pub feeding: Option<InputPipeline>,
    /// What finished runs of this user say; the times have it in them.
    pub experience: Option<Experience>,
    /// For a model that is served: what people who wait see. A step is then a round: every running sequence from prompt to answer.
    pub served: Option<ServingEstimate>,
}

/// Rate of fp8 over that of mxfp8 on a card where they differ, for fp8 with a scale for every block of weights: those are multiplied in plain
/// fp8, and scaled when they are summed.
fn plain_share(gpu: &Gpu, training: &Training) -> Option<f64> {
    let in_blocks = training.precision == Precision::Fp8 && training.timed_as() == Precision::Mxfp8;
    let (plain, scaled) = (gpu.peak_tflops.fp8?, gpu.peak_tflops.mxfp8?);
    in_blocks.then_some(plain / scaled)
}

/// Physics of one workload on one kind of machine, prepared once and asked for many settings.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub constants: &'a Constants,
    pub model: &'a Model,
    pub training: &'a Training,
    pub machine: Machine<'a>,
    pub rates: DeviceRates,
    /// Measured kernels of this GPU in this recipe, where there are any.
    kernels: Option<RecipeKernels>,
    /// What measurements change in what `rates` and the link of `machine` give.
    factors: Factors<'a>,
    /// What finished runs of this user say of this program here.
    experience: Option<Experience>,
    /// Tokens of a sequence as the layers see them; patches of an image.
    pub sequence: f64,
}

impl<'a> Subject<'a> {
    /// With the constants of the last fit.
    pub fn new(model: &'a Model, training: &'a Training, machine: Machine<'a>) -> Self {
        Self::with(Constants::embedded(), model, training, machine)
    }

    pub fn with(constants: &'a Constants, model: &'a Model, training: &'a Training, machine: Machine<'a>) -> Self {
        let precision = training.timed_as();
        let mut rates = DeviceRates::new(machine.gpu, precision, machine.card_share, constants)
            .at(machine.power_share(), constants);
        let mut kernels = RecipeKernels::new(machine.gpu, precision, machine.card_share, constants);
        if let Some(share) = plain_share(machine.gpu, training) {
            (rates.matmul, kernels) = (rates.matmul * share, None);
        }
        let factors = Factors::unmeasured();
        Self {
            constants,
            model,
            training,
            machine,
            rates,
            kernels,
            factors,
            experience: None,
            sequence: f64::from(training.sequence_length),
        }
    }

    /// The same with what was measured, here or on another GPU.
    pub fn corrected(self, correction: &'a Correction) -> Self {
        let experience = correction.own_runs().map(|runs| runs.experience(self.machine.gpu, self.model, self.training));
        let factors = correction.for_gpu(self.machine.gpu);
        Self { machine: factors.measured_from(self.machine), factors, experience, ..self }
    }

    /// Whether the GPU has units for the precision, which no setting changes.
    pub fn has_units(&self) -> Result<(), Infeasible> {
        possible::kernels(self.machine.gpu, self.training).map_err(|detail| Infeasible::Unsupported { detail })
    }

    /// Memory and time of one setting, whether or not it fits.
    pub fn estimate(&self, setting: &Setting) -> Result<StepEstimate, Infeasible> {
        self.estimate_with(setting, None)
    }

    /// One of many settings: what they have in common is worked out once and kept in `products`, which is of this subject alone.
    pub fn estimate_among(&self, setting: &Setting, products: &Products) -> Result<StepEstimate, Infeasible> {
        self.estimate_with(setting, Some(products))
    }

    fn estimate_with(&self, setting: &Setting, products: Option<&Products>) -> Result<StepEstimate, Infeasible> {
        possible::check(self.machine.gpu, self.model, self.training, setting)?;
        let made = if self.model.kind.is_transformer() {
            self.transformer(setting, products)
        } else if let Some(denoiser) = Denoiser::from_model(self.model, self.training) {
            self.denoiser(&denoiser, setting, products)
        } else {
            self.vision(setting)?
        };
        Ok(made.known_by(self.experience))
    }

    /// Memory alone: a tenth of the work, so searches ask it first.
    pub fn memory(&self, setting: &Setting) -> MemoryBreakdown {
        if let Some(denoiser) = Denoiser::from_model(self.model, self.training) {
            return denoiser.complete(self.layers_of(&denoiser).memory(setting), setting);
        }
        let held =
            MemoryInput { model: self.model, training: self.training, setting, sequence: self.sequence }.breakdown();
        let held = held.beside_frozen(self.training, self.model, setting);
        let kept = vision::kept(self.constants, self.model, self.training, &self.rates, setting);
        MemoryBreakdown { activations: held.activations + kept, ..held.fuller(kept, vision::RESERVED) }
    }

    /// A diffusion transformer by its layers, on the same machine.
    fn layers_of<'b>(&'b self, denoiser: &'b Denoiser) -> Subject<'b> {
        Subject { model: &denoiser.model, training: &denoiser.training, sequence: denoiser.tokens, ..*self }
    }

    fn denoiser(&self, denoiser: &Denoiser, setting: &Setting, products: Option<&Products>) -> StepEstimate {
        let layers = self.layers_of(denoiser);
        let made = layers.transformer(setting, products);
        let rates = layers.launching();
        let encoding = denoiser.encoding(&layers.step_input(&rates, setting, None), self.training.sequence_length);
        let time = encoding.map_or(made.time, |encoding| encoding.followed_by(&made.time, 0.0));
        let memory = denoiser.complete(made.memory, setting);
        // No constant has seen a run of a trainer of such models.
        let doubts = Doubts { structure: true, framework: true, ..self.doubts(setting) };
        StepEstimate { time, bound: time.bound(), memory, fits: memory.fits(&self.machine), doubts, ..made }
    }

    /// Rates with what measurements say of the host.
    fn launching(&self) -> DeviceRates {
        DeviceRates { host_time: self.rates.host_time * self.factors.launch.overall().time, ..self.rates }
    }

    fn step_input<'b>(
        &'b self,
        rates: &'b DeviceRates,
        setting: &'b Setting,
        products: Option<&'b Products>,
    ) -> StepInput<'b> {
        StepInput {
            constants: self.constants,
            model: self.model,
            training: self.training,
            machine: &self.machine,
            rates,
            kernels: self.kernels.as_ref(),
            factors: &self.factors,
            setting,
            products,
            sequence: self.sequence,
        }
    }

    fn transformer(&self, setting: &Setting, products: Option<&Products>) -> StepEstimate {
        let rates = self.launching();
        let alone = self.step_input(&rates, setting, products);
        let stacks = self.model.stacks(self.sequence);
        let (input, encoder) = match &stacks {
            None => (alone, None),
            Some([(encoder, encoder_tokens), (decoder, _)]) => (
                StepInput { model: decoder, ..alone },
                // The products of a setting are those of one stack.
                Some(StepInput { model: encoder, sequence: *encoder_tokens, products: None, ..alone }),
            ),
        };
        let time = input.time();
        // Whoever decodes has encoded already.
        let time = match encoder.filter(|_| self.training.task != Task::Inference) {
            None => time,
            Some(encoder) => {
                // A micro-step is begun once, and not by each stack.
                let begun = setting.rank_batches() * self.constants.micro_step_seconds * rates.host_time;
                encoder.time().followed_by(&time, begun)
            }
        };
        let time = self.frozen_passes(&input).map_or(time, |frozen| frozen.followed_by(&time, 0.0));
        let memory = self.memory(setting);
        let regime = Regime::classify(self.model.kind, self.training, setting.layout.pipeline, &time);
        StepEstimate {
            setting: *setting,
            time,
            fits: memory.fits(&self.machine),
            memory,
            bound: time.bound(),
            regime,
            doubts: Doubts { launches: time.launch_ratio > LAUNCHES, ..self.doubts(setting) },
            certainty: self.factors.certainty(&time, self.is_over_link(setting), |class| input.corrected(class, &time)),
            feeding: None,
            experience: None,
            served: None,
        }
    }

    /// What a step reads without gradients for its objective, as a reference or a teacher. Weights are gathered for it where they are
    /// sharded, and nothing is reduced.
    fn frozen_passes(&self, trained: &StepInput) -> Option<TimeBreakdown> {
        let passes = self.training.objective.frozen_passes();
        if passes <= 0.0 {
            return None;
        }
        let training = self.training.frozen();
        let model = training.teacher.as_deref().unwrap_or(self.model);
        let time = StepInput { model, training: &training, products: None, ..*trained }.time();
        let gathers = matches!(trained.setting.layout.shard, Shard::Zero3 | Shard::Hsdp);
        let reduced = if gathers { 0.0 } else { time.data_parallel };
        let one = TimeBreakdown { data_parallel: time.data_parallel - reduced, total: time.total - reduced, ..time };
        Some(one.scaled(passes))
    }

    fn vision(&self, setting: &Setting) -> Result<StepEstimate, Infeasible> {
        // Convolutions are not taken apart here, so each class has one factor for every size.
        let (rates, machine) = (self.factors.rates(self.rates), self.factors.machine(self.machine));
        let step = vision::step(self.constants, self.model, self.training, &machine, &rates, setting)
            .map_err(|error| Infeasible::Unsupported { detail: error.to_string() })?;
        let time = TimeBreakdown {
            matmul: step.arithmetic,
            elementwise: step.traffic,
            launch: step.host,
            data_parallel: step.reduction,
            optimizer: step.optimizer,
            input: step.input_wait,
            total: step.total,
            ..TimeBreakdown::default()
        };
        let memory = self.memory(setting);
        let bound = if time.input > INPUT_SHARE * time.total { Bound::Input } else { time.bound() };
        Ok(StepEstimate {
            setting: *setting,
            time,
            fits: memory.fits(&self.machine),
            memory,
            bound,
            regime: Regime::Vision,
            doubts: self.doubts(setting),
            certainty: self
                .factors
                .certainty(&time, self.is_over_link(setting), |class| self.factors.for_class(class).overall()),
            feeding: None,
            experience: None,
            served: None,
        })
    }

    /// Its GPUs reach each other without a network.
    fn is_over_link(&self, setting: &Setting) -> bool {
        let gpus = setting.gpus();
        gpus <= self.machine.link_domain(gpus)
    }

    fn doubts(&self, setting: &Setting) -> Doubts {
        let architecture = self.machine.gpu.architecture;
        let layout = &setting.layout;
        let kind = self.model.kind;
        let names_no_stack = self.training.framework.is_open() && self.training.task.has_backward();
        Doubts {
            framework: !names_no_stack && !self.constants.framework(self.training.framework.id()).fitted,
            stack: names_no_stack,
            // Whoever asks for a setting states it; `cases::defaults` chooses.
            setting: false,
            gpu: matches!(architecture, Architecture::BlackwellRtx | Architecture::Turing | Architecture::Cdna2)
                || self.machine.gpu.is_assumed(),
            vendor: architecture.is_amd() || self.machine.gpu.is_assumed(),
            experts: kind == ModelKind::Moe || self.model.experts.is_some(),
            context: layout.context > 1,
            eight_bits: self.training.precision.is_eight_bit_or_less(),
            structure: layout.expert > 1
                || self.training.objective.frozen_passes() > 0.0
                || matches!(kind, ModelKind::Encdec | ModelKind::MoeEncdec | ModelKind::Vit),
            scale: setting.gpus() > MOST_COVERED_GPUS,
            block_scaling: matches!(self.training.timed_as(), Precision::Mxfp8 | Precision::Nvfp4),
            age: !self.training.is_since(FIRST_COVERED_YEAR),
            shape: self.model.shape_is_guessed,
            training: self.training.task.has_backward(),
            library: self.training.framework.is_library(),
            images: kind == ModelKind::Vit,
            launches: false,
        }
    }

    /// Tokens (or samples of vision families) in an optimizer step.
    pub fn units_per_step(&self, setting: &Setting) -> f64 {
        if self.model.kind.counts_samples() { setting.global_batch } else { setting.global_batch * self.sequence }
    }

    /// Dense FLOPs of the model's own mathematics in a step: recompute does not count, so this is the numerator of MFU.
    pub fn model_flops_per_step(&self, setting: &Setting) -> f64 {
        let per_sample = if self.model.kind.is_transformer() {
            self.model.training_flops_per_sample(self.sequence)
        } else {
            let denoiser = Denoiser::from_model(self.model, self.training);
            let by_layers = denoiser.map(|network| network.model.training_flops_per_sample(network.tokens));
            by_layers.unwrap_or(3.0 * self.model.forward_flops_per_sample)
        };
        per_sample * self.passes_share() * setting.global_batch
    }

    /// Of forward and backward passes, what the task computes.
    fn passes_share(&self) -> f64 {
        match (self.training.task.has_backward(), self.training.task.has_adapters()) {
            (false, _) => 1.0 / 3.0,
            // A frozen base has no weight gradients: 4 instead of 6 per weight.
            (true, true) => 2.0 / 3.0,
            (true, false) => 1.0,
        }
    }
}

impl StepEstimate {
    /// The same where its machines are fed so.
    #[must_use]
    pub fn fed_in(mut self, feeding: InputPipeline) -> Self {
        if feeding.computing.is_some() {
            // The loaders of the published runs give way to those of this machine.
            self.time.total -= std::mem::take(&mut self.time.input);
            self.bound = self.time.bound();
        }
        // What finished runs say is true of the whole step, its waiting included.
        let known = self.experience.map_or(1.0, |known| known.time);
        let mut feeding = feeding.alongside_step(self.time.total / known);
        (feeding.busy, feeding.waits) = (feeding.busy * known, feeding.waits * known);
        self.time.input += feeding.waits;
        self.time.total += feeding.waits;
        if self.time.input > INPUT_SHARE * self.time.total {
            self.bound = Bound::Input;
        }
        self.feeding = Some(feeding);
        self
    }

    /// The same where only `layers` of the `all` layers of a stage run again in the backward pass, the first ones of each
    /// (Megatron-LM's `--recompute-method block --recompute-num-layers`). `kept` keeps all activations, and this none.
    #[must_use]
    pub fn recomputing(&self, layers: u32, all: u32, kept: &Self, machine: &Machine) -> Self {
        let share = f64::from(layers) / f64::from(all.max(1));
        let (time, memory) = (kept.time.towards(&self.time, share), kept.memory.towards(&self.memory, share));
        Self { time, memory, fits: memory.fits(machine), ..self.clone() }
    }

    /// The step with every sample at hand.
    pub fn unfed_seconds(&self) -> f64 {
        self.feeding.map_or(self.time.total, |feeding| feeding.busy)
    }

    /// The part of the input that a step bound by it waits for, where that is known.
    pub fn input_limit(&self) -> Option<InputLimit> {
        self.feeding
            .filter(|feeding| self.bound == Bound::Input && feeding.waits > self.time.input / 2.0)
            .map(|feeding| feeding.limit())
    }

    /// The same as finished runs of the same user have it.
    fn known_by(self, experience: Option<Experience>) -> Self {
        let time = experience.map_or(self.time, |known| self.time.scaled(known.time));
        Self { time, experience, ..self }
    }

    /// Step time with its band. Seconds.
    pub fn step_seconds(&self) -> Band {
        let (low, high) = time_band(self.regime, self.doubts, self.certainty, self.experience);
        Band::around(self.time.total, low, high)
    }
}
