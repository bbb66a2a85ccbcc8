//! Tests of `command.rs`: programs that nobody knows, and words that only some of them have.

#![cfg(test)]

use super::tests::{asked, keys};
use crate::Names;
use gpuplan_hardware::Hardware;
use gpuplan_workload::Models;
use gpuplan_workload::assumption::JobAssumption;
use gpuplan_workload::file::Scalar;

/// Of these programs nobody knows the name; their words say what they do.
#[test]
fn programs_that_nobody_knows_are_read_by_their_words() {
    let number = |text: &str| Some(Scalar::from(text.to_owned()));
    let petro = asked(
        "petrogpt-train --stage dpo --model_name_or_path path/to/Llama-2-7b --finetuning_type lora --per_device_train_batch_size 2 --fp16",
    );
    let training = &petro.workload.training;
    assert_eq!((&training.micro_batch, training.objective.as_deref()), (&number("2"), Some("dpo")));
    let command = asked("autoalign-cli dpo --model_name_or_path Qwen/Qwen2-7B --gradient_accumulation_steps 4");
    assert_eq!(command.workload.training.objective.as_deref(), Some("dpo"));
    for script in
        ["bash run.sh --model_name_or_path a/b-7b --num_train_epochs 3", "mytool --model_name_or_path a/b-7b --port 3"]
    {
        assert!(asked(script).understood.is_empty(), "{script}");
    }

    let together = asked("python finetune.py --base_model huggyllama/llama-7b --batch_size 64 --micro_batch_size 4");
    let training = &together.workload.training;
    assert_eq!((&training.global_batch, &training.micro_batch), (&number("64"), &number("4")));
    assert!(together.unread.is_empty(), "{:?}", together.unread);
    let apart = asked("python finetune.py --base_model huggyllama/llama-7b --batch_size 7 --micro_batch_size 4");
    assert_eq!((&apart.workload.training.global_batch, keys(&apart.unread)), (&None, vec!["--batch_size"]));

    let galore = asked(
        "torchrun --nproc_per_node 2 torchrun_main.py --model_config configs/llama_130m.json --batch_size 256 --total_batch_size 512 \
         --num_training_steps 20000 --dtype bfloat16 --optimizer galore_adamw",
    );
    let training = &galore.workload.training;
    assert_eq!((&training.micro_batch, &training.global_batch), (&number("256"), &number("512")));
    assert_eq!((training.task.as_deref(), training.precision.as_deref()), (Some("pretrain"), Some("pure-bf16")));
    assert_eq!(galore.unknown_optimizer.as_deref(), Some("galore_adamw"));

    let sizes = asked(
        "torchrun train.py --vocab_size 5000 --hidden_size 768 --num_layers 12 --num_heads 12 --max_seq_len 128 --batch_size 8",
    );
    let (model, training) = (&sizes.workload.model, &sizes.workload.training);
    assert_eq!((&model.layers, &model.heads, &model.vocab), (&number("12"), &number("12"), &number("5000")));
    assert_eq!((training.task.as_deref(), &training.micro_batch), (Some("pretrain"), &number("8")));

    for (flags, model) in [
        ("--pretrain meta-llama/Llama-3.1-8B --max_len 2048", Some("llama-3.1-8b")),
        ("--pretrain runs/imagenet", None),
        ("--pretrain true", None),
    ] {
        let read = asked(&format!("python train_sft.py {flags}")).workload.model.preset;
        assert_eq!(read.as_deref(), model, "{flags}");
    }
}

#[test]
fn a_folder_of_programs_names_their_objective() {
    let objective = |program: &str| asked(&format!("python {program} --bf16")).workload.training.objective;
    assert_eq!(objective("src/dpo/trainer.py").as_deref(), Some("dpo"));
    assert_eq!(objective("-m src.dpo.train").as_deref(), Some("dpo"));
    assert_eq!(objective("-m safe_rlhf.finetune"), None);
    assert!(asked("python -m safe_rlhf.finetune --bf16").not_planned.is_none());
    for other in ["src/dpo/evaluate.py", "rl/train.py", "dpo/train_sft.py", "train.py"] {
        assert_eq!(objective(other), None, "{other}");
    }
}

