//! A submit description of HTCondor (condor_submit(1)): the machine that each of its jobs asks for, and the command that it starts.

use crate::{Choice, Gpus, ImportError, JobKind, JobRequest, Names, chips, command};
use gpuplan_workload::assumption::JobAssumption;

/// Attributes by which cards are told apart: of `require_gpus`, and of `requirements` before HTCondor 9.
const CARD: [&str; 4] = ["devicename", "cudadevicename", "gpus_devicename", "cuda0devicename"];
/// Macros in macros.
const DEEPEST: usize = 5;

/// What is known by commands that no other file has, and by the line that hands the job over.
pub fn is_description(text: &str) -> bool {
    let queues = |line: &str| line.split_whitespace().next().is_some_and(|word| word.eq_ignore_ascii_case("queue"));
    let starts =
        |key: &str| ["executable", "universe", "request_gpus", "docker_image", "container_image"].contains(&key);
    !text.starts_with("#!") && text.lines().any(queues) && statements(text).iter().any(|(key, _)| starts(key.as_str()))
}

pub fn read(text: &str, names: Names) -> Result<JobRequest, ImportError> {
    let all = statements(text);
    let mut asked = JobRequest::new(JobKind::Script);
    let value = |key: &str| all.iter().rev().find(|(name, _)| name == key).map(|(_, value)| expanded(value, &all, 0));
    let gpus = value("request_gpus");
    match gpus.as_deref().map(str::parse::<u32>) {
        Some(Ok(0)) | None => {}
        Some(Ok(count)) => {
            let stated =
                ["require_gpus", "requirements"].iter().filter_map(|key| value(key)).find_map(|one| device(&one));
            let chips = stated.and_then(|name| chips::named(&name, names.hardware));
            asked.choices.push(Choice { chips, gpus: Some(Gpus::PerMachine(count)), ..Choice::default() });
            asked.understand("request_gpus", count);
        }
        Some(Err(_)) => asked.leave_unread("request_gpus", gpus.as_deref().unwrap_or_default()),
    }
    // Only jobs of the parallel universe have several machines; `queue 4` is four jobs.
    match value("machine_count").map(|count| count.parse::<u32>().map_err(|_| count)) {
        Some(Ok(count @ 1..)) => asked.nodes = Some(count..=count),
        Some(Ok(0)) | None => {
            asked.nodes = Some(1..=1);
            asked.assumed.push(JobAssumption::OneMachine);
        }
        Some(Err(count)) => asked.leave_unread("machine_count", count),
    }
    asked.name = value("jobbatchname").or(value("batch_name"));
    let program = value("executable").unwrap_or_default();
    let line =
        format!("{} {}", started(&program), arguments(&value("arguments").or(value("args")).unwrap_or_default()));
    command::read(&line, &environment(&value("environment").unwrap_or_default()), &mut asked, names);
    asked.take_machines_of_launcher();
    if asked.choices.is_empty() { Err(ImportError::NoGpu) } else { Ok(asked) }
}

/// `key = value` of each line, keys in small letters and without the `+` or `MY.` of an attribute of one's own; lines that a backslash
/// continues are one.
fn statements(text: &str) -> Vec<(String, String)> {
    let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let pair = |line: &str| {
        let (key, value) = line.split_once('=')?;
        let key = key.trim().trim_start_matches('+').to_ascii_lowercase();
        let key = key.strip_prefix("my.").unwrap_or(&key).to_owned();
        let is_key =
            !key.is_empty() && key.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.".contains(letter));
        is_key.then(|| (key, value.trim().to_owned()))
    };
    lines.filter_map(pair).collect()
}

/// `$(name)` and `$(name:default)`; what only a queue would tell becomes a variable of the shell's.
fn expanded(value: &str, all: &[(String, String)], depth: usize) -> String {
    let (mut rest, mut text) = (value, String::new());
    while let Some((before, (inner, behind))) =
        rest.split_once("$(").and_then(|(before, behind)| Some((before, behind.split_once(')')?)))
    {
        let (name, default) = inner.split_once(':').map_or((inner, None), |(name, default)| (name, Some(default)));
        let own = all.iter().rev().find(|(key, _)| key.eq_ignore_ascii_case(name.trim()));
        text.push_str(before);
        match (own, default) {
            (Some((_, value)), _) if depth < DEEPEST => text.push_str(&expanded(value, all, depth + 1)),
            (None, Some(default)) => text.push_str(default),
            _ => text.push_str(&format!("${{{}}}", name.trim())),
        }
        rest = behind;
    }
    text.push_str(rest);
    text
}

