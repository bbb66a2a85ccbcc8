//! Tests of `command.rs`.

#![cfg(test)]

use super::*;
use crate::JobKind;
use gpuplan_hardware::Hardware;
use gpuplan_workload::Models;
use gpuplan_workload::file::Scalar;

pub(super) fn asked(script: &str) -> JobRequest {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let mut asked = JobRequest::new(JobKind::Slurm);
    read(script, &[], &mut asked, Names::new(&hardware, &models));
    asked
}

pub(super) fn keys(list: &[crate::KeyValue]) -> Vec<&str> {
    list.iter().map(|one| one.key.as_str()).collect()
}

#[test]
fn the_flags_of_the_trainer_are_a_workload() {
    let asked = asked(
        "pip install --upgrade -r a.py.txt\nsrun torchrun --nproc_per_node=8 run_clm.py --model_name_or_path meta-llama/Llama-3.1-8B-Instruct \\\n \
         --per_device_train_batch_size 4 --gradient_accumulation_steps=8 --bf16 --max_steps 500 --block_size 2048 \\\n --mystery 7 --fp16 False",
    );
    let training = &asked.workload.training;
    assert_eq!(asked.workload.model.preset.as_deref(), Some("llama-3.1-8b"));
    assert_eq!(
        (training.precision.as_deref(), training.steps.clone()),
        (Some("bf16"), Some(Scalar::from("500".to_owned())))
    );
    assert_eq!((keys(&asked.unread), keys(&asked.no_effect)), (vec!["--mystery"], vec!["--fp16"]));
    assert_eq!((keys(&asked.understood).len(), training.task.as_deref()), (7, Some("full-fine-tune")));
}

/// After command lines that people publish for diffusers' examples.
#[test]
fn the_side_of_pictures_and_the_average_of_weights_are_read() {
    let read = |flags: &str| {
        let model = "--pretrained_model_name_or_path=stabilityai/stable-diffusion-2-1-base --train_batch_size=1";
        let asked = asked(&format!("accelerate launch train_text_to_image.py {model} {flags}"));
        let training = &asked.workload.training;
        (training.sequence_length.clone().map(|side| side.to_string()), training.ema, asked.unread.len())
    };
    let side = |side: &str| Some(side.to_owned());
    assert_eq!(read("--resolution=128 --use_ema"), (side("128"), Some(true), 0));
    assert_eq!(read("--resolution=512,512"), (side("512"), None, 0));
    assert_eq!(read("--resolution=768x512"), (None, None, 1), "the estimate knows square pictures");
}

#[test]
fn the_flags_of_megatron_are_a_workload() {
    let asked = asked(
        "torchrun pretrain_gpt.py --micro-batch-size 2 --global-batch-size 512 --train-iters 1000 --tensor-model-parallel-size 4",
    );
    let training = &asked.workload.training;
    assert_eq!(
        (training.task.as_deref(), keys(&asked.no_effect)),
        (Some("pretrain"), vec!["--tensor_model_parallel_size"])
    );
    assert_eq!(training.global_batch, Some(Scalar::from("512".to_owned())));
}

#[test]
fn what_a_command_leaves_open_is_what_its_parser_does() {
    let read = |script: &str| {
        let asked = asked(script);
        let training = asked.workload.training;
        (training.framework.unwrap_or_default(), training.recompute.unwrap_or_default(), asked.assumed.len())
    };
    for (script, framework, recompute, assumed) in [
        ("torchrun pretrain_gpt.py --micro-batch-size 2 --bf16", "megatron", "none", 2),
        ("torchrun pretrain_gpt.py --micro-batch-size 2 --recompute-activations", "megatron", "selective", 1),
        ("deepspeed pretrain_gpt.py --micro-batch-size 2 --deepspeed", "megatron-deepspeed", "none", 1),
        ("torchrun -m torchtitan.train --training.steps 9", "torchtitan", "selective", 1),
        ("torchrun run_clm.py --per_device_train_batch_size 4", "hf-trainer", "none", 1),
        ("accelerate launch trl/scripts/sft.py --per_device_train_batch_size 4", "trl", "full", 1),
        ("python trl/scripts/sft.py --per_device_train_batch_size 4 --gradient_checkpointing False", "trl", "none", 0),
        ("python src/train.py --finetuning_type full --per_device_train_batch_size 1", "llama-factory", "full", 1),
        ("python train.py --max_steps 5", "", "", 0),
    ] {
        assert_eq!(read(script), (framework.to_owned(), recompute.to_owned(), assumed), "{script}");
    }
    let overlap = |flags: &str| {
        asked(&format!("torchrun pretrain_gpt.py --micro-batch-size 2 {flags}")).workload.training.overlap
    };
    assert_eq!(overlap(""), Some(Vec::new()));
    assert_eq!(overlap("--overlap-param-gather --overlap-grad-reduce"), Some(vec!["weight-gather".to_owned()]));
    let adapters = asked("python run_clm.py --per_device_train_batch_size 4 --use_peft --lora_r 8");
    assert_eq!(adapters.workload.training.lora.targets, Some(vec!["q".to_owned(), "v".to_owned()]));
}

