//! What a stack's own layers and its loop keep in memory where a run says nothing of it.

use gpuplan_workload::stack::GradientBucket;
use gpuplan_workload::{LossKernel, Optimizer, Precision, Shard, Task, Training};

/// Stacks whose models are PyTorch modules with weights in fp32, under `torch.autocast` where a run is in 16 bits, and whose data-parallel ranks
/// are PyTorch's `DistributedDataParallel` where they hold whole copies (huggingface/transformers, src/transformers/trainer.py,
/// `autocast_smart_context_manager`; Lightning-AI/pytorch-lightning, src/lightning/pytorch/plugins/precision/amp.py).
const PLAIN_PYTORCH: [&str; 5] = ["accelerate", "hf-trainer", "lightning", "pytorch-eager", "trl"];
/// Of these, those whose layers are Transformers'.
const TRANSFORMERS: [&str; 5] = ["axolotl", "hf-trainer", "llama-factory", "trl", "unsloth"];
/// Transformers' trainer has the fused AdamW since it asks for PyTorch 2.8 (src/transformers/training_args.py, `default_optim = "adamw_torch_fused"`).
const TRANSFORMERS_FUSE_ADAMW: u32 = 2026;
const LAZY_LOADING: u32 = 2023;
const SUM_IN_FP32: [&str; 3] = ["megatron", "nanotron", "nemo"];
const VOCAB_PARALLEL: [&str; 2] = ["megatron", "nemo"];
/// Megatron-Core 0.6.
const LOSS_IN_PLACE: u32 = 2024;
/// Transformers 4.50.
const LABELS_SHIFTED: u32 = 2025;

/// What a stack's own layers do, which decides the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackHabits {
    /// RMSNorm written in PyTorch casts its input to fp32 and keeps the copy.
    pub upcasts_norms: bool,
    /// Keys and values are repeated to all heads before attention.
    pub expands_kv: bool,
    /// How it computes the loss of a vocabulary.
    pub loss: LossKernel,
}

impl StackHabits {
    pub fn for_training(training: &Training) -> Self {
        let name = training.framework.id();
        let own_kernels = training.framework.is_megatron() || name == "internevo" || name.starts_with("nvidia");
        let loss = match name {
            "hf-trainer" => LossKernel::HfUpcast,
            // FlashAttention's cross entropy, which reads 16-bit logits and writes their gradient (mosaicml/llm-foundry,
            // llmfoundry/models/mpt/modeling_mpt.py, `loss_fn` is `fused_crossentropy`; jzhang38/TinyLlama, pretrain/tinyllama.py).
            "fsdp" | "llm-foundry" => LossKernel::Bf16Chunked,
            // What compiles the model compiles the loss in its forward pass with it (karpathy/nanoGPT, model.py, `forward`).
            _ if training.is_compiled() => LossKernel::Compiled,
            _ => LossKernel::Fp32,
        };
        Self {
            loss: training.kernels.loss.unwrap_or(loss),
            upcasts_norms: !own_kernels && !training.is_compiled(),
            expands_kv: matches!(name, "litgpt" | "hf-trainer" | "fsdp" | "accelerate" | "deepspeed"),
        }
    }
}

fn is_one_of(training: &Training, names: &[&str]) -> bool {
    names.contains(&training.framework.id())
}

/// Weights and the stream that layers add to are fp32, and products cast what they read: `torch.autocast` over whole copies. Shards are gathered in
/// 16 bits (FSDP's `MixedPrecision`, DeepSpeed), and a stack of its own has 16-bit weights.
pub(super) fn autocasts(training: &Training, shard: Shard) -> bool {
    let is_mixed = matches!(training.precision, Precision::Bf16 | Precision::Fp16 | Precision::AmpFp16);
    let trains_all = training.task.has_backward() && !training.task.has_adapters();
    // Who keeps states in fewer bits keeps weights in 16.
    let states = training.optimizer;
    let narrow = matches!(states, Some(Optimizer::AdamwBf16 | Optimizer::Adamw8bit | Optimizer::AdamwPaged));
    // Apex casts the whole model (NVIDIA/DeepLearningExamples, PyTorch/LanguageModeling/BERT/run_squad.py: `opt_level="O2"`).
    let casts_model = training.framework.id() == "nvidia-examples";
    let is_plain = is_one_of(training, &PLAIN_PYTORCH) || training.precision == Precision::AmpFp16 && !casts_model;
    is_mixed && trains_all && is_plain && !narrow && matches!(shard, Shard::None | Shard::Zero1)
}

/// Gradients lie a second time in the messages of `DistributedDataParallel`, of which they are no views unless it is told
/// (`gradient_as_bucket_view`: "the saved memory size will be equal to the total gradients size", pytorch, torch/nn/parallel/distributed.py).
pub(super) fn copies_gradients_to_buckets(training: &Training, shard: Shard, copies: u32) -> bool {
    copies > 1 && shard == Shard::None && is_one_of(training, &PLAIN_PYTORCH)
}

/// Elements of the messages that DeepSpeed's ZeRO collects gradients in before it sends them, a buffer beside the gradients
/// (deepspeedai/DeepSpeed, deepspeed/runtime/zero/stage_1_and_2.py, `setup_buckets`: `torch.empty(int(self.reduce_bucket_size), ...)`).
pub(super) fn bucket_elements(training: &Training, shard: Shard) -> f64 {
    let is_split = matches!(shard, Shard::Zero1 | Shard::Zero2 | Shard::Zero3);
    if !(is_split && training.framework.id().ends_with("deepspeed")) {
        return 0.0;
    }
    match training.framework.recipe(|stack| &stack.gradient_bucket) {
        Some(GradientBucket::Elements { least, .. }) => least,
        _ => 0.0,
    }
}

