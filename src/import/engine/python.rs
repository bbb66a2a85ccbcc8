//! Python programs that start a job on a service: the arguments by which Modal, SageMaker, Vertex AI, Azure ML and Ray Train are told machines.
//! Only arguments that are written out are read; nothing is run.

use super::rented::{self, Machines};
use crate::{ImportError, JobKind, JobRequest, Names};

/// Packages by whose import such a program is known, with the cloud whose names it uses.
const PACKAGES: [(&str, Option<&str>); 6] = [
    ("modal", None),
    ("sagemaker", Some("aws")),
    ("google.cloud", Some("gcp")),
    ("vertexai", Some("gcp")),
    ("azure.ai.ml", Some("azure")),
    ("ray", None),
];

/// The cloud of a program's service. `None`: it is no program of one.
fn package(text: &str) -> Option<Option<&'static str>> {
    let imports = text.lines().map(str::trim_start).filter_map(|line| {
        line.strip_prefix("import ").or_else(|| line.strip_prefix("from ")).map(|rest| rest.split([' ', ',']).next())
    });
    let is_of = |module: &str, package: &str| {
        module.strip_prefix(package).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut named = imports.flatten().filter_map(|module| PACKAGES.iter().find(|(package, _)| is_of(module, package)));
    named.next().map(|(_, cloud)| *cloud)
}

pub fn is_program(text: &str) -> bool {
    package(text).is_some()
}

pub fn read(text: &str, names: Names) -> Result<JobRequest, ImportError> {
    let mut asked = JobRequest::new(JobKind::Script);
    let given = arguments(text);
    let value =
        |keys: &[&str]| given.iter().find(|(key, _)| keys.contains(&key.as_str())).map(|(_, value)| value.clone());
    let uses_gpu = value(&["use_gpu"]).is_some_and(|value| value == "True");
    let workers = value(&["num_workers"]).filter(|_| uses_gpu);
    let mut machines = Machines {
        machine: value(&["instance_type", "machine_type"]),
        // Of a list Modal takes the first that is free.
        card: value(&["gpu", "accelerator_type"]),
        cards: value(&["accelerator_count"]),
        machines: value(&["instance_count", "replica_count"]),
        cloud: package(text).flatten(),
        is_together: false,
    };
    // Ray Train has a GPU for each worker, wherever they are.
    if let (Some(workers), None, None) = (workers, &machines.machine, &machines.card) {
        (machines.cards, machines.is_together) = (Some(workers), true);
    }
    rented::ask(&[machines], &mut asked, names)?;
    if asked.choices.is_empty() { Err(ImportError::NoGpu) } else { Ok(asked) }
}

/// `NAME=LITERAL` of calls: texts without their quotes, of a list the first, numbers and names as they stand. A name that the program sets
/// to a literal before is that; other names and calls are left out.
fn arguments(text: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut set: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let line = line.split(" #").next().unwrap_or(line);
        let is_top = !line.starts_with([' ', '\t', ')']);
        let mut rest = line;
        while let Some(at) = rest.find('=') {
            let (before, behind) = (&rest[..at], rest[at + 1..].trim_start());
            rest = &rest[at + 1..];
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let name = before.trim_end().rsplit(|letter: char| !is_name(letter)).next().unwrap_or_default();
            if name.is_empty() || behind.starts_with('=') || before.ends_with(['=', '!', '<', '>']) {
                continue;
            }
            let behind = behind.trim_start_matches(['[', '(']);
            let literal = match behind.chars().next() {
                Some(quote @ ('"' | '\'')) => behind[1..].split(quote).next().map(str::to_owned),
                Some(first) if is_name(first) => {
                    let word = behind.split(|letter: char| !is_name(letter)).next().unwrap_or_default();
                    let is_plain = !behind[word.len()..].starts_with(['(', '.', '[']);
                    let known = set.iter().rev().find(|(name, _)| name == word).map(|(_, value)| value.clone());
                    let is_literal = word.starts_with(|first: char| first.is_ascii_digit()) || word == "True";
                    known.or_else(|| (is_plain && is_literal).then(|| word.to_owned()))
                }
                _ => None,
            };
            let Some(literal) = literal else { continue };
            let is_assignment = is_top && before.trim_end() == name;
            if is_assignment { &mut set } else { &mut all }.push((name.to_owned(), literal));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gpus;
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
        let sagemaker = "from sagemaker.pytorch import PyTorch\nestimator = PyTorch(\n    entry_point=\"train.py\",\n    instance_count=2,\n    instance_type=\"ml.p4d.24xlarge\",  # 8 A100\n)\n";
        assert_eq!(machines(sagemaker), each(8, "p4d.24xlarge", Some(2)));
        let vertex = "from google.cloud import aiplatform\njob.run(replica_count=1, machine_type='n1-standard-8', accelerator_type='NVIDIA_TESLA_T4', accelerator_count=2)\n";
        assert_eq!(machines(vertex), each(2, "NVIDIA_TESLA_T4", Some(1)));
        let ray = "from ray.train import ScalingConfig\nscaling = ScalingConfig(num_workers=8, use_gpu=True)\n";
        assert_eq!(machines(ray), Ok((Some(Gpus::Together(8)), String::new(), None)));
        assert_eq!(machines(&ray.replace("True", "False")), Err(ImportError::NoGpu));
        assert_eq!(machines(&modal.replace("\"A100-80GB:4\"", "pick_gpu()")), Err(ImportError::NoGpu));
        assert!(machines("import torch\ngpu = 4\n").is_err());
    }
}