/// A program of which nothing is known but its name and its words.
#[test]
fn the_task_is_that_of_the_program_and_of_where_its_weights_start() {
    let task = |script: &str| {
        let asked = asked(script);
        (asked.workload.training.task.unwrap_or_default(), asked.not_planned.is_some())
    };
    let trainer = "--per_device_train_batch_size 4 --num_train_epochs 3";
    for (script, expected) in [
        ("python run_clm.py --model_name_or_path gpt2-medium --do_train", "full-fine-tune"),
        ("python run_clm.py --model_type gpt2 --tokenizer_name gpt2 --do_train", "pretrain"),
        ("python run_mlm.py --config_name a.json --do_train", "pretrain"),
        ("python run_glue_no_trainer.py --model_name_or_path roberta-large", "full-fine-tune"),
        ("torchrun run_speech_recognition_seq2seq.py --model_name_or_path=openai/whisper-small", "full-fine-tune"),
        ("accelerate launch train_text_to_image_lora.py --pretrained_model_name_or_path a/b --resolution 512", "lora"),
        (
            "accelerate launch train_dreambooth.py --pretrained_model_name_or_path a/b --resolution 512",
            "full-fine-tune",
        ),
        ("python trainLoRA.py --pretrained_model_name_or_path a/b", "lora"),
        ("python finetune.py --model_name_or_path Qwen/Qwen-7B --use_lora --q_lora", "qlora"),
        ("python finetune.py --model_name_or_path Qwen/Qwen-7B --use_lora True --q_lora False", "lora"),
        ("python a.py --model_name gpt2 --lora_r $RANK", "lora"),
        ("swift sft --model Qwen/Qwen2.5-7B --train_type full", "full-fine-tune"),
        ("swift sft --model Qwen/Qwen2.5-7B", "lora"),
        ("litgpt pretrain pythia-14m --train.micro_batch_size 4", "pretrain"),
        ("litgpt finetune_lora meta-llama/Llama-2-7b-hf --train.epochs 1", "lora"),
        ("litgpt finetune_full meta-llama/Llama-2-7b-hf --train.epochs 1", "full-fine-tune"),
        ("llamafactory-cli train --model_name_or_path Qwen/Qwen2.5-7B --stage sft", "lora"),
        // Nothing says whether the program adds adapters.
        ("python finetune.py --base_model Qwen/Qwen2.5-7B", ""),
        ("python evaluate.py --model_name_or_path Qwen/Qwen2.5-7B", ""),
    ] {
        assert_eq!(task(script), (expected.to_owned(), false), "{script}");
    }
    assert_eq!(task(&format!("python mine.py --model_name_or_path Qwen/Qwen2.5-7B {trainer}")), (String::new(), false));
    for frozen in ["--pre_seq_len 128", "--tune_mm_mlp_adapter True", "--freeze_backbone True"] {
        let (task, is_other) = task(&format!("python run.py --model_name_or_path roberta-large {trainer} {frozen}"));
        assert!(task.is_empty() && is_other, "{frozen}: {task}");
    }
}

