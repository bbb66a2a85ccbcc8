//! What stacks hold, each against the same run of a stack that does not. Tests only.

#![cfg(test)]

use crate::memory::{MemoryBreakdown, MemoryInput};
use crate::setting::Setting;
use gpuplan_workload::{
    AttentionKernel, Framework, Layout, Lora, LossKernel, Model, Models, Optimizer, Precision, Recompute, Shard, Task,
    Training, training::LoraTargets,
};

fn model(name: &str) -> Model {
    Models::embedded().unwrap().find(name).unwrap().to_model()
}

fn training(task: Task, precision: Precision, framework: &str) -> Training {
    Training { precision, framework: Framework::new(framework), ..Training::new(task, 2048) }
}

/// With eight micro-steps.
fn held(model: &Model, training: &Training, layout: Layout, recompute: Recompute) -> MemoryBreakdown {
    let setting = Setting { layout, micro_batch: 1, global_batch: 8.0 * f64::from(layout.data), recompute };
    MemoryInput { model, training, setting: &setting, sequence: f64::from(training.sequence_length) }.breakdown()
}

fn pipeline(data: u32, tensor: u32, pipeline: u32, shard: Shard) -> Layout {
    Layout { data, tensor, pipeline, shard, ..Layout::default() }
}

#[test]
fn what_wan_adds_to_is_kept_in_fp32() {
    let video = model("wan2.1-t2v-14b");
    let pipeline_of = video.pipeline.clone().unwrap();
    let trained = pipeline_of.trained(&video);
    let mut narrow = trained.clone();
    narrow.deviations.diffusion.as_mut().unwrap().residual_in_fp32 = false;
    // 81 frames of 832 x 480 are 21 latent ones of 1,560 tokens.
    let mut training = training(Task::FullFineTune, Precision::Bf16, "accelerate");
    training.sequence_length = 32_760;
    let kept =
        |model: &Model, recompute| held(model, &training, pipeline(8, 1, 1, Shard::Zero3), recompute).activations;
    let inputs = 32_760.0 * 5120.0 * 40.0;
    assert!((kept(&trained, Recompute::Full) / (4.0 * inputs) - 1.0).abs() < 1e-9);
    assert!((kept(&narrow, Recompute::Full) / (2.0 * inputs) - 1.0).abs() < 1e-9);
    assert!(kept(&trained, Recompute::None) > kept(&narrow, Recompute::None));
}

/// Of Qwen3 30B a token goes to 8 experts of 768 units: gate, up and down of each are kept but under selective recompute, which keeps every second
/// product of the dense layers alone.
#[test]
fn selective_recompute_of_operators_keeps_nothing_of_routed_experts() {
    let mixture = model("qwen3-30b-a3b");
    let training = training(Task::Pretrain, Precision::Bf16, "torchtitan");
    let kept =
        |model: &Model| held(model, &training, pipeline(8, 1, 1, Shard::Zero3), Recompute::Selective).activations;
    let mut narrow = mixture.clone();
    narrow.experts.as_mut().unwrap().ffn_hidden /= 2;
    assert_eq!(kept(&mixture), kept(&narrow));
    let whole = |model: &Model| held(model, &training, pipeline(8, 1, 1, Shard::Zero3), Recompute::None).activations;
    assert!(whole(&mixture) > whole(&narrow));
}

#[test]
fn the_bf16_optimizer_of_deepspeed_sums_in_fp32_beside_the_gradients() {
    let model = model("llama-2-7b");
    let layout = pipeline(8, 4, 2, Shard::Zero1);
    let gradients = |precision, framework| {
        held(&model, &training(Task::Pretrain, precision, framework), layout, Recompute::Full).gradients
    };
    let fp16 = gradients(Precision::Fp16, "megatron-deepspeed");
    // Two bytes each, and their message beside.
    let message = 2.0 * 5e8;
    let more = gradients(Precision::Bf16, "megatron-deepspeed") - fp16;
    assert!((more / (fp16 - message) - 2.0).abs() < 1e-9);
    assert!((gradients(Precision::Fp16, "megatron") / (fp16 - message) - 1.0).abs() < 1e-9);
}

