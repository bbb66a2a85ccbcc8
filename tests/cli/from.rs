//! `plan --from JOB`: what an existing job asks for, priced; with a workload, a baseline beside the plan; what is refused.

use std::fs;

use serde_json::Value;

use crate::cli::support::{Ran, gpuplan};

const SLURM: &str = "tests/fixtures/jobs/train.sbatch";

fn from(job: &str, more: &[&str]) -> Ran {
    gpuplan(&[&["plan", "--from", job], more].concat())
}

fn priced(job: &str, more: &[&str]) -> Value {
    let ran = from(job, &[&["--output", "json"], more].concat());
    assert_eq!(ran.code, 0, "{job}: {}", ran.stderr);
    ran.json()
}

fn keys(said: &Value) -> Vec<&str> {
    said.as_array().unwrap().iter().map(|one| one["key"].as_str().unwrap()).collect()
}

/// Nano-dollars of a decimal text.
fn nanos(value: &Value) -> i128 {
    let text = value.as_str().unwrap();
    let (sign, plain) = text.strip_prefix('-').map_or((1, text), |plain| (-1, plain));
    let (whole, part) = plain.split_once('.').unwrap_or((plain, ""));
    sign * format!("{whole}{part:0<9}").parse::<i128>().unwrap()
}

#[test]
fn a_slurm_script_is_priced_as_it_asks() {
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("job.sbatch");
    let directives = fs::read_to_string(SLURM).unwrap();
    let directives: Vec<&str> =
        directives.lines().take_while(|line| line.starts_with('#') || line.is_empty()).collect();
    fs::write(&job, directives.join("\n")).unwrap();
    let answer = priced(job.to_str().unwrap(), &[]);
    let job = &answer["job"];
    assert_eq!(
        (job["kind"].as_str(), job["name"].as_str(), job["hours"].as_f64()),
        (Some("slurm"), Some("llama-sft"), Some(48.0))
    );
    assert_eq!(keys(&job["not_understood"]), ["--bb"]);
    let offers = answer["offers"].as_array().unwrap();
    assert!(!offers.is_empty());
    for offer in offers {
        assert!(
            offer["gpu"].as_str().unwrap().starts_with("a100") && offer["gpus_per_node"] == 8 && offer["nodes"] == 2,
            "{offer}"
        );
        assert_eq!(offer["purchase"], "on-demand");
        assert_eq!(nanos(&offer["total_usd_per_hour"]), 2 * nanos(&offer["rate_usd_per_hour"]));
        assert_eq!(nanos(&offer["cost_usd"]), 48 * nanos(&offer["total_usd_per_hour"]));
    }
    let base = nanos(&offers[0]["total_usd_per_hour"]);
    for better in answer["better"].as_array().unwrap() {
        let is_faster = better["peak_ratio"].as_f64().is_some_and(|ratio| ratio >= 1.0);
        assert!(is_faster || nanos(&better["offer"]["total_usd_per_hour"]) < base, "{better}");
    }
}

#[test]
fn tasks_and_manifests_are_priced_where_they_ask_to_run() {
    let sky = priced("tests/fixtures/jobs/sky.yaml", &[]);
    assert_eq!(keys(&sky["job"]["not_understood"]), ["max_hourly_cost"]);
    assert!(
        sky["offers"].as_array().unwrap().iter().all(|offer| offer["cloud"] == "aws" && offer["region"] == "us-east-1")
    );
    assert!(sky["offers"][0]["cost_usd"].is_null(), "it says no time");
    let kubernetes = priced("tests/fixtures/jobs/job.yaml", &[]);
    assert_eq!(keys(&kubernetes["job"]["not_understood"]), ["team"]);
    let offers = kubernetes["offers"].as_array().unwrap();
    assert!(
        offers.iter().all(|offer| offer["cloud"] == "gcp" && offer["purchase"] == "spot" && offer["nodes"] == 4),
        "{offers:?}"
    );
}

