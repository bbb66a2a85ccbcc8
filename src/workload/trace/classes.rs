//! What kind of work an operator is, by the name that profilers give it.

use crate::profile::OperatorClass;

/// Parts of the names of collectives: NCCL and RCCL kernels, XLA's operators, what stacks write themselves. Names are those of the
/// sources: DeepEP (`deep_ep::internode::dispatch`; DeepSeek's own build says `dpsk::ep`), MORI (`EpDispatchIntraNodeKernel`),
/// TensorRT-LLM (`moeA2ADispatchKernel`), custom all-reduce of vLLM, SGLang and AITER (`cross_device_reduce_1stage`), Transformer
/// Engine (`userbuffers_fp16_sum_inplace_gpu_rr`), MSCCL++, PyTorch's symmetric memory (`multimem_one_shot_all_reduce_kernel`).
const COMMUNICATION: [&str; 33] = [
    "nccl",
    "rccl",
    "oneccl",
    "all-reduce",
    "all_reduce",
    "allreduce",
    "all-gather",
    "all_gather",
    "allgather",
    "reduce-scatter",
    "reduce_scatter",
    "all-to-all",
    "alltoall",
    "collective-permute",
    "nvshmem",
    "rocshmem",
    "msccl",
    "deep_ep",
    "deepep",
    "hybrid_ep",
    "::ep::",
    "internode",
    "intranode",
    "epdispatch",
    "epcombine",
    "moea2a",
    "moe_a2a",
    "mnnvl",
    "cross_device_reduce",
    "userbuffers",
    "quickreduce",
    "multimem",
    "symm_mem",
];
/// Parts of the names of copies; ROCm's tracer writes `CopyHostToDevice`.
const COPY: [&str; 8] = [
    "memcpy",
    "copy-start",
    "copy-done",
    "infeed",
    "outfeed",
    "copyhosttodevice",
    "copydevicetohost",
    "copydevicetodevice",
];
/// Parts of the names of matrix products, convolutions and attention: cuBLAS, cuDNN, MIOpen, CUTLASS, Triton, Tensile and XLA; what serving
/// engines call theirs: Marlin, the experts of vLLM and SGLang (`fused_moe_kernel`) and AITER (`fmoe_`), FlashInfer's attention
/// (`BatchPrefillWithPagedKVCacheKernel`).
const COMPUTE: [&str; 33] = [
    "gemm",
    "cutlass",
    "cublas",
    "nvjet",
    "xmma",
    "wgmma",
    "hmma",
    "cijk_",
    "implicit_convolve",
    "winograd",
    "scudnn",
    "asmconv",
    "miopenconv",
    "convolve",
    "convolution",
    "conv2d",
    "conv1d",
    "conv3d",
    "flash",
    "attn_fwd",
    "attn_bwd",
    "batchprefill",
    "batchdecode",
    "singleprefill",
    "singledecode",
    "fmha",
    "attention",
    "sdpa",
    "matmul",
    "tensile",
    "marlin<",
    "fused_moe_kernel",
    "fmoe_",
];
/// Parts of the names of kernels that move memory though a library, or the operators that they were fused from, give
/// them the name of a product or a collective. Inductor's pointwise, reduction and foreach kernels (`torch/_inductor/codegen/triton.py`; its products begin with `triton_tem_`): what
/// follows are the names of the operators whose results they write. Norms, rotations, caches and samplers of FlashInfer, vLLM and
/// CuTe (`kernel_cutlass_kernel_flashinfernorm...`).
const MOVES_MEMORY: [&str; 14] = [
    "triton_poi_",
    "triton_red_",
    "triton_per_",
    "triton_for_",
    "reshape_and_cache",
    "concat_and_cache",
    "flashinfer::norm",
    "flashinfernorm",
    "flashinfer::activation",
    "flashinferactivation",
    "flashinfer::sampling",
    "flashinferquantization",
    "applyrotary",
    "flashinfer::append",
];
/// Whole words of such names, since each is a part of other words too.
const COMPUTE_WORDS: [&str; 14] = [
    "mm", "addmm", "bmm", "baddbmm", "dot", "conv", "einsum", "linear", "fprop", "dgrad", "wgrad", "gemv", "gmm",
    "matmuls",
];