/// Bytes of the driver's context where kernels of all libraries are loaded with it, as CUDA did before it loaded them lazily (CUDA 11.7, 2022; on
/// by default since 12.2): "the kernels alone take up 1.3GB of GPU memory" (huggingface/transformers, docs/source/en/perf_train_gpu_one.md).
pub(super) fn context_bytes(training: &Training, lazy: f64) -> f64 {
    const EAGER: f64 = 1.3e9;
    if training.is_since(LAZY_LOADING) { lazy } else { EAGER }
}

/// AdamW of PyTorch in lists of tensors, as it is unless it is told: it roots all second moments at once, "~ sizeof(params) more peak memory"
/// (torch/optim/adamw.py, `foreach`).
pub(super) fn updates_in_lists(training: &Training, shard: Shard) -> bool {
    let is_adam = matches!(training.optimizer, None | Some(Optimizer::Adamw | Optimizer::AdamwBf16));
    let fuses = is_one_of(training, &TRANSFORMERS) && training.is_since(TRANSFORMERS_FUSE_ADAMW)
        || training.memory.optimizer_in_backward;
    is_adam && is_one_of(training, &PLAIN_PYTORCH) && !fuses && shard == Shard::None
}

/// Bytes of a score of attention in operators: what the softmax gives, and what its product reads where that is another tensor. Transformers and
/// autocast take the softmax in fp32 (huggingface/transformers, models/llama/modeling_llama.py, `eager_attention_forward`:
/// `softmax(attn_weights, dim=-1, dtype=torch.float32).to(query.dtype)`; PyTorch's list of operations that autocast runs in fp32); others in the
/// format of their operators. Dropout keeps its mask, and its output in place of a cast (2 + 1 + 2 of Korthikanti et al. 2022, section 4.1).
pub(super) fn score_bytes(training: &Training, autocast: bool) -> f64 {
    let element = training.precision.activation_bytes();
    let fine_tunes_a_library = training.framework.is_library() && training.task != Task::Pretrain;
    let upcasts = element < 4.0 && (autocast || is_one_of(training, &TRANSFORMERS) || fine_tunes_a_library);
    let softmax = if upcasts { 4.0 } else { element };
    let mask = if training.dropout { 1.0 } else { 0.0 };
    let read = if upcasts || training.dropout { element } else { 0.0 };
    softmax + mask + read
}

/// Gradients of 16-bit weights are summed in one fp32 buffer that stays for the whole run, unless the stack is told (NVIDIA/Megatron-LM,
/// megatron/training/arguments.py: "accumulate and all-reduce gradients in fp32 for bfloat16 data type"; huggingface/nanotron,
/// `accumulate_grad_in_fp32: true`).
pub(super) fn sums_in_fp32(training: &Training, shard: Shard) -> bool {
    let trains_all = training.task.has_backward() && !training.task.has_adapters();
    let is_whole = matches!(shard, Shard::None | Shard::Zero1);
    trains_all && is_whole && is_one_of(training, &SUM_IN_FP32) && !training.precision.needs_loss_scaling()
}

/// Bytes of a logit at the loss, up to its gradient, and of these during the layers' backward pass, tensor by tensor, where the stack's operators are
/// known and the run names no kernel.
pub(super) fn loss_bytes(training: &Training) -> Option<f64> {
    let logit = training.precision.activation_bytes();
    let is_plain = is_one_of(training, &PLAIN_PYTORCH);
    let bytes = match training.kernels.loss {
        Some(_) => None,
        // 16-bit logits become fp32 ones, in which all happens in place (NVIDIA/Megatron-LM, megatron/core/tensor_parallel/cross_entropy.py,
        // `VocabParallelCrossEntropy`: "In-place subtraction reduces memory pressure").
        None if is_one_of(training, &VOCAB_PARALLEL) => training.is_since(LOSS_IN_PLACE).then_some(logit + 4.0),
        // Labels are shifted instead of logits, so that fp32 logits and what the softmax keeps are all (huggingface/transformers,
        // src/transformers/loss/loss_utils.py, `ForCausalLMLoss`).
        None if is_one_of(training, &TRANSFORMERS) => training.is_since(LABELS_SHIFTED).then_some(logit + 4.0 + 4.0),
        None if is_plain => Some(torch_loss_bytes(training, logit)),
        None => None,
    };
    bytes.filter(|_| logit < 4.0 || is_plain)
}

/// PyTorch's `cross_entropy`, which autocast runs in fp32: logits, those of fp32 and what the softmax keeps, and later its gradient in place of
/// the second. A compiler fuses all but the gradient, which it scatters ones into, and its cast (torch/_decomp/decompositions.py, `_nll_loss_backward`).
fn torch_loss_bytes(training: &Training, logit: f64) -> f64 {
    let wide = if training.precision == Precision::PureBf16 { logit } else { 4.0 };
    let cast = if wide > logit { logit } else { 0.0 };
    if training.is_compiled() { logit + wide + cast } else { logit + 2.0 * wide }
}