/// A line whose work is not said starts GPUs all the same, and what fills a count in is named.
#[test]
fn a_launcher_that_says_nothing_is_no_unknown_file() {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let unread = |script: &str| {
        let read = crate::read(script, Names::new(&hardware, &models)).unwrap();
        read.unread.iter().map(|one| one.key.clone()).collect::<Vec<_>>()
    };
    assert_eq!(unread("torchrun --nproc_per_node=gpu -m mine.train\n"), ["--nproc_per_node"]);
    assert_eq!(unread("accelerate launch train.py\n"), ["train.py"]);
}

#[test]
fn containers_count_their_gpus() {
    for (flag, gpus) in [("'\"device=0,1\"'", Some(2)), ("device=3", Some(1)), ("4", Some(4)), ("all", None)] {
        let script = format!("docker run --gpus {flag} --rm vllm/vllm-openai:v0.7 --model Qwen/Qwen2.5-7B-Instruct");
        let read = asked(&script);
        assert_eq!(read.launch.gpus_per_machine, gpus, "{flag}");
        assert_eq!(read.workload.serving.engine.as_deref(), Some("vllm"));
    }
    let file = asked("apptainer run --nv --bind /tmp:/tmp /images/vllm-openai.sif --model Qwen/Qwen2.5-7B-Instruct");
    assert_eq!(file.workload.model.preset.as_deref(), Some("qwen2.5-7b"));
}

/// Words that no list of Megatron-LM's has: its models of experts, and the work that is not planned.
#[test]
fn arguments_of_megatron_are_known() {
    let read = |flags: &str| {
        let sizes = "--num-layers 61 --hidden-size 7168 --num-attention-heads 128 --micro-batch-size 1";
        asked(&format!("torchrun pretrain_gpt.py {sizes} {flags}"))
    };
    let experts = read(
        "--num-experts 64 --moe-ffn-hidden-size 1408 --moe-shared-expert-intermediate-size 2816 --moe-layer-freq '([0]*1+[1]*60)' \
         --moe-router-pre-softmax --ckpt-format torch_dist --finetune --loss-scale 0 --exit-duration-in-mins 30",
    );
    let model = &experts.workload.model;
    assert_eq!((&model.shared_experts, &model.dense_layers), (&Some(2.into()), &Some(1.into())));
    assert_eq!(keys(&experts.unread), ["--exit_duration_in_mins"]);
    assert_eq!(keys(&read("--moe-layer-freq '([0]*1+[1]*3)*2'").unread), ["--moe_layer_freq"]);
    for flag in ["--multi-latent-attention", "--is-hybrid-model", "--perform-rl-step", "--skip-train"] {
        assert!(read(flag).not_planned.is_some(), "{flag}");
    }
    let tuned = read("--sft --fp4-format e2m1").workload.training;
    assert_eq!((tuned.task.as_deref(), tuned.precision.as_deref()), (Some("full-fine-tune"), Some("nvfp4")));
}

