//! The question of a command line, to be asked again by another command.

/// Flags of `plan` and of the session that change only what is shown, with their values.
const SHOWN_WITH: [&str; 6] = ["-o", "--output", "--max-results", "--now", "--seed", "--color"];
const SHOWN: [&str; 2] = ["--details", "--offline"];

/// The words after the command, quoted for a shell, without those that only say how the answer is shown.
pub fn question(words: impl IntoIterator<Item = String>, command: &str) -> String {
    let mut words = words.into_iter().skip_while(|word| word != command).skip(1);
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        if SHOWN_WITH.contains(&word.as_str()) {
            words.next();
        } else if !SHOWN.contains(&word.as_str())
            && !SHOWN_WITH.iter().any(|flag| word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')))
        {
            kept.push(quoted(word));
        }
    }
    kept.join(" ")
}

fn quoted(word: String) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_changes_the_answer_s_looks_is_left_out() {
        let asked = |line: &str| question(line.split(' ').map(str::to_owned), "plan");
        assert_eq!(asked("gpuplan --color never plan a.toml --gpus H100:8 --details"), "a.toml --gpus H100:8");
        assert_eq!(asked("gpuplan plan --model gpt-2 -o json --max-results=3 --now T"), "--model gpt-2");
        let words = ["gpuplan", "plan", "my file.toml", "--gpus", "24GB+;H100"].map(str::to_owned);
        assert_eq!(question(words, "plan"), "'my file.toml' --gpus '24GB+;H100'");
    }
}
