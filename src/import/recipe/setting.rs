//! `Setting`: what a key of a configuration means in a workload file.

use super::entry::Entry;
use crate::{JobRequest, Names};
use gpuplan_workload::file::{Scalar, WorkloadFile};

/// A number of a workload file.
pub type Number = fn(&mut WorkloadFile) -> &mut Option<Scalar>;
/// A word of a workload file.
pub type Word = fn(&mut WorkloadFile) -> &mut Option<String>;

/// What a key means.
#[derive(Clone, Copy)]
pub enum Setting {
    /// The name of a model.
    Model,
    /// The name of a model where no other key names one; else the name of its architecture.
    ModelOrKind,
    /// The name of a model whose answers the trained one learns.
    Teacher,
    /// A number above zero.
    Number(Number),
    /// One of these words; each with the one of a workload file.
    Choice(Word, &'static [(&'static str, &'static str)]),
    /// Switched on, it is this word.
    Switch(Word, &'static str),
    /// Switched on or off, it is one of two words.
    Either(Word, &'static str, &'static str),
    /// Switched on, the number format.
    Precision(&'static str),
    /// Switched on or off.
    Flag(fn(&mut WorkloadFile) -> &mut Option<bool>),
    /// A share: above zero it is on.
    Share(fn(&mut WorkloadFile) -> &mut Option<bool>),
    /// Rank of adapters.
    Rank,
    /// Matrices with adapters.
    Targets,
    /// Switched on, adapters on every matrix.
    AllTargets,
    /// Traffic that is hidden, where it is switched on.
    Overlap(&'static str),
    /// GPUs of a machine.
    GpusPerMachine,
    /// GPUs of all machines.
    Gpus,
    /// How many GPUs a program takes of a machine, or which of them, where no launcher counts.
    Cards,
    /// Which GPU a program takes, or which of them, where no launcher counts.
    Devices,
    Machines,
    /// What a step minimises, where it is one of these words; each with that of a workload file, empty for the usual one. Answers that are
    /// generated on the way, of which the other words speak, are not planned.
    Objective(&'static [(&'static str, &'static str)]),
    /// Only programs of preference and reinforcement learning have such a key.
    Preference,
    /// An optimizer by one of these words or as a class; any other is not planned.
    Optimizer(&'static [(&'static str, &'static str)]),
    /// Anything but off: work that is not planned, in words.
    NotPlanned(&'static str),
    /// Switched on, it is one of those that `Dialect::complete` reads together.
    Completed,
    /// Neither work nor machines depend on it.
    Nothing,
}

/// The tables of one program.
pub struct Dialect {
    /// Its row of `catalogs/stacks.toml`; empty where it has none.
    pub stack: &'static str,
    pub settings: &'static [(&'static str, Setting)],
    /// Beginnings of keys that neither work nor machines depend on.
    pub nothing: &'static [&'static str],
    /// Whether the usual words of training programs are read too.
    pub has_common: bool,
    /// What only several keys together say.
    pub complete: fn(&[Entry], &mut JobRequest, Names),
}

/// What became of a key.
pub enum Outcome {
    Understood,
    WithoutEffect,
    Unread,
}