#[test]
fn what_export_writes_reads_back_as_the_same_machines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("job");
    let file = path.to_string_lossy().into_owned();
    for (plan, nodes, gpus, gpu) in
        [("one-gpu", 1, 1, "l40s"), ("one-node", 1, 8, "h100-sxm5-80"), ("eight-nodes", 8, 8, "h100-sxm5-80")]
    {
        for target in ["slurm", "kubernetes", "jobset", "kueue", "skypilot"] {
            let written =
                gpuplan(&["export", &format!("tests/fixtures/plans/{plan}.json"), "--to", target, "--out", &file]);
            assert_eq!(written.code, 0, "{}", written.stderr);
            // A script of Slurm does not say which cards it counts.
            let answer = priced(&file, &["--gpus", gpu]);
            assert_eq!(keys(&answer["job"]["not_understood"]), Vec::<&str>::new(), "{target} {plan}");
            let offers = answer["offers"].as_array().unwrap();
            assert!(!offers.is_empty(), "{target} {plan}");
            let same =
                |offer: &&Value| offer["nodes"] == nodes && offer["gpus_per_node"] == gpus && offer["gpu"] == gpu;
            assert_eq!(offers.iter().filter(same).count(), offers.len(), "{target} {plan}: {offers:?}");
        }
    }
}

#[test]
fn a_workload_is_planned_beside_the_job() {
    let answer = priced("tests/fixtures/jobs/sky.yaml", &["examples/llama-3.1-8b-finetune.toml"]);
    let (was, best) = (&answer["from"]["baseline"], &answer["recommendation"]);
    assert_eq!(
        (was["instance_type"].as_str(), was["nodes"].as_u64(), was["purchase"].as_str()),
        (Some("p4de.24xlarge"), Some(1), Some("on-demand"))
    );
    assert_eq!(
        nanos(&answer["from"]["difference"]["cost_usd"]),
        nanos(&best["cost_usd"]["expected"]) - nanos(&was["cost_usd"]["expected"])
    );
    let hours = best["run_hours"]["expected"].as_f64().unwrap() - was["run_hours"]["expected"].as_f64().unwrap();
    assert!((answer["from"]["difference"]["hours"].as_f64().unwrap() - hours).abs() < 1e-9);
    // What the command of a job leaves open is said by flags.
    let flags = priced(SLURM, &["--task", "full-fine-tune", "--tokens", "500M"]);
    assert_eq!(
        (flags["workload"]["model"].as_str(), flags["from"]["baseline"]["nodes"].as_u64()),
        (Some("llama-3.1-8b"), Some(2))
    );
    let text = from(SLURM, &["--task", "full-fine-tune", "--tokens", "500M"]);
    assert!(
        text.stdout.contains("as asked") && text.stdout.contains("Difference: ") && text.stdout.contains("Rent "),
        "{}",
        text.stdout
    );
}

/// The plan of a job's own machines has the layout that the job states, and the recommended one its own.
#[test]
fn a_stated_layout_is_that_of_the_job_s_own_machines() {
    const JOB: &str = "tests/fixtures/jobs/layout.sbatch";
    let answer = priced(JOB, &[]);
    let layout = &answer["from"]["baseline"]["layout"];
    assert_eq!((layout["tensor"].as_u64(), layout["pipeline"].as_u64()), (Some(4), Some(2)), "{layout}");
    assert!(keys(&answer["from"]["job"]["understood"]).contains(&"--tensor_model_parallel_size"), "{}", answer["from"]);
    let said = from(JOB, &[]).stdout;
    assert!(said.contains("Layout: as asked keeps what the job states (TP4 PP2)"), "{said}");
    assert!(!said.contains("not taken over"), "{said}");
    // 32 heads are no multiple of 3.
    let text = fs::read_to_string(JOB).unwrap().replace("${TP:-4}", "3");
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("layout.sbatch");
    fs::write(&other, text).unwrap();
    let said = from(other.to_str().unwrap(), &[]).stdout;
    assert!(said.contains("Layout: as the job states it (TP3 PP2) it is not known to run there"), "{said}");
    assert!(said.split_whitespace().collect::<Vec<_>>().join(" ").contains("are not taken over"), "{said}");
}

