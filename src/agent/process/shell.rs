//! Commands that are shells: where one has a pipeline that hides how its program ended, it is started with `pipefail`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::rules::pipeline::{Hidden, hidden_in};

/// Shells that may take `-o pipefail`. Not every `sh` does: dash learned it late.
const SHELLS: [&str; 6] = ["bash", "sh", "dash", "ash", "zsh", "ksh"];
/// What runs the rest of its words.
const CARRIERS: [&str; 9] = ["env", "nice", "ionice", "nohup", "numactl", "setsid", "stdbuf", "time", "timeout"];
/// What may stand in for a POSIX shell without `pipefail`: it is `sh` on many a system.
const STAND_IN: [&str; 2] = ["bash", "--posix"];
/// Long options with a word of their own.
const WITH_WORD: [&str; 2] = ["--rcfile", "--init-file"];
/// Scripts are shorter. Bytes.
const LONGEST: u64 = 1 << 20;

/// A command that runs a shell on a text, and what that text hides.
#[derive(Debug, PartialEq, Eq)]
pub struct Piped {
    pub hidden: Hidden,
    /// The whole command, the shell of a script's first line included.
    words: Vec<String>,
    /// Of the shell.
    at: usize,
    /// Where options of one letter may begin.
    options_at: usize,
}

/// `None`: it is no shell, or hides nothing that can be seen. `folder`: where it is started.
pub fn piped(command: &[String], folder: &Path) -> Option<Piped> {
    let words = with_interpreter(command, folder);
    let at = shell(&words)?;
    let rest = &words[at + 1..];
    let mut options_at = 0;
    while let Some(word) = rest.get(options_at).filter(|word| word.len() > 2 && word.starts_with("--")) {
        options_at += 1 + usize::from(WITH_WORD.contains(&word.as_str()));
    }
    let (mut is_inline, mut ends_at_failure) = (false, false);
    let mut next = options_at;
    while let Some(flags) = rest.get(next).and_then(|word| word.strip_prefix(['-', '+'])) {
        if flags.is_empty() || flags == "-" {
            next += 1;
            break;
        }
        let name = rest.get(next + 1).filter(|_| flags.ends_with(['o', 'O'])).map(String::as_str);
        if name == Some("pipefail") {
            return None;
        }
        is_inline |= flags.contains('c');
        ends_at_failure |= flags.contains('e') || name == Some("errexit");
        next += 1 + usize::from(name.is_some());
    }
    let named = rest.get(next)?;
    let text = if is_inline { named.clone() } else { script(&folder.join(named))? };
    let hidden = hidden_in(&text, ends_at_failure)?;
    Some(Piped { hidden, words, at, options_at: at + 1 + options_at })
}

impl Piped {
    /// The command by which the shell ends as the program in its pipeline does.
    ///
    /// # Errors
    /// If no shell of this machine can, in words.
    pub fn keeping_its_end(&self) -> Result<Vec<String>, String> {
        let own = vec![self.words[self.at].clone()];
        let stand_in = STAND_IN.map(str::to_owned).to_vec();
        let may_be_another = matches!(base(&own[0]), "sh" | "dash" | "ash");
        let shells = std::iter::once(own).chain(may_be_another.then_some(stand_in));
        let shell = shells.into_iter().find(|shell| knows_pipefail(shell)).ok_or_else(|| {
            format!(
                "the exit code of `{}` would be that of its last part, and no shell here knows `pipefail`: write its output to a file, or install bash",
                self.hidden.line
            )
        })?;
        let (before, rest) = (&self.words[..self.at], &self.words[self.options_at..]);
        let own_options = &self.words[self.at + 1..self.options_at];
        let told = ["-o", "pipefail"].map(str::to_owned);
        Ok([before, shell.as_slice(), own_options, told.as_slice(), rest].concat())
    }
}

/// As the kernel does for a script that is a command by itself.
fn with_interpreter(command: &[String], folder: &Path) -> Vec<String> {
    let line = command.first().filter(|word| word.contains('/')).and_then(|word| script(&folder.join(word)));
    let line = line.as_deref().and_then(|text| text.lines().next()?.strip_prefix("#!"));
    let interpreter = line.map(|line| line.split_whitespace().filter(|word| *word != "-S").map(str::to_owned));
    interpreter.into_iter().flatten().chain(command.iter().cloned()).collect()
}

/// Where the shell stands among the words: first, or behind what only carries it.
fn shell(words: &[String]) -> Option<usize> {
    let at = words.iter().position(|word| SHELLS.contains(&base(word)))?;
    (at == 0 || CARRIERS.contains(&base(&words[0]))).then_some(at)
}

fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// `None`: it cannot be read as a text, and is then no script either.
fn script(path: &Path) -> Option<String> {
    path.metadata().ok().filter(|about| about.is_file() && about.len() <= LONGEST)?;
    fs::read_to_string(path).ok()
}

fn knows_pipefail(shell: &[String]) -> bool {
    let asked = Command::new(&shell[0])
        .args(&shell[1..])
        .args(["-o", "pipefail", "-c", ":"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn words(text: &[&str]) -> Vec<String> {
        text.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn the_option_stands_where_the_shell_takes_it() {
        let here = Path::new(".");
        let told = |command: &[&str]| piped(&words(command), here).unwrap().keeping_its_end().unwrap().join(" ");
        assert_eq!(told(&["bash", "-c", "a | tee b"]), "bash -o pipefail -c a | tee b");
        assert_eq!(
            told(&["/bin/bash", "--norc", "-elc", "a | tee b", "x"]),
            "/bin/bash --norc -o pipefail -elc a | tee b x"
        );
        assert_eq!(
            told(&["env", "A=1", "bash", "--rcfile", "f", "-o", "errexit", "-c", "a | tee b"]),
            "env A=1 bash --rcfile f -o pipefail -o errexit -c a | tee b"
        );
        let by_sh = told(&["sh", "-c", "a | tee b"]);
        assert!(
            ["sh -o pipefail -c a | tee b", "bash --posix -o pipefail -c a | tee b"].contains(&by_sh.as_str()),
            "{by_sh}"
        );
        for other in [
            &["python", "run.py", "bash", "-c", "a | tee b"][..],
            &["bash", "-o", "pipefail", "-c", "a | tee b"],
            &["bash", "-euo", "pipefail", "-c", "a | tee b"],
            &["bash", "-c", "a > b"],
            &["bash"],
            &["bash", "none.sh"],
            &[],
        ] {
            assert_eq!(piped(&words(other), here), None, "{other:?}");
        }
    }

    #[test]
    fn a_script_is_read_and_run_as_its_first_line_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.sh");
        let told = |text: &str, command: &[&str]| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            piped(&words(command), folder.path()).map(|piped| piped.keeping_its_end().unwrap().join(" "))
        };
        let piped = "cd x\npython a.py | tee log\n";
        assert_eq!(told(piped, &["bash", "-x", "train.sh", "7"]).unwrap(), "bash -o pipefail -x train.sh 7");
        let script = format!("#!/usr/bin/env bash\n{piped}");
        assert_eq!(told(&script, &["./train.sh", "7"]).unwrap(), "/usr/bin/env bash -o pipefail ./train.sh 7");
        let script = format!("#!/bin/bash -e\n{piped}");
        assert_eq!(told(&script, &["./train.sh"]).unwrap(), "/bin/bash -o pipefail -e ./train.sh");
        assert_eq!(told("#!/usr/bin/env python3\nx = 1 | 2\n", &["./train.sh"]), None);
        assert_eq!(told("#!/bin/bash\npython a.py >log\n", &["./train.sh"]), None);
    }
}
