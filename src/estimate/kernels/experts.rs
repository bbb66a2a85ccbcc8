//! A layer of experts on one GPU: routing, permutation and grouped products.

use gpuplan_units::Seconds;

use crate::kernels::names::{Engine, KernelPrecision, Part, Routing};
use crate::kernels::surface::Surface;
use crate::kernels::table::KernelTable;

/// A layer of experts, gated (three weights an expert), as one GPU sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertLayer {
    /// That are routed over all experts, on whichever GPU these are.
    pub tokens: f64,
    pub hidden: f64,
    /// Of an expert on this GPU: its intermediate size over the tensor-parallel degree.
    pub width: f64,
    /// Experts that a token goes to.
    pub top_k: f64,
    /// In all.
    pub experts: f64,
    /// Expert-parallel degree: this GPU has one part in so many of the experts.
    pub expert_parallel: f64,
}

impl ExpertLayer {
    /// Experts of this GPU that some token goes to: each alike, or if the tokens agree those of one token alone.
    fn experts_read(&self, routing: Routing) -> f64 {
        let share = match routing {
            Routing::Balanced => 1.0 - (1.0 - (self.top_k / self.experts).min(1.0)).powf(self.tokens),
            Routing::Skewed => (self.top_k / self.experts).min(1.0),
        };
        self.experts / self.expert_parallel * share
    }
}

/// Above this factor in hidden size times width no measured layer stands for another.
const LARGEST_FACTOR: f64 = 4.0;

impl KernelTable {
    /// At the shape of a measured layer, or by the nearest one: an expert with as many tokens, scaled by how many experts there
    /// are and how large they are. `None` where no measured layer is similar.
    pub fn moe_layer_seconds(
        &self,
        engine: Engine,
        precision: KernelPrecision,
        routing: Routing,
        layer: &ExpertLayer,
    ) -> Option<Seconds> {
        let surface = self.packed.surface(Part::Experts(engine, precision, routing))?;
        // A layer unlike the measured one must not read its weights faster than the memory gives them.
        let weights = layer.experts_read(routing) * 3.0 * layer.hidden * layer.width;
        let read = weights * precision.weight_bytes() * self.of_byte;
        let seconds = by_nearest(surface, layer)?.max(read);
        // An even share of the tokens; a skewed part may have fewer, and then only the measured time counts.
        let flops = match routing {
            Routing::Balanced => 6.0 * layer.tokens * layer.top_k / layer.expert_parallel * layer.hidden * layer.width,
            Routing::Skewed => 0.0,
        };
        Some(self.bounded(seconds, precision, flops))
    }
}

fn by_nearest(surface: &Surface, layer: &ExpertLayer) -> Option<f64> {
    let apart = |a: f64, b: f64| (a / b).ln().abs();
    let distance = |shape: &[f64; 4]| {
        apart(shape[0], layer.hidden)
            + apart(shape[1], layer.width)
            + apart(shape[2] / shape[3], layer.top_k / layer.experts)
            + 0.5 * apart(shape[3], layer.experts)
    };
    let nearest =
        surface.shapes().map(distance).enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(place, _)| place)?;
    let [hidden, width, top_k, experts] = *surface.shapes().nth(nearest)?;
    let size = layer.hidden * layer.width / (hidden * width);
    if !(1.0 / LARGEST_FACTOR..=LARGEST_FACTOR).contains(&size) {
        return None;
    }
    let tokens = layer.tokens * (layer.top_k / layer.experts) / (top_k / experts);
    Some(surface.seconds_on(nearest, layer.expert_parallel, tokens) * size * layer.experts / experts)
}