#[test]
fn layers_that_fill_the_stages_with_two_more_leave_room_for_embedding_and_head() {
    let of = |layers| Model { layers, ..model("llama-2-70b") };
    let weights = |layers, stages| {
        let training = training(Task::Pretrain, Precision::Bf16, "megatron");
        held(&of(layers), &training, pipeline(1, 1, stages, Shard::None), Recompute::Full).weights
    };
    // Six layers with or without the embedding, which is smaller than a layer, or five with it.
    let with_embedding = weights(72, 12);
    assert!(weights(70, 12) < with_embedding && weights(71, 12) == with_embedding, "71 do not divide either way");
}

#[test]
fn a_pipeline_of_fsdp2_keeps_its_stage_whole() {
    let model = model("llama-2-70b");
    let parts = |stages| {
        let training = training(Task::Pretrain, Precision::Bf16, "torchtitan");
        held(&model, &training, pipeline(8, 1, stages, Shard::Zero3), Recompute::Full)
    };
    let (whole, sharded) = (parts(2), parts(1));
    // Half of the weights in 16 bits and of their gradients in fp32, where an eighth of all lay before.
    assert!(whole.gradients > 4.0 * 0.49 * model.parameters && sharded.gradients < 2.0 * 0.13 * model.parameters);
    assert!(whole.weights > 2.0 * 0.49 * model.parameters);
}

#[test]
fn transformer_engine_stores_eight_bits() {
    let model = model("llama-2-70b");
    let parts = |precision, framework| {
        let lora = Lora { rank: 16, targets: LoraTargets::ALL_LINEAR, dropout: false };
        let training = Training { lora: Some(lora), ..training(Task::Lora, precision, framework) };
        held(&model, &training, pipeline(8, 1, 1, Shard::Zero1), Recompute::None)
    };
    let (half, eight) = (parts(Precision::Bf16, "megatron"), parts(Precision::Fp8, "megatron"));
    assert!((0.50..0.52).contains(&(eight.weights / half.weights)), "{} {}", eight.weights, half.weights);
    assert!(
        eight.activations < 0.8 * half.activations && half.activations < parts(Precision::Bf16, "litgpt").activations
    );
    assert!((parts(Precision::Fp8, "torchtune").weights / half.weights - 1.0).abs() < 1e-9);
}

#[test]
fn a_fine_tuned_encoder_has_no_logits_and_a_masked_one_few() {
    let model = model("bert-large");
    let logits = |task| {
        let training = training(task, Precision::Fp16, "nvidia-examples");
        held(&model, &training, pipeline(8, 1, 1, Shard::None), Recompute::None).logits
    };
    assert!(logits(Task::FullFineTune) == 0.0 && logits(Task::Train) == 0.0 && logits(Task::Pretrain) > 0.0);
}

#[test]
fn every_kind_of_parallelism_has_a_communicator() {
    let model = model("llama-2-7b");
    let overhead = |layout| {
        let made = held(&model, &training(Task::Pretrain, Precision::Bf16, "megatron"), layout, Recompute::Full);
        made.required - made.allocated
    };
    let one = overhead(pipeline(8, 1, 1, Shard::Zero1));
    let three = overhead(pipeline(2, 2, 2, Shard::Zero1));
    assert!(overhead(pipeline(1, 1, 1, Shard::None)) < one && one < three);
}

#[test]
fn a_moving_average_is_held_where_the_weights_are() {
    let model = model("llama-3.1-8b");
    let plain = training(Task::FullFineTune, Precision::Bf16, "fsdp2");
    let averaged = Training { ema: true, ..plain.clone() };
    for (shard, ranks) in [(Shard::None, 1.0), (Shard::Zero1, 1.0), (Shard::Zero3, 8.0)] {
        let layout = Layout { data: 8, shard, ..Layout::default() };
        let optimizer = |training| held(&model, training, layout, Recompute::Full).optimizer;
        let more = optimizer(&averaged) - optimizer(&plain);
        assert!((more / (4.0 * model.parameters / ranks) - 1.0).abs() < 0.01, "{shard:?}: {more}");
    }
}

