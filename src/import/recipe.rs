//! What a training configuration or a command line says of its workload: entries of a file or flags, looked up in the tables of the
//! program that reads them. What no table knows is listed, never guessed.

mod amount;
mod apply;
mod entry;
mod kinds;
mod model;
mod programs;
mod setting;
mod sizes;
mod stack;
mod task;
mod tests;
mod usual;
mod words;

pub use amount::of_data as amount_of_data;
pub use entry::{Entry, entries};
pub use kinds::{of_document, without_sections};
pub use setting::Dialect;
pub use stack::{leave_to_the_parser, of_command, serves_with_vllm};
pub use task::{is_example, of_program as task_of_program};

pub use apply::objective;
pub use usual::{OBJECTIVES, PREFERENCE, REINFORCEMENT};

use crate::{JobRequest, Names};

/// Reads entries into the job, by the tables of a program.
pub fn apply(dialect: &Dialect, entries: &[Entry], asked: &mut JobRequest, names: Names) {
    let (entries, unused): (Vec<Entry>, Vec<Entry>) = task::without_unused_adapters(entries);
    let entries = entries.as_slice();
    for entry in unused {
        asked.note_without_effect(&entry.shown, short(entry.value.as_deref().unwrap_or_default()));
    }
    for entry in entries {
        let value = entry.value.clone().unwrap_or_default();
        match apply::apply(dialect, entry, asked, names) {
            setting::Outcome::Understood => asked.understand(&entry.shown, value),
            setting::Outcome::WithoutEffect => asked.note_without_effect(&entry.shown, value),
            setting::Outcome::Unread => asked.leave_unread(&entry.shown, short(&value)),
        }
    }
    let training = &mut asked.workload.training;
    // Samples beside epochs are the rows of an epoch.
    if training.epochs.is_some() && training.samples.is_some() && training.steps.is_none() {
        asked.workload.data.samples = training.samples.take();
    }
    // Steps limit a run that counts epochs too.
    if asked.workload.training.steps.is_some() || asked.workload.training.samples.is_some() {
        asked.workload.training.epochs = None;
    }
    (dialect.complete)(entries, asked, names);
}

/// A long text is no setting that a person looks for.
fn short(value: &str) -> String {
    const MOST: usize = 60;
    let line = value.lines().next().unwrap_or_default();
    if line.chars().count() <= MOST && line.len() == value.trim_end().len() {
        return line.to_owned();
    }
    line.chars().take(MOST).collect::<String>() + "..."
}
