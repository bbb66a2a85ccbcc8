//! `init`: writes a workload file to start from, with every usual key explained. An existing file is never touched.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::question::workload;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_plan::Limits;
use gpuplan_workload::file::WorkloadFile;

#[derive(Debug, Args)]
pub struct InitArguments {
    /// Write to this new file
    #[arg(default_value = "workload.toml")]
    pub file: PathBuf,
    /// Take this named model (see `gpuplan catalog models`) [default: asks]
    #[arg(short, long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Read the model from this Hugging Face config.json instead
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    pub config: Option<PathBuf>,
    /// Choose the task: pretrain, full-fine-tune, lora, qlora or train [default: asks]
    #[arg(long, value_name = "TASK")]
    pub task: Option<String>,
    /// Train on this many tokens, such as 50M [default: asks]
    #[arg(long, value_name = "TOKENS")]
    pub tokens: Option<String>,
    /// Train on this many samples, such as 1M images, instead of tokens
    #[arg(long, value_name = "SAMPLES", conflicts_with = "tokens")]
    pub samples: Option<String>,
    /// End by then: 36h, 5d, 2026-12-24
    #[arg(long, value_name = "DEADLINE")]
    pub deadline: Option<String>,
    /// Spend no more than this many dollars
    #[arg(long, value_name = "USD")]
    pub budget: Option<String>,
    /// Use only these GPUs, such as H100:8 or 24GB+
    #[arg(short, long = "gpus", visible_alias = "gpu", value_name = "GPUS")]
    pub gpus: Option<String>,
}

/// What the file states.
struct Answers {
    model: (&'static str, String),
    task: String,
    amount: (&'static str, String),
}

pub fn run(arguments: &InitArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let path = &arguments.file;
    if path.exists() {
        return Err(exists(path));
    }
    let text = text(arguments, &answers(arguments, session)?, path);
    // What would not plan is not written.
    let file = WorkloadFile::parse(&text)?;
    workload::resolve(&file, &session.models()?)?;
    Limits::read(&file.limits, &session.hardware()?, session.now)?;
    let mut new = OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(path),
        _ => Diagnostic::unwritten(path, &error),
    })?;
    new.write_all(text.as_bytes()).map_err(|error| Diagnostic::unwritten(path, &error))?;
    session.printer.note(&format!("wrote {0}; next: gpuplan plan {0}", path.display()));
    Ok(Exit::Done)
}

fn exists(path: &Path) -> Diagnostic {
    Diagnostic::usage(format!("{} exists already, and nothing is overwritten", path.display()))
        .hint("gpuplan init other.toml --model llama-3.1-8b --task lora --tokens 50M")
}

/// What the flags leave open is asked where somebody can answer.
fn answers(arguments: &InitArguments, session: &Session) -> Result<Answers, Diagnostic> {
    let ask = |stated: &Option<String>, what: &str, example: &str| match stated {
        Some(stated) => Ok(stated.clone()),
        None => session.printer.ask(what, example, "gpuplan init --model llama-3.1-8b --task lora --tokens 50M"),
    };
    let model = match &arguments.config {
        Some(config) => {
            let whole = std::path::absolute(config).map_err(|error| Diagnostic::file(config, &error))?;
            ("config", whole.to_string_lossy().into_owned())
        }
        None => ("preset", ask(&arguments.model, "Which model?", "llama-3.1-8b")?),
    };
    let task = ask(&arguments.task, "Which task: pretrain, full-fine-tune, lora, qlora or train?", "lora")?;
    let amount = match &arguments.samples {
        Some(samples) => ("samples", samples.clone()),
        None => ("tokens", ask(&arguments.tokens, "On how many tokens?", "50M")?),
    };
    Ok(Answers { model, task, amount })
}

fn text(arguments: &InitArguments, answers: &Answers, path: &Path) -> String {
    let stated = |key: &str, value: &str| format!("{key} = {}", toml::Value::String(value.to_owned()));
    let line = |key: &str, value: &str, meaning: &str| format!("{:<32}# {meaning}\n", stated(key, value));
    let limit = |key: &str, value: &Option<String>, example: &str, meaning: &str| match value {
        Some(value) => line(key, value, meaning),
        None => format!("{:<32}# {meaning}\n", format!("# {}", stated(key, example))),
    };
    let models = "a name of `gpuplan catalog models`, or config = \"config.json\" of Hugging Face";
    [
        format!("# What to run and what it has to keep to. Next: gpuplan plan {}\n\n[model]\n", path.display()),
        line(answers.model.0, &answers.model.1, models),
        "\n[training]\n".to_owned(),
        line("task", &answers.task, "pretrain, full-fine-tune, lora, qlora or train"),
        line(answers.amount.0, &answers.amount.1, "how much: tokens, samples, steps, or epochs of [data]"),
        "# sequence_length = 4096        # tokens of a sequence, or the side of an image\n".to_owned(),
        "# global_batch = 16             # sequences of an optimizer step\n".to_owned(),
        "# precision = \"bf16\"            # fp32, fp16, bf16, fp8 ...\n".to_owned(),
        "\n# [data]                        # what has to be moved to the machines\n".to_owned(),
        "# size = \"100GB\"\n# place = \"aws/us-east-1\"       # where it is stored\n".to_owned(),
        "\n[checkpoint]\n".to_owned(),
        line("interval", "choose", "or a time such as \"30m\""),
        "\n[limits]\n".to_owned(),
        limit("deadline", &arguments.deadline, "3d", "end by then: 36h, 3d or 2026-12-24"),
        limit("budget", &arguments.budget, "500", "dollars"),
        limit("gpus", &arguments.gpus, "H100:8", "only these: H100:8, A100:80GB:1..16, 24GB+, L4:1/4"),
        "# clouds = [\"aws\", \"gcp\"]       # only these\n".to_owned(),
    ]
    .concat()
}
