//! Tests of `recipe.rs`: a configuration of each program, and what it says.

#![cfg(test)]

use crate::{JobKind, JobRequest, Names, read};
use gpuplan_hardware::Hardware;
use gpuplan_workload::Models;

fn recipe(text: &str) -> JobRequest {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    read(text, Names::new(&hardware, &models)).unwrap()
}

/// Model, task, micro-batch, length and format, in one line.
fn said(text: &str) -> String {
    let read = recipe(text);
    let (model, training) = (&read.workload.model, &read.workload.training);
    let number =
        |number: &Option<gpuplan_workload::file::Scalar>| number.as_ref().map(ToString::to_string).unwrap_or_default();
    let sizes = format!("{}x{}", number(&model.layers), number(&model.hidden));
    let words = [
        model.preset.clone().unwrap_or(sizes),
        training.task.clone().unwrap_or_default(),
        number(&training.micro_batch),
        number(&training.sequence_length),
        training.precision.clone().unwrap_or_default(),
        training.framework.clone().unwrap_or_default(),
    ];
    words.join(" ")
}

#[test]
fn each_program_names_model_task_and_settings_its_own_way() {
    for (text, expected) in [
        (
            "model: {type: gpt2, hidden_dim: 1600, num_heads: 25, num_layers: 48, seq_len: 1024}\ntrainer: {mp: 'p=f32,c=bfloat16', per_device_parallelism: 1}\n",
            "48x1600 pretrain 1 1024 bf16 jax",
        ),
        (
            "checkpoint_dir: checkpoints/meta-llama/Llama-2-7b-hf\nprecision: bf16-true\nquantize: bnb.nf4\ndevices: 1\nlora_r: 32\ntrain: {global_batch_size: 8, micro_batch_size: 2, epochs: 4, max_seq_length: 512}\n",
            "llama-2-7b qlora 2 512 bf16 litgpt",
        ),
        (
            "checkpoint_dir: checkpoints/meta-llama/Llama-2-7b-hf\nprecision: bf16-mixed\ndevices: 4\ntrain: {global_batch_size: 64, micro_batch_size: 1, max_seq_length: 512}\n",
            "llama-2-7b full-fine-tune 1 512 bf16 litgpt",
        ),
        (
            "model_name: pythia-1b\nprecision: bf16-mixed\ndevices: auto\ntrain: {global_batch_size: 512, micro_batch_size: 4, max_tokens: 300000000, max_seq_length: 2048}\n",
            "pythia-1b pretrain 4 2048 bf16 litgpt",
        ),
        (
            "model: {type: mpt}\ninitialize_from_hf: mosaicml/mpt-7b@68e1a8e0\ntrainer: {mp: 'p=f32,c=bfloat16', train_batch_size: 2048}\n",
            "mpt-7b pretrain   bf16 jax",
        ),
        (
            "base_model: NousResearch/Llama-3.2-1B\nadapter: qlora\nload_in_4bit: true\nmicro_batch_size: 2\nsequence_len: 4096\nbf16: auto\ntf32: false\n",
            "llama-3.2-1b qlora 2 4096 bf16 axolotl",
        ),
        (
            "base_model: Qwen/Qwen3-8B\nadapter:\nmicro_batch_size: 1\nsequence_len: 512\nfp16: true\nlora_r: 8\n",
            "qwen3-8b full-fine-tune 1 512 amp-fp16 axolotl",
        ),
        (
            "model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct\nstage: sft\ndo_train: true\nfinetuning_type: lora\nquantization_bit: 4\ncutoff_len: 2048\nper_device_train_batch_size: 1\n",
            "llama-3-8b qlora 1 2048  llama-factory",
        ),
        (
            "model: Qwen/Qwen3-0.6B\nmodel_class: llm\nmicro_batch_size: 1\ncutoff_len: 2048\ntrain_dataset: a\n",
            "qwen3-0.6b full-fine-tune 1 2048  llama-factory",
        ),
        (
            "model_name_or_path: gpt2\nbf16: true\nuse_peft: true\nload_in_4bit: true\nper_device_train_batch_size: 16\nmax_seq_length: 1024\n",
            "gpt-2 qlora 16 1024 bf16 hf-trainer",
        ),
        (
            "model: {_component_: torchtune.models.llama3_1.lora_llama3_1_8b, lora_attn_modules: [q_proj, output_proj]}\nbatch_size: 2\ndtype: bf16\ntokenizer: {max_seq_len: 8192}\n",
            "llama-3.1-8b lora 2 8192 bf16 torchtune",
        ),
        (
            "model: {_component_: torchtune.models.gemma2.gemma2_9b}\nbatch_size: 2\nepochs: 1\ndtype: bf16\n",
            "gemma-2-9b full-fine-tune 2  pure-bf16 torchtune",
        ),
        (
            "[model]\nname = \"llama3\"\nflavor = \"70B\"\n[training]\nlocal_batch_size = 8\nseq_len = 8192\n",
            "llama-3-70b pretrain 8 8192  torchtitan",
        ),
        (
            "model: {dtype: bfloat16, model_config: {num_hidden_layers: 2, hidden_size: 16, num_attention_heads: 4}}\ntokens: {micro_batch_size: 2, sequence_length: 256}\n",
            "2x16 pretrain 2 256 bf16 nanotron",
        ),
        (
            "model: {model_name: gpt2, model_max_length: 1024, torch_dtype_str: bfloat16}\ntraining: {trainer_type: TRL_SFT, use_peft: true, per_device_train_batch_size: 2}\npeft: {lora_r: 8}\n",
            "gpt-2 lora 2 1024 pure-bf16 ",
        ),
        (
            "model_name: llama2-7b\nper_device_batch_size: 4\nmax_target_length: 4096\n",
            "llama-2-7b pretrain 4 4096  maxtext",
        ),
        (
            "{\"num-layers\": 44, \"hidden-size\": 6144, \"num-attention-heads\": 64, \"seq-length\": 2048, \"train_micro_batch_size_per_gpu\": 4, \"fp16\": {\"enabled\": true}}",
            "44x6144 pretrain 4 2048 amp-fp16 gpt-neox",
        ),
        (
            "trainer: {devices: 8, num_nodes: 2, precision: bf16}\nmodel: {micro_batch_size: 1, encoder_seq_length: 2048, num_layers: 24, hidden_size: 2048}\n",
            "24x2048 pretrain 1 2048 bf16 nemo",
        ),
    ] {
        assert_eq!(said(text), expected, "{text}");
    }
}

