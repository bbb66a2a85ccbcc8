//! `completions` and `man`: both are made from the same definition as the arguments themselves.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Arguments;
use crate::diagnostic::{Diagnostic, Exit};
use crate::printer::Printer;

pub fn completions(shell: Shell, printer: &Printer) -> Result<Exit, Diagnostic> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "gpuplan", &mut script);
    printer.data(&String::from_utf8_lossy(&script))
}

/// One page for the program to stdout, or one a command into a folder.
pub fn man(folder: Option<&Path>, printer: &Printer) -> Result<Exit, Diagnostic> {
    match folder {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Arguments::command())
                .render(&mut page)
                .map_err(|error| Diagnostic::unexpected(&error))?;
            printer.data(&String::from_utf8_lossy(&page))
        }
        Some(folder) => {
            std::fs::create_dir_all(folder).map_err(|error| Diagnostic::file(folder, &error))?;
            clap_mangen::generate_to(Arguments::command(), folder).map_err(|error| Diagnostic::file(folder, &error))?;
            printer.note(&format!("wrote the manual pages into {}", folder.display()));
            Ok(Exit::Done)
        }
    }
}
