//! [F6], [F8] What a mixture of experts moves beside its products: tokens to their experts, in memory and between ranks.

use crate::collectives::{self, Operation};
use crate::time::layer::LayerInput;
use gpuplan_units::Bytes;

impl LayerInput<'_> {
    /// Part of the layers that are mixtures.
    fn mixed_layers(&self) -> f64 {
        let dense = self.step.model.experts.map_or(0, |experts| experts.dense_layers);
        1.0 - f64::from(dense) / f64::from(self.step.model.layers.max(1))
    }

    /// [F6] Tokens are copied in the order of their experts, and back into their own: each is read once and written for every expert it goes to,
    /// then read from each and written once. Where a rank has several experts and tokens come from other ranks, what arrives is sorted by expert
    /// once more, and sorted back; with sequence parallelism every rank has its own tokens (NVIDIA/Megatron-LM,
    /// megatron/core/transformer/moe/token_dispatcher.py, `MoEAlltoAllTokenDispatcher`). Tokens that are sent once to a rank leave in their own
    /// order and are copied where they arrive (`MoEFlexTokenDispatcher` there).
    pub(super) fn permutation(&self) -> f64 {
        let Some(experts) = self.step.model.experts else { return 0.0 };
        let ranks = f64::from(self.step.setting.layout.expert);
        let chosen = f64::from(experts.experts_per_token);
        let sorts_again = ranks > 1.0 && f64::from(experts.experts) > ranks;
        let values = if ranks > 1.0 && self.step.training.framework.dispatches_once() {
            2.0 * (expected_places(ranks, chosen) + chosen)
        } else {
            2.0 * (1.0 + chosen) + if sorts_again { 4.0 * chosen } else { 0.0 }
        };
        let passes = 1.0 + self.passes.recomputed + self.passes.operators + self.passes.backward;
        let layout = &self.step.setting.layout;
        let split = if layout.sequence_parallel { f64::from(layout.tensor) } else { 1.0 };
        let token = f64::from(self.step.model.hidden) * self.step.rates.element_bytes / split;
        self.streamed(self.tokens * values * token * passes * self.mixed_layers(), self.kernel_bytes())
    }

    /// Two all-to-alls a pass carry every token to its experts and back.
    pub(super) fn expert_exchange(&self) -> f64 {
        let e = f64::from(self.step.setting.layout.expert);
        let Some(experts) = self.step.model.experts.filter(|_| e > 1.0) else { return 0.0 };
        let p = self.passes;
        let all_to_alls = 2.0 * (1.0 + p.recomputed) + 2.0 * p.backward;
        let gpus = self.step.setting.gpus();
        let ranks = self.step.setting.layout.expert;
        let inside = ranks.min(self.step.machine.link_domain(gpus));
        let chosen = f64::from(experts.experts_per_token);
        let copies = if self.step.training.framework.dispatches_once() {
            // Machines, or ranks of one, that the experts of a token are expected on.
            expected_places(if inside < ranks { (e / f64::from(inside)).max(1.0) } else { e }, chosen)
        } else {
            chosen
        };
        let token = f64::from(self.step.model.hidden) * self.step.rates.element_bytes;
        let bytes = self.tokens * copies * token * self.mixed_layers();
        let topology = self.step.machine.topology(ranks, inside, gpus);
        let measured = if inside < ranks { 1.0 } else { self.step.factors.copy.at_size(bytes).time };
        all_to_alls * collectives::seconds(Operation::AllToAll, Bytes(bytes), &topology).0 * measured
    }
}

/// Of so many places, those on which some of the experts of a token are expected.
fn expected_places(places: f64, chosen: f64) -> f64 {
    places * (1.0 - (1.0 - 1.0 / places).powf(chosen))
}