#[test]
fn experts_that_ranks_share_out_are_split_over_fewer_ranks() {
    let model = model("qwen3-30b-a3b");
    let training = training(Task::Pretrain, Precision::Bf16, "torchtitan");
    let parts = |data, expert, shard| {
        let layout = Layout { data, expert, shard, ..Layout::default() };
        held(&model, &training, layout, Recompute::Full)
    };
    // 32 ranks hold one copy of everything, however the experts are shared out: each a 32nd.
    let (whole, apart) = (parts(32, 1, Shard::Zero3), parts(32, 8, Shard::Zero3));
    for (one, other) in
        [(whole.weights, apart.weights), (whole.gradients, apart.gradients), (whole.optimizer, apart.optimizer)]
    {
        assert!((one / other - 1.0).abs() < 0.01, "{one} {other}");
    }
    // As many parts as ranks: of an expert nothing is left to split, of the others as much as before.
    let (whole, apart) = (parts(8, 1, Shard::Zero1).optimizer, parts(8, 8, Shard::Zero1).optimizer);
    assert!((whole / apart - 1.0).abs() < 0.01, "{whole} {apart}");
}

/// GPT-2 of `fourth-look.jsonl` held 24.0 GB with 32 sequences where operators of the loss alone would want 23.
#[test]
fn a_compiled_step_compiles_its_loss() {
    let model = model("gpt-2-small");
    let logits = |compile, framework| {
        let mut training = training(Task::Pretrain, Precision::Bf16, framework);
        training.kernels.compile = compile;
        held(&model, &training, Layout::default(), Recompute::None).logits
    };
    assert!(logits(true, "pytorch-eager") < 0.81 * logits(false, "pytorch-eager"));
    // A stack with a loss of its own keeps it.
    assert_eq!(logits(true, "hf-trainer"), logits(false, "hf-trainer"));
}

/// Qwen3 1.7B held 21 to 24 GiB over 65,536 tokens with Liger's loss on eight L40S (`fifth-look.jsonl`), where 16-bit logits alone are 18.5.
#[test]
fn a_loss_fused_with_the_head_never_holds_whole_logits() {
    let model = model("qwen3-1.7b");
    let logits = |loss, tokens: u32| {
        let mut training = training(Task::FullFineTune, Precision::Bf16, "hf-trainer");
        training.kernels.loss = Some(loss);
        training.sequence_length = tokens;
        held(&model, &training, Layout::default(), Recompute::Full).logits
    };
    let (fused, chunked) = (logits(LossKernel::FusedLinear, 65_536), logits(LossKernel::Chunked, 65_536));
    let halves = 2.0 * 65_536.0 * f64::from(model.vocab);
    assert!(chunked > halves && fused < 0.1 * halves, "{fused} {chunked}");
    // 75 chunks of at most 1,024 rows, the gradients of the hidden values, and that of the head.
    let vocab_times_hidden = f64::from(model.vocab) * f64::from(model.hidden);
    let counted = 2.0 * (1024.0 * f64::from(model.vocab) + 65_536.0 * f64::from(model.hidden) + vocab_times_hidden);
    assert!((fused / counted - 1.0).abs() < 1e-9, "{fused} {counted}");
    // A few tokens are one chunk.
    let few = logits(LossKernel::FusedLinear, 1) - 2.0 * vocab_times_hidden;
    assert!((few / (2.0 * f64::from(model.vocab + model.hidden)) - 1.0).abs() < 1e-9, "{few}");
}