/// What later public files had: flags behind a variable that nobody sets, torchtune's recipes, the reference of DPO, students and teachers.
#[test]
fn words_of_further_programs_are_read() {
    let number = |text: &str| Some(Scalar::from(text.to_owned()));
    let cut = asked("torchrun pretrain_gpt.py --micro-batch-size 8 --fp16 $DATA_ARGS --nnodes $NNODES");
    assert_eq!(cut.workload.training.precision.as_deref(), Some("amp-fp16"));
    assert_eq!(keys(&cut.unread), ["--nnodes"]);

    let tuned = asked("tune run full_finetune_single_device --config mine.yaml");
    assert_eq!(
        (tuned.launch.gpus_per_machine, tuned.workload.training.task.as_deref()),
        (Some(1), Some("full-fine-tune"))
    );
    let spread = asked("tune run --nproc_per_node 4 lora_dpo_distributed --config mine.yaml");
    let training = &spread.workload.training;
    assert_eq!((training.task.as_deref(), training.objective.as_deref()), (Some("lora"), Some("dpo")));
    assert_eq!(spread.launch.gpus_per_machine, Some(4));

    let reference = asked(
        "python -u train.py model=pythia28 datasets=[shp] loss=sft exp_name=a gradient_accumulation_steps=2 batch_size=64 \
         trainer=FSDPTrainer model.fsdp_policy_mp=bfloat16 n_epochs=3",
    );
    let training = &reference.workload.training;
    assert_eq!((&training.global_batch, &training.micro_batch), (&number("64"), &None));
    assert_eq!((training.task.as_deref(), training.precision.as_deref()), (Some("full-fine-tune"), Some("bf16")));

    let student = asked(
        "python train.py --teacher deepseek-ai/DeepSeek-R1-Distill-Qwen-7B --student Qwen/Qwen2.5-0.5B --batch_size 8",
    );
    assert_eq!(student.workload.model.preset.as_deref(), Some("qwen2.5-0.5b"));
    assert!(student.not_planned.is_some() || student.workload.training.objective.as_deref() == Some("distill"));
}

/// Sections around the arguments of Hugging Face's Trainer are somebody's own.
#[test]
fn a_configuration_of_ones_own_is_read_by_its_last_words() {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let text = "lm: {model_dir: /models/Qwen3-0.6B}\nlora: {r: 16}\ntrainer: {max_steps: 1000, bf16: true, per_device_train_batch_size: 8}\n";
    let read = crate::read(text, Names::new(&hardware, &models)).unwrap();
    let training = &read.workload.training;
    assert_eq!(read.workload.model.preset.as_deref(), Some("qwen3-0.6b"));
    assert_eq!((training.task.as_deref(), training.precision.as_deref()), (Some("lora"), Some("bf16")));
    assert!(crate::read("a: {b: {per_device_eval_batch_size: 3}}\n", Names::new(&hardware, &models)).is_err());
}

/// What is stated and not read is no default, and a method that is called so is one of adapters.
#[test]
fn lists_of_epochs_are_no_three_epochs() {
    let read = asked(
        "deepspeed --num_gpus 4 training/main.py --model_name_or_path a/llama-2-7b --per_device_train_batch_size 1 --num_train_epochs 5,3,7 --CL_method lora",
    );
    let training = &read.workload.training;
    assert_eq!((&training.epochs, training.task.as_deref()), (&None, Some("lora")));
    let served = asked("CUDA_VISIBLE_DEVICES=1 trl vllm-serve --model Qwen/Qwen2.5-0.5B --port 8003");
    assert_eq!(served.workload.serving.engine.as_deref(), Some("vllm"));
    assert_eq!(
        (served.workload.model.preset.as_deref(), served.launch.gpus_per_machine),
        (Some("qwen2.5-0.5b"), Some(1))
    );
}

#[test]
fn a_script_may_give_itself_arguments() {
    let script = "set -- serve Qwen/Qwen2.5-7B-Instruct --port 8000\nif [ -n \"$KEY\" ]; then set -- \"$@\" --api-key $KEY; fi\nexec vllm \"$@\"";
    let read = asked(script);
    assert_eq!(read.workload.model.preset.as_deref(), Some("qwen2.5-7b"));
    assert_eq!(read.workload.serving.engine.as_deref(), Some("vllm"));
}

/// A job in a file of this name.
fn read_as(path: &str, text: &str) -> crate::JobRequest {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    crate::read(text, Names { path, ..Names::new(&hardware, &models) }).unwrap()
}