#[test]
fn what_no_table_knows_is_listed_and_what_is_off_is_not_taken() {
    let read = recipe(
        "base_model: gpt2\nadapter:\nmicro_batch_size: 2\nsequence_len: 9\nmy_own_key: 7\ngradient_checkpointing: false\nmax_steps: -1\nnested: {unknown: [1, 2]}\nempty:\n",
    );
    let unread: Vec<&str> = read.unread.iter().map(|one| one.key.as_str()).collect();
    assert_eq!((unread, read.kind), (vec!["my_own_key", "nested.unknown"], JobKind::Recipe));
    assert_eq!((read.workload.training.recompute.as_deref(), read.workload.training.steps), (Some("none"), None));
    // An integer that is not one, and matrices that are not told apart.
    let odd =
        recipe("base_model: gpt2\nsequence_len: 9\nmicro_batch_size: many\nlora_target_modules: [q_proj, c_attn]\n");
    assert_eq!(odd.unread.len(), 2);
}

#[test]
fn work_of_another_kind_is_named_and_never_priced_as_training() {
    for text in [
        "base_model: gpt2\nadapter: llama-adapter\n",
        "model_name_or_path: gpt2\nstage: ppo\nfinetuning_type: lora\n",
        "model_name_or_path: gpt2\nnum_generations: 8\n",
        "model_name_or_path: gpt2\nfinetuning_type: freeze\nstage: sft\n",
        "#!/bin/bash\naccelerate launch scripts/train_grpo.py --model_name_or_path gpt2\n",
        "#!/bin/bash\npython3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen2-7B trainer.n_gpus_per_node=8\n",
    ] {
        let read = recipe(text);
        assert!(read.not_planned.is_some() && read.model_name.is_some(), "{text}");
    }
    assert_eq!(recipe("base_model: gpt2\nrl:\n").not_planned, None);
}