#[test]
fn a_path_names_the_model_of_its_last_folder() {
    for (path, expected) in [
        ("/data/download-model/DeepSeek-R1-0528-Qwen3-8B", Some("deepseek-r1-0528-qwen3-8b")),
        ("../../gpt2-medium", Some("gpt-2-medium")),
        (
            "/data/cache/huggingface/hub/models--Qwen--Qwen2.5-3B/snapshots/3aab1f1954e9cc14eb9509a215f9e5ca08227a9b",
            Some("qwen2.5-3b"),
        ),
        ("/models/Qwen2-1___5B-Instruct/", Some("qwen2-1.5b")),
        ("./out/Llama-3.1-8B/checkpoint-500", Some("llama-3.1-8b")),
        // A size and a name that the catalog lacks are kept for the one who completes it.
        ("/models/kolibri-7b", Some("kolibri-7b")),
        ("/home/data/bert/bert-base-uncased-pt", Some("bert-base-uncased-pt")),
        ("/models/mine", None),
        ("$MODEL_DIR/mine", None),
    ] {
        let read = asked(&format!("python finetuning.py --model_path {path}"));
        assert_eq!(read.workload.model.preset.as_deref(), expected, "{path}");
    }
}

/// GPUs are counted by launchers, by steps of Slurm, by what CUDA sees, and by the engine that serves.
#[test]
fn processes_are_counted_where_they_are_started() {
    let launch = |script: &str| {
        let mut asked = asked(script);
        asked.kind = JobKind::Script;
        asked.launch
    };
    let expected = |gpus_per_machine, machines, gpus| Launch { gpus_per_machine, gpus, machines, ..Launch::default() };
    for (script, counts) in [
        ("deepspeed --include localhost:0,2 train.py", expected(Some(2), Some(1), None)),
        ("deepspeed --include worker-0@worker-1:0,1,2,3 train.py", expected(Some(4), Some(2), None)),
        ("CUDA_VISIBLE_DEVICES=0,1 python train.py", expected(Some(2), None, None)),
        ("export CUDA_VISIBLE_DEVICES=3\nnohup python train.py &", expected(Some(1), None, None)),
        ("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=1 train.py", expected(Some(1), None, None)),
        ("N=$(echo $G | tr ',' '\\n' | wc -l)\ntorchrun --nproc_per_node=$N train.py", expected(None, None, None)),
        (
            "G=0,1,2\nN=$(echo $G | tr ',' '\\n' | wc -l)\ntorchrun --nproc_per_node=$N train.py",
            expected(Some(3), None, None),
        ),
        (
            "CUDA_VISIBLE_DEVICES=0,1,2,3 NNODES=2 NPROC_PER_NODE=4 swift sft --model Qwen/Qwen2.5-7B",
            expected(Some(4), Some(2), None),
        ),
        ("python -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 4 --dp 2", expected(None, None, Some(8))),
        (
            "docker run --gpus all vllm/vllm-openai:v0.8.5 --model Qwen/Qwen3-8B --tensor-parallel-size 2",
            expected(None, None, Some(2)),
        ),
    ] {
        assert_eq!(launch(script), counts, "{script}");
    }
    let read = |script: &str| {
        let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
        crate::read(&format!("#!/bin/bash\n{script}\n"), Names::new(&hardware, &models)).unwrap()
    };
    let step = read("srun -p llm -N 8 --ntasks-per-node=1 --gpus-per-task=8 torchrun train.py --bf16");
    assert_eq!((step.nodes, step.choices[0].gpus), (Some(8..=8), Some(crate::Gpus::PerMachine(8))));
    let one = read("srun -n1 --gres=gpu:a100:1 python train.py --bf16");
    assert_eq!((one.choices[0].gpus, one.choices[0].chips.is_some()), (Some(crate::Gpus::PerMachine(1)), true));
}

#[test]
fn a_process_may_split_its_model_over_cards() {
    let launch = |script: &str| {
        let read = asked(script).launch;
        (read.gpus_per_machine, read.processes_per_machine)
    };
    let four = "CUDA_VISIBLE_DEVICES=0,1,2,3";
    for (script, counts) in [
        (format!("{four} NPROC_PER_NODE=2 swift dpo --model_type yi-6b-chat"), (Some(4), Some(2))),
        (format!("{four} torchrun --nproc_per_node=2 llm_sft.py --sft_type lora"), (Some(4), Some(2))),
        (format!("{four} swift sft --model Qwen/Qwen2.5-7B"), (Some(4), Some(1))),
        (format!("{four} python train.py --device_map auto"), (Some(4), Some(1))),
        // Each process has a card of its own, and what is left over is idle, or DeepSpeed takes it.
        (format!("{four} torchrun --nproc_per_node=2 train.py"), (Some(2), None)),
        (format!("{four} NPROC_PER_NODE=2 swift sft --deepspeed zero2"), (Some(2), None)),
        (format!("{four} NPROC_PER_NODE=3 swift sft --model a/b"), (Some(3), None)),
    ] {
        assert_eq!(launch(&script), counts, "{script}");
    }
}

