//! Shell scripts, read without running anything: the commands that a script would start, with variables, arrays, defaults, arithmetic,
//! conditions, here-documents and sourced files expanded as far as the script says them.
//!
//! What is not known stays as it is written (`$NAME`, `$(command)`): a text with a `$` is unknown, never empty.

mod arithmetic;
mod condition;
mod expand;
mod lex;
mod pattern;
mod run;
mod shape;
mod shells;
mod substitute;
mod tests;
mod tree;
mod variables;

use shlex::Shlex;

pub use expand::is_unknown;
pub use run::{Command, LONGEST_SCRIPT, MOST_COMMANDS, Script};

/// Words of one line without their quotes. `None`: a quote is never closed.
pub fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Shlex::new(line);
    let all: Vec<String> = words.by_ref().collect();
    (!words.had_error).then_some(all)
}