#[test]
fn learning_from_preferences_is_named_by_a_key_or_by_the_program() {
    for (text, objective) in [
        ("base_model: gpt2\nrl: dpo\nbeta: 0.1\n", "dpo"),
        ("beta: 0.1\nbase_model: gpt2\nrl: simpo\n", "orpo"),
        ("base_model: gpt2\nsequence_len: 9\nreward_model: true\n", "reward"),
        ("model_name_or_path: gpt2\nstage: rm\nfinetuning_type: lora\n", "reward"),
        ("model_name_or_path: gpt2\nstage: dpo\npref_loss: orpo\nfinetuning_type: lora\n", "orpo"),
        ("#!/bin/bash\ntrl dpo --model_name_or_path gpt2 --beta 0.1\n", "dpo"),
        ("#!/bin/bash\npython train_simpo2_8k.py --model_name_or_path gpt2\n", "orpo"),
        ("#!/bin/bash\nswift rlhf --rlhf_type kto --model Qwen/Qwen2.5-7B\n", "kto"),
        (
            "#!/bin/bash\ndeepspeed --module openrlhf.cli.train_dpo --pretrain gpt2 --micro_train_batch_size 1 --beta 0.1\n",
            "dpo",
        ),
    ] {
        let read = recipe(text);
        assert_eq!((read.workload.training.objective.as_deref(), read.not_planned), (Some(objective), None), "{text}");
    }
    assert_eq!(recipe("model_name_or_path: gpt2\nstage: sft\n").workload.training.objective, None);
}

#[test]
fn a_served_model_has_its_engine_layout_and_formats() {
    for (text, engine, tensor, groups, weights) in [
        (
            "vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2 --quantization fp8",
            "vllm",
            Some("2"),
            None,
            Some("fp8"),
        ),
        ("python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B --tp 2", "sglang", Some("2"), None, None),
        (
            "python -m sglang.launch_server --model-path a/b --tp 8 --dp 8 --enable-dp-attention",
            "sglang",
            Some("1"),
            Some("8"),
            None,
        ),
        (
            "python -m vllm.entrypoints.openai.api_server --model $HOME/Qwen2.5-7B --quantization awq",
            "vllm",
            None,
            None,
            Some("int4"),
        ),
    ] {
        let read = recipe(&format!("#!/bin/bash\n{text}\n"));
        let serving = &read.workload.serving;
        let number = |number: &Option<gpuplan_workload::file::Scalar>| number.as_ref().map(ToString::to_string);
        assert_eq!(serving.engine.as_deref(), Some(engine), "{text}");
        assert_eq!(
            (number(&serving.tensor_parallel).as_deref(), number(&serving.attention_data_parallel).as_deref()),
            (tensor, groups),
            "{text}"
        );
        assert_eq!(serving.weights.as_deref(), weights, "{text}");
        assert!(read.model_name.is_some() && read.not_planned.is_none(), "{text}");
    }
}

#[test]
fn the_sizes_of_a_command_are_a_model() {
    let script = "#!/bin/bash\nSIZES=\"--num-layers 24 --hidden-size 1024 --num-attention-heads 16\"\n\
        torchrun --nproc_per_node 8 --nnodes 2 pretrain_bert.py $SIZES --seq-length 512 --micro-batch-size 4 --vocab-size 30592 --fp16\n";
    let read = recipe(script);
    let model = &read.workload.model;
    assert_eq!(
        (model.kind.as_deref(), model.mlp.as_deref(), model.tied_embeddings),
        (Some("encoder"), Some("gelu"), Some(true))
    );
    assert_eq!((read.launch.gpus_per_machine, read.nodes), (Some(8), Some(2..=2)));
}

#[test]
fn a_configuration_of_a_policy_is_not_planned() {
    let read = recipe(
        "policy_model: {_component_: torchtune.models.mistral.mistral_7b}\nbatch_size: 64\nforward_batch_size: 16\n",
    );
    assert!(read.not_planned.is_some() && read.workload.model.preset.as_deref() == Some("mistral-7b-v0.1"), "{read:?}");
}