#[test]
fn autocast_keeps_the_residual_stream_in_fp32_and_its_copies_of_weights() {
    let model = model("gpt2");
    let plain = training(Task::Pretrain, Precision::Bf16, "pytorch-eager");
    let whole = |training: &Training| held(&model, training, Layout::default(), Recompute::None);
    let autocast = whole(&plain);
    // The norms' inputs, 2 x 2 bytes more a value; weights and states are 16 bytes a parameter either way.
    let more = 2.0 * 2.0 * 2048.0 * 768.0 * 12.0;
    let sharded = held(&model, &plain, pipeline(1, 1, 1, Shard::Zero3), Recompute::None);
    assert!((autocast.activations - sharded.activations - more).abs() < 1.0);
    let states = |made: &MemoryBreakdown| made.weights + made.gradients + made.optimizer;
    assert!((states(&autocast) / states(&sharded) - 1.0).abs() < 1e-9);
    assert!(autocast.gradients > 1.9 * sharded.gradients, "sums over micro-steps are fp32");
    let narrow = Training { optimizer: Some(Optimizer::AdamwBf16), ..plain.clone() };
    assert!((whole(&narrow).activations - sharded.activations).abs() < 1.0, "weights of 16 bits are not cast");
}

/// A softmax keeps its output; what is cast or dropped after it is another tensor.
#[test]
fn scores_of_attention_in_operators_are_counted_tensor_by_tensor() {
    let model = model("llama-2-7b");
    let scores = |task, precision, framework, dropout| {
        let kept = |kernel| {
            let mut training = training(task, precision, framework);
            training.dropout = dropout;
            training.kernels.attention = Some(kernel);
            held(&model, &training, Layout::default(), Recompute::None).activations
        };
        (kept(AttentionKernel::Eager) - kept(AttentionKernel::Flash)) / (2048.0 * 2048.0 * 32.0 * 32.0)
    };
    for (bytes, task, precision, framework, dropout) in [
        (4.0, Task::Pretrain, Precision::Fp32, "pytorch-eager", false),
        (9.0, Task::Pretrain, Precision::Fp32, "pytorch-eager", true),
        (2.0, Task::Pretrain, Precision::PureBf16, "pytorch-eager", false),
        (5.0, Task::Pretrain, Precision::Fp16, "megatron", true),
        (6.0, Task::Pretrain, Precision::Bf16, "pytorch-eager", false),
        (6.0, Task::FullFineTune, Precision::PureBf16, "hf-trainer", false),
        (6.0, Task::FullFineTune, Precision::PureBf16, "fsdp2", false),
    ] {
        let found = scores(task, precision, framework, dropout);
        assert!((found - bytes).abs() < 1e-6, "{framework} {precision:?}: {found}");
    }
}

#[test]
fn ranks_of_pytorch_hold_gradients_a_second_time_in_their_messages() {
    let model = model("gpt2");
    let gradients = |data, framework| {
        let layout = Layout { data, ..Layout::default() };
        held(&model, &training(Task::Pretrain, Precision::Bf16, framework), layout, Recompute::None).gradients
    };
    assert!((gradients(2, "pytorch-eager") / gradients(1, "pytorch-eager") - 2.0).abs() < 1e-9);
    assert!((gradients(2, "megatron") / gradients(1, "megatron") - 1.0).abs() < 1e-9);
}

#[test]
fn an_update_in_lists_roots_all_second_moments_at_once() {
    let model = model("llama-2-7b");
    let short =
        |framework| Training { sequence_length: 64, ..training(Task::Pretrain, Precision::PureBf16, framework) };
    let peak = |training: &Training| held(&model, training, Layout::default(), Recompute::Full).allocated;
    let lists = peak(&short("pytorch-eager")) - peak(&short("torchtune"));
    assert!((lists / (2.0 * model.parameters) - 1.0).abs() < 0.1, "{lists}");
    let fused = Training { framework_year: Some(2026), ..short("trl") };
    assert!(peak(&Training { framework_year: Some(2024), ..short("trl") }) > peak(&fused));
}

/// Of a pipeline the last stage has the logits and the first one most micro-batches.
#[test]
fn no_stage_holds_logits_and_all_micro_batches() {
    let model = Model { vocab: 256_000, ..model("llama-2-7b") };
    let of = |stages, recompute| {
        held(
            &model,
            &training(Task::Pretrain, Precision::Bf16, "megatron"),
            pipeline(1, 1, stages, Shard::None),
            recompute,
        )
    };
    let made = of(4, Recompute::None);
    let moment = made.allocated - made.weights - made.optimizer - made.gradients;
    assert!(moment < made.activations + made.logits, "{made:?}");
    assert!(moment >= made.activations.max(made.logits));
    // With layers that run again little is held but logits.
    let made = of(4, Recompute::Full);
    assert!(made.allocated - made.weights - made.optimizer - made.gradients >= made.logits);
}

