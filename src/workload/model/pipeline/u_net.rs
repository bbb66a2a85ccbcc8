//! A U-Net as diffusers builds it (`UNet2DConditionModel`; Rombach et al., arXiv 2112.10752), operator by operator.

use crate::model::operators::Gemm;
use crate::model::pipeline::UNet;

/// Pixels of an image for one of its latent, of either side.
const LATENT_SIDE: f64 = 8.0;
/// Weights of a convolution of 3 x 3 for a channel of input and one of output.
pub const WEIGHTS_OF_3X3: f64 = 9.0;
/// Multiples of which attention kernels compute the width of a head (Dao-AILab/flash-attention, csrc/flash_attn/flash_api.cpp).
const HEAD_MULTIPLE: f64 = 32.0;
/// Heads of a layer where their width is not stated.
const HEADS: f64 = 8.0;

/// What one pass over one latent picture consists of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Convolutions of 3 x 3, as products with nine times their channels; rows are of one picture.
    pub convolutions: Vec<Gemm>,
    pub products: Vec<Gemm>,
    /// FLOPs of scores and mixing, with heads as wide as kernels compute them.
    pub attention: f64,
    /// Elements that operators between the products read and write, launched one by one.
    pub eager: f64,
    /// The same where each is merged with its neighbours.
    pub merged: f64,
    /// Elements that the backward pass needs, where all weights are trained.
    pub kept: f64,
    /// The same where they are frozen, with adapters beside queries, keys, values and outputs of attention.
    pub kept_frozen: f64,
    /// Inputs of all blocks and layers, from which the rest can be computed again.
    pub inputs: f64,
    /// What the largest of them keeps while it is computed again.
    pub largest: f64,
}

impl UNet {
    /// For images of this side and prompts of so many tokens.
    pub fn work(&self, side: f64, prompt: f64) -> Work {
        let (mut work, stages) = (Work::default(), self.widths.len());
        let Some(first) = self.widths.first().map(|width| f64::from(*width)) else { return work };
        let mut pixels = (side / LATENT_SIDE).powi(2);
        let (mut width, mut skipped) = (first, vec![first]);
        for stage in 0..stages {
            for _ in 0..self.residuals {
                width = self.block(&mut work, stage, width, pixels, prompt);
                skipped.push(width);
            }
            if stage + 1 < stages {
                pixels /= 4.0;
                work.convolution(width, width, pixels);
                skipped.push(width);
            }
        }
        work.residual(width, width, pixels);
        let deepest = self.layers.last().copied().unwrap_or(0).max(1);
        self.transformer(&mut work, width, deepest, pixels, prompt);
        work.residual(width, width, pixels);
        for stage in (0..stages).rev() {
            for _ in 0..=self.residuals {
                let joined = width + skipped.pop().unwrap_or(0.0);
                // Put side by side.
                work.alone(2.0 * joined * pixels, 2.0 * joined * pixels);
                width = self.block(&mut work, stage, joined, pixels, prompt);
            }
            if stage > 0 {
                pixels *= 4.0;
                // Each pixel is written four times.
                work.alone(1.25 * width * pixels, 1.25 * width * pixels);
                work.convolution(width, width, pixels);
            }
        }
        work
    }

    /// Answers the width that comes out.
    fn block(&self, work: &mut Work, stage: usize, inputs: f64, pixels: f64, prompt: f64) -> f64 {
        let width = f64::from(self.widths[stage]);
        work.residual(inputs, width, pixels);
        let layers = self.layers.get(stage).copied().unwrap_or(0);
        if layers > 0 {
            self.transformer(work, width, layers, pixels, prompt);
        }
        width
    }

    /// Attention to the picture, to the prompt, and a gated block, `layers` times. Launched one by one: a norm (3), two copies (4) and a sum (3)
    /// around all; in a layer three norms (6), two attentions with a copy (2), a sum (3) and a division by one (2) each, the gate's activation
    /// (8), its product (12) and a sum (3). Merged: the norms, and the gate with its activation (12).
    fn transformer(&self, work: &mut Work, width: f64, layers: u32, pixels: f64, prompt: f64) {
        let head = if self.head > 0 { f64::from(self.head) } else { width / HEADS };
        let computed = (head / HEAD_MULTIPLE).ceil() * HEAD_MULTIPLE / head;
        let layers = f64::from(layers);
        // Inputs of three norms and what they give, queries, keys and values, what attends, queries of the prompt and what they find, and of the
        // gated block its projection (8), the activated gate (4) and the product (4). Frozen products need no input of theirs.
        let (layer, frozen) = (28.0, 23.0);
        work.block_keeps(width * pixels, layer, frozen, layers);
        work.keeps(3.0 * width * pixels, width * pixels);
        work.products.push(Gemm::new(pixels, width, width, 2.0 + 6.0 * layers));
        work.products.push(Gemm::new(pixels, 8.0 * width, width, layers));
        work.products.push(Gemm::new(pixels, width, 4.0 * width, layers));
        work.attention += layers * 4.0 * pixels * (pixels + prompt) * width * computed;
        work.alone((10.0 + 43.0 * layers) * width * pixels, (3.0 + 18.0 * layers) * width * pixels);
    }
}

impl Work {
    fn alone(&mut self, eager: f64, merged: f64) {
        self.eager += eager;
        self.merged += merged;
    }

    fn keeps(&mut self, all: f64, frozen: f64) {
        self.kept += all;
        self.kept_frozen += frozen;
    }

    /// `count` blocks on so many elements, which keep so many times as many.
    fn block_keeps(&mut self, elements: f64, all: f64, frozen: f64, count: f64) {
        self.keeps(count * all * elements, count * frozen * elements);
        self.inputs += count * elements;
        self.largest = self.largest.max(all * elements);
    }

    fn convolution(&mut self, inputs: f64, outputs: f64, pixels: f64) {
        self.convolutions.push(Gemm::new(pixels, outputs, WEIGHTS_OF_3X3 * inputs, 1.0));
    }

    /// Two convolutions, each after a norm (3) and an activation (2); the time step is added between them (2), the input at the end (3), and
    /// all is divided by one (2). Merged: the norms with their activations (3).
    fn residual(&mut self, inputs: f64, outputs: f64, pixels: f64) {
        // Of either convolution the inputs of its norm, of its activation and its own, the last of which a frozen one does not need.
        let all = 3.0 * (inputs + outputs) * pixels;
        self.keeps(all, all * 2.0 / 3.0);
        self.inputs += inputs * pixels;
        self.largest = self.largest.max(all);
        self.convolution(inputs, outputs, pixels);
        self.convolution(outputs, outputs, pixels);
        if inputs != outputs {
            self.products.push(Gemm::new(pixels, outputs, inputs, 1.0));
        }
        self.alone((5.0 * inputs + 12.0 * outputs) * pixels, 3.0 * (inputs + outputs) * pixels);
    }

    /// Multiply-adds as two.
    pub fn flops(&self) -> f64 {
        self.convolutions.iter().chain(&self.products).map(|product| product.flops()).sum::<f64>() + self.attention
    }
}
