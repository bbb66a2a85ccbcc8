//! The script that every job target runs on each machine: variables, configuration, then the agent around the training command.

use std::borrow::Cow;

use shlex::Quoter;

use crate::ExportError;
use crate::framework::Framework;
use crate::framework::invocation::{Invocation, configuration_path};
use crate::framework::{accelerate, deepspeed, fsdp, hf_trainer, lightning, megatron, torchtitan};
use crate::job::Job;
use crate::network::between_machines;
use crate::swept::INDEX;

/// Port of the first machine where the others meet it; torchrun's default.
pub const PORT: u16 = 29500;

/// How an engine tells a machine what it is: words of shell.
#[derive(Clone, Copy, Debug)]
pub struct Position<'a> {
    pub node: &'a str,
    pub nodes: &'a str,
    /// Address of machine 0.
    pub first: &'a str,
}

/// Bash without a first line. It ends in the agent, whose exit code is the script's.
pub fn script(job: &Job, position: Position) -> Result<String, ExportError> {
    let invocation = invocation(job)?;
    let mut lines = Vec::new();
    if job.machines().nodes > 1 {
        lines.push(format!("NODE={} NODES={} FIRST={}", position.node, position.nodes, position.first));
        // torchrun reads these itself.
        lines.push(format!(
            "export PET_NODE_RANK=\"$NODE\" PET_NNODES=\"$NODES\" PET_MASTER_ADDR=\"$FIRST\" PET_MASTER_PORT={PORT}"
        ));
    }
    if let Some(sweep) = &job.sweep {
        lines.push(format!(
            ": \"${{{INDEX}:?the number of this run, from 0}}\"; export {INDEX} GPUPLAN_SWEEP_RUNS={}",
            sweep.runs
        ));
    }
    if let Some(network) = between_machines(job) {
        lines.push(format!("# {}. Source: {}", network.about, network.source));
        lines.extend(network.lines.iter().map(|line| (*line).to_owned()));
    }
    lines.extend(invocation.variables.iter().map(|(name, value)| format!("export {name}={}", quoted(value))));
    if let Some((name, text)) = &invocation.configuration {
        lines.push(format!("cat >{} <<'END'\n{text}END", configuration_path(job, name)));
    }
    lines.push(agent(job, invocation.checkpoints));
    // Words of a launcher are this program's own; two of them name variables from above.
    let launcher =
        invocation.launcher.iter().map(|word| if word.starts_with('$') { format!("\"{word}\"") } else { word.clone() });
    let own = job.command.iter().chain(&invocation.flags).map(|word| quoted(word).into_owned());
    let words: Vec<String> = launcher.chain(own).collect();
    lines.push(format!("  -- {}", words.join(" ")));
    Ok(lines.join("\n") + "\n")
}

/// The layout in the words of the framework.
fn invocation(job: &Job) -> Result<Invocation, ExportError> {
    let framework = job.framework;
    if job.nodes_at_least.is_some() && !matches!(framework, Framework::None | Framework::Megatron) {
        let why = "its global batch would change with fewer machines; --framework megatron keeps it, and --framework none leaves it to you";
        return Err(ExportError::Elastic { framework: framework.word(), why });
    }
    match framework {
        Framework::None => Ok(Invocation { checkpoints: "auto", ..Invocation::default() }),
        Framework::Fsdp => fsdp::invocation(job),
        Framework::Accelerate => accelerate::invocation(job),
        Framework::Deepspeed => deepspeed::invocation(job),
        Framework::Megatron => megatron::invocation(job),
        Framework::Torchtitan => torchtitan::invocation(job),
        Framework::HfTrainer => hf_trainer::invocation(job),
        Framework::Lightning => lightning::invocation(job),
    }
}

fn agent(job: &Job, checkpoints: &str) -> String {
    let run = job.sweep.as_ref().map_or_else(|| quoted(&job.run).into_owned(), |sweep| sweep.name_in_shell(&job.run));
    let mut lines = vec![format!("exec gpuplan agent --store {} --run {run}", quoted(&job.store))];
    if job.machines().nodes > 1 {
        lines.push("--node \"$NODE\" --nodes \"$NODES\"".to_owned());
    }
    lines.push(format!(
        "--framework {checkpoints} --grace {}s --lifetime {}h",
        job.grace_seconds(),
        job.lifetime_hours()
    ));
    if let Some(budget) = job.budget_usd {
        lines.push(format!("--rate {} --budget {budget}", job.machines().rate_usd_per_hour));
    }
    lines.join(" \\\n  ") + " \\"
}

/// A word that the shell passes on as it is.
pub fn quoted(word: &str) -> Cow<'_, str> {
    Quoter::new().allow_nul(true).quote(word).expect("quoting fails on a null byte alone, and that is allowed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_reaches_the_program_as_it_was_given() {
        for (word, written) in [("a.py", "a.py"), ("", "''"), ("a b", "'a b'"), ("$X", "'$X'"), ("a;b", "'a;b'")] {
            assert_eq!(quoted(word), written);
        }
    }

    #[test]
    fn words_survive_the_shell() {
        let words = ["it's", "a\\b", "\"x\"", "^!", "two\nlines", "ä", "--lr=1e-4", "{a,b}", "~", "#x"];
        let line = words.map(|word| quoted(word).into_owned()).join(" ");
        assert_eq!(shlex::split(&line), Some(words.map(str::to_owned).to_vec()));
    }
}
