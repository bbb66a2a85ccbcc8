//! [F1], [F10] to [F12] Time of an optimizer step: stages, bubble, data-parallel traffic, optimizer.

use crate::collectives::{self, Operation};
use crate::constants as c;
use crate::measurements::correction::Corrected;
use crate::measurements::work_class::WorkClass;
use crate::time::breakdown::TimeBreakdown;
use crate::time::input::StepInput;
use crate::time::layer::{LayerInput, LayerTime, Passes};
use gpuplan_units::Bytes;
use gpuplan_workload::stack::{GradientBucket, GradientFormat};
use gpuplan_workload::{Optimizer, Precision, Shard, Task};

/// LM head and loss of one micro-batch: GPU time and host time.
#[derive(Clone, Copy, Debug)]
struct Head {
    seconds: f64,
    launch: f64,
}

impl StepInput<'_> {
    pub fn time(&self) -> TimeBreakdown {
        let input = self.layer();
        self.compose(&input.layer(), Head { seconds: input.head(), launch: input.head_launch() }, input.passes)
    }

    fn layer(&self) -> LayerInput<'_> {
        let framework = self.constants.framework(self.training.framework.id());
        LayerInput {
            step: self,
            passes: Passes::new(self.training, self.setting),
            tokens: self.tokens(),
            work: framework.work,
            launch_factor: framework.launch,
        }
    }

    /// What measurements say of a class at the sizes of this step.
    pub fn corrected(&self, class: WorkClass, time: &TimeBreakdown) -> Corrected {
        let factor = self.factors.for_class(class);
        if !factor.is_measured() {
            return factor.overall();
        }
        let layer = self.layer();
        let mean = match class {
            WorkClass::Compute => Some(layer.corrected_compute()),
            WorkClass::Memory => {
                let kernels = [
                    (layer.kernel_bytes(), time.elementwise + time.dequantise),
                    (self.optimizer_bytes(), time.optimizer),
                ];
                Corrected::mean(kernels.into_iter().map(|(bytes, seconds)| (factor.at_size(bytes), seconds)))
            }
            WorkClass::Launch => None,
            WorkClass::Copy => {
                let layers = time.tensor_parallel + time.expert_parallel + time.context_parallel;
                let messages = [(layer.message_bytes(), layers), (self.gradient_message(), time.data_parallel)];
                Corrected::mean(messages.into_iter().map(|(bytes, seconds)| (factor.at_size(bytes), seconds)))
            }
        };
        mean.unwrap_or_else(|| factor.overall())
    }

    /// Tokens of a rank in one pass; decoding makes one token a sequence.
    fn tokens(&self) -> f64 {
        let batch = f64::from(self.setting.micro_batch);
        if self.training.task == Task::Inference {
            batch
        } else {
            batch * self.sequence / f64::from(self.setting.layout.context)
        }
    }

    /// [F10] Pipeline stages, then what is exposed of the data-parallel traffic.
    fn compose(&self, layer: &LayerTime, head: Head, passes: Passes) -> TimeBreakdown {
        let layout = &self.setting.layout;
        let layers = f64::from(self.model.layers + self.model.encoder_layers);
        let stages = f64::from(layout.pipeline);
        let in_stage = if layout.pipeline > 1 { (layers / stages).ceil() } else { layers };
        let (in_stage, head_share) = self.slowest_stage(layer, layers, in_stage, head);
        let slowest = self.micro_step(layer, in_stage, head, head_share);
        let mean = self.micro_step(layer, layers / stages, head, 1.0 / stages);
        let steps = self.setting.rank_batches();
        let bubble =
            // One micro-batch through every other stage: the slowest one is counted in the steady state already.
            if layout.pipeline > 1 { (stages * mean - slowest) / f64::from(layout.virtual_pipeline) * self.constants.bubble } else { 0.0 };
        let handed_on = self.handed_on();
        let bubble = bubble + (steps + (stages - 1.0) / f64::from(layout.virtual_pipeline)) * handed_on;
        let compute = steps * slowest + bubble;
        let exposed = self.data_parallel(compute, passes);
        // Machines of one rack-sized link domain wait for each other as the GPUs of one machine do.
        let gpus = self.setting.gpus();
        let nodes = f64::from(gpus) / f64::from(self.machine.gpus_per_node.max(self.machine.link_domain(gpus)));
        let per_doubling =
            if self.rates.flash3.is_some() { self.constants.jitter_newer } else { self.constants.jitter_per_doubling };
        let jitter = (compute + exposed) * per_doubling * nodes.max(1.0).log2();
        let optimizer = self.optimizer();
        let scale = steps * in_stage;
        let waiting = slowest - in_stage * (layer.busy() + layer.dequantise) - head_share * head.seconds;
        TimeBreakdown {
            matmul: layer.linear * scale,
            attention: layer.attention * scale,
            elementwise: layer.elementwise * scale,
            head: head_share * head.seconds * steps,
            launch: waiting * steps,
            tensor_parallel: layer.tensor_parallel * scale,
            expert_parallel: layer.expert_exchange * scale,
            context_parallel: layer.context_exchange * scale,
            dequantise: layer.dequantise * scale,
            bubble,
            data_parallel: exposed,
            jitter,
            optimizer,
            input: 0.0,
            total: compute + exposed + jitter + optimizer,
            launch_ratio: layer.launch / layer.gpu().max(1e-12),
            exposed_ratio: exposed / compute,
        }
    }

    /// Layers of the slowest stage, and 1 if it has the head. The last stage has it; where layers do not divide evenly that stage is one
    /// of those with a layer less.
    fn slowest_stage(&self, layer: &LayerTime, layers: f64, in_stage: f64, head: Head) -> (f64, f64) {
        let last = (in_stage - 1.0, 1.0);
        if in_stage * f64::from(self.setting.layout.pipeline) <= layers {
            (in_stage, 1.0)
        } else if self.micro_step(layer, last.0, head, last.1) > self.micro_step(layer, in_stage, head, 0.0) {
            last
        } else {
            (in_stage, 0.0)
        }
    }

    /// [F10] Seconds of a micro-step in which a stage waits for the activations of the one before it and the gradients of the one after.
    /// Stages are the outermost degree of a layout, so their ranks are in different machines unless all of them fit one. Interleaved
    /// schedules send more often, and beside the work of other micro-batches.
    fn handed_on(&self) -> f64 {
        let layout = &self.setting.layout;
        if layout.pipeline <= 1 {
            return 0.0;
        }
        let split = layout.sequence_parallel || self.training.framework.scatters_activations();
        let bytes = self.tokens() * f64::from(self.model.hidden) * self.rates.element_bytes
            / if split { f64::from(layout.tensor) } else { 1.0 };
        let gpus = self.setting.gpus();
        let link = self.machine.link_bus(self.constants);
        let bus = if gpus <= self.machine.link_domain(gpus) {
            link
        } else {
            link.min(self.machine.network_bus(self.constants) / f64::from(self.machine.gpus_per_node.min(gpus).max(1)))
        };
        let passes = if self.training.task.has_backward() { 2.0 } else { 1.0 };
        let parts = f64::from(layout.virtual_pipeline);
        let exposed = if layout.virtual_pipeline > 1 { self.constants.exposed_reduce } else { 1.0 };
        exposed * parts * passes * bytes / bus
    }

    /// [F7] A micro-step takes the longer of GPU work and kernel launches, with a soft corner: the host runs ahead while the
    /// GPU is busy, so the two meet over the whole pass and not layer by layer.
    fn micro_step(&self, layer: &LayerTime, layers: f64, head: Head, share: f64) -> f64 {
        let busy = layers * layer.busy() + head.seconds * share;
        let launch = layers * layer.launch + head.launch * share;
        (busy.powi(3) + launch.powi(3)).cbrt()
            + layers * layer.dequantise
            + self.constants.micro_step_seconds * self.rates.host_time
    }

    /// Matmul parameters of a rank's shard of the model, with one embedding.
    fn rank_parameters(&self) -> f64 {
        let layers = f64::from(self.model.layers + self.model.encoder_layers);
        let experts = if self.model.experts.is_some() { f64::from(self.setting.layout.expert) } else { 1.0 };
        let mlp = self.model.mlp_parameters() / experts;
        let layer = self.model.attention_parameters() + mlp + self.model.idle_parameters();
        (layers * layer + self.model.embedding_parameters()) / f64::from(self.setting.layout.model_parallel())
    }

    fn trained_parameters(&self) -> f64 {
        let share = if self.training.task.has_adapters() { c::ADAPTER_SHARE } else { 1.0 };
        self.rank_parameters() * share
    }

    /// [F11] Seconds that data-parallel ranks send gradients and weights in a step, with nothing beside it.
    fn sent(&self, passes: Passes) -> f64 {
        let layout = &self.setting.layout;
        // Context-parallel ranks hold the same weights, so they reduce gradients together with the data-parallel ones.
        let ranks = layout.copies();
        let gpus = self.setting.gpus();
        let domain = self.machine.link_domain(gpus);
        let inside = ranks.min((domain / layout.tensor).max(1));
        let gradient_bytes = self.gradient_bytes();
        let weight_bytes = self.gathered_bytes();
        let (weights, trained) = (self.rank_parameters(), self.trained_parameters());
        let micro_steps = self.setting.micro_steps();
        // Whole copies of the weights may send fewer bytes, and not every step.
        let sent = self.training.synchronization;
        let compression = sent.gradient_compression;
        let layers = f64::from(self.model.layers + self.model.encoder_layers) / f64::from(layout.pipeline);
        let (gather, scatter, reduce) = (Operation::AllGather, Operation::ReduceScatter, Operation::AllReduce);
        match layout.shard {
            Shard::Zero3 => {
                let gathered = self.collective_seconds(gather, weight_bytes * weights, layers, ranks, inside);
                let reduced = self.collective_seconds(scatter, gradient_bytes * trained, layers, ranks, inside);
                micro_steps * (gathered * (1.0 + passes.backward) + reduced * passes.backward)
            }
            Shard::Zero2 => {
                self.collective_seconds(gather, weight_bytes * weights, layers, ranks, inside)
                    + micro_steps * self.collective_seconds(scatter, gradient_bytes * trained, layers, ranks, inside)
            }
            Shard::Hsdp => {
                let group = layout.sharded_over();
                let inner = group.min((domain / layout.tensor).max(1));
                let (copies, together) = (ranks / group.max(1), (inside / group.max(1)).max(1));
                let between = gradient_bytes * trained / f64::from(group) / compression;
                let between = self.collective_seconds(reduce, between, layers, copies, together);
                micro_steps
                    * (self.collective_seconds(gather, weight_bytes * weights, layers, group, inner)
                        * (1.0 + passes.backward)
                        + self.collective_seconds(scatter, gradient_bytes * trained, layers, group, inner)
                            * passes.backward)
                    + passes.backward * between / f64::from(sent.local_steps)
            }
            // Gradients are summed into the shard that updates them; where the shards are fewer than the ranks, copies are too.
            Shard::Zero1 => {
                let bytes = gradient_bytes * trained / compression;
                let operation = if layout.sharded_over() < ranks { reduce } else { scatter };
                passes.backward * self.collective_seconds(operation, bytes, self.buckets(ranks), ranks, inside)
            }
            Shard::None => {
                let bytes = gradient_bytes * trained / compression;
                passes.backward * self.collective_seconds(reduce, bytes, self.buckets(ranks), ranks, inside)
                    / f64::from(sent.local_steps)
            }
        }
    }

    /// [F11] What of that is not hidden behind compute.
    fn data_parallel(&self, compute: f64, passes: Passes) -> f64 {
        let layout = &self.setting.layout;
        if layout.copies() <= 1 {
            return 0.0;
        }
        let (traffic, micro_steps) = (self.sent(passes), self.setting.micro_steps());
        let gathers = matches!(layout.shard, Shard::Zero2 | Shard::Zero3 | Shard::Hsdp);
        let window = if gathers {
            compute
        } else if self.training.framework.overlaps_gradients() {
            c::BACKWARD_WINDOW * compute / micro_steps
        } else {
            0.0
        };
        let exposed_share = if self.training.framework.hides_sharded_traffic() {
            self.constants.exposed_prefetched
        } else if gathers {
            self.constants.exposed_sharded
        } else {
            self.constants.exposed_reduce
        };
        let updated = if layout.shard == Shard::Zero1 {
            self.updated_weights(self.weight_bytes() * self.trained_parameters())
        } else {
            0.0
        };
        let hidden = self.training.overlap(self.rates.flash3.is_some()).weight_gather;
        // The next forward pass, a third of the arithmetic, hides them, and the rest is as exposed as other traffic.
        let forward = compute / micro_steps / 3.0;
        let updated = if hidden {
            (updated - forward).max(0.0) + self.constants.exposed_reduce * updated.min(forward)
        } else {
            updated
        };
        (traffic - window).max(0.0) + exposed_share * traffic.min(window) + updated
    }

    /// Of a weight as ranks gather it: autocast keeps weights in fp32.
    pub fn weight_bytes(&self) -> f64 {
        let wide = matches!(self.training.precision, Precision::Fp32 | Precision::Tf32 | Precision::AmpFp16);
        if wide { 4.0 } else { 2.0 }
    }

    /// Of a weight as sharded ranks gather it, 4-bit bases packed.
    pub(super) fn gathered_bytes(&self) -> f64 {
        if self.training.base_weights.is_some() { 0.56 } else { self.weight_bytes() }
    }

    /// Of a gradient as ranks reduce it: of sharded weights in the format that the stack sums them in. Whole copies are reduced in that of the
    /// weights whatever sums them: NVIDIA's performance scripts for NeMo set `grad_reduce_in_fp32 = False`.
    pub(super) fn gradient_bytes(&self) -> f64 {
        let gathers = matches!(self.setting.layout.shard, Shard::Zero2 | Shard::Zero3 | Shard::Hsdp);
        let stated = self.training.framework.recipe(|stack| &stack.gradient_format);
        // Loss scaling keeps gradients of fp16 in its range, and those of adapters are few.
        let in_range = self.training.precision.needs_loss_scaling() || self.training.task.has_adapters();
        let stated = stated.filter(|_| gathers && !in_range);
        stated.map_or(0.0, GradientFormat::bytes).max(self.weight_bytes())
    }

    /// One message among data-parallel ranks: a layer where weights are gathered, else a bucket. Bytes.
    fn gradient_message(&self) -> f64 {
        let all = self.gradient_bytes() * self.trained_parameters();
        let layers = f64::from(self.model.layers + self.model.encoder_layers) / f64::from(self.setting.layout.pipeline);
        match self.setting.layout.shard {
            Shard::Zero2 | Shard::Zero3 | Shard::Hsdp => all / layers.max(1.0),
            Shard::None | Shard::Zero1 => all / self.buckets(self.setting.layout.copies()),
        }
    }

    /// ZeRO-1 gathers the updated weights after the step, with nothing left to hide behind in plain stacks (Rajbhandari et al.,
    /// "ZeRO", SC20, section 7.2.1): over the GPU link where the group of shards lies inside one, else over the network.
    fn updated_weights(&self, bytes: f64) -> f64 {
        let layout = &self.setting.layout;
        let group = layout.sharded_over();
        let inside = group.min((self.machine.link_domain(self.setting.gpus()) / layout.tensor).max(1));
        self.collective_seconds(Operation::AllGather, bytes, self.buckets(group), group, inside)
    }

    /// Messages that gradients or updated weights of whole copies are cut into.
    fn buckets(&self, ranks: u32) -> f64 {
        // Buckets that a stack counts in gradients. Of those in bytes none but PyTorch's helps: InternEvo's 512 MiB leave its runs 13 % off
        // when they are left out of the fit, and PyTorch's 7 %.
        let counted = |bucket: &GradientBucket| matches!(bucket, GradientBucket::Elements { .. });
        let bucket = self.training.framework.recipe(|stack| &stack.gradient_bucket).filter(counted);
        let bucket = bucket.unwrap_or(GradientBucket::PYTORCH);
        let layers = f64::from(self.model.layers + self.model.encoder_layers) / f64::from(self.setting.layout.pipeline);
        let trained = self.trained_parameters();
        (trained / bucket.elements(ranks, trained / layers, self.gradient_bytes())).ceil().max(1.0)
    }

    /// Seconds of a collective over `bytes` cut into `count` messages, among `ranks` of which `inside` reach each other by the link.
    fn collective_seconds(&self, operation: Operation, bytes: f64, count: f64, ranks: u32, inside: u32) -> f64 {
        if ranks <= 1 || bytes <= 0.0 {
            return 0.0;
        }
        let count = count.max(1.0);
        let message = bytes / count;
        let topology = self.machine.topology(ranks, inside, self.setting.gpus());
        let measured = if inside < ranks { 1.0 } else { self.factors.copy.at_size(message).time };
        count * collectives::seconds(operation, Bytes(message), &topology).0 * measured
    }

    /// [F12] Reading and writing weights, gradients and states once.
    fn optimizer(&self) -> f64 {
        if !self.training.task.has_optimizer() {
            return 0.0;
        }
        let bytes = self.optimizer_bytes();
        let traffic = bytes / self.rates.memory_bandwidth * self.factors.memory.at_size(bytes).time;
        let scaling =
            if self.training.precision.needs_loss_scaling() { self.constants.scaling_layer_seconds } else { 0.0 };
        let layers = f64::from(self.model.layers + self.model.encoder_layers) / f64::from(self.setting.layout.pipeline);
        traffic + (self.constants.step_layer_seconds + scaling) * layers * self.rates.host_time
    }

    fn optimizer_bytes(&self) -> f64 {
        let layout = &self.setting.layout;
        let split = match layout.shard {
            Shard::Zero2 | Shard::Zero3 => f64::from(layout.copies()),
            Shard::Zero1 | Shard::Hsdp => f64::from(layout.sharded_over()),
            Shard::None => 1.0,
        };
        // Reading weight, gradient and states and writing them back: some 30 bytes a parameter, half with 16-bit states.
        let states = match self.training.optimizer {
            Some(Optimizer::AdamwBf16 | Optimizer::Adamw8bit) => 0.5,
            _ => 1.0,
        };
        states * self.constants.optimizer_bytes * self.trained_parameters() / split + self.average_bytes()
    }

    /// Reading each weight and its moving average, and writing the average back, where the weights are.
    fn average_bytes(&self) -> f64 {
        let split = match self.setting.layout.shard {
            Shard::Zero3 | Shard::Hsdp => f64::from(self.setting.layout.sharded_over()),
            Shard::None | Shard::Zero1 | Shard::Zero2 => 1.0,
        };
        if self.training.ema { c::EMA_TRAFFIC * self.trained_parameters() / split } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::case::EstimateCase;
    use crate::constants::Constants;
    use crate::measurements::correction::{Correction, MeasuredGpu};
    use crate::measurements::curve::{Curve, Point};
    use crate::setting::Setting;
    use crate::subject::Subject;
    use gpuplan_hardware::Hardware;
    use gpuplan_workload::{Layout, Models, Recompute, Training};

    /// Data-parallel seconds of a 7B model on two machines of eight A100 joined by 100 Gb/s.
    fn exposed(shard: Shard, change: impl Fn(&mut Training)) -> f64 {
        let case = r#"{"id": "a", "model": {"name": "llama-2-7b"}, "training": {"task": "pretrain", "sequence_length": 2048},
            "hardware": {"gpu": "a100-sxm4-80", "gpus": 16, "gpus_per_node": 8, "node_network_gbit_per_s": 100}}"#;
        let case: EstimateCase = serde_json::from_str(case).unwrap();
        let mut prepared = case.prepare(&Hardware::embedded().unwrap(), &Models::embedded().unwrap()).unwrap();
        change(&mut prepared.training);
        let layout = Layout { data: 16, shard, ..Layout::default() };
        let setting = Setting { layout, micro_batch: 1, global_batch: 16.0, recompute: Recompute::Full };
        let subject = Subject::new(&prepared.model, &prepared.training, prepared.machine());
        subject.estimate(&setting).unwrap().time.data_parallel
    }

    #[test]
    fn compression_and_local_steps_save_the_traffic_of_whole_copies() {
        let plain = exposed(Shard::None, |_| {});
        let compressed = exposed(Shard::None, |training| training.synchronization.gradient_compression = 4.0);
        let local = exposed(Shard::None, |training| training.synchronization.local_steps = 16);
        assert!(plain > 0.0 && compressed < plain / 3.0 && local < plain / 10.0, "{plain} {compressed} {local}");
        // Sharded weights are gathered in full, every step.
        assert_eq!(
            exposed(Shard::Zero3, |_| {}),
            exposed(Shard::Zero3, |training| training.synchronization.local_steps = 16)
        );
    }

    #[test]
    fn graphs_leave_nothing_to_wait_for_but_the_micro_step_itself() {
        let time = |graphs| {
            let case = r#"{"id": "a", "model": {"name": "gpt-2"}, "training": {"task": "pretrain", "sequence_length": 256},
                "hardware": {"gpu": "h100-sxm5-80", "gpus": 1}}"#;
            let case: EstimateCase = serde_json::from_str(case).unwrap();
            let mut prepared = case.prepare(&Hardware::embedded().unwrap(), &Models::embedded().unwrap()).unwrap();
            prepared.training.kernels.cuda_graphs = graphs;
            let setting =
                Setting { layout: Layout::default(), micro_batch: 1, global_batch: 1.0, recompute: Recompute::None };
            let subject = Subject::new(&prepared.model, &prepared.training, prepared.machine());
            subject.estimate(&setting).unwrap().time.launch
        };
        let constants = Constants::embedded();
        assert!(time(false) > 10.0 * constants.launch_seconds);
        assert!((time(true) - constants.micro_step_seconds).abs() < 1e-9);
    }

    #[test]
    fn a_link_that_is_bad_at_short_messages_slows_those_alone() {
        let case = r#"{"id": "a", "model": {"name": "llama-2-7b"}, "training": {"task": "pretrain", "sequence_length": 1024,
            "framework": "megatron-deepspeed"}, "hardware": {"gpu": "h100-sxm5-80", "gpus": 8}}"#;
        let case: EstimateCase = serde_json::from_str(case).unwrap();
        let prepared = case.prepare(&Hardware::embedded().unwrap(), &Models::embedded().unwrap()).unwrap();
        let points = [(8e6, 3.0_f64), (8e7, 1.0)].map(|(size, time)| Point {
            size,
            log_time: time.ln(),
            spread: 0.01,
            weight: 1.0,
        });
        let correction = Correction::new(vec![MeasuredGpu {
            id: prepared.gpu.id.clone(),
            architecture: prepared.gpu.architecture,
            curves: Curve::new(WorkClass::Copy, points.to_vec()).into_iter().collect(),
            host: None,
            reasons: Vec::new(),
        }]);
        let slower = |layout: Layout, of: fn(&TimeBreakdown) -> f64| {
            let setting = Setting { layout, micro_batch: 1, global_batch: 8.0, recompute: Recompute::None };
            let subject = Subject::new(&prepared.model, &prepared.training, prepared.machine());
            let plain = subject.estimate(&setting).unwrap().time;
            of(&subject.corrected(&correction).estimate(&setting).unwrap().time) / of(&plain)
        };
        // Activations of 8.4 MB, and buckets of 40 million parameters.
        let tensor = slower(Layout { tensor: 8, ..Layout::default() }, |time| time.tensor_parallel);
        let data = slower(Layout { data: 8, ..Layout::default() }, |time| time.data_parallel);
        // The latency stays, and the transfer takes 3^0.9 as long; a little less since the size is not quite that of the point.
        let topology = prepared.machine().topology(8, 8, 8);
        let seconds = |bytes: f64| collectives::seconds(Operation::AllReduce, Bytes(bytes), &topology).0;
        let latency = seconds(8.0) / seconds(8.4e6);
        let expected = latency + (1.0 - latency) * 3.0_f64.powf(0.9);
        assert!((tensor / expected - 1.0).abs() < 0.03 && (data - 1.0).abs() < 0.02, "{tensor} {expected} {data}");
    }

    #[test]
    fn a_shard_group_inside_a_machine_gathers_faster() {
        let time = |group| {
            let case = r#"{"id": "a", "model": {"name": "llama-2-7b"}, "training": {"task": "pretrain", "sequence_length": 2048},
                "hardware": {"gpu": "a100-sxm4-80", "gpus": 1024, "gpus_per_node": 8}}"#;
            let case: EstimateCase = serde_json::from_str(case).unwrap();
            let prepared = case.prepare(&Hardware::embedded().unwrap(), &Models::embedded().unwrap()).unwrap();
            let layout = Layout { data: 1024, shard: Shard::Zero1, shard_group: group, ..Layout::default() };
            let setting = Setting { layout, micro_batch: 2, global_batch: 8192.0, recompute: Recompute::None };
            let subject = Subject::new(&prepared.model, &prepared.training, prepared.machine());
            subject.estimate(&setting).unwrap().time.total
        };
        assert!(time(Some(8)) < time(None));
    }
}