#[test]
fn words_of_ms_swift_are_those_of_its_version() {
    let read = |script: &str| {
        let asked = asked(script);
        let training = asked.workload.training;
        let words = [asked.model_name, training.task, training.precision, training.objective];
        words.map(Option::unwrap_or_default)
    };
    let second = "--model_type yi-6b-chat --sft_type lora --dtype bf16";
    for (script, expected) in [
        (format!("swift dpo {second}"), ["yi-6b-chat", "lora", "bf16", "dpo"]),
        (format!("swift simpo {second}"), ["yi-6b-chat", "lora", "bf16", "orpo"]),
        (format!("python src/llm_sft.py {second}"), ["yi-6b-chat", "lora", "bf16", ""]),
        // Since the third `model_type` is the kind of the model.
        ("swift sft --model Qwen/Qwen2.5-7B --model_type qwen2_5".to_owned(), ["Qwen/Qwen2.5-7B", "lora", "", ""]),
        ("swift sft --model_type qwen2_5 --model Qwen/Qwen2.5-7B".to_owned(), ["Qwen/Qwen2.5-7B", "lora", "", ""]),
        ("megatron sft --load Qwen2.5-7B-mcore/".to_owned(), ["Qwen2.5-7B", "full-fine-tune", "", ""]),
        ("megatron rlhf --rlhf_type dpo --model a/b-7b --tuner_type lora".to_owned(), ["a/b-7b", "lora", "", "dpo"]),
    ] {
        assert_eq!(read(&script), expected, "{script}");
    }
    assert!(keys(&asked("swift dpo --model_type yi-6b-chat --dtype AUTO").unread).is_empty());
}

/// Programs outside the large stacks, and words that stand before the program or in a section of their own.
#[test]
fn words_are_found_where_further_programs_have_them() {
    let read = |script: &str| {
        let asked = asked(script);
        let is_other = asked.why_not_planned(&asked.workload).is_some();
        let training = asked.workload.training;
        let number = |number: Option<Scalar>| number.map(|number| number.to_string()).unwrap_or_default();
        let words = [training.task, training.precision].map(Option::unwrap_or_default);
        (words, number(training.micro_batch), is_other)
    };
    let line = |task: &str, precision: &str, batch: &str, is_other: bool| {
        ([task.to_owned(), precision.to_owned()], batch.to_owned(), is_other)
    };
    for (script, expected) in [
        ("accelerate launch --mixed_precision=bf16 train.py --config a", line("", "bf16", "", false)),
        ("accelerate launch --mixed_precision bf16 train.py --fp16", line("", "amp-fp16", "", false)),
        ("fairseq-train data --arch roberta_base --batch-size 8 --fp16", line("pretrain", "amp-fp16", "8", false)),
        (
            "torchrun train.py data --arch transformer_lm --tokens-per-sample 256 --max-sentences 4",
            line("pretrain", "", "4", false),
        ),
        (
            "torchrun -m open_clip_train.main --model ViT-B-16 --dataset-type webdataset --batch-size 128 --precision amp_bf16",
            line("", "bf16", "128", true),
        ),
        (
            "deepspeed train.py --training_arguments.fp16 true --training_arguments.per_device_train_batch_size 16",
            line("", "amp-fp16", "16", false),
        ),
        (
            "torchrun finetuning.py --enable_fsdp --use_peft --peft_method lora --batch_size_training 4 --pure_bf16",
            line("lora", "pure-bf16", "4", false),
        ),
        ("python finetuning.py --enable_fsdp --batch_size_training 2", line("full-fine-tune", "", "2", false)),
        ("python finetuning.py --batch_size_training 2 --use_peft --peft_method prefix", line("lora", "", "2", true)),
        ("python megatron_gpt_pretraining.py trainer.precision=bf16", line("pretrain", "bf16", "", false)),
        ("torchrun -m RL2.trainer.sft actor.model_name=a/b", line("full-fine-tune", "", "", false)),
        (
            "torchrun -m --nnodes 1 --nproc_per_node=8 verl.trainer.fsdp_sft_trainer data.micro_batch_size_per_gpu=1",
            line("full-fine-tune", "", "1", false),
        ),
        (
            "accelerate launch train_network.py --pretrained_model_name_or_path a --network_module networks.lora",
            line("lora", "", "", false),
        ),
        ("python a.py --model gpt2 --optimizer torch.optim.SGD --batch_size 4", line("", "", "4", false)),
        ("python a.py --model gpt2 --optimizer prodigy --batch_size 4", line("", "", "4", true)),
        ("python train.py --model gpt2 --teacher_model_name_or_path mine", line("", "", "", true)),
        ("torchrun -m RL2.trainer.ppo rollout.env_path=envs/orz.py actor.model_name=a/b", line("", "", "", true)),
    ] {
        assert_eq!(read(script), expected, "{script}");
    }
    let taught = asked("python train.py --model gpt2 --teacher_model_name_or_path gpt2-xl").workload.training;
    assert_eq!((taught.objective.as_deref(), taught.teacher.as_deref()), (Some("distill"), Some("gpt-2-xl")));
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let read = |script: &str| crate::read(&format!("#!/bin/bash\n{script}\n"), Names::new(&hardware, &models));
    let step = read("srun --nodes 2 --gpus-per-node 4 bash -c ./elsewhere.sh").unwrap();
    assert_eq!((step.nodes, step.choices[0].gpus), (Some(2..=2), Some(crate::Gpus::PerMachine(4))));
    assert!(read("srun --nodes 2 hostname").is_err());
    assert_eq!(read("NPROC_PER_NODE=4 xtuner train mine.py").unwrap().launch.gpus_per_machine, Some(4));
}