#[test]
fn sections_folders_and_copies_in_four_bits_say_what_they_are() {
    for (text, expected) in [
        (
            "base_model: unsloth/Qwen2.5-1.5B-Instruct-bnb-4bit\nlora: {r: 16}\ntrain: {epochs: 2, batch_size: 2, grad_accum: 8, lr: 2.0e-4, max_seq_len: 1024}\n",
            "qwen2.5-1.5b qlora 2 1024  ",
        ),
        (
            "model_name_or_path: saves/qwen2_vl-2b/pretrain-2026-03-04\nstage: sft\nfinetuning_type: full\ncutoff_len: 32768\nper_device_train_batch_size: 1\n",
            "qwen2-vl-2b full-fine-tune 1 32768  llama-factory",
        ),
        (
            "[model]\nconfig = 'configs/transformer_340M.json'\n[training]\nbatch_size = 32\nseq_len = 2048\n",
            "transformer_340M pretrain 32 2048  torchtitan",
        ),
        // Of a key that is said twice the last counts.
        (
            "base_model: a/b-7b\nadapter: lora\nsequence_len: 512\nmicro_batch_size: 1\nadapter: qlora\n",
            "a/b-7b qlora 1 512  axolotl",
        ),
    ] {
        assert_eq!(said(text), expected, "{text}");
    }
    let accelerate =
        recipe("distributed_type: DEEPSPEED\ndeepspeed_config: {gradient_accumulation_steps: 4}\nnum_processes: 7\n");
    assert_eq!(accelerate.workload.training.grad_accumulation, Some("4".into()));
    // A method that is stated behind its settings is that one.
    let dpo = recipe(
        "method: dpo\nmodel: {name_or_path: a/b-7b}\ntraining: {per_device_train_batch_size: 1, effective_batch_size: 4}\ndpo: {beta: 5.0}\n",
    );
    assert_eq!((dpo.workload.training.objective.as_deref(), dpo.not_planned), (Some("dpo"), None));
    assert_eq!(dpo.workload.training.global_batch, Some("4".into()));
}

/// What is open stays open, and what a file says in words of its own counts: a card, a format, a name to fill in.
#[test]
fn cards_formats_and_open_preferences_are_what_the_file_says() {
    let settings = "model_name_or_path: a/b-7b\nper_device_train_batch_size: 1\nmax_length: 512\n";
    let of = |more: &str| recipe(&format!("{settings}{more}"));
    let open = of("beta: 0.1\nmax_prompt_length: 64\n");
    assert_eq!(open.not_planned.as_deref(), Some(super::PREFERENCE));
    let generates = of("beta: 0.1\nnum_generations: 8\n");
    assert_eq!(generates.not_planned.as_deref(), Some(super::REINFORCEMENT));
    let named = of("beta: 0.1\noutput_dir: out/peft/dpo/lr\n");
    assert_eq!((named.workload.training.objective.as_deref(), named.not_planned), (Some("dpo"), None));
    let card = of("gpu: H100\n");
    assert_eq!(card.choices.len(), 1);
    assert_eq!((card.choices[0].gpus, card.choices[0].is_unnamed()), (Some(crate::Gpus::PerMachine(1)), false));
    assert_eq!(of("gpu_type: a100:2\n").choices[0].gpus, Some(crate::Gpus::PerMachine(2)));
    assert!(of("gpu: 0\n").choices.iter().all(crate::Choice::is_unnamed));
    let precision = |more: &str| of(more).workload.training.precision;
    assert_eq!(precision("torch_dtype: float32\nbf16: false\nfp16: false\n").as_deref(), Some("fp32"));
    assert_eq!(precision("torch_dtype: float32\nbf16: true\nfp16: false\n").as_deref(), Some("bf16"));
    let placeholder = recipe("model_name_or_path: REPLACE_WITH_MODEL\nper_device_train_batch_size: 1\n");
    assert_eq!(placeholder.model_name, None);
    let recompute = of("use_gradient_checkpointing: true\n").workload.training.recompute;
    assert_eq!(recompute.as_deref(), Some("full"));
}

