//! Tests of `several.rs`, and of what no key of a program says for certain.

#![cfg(test)]

use super::tests::{asked, keys};
use crate::Names;
use gpuplan_hardware::Hardware;
use gpuplan_workload::Models;
use gpuplan_workload::file::Scalar;

fn number(text: &str) -> Scalar {
    Scalar::from(text.to_owned())
}

/// What prepares data, evaluates or converts says nothing of the training beside it.
#[test]
fn steps_beside_the_training_say_nothing_of_it() {
    let read = asked(
        "python prepare_data.py --model_name gpt2-xl --max_length 99\n\
         torchrun --nproc_per_node 8 train.py --model_name_or_path gpt2 --per_device_train_batch_size 4 --max_length 512\n\
         python eval.py --model_path ./out/Llama-3.1-8B --batch_size 64 --max_length 8\n\
         CUDA_VISIBLE_DEVICES=0 python merge_lora.py --base_model a/b-7b --lora_r 8",
    );
    let training = &read.workload.training;
    assert_eq!(read.workload.model.preset.as_deref(), Some("gpt-2"));
    assert_eq!((&training.micro_batch, &training.sequence_length), (&Some(number("4")), &Some(number("512"))));
    assert_eq!((read.launch.gpus_per_machine, training.lora.rank.is_none()), (Some(8), true));
    assert_eq!(keys(&read.unread), ["prepare_data.py", "eval.py", "merge_lora.py"]);
    // Alone they are what there is.
    let alone = asked("python eval.py --model_path ./out/Llama-3.1-8B --batch_size 64");
    assert_eq!(alone.workload.model.preset.as_deref(), Some("llama-3.1-8b"));
    let served =
        asked("vllm serve Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size 2 &\npython client.py --model gpt2 --n 3");
    assert_eq!(served.workload.model.preset.as_deref(), Some("qwen2.5-7b"));
    assert_eq!(served.workload.serving.engine.as_deref(), Some("vllm"));
}

/// Of two trainings nobody says which is meant.
#[test]
fn what_trainings_say_differently_is_unknown() {
    let line = "python train.py --model_name_or_path gpt2 --per_device_train_batch_size 4";
    let read = asked(&format!("{line} --num_train_epochs 3 --seed 1\n{line} --num_train_epochs 5 --seed 2\n"));
    let training = &read.workload.training;
    assert_eq!((&training.micro_batch, &training.epochs), (&Some(number("4")), &None));
    assert!(keys(&read.unread).contains(&"--num_train_epochs"), "{:?}", read.unread);
    let models =
        asked("python train.py --model_name_or_path gpt2 --lr 1\npython train.py --model_name_or_path a/b-7b --lr 1");
    assert_eq!(models.model_name, None);
    // A value that is not known is no other one.
    let open = asked(&format!("{line} --num_train_epochs $N\n{line} --num_train_epochs 5\n"));
    assert_eq!(open.workload.training.epochs, Some(number("5")));
}

#[test]
fn commands_side_by_side_have_their_cards_together() {
    let cards = |script: &str| asked(script).launch.gpus_per_machine;
    let two = "CUDA_VISIBLE_DEVICES=0 python train.py --lr 1 &\nCUDA_VISIBLE_DEVICES=1 python train.py --lr 1 &\nwait";
    assert_eq!(cards(two), Some(2));
    assert_eq!(cards("for i in 0 1 2 3; do\n  CUDA_VISIBLE_DEVICES=$i python train.py --lr 1 &\ndone\nwait"), Some(4));
    assert_eq!(cards("for i in 0 1; do CUDA_VISIBLE_DEVICES=$i python train.py --lr 1; done"), None);
    // One after another they have those of the largest.
    let larger = "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 train.py --lr 1\nCUDA_VISIBLE_DEVICES=0 python train.py --lr 1";
    assert_eq!(cards(larger), Some(2));
    let server = "CUDA_VISIBLE_DEVICES=0 trl vllm-serve --model gpt2 &\n\
        CUDA_VISIBLE_DEVICES=1,2,3 accelerate launch --num_processes 3 train_grpo.py --model_name_or_path gpt2";
    let read = asked(server);
    assert_eq!((read.launch.gpus_per_machine, read.workload.serving.is_empty()), (Some(4), true));
    assert!(read.not_planned.is_some());
}

