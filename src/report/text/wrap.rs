//! Lines as long as the terminal is wide.

/// Breaks at spaces so that no line passes `width`; later lines start with `indent`.
pub fn wrap(text: &str, width: u16, indent: &str) -> String {
    let width = usize::from(width);
    let lead: String = text.chars().take_while(|c| *c == ' ').collect();
    let mut lines = Vec::new();
    let mut line = lead;
    let mut empty = true;
    // Runs of spaces inside the text stay: they align the columns of a row.
    for word in split_keeping_gaps(text.trim_start()) {
        if !empty && line.chars().count() + word.trim_end().chars().count() > width {
            lines.push(line.trim_end().to_owned());
            indent.clone_into(&mut line);
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line.trim_end().to_owned());
    lines.join("\n")
}

/// Words with the spaces that follow them.
fn split_keeping_gaps(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let word = rest.find(' ').unwrap_or(rest.len());
        let gap = rest[word..].find(|c| c != ' ').map_or(rest.len(), |gap| word + gap);
        let (taken, left) = rest.split_at(gap);
        rest = left;
        Some(taken)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_break_at_spaces_and_keep_their_gaps() {
        assert_eq!(
            wrap("  cost      one two three", 18, "            "),
            "  cost      one\n            two\n            three"
        );
        assert_eq!(wrap("short", 80, "  "), "short");
    }
}
