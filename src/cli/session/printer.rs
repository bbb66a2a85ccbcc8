//! `Printer`: the only place that writes to the terminal. Data to stdout, messages to stderr; a closed pipe is no error.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind as WrongArgument};

use crate::arguments::foreign::{gpus_given_apart, instead_of};
use crate::arguments::global::Verbosity;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_units::names::similarity;

/// Columns of the terminal that data goes to; `None` where it goes elsewhere.
pub fn terminal_width() -> Option<u16> {
    let out = io::stdout();
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Printer {
    has_json_errors: bool,
    verbosity: Verbosity,
}

impl Printer {
    /// Errors are JSON where the answer is.
    pub fn new(has_json_errors: bool) -> Self {
        Self { has_json_errors, verbosity: Verbosity::default() }
    }

    #[must_use]
    pub fn with_verbosity(self, verbosity: Verbosity) -> Self {
        Self { verbosity, ..self }
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
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(unwritten(&error)),
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
        if self.verbosity > Verbosity::Quiet {
            say(text);
        }
    }

    /// A line for people who want to know what the answer rests on.
    pub fn detail(&self, text: &str) {
        if self.verbosity == Verbosity::Verbose {
            say(&format!("gpuplan: {text}"));
        }
    }

    pub fn warning(&self, text: &str) {
        self.note(&format!("warning: {text}"));
    }

    /// The last word of a call that failed, and its exit code.
    pub fn diagnostic(&self, diagnostic: &Diagnostic) -> ExitCode {
        let text = if self.has_json_errors { diagnostic.json() } else { plain(&diagnostic.text()).into_owned() };
        let _ = write!(io::stderr(), "{text}");
        diagnostic.exit.into()
    }

    /// Help and version go to stdout, usage errors to stderr, as clap decides.
    pub fn clap(&self, error: &clap::Error) -> ExitCode {
        if error.use_stderr() && self.has_json_errors {
            return self.diagnostic(&Diagnostic::of_arguments(error));
        }
        match error.print() {
            Err(failed) if !error.use_stderr() && failed.kind() != ErrorKind::BrokenPipe => {
                self.diagnostic(&unwritten(&failed))
            }
            _ if error.use_stderr() => Exit::Usage.into(),
            _ => Exit::Done.into(),
        }
    }

    /// The same for the program's own arguments: a negative amount is taken for a flag, and the answer says so.
    pub fn wrong_arguments(&self, mut error: clap::Error, typed: impl Iterator<Item = OsString>) -> ExitCode {
        let words: Vec<String> = typed.map(|word| word.to_string_lossy().into_owned()).collect();
        // Text that was copied from a page may have one long dash for two short ones.
        let dashes = ['-', '\u{2013}', '\u{2014}'];
        let long = words.iter().skip(1).find(|word| word.starts_with(&dashes[1..]));
        if let Some(word) = long {
            let refused = format!("`{word}` begins with a long dash");
            return self.diagnostic(&Diagnostic::usage(refused).hint(format!("--{}", word.trim_start_matches(dashes))));
        }
        let unknown = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(flag)) if error.kind() == WrongArgument::UnknownArgument => Some(flag.as_str()),
            _ => None,
        };
        if let Some((flag, instead)) = unknown.and_then(|flag| Some((flag, instead_of(flag)?))) {
            return self.diagnostic(&Diagnostic::usage(format!("there is no flag `{flag}`")).hint(instead));
        }
        let apart = gpus_given_apart(&words).filter(|_| error.kind() == WrongArgument::ArgumentConflict);
        if let Some(value) = apart {
            let refused = "`--gpus` was given twice: one value holds the GPU and the count";
            return self.diagnostic(&Diagnostic::usage(refused).hint(format!("--gpus {value}")));
        }
        if let Some(instead) = instead_of("--nodes").filter(|_| lacks_a_job(&error, &words)) {
            let refused = "`--nodes` counts the machines of a job that --from reads";
            return self.diagnostic(&Diagnostic::usage(refused).hint(instead));
        }
        match negative_value(&words).filter(|_| error.kind() == WrongArgument::UnknownArgument) {
            Some((flag, value)) => {
                let meant = value.trim_start_matches('-');
                let refused = format!("`{value}` is not a valid value of {flag}: it must not be negative");
                self.diagnostic(&Diagnostic::usage(refused).hint(format!("{flag} {meant}")))
            }
            None => {
                if error.kind() == WrongArgument::UnknownArgument {
                    // That it could be passed after `--` as the name of a file helps nobody who meant a flag.
                    error.remove(ContextKind::Suggested);
                    if is_unlike(&error) {
                        error.remove(ContextKind::SuggestedArg);
                        error.remove(ContextKind::Usage);
                    }
                }
                self.clap(&error)
            }
        }
    }

    /// How the program is used, where it was called with nothing to do.
    pub fn usage(&self, help: &str) -> ExitCode {
        let _ = write!(io::stderr(), "{help}");
        Exit::Usage.into()
    }

    pub fn stdout_is_terminal() -> bool {
        io::stdout().is_terminal()
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
        say("Continue? [y/N]");
        let mut line = String::new();
        stdin.lock().read_line(&mut line).map_err(Diagnostic::unexpected)?;
        if ["y", "yes"].contains(&line.trim().to_ascii_lowercase().as_str()) {
            Ok(())
        } else {
            Err(Diagnostic::usage("nothing was done"))
        }
    }

    /// Asks for a value where a terminal is there to answer; an empty answer takes the example. `hint` states it without a question.
    pub fn ask(&self, question: &str, example: &str, hint: &str) -> Result<String, Diagnostic> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Err(Diagnostic::usage(format!("`{question}` is open, and no terminal is there to ask")).hint(hint));
        }
        say(&format!("{question} [{example}]"));
        let mut line = String::new();
        stdin.lock().read_line(&mut line).map_err(Diagnostic::unexpected)?;
        let answer = line.trim();
        Ok(if answer.is_empty() { example.to_owned() } else { answer.to_owned() })
    }
}

