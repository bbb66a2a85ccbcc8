//! `Deviations`: where a published model is more than a row of equal layers with full attention.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// All zero for a model whose layers are equal, attend to everything, and are all there is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Deviations {
    pub hybrid: Option<Hybrid>,
    pub window: Option<SlidingWindow>,
    /// Parameters beside the layers and the embeddings: towers for images and sound, draft heads, stems.
    pub other_parameters: f64,
    pub diffusion: Option<DiffusionLayer>,
}

/// What the layers of a diffusion transformer have beside those of others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiffusionLayer {
    /// Weights of an average layer that a token does not meet: those of the prompt's stream, modulation, embeddings.
    pub idle_parameters: f64,
    /// Elements a token and hidden unit that eager operators of a forward pass read and write beside products and attention, in 16 bits.
    /// Zero: nobody counted.
    pub eager_elements: f64,
    /// Operators of a layer's forward pass, as PyTorch launches them one by one. Zero: nobody counted.
    pub operators: f64,
    /// What layers add to, and what their norms read, is in fp32 whatever they multiply in.
    pub residual_in_fp32: bool,
}

/// Layers that are not all attention with a feed-forward block: Mamba, linear attention, blocks of one part each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hybrid {
    /// Layers with attention and therefore with a cache of keys and values.
    pub attention_layers: u32,
    /// Layers with a recurrence in place of attention.
    pub recurrent_layers: u32,
    /// Weights of the recurrence of each.
    pub recurrent_parameters: f64,
    /// Layers with a feed-forward block.
    pub feed_forward_layers: u32,
}

/// Layers whose tokens attend to a few tokens only: the nearest, or those that an index picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    pub layers: u32,
    pub tokens: u32,
}

/// What the estimate takes for simpler than it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "part", rename_all = "kebab-case")]
pub enum Simplification {
    /// These layers attend to the nearest tokens only, and are estimated with full attention.
    SlidingWindow { layers: u32, of: u32, tokens: u32 },
    /// These layers have a recurrence and no attention; their weights count, but scores and cache as if they had attention.
    Recurrent { layers: u32, of: u32 },
    /// Parameters of other parts, such as an image tower: in memory, but no work is estimated for them.
    OtherParts { parameters: f64 },
}

/// Other parts below this share of all parameters are stems and norms.
const WORTH_SAYING: f64 = 0.01;

impl Deviations {
    /// What has to be said of a model of so many layers and parameters.
    pub fn simplifications(self, layers: u32, parameters: f64) -> impl Iterator<Item = Simplification> {
        let window = self.window.map(|window| Simplification::SlidingWindow {
            layers: window.layers,
            of: layers,
            tokens: window.tokens,
        });
        // A model without any attention is written with heads of no width.
        let recurrent = self
            .hybrid
            .filter(|hybrid| hybrid.recurrent_layers > 0 && hybrid.attention_layers > 0)
            .map(|hybrid| Simplification::Recurrent { layers: hybrid.recurrent_layers, of: layers });
        let other = (self.other_parameters > WORTH_SAYING * parameters)
            .then_some(Simplification::OtherParts { parameters: self.other_parameters });
        [window, recurrent, other].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_matters_is_said() {
        let said = |deviations: Deviations| deviations.simplifications(48, 1e9).collect::<Vec<_>>();
        assert_eq!(said(Deviations { other_parameters: 1e6, ..Deviations::default() }), []);
        let tower = Deviations { other_parameters: 4e8, ..Deviations::default() };
        assert_eq!(said(tower), [Simplification::OtherParts { parameters: 4e8 }]);
        let hybrid =
            Hybrid { attention_layers: 12, recurrent_layers: 36, recurrent_parameters: 1e6, feed_forward_layers: 48 };
        let both = Deviations {
            hybrid: Some(hybrid),
            window: Some(SlidingWindow { layers: 6, tokens: 128 }),
            ..Deviations::default()
        };
        assert_eq!(
            said(both),
            [
                Simplification::SlidingWindow { layers: 6, of: 48, tokens: 128 },
                Simplification::Recurrent { layers: 36, of: 48 }
            ]
        );
        // Mamba alone has no attention to take for more than it is.
        let mamba = Hybrid { attention_layers: 0, recurrent_layers: 48, ..hybrid };
        assert_eq!(said(Deviations { hybrid: Some(mamba), ..Deviations::default() }), []);
    }
}
