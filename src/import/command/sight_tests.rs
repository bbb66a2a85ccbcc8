//! Tests of what public job files of repositories that nobody had seen showed (`tests/fixtures/jobs/labels/strict.csv`).

#![cfg(test)]

use super::tests::asked;
use crate::{Gpus, JobRequest, Names};
use gpuplan_hardware::Hardware;
use gpuplan_workload::Models;
use gpuplan_workload::assumption::JobAssumption;
use gpuplan_workload::file::Scalar;

fn job(text: &str, path: &str) -> JobRequest {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    crate::read(text, Names { path, ..Names::new(&hardware, &models) })
        .unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn text(number: Option<&Scalar>) -> String {
    number.map(ToString::to_string).unwrap_or_default()
}

fn gpus(asked: &JobRequest) -> Option<u32> {
    asked.choices.first().and_then(|choice| choice.gpus).map(|gpus| match gpus {
        Gpus::PerMachine(count) | Gpus::Together(count) => count,
    })
}

fn card(asked: &JobRequest) -> String {
    let chips = asked.choices.first().and_then(|choice| choice.chips.clone());
    chips.map(|chips| chips.word).unwrap_or_default()
}

/// A method may stand anywhere in a key; one that generates nothing is not said to.
#[test]
fn a_method_of_preferences_is_heard_wherever_it_stands_in_a_key() {
    let why = |flags: &str| {
        let line = format!("accelerate launch train_with_lora.py --model_name_or_path gpt2 --lora_rank 8 {flags}");
        let asked = asked(&line);
        (asked.workload.training.objective.clone(), asked.not_planned.unwrap_or_default())
    };
    assert_eq!(why("--beta_dpo 5000").0.as_deref(), Some("dpo"));
    assert_eq!(why("--beta_mapo=0.05").1, "the estimate knows no training by `mapo`");
    assert_eq!(why("--npo_beta 0.05").1, "the estimate knows no training by `npo`");
    assert_eq!((why("--npo_beta 0").1, why("--orthogonal true").1), (String::new(), String::new()));
    let prm = asked("accelerate launch run_prm_train.py --model_name_or_path gpt2 --per_device_train_batch_size 1");
    assert_eq!(prm.not_planned.as_deref(), Some("the estimate knows no training by `prm`"));
    let stage = asked("torchrun train.py --model_name gpt2 --stage sft --lora_r 8 --max_completion_length 3072");
    assert_eq!(stage.not_planned, None, "the words of its other stages are no work of this one");
    let module = asked("deepspeed --num_gpus 4 -m grpo_trainer.cli train -c a.yaml");
    assert!(module.not_planned.is_some_and(|why| why.contains("generates answers")));
    let word = asked("torchrun --nproc_per_node=8 --module reler.cli grpo \"$@\"");
    assert!(word.not_planned.is_some_and(|why| why.contains("generates answers")));
}

/// Of GPUs that share a model not each has a batch of its own.
#[test]
fn degrees_that_split_a_model_leave_the_batch_of_all_open() {
    let models = Models::embedded().unwrap();
    let global = |flags: &str| {
        let words = "--model_name_or_path gpt2 --num_train_epochs 2 --per_device_train_batch_size 2";
        let asked = job(&format!("#!/bin/bash\ntorchrun --nproc_per_node=4 finetune.py {words} {flags}\n"), "a.sh");
        let mut file = asked.workload.clone();
        crate::open::complete(&mut file, &asked, &models);
        text(file.training.global_batch.as_ref())
    };
    assert_eq!((global(""), global("--tp 1"), global("--http 2")), ("8".to_owned(), "8".to_owned(), "8".to_owned()));
    for split in ["--tp 2", "--pp_size 2", "--model_parallel_size 2", "--tp $TP", "--ulysses_parallel_size 2"] {
        assert_eq!(global(split), "", "{split}");
    }
}

#[test]
fn replicas_of_a_server_are_gpus_too() {
    let count = |flags: &str| asked(&format!("python -m sglang.launch_server --model-path gpt2 {flags}")).launch.gpus;
    assert_eq!((count("--dp 2"), count("--tp 2 --dp 2"), count("")), (Some(2), Some(4), None));
    assert_eq!((count("--tp $TP --dp 2"), count("--tp 8 --dp 8 --enable-dp-attention")), (None, Some(8)));
    let own = asked("$VLLM_IMAGE --model gpt2 --tensor-parallel-size 2 --max-model-len 8192");
    assert_eq!((own.workload.serving.engine.as_deref(), own.launch.gpus), (Some("vllm"), Some(2)));
}

/// A manifest that holds a program of Python, as Kubeflow's client writes it, is a manifest; its program is read.
#[test]
fn a_manifest_with_a_program_in_it_asks_for_its_machines() {
    let program = "from trl import SFTConfig, SFTTrainer\n              def main(parameters):\n                  trainer = SFTTrainer(model='gpt2', args=SFTConfig(per_device_train_batch_size=32, max_length=1024))\n              main({'lora_r': 16})";
    let pods = format!(
        "replicas: 1\n      template:\n        spec:\n          containers:\n          - command: [bash, -c]\n            args:\n            - |-\n              path=$(mktemp -d)\n              read -r -d '' SCRIPT << EOM\n\n              {program}\n\n              EOM\n              printf \"%s\" \"$SCRIPT\" > \"$path/ephemeral_script.py\"\n              torchrun \"$path/ephemeral_script.py\"\n            image: training\n            name: pytorch\n            resources: {{limits: {{nvidia.com/gpu: 1}}}}\n"
    );
    let manifest = format!(
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: sft}}\nspec:\n  pytorchReplicaSpecs:\n    Master: &one\n      {pods}    Worker: *one\n"
    );
    let asked = job(&manifest, "pytorchjob.yaml");
    assert_eq!((gpus(&asked), asked.nodes.clone()), (Some(1), Some(2..=2)));
    assert_eq!(text(asked.workload.training.micro_batch.as_ref()), "32");
}