#[test]
fn a_table_says_what_was_not_understood_and_what_a_workload_would_add() {
    let (workload, rows) = ("WORKLOAD.toml", "--set data.samples=");
    for (columns, job, flag) in
        [("80", "sky.yaml", workload), ("160", "job.yaml", workload), ("100", "train.sbatch", rows)]
    {
        let ran = crate::cli::support::gpuplan_at(
            crate::cli::support::NOW,
            columns,
            &["plan", "--from", &format!("tests/fixtures/jobs/{job}")],
        );
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let text = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        for words in ["asks for", "unread", "as asked", &flag.to_lowercase()] {
            assert!(text.contains(words), "{job}: {words}\n{}", ran.stdout);
        }
        let width = columns.parse::<usize>().unwrap();
        assert!(ran.stdout.lines().all(|line| line.chars().count() <= width), "{job}\n{}", ran.stdout);
    }
}

#[test]
fn what_cannot_be_read_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let job = |text: &str| -> Ran {
        let path = folder.path().join("job");
        fs::write(&path, text).unwrap();
        from(&path.to_string_lossy(), &[])
    };
    for (text, code, words) in [
        ("#SBATCH --nodes=2\n", 2, "--gpus h100:8"),
        ("apiVersion: v1\nkind: Widget\n", 2, "`kind: Widget` is not read"),
        ("base_model: my-own-model\nnum_epochs: 3\n", 2, "WORKLOAD.toml"),
        ("greeting: hello\n", 2, "not a job of Slurm"),
        ("resources: {accelerators: [\n", 2, "not valid YAML"),
        ("resources: {accelerators: 'H1000:8'}\n", 2, "H1000"),
        ("resources: {accelerators: 'H100:7'}\n", 3, "no place offers"),
        ("resources: {accelerators: 'H100:7'}\n", 3, "nearest, with more GPUs in a machine: 1 x "),
        ("resources: {accelerators: 'H100:8', memory: 9999+}\n", 3, "nearest, processors and memory aside: 1 x "),
        ("name: p\n---\nrun: a\n---\nrun: b\n", 2, "2 jobs"),
    ] {
        let ran = job(text);
        assert_eq!((ran.code, ran.stdout.as_str()), (code, ""), "{text}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{text}: {}", ran.stderr);
    }
}

/// A job that leaves something open has rows at once, and says under `assumed` what was taken.
#[test]
fn what_a_job_leaves_open_is_taken_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("job");
    // The document has a plan or, where no work is known, offers.
    for (text, key, words) in [
        ("#SBATCH --gres=gpu:8\n", "offers", "8 of any one kind of GPU"),
        ("#!/bin/bash\npython train.py --model_name_or_path $1\n", "offers", "1 GPU: the job counts none"),
        (
            "#!/bin/bash\npython -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen2-7B\n",
            "offers",
            "8 of any one",
        ),
        (
            "base_model: gpt2\nadapter:\nnum_epochs: 3\nsequence_len: 64\n",
            "recommendation",
            "1000 steps: how many rows its data set has",
        ),
        (
            "base_model: gpt2\nsequence_len: 64\nmicro_batch_size: 3\n",
            "recommendation",
            "1000 steps: how long it trains",
        ),
        (
            "base_model: my-own-7b\nsequence_len: 64\nmicro_batch_size: 3\nmax_steps: 9\n",
            "recommendation",
            "only the size is known",
        ),
        ("#!/bin/bash\nvllm serve Qwen/Qwen2.5-7B\n", "recommendation", "1 request a second of 1024 tokens"),
        (
            "#SBATCH --gres=gpu:h100:2\ntorchrun --nproc_per_node 2 full_finetune.py --model_path gpt2 --epochs 2 --dataset a/b --per_device_train_batch_size 3\n",
            "recommendation",
            "a global batch of 6, that of its 2 GPUs",
        ),
    ] {
        fs::write(&path, text).unwrap();
        let answer = priced(path.to_str().unwrap(), &[]);
        let said = ["/from/job/assumed", "/job/assumed", "/workload/assumed"]
            .map(|place| answer.pointer(place).map(ToString::to_string).unwrap_or_default())
            .concat();
        assert!(!answer[key].is_null() && said.contains(words), "{text}: {said}");
    }
    // A model that nothing trains may be evaluated: its machines alone are priced.
    fs::write(&path, "#SBATCH --gres=gpu:h100:1\npython evaluate.py --model_name_or_path gpt2\n").unwrap();
    assert!(priced(path.to_str().unwrap(), &[])["offers"].is_array());
}

