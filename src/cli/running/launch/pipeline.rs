//! Commands whose exit code says nothing of the training, as `train.py | tee train.log`: what the agent mends on the machine is said, what it
//! cannot is refused before anything is rented.

use std::path::Path;

use crate::session::diagnostic::Diagnostic;
use crate::session::printer::Printer;
use gpuplan_agent::process::shell::piped;
use gpuplan_agent::rules::pipeline::{Hidden, Obstacle};

/// `folder`: that of the job, if it is sent.
///
/// # Errors
/// Where a run would count as completed although its program failed, and `pipefail` alone does not change that.
pub fn check(command: &[String], folder: Option<&Path>, printer: &Printer) -> Result<(), Diagnostic> {
    let Some(piped) = piped(command, folder.unwrap_or(Path::new("."))) else { return Ok(()) };
    let Hidden { line, obstacle } = piped.hidden;
    match obstacle {
        None => {
            printer.note(&format!(
                "`{line}`: on the machine its shell is started with `-o pipefail`, so that the run fails where the program does, and not only where the last part does"
            ));
            Ok(())
        }
        Some(Obstacle::GoesOn) => Err(Diagnostic::usage(format!(
            "the run would count as completed even if `{line}` failed: the script goes on after it and ends as its last command does"
        ))
        .hint("`set -eo pipefail` as the first command, with bash, ends it there")),
        Some(Obstacle::Fails(other)) => Err(Diagnostic::usage(format!(
            "the run would count as completed even if `{line}` failed; with `pipefail` it would not, but the script might end at `{other}`"
        ))
        .hint("`set -o pipefail` before the one and `set +o pipefail` before the other settle it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_would_always_be_completed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let checked = |text: &str| {
            std::fs::write(folder.path().join("run.sh"), text).unwrap();
            check(&["bash", "run.sh"].map(str::to_owned), Some(folder.path()), &Printer::default())
        };
        assert!(checked("cd x\npython a.py 2>&1 | tee log\n").is_ok(), "the agent sees to it");
        assert!(checked("set -eo pipefail\npython a.py | tee log\necho done\n").is_ok());
        let goes_on = checked("python a.py | tee log\necho done\n").unwrap_err();
        assert!(goes_on.message.contains("`python a.py | tee log`") && goes_on.hints[0].contains("set -eo pipefail"));
        let fails = checked("set -e\nN=$(ls | head -n 1)\npython a.py | tee log\n").unwrap_err();
        assert!(fails.message.contains("`N=$(ls | head -n 1)`"), "{}", fails.message);
    }
}