/// What a program does where nothing is said is taken of that program alone: a file that shares a word with it is somebody's own.
#[test]
fn defaults_are_those_of_a_program_that_is_known() {
    let task = |text: &str| recipe(text).workload.training.task;
    let own = "model_name: a/b-7b\nlearning_rate: 1e-4\nbatch_size: 2\nepochs: 3\n";
    for text in [
        // Hugging Face's programs that translate have a target too.
        format!("{own}max_target_length: 128\n"),
        format!("{own}train: {{micro_batch_size: 2}}\n"),
        format!("{own}num_layers: 2\nhidden_size: 64\n"),
        "model_name_or_path: a/b-7b\nstage: sft\nper_device_train_batch_size: 2\nnum_train_epochs: 1\n".to_owned(),
        "base_model: a/b-7b\nsequence_len: 512\nmine: 1\n".to_owned(),
        // Most of its words are none of Axolotl's.
        "base_model: a/b-7b\nsequence_len: 512\nnum_epochs: 1\nview: a\nhue: b\nfoo: c\nbar: d\nbaz: e\n".to_owned(),
        // Weights to start from: whether they are tuned or trained further nobody says.
        "base_config: base.yml\nmax_target_length: 128\nmodel_name: llama2-7b\nload_parameters_path: gs://a/b\n"
            .to_owned(),
    ] {
        assert_eq!(task(&text), None, "{text}");
    }
    let maxtext = "base_config: base.yml\nmax_target_length: 128\nmodel_name: llama2-7b\n";
    assert_eq!(task(maxtext).as_deref(), Some("pretrain"));
    assert_eq!(task(&format!("{maxtext}use_sft: true\nload_parameters_path: a\n")).as_deref(), Some("full-fine-tune"));
    let nemo = "model: {micro_batch_size: 1, restore_from_path: a.nemo, peft: {peft_scheme: lora}}\ntrainer: {devices: 8, num_nodes: 1}\n";
    assert_eq!(task(nemo).as_deref(), Some("lora"));
    assert_eq!(task(&nemo.replace("scheme: lora", "scheme: ptuning")), None);
    assert!(recipe(&nemo.replace("scheme: lora", "scheme: ptuning")).not_planned.is_some());
    assert_eq!(task(&nemo.replace("scheme: lora", "scheme: null")), None);
    // Three epochs are those of transformers' own parser.
    let epochs = |text: &str| recipe(text).workload.training.epochs.map(|epochs| epochs.to_string());
    assert_eq!(
        epochs("model_name_or_path: gpt2\nper_device_train_batch_size: 2\nlearning_rate: 1e-4\nlora_r: 8\n"),
        None
    );
}

/// What LightningCLI and Hydra hand to Lightning's trainer; the batch of a data module is that of a process or of all.
#[test]
fn lightning_is_told_machines_and_settings_in_a_section() {
    let text = "seed_everything: 1\ntrainer: {accelerator: gpu, devices: 4, num_nodes: 2, precision: 16, strategy: deepspeed_stage_3_offload, max_steps: -1, max_epochs: 7, accumulate_grad_batches: 3}\nmodel: {class_path: a.B, init_args: {lr: 0.1}}\ndata: {class_path: a.C, init_args: {batch_size: 8}}\n";
    let read = recipe(text);
    let training = &read.workload.training;
    let number = |number: &Option<gpuplan_workload::file::Scalar>| number.as_ref().map(ToString::to_string);
    assert_eq!((read.gpus(), read.nodes.clone()), (Some(8), Some(2..=2)));
    assert_eq!((number(&training.epochs), number(&training.steps)), (Some("7".to_owned()), None));
    assert_eq!((number(&training.grad_accumulation), number(&training.micro_batch)), (Some("3".to_owned()), None));
    assert_eq!((training.precision.as_deref(), training.framework.as_deref()), (Some("amp-fp16"), Some("lightning")));
    assert_eq!(read.stated_layout().to_string(), "ZeRO-3");
    assert!(
        read.unread.iter().any(|one| one.key == "trainer.strategy"),
        "copies to the host are not estimated: {:?}",
        read.unread
    );
    for (word, layout) in [("ddp", "no ZeRO"), ("fsdp", "ZeRO-3"), ("deepspeed", "ZeRO-2"), ("auto", ""), ("mine", "")]
    {
        let read = recipe(&text.replace("deepspeed_stage_3_offload", word));
        assert_eq!(read.stated_layout().to_string(), layout, "{word}");
    }
    for (devices, gpus) in [("auto", None), ("-1", None), ("[0, 1]", Some(4)), ("'0,1,2'", Some(6))] {
        assert_eq!(recipe(&text.replace("devices: 4", &format!("devices: {devices}"))).gpus(), gpus, "{devices}");
    }
}

