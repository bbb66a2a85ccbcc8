//! `KernelTable`: the measured kernels of one GPU and the peak that bounds them; the questions are in the files of each kind.

use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use rustc_hash::FxHasher;

use gpuplan_embedded::{KERNELS, KernelText, kernel_text};
use gpuplan_hardware::{Gpu, NumberFormat};
use gpuplan_units::Seconds;

use crate::kernels::names::{Engine, KernelPrecision, Part};
use crate::kernels::packed::{Packed, PackedError};

/// Measured kernels of one GPU model.
#[derive(Clone, Copy, Debug)]
pub struct KernelTable {
    pub(super) packed: &'static Packed,
    /// Seconds of a FLOP at the dense peak of each format, 0 where none is known.
    fastest: Fastest,
    /// Seconds of a byte at the memory bandwidth of the sheet.
    pub(super) of_byte: f64,
    /// Tells tables and the bounds on them apart while the program runs.
    identity: u64,
}

#[derive(Clone, Copy, Debug)]
struct Fastest {
    bf16: f64,
    fp8: f64,
    fp4: f64,
    int8: f64,
}

/// GPUs that differ from a measured one in their memory alone.
const SAME_SILICON: [(&str, &str); 1] = [("a100-sxm4-40", "a100-sxm4-80")];

static EMBEDDED: [OnceLock<Packed>; KERNELS.len()] = [const { OnceLock::new() }; KERNELS.len()];

impl KernelTable {
    /// The table inside this binary; `None` for a GPU without one. The first call for a GPU decompresses it (a millisecond),
    /// and the first question about a part of it reads that part.
    pub fn embedded(gpu: &Gpu) -> Option<Self> {
        let id = SAME_SILICON.iter().find(|(id, _)| *id == gpu.id).map_or(gpu.id.as_str(), |(_, measured)| measured);
        let place = KERNELS.iter().position(|(measured, _)| *measured == id)?;
        let packed = EMBEDDED[place].get_or_init(|| {
            let text = kernel_text(KERNELS[place].1).expect("a test unpacks every committed table");
            Packed::new(text).expect("a test reads every committed table")
        });
        Some(Self::for_gpu(packed, gpu))
    }

    /// A table of the same kind from elsewhere: the unpacked text of what `benchmarks/kernels/pack.py` writes. It stays for as long
    /// as the program runs.
    pub fn read(text: &str, gpu: &Gpu) -> Result<Self, PackedError> {
        Ok(Self::for_gpu(Box::leak(Box::new(Packed::new(KernelText::new(text))?)), gpu))
    }

    fn for_gpu(packed: &'static Packed, gpu: &Gpu) -> Self {
        let of_flop = |format| gpu.peak_tflops.get(format).map_or(0.0, |tera| 1e-12 / tera);
        let fastest = Fastest {
            bf16: of_flop(NumberFormat::Bf16),
            fp8: of_flop(NumberFormat::Fp8),
            fp4: of_flop(NumberFormat::Fp4),
            int8: of_flop(NumberFormat::Int8),
        };
        let of_byte = 1.0 / gpu.memory_bandwidth().0;
        let mut hasher = FxHasher::default();
        (std::ptr::from_ref(packed) as usize).hash(&mut hasher);
        [fastest.bf16, fastest.fp8, fastest.fp4, fastest.int8, of_byte].map(f64::to_bits).hash(&mut hasher);
        Self { packed, fastest, of_byte, identity: hasher.finish() }
    }

    /// Tells tables and the bounds on them apart while the program runs.
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// Whether an engine's products were measured in this format.
    pub fn has_products(&self, precision: KernelPrecision) -> bool {
        [Engine::TensorRtLlm, Engine::Vllm].iter().any(|engine| self.packed.has(Part::Gemm(*engine, precision)))
    }

    /// What so many FLOPs take at the dense peak of the units that multiply.
    fn at_peak(&self, precision: KernelPrecision, flops: f64) -> f64 {
        let of_flop = match precision.format() {
            NumberFormat::Fp8 => self.fastest.fp8,
            NumberFormat::Fp4 => self.fastest.fp4,
            NumberFormat::Int8 => self.fastest.int8,
            _ => self.fastest.bf16,
        };
        flops * of_flop
    }

    /// Measured, and not below what the work takes at the peak.
    pub(super) fn bounded(&self, seconds: f64, precision: KernelPrecision, flops: f64) -> Seconds {
        Seconds(seconds.max(self.at_peak(precision, flops)))
    }
}
