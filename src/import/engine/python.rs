//! Python programs that start a job on a service: the arguments by which Modal, SageMaker, Vertex AI, Azure ML, Ray Train, Beam, BentoML, SkyPilot,
//! Metaflow and Flyte are told machines.
//! Only arguments that are written out are read; nothing is run.

use super::rented::{self, Rented};
use crate::{Choice, Gpus, ImportError, JobKind, JobRequest, Names, command};
use calls::{Call, calls};

mod calls;
mod conditions;
mod lists;
pub mod training;

/// Packages by whose import such a program is known, with the cloud whose names it uses.
const PACKAGES: [Package; 15] = [
    ("modal", None),
    ("sagemaker", Some("aws")),
    ("google.cloud", Some("gcp")),
    ("vertexai", Some("gcp")),
    ("azure.ai.ml", Some("azure")),
    ("ray", None),
    ("boto3", Some("aws")),
    ("submitit", None),
    ("nemo_run", None),
    ("beam", None),
    ("bentoml", None),
    ("metaflow", None),
    ("flytekit", None),
    ("union", None),
    ("sky", None),
];
/// Arguments that count the cards of a machine: of Vertex AI, submitit and NeMo-Run, Azure ML.
const EACH: [&str; 4] = ["accelerator_count", "gpus_per_node", "slurm_gpus_per_node", "process_count_per_instance"];
/// What starts a function on a card that its argument `gpu` names: of Modal and of Beam.
const STARTS: [&str; 8] = ["function", "cls", "server", "endpoint", "task_queue", "asgi", "realtime", "Pod"];
/// What counts cards by its argument `gpu`.
const COUNTS: [&str; 4] = ["resources", "Resources", "kubernetes", "batch"];
/// Words in the names of functions that train.
const TRAINING: [&str; 4] = ["train", "tune", "sft", "fit"];

/// A package and the cloud whose names it uses.
type Package = (&'static str, Option<&'static str>);

/// The package of a service that a program imports. `None`: it is no program of one.
fn package(text: &str) -> Option<&'static Package> {
    // What a shell's here-document or a manifest holds is no program of its own.
    let is_other = text.starts_with("#!") && !text.lines().next().is_some_and(|line| line.contains("python"));
    let imports = text.lines().filter(|_| !is_other).filter_map(|line| {
        line.strip_prefix("import ").or_else(|| line.strip_prefix("from ")).map(|rest| rest.split([' ', ',']).next())
    });
    let is_of = |module: &str, package: &str| {
        module.strip_prefix(package).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut named = imports.flatten().filter_map(|module| PACKAGES.iter().find(|(package, _)| is_of(module, package)));
    named.next()
}

pub fn is_program(text: &str) -> bool {
    package(text).is_some() || training::is_program(text)
}

pub fn read(text: &str, names: Names) -> Result<JobRequest, ImportError> {
    let mut asked = JobRequest::new(JobKind::Script);
    if package(text).is_none() {
        training::read(text, &[], &mut asked, names);
        asked.take_machines_of_launcher();
        return Ok(asked);
    }
    let cloud = package(text).and_then(|(_, cloud)| *cloud);
    let all = calls(text);
    let mut jobs: Vec<(bool, Rented)> =
        all.iter().filter_map(|call| Some((trains(call), machines(call, cloud)?))).collect();
    // Functions of a program run one after another, each on its own machines: the one that trains is the program's work, or else the largest.
    let size =
        |one: &Rented| one.card.as_deref().and_then(|card| card.rsplit_once(':')?.1.parse::<u32>().ok()).unwrap_or(1);
    jobs.sort_by_key(|(trains, one)| std::cmp::Reverse((*trains, size(one))));
    let mut jobs = jobs.into_iter().map(|(_, one)| one);
    if let Some(mut first) = jobs.next() {
        // Azure's command says its machines in one call and its processes in another.
        let stated = all.iter().find_map(|call| value(call, &["instance_count"]));
        first.machines = first.machines.or(stated.filter(|_| cloud == Some("azure")));
        rented::ask(&[first], &mut asked, names)?;
    }
    for other in jobs.filter_map(|one| one.card) {
        asked.leave_unread("gpu", format!("{other} of another function"));
    }
    if cloud == Some("aws") {
        hyperparameters(&all, &mut asked, names);
    }
    let commands = lists::commands(text);
    if !commands.is_empty() {
        command::read(&commands.join("\n"), &[], &mut asked, names);
    }
    served_by_ray(&all, &mut asked, names);
    if asked.choices.is_empty() { Err(ImportError::NoGpu) } else { Ok(asked) }
}

