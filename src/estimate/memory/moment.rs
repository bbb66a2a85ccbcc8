//! The fullest moment of a training step: at the loss, at the first layer's backward pass, or at its end and the update.

use crate::memory::constants::MemoryConstants;
use crate::memory::habits;
use crate::memory::input::MemoryInput;
use crate::memory::states::{Shares, Static};
use gpuplan_workload::{FsdpStyle, Offload, Shard};

/// What lies until the backward pass has been there.
pub(super) struct Held {
    pub(super) activations: f64,
    /// Of the one layer that is rebuilt.
    pub(super) rebuilt: f64,
    pub(super) logits: f64,
    /// Of these, what is still there during the layers' backward pass.
    pub(super) logits_kept: f64,
}

/// Units gathered from other ranks, and their gradients.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) layers: f64,
    pub(super) layer_gradients: f64,
    pub(super) root: f64,
    pub(super) root_gradients: f64,
    root_stays: bool,
}

impl MemoryInput<'_> {
    /// Bytes beside what stays for the whole run. Of a pipeline under 1F1B the first stage holds most micro-batches, and the last one alone has
    /// logits.
    pub(super) fn fullest_moment(&self, held: &Held, shares: &Shares, kept: &Static, gathered: &Gathered) -> f64 {
        let whole = self.trains_whole_model();
        let gradients = if self.training.memory.optimizer_in_backward { 0.0 } else { kept.gradients };
        let stays = self.setting.micro_steps() > 1.0 || self.sums_in_fp32();
        let carried = match (whole, stays) {
            (true, true) => gradients,
            (true, false) => 0.0,
            (false, _) => kept.gradients,
        };
        let carried = carried.max(if whole { self.head_gradient() } else { 0.0 });
        let (in_first, in_last) = self.in_flight();
        let at_loss = held.activations * in_last / in_first
            + self.casts(shares)
            + held.logits
            + gathered.root
            + carried
            + gathered.layers / 2.0;
        let first_layer = held.activations
            + if self.setting.layout.pipeline > 1 { 0.0 } else { held.logits_kept }
            + held.rebuilt
            + gathered.layers
            + gathered.layer_gradients
            + if gathered.root_stays { gathered.root } else { 0.0 }
            + gathered.root_gradients
            + carried;
        let tied_copy = if whole && self.model.tied_embeddings { 2.0 * self.head_parameters() } else { 0.0 };
        let gathered_last = tied_copy + gathered.root + gathered.root_gradients + gathered.layers;
        let lists =
            if habits::updates_in_lists(self.training, self.setting.layout.shard) { kept.optimizer / 2.0 } else { 0.0 };
        let at_end = if whole { gradients + gathered_last.max(lists) } else { 0.0 };
        at_loss.max(first_layer).max(at_end)
    }

    /// Micro-batches that the first and the last stage hold at once. Of v parts of a stage a rank holds `2 (p - 1 - rank) + (v - 1) p + 1` before
    /// the first one is done (Narayanan et al. 2021, section 2.2; NVIDIA/Megatron-LM, megatron/core/pipeline_parallel/schedules.py,
    /// `num_warmup_microbatches`).
    pub(super) fn in_flight(&self) -> (f64, f64) {
        let layout = &self.setting.layout;
        if layout.pipeline <= 1 {
            return (1.0, 1.0);
        }
        let (stages, parts) = (f64::from(layout.pipeline), f64::from(layout.virtual_pipeline.max(1)));
        let most = self.setting.micro_steps();
        if parts <= 1.0 {
            return (stages.min(most), 1.0);
        }
        let first = stages.min(most) * (1.0 + (stages - 1.0) / (stages * parts));
        (first, (((parts - 1.0) * stages + 1.0) / parts).min(first))
    }

    /// 16-bit copies of weights that autocast made and the backward pass will read. Layers that run again make theirs anew.
    fn casts(&self, shares: &Shares) -> f64 {
        if !self.autocasts() {
            return 0.0;
        }
        let layers =
            if self.setting.recomputes_layers() { shares.linear / shares.layers.max(1.0) } else { shares.linear };
        2.0 * (layers + self.head_parameters())
    }

    pub(super) fn gathered(&self, shares: &Shares, kept: &Static, constants: &MemoryConstants) -> Gathered {
        let layout = &self.setting.layout;
        if !matches!(layout.shard, Shard::Zero3 | Shard::Hsdp) || layout.copies() <= 1 {
            return Gathered::default();
        }
        let two = self.training.memory.fsdp == Some(FsdpStyle::Two) || self.training.memory.fsdp.is_none();
        let weight = if self.training.base_weights.is_some() { 0.5 } else { 2.0 };
        let layer = weight * shares.linear / shares.layers.max(1.0);
        let head = 2.0 * self.head_parameters();
        let mut gathered = Gathered {
            // The current layer and the prefetched one.
            layers: 2.0 * layer,
            layer_gradients: 0.0,
            root: if two { head } else { head * self.embedding_copies() },
            root_gradients: 0.0,
            root_stays: !two,
        };
        if kept.stay_gathered > 0.0 {
            (gathered.layers, gathered.root) = (0.0, 0.0);
        }
        if self.trains_whole_model() {
            // Where weights stay gathered, gradients of a layer are added to the whole ones.
            gathered.layer_gradients = if kept.stay_gathered > 0.0 && two { 0.0 } else { 2.0 * layer };
            gathered.root_gradients = gathered.root * if two { 1.0 } else { constants.root_gradient_copies };
        } else {
            gathered.layers += 2.0 * 2.0 * self.adapter_parameters(shares.layers) / shares.layers.max(1.0);
            if self.training.task.has_backward() && self.training.memory.fsdp == Some(FsdpStyle::OneWeightsStayGathered)
            {
                // Whole blocks are one flat parameter, so a gradient of its adapters is a gradient of the block.
                gathered.layer_gradients = constants.flat_gradient_copies * layer;
            }
        }
        if self.training.memory.offload == Some(Offload::Parameters) {
            // The rank's own piece visits the GPU before the gather.
            gathered.layers *= 1.0 + 1.0 / f64::from(layout.sharded_over());
        }
        gathered
    }

    /// Gradient of the LM head, the first one to be born.
    fn head_gradient(&self) -> f64 {
        let layout = &self.setting.layout;
        let split = matches!(layout.shard, Shard::Zero2 | Shard::Zero3 | Shard::Hsdp);
        2.0 * self.head_parameters() / if split { f64::from(layout.sharded_over()) } else { 1.0 }
    }
}