#[test]
fn another_optimizer_may_be_taken_for_one_that_the_estimate_does_not_know() {
    let mut lion = asked("python a.py --model gpt2 --optimizer lion");
    let why = lion.why_not_planned(&lion.workload).unwrap();
    assert!(why.contains("no optimizer `lion`; `--set training.optimizer=adamw`"), "{why}");
    lion.workload.training.optimizer = Some("adamw".to_owned());
    assert_eq!(lion.why_not_planned(&lion.workload), None);
    let of = |words: &str| {
        let asked = asked(&format!("python a.py --model gpt2 {words}"));
        (asked.workload.training.optimizer, asked.unknown_optimizer)
    };
    assert_eq!(of("--optimizer adamw --optimizer lion"), (None, Some("lion".to_owned())), "the last word counts");
    assert_eq!(of("--optimizer lion --optimizer adamw"), (Some("adamw".to_owned()), None));
}

/// A limit, a public set or the trainer's own epochs say how much is trained, and each is named as assumed.
#[test]
fn rows_are_those_that_the_job_limits_or_names() {
    let rows = |flags: &str| {
        let asked = asked(&format!(
            "python run_glue.py --model_name_or_path roberta-large --per_device_train_batch_size 8 {flags}"
        ));
        let number = |value: Option<Scalar>| value.map(|value| value.to_string()).unwrap_or_default();
        (number(asked.workload.data.samples), number(asked.workload.training.epochs))
    };
    for (flags, expected) in [
        ("--task_name mnli --num_train_epochs 2", ("392702", "2")),
        ("--task_name mnli", ("392702", "3")),
        ("--dataset_name tatsu-lab/alpaca,gsm8k", ("59475", "3")),
        ("--dataset_name mine --max_train_samples 1000", ("1000", "3")),
        ("--dataset_name swift/self-cognition#500", ("500", "3")),
        ("--dataset_name mine", ("", "3")),
        ("--dataset_name tatsu-lab/alpaca,mine", ("", "3")),
        ("--dataset_name tatsu-lab/alpaca --max_steps 10", ("", "")),
        ("--dataset_name wikitext --block_size 512", ("", "3")),
        ("--dataset_name tatsu-lab/alpaca --packing true", ("", "3")),
    ] {
        assert_eq!(rows(flags), (expected.0.to_owned(), expected.1.to_owned()), "{flags}");
    }
}

