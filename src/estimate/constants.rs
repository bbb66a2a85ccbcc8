//! Fitted constants of the time model: each with its prior, its unit and its reason. The values are in
//! `benchmarks/results/constants.toml`, written by `gpuplan accuracy --refit`.
//!
//! All are fitted together (maximum a posteriori, robust log error, every source weighing the same) on the published runs
//! of `benchmarks/published`. They are a set: changing one alone makes the rest wrong. The width of a prior is relative.
//! Formula numbers F1 to F13 are those of `docs/estimate.md`.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::parameters::{Parameter, Scale, constants};
use gpuplan_hardware::Architecture;

/// Values of the last fit, with what it rested on.
static FITTED: &str = include_str!("../../benchmarks/results/constants.toml");

constants! {
    Constants, PARAMETERS;
    /// Share of the matmul ceiling that training GEMMs reach on GA100.
    gemm_share: Share 0.93 +- 0.04 "";
    /// Reduction length at which the main loop of a GEMM is half of its time on an A100-class multiprocessor.
    /// As fitted before, too.
    gemm_reduction_length: Log 138.0 +- 0.05 "elements";
    /// Exponent on tile and wave quantisation: below 1 because kernels overlap their tails.
    /// As it was fitted on all published runs, before those of A100 and H100 were timed by measured kernels.
    wave_exponent: Log 0.52 +- 0.03 "";
    /// What training sustains of a product that was measured alone, on a GPU with a table of kernels; GA100.
    sustained_share: Share 0.93 +- 0.04 "";
    /// Factor on it for Hopper.
    sustained_hopper: Log 0.9 +- 0.1 "";
    /// Factor on it for Blackwell.
    sustained_blackwell: Log 0.85 +- 0.15 "";
    /// GEMM share of Volta (and Pascal) relative to GA100.
    generation_volta: Log 0.95 +- 0.12 "";
    /// GEMM share of Turing relative to GA100.
    generation_turing: Log 0.95 +- 0.15 "";
    /// GEMM share of GA10x relative to GA100.
    generation_ga10x: Log 0.95 +- 0.15 "";
    /// GEMM share of Ada relative to GA100.
    generation_ada: Log 0.95 +- 0.15 "";
    /// GEMM share of Hopper relative to GA100: as it was fitted on all published runs before those of H100 were timed by measured
    /// kernels. What is served is timed by it.
    generation_hopper: Log 0.91 +- 0.02 "";
    /// GEMM share of Blackwell relative to GA100.
    generation_blackwell: Log 0.8 +- 0.15 "";
    /// GEMM share of CDNA 2 to 4 relative to GA100, beside their measured ceiling: AMD itself reaches 1.06 times the ceiling that
    /// the catalog has of an MI300X (708 TFLOP/s in bf16, as at `CDNA_FP8_SHARE`).
    generation_cdna: Log 1.0 +- 0.15 "";
    /// Clock of GeForce boards over the boost clock that their peaks are stated for.
    geforce_clock: Log 1.06 +- 0.04 "";
    /// Large-matmul rate of plain fp32 over its ceiling, on vector units of any generation.
    fp32_share: Log 0.92 +- 0.1 "";
    /// Share of the fp8 peak beside `gemm_share`.
    fp8_share: Log 0.8 +- 0.15 "";
    /// Exponent of the power limit on cards with few watts for their peak.
    power_exponent: Log 0.5 +- 0.3 "";
    /// Share of the matmul ceiling that a flash attention kernel reaches.
    flash_share: Log 0.38 +- 0.3 "";
    /// Factor on it for Hopper and Blackwell, whose matrix units outgrew the exponential units.
    flash_share_newer: Log 0.7 +- 0.2 "";
    /// Memory traffic per attention score of an unfused kernel, forward and backward, 2-byte data.
    eager_score_bytes: Log 30.0 +- 0.4 "bytes";
    /// Memory traffic per token and hidden unit of element-wise work, forward and backward, 2-byte data.
    elementwise_bytes: Log 180.0 +- 0.35 "bytes";
    /// Factor on the two above for stacks with fused kernels (Megatron family, compiled code).
    fused_share: Log 0.7 +- 0.2 "";
    /// Share of a stream benchmark's bandwidth that training kernels reach.
    bandwidth_share: Share 0.92 +- 0.04 "";
    /// Bandwidth that one multiprocessor can keep in flight, which limits parts with much bandwidth for their size.
    multiprocessor_bandwidth: Log 6e10 +- 0.5 "bytes/s";
    /// Multiplier on logits traffic (16 bytes per token and vocabulary entry in training).
    logits_traffic: Log 1.0 +- 0.3 "";
    /// Optimizer step traffic per parameter.
    optimizer_bytes: Log 30.0 +- 0.4 "bytes";
    /// Dequantisation traffic per 4-bit weight and pass.
    dequantise_bytes: Log 8.0 +- 0.5 "bytes";
    /// Host time to launch one pass of one layer in eager mode.
    launch_seconds: Log 0.0006 +- 0.5 "seconds";
    /// Added to it under ZeRO-3, which gathers parameters layer by layer.
    launch_gather_seconds: Log 0.0003 +- 0.6 "seconds";
    /// Factor on `launch_seconds` with adapters.
    launch_adapters: Log 1.5 +- 0.25 "";
    /// Factor on `launch_seconds` with 4-bit layers, which launch an unpacking kernel each.
    launch_quantised: Log 1.6 +- 0.25 "";
    /// Factor on `launch_seconds` for compiled code.
    launch_compiled: Log 0.4 +- 0.4 "";
    /// Host time of a micro-step.
    micro_step_seconds: Log 0.001 +- 1.0 "seconds";
    /// Host time of an optimizer step for every layer of the rank: loss scaling, clipping, kernels a tensor.
    step_layer_seconds: Log 1e-4 +- 1.0 "seconds";
    /// Host time of a loss-scaled optimizer step for every layer of the rank: unscaling, the overflow check, the wait for it.
    scaling_layer_seconds: Log 5e-4 +- 1.0 "seconds";
    /// Share of one-way NVLink bandwidth that collectives reach as bus bandwidth.
    nvlink_share: Share 0.7 +- 0.2 "";
    /// Share of the node network that collectives reach.
    network_share: Share 0.75 +- 0.2 "";
    /// Share of one-way PCIe bandwidth that collectives reach.
    pcie_share: Share 0.5 +- 0.4 "";
    /// Factor on PCIe for cards that cannot reach each other directly (GeForce): everything goes through host memory.
    no_peer_share: Log 0.6 +- 0.3 "";
    /// Latency of one hop of a ring inside a machine.
    hop_seconds: Log 1e-5 +- 0.6 "seconds";
    /// Host time to start a collective.
    launch_collective_seconds: Log 5e-5 +- 0.6 "seconds";
    /// Exposed share of data-parallel traffic that could overlap with the backward pass.
    exposed_reduce: Share 0.25 +- 0.5 "";
    /// Exposed share of sharded traffic (gathers and reduce-scatters).
    exposed_sharded: Share 0.25 +- 0.5 "";
    /// The same of stacks whose schedule prefetches for as long as there is arithmetic to run beside.
    exposed_prefetched: Share 0.05 +- 0.5 "";
    /// Multiplier on the ideal pipeline bubble.
    bubble: Log 1.0 +- 0.1 "";
    /// Relative slow-down per doubling of the number of machines.
    jitter_per_doubling: Log 0.008 +- 0.6 "";
    /// The same of clusters of Hopper and Blackwell: 16 and 2,048 of them differed by 4.5 % in all (NVIDIA/dgxc-benchmarking v25.04.02).
    jitter_newer: Log 0.004 +- 0.6 "";
    /// GPU work of PyTorch FSDP stacks.
    fsdp_work: Log 1.0 +- 0.05 "";
    /// Launch time of PyTorch FSDP stacks.
    fsdp_launch: Log 1.0 +- 0.5 "";
    /// GPU work of Megatron-LM.
    megatron_work: Log 1.0 +- 0.05 "";
    /// Launch time of Megatron-LM.
    megatron_launch: Log 1.0 +- 0.5 "";
    /// Forward and backward of a ResNet-50 image at 224.
    resnet_flops: Log 2.46e10 +- 0.05 "FLOP";
    /// Elements moved by its memory-bound kernels.
    resnet_elements: Log 2.1e8 +- 0.15 "elements";
    /// Host time of its micro-step.
    resnet_host_seconds: Log 0.02 +- 0.7 "seconds";
    /// Images that one loader process delivers.
    resnet_loader_rate: Log 3060.0 +- 0.05 "images/s";
    /// Forward and backward of an SSD300 image.
    ssd_flops: Log 1.21e11 +- 0.1 "FLOP";
    /// Elements moved by its memory-bound kernels.
    ssd_elements: Log 6e8 +- 0.2 "elements";
    /// Host time of its micro-step.
    ssd_host_seconds: Log 0.02 +- 0.7 "seconds";
    /// Images that one loader process delivers.
    ssd_loader_rate: Log 1035.0 +- 0.05 "images/s";
    /// Forward and backward of a Stable Diffusion 2 image at 256, encoders included.
    diffusion_flops: Log 9.4e11 +- 0.2 "FLOP";
    /// Elements moved by its memory-bound kernels.
    diffusion_elements: Log 3e9 +- 0.5 "elements";
    /// Host time of its micro-step: some ten thousand kernels in eager mixed precision.
    diffusion_host_seconds: Log 0.18 +- 0.5 "seconds";
    /// Rate of convolutions relative to the large matrix products of the same GPU.
    convolution_share: Log 0.7 +- 0.3 "";
    /// The same for plain fp32, where Winograd kernels save multiplications.
    convolution_vector_share: Log 1.3 +- 0.2 "";
    /// Bandwidth of their memory-bound kernels relative to those of transformers.
    convolution_bandwidth: Log 1.0 +- 0.2 "";
    /// Multiplier on the ideal gradient reduction over NVLink.
    reduce_nvlink: Log 1.0 +- 0.5 "";
    /// The same over PCIe at the rate of its copies.
    reduce_pcie: Log 1.0 +- 0.5 "";
    /// The same over the network.
    reduce_network: Log 1.0 +- 0.4 "";
    /// Synchronisation of data-parallel ranks in a step.
    sync_seconds: Log 0.002 +- 1.0 "seconds";
}

