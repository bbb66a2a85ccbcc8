//! Words of a line of shell, as far as a job script needs them: quotes, escapes, comments, lines that go on.

/// Lines, with those joined that end in a backslash.
pub fn lines(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut open = String::new();
    for line in text.lines() {
        match line.strip_suffix('\\') {
            Some(begun) => {
                open.push_str(begun);
                open.push(' ');
            }
            None => {
                open.push_str(line);
                all.push(std::mem::take(&mut open));
            }
        }
    }
    if !open.is_empty() {
        all.push(open);
    }
    all
}

/// Words of one line, without their quotes; a comment ends it. Nothing is expanded.
pub fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_open) = (Vec::new(), String::new(), false);
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(c) = letters.next() {
        match (quote, c) {
            (Some(mark), c) if c == mark => quote = None,
            (Some('"') | None, '\\') => word.extend(letters.next()),
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => (quote, is_open) = (Some(c), true),
            (None, '#') if word.is_empty() && !is_open => break,
            (None, c) if c.is_whitespace() => {
                if is_open || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                is_open = false;
            }
            (None, c) => word.push(c),
        }
    }
    if is_open || !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        assert_eq!(split("a  'b c' \"d \\\" e\" f\\ g h'i'j '' # k"), ["a", "b c", "d \" e", "f g", "hij", ""]);
        assert_eq!(split("--x=a#b"), ["--x=a#b"]);
        assert!(split(" # only a comment").is_empty());
        assert_eq!(lines("a \\\n  b\nc\\"), ["a    b", "c "]);
    }
}