/// A key that nobody knows may say that the work is another than it looks like.
#[test]
fn keys_that_speak_of_other_work_are_heard() {
    let is_other = |words: &str| {
        let read = asked(&format!("python {words}"));
        read.not_planned.is_some() || read.workload.training.objective.is_some()
    };
    for words in [
        "train.py --model gpt2 --teacher_ckpt a.pt",
        "train.py --model gpt2 --kd_weight 1.0",
        "train.py --model gpt2 --rollout_batch_size 8",
        "train.py --model gpt2 --reward_funcs format",
        "train.py --model gpt2 --loss_type contrastive",
        "train_distill.py --model gpt2 --lr 1",
        "train.py --model gpt2 --loss_type ntxent",
        "train.py --model gpt2 --mode pref",
        "train.py --model_name_or_path gpt2 --per_device_train_batch_size 1 --beta 0.1",
    ] {
        assert!(is_other(words), "{words}");
    }
    for words in [
        "train.py --model gpt2 --kd_weight 0.0",
        "train.py --model gpt2 --use_distill false",
        "train.py --model gpt2 --beta 0.1",
        "train.py --model gpt2 --teacher_outputs said.jsonl",
        "train.py --model deepseek-ai/DeepSeek-R1-Distill-Qwen-7B --lr 1",
        "train_distilbert.py --model gpt2 --lr 1",
    ] {
        assert!(!is_other(words), "{words}");
    }
}

/// What a variable holds only a run would tell: neither a default nor another kind of work is read out of it.
#[test]
fn a_variable_without_a_value_names_no_method() {
    let read = asked("llamafactory-cli train --model_name_or_path gpt2 --stage $STAGE --finetuning_type $TYPE");
    assert_eq!((read.not_planned, read.workload.training.task), (None, None));
    let read = asked("swift sft --model gpt2 --train_type $TYPE");
    assert_eq!((read.not_planned, read.workload.training.task), (None, None));
    let verl = |words: &str| {
        asked(&format!("python -m verl.trainer.main_ppo actor_rollout_ref.model.path=gpt2 {words}")).launch
    };
    assert_eq!((verl("").gpus_per_machine, verl("").machines), (Some(8), Some(1)));
    let open = verl("trainer.n_gpus_per_node=$N trainer.nnodes=$M");
    assert_eq!((open.gpus_per_machine, open.machines), (None, None));
}

#[test]
fn programs_are_told_their_cards_where_no_launcher_counts() {
    let launch = |words: &str| {
        let launch = asked(words).launch;
        launch.gpus_per_machine.or(launch.gpus)
    };
    for (words, cards) in [
        ("python train.py --gpus 4 --lr 1", Some(4)),
        ("python train.py --gpus 0,1 --lr 1", Some(2)),
        ("python train.py trainer.devices=[0,1,2]", Some(3)),
        ("python train.py --gpu 3 --lr 1", Some(1)),
        ("python train.py --gpus 0 --lr 1", None),
        ("python train.py --devices auto --lr 1", None),
        ("torchrun --nproc_per_node 8 train.py --gpus 1 --lr 1", Some(8)),
        ("accelerate launch --num_processes 4 train.py --num_gpus 1", Some(4)),
        ("mpiexec -n 8 python scripts/image_train.py --lr 1", Some(8)),
        ("mpirun -np 64 python solve.py --points 3", None),
        ("env CUDA_VISIBLE_DEVICES=0,1 python train.py --lr 1", Some(2)),
        ("export CUDA_VISIBLE_DEVICES=0,1,2,3\ntorchrun --nproc_per_node=$N train.py --lr 1", Some(4)),
        ("export CUDA_VISIBLE_DEVICES=0,1,2,3\ntorchrun --nproc_per_node=2 train.py --lr 1", Some(2)),
        (
            "IFS=, read -ra CARDS <<< \"$CUDA_VISIBLE_DEVICES\"\ntorchrun --nproc_per_node ${#CARDS[@]} train.py --lr 1",
            None,
        ),
    ] {
        assert_eq!(launch(words), cards, "{words}");
    }
}

/// What somebody has yet to fill in is no model.
#[test]
fn a_placeholder_is_no_model() {
    for name in ["__MODEL__", "<model>", "{model}", "YOUR_MODEL_PATH", "path/to/model", "???"] {
        assert_eq!(asked(&format!("vllm serve \"{name}\" --port 1")).model_name, None, "{name}");
    }
    let named = asked("python train.py --model_name_or_path path/to/Llama-2-7b --lr 1");
    assert_eq!(named.workload.model.preset.as_deref(), Some("llama-2-7b"));
}

