//! Reading a file of cases, or standard input.

use std::fs;
use std::io::Read;
use std::path::Path;

use crate::session::diagnostic::Diagnostic;

/// Most bytes that are read of a file of cases.
const LARGEST_FILE: u64 = 1 << 30;

pub fn read(path: &Path) -> Result<String, Diagnostic> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().take(LARGEST_FILE).read_to_string(&mut text)
    } else {
        fs::File::open(path).and_then(|file| file.take(LARGEST_FILE).read_to_string(&mut text))
    };
    read.map_err(|error| Diagnostic::file(path, &error))?;
    Ok(text)
}
