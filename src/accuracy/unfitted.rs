//! Runs that no constant was fitted on (`benchmarks/unfitted`): cases with what was measured, one JSON object a line.

use crate::own_table;
use crate::published::{Published, Run};

/// The file of runs whose figure is the hours of a whole project.
pub const PROJECTS: &str = "project-hours.csv";

/// A file that cannot be read as runs.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {source}")]
pub struct UnfittedError {
    pub file: String,
    pub source: own_table::OwnTableError,
}

/// Every run whose figure is a step or a rate, of files with their texts; `projects` is the text of `PROJECTS`.
pub fn read(files: &[(String, String)], projects: &str) -> Result<Published, UnfittedError> {
    let is_project = |run: &Run| projects.lines().any(|line| line.split(',').nth(1) == Some(run.id.as_str()));
    let mut runs = Vec::new();
    for (file, text) in files {
        let table = own_table::read(text).map_err(|source| UnfittedError { file: file.clone(), source })?;
        runs.extend(table.runs.runs.into_iter().filter(|run| !is_project(run)));
    }
    Ok(Published { runs })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_line_is_read_and_names_its_source() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks/unfitted"));
        let lines = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = lines.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
        let files: Vec<_> =
            files.map(|path| (path.display().to_string(), fs::read_to_string(&path).unwrap())).collect();
        let read = read(&files, &fs::read_to_string(folder.join(PROJECTS)).unwrap()).unwrap();
        assert!(read.runs.len() > 350, "{}", read.runs.len());
        assert!(read.runs.iter().all(|run| run.source != "own"), "a line without `source`");
        assert!(read.runs.iter().all(|run| run.id != "phi-1.5"), "hours of a project");
    }
}
