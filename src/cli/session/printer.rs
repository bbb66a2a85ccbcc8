//! `Printer`: the only place that writes to the terminal. Data to stdout, messages to stderr; a closed pipe is no error.

use std::ffi::OsString;
use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use crate::session::diagnostic::{Diagnostic, Exit};

#[derive(Clone, Copy, Debug, Default)]
pub struct Printer {
    has_json_errors: bool,
}

impl Printer {
    /// Errors are JSON where the answer is.
    pub fn new(has_json_errors: bool) -> Self {
        Self { has_json_errors }
    }

    /// For errors in the arguments themselves: what they say of `--output`, before they are read.
    pub fn of_arguments(arguments: impl Iterator<Item = OsString>) -> Self {
        let words: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
        // What follows is a command of the user's own.
        let own = words.split(|word| word == "--").next().unwrap_or_default();
        let is_pair = |pair: &[String]| ["-o", "--output"].contains(&pair[0].as_str()) && pair[1] == "json";
        let is_one = |word: &String| ["-ojson", "-o=json", "--output=json"].contains(&word.as_str());
        Self::new(own.windows(2).any(is_pair) || own.iter().any(is_one))
    }

    /// Data. A reader that went away has what it wanted.
    pub fn data(&self, text: &str) -> Result<Exit, Diagnostic> {
        let mut out = io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        match written {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Diagnostic::unexpected(&error)),
            _ => Ok(Exit::Done),
        }
    }

    /// Output of a command that is run, as it comes: to stdout, or to stderr. A closed stream loses it.
    pub fn pass(&self, bytes: &[u8], is_error: bool) {
        let _ = if is_error {
            io::stderr().write_all(bytes)
        } else {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        };
    }

    /// A line for people. Where stderr is closed nobody reads it.
    pub fn note(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{text}");
    }

    pub fn warning(&self, text: &str) {
        self.note(&format!("warning: {text}"));
    }

    /// The last word of a call that failed, and its exit code.
    pub fn diagnostic(&self, diagnostic: &Diagnostic) -> ExitCode {
        let text = if self.has_json_errors { diagnostic.json() } else { diagnostic.text() };
        let _ = write!(io::stderr(), "{text}");
        diagnostic.exit.into()
    }

    /// Help and version go to stdout, usage errors to stderr, as clap decides.
    pub fn clap(&self, error: &clap::Error) -> ExitCode {
        if error.use_stderr() && self.has_json_errors {
            return self.diagnostic(&Diagnostic::of_arguments(error));
        }
        let _ = error.print();
        if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() }
    }

    pub fn stderr_is_terminal(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// Asks whether to go on, unless `yes` was given; `hint` is the same command with it.
    pub fn confirm(&self, yes: bool, hint: &str) -> Result<(), Diagnostic> {
        if yes {
            return Ok(());
        }
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Err(Diagnostic::usage("this needs a yes, and no terminal is there to ask").hint(hint));
        }
        self.note("Continue? [y/N]");
        let mut line = String::new();
        stdin.lock().read_line(&mut line).map_err(Diagnostic::unexpected)?;
        if ["y", "yes"].contains(&line.trim().to_ascii_lowercase().as_str()) {
            Ok(())
        } else {
            Err(Diagnostic::usage("nothing was done"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_arguments_are_told_as_json_where_json_was_asked_for() {
        let is_json = |line: &str| Printer::of_arguments(line.split(' ').map(OsString::from)).has_json_errors;
        for line in ["gpuplan plan -o json --modell x", "gpuplan --output=json fly", "gpuplan fly -ojson"] {
            assert!(is_json(line), "{line}");
        }
        for line in ["gpuplan fly", "gpuplan plan -o csv", "gpuplan agent --stor x -- train -o json"] {
            assert!(!is_json(line), "{line}");
        }
    }
}