/// Of a head without GPUs and workers with them the workers are the job.
#[test]
fn of_two_deployments_the_one_with_gpus_is_the_job() {
    let one = |name: &str, replicas: u32, limits: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: {replicas}\n  template:\n    spec:\n      nodeSelector: {{gpu: v100}}\n      containers: [{{name: a, resources: {{limits: {{{limits}}}}}}}]\n---\n"
        )
    };
    let (head, worker) = (one("head", 1, "memory: 1Gi"), one("worker", 2, "nvidia.com/gpu: 1"));
    let asked = job(&format!("{head}{worker}"), "ray.yaml");
    assert_eq!((gpus(&asked), asked.nodes.clone(), card(&asked)), (Some(1), Some(2..=2), "v100".to_owned()));
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    assert!(crate::read(&format!("{worker}{worker}"), Names::new(&hardware, &models)).is_err());
}

/// Configurations of programs that had none of their own tables, and sections in sections.
#[test]
fn further_configurations_are_read() {
    let pipe = "epochs = 1000\nmicro_batch_size_per_gpu = 1\ngradient_accumulation_steps = 4\npipeline_stages = 2\n[model]\ntype = \"flux\"\ndiffusers_path = \"/models/FLUX.1-dev\"\ndtype = \"bfloat16\"\n[adapter]\ntype = \"lora\"\nrank = 32\n";
    let read = job(pipe, "train.toml").workload.training;
    assert_eq!(
        (read.task.as_deref(), text(read.micro_batch.as_ref()), text(read.lora.rank.as_ref())),
        (Some("lora"), "1".into(), "32".into())
    );
    let mlx = "model: Qwen/Qwen2.5-1.5B-Instruct\nfine_tune_type: lora\nnum_layers: 16\nmax_seq_length: 512\nbatch_size: 4\niters: 400\n";
    let asked = job(mlx, "lora.yaml");
    let read = &asked.workload.training;
    assert_eq!(
        (text(read.steps.as_ref()), text(read.micro_batch.as_ref()), &asked.workload.model.layers),
        ("400".into(), "4".into(), &None)
    );
    let deepspeed = job("{\"train_batch_size\": 400, \"optimizer\": {\"type\": \"Adam\"}}", "ds_config.json");
    assert_eq!(text(deepspeed.workload.training.global_batch.as_ref()), "400");
    let nested = "model:\n  model_name: tiiuae/falcon-7b\n  quant_config: {load_in_4bit: true}\npeft:\n  type: lora\n  peft_config: {r: 2}\ntrain:\n  train_config: {per_device_train_batch_size: 1, num_train_epochs: 5}\nteacher:\n  config: {learning_rate: 3}\n";
    let read = job(nested, "a.yaml").workload.training;
    assert_eq!(
        (read.task.as_deref(), text(read.micro_batch.as_ref()), text(read.lora.rank.as_ref())),
        (Some("qlora"), "1".into(), "2".into())
    );
    let determined = "name: a\nresources: {slots_per_trial: 4}\nentrypoint: python -m determined.launch.deepspeed python sft.py\nhyperparameters:\n  model: gpt2\n  max_seq_length: 512\n  training_args: {per_device_train_batch_size: 1, max_steps: 9, bf16: true}\n";
    let read = job(determined, "a.yaml");
    assert_eq!((text(read.workload.training.steps.as_ref()), gpus(&read)), ("9".into(), Some(4)));
    let start = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config: {gradient_accumulation_steps: 1}\n";
    assert_eq!(job(start, "sft.yaml").workload.training.task, None, "a file of how to start is no work");
    let alone = job("batch_size: 8\nmax_epochs: 9\ngpus: 2\nprecision: 16-mixed\nlr: 0.1\n", "a.yaml");
    assert_eq!(gpus(&alone), Some(2));
}

