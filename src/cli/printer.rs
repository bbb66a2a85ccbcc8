//! `Printer`: the only place that writes to the terminal. Data to stdout, talk to stderr; a closed pipe is no error.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use crate::diagnostic::{Diagnostic, Exit};

#[derive(Clone, Copy, Debug, Default)]
pub struct Printer;

impl Printer {
    /// Data. A reader that went away has what it wanted.
    pub fn data(&self, text: &str) -> Result<Exit, Diagnostic> {
        let mut out = io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        match written {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Diagnostic::unexpected(&error)),
            _ => Ok(Exit::Done),
        }
    }

    /// Output of a command that is run, as it comes: to stdout, or to stderr. Where nobody listens it is lost, as it would be.
    pub fn pass(&self, bytes: &[u8], is_error: bool) {
        let _ = if is_error {
            io::stderr().write_all(bytes)
        } else {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        };
    }

    /// Talk. Where stderr is closed there is nobody to tell.
    pub fn note(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{text}");
    }

    pub fn warning(&self, text: &str) {
        self.note(&format!("warning: {text}"));
    }

    /// What another program wrote, as it is.
    pub fn pass_out(&self, bytes: &[u8]) {
        let mut out = io::stdout().lock();
        let _ = out.write_all(bytes).and_then(|()| out.flush());
    }

    pub fn pass_err(&self, bytes: &[u8]) {
        let _ = io::stderr().write_all(bytes);
    }

    pub fn diagnostic(&self, diagnostic: &Diagnostic) {
        let _ = write!(io::stderr(), "{}", diagnostic.render());
    }

    pub fn stderr_is_terminal(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// Help and version go to stdout, usage errors to stderr, as clap decides.
    pub fn clap(&self, error: &clap::Error) -> ExitCode {
        let _ = error.print();
        ExitCode::from(if error.use_stderr() { Exit::Usage as u8 } else { Exit::Done as u8 })
    }
}
