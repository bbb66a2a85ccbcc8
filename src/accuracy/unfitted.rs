//! Runs that no constant was fitted on (`benchmarks/unfitted`): cases with what was measured, one JSON object a line.

use std::path::Path;

use crate::own_table;
use crate::published::{Published, Run};

/// Of runs whose figure is the hours of a whole project.
const PROJECTS: &str = "project-hours.csv";

/// Why they cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum UnfittedError {
    #[error("{path}: {source}")]
    File { path: String, source: std::io::Error },
    #[error("{path}: {source}")]
    Table { path: String, source: own_table::OwnTableError },
}

/// Every run of the folder whose figure is a step or a rate, by file and line. `None`: there is no such folder.
pub fn read(folder: &Path) -> Result<Option<Published>, UnfittedError> {
    let shown = |path: &Path| path.display().to_string();
    let text =
        |path: &Path| std::fs::read_to_string(path).map_err(|source| UnfittedError::File { path: shown(path), source });
    if !folder.is_dir() {
        return Ok(None);
    }
    let listed = std::fs::read_dir(folder).map_err(|source| UnfittedError::File { path: shown(folder), source })?;
    let mut files: Vec<_> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
    files.sort();
    let projects = text(&folder.join(PROJECTS))?;
    let is_project = |run: &Run| projects.lines().any(|line| line.split(',').nth(1) == Some(run.id.as_str()));
    let mut runs = Vec::new();
    for path in &files {
        let table =
            own_table::read(&text(path)?).map_err(|source| UnfittedError::Table { path: shown(path), source })?;
        runs.extend(table.runs.runs.into_iter().filter(|run| !is_project(run)));
    }
    Ok(Some(Published { runs }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_and_names_its_source() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks/unfitted"));
        let read = read(folder).unwrap().unwrap();
        assert!(read.runs.len() > 350, "{}", read.runs.len());
        assert!(read.runs.iter().all(|run| run.source != "own"), "a line without `source`");
        assert!(read.runs.iter().all(|run| run.id != "phi-1.5"), "hours of a project");
        assert!(super::read(&folder.join("none")).unwrap().is_none());
    }
}
