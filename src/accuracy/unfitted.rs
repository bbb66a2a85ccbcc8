//! Runs that no constant was fitted on (`benchmarks/unfitted`): cases with what was measured, one JSON object a line.

use crate::own_table;
use crate::published::{Published, Run};

/// The file of runs whose figure is the hours of a whole project.
pub const PROJECTS: &str = "project-hours.csv";
/// The file of cases that turned out to say something else than what ran.
pub const WRONG: &str = "wrong-cases.csv";
/// The last looks stay out of the widths of bands: they say how these do on sources that nobody had seen.
pub const LAST_LOOKS: [&str; 3] = ["tenth-look", "eleventh-look", "twelfth-look"];

/// A file that cannot be read as runs.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {source}")]
pub struct UnfittedError {
    pub file: String,
    pub source: own_table::OwnTableError,
}

/// Every run whose figure is a step or a rate, of files with their texts; the name of its file without folder and end is its locator. `left_out`
/// are the lines of `PROJECTS` and `WRONG`, which name a file and an `id`.
pub fn read(files: &[(String, String)], left_out: &str) -> Result<Published, UnfittedError> {
    let mut runs = Vec::new();
    for (file, text) in files {
        let look = file.rsplit('/').next().unwrap_or(file).trim_end_matches(".jsonl");
        let is_named = |run: &Run| {
            left_out.lines().any(|line| {
                let mut fields = line.split(',');
                fields.next() == Some(&format!("{look}.jsonl")) && fields.next() == Some(&run.id)
            })
        };
        let table = own_table::read(text).map_err(|source| UnfittedError { file: file.clone(), source })?;
        let kept = table.runs.runs.into_iter().filter(|run| !is_named(run));
        runs.extend(kept.map(|run| Run { locator: look.to_owned(), ..run }));
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
        let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        let left_out = text(PROJECTS) + &text(WRONG);
        let (all, read) = (read(&files, "").unwrap(), read(&files, &left_out).unwrap());
        for line in left_out.lines().filter(|line| !line.starts_with("file,")) {
            let mut fields = line.split(',');
            let (look, id) = (fields.next().unwrap().trim_end_matches(".jsonl"), fields.next().unwrap());
            let is_it = |run: &&Run| run.locator == look && run.id == id;
            assert!(all.runs.iter().any(|run| is_it(&run)), "{line} names no case");
            assert!(!read.runs.iter().any(|run| is_it(&run)), "{line} is read");
        }
        assert!(LAST_LOOKS.iter().all(|look| read.runs.iter().any(|run| run.locator == *look)));
        assert!(read.runs.iter().all(|run| run.source != "own"), "a line without `source`");
        assert!(read.runs.iter().all(|run| run.id != "phi-1.5"), "hours of a project");
        assert!(read.runs.iter().all(|run| run.source != "swespot"), "wrong cases");
    }
}
