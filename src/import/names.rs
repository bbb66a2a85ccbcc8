//! `Names`: the machines, places, models and files that a job may name.

use gpuplan_hardware::Hardware;
use gpuplan_workload::Models;

/// Gives the text of a file that lies beside a job. `None`: there is no such file.
pub type Files<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// The names that a job may use.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    pub hardware: &'a Hardware,
    pub models: &'a Models,
    /// Files that the job names.
    pub files: &'a Files<'a>,
    /// The name of the file that the job is, without its folder; empty where it is none.
    pub path: &'a str,
}

impl<'a> Names<'a> {
    /// Names of a job without files.
    pub fn new(hardware: &'a Hardware, models: &'a Models) -> Self {
        Self { hardware, models, files: &|_| None, path: "" }
    }
}