/// The card that an expression compares the name of its device with.
fn device(expression: &str) -> Option<String> {
    let lower = expression.to_ascii_lowercase();
    let at = CARD.iter().filter_map(|name| lower.find(name)).min()?;
    let behind = expression.get(at..)?;
    let operator = behind.find("==").or_else(|| behind.find("=?=")).or_else(|| behind.find(','))?;
    let quoted = behind.get(operator..)?.split('"').nth(1)?;
    // A pattern of `regexp("A100", ...)` stands before the name, others behind it.
    Some(quoted.trim_matches(['.', '*', '^', '$']).to_owned()).filter(|name| !name.is_empty())
}

/// A script is what its shell is told to run.
fn started(program: &str) -> String {
    if program.strip_suffix(".sh").is_some() { format!("bash {program}") } else { program.to_owned() }
}

/// Arguments of the newer form stand in quotes, in which two quotes are one (condor_submit(1), "arguments").
fn arguments(value: &str) -> String {
    let inner = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.map_or_else(|| value.to_owned(), |inner| inner.replace("\"\"", "\\\""))
}

/// `"ONE=1 TWO='2 and 3'"`, of the older form `ONE=1;TWO=2`.
fn environment(value: &str) -> Vec<(String, String)> {
    let words = match value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => crate::shell::split(inner).unwrap_or_default(),
        None => value.split(';').map(str::to_owned).collect(),
    };
    let pairs = words.iter().filter_map(|word| word.split_once('='));
    pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::Hardware;
    use gpuplan_workload::Models;

    fn asked(text: &str, script: Option<&str>) -> Result<JobRequest, ImportError> {
        let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
        let open = |name: &str| script.filter(|_| name == "train.sh").map(str::to_owned);
        crate::read(text, Names { files: &open, ..Names::new(&hardware, &models) })
    }

    #[test]
    fn a_description_asks_for_cards_and_starts_a_program() {
        let text = "# one of many\nUniverse = vanilla\nmodel = Qwen/Qwen2.5-7B\nExecutable = /usr/bin/python3\n\
            Arguments = run_clm.py --model_name_or_path $(model) \\\n  --per_device_train_batch_size $(batch:4) --max_steps 50\n\
            request_GPUs = 2\nrequire_gpus = (DeviceName == \"NVIDIA A100-SXM4-80GB\") && Capability >= 8.0\nqueue 3\n";
        let read = asked(text, None).unwrap();
        let choice = &read.choices[0];
        assert_eq!((choice.gpus, read.nodes.clone()), (Some(Gpus::PerMachine(2)), Some(1..=1)));
        assert_eq!(choice.chips.as_ref().map(|chips| chips.word.as_str()), Some("NVIDIA A100-SXM4-80GB"));
        assert_eq!(read.model_name.as_deref(), Some("Qwen/Qwen2.5-7B"));
        assert_eq!(read.workload.training.micro_batch.as_ref().map(ToString::to_string).as_deref(), Some("4"));
    }

    #[test]
    fn a_script_beside_it_is_followed_with_its_arguments() {
        let text = "executable = train.sh\narguments = \"google/gemma-2-9b 8\"\nenvironment = \"STEPS=70\"\nrequest_gpus=1\n\
            requirements = (CUDADeviceName == \"Tesla V100-SXM2-32GB\")\nqueue\n";
        let script = "python run_clm.py --model_name_or_path $1 --per_device_train_batch_size $2 --max_steps $STEPS\n";
        let read = asked(text, Some(script)).unwrap();
        assert_eq!(read.workload.training.steps.as_ref().map(ToString::to_string).as_deref(), Some("70"));
        assert_eq!(read.choices[0].chips.as_ref().map(|chips| chips.ids.is_empty()), Some(false));
    }

    #[test]
    fn what_only_the_queue_tells_is_unknown() {
        let text = "executable = train.sh\nrequest_gpus = $(cards)\nqueue cards from list.txt\n";
        assert_eq!(asked(text, None), Err(ImportError::NoGpu));
        let none = "executable = a.sh\nrequest_cpus = 4\nqueue\n";
        assert_eq!(asked(none, None), Err(ImportError::NoGpu));
        assert!(
            !is_description("queue: high\nexecutable: a\n") && !is_description("#!/bin/bash\nexecutable=a\nqueue 1\n")
        );
    }
}