/// Matmul ceiling over datasheet peak where nobody has published a measurement.
pub const UNMEASURED_CEILING: f64 = 0.80;
/// The same for vector fp32.
pub const VECTOR_CEILING: f64 = 0.95;
/// Share of the LM head that masked-language-model pre-training computes: 15 % of tokens are masked (Devlin et al. 2018).
pub const MASKED_HEAD_SHARE: f64 = 0.16;
/// Operators that PyTorch launches for the forward pass of a decoder's layer, which `launch_seconds` was fitted on: two norms of eight, four
/// projections, two rotations of five, attention and a copy, two sums, five of a gated block (transformers, models/llama/modeling_llama.py).
pub const DECODER_LAYER_OPERATORS: f64 = 40.0;
/// Part of a backward pass left when the first gradient bucket is ready; data-parallel traffic hides behind it.
pub const BACKWARD_WINDOW: f64 = 0.66;
/// Sequence at which a causal flash kernel works at half of its rate for endless ones; without a mask 100. From rates of
/// 191 to 335 TFLOP/s over sequences of 512 to 16384, and 309 to 370 without a mask, of FlashAttention 2 on an H100
/// (Shah et al. 2024, arXiv 2407.08608, figure 5).
pub const FLASH_CAUSAL_SEQUENCE: f64 = 350.0;
pub const FLASH_FULL_SEQUENCE: f64 = 100.0;
/// Share of the 16-bit peak that attention kernels written for Hopper and Blackwell reach on long causal sequences, forward
/// and backward together: cuDNN's 539 TFLOP/s forward at 16384 tokens of an H100 (the same figure), and as much backward.
/// No published run is in the fit.
pub const FLASH3_SHARE: f64 = 0.55;
/// Shares of the 16-bit peak that FlashAttention 2 reaches on an A100, forward and backward (Dao 2023, arXiv 2307.08691, sections 1 and
/// 4.1: up to 73 and 63 %). Its predecessor reaches 25 to 40 % (the same), which is what `flash_share` was fitted on.
pub const FLASH2_FORWARD: f64 = 0.73;
pub const FLASH2_BACKWARD: f64 = 0.63;
/// Plain fp32 FLOP/s of an H100 over those of its matrix units in 16 bits (67 and 989 TFLOP/s).
pub const HOPPER_VECTOR_SHARE: f64 = 67.0 / 989.0;
/// Shares of the 16-bit peak that FlashAttention 2 and 3 reach where nothing but the matrix units bounds them: 65.9 and 107.8 of the 148 TFLOP/s of
/// an H20 over 2,048 causal tokens, 83.7 and 126.2 without a mask, made endless (Dao-AILab/flash-attention issue 1310); the means of both.
pub const CUT_FLASH2_SHARE: f64 = 0.56;
pub const CUT_FLASH3_SHARE: f64 = 0.87;
/// FLOP/s of FlashAttention 2 over endless sequences on data-centre Blackwell, forward and backward together: it multiplies with Ampere's instructions, which
/// the newer matrix units do not speed up, so it is hardly faster there than on an H100. On a B200 354 to 362 forward over 4,096 and 8,192 tokens of heads of
/// 128 (meta-pytorch/tritonbench pull request 171), 334 backward (Dao-AILab/flash-attention issue 1589): 3.5 / (1 / 358 + 2.5 / 334).
pub const BLACKWELL_FLASH2: f64 = 3.5e12 / (1.0 / 358.0 + 2.5 / 334.0);
/// Backward over forward time of a fused attention kernel written for Hopper and Blackwell: 2.5 times the FLOPs (Dao et al. 2022,
/// arXiv 2205.14135) at nearly the rate. Kernels alone say 2.5 to 2.9 (FlashAttention-3 on an H100, arXiv 2407.08608, figures 5 and
/// 6); runs over a million tokens, which are all attention (nemo-longseq), say that it is near the lower end.
pub const ATTENTION_BACKWARD: f64 = 2.6;
/// Of CDNA, what a product in fp8 reaches of its peak over what one in bf16 reaches of its own: 1,273 of 2,614 and 708 of 1,307 TFLOP/s on an
/// MI300X with hipBLASLt (AMD ROCm blogs, "Measuring Max-Achievable FLOPs - Part 2", February 2025).
pub const CDNA_FP8_SHARE: f64 = 0.90;
/// Share of the 16-bit peak that attention reaches on CDNA 3 and 4 over long causal sequences, forward and backward together: 547 and 423
/// TFLOP/s on an MI300X, 1,319 and 775 on an MI355X at 8,192 tokens (ROCm/aiter, op_tests/cpp/mha/README.md, sums of gradients in fp32).
pub const CDNA_FLASH_SHARE: f64 = 0.37;
/// Time of attention in 8 bits over that in 16 on Hopper and Blackwell: 0.77 to 0.84 in the median of six measured cards, over 2,048 to 32,768
/// tokens and heads of 128 (`benchmarks/kernels`, causal, TensorRT-LLM, fp8 with an fp8 cache over bf16). Backward is taken to gain as much.
pub const ATTENTION_IN_EIGHT_BITS: f64 = 0.79;
/// Time of linear layers in formats with a scale for every block over formats with one for a whole tensor: both orientations
/// are quantised on their own. From four pairs of runs that differ in nothing else, each 4 to 6 % longer as a whole
/// (Megatron Bridge, performance summary of container 25.11). No such run is in the fit.
pub const BLOCK_SCALING_COST: f64 = 1.09;
/// Values moved to add a gradient to the sum of earlier micro-steps, each as wide as a weight: autograd's `AccumulateGrad` reads the new
/// gradient, and reads and writes the sum (pytorch/pytorch, torch/csrc/autograd/functions/accumulate_grad.h).
pub const SUMMED_VALUES: f64 = 3.0;
/// The same where a sum in fp32 stands beside a gradient in 16 bits: two bytes are read, and four read and written.
pub const SUMMED_VALUES_BESIDE: f64 = 5.0;
/// Bytes that a moving average of the weights moves for each in a step: weight and average are read in fp32, the average is written back.
pub const EMA_TRAFFIC: f64 = 12.0;
/// Adapter parameters over base parameters, for traffic only (memory counts them exactly).
pub const ADAPTER_SHARE: f64 = 0.005;
/// Bytes that PEFT moves for an adapted matrix beside its product, for each value of input and of output, forward and backward. Forward an
/// input is cast to fp32 (6), cast back for the product (6) and read by it (2); an output is written, scaled and added (2 + 4 + 6). Backward
/// the gradient of the input takes the same way back and is added (2 + 6 + 6 + 6), and its product reads the input (2); that of the output is
/// scaled and read twice (4 + 4) (huggingface/peft, src/peft/tuners/lora/layer.py, `Linear.forward`: `result + lora_B(lora_A(dropout(x))) * scaling`).
pub const PEFT_FORWARD_BYTES: (f64, f64) = (14.0, 12.0);
pub const PEFT_BACKWARD_BYTES: (f64, f64) = (22.0, 8.0);
/// The same where adapters are kept in 16 bits, and nothing is cast: an input is read (2), and backward read again (2) and its gradient written
/// and added (2 + 6).
pub const ADAPTER_FORWARD_BYTES: (f64, f64) = (2.0, 12.0);
pub const ADAPTER_BACKWARD_BYTES: (f64, f64) = (10.0, 8.0);
/// Elements of the operators of a diffusion layer where autocast keeps norms, what they give and the residual stream in fp32, over those in 16
/// bits: 56 of DiT over 32 (facebookresearch/DiT, models.py, `DiTBlock.forward`; the casts are those of torch.autocast). Counted.
pub const AUTOCAST_ELEMENTS: f64 = 56.0 / 32.0;
/// Matrices of a decoder's layer, on runs of which `launch_adapters` and `launch_quantised` were fitted; and of a diffusion layer, those of a
/// second stream left out.
pub const DECODER_MATRICES: f64 = 7.0;
pub const DIFFUSION_MATRICES: f64 = 6.0;
/// Of a decoder's, those of attention: queries, keys, values and output.
pub const ATTENTION_MATRICES: f64 = 4.0;
/// Bytes of a dropout of fp32 inputs in either pass: read, written, and its mask.
pub const PEFT_DROPOUT_BYTES: f64 = 9.0;

