//! Python programs that start a job on a service: the arguments by which Modal, SageMaker, Vertex AI, Azure ML and Ray Train are told machines.
//! Only arguments that are written out are read; nothing is run.

use super::rented::{self, Rented};
use crate::{ImportError, JobKind, JobRequest, Names};

/// Packages by whose import such a program is known, with the cloud whose names it uses.
const PACKAGES: [Package; 6] = [
    ("modal", None),
    ("sagemaker", Some("aws")),
    ("google.cloud", Some("gcp")),
    ("vertexai", Some("gcp")),
    ("azure.ai.ml", Some("azure")),
    ("ray", None),
];

/// A package and the cloud whose names it uses.
type Package = (&'static str, Option<&'static str>);

/// The package of a service that a program imports. `None`: it is no program of one.
fn package(text: &str) -> Option<&'static Package> {
    let imports = text.lines().map(str::trim_start).filter_map(|line| {
        line.strip_prefix("import ").or_else(|| line.strip_prefix("from ")).map(|rest| rest.split([' ', ',']).next())
    });
    let is_of = |module: &str, package: &str| {
        module.strip_prefix(package).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut named = imports.flatten().filter_map(|module| PACKAGES.iter().find(|(package, _)| is_of(module, package)));
    named.next()
}

pub fn is_program(text: &str) -> bool {
    package(text).is_some()
}

pub fn read(text: &str, names: Names) -> Result<JobRequest, ImportError> {
    let mut asked = JobRequest::new(JobKind::Script);
    let cloud = package(text).and_then(|(_, cloud)| *cloud);
    let mut jobs: Vec<Rented> = calls(text).into_iter().filter_map(|call| machines(&call, cloud)).collect();
    // Functions of a program run one after another, each on its own machines; the largest is what the program needs.
    let size =
        |one: &Rented| one.card.as_deref().and_then(|card| card.rsplit_once(':')?.1.parse::<u32>().ok()).unwrap_or(1);
    jobs.sort_by_key(|one| std::cmp::Reverse(size(one)));
    let mut jobs = jobs.into_iter();
    if let Some(first) = jobs.next() {
        rented::ask(&[first], &mut asked, names)?;
    }
    for other in jobs.filter_map(|one| one.card) {
        asked.leave_unread("gpu", format!("{other} of another function"));
    }
    if asked.choices.is_empty() { Err(ImportError::NoGpu) } else { Ok(asked) }
}

/// What a call is told of machines. `None`: nothing.
fn machines(call: &Call, cloud: Option<&'static str>) -> Option<Rented> {
    let value = |keys: &[&str]| {
        let of = |(key, _): &&(String, String)| keys.contains(&key.as_str());
        call.arguments.iter().find(of).map(|(_, value)| value.clone())
    };
    // Images of Modal are built on a card of their own.
    let starts = matches!(call.name.rsplit('.').next(), Some("function" | "cls"));
    let card = value(&["gpu"]).filter(|_| starts).or_else(|| value(&["accelerator_type"]));
    let uses_gpu = value(&["use_gpu"]).is_some_and(|value| value == "True");
    // Ray Train has a GPU for each worker, wherever they are.
    let workers = value(&["num_workers"]).filter(|_| uses_gpu);
    let machine = value(&["instance_type", "machine_type"]);
    let is_together = workers.is_some() && machine.is_none() && card.is_none();
    let cards = value(&["accelerator_count"]).or(workers.filter(|_| is_together));
    let all =
        Rented { machine, card, cards, machines: value(&["instance_count", "replica_count"]), cloud, is_together };
    (all.machine.is_some() || all.card.is_some() || all.cards.is_some()).then_some(all)
}

/// A call and what it is told by name.
#[derive(Default)]
struct Call {
    name: String,
    arguments: Vec<(String, String)>,
}

/// Calls of a program with the arguments that are written out. A name that the program sets to a literal before is that literal.
fn calls(text: &str) -> Vec<Call> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.';
    let (mut open, mut all): (Vec<Call>, Vec<Call>) = (Vec::new(), Vec::new());
    let mut set: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let line = line.split(" #").next().unwrap_or(line);
        let mut quote = None;
        for (at, letter) in line.char_indices() {
            let before = &line[..at];
            let name = || before.trim_end().rsplit(|letter| !is_name(letter)).next().unwrap_or_default().to_owned();
            match (letter, quote) {
                (end, Some(begin)) if end == begin => quote = None,
                (_, Some(_)) => {}
                ('"' | '\'', None) => quote = Some(letter),
                ('#', None) => break,
                ('(' | '[' | '{', None) => open.push(Call { name: name(), ..Call::default() }),
                (')' | ']' | '}', None) => all.extend(open.pop()),
                ('=', None) if !before.ends_with(['=', '!', '<', '>']) && !line[at + 1..].starts_with('=') => {
                    let Some(value) = literal(line[at + 1..].trim_start(), &set) else { continue };
                    match open.last_mut() {
                        Some(call) => call.arguments.push((name(), value)),
                        None => set.push((name(), value)),
                    }
                }
                _ => {}
            }
        }
    }
    all.extend(open);
    all
}

/// A text without its quotes, of a list the first, a number, a name that was set before; the default of a variable of the environment, and
/// `gpu.A100(count=4, size="80GB")` of Modal's first versions. `None`: only a run would tell.
fn literal(text: &str, set: &[(String, String)]) -> Option<String> {
    let text = text.trim_start_matches(['[', '(']);
    let quoted = |text: &str| {
        let quote = text.chars().next().filter(|first| matches!(first, '"' | '\''))?;
        text[1..].split(quote).next().map(str::to_owned)
    };
    if let Some(text) = quoted(text) {
        return Some(text);
    }
    for environment in ["os.environ.get(", "os.getenv("] {
        if let Some(inner) = text.strip_prefix(environment) {
            return quoted(inner.split_once(',')?.1.trim_start());
        }
    }
    if let Some(card) = text.strip_prefix("modal.gpu.").or_else(|| text.strip_prefix("gpu.")) {
        let (name, inner) = card.split_once('(')?;
        let given = |key: &str| {
            let rest = inner.split_once(key)?.1;
            rest.split([',', ')']).next().map(|value| value.trim_matches(['"', '\'']).to_owned())
        };
        let size = given("size=").map(|size| format!("-{size}")).unwrap_or_default();
        return Some(format!("{name}{size}:{}", given("count=").unwrap_or_else(|| "1".to_owned())));
    }
    let word = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')).next()?;
    if text[word.len()..].starts_with(['(', '.', '[']) {
        return None;
    }
    let known = set.iter().rev().find(|(name, _)| name == word).map(|(_, value)| value.clone());
    let is_literal = word.starts_with(|first: char| first.is_ascii_digit()) || word == "True";
    known.or_else(|| is_literal.then(|| word.to_owned()))
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
        assert!(machines("import torch\ngpu = 4\n").is_err());
    }
}
