//! What measured kernels say of the products and the attention of a recipe, one at a time on an idle GPU.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use crate::constants::Constants;
use crate::kernels::{Attention, Engine, KernelPrecision, KernelTable, Lent};
use gpuplan_hardware::Gpu;
use gpuplan_units::Seconds;
use gpuplan_workload::{Gemm, Precision};

const ENGINES: [Engine; 2] = [Engine::TensorRtLlm, Engine::Vllm];

/// The table of a GPU, and the format in which the linear layers of a recipe multiply.
#[derive(Clone, Copy, Debug)]
pub struct RecipeKernels {
    table: KernelTable,
    linear: KernelPrecision,
    /// The table is of another card of the generation, and answers for products of the linear layers alone.
    lent: Option<Lent>,
}

impl RecipeKernels {
    /// `None`: nobody measured this GPU in this format, or in fewer than 16 bits another one of its generation, or only a slice of it
    /// runs. In 16 bits the closed form was fitted on runs of most generations.
    pub fn new(gpu: &Gpu, precision: Precision, card_share: f64, constants: &Constants) -> Option<Self> {
        let linear = match precision {
            Precision::Fp32 | Precision::Tf32 => return None,
            Precision::Fp16 | Precision::AmpFp16 | Precision::Bf16 | Precision::PureBf16 => KernelPrecision::Bf16,
            Precision::Fp8 => KernelPrecision::Fp8,
            Precision::Mxfp8 => KernelPrecision::Fp8Block,
            Precision::Nvfp4 => KernelPrecision::Nvfp4,
        };
        if card_share != 1.0 {
            return None;
        }
        if let Some(table) = KernelTable::embedded(gpu) {
            return table.has_products(linear).then_some(Self { table, linear, lent: None });
        }
        let lent = (linear != KernelPrecision::Bf16).then(|| Lent::to(gpu, linear, constants))??;
        Some(Self { table: lent.table, linear, lent: Some(lent) })
    }

    /// A product of the linear layers, and those for the gradients of its input and its weight. `None` where they were not measured.
    pub fn product(&self, gemm: Gemm) -> Option<[f64; 3]> {
        self.fastest_seconds(self.linear, gemm)
    }

    /// The same in 16 bits, which recipes of fewer bits keep for the head and for some layers.
    pub fn half(&self, gemm: Gemm) -> Option<[f64; 3]> {
        if self.lent.is_some() { None } else { self.fastest_seconds(KernelPrecision::Bf16, gemm) }
    }

    /// By the faster of the engines' kernels: a training stack picks among the same libraries.
    fn fastest_seconds(&self, precision: KernelPrecision, gemm: Gemm) -> Option<[f64; 3]> {
        let identity = self.lent.map_or(self.table.identity(), |lent| lent.identity());
        let shape = [identity, precision as u64, gemm.m.to_bits(), gemm.n.to_bits(), gemm.k.to_bits(), 0];
        let fastest = |one: Gemm| {
            let seconds = |engine| self.table.product_seconds(engine, precision, one.m, one.n, one.k);
            let measured = ENGINES.into_iter().filter_map(seconds).map(|Seconds(one)| one).reduce(f64::min)?;
            Some(self.lent.map_or(measured, |lent| lent.seconds(one, measured)))
        };
        let of_each = remembered(shape, || {
            Some([fastest(gemm)?, fastest(gemm.input_gradient())?, fastest(gemm.weight_gradient())?])
        });
        of_each.map(|seconds| seconds.map(|one| gemm.count * one))
    }

    /// Forward, in 16 bits, causal or without a mask.
    pub fn attention(&self, attention: &Attention, is_causal: bool) -> Option<f64> {
        if self.lent.is_some() {
            return None;
        }
        let half = KernelPrecision::Bf16;
        let seconds = |engine| {
            if is_causal {
                self.table.context_seconds(engine, half, half, attention)
            } else {
                self.table.encoder_seconds(engine, attention)
            }
        };
        let Attention { batch, heads, kv_heads, head_dim, length, window } = *attention;
        let kind = if is_causal { CAUSAL } else { FULL };
        let sizes = [batch, heads, kv_heads, length].map(f64::to_bits);
        let reach = window.map_or(0, |window| u64::from(window) + 1);
        let kind = (kind << 56) | (reach << 24) | u64::from(head_dim);
        let shape = [self.table.identity(), kind, sizes[0], sizes[1], sizes[2], sizes[3]];
        let fastest = || ENGINES.into_iter().filter_map(seconds).map(|Seconds(one)| one).reduce(f64::min);
        remembered(shape, || fastest().map(|one| [one, 0.0, 0.0])).map(|[one, ..]| one)
    }
}

/// Kinds of kernels beside the products, which are numbered by their precision.
const CAUSAL: u64 = 0xfe;
const FULL: u64 = 0xff;

/// Answers that a thread keeps, in pairs that share a place, the last one asked for first: two kernels that a search asks for in turns do not
/// drive each other out. A search asks for the products of a few layouts again and again.
const PAIRS: usize = 512;

/// A kernel and what its table says, forward and for both gradients.
type Remembered = ([u64; 6], Option<[f64; 3]>);

/// What the table said of this kernel, or of a product and those of its gradients, or says now: looking a product up takes 100 ns, and finding
/// the answer again a few.
fn remembered(kernel: [u64; 6], look_up: impl FnOnce() -> Option<[f64; 3]>) -> Option<[f64; 3]> {
    thread_local! {
        static KNOWN: RefCell<Vec<[Remembered; 2]>> = RefCell::new(vec![[([0; 6], None); 2]; PAIRS]);
    }
    KNOWN.with_borrow_mut(|known| {
        let mut hasher = FxHasher::default();
        kernel.hash(&mut hasher);
        // The high bits of this hash are its good ones.
        let pair = &mut known[(hasher.finish() >> 55) as usize];
        let is_known = |one: &Remembered| one.0.iter().zip(&kernel).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0;
        if is_known(&pair[0]) {
            return pair[0].1;
        }
        pair.swap(0, 1);
        if !is_known(&pair[0]) {
            pair[0] = (kernel, look_up());
        }
        pair[0].1
    })
}