/// The constants file: values with the fit they came from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fitted {
    /// Recorded in every plan, so that a locked plan knows when the constants changed.
    pub version: String,
    /// Published runs that were fitted.
    pub runs: usize,
    /// Mean absolute error in sample, percent: over runs, and over groups of at least eight runs.
    pub error_percent: f64,
    pub macro_error_percent: f64,
    /// The same for groups that the constants never saw.
    pub held_out_macro_percent: f64,
    /// Over runs of families that are no decoders, on GPU models that the constants never saw.
    pub held_out_gpu_percent: f64,
    pub values: Constants,
    pub held_out_groups: Vec<HeldOutError>,
    pub held_out_gpus: Vec<HeldOutError>,
    /// All runs, on generations of GPUs that the constants never saw.
    #[serde(default)]
    pub held_out_generations: Vec<HeldOutError>,
    pub held_out_inference: Vec<HeldOutInference>,
}

/// Error of one group or GPU when it was held out.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HeldOutError {
    pub name: String,
    pub runs: usize,
    pub mape_percent: f64,
}

/// Error of inference on one GPU model by constants that were fitted without any run on it, of training too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeldOutInference {
    /// `decode` or `prefill`.
    pub what: String,
    pub gpu: String,
    pub runs: usize,
    pub mape_percent: f64,
    /// The same without any run on a model of its family: an A100 without A100s of any memory or form.
    pub family_mape_percent: f64,
}