#[test]
fn queues_and_pools_are_named_by_what_they_have() {
    let slurm = |partition: &str| {
        card(&job(
            &format!("#!/bin/bash\n#SBATCH --partition={partition}\n#SBATCH --gres=gpu:2\npython train.py\n"),
            "a.sh",
        ))
    };
    assert_eq!(
        (slurm("gpuA40x4"), slurm("gpu4_short"), slurm("gpux4")),
        ("gpuA40x4".into(), String::new(), String::new())
    );
    let line = "#!/bin/bash\nFLAGS=(--partition=\"gpuA40x4\" --gpus-per-node=\"2\")\nARGS=(train/pretrain.py --epochs \"3\")\nJOB=\"torchrun --nproc-per-node=2 $(printf '%q ' \"${ARGS[@]}\")\"\nsbatch \"${FLAGS[@]}\" --wrap=\"$JOB\"\n";
    let wrapped = job(line, "a.sh");
    assert_eq!((text(wrapped.workload.training.epochs.as_ref()), gpus(&wrapped)), ("3".to_owned(), Some(2)));
    let pool = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec:\n  template:\n    spec:\n      nodeSelector: {cloud.google.com/gke-nodepool: g2-standard-96}\n      containers: [{name: a, resources: {limits: {nvidia.com/gpu: 8}}}]\n";
    assert_eq!(job(pool, "a.yaml").choices[0].instance_type.as_deref(), Some("g2-standard-96"));
    let far = asked("ssh node1 \"conda activate a; nohup python3 -m sglang.launch_server --model-path gpt2 --tp 2\"")
        .launch
        .gpus;
    assert_eq!(far, Some(2));
}

/// What a program of one's own calls its work, its batch and its sizes.
#[test]
fn words_of_programs_of_ones_own_are_heard() {
    let preferred = asked("python train.py --model_name_or_path gpt2 --lora_rank 8 --train_type dpo_loss");
    assert_eq!(preferred.workload.training.objective.as_deref(), Some("dpo"));
    let whole = asked("torchrun --nproc-per-node 2 train.py --model_name_or_path gpt2 --batch_size 64 --micro_batch 4")
        .workload;
    assert_eq!(text(whole.training.global_batch.as_ref()), "64");
    let sizes =
        "--model_name my_run --n_layers 8 --n_embed 512 --n_heads 8 --block_size 256 --vocab_size 5000 --batch_size 32";
    let described = asked(&format!("python train.py {sizes}")).workload.model;
    assert_eq!(
        (text(described.layers.as_ref()), text(described.hidden.as_ref()), described.preset),
        ("8".into(), "512".into(), None)
    );
}

/// A launcher behind a variable, Ray's own start, servers that nobody knows and one that is told what only vLLM is told.
#[test]
fn launchers_and_servers_of_ones_own_are_known_by_their_words() {
    let unknown = "if [ -x bin/accelerate ]; then ACCELERATE=bin/accelerate; fi\n";
    let launched =
        asked(&format!("{unknown}\"${{ACCELERATE:-accelerate}}\" launch --num_processes 2 train_sft.py --lr 1"));
    assert_eq!((launched.launch.gpus, launched.trains), (Some(2), true));
    let ray = asked("ray start --head --num-gpus=8\npython -m openrlhf.cli.train_ppo_ray --pretrain gpt2");
    assert_eq!(ray.launch.gpus_per_machine, Some(8));
    for line in [
        "transformers-cli serve --task text-generation --model openai-community/gpt2 --batch-size 512",
        "python -m megaquant.cli serve --model openai-community/gpt2",
        "lmdeploy serve api_server --model openai-community/gpt2",
    ] {
        let served = asked(line);
        assert_eq!(served.not_planned.as_deref(), Some(super::OTHER_ENGINE), "{line}");
        assert_eq!(
            (served.model_name.as_deref(), served.workload.training.micro_batch),
            (Some("openai-community/gpt2"), None)
        );
    }
    let own =
        asked("\"$PYTHON\" -m own.serve_compat --model gpt2 --tensor_parallel_size 2 --gpu_memory_utilization 0.9");
    assert_eq!((own.workload.serving.engine.as_deref(), own.launch.gpus), (Some("vllm"), Some(2)));
    let offline = asked("python generate.py --model gpt2 --gpu_memory_utilization 0.9");
    assert!(offline.workload.serving.is_empty());
}