/// Parts of the names of kernels that multiply on tensor cores: the instruction shapes of Volta (884) to Hopper (64xNx16),
/// and the libraries that hold nothing else.
const TENSOR_CORES: [&str; 13] = [
    "884",
    "1688",
    "16816",
    "16832",
    "hmma",
    "imma",
    "wgmma",
    "gmma",
    "tensorop",
    "nvjet",
    "tensor16x",
    "flash_fwd",
    "flash_bwd",
];
/// Parts of the names of kernels that multiply in plain fp32 on vector units.
const FP32: [&str; 4] = ["sgemm", "simt_s", "scudnn", "fp32_nn"];

/// How a matrix product was made, as far as its kernel's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    TensorCore,
    Fp32,
    Unknown,
}

/// Name of a CUDA graph that a trace has as a whole.
pub const GRAPH: &str = "CUDA graph";

/// The kind of work; whatever is nothing else moves memory.
pub fn class(name: &str) -> OperatorClass {
    if name == GRAPH {
        return OperatorClass::Graph;
    }
    let name = name.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    if has(&MOVES_MEMORY) {
        OperatorClass::Memory
    } else if has(&COMMUNICATION) {
        OperatorClass::Communication
    } else if has(&COPY) {
        OperatorClass::Copy
    } else if has(&COMPUTE) || words(&name).any(|word| COMPUTE_WORDS.contains(&word)) {
        OperatorClass::Compute
    } else {
        OperatorClass::Memory
    }
}

/// Whether an operator of XLA may be called so, such as `dot.14`; beside them stand calls of its runtime (`ThunkExecutor::Execute (wait for completion)`).
pub fn is_xla_operator(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

/// Which unit multiplied.
pub fn unit(name: &str) -> Unit {
    let name = name.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    if has(&TENSOR_CORES) {
        Unit::TensorCore
    } else if has(&FP32) {
        Unit::Fp32
    } else {
        Unit::Unknown
    }
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|letter: char| !letter.is_ascii_alphabetic()).filter(|word| !word.is_empty())
}

