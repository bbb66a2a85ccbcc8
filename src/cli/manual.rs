//! `completions` and `man`: both are made from the same definition as the arguments themselves.

use std::path::Path;

use clap::Command;
use clap_complete::Shell;

use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};

pub fn completions(shell: Shell, mut program: Command, session: &Session) -> Result<Exit, Diagnostic> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "gpuplan", &mut script);
    session.printer.data(&String::from_utf8_lossy(&script))
}

/// One page for the program to stdout, or one a command into a folder.
pub fn pages(folder: Option<&Path>, program: Command, session: &Session) -> Result<Exit, Diagnostic> {
    let Some(folder) = folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(program).render(&mut page).map_err(Diagnostic::unexpected)?;
        return session.printer.data(&String::from_utf8_lossy(&page));
    };
    std::fs::create_dir_all(folder).map_err(|error| Diagnostic::file(folder, &error))?;
    clap_mangen::generate_to(program, folder).map_err(|error| Diagnostic::file(folder, &error))?;
    session.printer.note(&format!("wrote the manual pages into {}", folder.display()));
    Ok(Exit::Done)
}