/// Not said, rather than what a word may mean elsewhere.
#[test]
fn words_that_may_be_anything_say_nothing() {
    let supervised = job("#!/bin/bash\npython run_prime_rl_sft.py --config a.toml --ckpt\n", "a.sh");
    assert_eq!((supervised.not_planned, supervised.workload.training.objective), (None, None));
    assert_eq!(asked("python pretrain.py arch=trm epochs=9").model_name, None, "a class of its own");
    assert_eq!(asked("python pretrain.py arch=gpt2 epochs=9").model_name.as_deref(), Some("gpt2"));
    let trainer = "++train_config.model_name=asr ++train_config.num_epochs=5 ++train_config.use_peft=true";
    let speech =
        asked(&format!("deepspeed finetune.py ++model_config.llm_path=gpt2 {trainer} ++train_config.freeze_llm=true"));
    let training = &speech.workload.training;
    assert_eq!((speech.model_name.as_deref(), training.task.as_deref()), (Some("gpt2"), Some("lora")));
    assert_eq!(text(training.epochs.as_ref()), "5");
    assert!(speech.not_planned.is_some(), "a part of the model is trained");
    let folder = asked("torchrun sft.py --model_name=\"${SLURM_SUBMIT_DIR}/ckpts/Qwen3-8B\" --num_train_epochs 1");
    assert_eq!(folder.model_name.as_deref(), Some("Qwen3-8B"));
    assert_eq!(asked("torchrun sft.py --model_name \"{model}\" --num_train_epochs 1").model_name, None);
}

#[test]
fn a_service_with_a_profile_waits_for_somebody_to_ask() {
    let service = |name: &str, model: &str, more: &str| {
        format!(
            "  {name}:\n    image: vllm/vllm-openai\n    runtime: nvidia\n    command: --model {model} --tensor-parallel-size 1\n{more}"
        )
    };
    let two = |more: &str| format!("services:\n{}{}", service("a", "gpt2", ""), service("b", "gpt2-xl", more));
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let read = |text: &str| crate::read(text, Names::new(&hardware, &models));
    assert_eq!(read(&two("    profiles: [large]\n")).unwrap().model_name.as_deref(), Some("gpt2"));
    assert!(read(&two("")).is_err(), "which of the two nobody says");
}

/// The degrees of a training stand where everybody looks, and those of a server are taken over.
#[test]
fn degrees_of_a_training_are_said_to_be_left_to_the_plan() {
    let degrees = |line: &str| {
        let asked = job(&format!("#!/bin/bash\n{line}\n"), "a.sh");
        asked.assumed.into_iter().find_map(|one| match one {
            JobAssumption::LayoutOfPlan { degrees } => Some(degrees),
            _ => None,
        })
    };
    let megatron = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --micro-batch-size 1 --seq-length 512";
    assert_eq!(
        degrees(&format!(
            "{megatron} --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --context-parallel-size 1"
        )),
        Some("tensor_model_parallel_size 2, pipeline_model_parallel_size 4".to_owned())
    );
    assert_eq!(degrees(&format!("{megatron} --tensor-model-parallel-size 1")), None);
    assert_eq!(degrees("vllm serve gpt2 --tensor-parallel-size 2"), None);
}

/// A program of reinforcement learning counts its steps together, and a configuration that is not there may say how long it trains.
#[test]
fn how_long_it_trains_is_what_is_said_of_it() {
    let amount = |line: &str| {
        let training = job(&format!("#!/bin/bash\n{line}\n"), "a.sh").workload.training;
        (training.steps.map(|steps| steps.to_string()), training.epochs.map(|epochs| epochs.to_string()))
    };
    let steps = |steps: &str| (Some(steps.to_owned()), None);
    assert_eq!(amount("python grpo_fsdp.py --num_steps 160 --total_episodes 100000"), (None, None));
    assert_eq!(amount("python train.py --num_steps 160 --lr 1"), steps("160"));
    let epochs = |epochs: &str| (None, Some(epochs.to_owned()));
    assert_eq!(amount("torchrun train_grpo.py --trainer.total_epochs 3"), epochs("3"));
    // Three epochs are the default of transformers' and TRL's own parsers: another program that has their words may have another.
    let sft = "accelerate launch run_clm.py --model_name_or_path Qwen/Qwen2.5-0.5B --per_device_train_batch_size 32 --learning_rate 1e-5";
    assert_eq!(amount(sft), epochs("3"));
    assert_eq!(amount(&sft.replace("accelerate launch run_clm.py", "trl sft")), epochs("3"));
    assert_eq!(amount(&sft.replace("run_clm.py", "sft.py")), (None, None));
    assert_eq!(amount(&format!("{sft} --config configs/sft.yaml")), (None, None));
    assert_eq!(amount(&format!("{sft} --deepspeed zero3.json")), epochs("3"), "DeepSpeed's says nothing of it");
}
