//! `Gpu`: a chip as its vendor and published measurements describe it. Peaks are dense.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gpuplan_units::{Bytes, BytesPerSecond};

/// Position of a GPU in the catalog it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GpuId(pub u16);

/// Generation, by what its matrix units and kernels can do. `AmpereGa10x` (8.6) has half of GA100's tensor rate a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Architecture {
    Pascal,
    Volta,
    Turing,
    Ampere,
    #[serde(rename = "ampere-ga10x")]
    AmpereGa10x,
    Ada,
    Hopper,
    Blackwell,
    BlackwellRtx,
    Cdna2,
    Cdna3,
    Cdna4,
}

impl Architecture {
    /// Whether the chip has matrix units at all; without them half precision runs on the vector units.
    pub fn has_tensor_cores(self) -> bool {
        self != Self::Pascal
    }

    /// Matrix units that work beside the rest of a multiprocessor, which attention kernels must be written for: data-centre
    /// parts from Hopper on (Shah et al. 2024, "FlashAttention-3", arXiv 2407.08608, section 2.2).
    pub fn has_asynchronous_products(self) -> bool {
        matches!(self, Self::Hopper | Self::Blackwell)
    }

    /// Year since which fused attention kernels run on the chip: FlashAttention needs Turing and newer (Dao-AILab/flash-attention, README.md);
    /// older chips have PyTorch's memory-efficient kernel since version 2.0 (pytorch.org, "PyTorch 2.0 release", March 2023).
    pub fn fused_attention_since(self) -> u32 {
        if matches!(self, Self::Pascal | Self::Volta) { 2023 } else { 2022 }
    }

    /// FlashAttention 2 was written for its matrix units and its copies past the registers (Dao 2023, arXiv 2307.08691).
    pub fn has_flash2(self) -> bool {
        matches!(self, Self::Ampere | Self::AmpereGa10x | Self::Ada | Self::BlackwellRtx)
    }

    pub fn is_amd(self) -> bool {
        matches!(self, Self::Cdna2 | Self::Cdna3 | Self::Cdna4)
    }
}

/// Number format of a multiplication, which decides the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NumberFormat {
    Fp32,
    Tf32,
    Fp16,
    Bf16,
    Fp8,
    Fp4,
    Int8,
}

/// TFLOP/s by number format; a missing key is a unit that the chip does not have or nobody has measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateTable {
    pub fp32: Option<f64>,
    pub tf32: Option<f64>,
    pub fp16: Option<f64>,
    pub bf16: Option<f64>,
    pub fp8: Option<f64>,
    /// Eight bits with a scale for every 32 values (MX), where the units multiply them at another rate than fp8. GeForce cards of
    /// Blackwell sum plain fp8 in fp32 at half of the rate, and these at the full one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mxfp8: Option<f64>,
    pub fp4: Option<f64>,
    pub int8: Option<f64>,
}

impl RateTable {
    /// Of eight bits with a scale for every block.
    pub fn block_scaled(&self) -> Option<f64> {
        self.mxfp8.or(self.fp8)
    }

    pub fn get(&self, format: NumberFormat) -> Option<f64> {
        match format {
            NumberFormat::Fp32 => self.fp32,
            NumberFormat::Tf32 => self.tf32,
            NumberFormat::Fp16 => self.fp16,
            NumberFormat::Bf16 => self.bf16,
            NumberFormat::Fp8 => self.fp8,
            NumberFormat::Fp4 => self.fp4,
            NumberFormat::Int8 => self.int8,
        }
    }
}

/// One row of `catalogs/gpus.toml`; the units are in the keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Vendor-neutral id with form factor and memory, such as `h100-sxm5-80`.
    pub id: String,
    pub name: String,
    /// The word people type: `H100`, `A100`, `L40S`.
    pub family: String,
    pub vendor: String,
    pub architecture: Architecture,
    pub form_factor: String,
    pub compute_capability: String,
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The number on the box, in GB.
    pub memory_label_gb: f64,
    /// What driver and API report; the fit check uses this one.
    pub memory_visible_mib: f64,
    #[serde(default)]
    pub memory_type: String,
    pub memory_bandwidth_gb_per_s: f64,
    #[serde(default)]
    pub l2_mb: Option<f64>,
    /// Streaming multiprocessors (NVIDIA) or compute units (AMD).
    pub streaming_multiprocessors: u32,
    pub peak_tflops: RateTable,
    /// Highest matrix rate anybody published as measured.
    #[serde(default)]
    pub matmul_ceiling_tflops: RateTable,
    /// Measured read bandwidth of a stream benchmark.
    #[serde(default)]
    pub stream_gb_per_s: Option<f64>,
    /// Link of the usual node, an id of `links.toml`.
    pub link: String,
    #[serde(default)]
    pub link_gb_per_s_one_way: Option<f64>,
    pub pcie_generation: u8,
    pub tdp_watts: f64,
    #[serde(default)]
    pub announced: String,
    pub evidence: Vec<String>,
    /// Keys whose only evidence is memory of a datasheet.
    #[serde(default)]
    pub unverified: Vec<String>,
    pub as_of: String,
    #[serde(default)]
    pub notes: String,
}

impl Gpu {
    pub fn memory(&self) -> Bytes {
        Bytes::from_mib(self.memory_visible_mib)
    }

    pub fn memory_bandwidth(&self) -> BytesPerSecond {
        BytesPerSecond::from_gb(self.memory_bandwidth_gb_per_s)
    }

    /// PCIe one way: 16 GB/s for generation 3 with 16 lanes, doubling with each generation (PCI-SIG base specifications).
    pub fn pcie_bandwidth(&self) -> BytesPerSecond {
        BytesPerSecond::from_gb(16.0 * 2.0_f64.powi(i32::from(self.pcie_generation) - 3))
    }

    pub fn is_unverified(&self, key: &str) -> bool {
        self.unverified.iter().any(|name| name == key)
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