/// Sections of one's own around a model, a batch, a rate and an amount.
#[test]
fn a_configuration_of_ones_own_needs_no_word_of_a_trainer() {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let read = |text: &str| crate::read(text, Names::new(&hardware, &models));
    let text = "model: {name: Qwen/Qwen2.5-7B}\ntraining: {batch_size: 2, learning_rate: 1e-4, epochs: 3, max_seq_length: 512}\neval: {batch_size: 64}\nlora: {r: 8}\n";
    let job = read(text).unwrap();
    let training = &job.workload.training;
    assert_eq!(job.workload.model.preset.as_deref(), Some("qwen2.5-7b"));
    assert_eq!((&training.micro_batch, &training.epochs), (&Some(number("2")), &Some(number("3"))));
    assert_eq!((training.task.as_deref(), keys(&job.unread)), (Some("lora"), vec!["eval.batch_size"]));
    assert!(read("model: {name: a}\ntraining: {batch_size: 2}\n").is_err());
    let flat =
        "base_model: Qwen/Qwen2.5-7B\nlora: {r: 8}\ntraining: {per_device_train_batch_size: 2, max_seq_length: 512}\n";
    let training = read(flat).unwrap().workload.training;
    assert_eq!((&training.micro_batch, training.task.as_deref()), (&Some(number("2")), Some("lora")));
    let student = text.replace("name: Qwen", "student: Qwen");
    assert_eq!(read(&student).unwrap().workload.model.preset.as_deref(), Some("qwen2.5-7b"));
    let top = read(&flat.replace("base_model", "model_name_or_path")).unwrap();
    assert_eq!(top.workload.training.micro_batch, Some(number("2")));
    let of_section = "model: {base_model_id: Qwen/Qwen2.5-7B}\ntraining: {per_device_train_batch_size: 2}\n";
    assert_eq!(read(of_section).unwrap().workload.model.preset.as_deref(), Some("qwen2.5-7b"));
    let tried = "base_model: Qwen/Qwen2.5-3B\nqlora: {r: 8, load_in_4bit: true}\ntraining: {epochs: 3, batch_size: 1, learning_rate: 1e-4}\nmicro_test: {epochs: 1}\n";
    let training = read(tried).unwrap().workload.training;
    assert_eq!((&training.epochs, training.task.as_deref()), (&Some(number("3")), Some("qlora")));
    // A model may be named elsewhere.
    let without = read("per_device_train_batch_size: 4\nnum_train_epochs: 5\nbf16: true\n").unwrap();
    assert_eq!((&without.workload.training.micro_batch, without.model_name), (&Some(number("4")), None));
}

/// A program that asks an engine serves nothing; an engine's image serves where no command stands.
#[test]
fn only_an_engine_serves() {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let read = |text: &str| crate::read(text, Names::new(&hardware, &models));
    let serves = |text: &str| read(text).is_ok_and(|job| job.workload.serving.engine.is_some());
    for (text, expected) in [
        ("python -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 2", true),
        ("sglang serve --model-path Qwen/Qwen3-8B --tp 2", true),
        ("python -m sglang.bench_serving --backend vllm --num-prompts 1", false),
        ("docker run nvcr.io/nvidia/vllm:25.11-py3 --model Qwen/Qwen3-8B", true),
        ("pip install git+https://example.org/a/vllm@main --model Qwen/Qwen3-8B", false),
        ("ls /opt/vllm --model Qwen/Qwen3-8B", false),
    ] {
        assert_eq!(serves(text), expected, "{text}");
    }
}

/// Where nothing trains, the name of what runs says so, and a loss for speech is none of a language model's.
#[test]
fn what_trains_nothing_or_something_else_says_so() {
    let not_planned = |words: &str| asked(words).not_planned.is_some();
    for (words, expected) in [
        ("python inference.py --base_model Qwen/Qwen3-8B --load_in_4bit true", true),
        ("python train.py --base_model Qwen/Qwen3-8B --load_in_4bit true", false),
        ("python finetune.py --base_model Qwen/Qwen3-8B --lr 1e-4\npython inference.py --base_model a", false),
        ("torchrun --nproc_per_node 2 train_asr.py --base_model Qwen/Qwen3-8B --lambda_ctc 0.2", true),
        ("torchrun --nproc_per_node 2 train_asr.py --base_model Qwen/Qwen3-8B --lambda_ctc 0", false),
    ] {
        assert_eq!(not_planned(words), expected, "{words}");
    }
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let script = "torchrun --standalone --nproc_per_node 2 train.py --lr 1";
    assert_eq!(crate::read(script, Names::new(&hardware, &models)).unwrap().launch.machines, Some(1));
    let bits = asked("python train.py --base_model Qwen/Qwen3-8B --lora_r 8 --use_4bit true --lr 1");
    assert_eq!(bits.workload.training.task.as_deref(), Some("qlora"));
}