/// Of a program that nobody knows the kind of work is what runs says: a name that somebody gave the job, its file or its results is asked about, and
/// "fine-tune" alone says nothing of adapters.
#[test]
fn a_kind_of_work_that_no_word_says_is_not_named() {
    let flags = "--model_name_or_path gpt2 --per_device_train_batch_size 2 --num_train_epochs 3";
    let kind = |path: &str, directives: &str, command: &str| {
        let read = read_as(path, &format!("#!/bin/bash\n{directives}\npython {command}\n"));
        let is_open = crate::command::unsaid(&read, &read.workload).is_some();
        assert_eq!(is_open, keys(&read.unread).contains(&crate::command::KIND), "{command}");
        let training = read.workload.training;
        let words = [training.task, training.objective].map(Option::unwrap_or_default);
        (words.join(" ").trim().to_owned(), is_open, read.not_planned.is_some())
    };
    let said = |words: &str| (words.to_owned(), false, false);
    let (none, asked) = ("#SBATCH --gres=gpu:1", (String::new(), true, false));
    assert_eq!(kind("train.sh", none, &format!("train.py {flags}")), (String::new(), true, false));
    for (path, directives, command, expected) in [
        ("run.sh", none, "train_lora.py", said("lora")),
        ("run.sh", none, "train_dpo.py", said("dpo")),
        ("run.sh", none, "train.py --mode pretrain", said("pretrain")),
        ("run.sh", none, "train.py --mode dpo", said("dpo")),
        ("train_lora.sh", none, "train.py", asked.clone()),
        ("run.sh", "#SBATCH --gres=gpu:1 --job-name=gpt2-dpo", "train.py", asked.clone()),
        ("pretrain.sh", none, "train.py", asked.clone()),
        ("run.sh", none, "train.py --output_dir runs/gpt2-sft", asked.clone()),
        ("run.sh", none, "finetune.py", asked.clone()),
        ("run.sh", none, "train.py --mode sft", asked.clone()),
        ("run.sh", none, "exploration_train.py", asked.clone()),
        // The program is nearer to the work than the name of its run.
        ("run.sh", none, "train_sft.py --run_name like-grpo", asked.clone()),
        ("run.sh", none, "train.py --run_name unsup-simcse", asked.clone()),
        ("run.sh", none, "train.py --output_dir runs/distill", asked.clone()),
        // A variable's name is no word of the job, nor do two letters say reinforcement.
        ("run.sh", none, "train.py --output_dir $SFT/a --run_name rl", (String::new(), true, false)),
    ] {
        assert_eq!(kind(path, directives, &format!("{command} {flags}")), expected, "{path} {command}");
    }
    // What says nothing else than that it tunes leaves open whether it has adapters.
    let bare = read_as("sft.sh", "#SBATCH --gres=gpu:1\naccelerate launch train.py\n");
    assert_eq!((bare.workload.training.task, bare.assumed.contains(&JobAssumption::NoAdapters)), (None, false));
    // What a name suggests stands in the question.
    let question = |path: &str, command: &str| {
        let read = read_as(path, &format!("#!/bin/bash\npython {command} {flags}\n"));
        crate::command::unsaid(&read, &read.workload).unwrap()
    };
    assert!(question("train_lora.sh", "train.py").contains("`train_lora.sh` suggests `--task lora`"));
    assert!(question("run.sh", "finetune.py").contains("not whether by adapters"));
}

/// Words of the training of encoders, of programs that are told not to train, and settings under other names.
#[test]
fn words_that_change_the_work_are_heard() {
    let number = |text: &str| Some(Scalar::from(text.to_owned()));
    for flags in ["--pooling_module eos", "--grad_cache True", "--num_negatives 7", "--do_train false"] {
        assert!(
            asked(&format!("python train.py --model_name gpt2 --lora_r 8 {flags}")).not_planned.is_some(),
            "{flags}"
        );
    }
    assert!(asked("python train.py --model_name gpt2 --lora_r 8 --grad_cache False").not_planned.is_none());
    let training = |command: &str| asked(&format!("python {command}")).workload.training;
    let method = training("train.py --model_name gpt2 --method qlora --lora_r 8 --lr 1");
    assert_eq!(method.task.as_deref(), Some("qlora"));
    let module = training("-m src.train_qlora_glue --model_name gpt2 --lora_r 8");
    assert_eq!(module.task.as_deref(), Some("qlora"));
    let steps = training("train.py --steps 900 --batch_size 4 --lr_head 1e-4");
    assert_eq!((steps.steps, steps.micro_batch), (number("900"), number("4")));
    assert_eq!(training("sample.py --steps 50 --batch_size 4").steps, None);
    let rows = asked("multi-train --num_train_epochs 2 --train_samples 1000").workload;
    assert_eq!((rows.training.epochs, rows.training.samples, rows.data.samples), (number("2"), None, number("1000")));
    let model = |flags: &str| asked(&format!("python sft.py {flags}")).workload.model.preset;
    assert_eq!(model("--base Qwen/Qwen3-0.6B --lora_r 4").as_deref(), Some("qwen3-0.6b"));
    for other in ["--base runs/a", "--draft_model Qwen/Qwen3-0.6B", "--base Qwen/Qwen3-0.6B --llm gpt2"] {
        assert_eq!(model(other), None, "{other}");
    }
}

