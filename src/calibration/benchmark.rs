//! `Benchmark`: one piece of work that can be timed on a GPU, with what it computes and moves.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gpuplan_hardware::NumberFormat;

/// What is timed. Sizes are elements unless the name says bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Work {
    /// M x K by K x N, inputs in `format`, sums in fp32.
    Matmul { m: u64, n: u64, k: u64, format: NumberFormat, pass: Pass },
    /// Attention of one layer without a fused kernel: scores, softmax and mixing of all heads, forward.
    Attention { heads: u64, sequence: u64, head_size: u64, format: NumberFormat },
    /// One memory-bound kernel of training over `rows` x `columns` values.
    Kernel { kernel: Kernel, rows: u64, columns: u64 },
    /// Reading memory once (`read`), or reading and writing it (`copy`).
    Stream { writes: bool, bytes: u64 },
    /// One empty kernel of many in a row, launched one by one or as one graph.
    Launch { graph: bool },
    /// Host and device; pageable memory is what plain `malloc` gives.
    HostCopy { to_device: bool, pinned: bool, bytes: u64 },
    /// From the first GPU to the second.
    PeerCopy { bytes: u64 },
    /// A sum over all GPUs of the machine; `bytes` on each of them.
    AllReduce { bytes: u64 },
}

/// Which product of a linear layer it is: the operands lie differently in memory (transposed or not).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pass {
    Forward,
    InputGradient,
    WeightGradient,
}

/// Memory-bound kernels that training is made of. Values are bf16 unless the line says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// Root mean square over a row, then its scaling.
    Norm,
    /// SiLU of one half times the other: two rows in, one out.
    Activation,
    /// Residual sum of two.
    Add,
    /// Loss of a row of logits and its gradient.
    CrossEntropy,
    /// AdamW on an fp32 master copy with two moments, a bf16 gradient and a bf16 weight.
    Optimizer,
    /// Sum of every row.
    Reduction,
}

impl Kernel {
    pub const ALL: [Self; 6] =
        [Self::Norm, Self::Activation, Self::Add, Self::CrossEntropy, Self::Optimizer, Self::Reduction];

    pub fn word(self) -> &'static str {
        match self {
            Self::Norm => "norm",
            Self::Activation => "activation",
            Self::Add => "add",
            Self::CrossEntropy => "cross-entropy",
            Self::Optimizer => "optimizer",
            Self::Reduction => "reduction",
        }
    }

    /// Bytes read and written for each value of rows x columns, counted in the kernel's source.
    pub fn bytes_per_value(self) -> f64 {
        match self {
            // Read twice where a row does not stay in cache; the second reading is not counted.
            Self::Norm => 4.0,
            Self::Activation => 6.0,
            Self::Add => 6.0,
            // Logits in, gradient out.
            Self::CrossEntropy => 4.0,
            // Master and moments in and out, gradient in, weight out.
            Self::Optimizer => 28.0,
            Self::Reduction => 2.0,
        }
    }
}

impl Work {
    /// Multiplications and additions; 0 where none count.
    pub fn flops(&self) -> f64 {
        match *self {
            Self::Matmul { m, n, k, .. } => 2.0 * m as f64 * n as f64 * k as f64,
            Self::Attention { heads, sequence, head_size, .. } => {
                4.0 * heads as f64 * (sequence as f64).powi(2) * head_size as f64
            }
            _ => 0.0,
        }
    }

    /// Bytes that must move at least, through the memory or the link that the work is about.
    pub fn bytes(&self) -> f64 {
        match *self {
            Self::Matmul { m, n, k, format, .. } => {
                let (m, n, k) = (m as f64, n as f64, k as f64);
                (m * k + k * n) * bytes_of(format) + m * n * bytes_of(format).max(2.0)
            }
            Self::Attention { heads, sequence, head_size, format } => {
                // Queries, keys, values, output, and the scores four times: written, read and written by the softmax, read.
                4.0 * heads as f64 * sequence as f64 * (head_size + sequence) as f64 * bytes_of(format)
            }
            Self::Kernel { kernel, rows, columns } => rows as f64 * columns as f64 * kernel.bytes_per_value(),
            Self::Stream { writes, bytes } => bytes as f64 * if writes { 2.0 } else { 1.0 },
            Self::Launch { .. } => 0.0,
            Self::HostCopy { bytes, .. } | Self::PeerCopy { bytes } | Self::AllReduce { bytes } => bytes as f64,
        }
    }

    /// What the operands are in, where that matters to the chip.
    pub fn format(&self) -> Option<NumberFormat> {
        match *self {
            Self::Matmul { format, .. } | Self::Attention { format, .. } => Some(format),
            _ => None,
        }
    }