/// Measured over predicted time at 10 % and 90 % when whole groups were held out.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RegimeBand {
    pub regime: String,
    pub low: f64,
    pub high: f64,
}

impl Fitted {
    /// The file inside this binary.
    pub fn embedded() -> &'static Self {
        static READ: OnceLock<Fitted> = OnceLock::new();
        READ.get_or_init(|| {
            toml::from_str(FITTED).expect("the test of this file reads the constants that the binary holds")
        })
    }
}

impl Constants {
    pub fn embedded() -> &'static Self {
        &Fitted::embedded().values
    }

    /// GEMM share of a generation relative to GA100, for half precision and tf32.
    pub fn generation(&self, architecture: Architecture) -> f64 {
        match architecture {
            Architecture::Pascal | Architecture::Volta => self.generation_volta,
            Architecture::Turing => self.generation_turing,
            Architecture::Ampere => 1.0,
            Architecture::AmpereGa10x => self.generation_ga10x,
            Architecture::Ada => self.generation_ada,
            Architecture::Hopper => self.generation_hopper,
            Architecture::Blackwell => self.generation_blackwell,
            // No published run on it was fitted, and its matrix units are those of Ada and before, not the data center's.
            Architecture::BlackwellRtx => 1.0,
            Architecture::Cdna2 | Architecture::Cdna3 | Architecture::Cdna4 => self.generation_cdna,
        }
    }

    /// What training sustains of a product that was measured alone.
    pub fn sustained(&self, architecture: Architecture) -> f64 {
        let of_generation = match architecture {
            Architecture::Hopper => self.sustained_hopper,
            Architecture::Blackwell | Architecture::BlackwellRtx => self.sustained_blackwell,
            _ => 1.0,
        };
        self.sustained_share * of_generation
    }

    /// Multipliers of a framework on GPU work and launch time. A framework has its own only where at least two groups of
    /// sources use it; the others have 1 and a wider band.
    pub fn framework(&self, name: &str) -> FrameworkFactors {
        match name {
            "fsdp" | "fsdp-compile" => {
                FrameworkFactors { work: self.fsdp_work, launch: self.fsdp_launch, fitted: true }
            }
            "megatron" => FrameworkFactors { work: self.megatron_work, launch: self.megatron_launch, fitted: true },
            _ => FrameworkFactors { work: 1.0, launch: 1.0, fitted: KNOWN_FRAMEWORKS.contains(&name) },
        }
    }
}