/// What SageMaker hands to the program as its flags (`hyperparameters = {"per_device_train_batch_size": 4}`), and the model that Hugging Face's
/// containers are told by a variable.
fn hyperparameters(all: &[Call], asked: &mut JobRequest, names: Names) {
    let held = |name: &'static str| {
        all.iter().filter(move |call| call.is_dictionary && call.name == name).flat_map(|call| &call.arguments)
    };
    let mut words = vec!["python".to_owned(), "train.py".to_owned()];
    for (key, value) in held("hyperparameters") {
        words.extend([format!("--{key}"), value.clone()]);
    }
    let model = held("environment")
        .find(|(key, _)| key.eq_ignore_ascii_case("model_id") || key.eq_ignore_ascii_case("hf_model_id"));
    words.extend(model.into_iter().flat_map(|(_, value)| ["--model_id".to_owned(), value.clone()]));
    if words.len() > 2 {
        command::read_words(words, &[], asked, names);
    }
}

/// Ray Serve's `LLMConfig` starts vLLM (Ray docs, "Serving LLMs"): a model by its source, the degrees of the engine, and a card by its name.
fn served_by_ray(all: &[Call], asked: &mut JobRequest, names: Names) {
    if !all.iter().any(|call| call.name.rsplit('.').next() == Some("LLMConfig")) {
        return;
    }
    let first = |keys: &[&str]| all.iter().find_map(|call| value(call, keys));
    let Some(model) = first(&["model_source"]).or_else(|| first(&["model_id"])) else { return };
    let mut words = vec!["vllm".to_owned(), "serve".to_owned(), model];
    for key in ["tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"] {
        words.extend(first(&[key]).map(|degree| format!("--{}={degree}", key.replace('_', "-"))));
    }
    command::read_words(words, &[], asked, names);
    // The card that an accelerator's name means is one of each replica of the engine.
    let cards = asked.launch.gpus_per_machine.or(asked.launch.gpus).unwrap_or(1);
    match asked.choices.first_mut() {
        Some(choice) => choice.gpus = Some(Gpus::PerMachine(cards)),
        None => asked.choices.push(Choice { gpus: Some(Gpus::PerMachine(cards)), ..Choice::default() }),
    }
}

fn trains(call: &Call) -> bool {
    let name = call.function.as_deref().unwrap_or_default().to_ascii_lowercase();
    TRAINING.iter().any(|word| name.contains(word))
}

/// The first of these arguments that a call is given.
fn value(call: &Call, keys: &[&str]) -> Option<String> {
    let of = |(key, _): &&(String, String)| keys.contains(&key.as_str());
    call.arguments.iter().find(of).map(|(_, value)| value.clone())
}