    /// Sizes that a memory can hold and that are not empty: read from a file, anything may stand there.
    pub fn is_sane(&self) -> bool {
        let sizes = match *self {
            Self::Matmul { m, n, k, .. } => vec![m, n, k],
            Self::Attention { heads, sequence, head_size, .. } => vec![heads, sequence, head_size],
            Self::Kernel { rows, columns, .. } => vec![rows, columns],
            Self::Stream { bytes, .. }
            | Self::HostCopy { bytes, .. }
            | Self::PeerCopy { bytes }
            | Self::AllReduce { bytes } => vec![bytes],
            Self::Launch { .. } => Vec::new(),
        };
        // Products of three such sizes stay inside 64 bits where they are counted as integers.
        let all: f64 = sizes.iter().map(|size| *size as f64).product();
        !sizes.contains(&0) && all < 1e18 && sizes.iter().all(|size| *size < 1 << 42)
    }

    /// Device memory that the work occupies.
    pub fn footprint(&self) -> u64 {
        match *self {
            Self::Matmul { .. } | Self::Attention { .. } => self.bytes() as u64,
            Self::Kernel { kernel, rows, columns } => match kernel {
                Kernel::Optimizer => rows * columns * 16,
                Kernel::Activation | Kernel::Add => rows * columns * 6,
                // And one loss a row.
                Kernel::CrossEntropy => rows * columns * 4 + rows * 4,
                _ => rows * columns * 4,
            },
            Self::Stream { writes, bytes } => bytes * if writes { 2 } else { 1 },
            Self::Launch { .. } => 0,
            Self::HostCopy { bytes, .. } | Self::PeerCopy { bytes } => bytes,
            Self::AllReduce { bytes } => 2 * bytes,
        }
    }
}

/// Bytes of an element in memory; four-bit formats are not measured.
pub fn bytes_of(format: NumberFormat) -> f64 {
    match format {
        NumberFormat::Fp32 | NumberFormat::Tf32 => 4.0,
        NumberFormat::Fp16 | NumberFormat::Bf16 => 2.0,
        NumberFormat::Fp8 | NumberFormat::Int8 => 1.0,
        NumberFormat::Fp4 => 0.5,
    }
}

pub fn word_of(format: NumberFormat) -> &'static str {
    match format {
        NumberFormat::Fp32 => "fp32",
        NumberFormat::Tf32 => "tf32",
        NumberFormat::Fp16 => "fp16",
        NumberFormat::Bf16 => "bf16",
        NumberFormat::Fp8 => "fp8",
        NumberFormat::Fp4 => "fp4",
        NumberFormat::Int8 => "int8",
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |bytes: u64| gpuplan_units::Bytes(bytes as f64).to_string();
        match *self {
            Self::Matmul { m, n, k, format, .. } => write!(f, "{m} x {n} x {k} {}", word_of(format)),
            Self::Attention { heads, sequence, head_size, format } => {
                write!(f, "{heads} heads of {head_size}, {sequence} tokens {}", word_of(format))
            }
            Self::Kernel { kernel, rows, columns } => write!(f, "{} {rows} x {columns}", kernel.word()),
            Self::Stream { writes: false, bytes } => write!(f, "read {}", size(bytes)),
            Self::Stream { writes: true, bytes } => write!(f, "copy {}", size(bytes)),
            Self::Launch { graph: false } => f.write_str("one by one"),
            Self::Launch { graph: true } => f.write_str("in a graph"),
            Self::HostCopy { to_device, pinned, bytes } => {
                let (from, to) = if to_device { ("host", "device") } else { ("device", "host") };
                write!(f, "{from} to {to}, {}, {}", if pinned { "pinned" } else { "pageable" }, size(bytes))
            }
            Self::PeerCopy { bytes } => write!(f, "GPU to GPU, {}", size(bytes)),
            Self::AllReduce { bytes } => write!(f, "all-reduce {}", size(bytes)),
        }
    }
}

/// A piece of work with its place in the suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Benchmark {
    /// Where the workload does this, such as `feed-forward up, forward`; else what it is.
    pub name: String,
    pub work: Work,
    /// How often an average layer of the workload does it; 0: for comparison with other GPUs only.
    pub weight: f64,
}

impl Benchmark {
    pub fn new(name: impl Into<String>, work: Work, weight: f64) -> Self {
        Self { name: name.into(), work, weight }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_counts_what_it_computes_and_moves() {
        let product = Work::Matmul { m: 4096, n: 11008, k: 4096, format: NumberFormat::Bf16, pass: Pass::Forward };
        assert_eq!(product.flops(), 2.0 * 4096.0 * 11008.0 * 4096.0);
        assert_eq!(product.bytes(), 2.0 * f64::from(4096 * 4096 + 2 * 4096 * 11008));
        let optimizer = Work::Kernel { kernel: Kernel::Optimizer, rows: 1, columns: 100 };
        assert_eq!(optimizer.bytes(), 2800.0);
        assert_eq!(Work::Stream { writes: true, bytes: 10 }.bytes(), 20.0);
        assert_eq!(Work::Launch { graph: true }.to_string(), "in a graph");
    }
}