/// A merge has the words of a model alone, `auto` is what another tool is told, and a family is no model.
#[test]
fn what_a_file_does_not_say_is_open() {
    let merge = recipe(
        "model_name_or_path: gpt2\nadapter_name_or_path: a\ntemplate: default\nfinetuning_type: lora\nexport_dir: b\n",
    );
    assert_eq!((merge.workload.training.task, merge.not_planned.is_some()), (None, true));
    let zero = "bf16: {enabled: auto}\nzero_optimization: {stage: 3}\ntrain_micro_batch_size_per_gpu: auto\n";
    assert_eq!(recipe(zero).workload.training.precision, None);
    assert_eq!(
        recipe(&zero.replace("enabled: auto", "enabled: true")).workload.training.precision.as_deref(),
        Some("bf16")
    );
    let script = |flags: &str| recipe(&format!("#!/bin/bash\npython run_pretrain.py {flags}\n"));
    let sizes = "--vocab_size 50257 --emb_dim 768 --n_heads 12 --n_layers 12 --context_length 256 --train_epochs 10";
    let read = script(&format!("--model_name gpt {sizes}"));
    assert_eq!((read.model_name, read.workload.model.hidden), (None, Some(768_u32.into())));
    assert_eq!(script("--model_name gpt2 --lr 1").model_name.as_deref(), Some("gpt2"));
    let evaluation = "model: {_component_: torchtune.models.llama2.llama2_7b}\nbatch_size: 8\ntasks: [a]\n";
    assert_eq!(recipe(evaluation).workload.training.task, None);
}

#[test]
fn openrlhf_has_sections_and_deepspeed_launchers_of_its_own() {
    let script = |line: &str| recipe(&format!("#!/bin/bash\n{line}\n"));
    let sft = "deepspeed --num_gpus 8 --module openrlhf.cli.train_sft --data.max_len 8192 --train.batch_size 16 --train.micro_batch_size 2 \
        --train.max_epochs 3 --model.model_name_or_path Qwen/Qwen2.5-Math-1.5B --ds.param_dtype bf16";
    let read = script(sft);
    let training = read.workload.training;
    let number =
        |number: &Option<gpuplan_workload::file::Scalar>| number.as_ref().map(ToString::to_string).unwrap_or_default();
    assert_eq!(read.model_name.as_deref(), Some("Qwen/Qwen2.5-Math-1.5B"));
    let numbers =
        [&training.sequence_length, &training.global_batch, &training.micro_batch, &training.epochs].map(number);
    assert_eq!((numbers.join(" "), training.task.as_deref()), ("8192 16 2 3".to_owned(), Some("full-fine-tune")));
    let lora = script(&format!("{sft} --ds.lora.rank 16")).workload.training;
    assert_eq!((lora.task.as_deref(), lora.precision.as_deref()), (Some("lora"), Some("bf16")));
    let megatron = script(
        "python -m deepspeed.comm.launch --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 2 --micro-batch-size 1",
    );
    assert_eq!((megatron.workload.training.task.as_deref(), megatron.gpus()), (Some("pretrain"), Some(8)));
    let ranks = script(
        "swift sft --model Qwen/Qwen3-Reranker-4B --task_type generative_reranker --train_type full --dataset a",
    );
    assert!(ranks.not_planned.is_some(), "to rank is no next word");
}