/// Of a program that nobody knows the kind of work is not guessed: model and machines are shown, and what to type; with that it is planned.
#[test]
fn a_kind_of_work_that_no_word_says_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("job.sh");
    fs::write(&path, "#SBATCH --gres=gpu:h100:1\npython train.py --model_path gpt2 --epochs 2 --batch_size 3 --lr 1\n")
        .unwrap();
    let job = path.to_str().unwrap();
    let open = from(job, &[]);
    let text = open.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(open.code == 0 && text.contains("what kind of work `train.py` does with `gpt2`"), "{text}");
    for words in ["--task full-fine-tune", "unread kind of work", "h100"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let answer = priced(job, &[]);
    assert!(
        answer["offers"].is_array() && keys(&answer["job"]["not_understood"]).contains(&"kind of work"),
        "{answer}"
    );
    let stated = priced(job, &["--task", "lora"]);
    assert_eq!(stated["workload"]["task"], "lora");
    assert!(!keys(&stated["from"]["job"]["not_understood"]).contains(&"kind of work"), "{stated}");
    // Nothing that runs reads the name of its file: it is a suggestion.
    let named = folder.path().join("full_finetune.sh");
    fs::copy(&path, &named).unwrap();
    let text = from(named.to_str().unwrap(), &[]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("`full_finetune.sh` suggests `--task full-fine-tune`") && text.contains("h100"), "{text}");
}

#[test]
fn machines_that_a_job_leaves_to_its_starter_are_stated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("job.sh");
    let machines = |text: &str, more: &[&str]| {
        fs::write(&path, text).unwrap();
        let answer = priced(path.to_str().unwrap(), more);
        let unread = answer["job"]["not_understood"].to_string();
        (
            answer["offers"][0]["nodes"].as_u64().unwrap(),
            unread.contains("--nodes says"),
            answer["job"]["assumed"].to_string(),
        )
    };
    let open = "#SBATCH --gres=gpu:h100:8\ntorchrun --nproc_per_node 8 --nnodes $1 a.py\n";
    let (one, _, assumed) = machines(open, &[]);
    assert!(one == 1 && assumed.contains("--nodes N"), "{assumed}");
    let (four, differs, assumed) = machines(open, &["--nodes", "4"]);
    assert!(four == 4 && !differs && !assumed.contains("1 machine"), "{assumed}");
    let stated = "#SBATCH --nodes=2 --gres=gpu:h100:8\ntorchrun a.py\n";
    assert!(!machines(stated, &["--nodes", "2"]).1);
    let (three, differs, _) = machines(stated, &["--nodes", "3"]);
    assert!(three == 3 && differs, "the person knows better, and both are named");
    let alone = gpuplan(&["plan", "examples/llama-3.1-8b-lora.toml", "--nodes", "4"]);
    assert_eq!(alone.code, 2, "{}", alone.stderr);
}

/// Arrays, defaults, a condition and Slurm's own variables lead to a model by its sizes and to whole machines.
#[test]
fn a_script_with_its_variables_is_a_workload() {
    let answer = priced("tests/fixtures/jobs/megatron.sbatch", &["--gpus", "h100"]);
    let (workload, baseline) = (&answer["workload"], &answer["from"]["baseline"]);
    assert_eq!((baseline["nodes"].as_u64(), baseline["gpu"].as_str()), (Some(4), Some("h100-sxm5-80")), "{baseline}");
    assert_eq!(
        (workload["task"].as_str(), workload["precision"].as_str()),
        (Some("pretrain"), Some("fp8")),
        "{workload}"
    );
    let job = &answer["from"]["job"];
    let values: Vec<(&str, &str)> = job["understood"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["key"].as_str().unwrap(), one["value"].as_str().unwrap()))
        .collect();
    for known in
        [("--num_layers", "32"), ("--global_batch_size", "128"), ("--seq_length", "8192"), ("--train_iters", "1000")]
    {
        assert!(values.contains(&known), "{known:?} in {values:?}");
    }
    assert!(keys(&job["not_understood"]).is_empty(), "{job}");
}