/// Frameworks with published runs, whose spread the bands hold already.
const KNOWN_FRAMEWORKS: [&str; 6] =
    ["megatron-deepspeed", "internevo", "nvidia-examples", "pytorch-eager", "litgpt", "torchtune"];

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrameworkFactors {
    pub work: f64,
    pub launch: f64,
    /// Published runs of this framework exist.
    pub fitted: bool,
}

/// Watts of a superchip, host and chip together, in machines of four: about 660 on Alps (eth-cscs/cscs-docs, docs/running/slurm.md, "GH200
/// power capping") and 680 on JUPITER (apps.fz-juelich.de/jsc/hps/jupiter/configuration.html).
pub const SUPERCHIP_WATTS: f64 = 670.0;
/// Watts of them that the host takes first: what the same page of Alps caps it at in its example, of 50 to 300.
pub const SUPERCHIP_HOST_WATTS: f64 = 100.0;
/// Watts of an H100 SXM5, at which Hopper's ceilings were measured.
pub const HOPPER_WATTS: f64 = 700.0;

/// Work per watt relative to Volta, from the process node: a guess that only limits cards with little power.
pub fn work_per_watt(architecture: Architecture) -> f64 {
    match architecture {
        Architecture::Pascal | Architecture::Volta | Architecture::Turing => 1.0,
        Architecture::AmpereGa10x => 1.5,
        Architecture::Ampere | Architecture::Cdna2 => 2.0,
        Architecture::Ada => 3.0,
        Architecture::Hopper | Architecture::Cdna3 => 3.5,
        Architecture::Blackwell | Architecture::BlackwellRtx | Architecture::Cdna4 => 4.5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_file_is_read_and_physical() {
        let fitted = Fitted::embedded();
        for parameter in PARAMETERS {
            let value = (parameter.get)(&fitted.values);
            assert!(value > 0.0 && value.is_finite(), "{}: {value}", parameter.name);
            assert!(parameter.scale != Scale::Share || value < 1.0, "{}: {value}", parameter.name);
        }
    }
}
