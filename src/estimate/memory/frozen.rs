//! Memory of what an objective reads without gradients beside the model that is trained: a reference, a teacher.

use crate::memory::MemoryBreakdown;
use crate::setting::Setting;
use gpuplan_workload::{Model, Shard, Training};

/// Of a weight or a probability in 16 bits.
const BYTES: f64 = 2.0;

impl MemoryBreakdown {
    /// With the model that is read without gradients: the weights of a reference, unless it is the base under adapters, or those of a
    /// teacher with its probabilities of every token. It is split as the trained one is.
    #[must_use]
    pub fn beside_frozen(self, training: &Training, model: &Model, setting: &Setting) -> Self {
        let layout = &setting.layout;
        let (frozen, probabilities) = match training.teacher.as_deref() {
            Some(teacher) => {
                let tokens = f64::from(setting.micro_batch) * f64::from(training.sequence_length);
                let whole = tokens * f64::from(teacher.vocab) / f64::from(layout.context * layout.tensor);
                (teacher, BYTES * whole)
            }
            None if training.objective.has_reference() && !training.task.has_adapters() => (model, 0.0),
            None => return self,
        };
        let sharded = matches!(layout.shard, Shard::Zero3 | Shard::Hsdp);
        let ranks = layout.model_parallel() * if sharded { layout.sharded_over() } else { 1 };
        let weights = BYTES * frozen.parameters / f64::from(ranks);
        let held = self.beside_weights(weights);
        Self { logits: held.logits + probabilities, analytic: held.analytic, ..held.fuller(probabilities, 1.0) }
    }

    /// With so many bytes of weights that are read without gradients.
    #[must_use]
    pub fn beside_weights(self, bytes: f64) -> Self {
        Self { weights: self.weights + bytes, analytic: self.analytic + bytes, ..self.fuller(bytes, 1.0) }
    }

    /// With so many bytes more at the fullest moment, of which the allocator reserves `reserved` times as many.
    #[must_use]
    pub fn fuller(self, bytes: f64, reserved: f64) -> Self {
        Self {
            allocated: self.allocated + bytes,
            reserved: self.reserved + bytes * reserved,
            device: self.device + bytes * reserved,
            required: self.required + bytes,
            needed: self.needed + bytes * reserved,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::subject::{StepEstimate, Subject};
    use crate::{Machine, Setting};
    use gpuplan_hardware::{GpuLink, Hardware};
    use gpuplan_units::BytesPerSecond;
    use gpuplan_workload::file::WorkloadFile;
    use gpuplan_workload::{Layout, Models, Recompute, Shard};

    /// A step of eight sequences of 2,048 tokens on eight H100.
    fn step(keys: &str) -> StepEstimate {
        let text = format!("[model]\npreset = \"llama-3.1-8b\"\n[training]\nsteps = 9\nsequence_length = 2048\n{keys}");
        let workload =
            WorkloadFile::parse(&text).unwrap().resolve(&Models::embedded().unwrap(), None).unwrap().workload;
        let hardware = Hardware::embedded().unwrap();
        let gpu = hardware.gpu(hardware.find_gpu("h100-sxm5-80").unwrap());
        let link = GpuLink::Fast { bandwidth: BytesPerSecond::from_gb(450.0), domain: 8 };
        let machine = Machine {
            gpu,
            memory: gpu.memory(),
            gpus_per_node: 8,
            card_share: 1.0,
            link,
            sheet_link: link,
            host_copy: gpu.pcie_bandwidth(),
            node_network: BytesPerSecond::from_gbit(3200.0),
            network_assumed: false,
            has_fabric: true,
        };
        let setting = Setting {
            layout: Layout { data: 8, shard: Shard::Zero3, ..Layout::default() },
            micro_batch: 1,
            global_batch: 8.0,
            recompute: Recompute::Full,
        };
        Subject::new(&workload.model, &workload.training, machine).estimate(&setting).unwrap()
    }

    #[test]
    fn a_reference_costs_a_forward_pass_and_its_weights() {
        let (plain, dpo) = (step("task = \"full-ft\""), step("task = \"full-ft\"\nobjective = \"dpo\""));
        // One pass more beside forward, backward (two) and recomputed forward.
        let longer = dpo.time.total / plain.time.total;
        assert!((1.15..1.35).contains(&longer), "{longer}");
        assert!((dpo.memory.needed - plain.memory.needed - 2.0 * 8.03e9 / 8.0).abs() < 0.01e9);
        let kto = step("task = \"full-ft\"\nobjective = \"kto\"");
        assert!(((kto.time.total - plain.time.total) / (dpo.time.total - plain.time.total) - 3.0).abs() < 1e-6);
        // Without a reference nothing is added.
        let orpo = step("task = \"full-ft\"\nobjective = \"orpo\"");
        assert_eq!((orpo.time, orpo.memory), (plain.time, plain.memory));
    }

    #[test]
    fn the_base_under_adapters_is_the_reference() {
        let (plain, dpo) = (step("task = \"lora\""), step("task = \"lora\"\nobjective = \"dpo\""));
        assert_eq!(dpo.memory, plain.memory);
        assert!(dpo.time.total > 1.15 * plain.time.total);
    }

    #[test]
    fn a_larger_teacher_costs_more_than_the_student() {
        let plain = step("task = \"full-ft\"");
        let taught =
            |teacher: &str| step(&format!("task = \"full-ft\"\nobjective = \"distill\"\nteacher = \"{teacher}\""));
        let (same, large) = (taught("llama-3.1-8b"), taught("llama-3.1-70b"));
        let more = |step: &StepEstimate| step.time.total - plain.time.total;
        assert!((6.0..11.0).contains(&(more(&large) / more(&same))), "{} {}", more(&large), more(&same));
        let weights = |step: &StepEstimate| step.memory.weights - plain.memory.weights;
        assert!((weights(&large) - 2.0 * 70.55e9 / 8.0).abs() < 0.05e9, "{}", weights(&large));
    }
}