/// `--nodes` without a job that it could be about.
fn lacks_a_job(error: &clap::Error, words: &[String]) -> bool {
    error.kind() == WrongArgument::MissingRequiredArgument
        && words.iter().any(|word| word == "--nodes" || word.starts_with("--nodes="))
        && !words.iter().any(|word| word == "--from" || word.starts_with("--from="))
}

/// Flags this much alike are one, misspelt: `--gups` and `--gpus` are, `--max-hours` and `--max-nodes` are not.
const SAME_FLAG: f64 = 0.85;

fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{}", plain(text));
}

/// Without control characters: what an argument or a file says must not drive the terminal.
fn plain(text: &str) -> Cow<'_, str> {
    let is_control = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    text.chars().map(|c| if is_control(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// The answer could not be written: a full disk, or a device that takes nothing.
fn unwritten(error: &io::Error) -> Diagnostic {
    Diagnostic::unexpected(format!("cannot write the answer: {error}"))
        .hint("free some space, or write to another place")
}

/// Whether the flag that is suggested has little in common with the one that was typed: `--verbose` for `--zero-stage`.
fn is_unlike(error: &clap::Error) -> bool {
    let flag = |kind| match error.get(kind) {
        Some(ContextValue::String(flag)) => Some(flag.as_str()),
        _ => None,
    };
    let both = flag(ContextKind::InvalidArg).zip(flag(ContextKind::SuggestedArg));
    both.is_some_and(|(typed, near)| similarity(typed, near) < SAME_FLAG)
}

/// A flag followed by a negative amount, before the command of the user's own.
fn negative_value(words: &[String]) -> Option<(&str, &str)> {
    let own = words.split(|word| word == "--").next()?;
    let is_negative = |word: &str| {
        let rest = word.strip_prefix('-')?.trim_start_matches('$');
        rest.starts_with(|c: char| c.is_ascii_digit() || c == '.').then_some(())
    };
    let pair = own
        .windows(2)
        .find(|pair| pair[0].starts_with('-') && is_negative(&pair[0]).is_none() && is_negative(&pair[1]).is_some())?;
    Some((&pair[0], &pair[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_amount_is_found_beside_its_flag() {
        let found = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            negative_value(&words).map(|(flag, value)| format!("{flag} {value}"))
        };
        assert_eq!(found("gpuplan plan --tokens -50M").as_deref(), Some("--tokens -50M"));
        assert_eq!(found("gpuplan plan --budget -$3").as_deref(), Some("--budget -$3"));
        for line in ["gpuplan plan --modell x", "gpuplan plan -5", "gpuplan launch x -- train --lr -0.1"] {
            assert_eq!(found(line), None, "{line}");
        }
    }

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        assert_eq!(plain("a\u{1b}[31mred\nb"), "a\\u{1b}[31mred\nb");
    }

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