/// A configuration of a training program is planned as it is, or under the script that names it.
#[test]
fn a_configuration_is_planned_alone_and_followed_from_a_script() {
    let titan = priced("tests/fixtures/jobs/titan.toml", &[]);
    assert_eq!(
        (titan["workload"]["model"].as_str(), titan["from"]["job"]["kind"].as_str()),
        (Some("llama-3-8b"), Some("recipe"))
    );
    assert!(titan["from"]["baseline"].is_null());
    let axolotl =
        priced("tests/fixtures/jobs/axolotl/train.slurm", &["--gpus", "a100-80gb", "--set", "data.samples=52000"]);
    assert_eq!(axolotl["workload"]["model"], "llama-3.2-1b", "{}", axolotl["workload"]);
    assert!(keys(&axolotl["from"]["job"]["understood"]).contains(&"train.yaml: micro_batch_size"));
    let script = priced("tests/fixtures/jobs/llamafactory/qwen3_lora_sft.sh", &["--set", "data.samples=1000"]);
    assert_eq!(
        (script["workload"]["model"].as_str(), script["workload"]["task"].as_str()),
        (Some("qwen3-4b"), Some("lora"))
    );
    let helm = from("tests/fixtures/jobs/helm.yaml", &[]);
    assert!(helm.code == 2 && helm.stderr.contains("`helm template"), "{}", helm.stderr);
}

/// Each of two processes splits its model over two of four cards: four GPUs, and a batch of two processes.
#[test]
fn cards_that_a_process_splits_its_model_over_are_counted() {
    let all = priced("tests/fixtures/jobs/swift", &["--summary"]);
    let of = |file: &str| all.as_array().unwrap().iter().find(|one| one["file"] == file).unwrap().clone();
    for (file, model, gpus, precision) in [
        ("dpo.sh", "yi-6b-chat", 4, None),
        ("sft.sh", "baichuan2-13b-chat", 4, Some("bf16")),
        ("megatron.sh", "Qwen2.5-7B-Instruct", 2, None),
    ] {
        let one = of(file);
        assert_eq!((one["model"].as_str(), one["gpus"].as_u64()), (Some(model), Some(gpus)), "{one}");
        assert_eq!(one["precision"].as_str(), precision, "{one}");
    }
    assert_eq!(
        (of("dpo.sh")["task"].as_str(), of("megatron.sh")["task"].as_str()),
        (Some("lora"), Some("full-fine-tune"))
    );
    let dpo = from("tests/fixtures/jobs/swift/dpo.sh", &[]).stdout;
    let text = dpo.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("a global batch of 16, that of its 4 GPUs"), "{text}");
}

/// A job whose cards nobody names is planned as work, with the rows of a public data set.
#[test]
fn work_is_planned_where_its_cards_are_not_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("job.sh");
    let job = "#!/bin/bash\n#SBATCH --gres=gpu:8\nD=$(dirname $(readlink -f $0))\n# python3 run.py \\\n\
        python3 -m torch.distributed.launch --nproc_per_node 8 $D/run_glue.py --model_name_or_path roberta-large --do_train \\\n\
        --task_name mnli --max_seq_length 128 --per_device_train_batch_size 16 --num_train_epochs 2 --fp16\n";
    fs::write(&path, job).unwrap();
    let answer = priced(&path.to_string_lossy(), &[]);
    let workload = &answer["workload"];
    assert_eq!(
        (workload["model"].as_str(), workload["task"].as_str()),
        (Some("roberta-large"), Some("full-fine-tune"))
    );
    assert!(answer["from"]["baseline"].is_null() && answer["recommendation"].is_object());
    let text = from(&path.to_string_lossy(), &[]);
    assert!(
        text.stdout.split_whitespace().collect::<Vec<_>>().join(" ").contains("392702 rows in glue mnli"),
        "{}",
        text.stdout
    );
}