/// What starts a program may be a variable, a script that lies elsewhere, or a session of tmux.
#[test]
fn programs_behind_what_only_a_run_would_tell_are_read() {
    for command in [
        "if command -v deepspeed; then L=\"deepspeed --num_gpus=2\"; else L=torchrun; fi\n$L train.py --max_steps 7",
        "bash launch.sh src/train.py --max_steps 7",
        "tmux new-session -d -s NAME \"source a/bin/activate\naccelerate launch train.py --max_steps 7\"",
    ] {
        assert_eq!(asked(command).workload.training.steps, Some(Scalar::from("7".to_owned())), "{command}");
    }
    assert_eq!(asked("tmux kill-session -t \"accelerate launch a.py --max_steps 7\"").workload.training.steps, None);
    let step = read_as("a.sh", "#!/bin/bash\nsrun -n${N} --gres=gpu:8 --ntasks-per-node=8 python main.py\n");
    assert_eq!((step.nodes.clone(), step.assumed.contains(&JobAssumption::OneMachine)), (None, true));
    let stated = read_as("a.sh", "#!/bin/bash\nsrun -n16 --gres=gpu:8 --ntasks-per-node=8 python main.py\n");
    assert_eq!(stated.nodes, Some(2..=2));
}

/// Services that only measure cards, and files that add cards to another file's service.
#[test]
fn services_that_watch_cards_are_none() {
    let gpus = "deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 2, capabilities: [gpu]}]}}}";
    let two =
        format!("services:\n  llm: {{{gpus}}}\n  watch: {{image: 'nvcr.io/nvidia/k8s/dcgm-exporter:3.3', {gpus}}}\n");
    let read = read_as("docker-compose.gpu.yml", &two);
    assert_eq!((read.name.as_deref(), read.choices[0].gpus), (Some("llm"), Some(crate::Gpus::PerMachine(2))));
    let none =
        format!("services:\n  llm: {{{gpus}}}\n  page: {{image: a, {}}}\n", gpus.replace("count: 2", "count: 0"));
    assert_eq!(read_as("docker-compose.yml", &none).name.as_deref(), Some("llm"));
    let of_amd =
        "services:\n  llm: {image: vllm/vllm-openai-rocm, devices: [/dev/kfd, /dev/dri], command: --model a/b-7b}\n";
    let read = read_as("docker-compose.yml", of_amd);
    assert_eq!((read.model_name.as_deref(), read.choices.len()), (Some("a/b-7b"), 0));
}

/// Configurations of one's own, of sd-scripts, and of programs that share a word with a known one.
#[test]
fn further_configurations_are_known_by_their_words() {
    let said = |text: &str| {
        let read = read_as("train.yaml", text);
        let training = read.workload.training;
        [read.model_name, training.task, training.framework].map(Option::unwrap_or_default).join(" ")
    };
    let trainer = "{per_device_train_batch_size: 4, num_train_epochs: 2}";
    for (text, expected) in [
        (
            "model: Qwen/Qwen3-32B\nlora: {r: 8}\ntrain: {epochs: 2, batch_size: 4, lr: 1e-4}\n".to_owned(),
            "Qwen/Qwen3-32B lora",
        ),
        (
            "pretrained_model_name_or_path: a/b-7b\nnetwork_module: networks.lora_flux\nmax_train_steps: 9\n"
                .to_owned(),
            "a/b-7b lora",
        ),
        (
            format!("model: {{model_name: Qwen/Qwen3-0.6B}}\nlora: {{rank: 8}}\ntraining: {trainer}\n"),
            "Qwen/Qwen3-0.6B lora hf-trainer",
        ),
        ("base_model: Qwen/Qwen3-8B\nnum_epochs: 3\n".to_owned(), "Qwen/Qwen3-8B"),
        ("base_model: Qwen/Qwen3-8B\ndatasets: [{path: a/b}]\n".to_owned(), "Qwen/Qwen3-8B  axolotl"),
        (
            "base_model: Qwen/Qwen3-8B\ndatasets: [{path: a/b}]\nsequence_len: 512\nmicro_batch_size: 1\n".to_owned(),
            "Qwen/Qwen3-8B full-fine-tune axolotl",
        ),
    ] {
        assert_eq!(said(&text).trim(), expected, "{text}");
    }
}