#[test]
fn each_expert_keeps_its_copy_of_a_token() {
    let mixture = model("qwen3-30b-a3b");
    let kept = |experts_per_token| {
        let mut model = mixture.clone();
        model.experts.as_mut().unwrap().experts_per_token = experts_per_token;
        let training = training(Task::Pretrain, Precision::Bf16, "megatron");
        held(&model, &training, pipeline(8, 1, 1, Shard::Zero1), Recompute::None).activations
    };
    // Gate, up and product of 768 units, and 2,048 hidden values.
    let one = 2048.0 * 48.0 * (6.0 * 768.0 + 2.0 * 2048.0);
    assert!(((kept(8) - kept(7)) / one - 1.0).abs() < 1e-9);
}

/// Megatron's buffer of gradients is fp32 and there before the first backward pass. A flag makes it 16 bits, so that it decides no fit.
#[test]
fn megatron_sums_gradients_in_fp32_where_ranks_hold_them_whole() {
    let model = model("llama-2-7b");
    let of = |framework: &str, precision, shard| {
        held(&model, &training(Task::Pretrain, precision, framework), pipeline(8, 1, 1, shard), Recompute::Full)
    };
    let bytes = |made: MemoryBreakdown| made.gradients / model.parameters;
    assert!((bytes(of("megatron", Precision::Bf16, Shard::Zero1)) - 4.0).abs() < 1e-9);
    assert!((bytes(of("megatron", Precision::Fp16, Shard::Zero1)) - 2.0).abs() < 1e-9);
    assert!(bytes(of("megatron", Precision::Bf16, Shard::Zero3)) < 1.0);
    assert!((bytes(of("internevo", Precision::Bf16, Shard::Zero1)) - 2.0).abs() < 1e-9);
    let made = of("megatron", Precision::Bf16, Shard::Zero1);
    assert!(made.needed < 1.1 * made.allocated - model.parameters, "{made:?}");
}

#[test]
fn logits_are_counted_tensor_by_tensor_where_operators_are_known() {
    let mut model = model("gpt2");
    model.vocab = 50_000;
    let of = |framework: &str, precision, compile, year| {
        let mut training = Training { framework_year: year, ..training(Task::Pretrain, precision, framework) };
        training.kernels.compile = compile;
        held(&model, &training, Layout::default(), Recompute::None).logits / (2048.0 * 50_000.0)
    };
    for (framework, precision, compile, year, bytes) in [
        ("pytorch-eager", Precision::Bf16, false, None, 10.0),
        ("pytorch-eager", Precision::Bf16, true, None, 8.0),
        ("pytorch-eager", Precision::Fp32, false, None, 12.0),
        ("pytorch-eager", Precision::PureBf16, false, None, 6.0),
        ("pytorch-eager", Precision::PureBf16, true, None, 4.0),
        ("hf-trainer", Precision::Bf16, false, Some(2025), 10.0),
        ("megatron", Precision::Bf16, false, Some(2024), 6.0),
    ] {
        let made = of(framework, precision, compile, year);
        assert!((made - bytes).abs() < 1e-9, "{framework} {precision:?} {compile} {year:?}: {made}");
    }
    assert!(of("hf-trainer", Precision::Bf16, false, Some(2024)) > 15.0);
    assert!(of("megatron", Precision::Bf16, false, Some(2023)) > 12.0);
}

#[test]
fn zero_of_deepspeed_collects_gradients_in_a_message() {
    let model = model("llama-2-7b");
    let gradients = |framework| {
        let training = training(Task::Pretrain, Precision::Bf16, framework);
        held(&model, &training, pipeline(8, 1, 1, Shard::Zero2), Recompute::Full).gradients
    };
    assert!((gradients("deepspeed") - gradients("fsdp") - 2.0 * 5e8).abs() < 1.0);
}