/// A program of Python is planned by what it writes out, alone and beside the job that starts it; one that trains nothing is none.
#[test]
fn a_python_program_that_trains_is_planned() {
    let folder = tempfile::tempdir().unwrap();
    let (program, job) = (folder.path().join("train.py"), folder.path().join("job.sbatch"));
    let text = "import argparse\nfrom trl import SFTConfig, SFTTrainer\nfrom peft import LoraConfig\nparser = argparse.ArgumentParser()\n\
        parser.add_argument(\"--base\", default=\"Qwen/Qwen2.5-7B\")\nargs = parser.parse_args()\n\
        told = SFTConfig(max_length=1024, per_device_train_batch_size=2, max_steps=1000, bf16=True)\n\
        SFTTrainer(model=args.base, args=told, peft_config=LoraConfig(r=16)).train()\n";
    fs::write(&program, text).unwrap();
    fs::write(&job, "#SBATCH --gres=gpu:h100:1\npython train.py --base meta-llama/Llama-3.1-8B\n").unwrap();
    let alone = priced(program.to_str().unwrap(), &[]);
    let workload = &alone["workload"];
    assert_eq!((workload["model"].as_str(), workload["task"].as_str()), (Some("qwen2.5-7b"), Some("lora")));
    assert!(alone["recommendation"].is_object());
    let started = priced(job.to_str().unwrap(), &[]);
    assert_eq!(started["workload"]["model"], "llama-3.1-8b");
    assert_eq!(started["from"]["baseline"]["gpus_per_node"], 1, "{}", started["from"]["baseline"]);
    fs::write(folder.path().join("plot.py"), "import matplotlib\n").unwrap();
    let all = priced(folder.path().to_str().unwrap(), &["--summary"]);
    let files: Vec<&str> = all.as_array().unwrap().iter().map(|one| one["file"].as_str().unwrap()).collect();
    assert_eq!(files, ["job.sbatch", "train.py"]);
}

#[test]
fn docker_compose_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("compose.yaml");
    let file = "services:\n  proxy: {image: nginx}\n  train:\n    image: pytorch\n    environment: [MODEL=roberta-large]\n    \
        command: torchrun --nproc_per_node=4 run_glue.py --model_name_or_path ${MODEL:-gpt2} --task_name rte --per_device_train_batch_size 8\n    \
        deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 4, capabilities: [gpu]}]}}}\n";
    fs::write(&path, file).unwrap();
    let answer = priced(&path.to_string_lossy(), &["--gpus", "a100-80gb"]);
    let job = &answer["from"]["job"];
    assert_eq!((job["kind"].as_str(), job["name"].as_str()), (Some("compose"), Some("train")));
    assert_eq!(
        (answer["workload"]["model"].as_str(), answer["from"]["baseline"]["nodes"].as_u64()),
        (Some("roberta-large"), Some(1))
    );
    fs::write(&path, "services:\n  proxy: {image: nginx}\n").unwrap();
    assert!(from(&path.to_string_lossy(), &[]).stderr.contains("asks for no GPU"));
}

#[test]
fn a_folder_is_summed_up_by_kind() {
    let ran = from("tests/fixtures/jobs", &["--summary"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for words in ["kind", "slurm", "recipe", "Helm template"] {
        assert!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
    }
    let all = priced("tests/fixtures/jobs", &["--summary"]);
    let one = all.as_array().unwrap().iter().find(|one| one["file"] == "titan.toml").unwrap();
    assert_eq!((one["model"].as_str(), one["micro_batch"].as_str()), (Some("llama3-8B"), Some("2")));
}

/// A job names no file outside its own folder.
#[test]
fn a_job_opens_no_file_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("jobs")).unwrap();
    fs::write(folder.path().join("out.yaml"), "base_model: gpt2\nmicro_batch_size: 3\n").unwrap();
    let job = folder.path().join("jobs/job.sh");
    let absolute = folder.path().join("out.yaml");
    for name in ["../out.yaml", absolute.to_str().unwrap()] {
        fs::write(&job, format!("#!/bin/bash\naxolotl train {name}\n")).unwrap();
        let all = priced(folder.path().join("jobs").to_str().unwrap(), &["--summary"]);
        assert!(all[0]["micro_batch"].is_null() && all[0]["unread"][0] == name, "{all}");
    }
}
