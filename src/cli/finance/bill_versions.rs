//! Whether the files of a bill are of one delivery: a file that is named twice, or the report of yesterday beside that of today, would
//! count twice.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::session::diagnostic::Diagnostic;

/// Compared at once.
const BLOCK: usize = 1 << 16;

/// Refuses files that have the same bytes, and files of two versions of one report.
pub fn of_one_delivery(files: &[PathBuf]) -> Result<(), Diagnostic> {
    for (place, file) in files.iter().enumerate() {
        for other in &files[..place] {
            if is_same(other, file).map_err(|error| Diagnostic::file(file, &error))? {
                return Err(Diagnostic::usage(format!(
                    "{} and {} are the same: its lines would count twice; nothing was kept",
                    other.display(),
                    file.display()
                ))
                .hint("name each file once"));
            }
            if let Some((one, two)) = versions(other, file) {
                return Err(Diagnostic::usage(format!(
                    "{one} and {two} are two versions of the report of one billing period, and each has all of its lines; nothing was kept"
                ))
                .hint(format!("name the files of the newer one alone: gpuplan costs import {two}/*")));
            }
        }
    }
    Ok(())
}

/// Whether two files have the same bytes. Only those of one size are read.
fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (Ok(of_one), Ok(of_other)) = (fs::metadata(one), fs::metadata(other)) else { return Ok(false) };
    if !of_one.is_file() || !of_other.is_file() || of_one.len() != of_other.len() {
        return Ok(false);
    }
    let (mut one, mut other) = (BufReader::new(File::open(one)?), BufReader::new(File::open(other)?));
    let (mut of_one, mut of_other) = (Vec::with_capacity(BLOCK), Vec::with_capacity(BLOCK));
    loop {
        of_one.clear();
        of_other.clear();
        (&mut one).take(BLOCK as u64).read_to_end(&mut of_one)?;
        (&mut other).take(BLOCK as u64).read_to_end(&mut of_other)?;
        if of_one != of_other {
            return Ok(false);
        }
        if of_one.is_empty() {
            return Ok(true);
        }
    }
}

/// The folders of two files, where they lie in two versions of one period: AWS and Azure write each version of a report into a folder
/// of its own below that of the period, `20261001-20261101/ASSEMBLY/` or `BILLING_PERIOD=2026-10/EXECUTION/` (docs.aws.amazon.com/cur,
/// "Understanding your report versions" and "Understanding export delivery"; learn.microsoft.com, "Create and manage exports").
fn versions<'a>(one: &'a Path, other: &'a Path) -> Option<(std::path::Display<'a>, std::path::Display<'a>)> {
    let (one, other) = (one.parent()?, other.parent()?);
    let (period, of_other) = (one.parent()?, other.parent()?);
    let is_period = period.file_name().and_then(|name| name.to_str()).is_some_and(is_period);
    (one != other && period == of_other && is_period).then(|| (one.display(), other.display()))
}

fn is_period(folder: &str) -> bool {
    let is_day = |text: &str| text.len() == 8 && text.bytes().all(|digit| digit.is_ascii_digit());
    folder.to_ascii_uppercase().starts_with("BILLING_PERIOD=")
        || folder.split_once('-').is_some_and(|(from, to)| is_day(from) && is_day(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_below_one_period_are_versions_of_its_report() {
        let are = |one: &str, other: &str| versions(Path::new(one), Path::new(other)).is_some();
        assert!(are("cur/20261001-20261101/1a2b/cur-1.csv.gz", "cur/20261001-20261101/3c4d/cur-1.csv.gz"));
        assert!(are("data/BILLING_PERIOD=2026-10/a/x.parquet", "data/BILLING_PERIOD=2026-10/b/x.parquet"));
        // Parts of one version, of two periods, and days of Oracle, whose reports have what is new.
        assert!(!are("cur/20261001-20261101/1a2b/cur-1.csv.gz", "cur/20261001-20261101/1a2b/cur-2.csv.gz"));
        assert!(!are("cur/20261001-20261101/1a2b/cur-1.csv.gz", "cur/20261101-20261201/1a2b/cur-1.csv.gz"));
        assert!(!are("FOCUS Reports/2026/10/01/1.csv.gz", "FOCUS Reports/2026/10/02/1.csv.gz"));
        assert!(!are("a.csv", "b.csv"));
    }
}