/// The name of a copy as Kineto writes it, `Memcpy HtoD (Pageable -> Device)`, as direction and kind of host memory.
pub fn copy_kind(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let directions = [
        ("htod", "HtoD"),
        ("h2d", "HtoD"),
        ("dtoh", "DtoH"),
        ("d2h", "DtoH"),
        ("dtod", "DtoD"),
        ("d2d", "DtoD"),
        ("hosttodevice", "HtoD"),
        ("devicetohost", "DtoH"),
        ("devicetodevice", "DtoD"),
        ("ptop", "PtoP"),
        ("p2p", "PtoP"),
    ];
    let direction = directions.iter().find(|(part, _)| name.contains(part)).map_or("other", |(_, word)| *word);
    let memory = ["pageable", "pinned", "managed"].into_iter().find(|word| name.contains(word));
    memory.map_or_else(|| direction.to_owned(), |memory| format!("{direction} {memory}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_every_library_have_their_class() {
        let (compute, memory) = (OperatorClass::Compute, OperatorClass::Memory);
        for (name, wanted) in [
            ("volta_sgemm_128x32_nt", compute),
            ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", compute),
            ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT", compute),
            ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", compute),
            ("void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64>>", compute),
            ("Cijk_Alik_Bljk_HHS_BH_MT128x128x16", compute),
            ("aten::addmm", compute),
            ("dot.3", compute),
            ("void at::native::vectorized_elementwise_kernel<4, AddFunctor<float>>", memory),
            ("triton_red_fused_add_mul_native_layer_norm_0", memory),
            ("loop_convert_fusion", memory),
            ("aten::add_", memory),
            ("multi_tensor_apply_kernel", memory),
            ("Memset (Device)", memory),
            (
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                OperatorClass::Communication,
            ),
            ("all-gather-start.1", OperatorClass::Communication),
            ("void dpsk::ep::internode::combine<true, 4, nv_bfloat16>(int4*, float*)", OperatorClass::Communication),
            ("void deep_ep::internode_ll::dispatch<true, false, 7168>(void*, float*)", OperatorClass::Communication),
            ("void deep_ep::intranode::notify_dispatch<8>(int const*, int*)", OperatorClass::Communication),
            ("void sglang::cross_device_reduce_1stage<__half, 8>(sglang::RankData*)", OperatorClass::Communication),
            ("void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*)", OperatorClass::Communication),
            ("void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<8>(int, int)", OperatorClass::Communication),
            ("nvshmemi_transfer_rma_block", OperatorClass::Communication),
            ("EpCombineIntraNodeKernel_bf16_nop2p", OperatorClass::Communication),
            ("multimem_one_shot_all_reduce_kernel", OperatorClass::Communication),
            ("void cudnn::cnn::wgrad2d_grouped_direct_kernel<__half>", compute),
            // Of TensorFlow: adds up, and has `dgrad` in it all the same.
            ("BiasAddGrad", memory),
            ("_MklNativeFusedMatMul", compute),
            // As serving engines' public profiles name them.
            ("void marlin_moe_wna16::Marlin<(long)1125899906909960, (long)562949953487106>", compute),
            ("fused_moe_kernel", compute),
            ("_ZN5aiter48fmoe_bf16_blockscaleFp8_g1u1_vs_silu_1tg_32x256E", compute),
            ("void deep_gemm::sm100_fp8_fp4_gemm_1d1d_impl<(cute::UMMA::Major)0>", compute),
            ("void flashinfer::BatchPrefillWithPagedKVCacheKernel<(flashinfer::MaskMode)1>", compute),
            ("_attn_bwd_dkdv", compute),
            ("fmhaSm100fKernel_QkvE4m3OBfloat16HQk576HV512PagedKvDense", compute),
            ("miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1", compute),
            ("volta_scudnn_128x64_relu_interior_nn_v1", compute),
            ("kernel_cutlass_kernel_flashinfernormkernelsfused_add_rmsnormFusedAddRMSNormKernel_object_at", memory),
            ("void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16>", memory),
            ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>", memory),
            ("triton_poi_fused_addmm_relu_0", memory),
            ("triton_red_fused_all_gather_into_tensor_mean_2", memory),
            ("triton_tem_fused_addmm_relu_1", compute),
            (
                "void (anonymous namespace)::all_reduce_one_shot_push_kernel<__nv_bfloat16>",
                OperatorClass::Communication,
            ),
            ("void flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<8>", OperatorClass::Communication),
            ("CopyHostToDevice", OperatorClass::Copy),
            // Attention's own `combine` adds up parts of one GPU.
            ("void flash_fwd_splitkv_combine_kernel<cutlass::bfloat16_t>", compute),
            ("Memcpy HtoD (Pageable -> Device)", OperatorClass::Copy),
            ("MemcpyD2H", OperatorClass::Copy),
        ] {
            assert_eq!(class(name), wanted, "{name}");
        }
    }

    /// Names of a trace of JAX 0.4.38.
    #[test]
    fn calls_of_xla_s_runtime_are_no_operators() {
        assert!(
            ["dot.14", "multiply_subtract_fusion.1", "tanh.15", "all-reduce-start"]
                .iter()
                .all(|name| is_xla_operator(name))
        );
        let calls = [
            "ThunkExecutor::Execute",
            "ThunkExecutor::Execute (wait for completion)",
            "ThreadpoolListener::StartRegion",
            "",
        ];
        assert!(!calls.iter().any(|name| is_xla_operator(name)));
    }

    #[test]
    fn names_say_which_unit_multiplied() {
        assert_eq!(unit("volta_sgemm_128x32_nt"), Unit::Fp32);
        assert_eq!(unit("ampere_sgemm_64x32_sliced1x4_nn"), Unit::Fp32);
        assert_eq!(unit("cutlass_80_simt_sgemm_128x64_8x5_nn_align1"), Unit::Fp32);
        assert_eq!(unit("cutlass_80_tensorop_s1688gemm_128x128"), Unit::TensorCore);
        assert_eq!(unit("volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn"), Unit::TensorCore);
        assert_eq!(unit("nvjet_tst_192x192"), Unit::TensorCore);
        assert_eq!(unit("gemmSN_NN_kernel"), Unit::Unknown);
    }

    #[test]
    fn copies_are_told_by_direction_and_memory() {
        assert_eq!(copy_kind("Memcpy HtoD (Pageable -> Device)"), "HtoD pageable");
        assert_eq!(copy_kind("Memcpy DtoH (Device -> Pinned)"), "DtoH pinned");
        assert_eq!(copy_kind("MemcpyD2D"), "DtoD");
        assert_eq!(copy_kind("CopyHostToDevice"), "HtoD");
    }
}
