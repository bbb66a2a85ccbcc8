//! Commands whose exit code says nothing of the training: in `train.py | tee train.log` it is that of tee, so a crash counts as completed.

use std::path::Path;

use crate::session::printer::Printer;

/// Scripts are shorter.
const LONGEST: u64 = 1 << 20;

/// Says what would count as completed.
pub fn warn(command: &[String], folder: Option<&Path>, printer: &Printer) {
    if let Some(line) = hides_the_end(command, folder) {
        printer.warning(&format!(
            "the exit code of `{line}` is that of tee, so a program that fails counts as completed; `set -o pipefail` before it (bash) keeps its own"
        ));
    }
}

/// The first line of the command, or of a script that it runs, with a pipeline that hides how its program ended.
fn hides_the_end(command: &[String], folder: Option<&Path>) -> Option<String> {
    let folder = folder.unwrap_or(Path::new("."));
    let script = |word: &String| {
        let path = folder.join(word);
        let is_script = path.extension().is_some_and(|end| end == "sh");
        // What cannot be read is refused elsewhere, or is not here.
        let is_short = is_script && path.metadata().is_ok_and(|about| about.len() <= LONGEST);
        is_short.then(|| std::fs::read_to_string(path).ok())?
    };
    let inline = command
        .windows(2)
        .filter(|pair| pair[0].starts_with('-') && pair[0].ends_with('c'))
        .map(|pair| pair[1].clone());
    inline.chain(command.iter().filter_map(script)).find_map(|text| hidden_in(&text))
}

fn hidden_in(text: &str) -> Option<String> {
    if text.contains("pipefail") || text.contains("PIPESTATUS") {
        return None;
    }
    // A continued line is one.
    let text = text.replace("\\\n", " ");
    let mut lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.find(|line| line.split('|').skip(1).any(|part| part.split_whitespace().next() == Some("tee"))).map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.join(" ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_into_tee_is_found_unless_the_shell_was_told() {
        let folder = tempfile::tempdir().unwrap();
        let hides = |text: &str| {
            std::fs::write(folder.path().join("run.sh"), text).unwrap();
            hides_the_end(&["bash".to_owned(), "run.sh".to_owned()], Some(folder.path()))
        };
        assert_eq!(
            hides("set -e\npython a.py \\\n  --x 1 2>&1 | tee -a log\n").as_deref(),
            Some("python a.py --x 1 2>&1 | tee -a log")
        );
        for fine in [
            "set -eo pipefail\na | tee log\n",
            "a | tee log\nexit ${PIPESTATUS[0]}\n",
            "# a | tee log\n",
            "a || teehee\n",
            "a > log\n",
        ] {
            assert_eq!(hides(fine), None, "{fine}");
        }
        let inline = ["sh", "-c", "train | tee log"].map(str::to_owned);
        assert_eq!(hides_the_end(&inline, None).as_deref(), Some("train | tee log"));
        assert_eq!(hides_the_end(&["python".to_owned(), "none.sh".to_owned()], None), None);
    }
}