/// What a call is told of machines. `None`: nothing.
fn machines(call: &Call, cloud: Option<&'static str>) -> Option<Rented> {
    let value = |keys: &[&str]| value(call, keys);
    // Images of Modal are built on a card of their own.
    let last = call.name.rsplit('.').next().unwrap_or_default();
    let starts = STARTS.contains(&last);
    // `@resources(gpu=2)` of Metaflow, `Resources(gpu="2")` of Flyte and `resources={"gpu": 2, "gpu_type": "nvidia-l4"}` of BentoML count cards.
    let counts = COUNTS.contains(&last);
    let counted_cards = value(&["gpu"]).filter(|count| counts && count.parse::<u32>().is_ok_and(|count| count > 0));
    let typed = value(&["gpu_type"]).filter(|_| counted_cards.is_some());
    let named = value(&["gpu"]).filter(|_| starts).or_else(|| value(&["accelerator_type", "accelerators"]));
    let card = named.or(typed);
    let uses_gpu = value(&["use_gpu"]).is_some_and(|value| value == "True");
    // Ray Train has a GPU for each worker, wherever they are.
    let workers = value(&["num_workers"]).filter(|_| uses_gpu);
    // A cluster of Azure is described where it is made.
    let describes = call.name.ends_with("AmlCompute") || call.name.ends_with("provisioning_configuration");
    let size = value(&["size", "vm_size"]).filter(|_| describes);
    let machine = value(&["instance_type", "machine_type"]).or(size);
    let is_together = workers.is_some() && machine.is_none() && card.is_none();
    let beside = value(&["gpu_count"]).filter(|_| starts);
    let cards = value(&EACH).or(workers.filter(|_| is_together)).or(counted_cards).or(beside);
    let counted = value(&["instance_count", "replica_count"]);
    let machines = counted.or_else(|| value(&["nodes", "slurm_nodes"]).filter(|_| cards.is_some()));
    let all = Rented { machine, card, cards, machines, cloud, is_together };
    (all.machine.is_some() || all.card.is_some() || all.cards.is_some()).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::Hardware;
    use gpuplan_workload::Models;

    fn machines(program: &str) -> Result<(Option<Gpus>, String, Option<u32>), ImportError> {
        let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
        let asked = crate::read(program, Names::new(&hardware, &models))?;
        let choice = asked.choices.first().cloned().unwrap_or_default();
        let card = choice.chips.map(|chips| chips.word).or(choice.instance_type).unwrap_or_default();
        Ok((choice.gpus, card, asked.nodes.map(|nodes| *nodes.end())))
    }

    #[test]
    fn arguments_that_are_written_out_say_machines() {
        let each = |gpus, card: &str, nodes| Ok((Some(Gpus::PerMachine(gpus)), card.to_owned(), nodes));
        let modal = "import modal\n\napp = modal.App(\"a\")\n\n@app.function(image=image, gpu=\"A100-80GB:4\", timeout=3600)\ndef train():\n    pass\n";
        assert_eq!(machines(modal), each(4, "A100-80GB", None));
        assert_eq!(machines(&modal.replace("\"A100-80GB:4\"", "[\"H100\", \"A100\"]")), each(1, "H100", None));
        let named = modal.replace("\"A100-80GB:4\"", "GPU").replace("\n\napp", "\nGPU = \"L40S:2\"\n\napp");
        assert_eq!(machines(&named), each(2, "L40S", None));
        let old = named.replace("\"L40S:2\"", "modal.gpu.A100(count=4, size=\"80GB\")");
        assert_eq!(machines(&old), each(4, "A100-80GB", None));
        let environment = named.replace("\"L40S:2\"", "os.environ.get(\"GPU\", \"L4\")");
        assert_eq!(machines(&environment), each(1, "L4", None));
        let several = format!(
            "import modal\nimage = modal.Image.debian_slim().run_function(load, gpu=\"H200:8\")\n{}",
            modal.replace("\n@app", "\n@app.function(gpu=\"T4\")\ndef a():\n    pass\n\n@app")
        );
        assert_eq!(machines(&several), each(4, "A100-80GB", None));
        let sagemaker = "from sagemaker.pytorch import PyTorch\nestimator = PyTorch(\n    entry_point=\"train.py\",\n    instance_count=2,\n    instance_type=\"ml.p4d.24xlarge\",  # 8 A100\n)\n";
        assert_eq!(machines(sagemaker), each(8, "p4d.24xlarge", Some(2)));
        let vertex = "from google.cloud import aiplatform\njob.run(replica_count=1, machine_type='n1-standard-8', accelerator_type='NVIDIA_TESLA_T4', accelerator_count=2)\n";
        assert_eq!(machines(vertex), each(2, "NVIDIA_TESLA_T4", Some(1)));
        let ray = "from ray.train import ScalingConfig\nscaling = ScalingConfig(num_workers=8, use_gpu=True)\n";
        assert_eq!(machines(ray), Ok((Some(Gpus::Together(8)), String::new(), None)));
        assert_eq!(machines(&ray.replace("True", "False")), Err(ImportError::NoGpu));
        assert_eq!(machines(&modal.replace("\"A100-80GB:4\"", "pick_gpu()")), Err(ImportError::NoGpu));
        assert_eq!(machines(&modal.replace("\"A100-80GB:4\"", "\"any\"")), each(1, "", None));
        let metaflow = "from metaflow import FlowSpec, step, resources\nclass A(FlowSpec):\n    @resources(gpu=2, memory=64000)\n    @step\n    def train(self):\n        pass\n";
        assert_eq!(machines(metaflow), each(2, "", None));
        assert_eq!(machines(&metaflow.replace("gpu=2", "gpu=0")), Err(ImportError::NoGpu));
        let flyte = "from flytekit import Resources, task\n@task(requests=Resources(cpu=\"4\", gpu=\"1\"))\ndef a():\n    pass\n";
        assert_eq!(machines(flyte), each(1, "", None));
        let bento = "import bentoml\n@bentoml.service(resources={\"gpu\": 2, \"gpu_type\": \"nvidia-l4\"})\nclass A:\n    pass\n";
        assert_eq!(machines(bento), each(2, "nvidia-l4", None));
        let beam = "from beam import endpoint\n@endpoint(cpu=2, gpu=\"A10G\", gpu_count=2)\ndef a():\n    pass\n";
        assert_eq!(machines(beam), each(2, "A10G", None));
        let llm = "from ray.serve.llm import LLMConfig\nllm = LLMConfig(\n    model_loading_config=dict(model_id=\"mine\", model_source=\"Qwen/Qwen2.5-7B-Instruct\"),\n    accelerator_type=\"A10G\",\n    engine_kwargs=dict(tensor_parallel_size=4),\n)\n";
        assert_eq!(machines(llm), each(4, "A10G", None));
        assert_eq!(machines(&llm.replace("    accelerator_type=\"A10G\",\n", "")), each(4, "", None));
        let sky = "import sky\ntask.set_resources(sky.Resources(accelerators=\"A100-80GB:8\"))\n";
        assert_eq!(machines(sky), each(8, "A100-80GB", None));
        assert!(machines("import torch\ngpu = 4\n").is_err());
        let counted = modal.replace("\"A100-80GB:4\"", "modal.gpu.A10G(count=N)").replace("\n\napp", "\nN = 2\n\napp");
        assert_eq!(machines(&counted), each(2, "A10G", None));
        assert_eq!(machines(&modal.replace("@app.function", "@app.server")), each(4, "A100-80GB", None));
    }

    /// Its first line, and lines of Python that stand in something else.
    #[test]
    fn a_program_is_known_by_its_own_imports() {
        let job = "import sagemaker\nPyTorch(instance_type=\"ml.p4d.24xlarge\", instance_count=1)\n";
        assert_eq!(
            machines(&format!("#!/usr/bin/env python3\n{job}")).map(|found| found.0),
            Ok(Some(Gpus::PerMachine(8)))
        );
        let pool = "workerPoolSpecs:\n- machineSpec: {machineType: a2-highgpu-1g}\n  containerSpec:\n    args:\n    - |\n      python - <<'EOF'\n      from google.cloud import storage\n      EOF\n";
        assert_eq!(machines(pool).map(|found| found.0), Ok(Some(Gpus::PerMachine(1))));
        let shell = "#!/bin/bash\nCUDA_VISIBLE_DEVICES=0,1 python train.py --lr 1\ncat > a.py <<EOF\nimport ray\nEOF\n";
        assert_eq!(machines(shell).map(|found| found.0), Ok(Some(Gpus::PerMachine(2))));
    }

    /// Each of these took time by the square of its length, or doubled its values with each line; one overflowed the stack.
    #[test]
    fn long_programs_are_read_letter_by_letter() {
        let shapes = [
            "a += [\n",
            "a += [",
            "f(",
            "{\"a\": ",
            "a=",
            "\"\"\"a\"\"\" ",
            "x = f\"{a}\"\n",
            "int(",
            "field(default=",
            "gpu.A(count=",
            "f(a",
            "a = f\"{a}{a}\"\n",
            "c += [\"a\"]\n",
            "é=(",
        ];
        for (shape, head) in shapes.iter().flat_map(|shape| {
            [(shape, "import modal\na = \"xy\"\nc = [\"vllm\"]\n"), (shape, "import trl\nTrainer(\n")]
        }) {
            let text = format!("{head}{}", shape.repeat(20_000 / shape.len()));
            assert!(
                machines(&text).map_or(true, |(gpus, ..)| gpus == Some(Gpus::PerMachine(1)) || gpus.is_none()),
                "{shape}"
            );
        }
    }

    /// Documentation, names with types, texts with names in them, defaults of the command line, dictionaries, functions that do not train.
    #[test]
    fn values_are_found_where_programs_keep_them() {
        let each = |gpus, card: &str, nodes| Ok((Some(Gpus::PerMachine(gpus)), card.to_owned(), nodes));
        let modal = |head: &str, gpu: &str| {
            format!("import modal\n{head}\n@app.function(gpu={gpu}, timeout=9)\ndef run():\n    pass\n")
        };
        let documented = modal("\"\"\"Runs on @app.function(gpu=\"H100:8\").\n\"\"\"", "\"L4\"");
        assert_eq!(machines(&documented), each(1, "L4", None));
        assert_eq!(machines(&modal("GPU: str = \"A10G\"", "GPU")), each(1, "A10G", None));
        assert_eq!(
            machines(&modal("GPU = \"H100\"\nN = int(os.environ.get(\"N\", \"4\"))", "f\"{GPU}:{N}\"")),
            each(4, "H100", None)
        );
        let open = machines(&modal("GPU = \"H100\"", "f\"{GPU}:{N}\""));
        assert_eq!(open, Ok((None, "H100".to_owned(), None)));
        let two = format!("{}@app.function(gpu=\"A100\")\ndef finetune():\n    pass\n", modal("", "\"T4:4\""));
        assert_eq!(machines(&two), each(1, "A100", None));
        let parser = "parser.add_argument(\"--instance-type\", type=str, default=\"ml.g5.12xlarge\")\n";
        let job =
            "import sagemaker\ndef main(args):\n    PyTorch(instance_type=args.instance_type, instance_count=1)\n";
        assert_eq!(machines(&format!("{job}{parser}")), each(4, "g5.12xlarge", Some(1)));
        let boto = "import boto3\nclient.create_training_job(ResourceConfig={\"InstanceType\": \"ml.p4d.24xlarge\", \"InstanceCount\": 2})\n";
        assert_eq!(machines(boto), each(8, "p4d.24xlarge", Some(2)));
        let pools = "from google.cloud import aiplatform\nspecs = [{\"machine_spec\": {\"machine_type\": \"n1-standard-8\", \"accelerator_type\": \"NVIDIA_TESLA_T4\", \"accelerator_count\": 2}, \"replica_count\": 3}]\n";
        assert_eq!(machines(pools), each(2, "NVIDIA_TESLA_T4", Some(3)));
        let flags = "import sagemaker\nhyperparameters = {\n    \"per_device_train_batch_size\": 4,\n    \"bf16\": True,\n    \"deepspeed\": {\"zero\": {\"stage\": 2}},\n}\nenvironment = {\"MODEL_ID\": \"Qwen/Qwen2.5-7B\"}\n\
            HuggingFace(instance_type=\"ml.p4d.24xlarge\", instance_count=1, hyperparameters=hyperparameters)\n";
        let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
        let told = crate::read(flags, Names::new(&hardware, &models)).unwrap();
        assert_eq!(told.workload.model.preset.as_deref(), Some("qwen2.5-7b"));
        assert_eq!(told.workload.training.micro_batch, Some("4".into()));
        let slurm = "import submitit\nexecutor.update_parameters(nodes=2, gpus_per_node=8, slurm_partition=\"x\")\n";
        assert_eq!(machines(slurm), each(8, "", Some(2)));
    }
}