/// What stands behind a program or in its name says which part of a model it trains.
#[test]
fn words_behind_a_program_and_parts_of_a_model_are_heard() {
    assert_eq!(asked("accelerate launch distill.py sft").not_planned, None);
    assert!(asked("accelerate launch distill.py --lr 1").not_planned.is_some());
    let sd = "--pretrained_model_name_or_path runwayml/stable-diffusion-v1-5 --resolution 512 --train_batch_size 1";
    assert!(asked(&format!("accelerate launch train_controlnet_sdxl.py {sd}")).not_planned.is_some());
    assert!(asked(&format!("accelerate launch textual_inversion.py {sd}")).not_planned.is_some());
    let contrast =
        "--per_device_train_batch_size 2 --model_name_or_path Qwen/Qwen2-VL-2B-Instruct --gen_contrastive_weight";
    assert!(asked(&format!("torchrun --nproc_per_node 2 train.py {contrast} 0.5")).not_planned.is_some());
    assert_eq!(asked(&format!("torchrun --nproc_per_node 2 train.py {contrast} 0")).not_planned, None);
    // Sizes in the words of nanoGPT; RWKV has no heads.
    let sizes = asked(
        "torchrun train.py --n_layer 6 --n_embd 384 --n_head 8 --block_size 1024 --batch_size 4 --max_iters 3000",
    );
    assert_eq!(
        (sizes.workload.model.hidden, sizes.workload.training.task.as_deref()),
        (Some("384".into()), Some("pretrain"))
    );
    assert_eq!(asked("python train.py --n_layer 24 --n_embd 2048 --ctx_len 512").workload.model.layers, None);
    // Nodes beside a count of cards are machines; of a graph they are none.
    assert_eq!(asked("./launch.py train --gpus=4 --nodes=8").launch.machines, Some(8));
    assert_eq!(asked("python train_gnn.py --nodes=512 --lr 1").launch.machines, None);
    let batch = asked("torchrun --nproc_per_node 4 train_sft.py --batch 4 --accum 2 --lr 1");
    assert_eq!(batch.workload.training.micro_batch, Some("4".into()));
    for model in ["path_to_llama_model", "path-to-model"] {
        assert_eq!(
            asked(&format!("python train_sft.py --model_name_or_path {model} --lr 1")).model_name,
            None,
            "{model}"
        );
    }
    let served = asked("docker run --gpus all --entrypoint vllm vllm/vllm-openai:v0.27 serve Qwen/Qwen3-8B --port 1");
    assert_eq!(served.model_name.as_deref(), Some("Qwen/Qwen3-8B"));
}

/// The rest of a script that is longer than any person's is not read, and the answer says so.
#[test]
fn a_script_that_is_read_in_part_says_so() {
    let long = |lines: usize| format!("{}python run_clm.py --model_name_or_path gpt2\n", "echo a\n".repeat(lines));
    assert_eq!(asked(&long(10)).model_name.as_deref(), Some("gpt2"));
    let cut = asked(&long(6_000));
    assert_eq!((cut.model_name.as_deref(), keys(&cut.unread)), (None, vec!["script"]));
    let data = asked(&format!(
        "python run_clm.py --model_name_or_path gpt2\n: <<'DATA'\n{}DATA\nmake\n",
        "é\n".repeat(400_000)
    ));
    assert_eq!((data.model_name.as_deref(), keys(&data.unread)), (Some("gpt2"), vec!["script"]));
}

