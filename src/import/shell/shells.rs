//! What a shell is told to run: a text behind `-c`, or a file.

pub fn is_shell(word: &str) -> bool {
    matches!(word.rsplit('/').next().unwrap_or(word), "sh" | "bash" | "dash" | "ksh" | "zsh")
}

/// What a shell gets behind `-c`, and what tmux (tmux(1), new-session and send-keys) and ssh start one with.
pub fn inner_script(words: &[String]) -> Option<String> {
    let is_session = |word: &String| matches!(word.as_str(), "new-session" | "new" | "send-keys" | "send");
    let is_tmux = words.first().is_some_and(|name| name == "tmux") && words.get(1).is_some_and(is_session);
    if is_tmux || words.first().is_some_and(|name| name == "ssh" || name == "pdsh") {
        return words[1..]
            .iter()
            .filter(|word| word.contains(char::is_whitespace))
            .max_by_key(|word| word.len())
            .cloned();
    }
    let shell = words.iter().position(|word| is_shell(word))?;
    let is_flag = |word: &String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
    let flag = shell + words[shell..].iter().position(is_flag)?;
    (flag + 1..words.len()).find(|at| words[*at] != "--").map(|at| words[at].clone())
}

/// The file that a shell is told to run.
pub fn script_file(words: &[String]) -> Option<&str> {
    let shell = words.iter().position(|word| is_shell(word))?;
    let file = words.get(shell + 1..)?.iter().find(|word| !word.starts_with('-'))?;
    let is_script = [".sh", ".bash", ".slurm", ".sbatch"].iter().any(|end| file.ends_with(end));
    is_script.then_some(file.as_str())
}