#[test]
fn a_command_ends_where_the_shell_ends_it() {
    for end in ["| tee log", "> log 2>&1", "2>&1 | tee log", "&", "&& echo --fp16 done", "; done", "&>log"] {
        let asked = asked(&format!("python train.py --max_steps 5 --bf16 {end}"));
        assert_eq!(asked.workload.training.precision.as_deref(), Some("bf16"), "{end}");
        assert!(asked.unread.is_empty() && asked.no_effect.is_empty(), "{end}");
    }
    let two = asked("python a.py --seq_len 8 && python b.py --bf16; python c.py --max_steps=3");
    assert_eq!(keys(&two.understood), ["--seq_len", "--bf16", "--max_steps"]);
    let nested = asked("srun torchrun --nproc_per_node=$(nvidia-smi -L | wc -l) train.py --bf16");
    assert_eq!(keys(&nested.understood), ["--bf16"]);
    let script = asked("srun bash -c 'torchrun \\\n --nproc_per_node 8 train.py --bf16'");
    assert_eq!(keys(&script.understood), ["--bf16"]);
    assert_eq!(asked("python train.py --bf16 --run_name \"it").unread[0].key, "train.py");
}

#[test]
fn what_starts_no_program_is_no_command() {
    for script in
        ["cp a.py b.py --force", "echo --bf16", "module load cuda", "# python a.py --bf16", "python", "torchrun -m"]
    {
        let asked = asked(script);
        assert!(asked.understood.is_empty() && asked.unread.is_empty(), "{script}");
    }
    // A model that the catalog lacks is kept by its name, for the one who completes it.
    let strange = asked("python -m train --model nowhere/none --max_steps -1 --base_model /tmp/mine");
    assert_eq!((strange.model_name.as_deref(), keys(&strange.unread)), (Some("nowhere/none"), vec!["--base_model"]));
}

/// What the program is told may be nothing: its processes are machines all the same.
#[test]
fn a_launcher_alone_asks_for_machines() {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let read = |script: &str| crate::read(script, Names::new(&hardware, &models));
    let asked =
        read("#!/bin/bash\nset -x\ntorchrun \\\n --nproc-per-node 8 train.py \\\n $@ 2>&1 | tee log.txt\n").unwrap();
    assert_eq!(asked.launch.gpus_per_machine, Some(8));
    assert!(read("#!/bin/bash\nmake\n").is_err());
}

/// Words of MaxText, NeMo's launcher and RL2, as public scripts have them.
#[test]
fn settings_behind_an_equals_sign_are_read() {
    let maxtext = asked(
        "python3 MaxText/train.py MaxText/configs/base.yml run_name=${RUN}\\\n    steps=10 per_device_batch_size=2 base_emb_dim=8192 base_mlp_dim=16384\\\n    \
         base_num_heads=24 base_num_decoder_layers=36 head_dim=256 max_target_length=2048 dtype=bfloat16",
    );
    let (model, training) = (&maxtext.workload.model, &maxtext.workload.training);
    let number = |text: &str| Some(Scalar::from(text.to_owned()));
    assert_eq!((&model.layers, &model.hidden, &model.heads), (&number("36"), &number("8192"), &number("24")));
    assert_eq!(
        (&training.steps, &training.micro_batch, &training.sequence_length),
        (&number("10"), &number("2"), &number("2048"))
    );
    assert_eq!((training.task.as_deref(), training.precision.as_deref()), (Some("pretrain"), Some("bf16")));
    let named = asked(
        "python3 -m MaxText.train MaxText/configs/base.yml model_name=llama2-7b per_device_batch_size=2 steps=6675",
    );
    assert_eq!(named.workload.model.preset.as_deref(), Some("llama-2-7b"));

    let nemo = asked(
        "python3 launcher_scripts/main.py training=gpt3/20b stages=[training] training.trainer.num_nodes=2 \
         training.model.micro_batch_size=4 training.model.global_batch_size=64 training.model.num_layers=48",
    );
    let training = &nemo.workload.training;
    assert_eq!(
        (&training.micro_batch, &training.global_batch, nemo.launch.machines),
        (&number("4"), &number("64"), Some(2))
    );
    assert_eq!((nemo.workload.model.preset.as_deref(), training.task.as_deref()), (Some("gpt3/20b"), Some("pretrain")));

    let fabric = asked("lightning run model --accelerator=cuda --devices=8 --num-nodes=2 pretrain/tiny.py --devices 8");
    assert_eq!((fabric.launch.gpus_per_machine, fabric.launch.machines), (Some(8), Some(2)));

    let rl2 = asked(
        "torchrun --nproc_per_node=8 -m RL2.trainer.ppo actor.model_name=Qwen/Qwen3-1.7B actor.sp_size=2 adv.estimator=reinforce",
    );
    assert!(rl2.not_planned.is_some() && rl2.workload.model.preset.as_deref() == Some("qwen3-1.7b"));
}