/// A script with the names that somebody gave.
fn settled(script: &str) -> crate::JobRequest {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    crate::read(&format!("#!/bin/bash\n{script}\n"), Names::new(&hardware, &models)).unwrap()
}

/// Adapters that a key switches off are none, whatever describes them; a program that says only "fine-tune" leaves them open.
#[test]
fn adapters_are_used_where_something_says_so() {
    let task = |line: &str| settled(line).workload.training.task;
    let trl = "trl sft --model_name_or_path Qwen/Qwen3-4B --per_device_train_batch_size 2 --lora_r 64 --lora_target_modules all-linear";
    assert_eq!(task(trl).as_deref(), Some("lora"));
    assert_eq!(task(&format!("{trl} --use_peft false --max_steps 9")).as_deref(), Some("full-fine-tune"));
    let own = "python mine.py --model_name_or_path gpt2 --per_device_train_batch_size 2 --max_steps 9";
    assert_eq!(task(&format!("{own} --use_lora false")).as_deref(), Some("full-fine-tune"));
    assert_eq!(task(&format!("{own} --use_lora false --freeze_vision_tower true")), None);
    assert_eq!(task(own), None);
    let alpaca =
        "accelerate launch finetune.py --base_model vicuna-7B --batch_size 32 --micro_batch_size 1 --output_dir";
    assert_eq!((task(&format!("{alpaca} output_lora")), task(&format!("{alpaca} out"))), (None, None));
}

/// What a program does by itself it may do otherwise under a configuration that nobody sees.
#[test]
fn a_configuration_that_is_not_there_leaves_the_kind_of_work_open() {
    let task = |line: &str| settled(line).workload.training.task;
    assert_eq!(task("python -m axolotl.cli.train /workspace/config/mine.yaml"), None);
    assert_eq!(task("python -m axolotl.cli.train /workspace/config/positivity-lora.yaml"), None);
    let fairseq = "fairseq-hydra-train --config-dir conf --config-name base task.data=d model.w2v_path=a.pt";
    assert_eq!(task(fairseq), None);
    let own = "fairseq-train data --user-dir mine --arch transformer --max-tokens 4096 --max-update 9";
    assert_eq!(task(own), None, "a task of somebody's own may load weights by any word");
    assert_eq!(task(&own.replace("--user-dir mine ", "")).as_deref(), Some("pretrain"));
}

/// A trial of the same program beside the work says nothing of how long that takes.
#[test]
fn flags_of_one_of_two_starts_of_a_program_are_unknown() {
    let trial = asked("python train_sft.py --data a --epochs 1\npython train_sft.py --data b\n");
    assert_eq!(trial.workload.training.epochs, None);
    let same = asked("python train_sft.py --data a --epochs 1\npython train_sft.py --data b --epochs 1\n");
    assert!(same.workload.training.epochs.is_some());
}

/// Overrides in the section of a trainer, names to fill in, and scripts that lie elsewhere.
#[test]
fn strange_lines_are_read_as_they_are_meant() {
    let hydra =
        asked("python3 train_hf.py model=x ++trainer.per_device_train_batch_size=5 ++trainer.num_train_epochs=1");
    assert_eq!(hydra.workload.training.micro_batch, Some(Scalar::from("5".to_owned())));
    let template = asked(
        "deepspeed train.py --output_dir <output_dir> \\\n --model_name_or_path Qwen/Qwen1.5-7B-Chat --max_steps 3",
    );
    assert_eq!(template.model_name.as_deref(), Some("Qwen/Qwen1.5-7B-Chat"));
    let elsewhere = asked("GPUS=\"${MINE:-2,4,5,6}\"\nCUDA_VISIBLE_DEVICES=\"${GPUS}\" bash finetune_all.sh\n");
    assert_eq!(elsewhere.launch.gpus_per_machine, Some(4));
}
