//! Patterns of the shell: `*`, `?` and letters.

/// Whether a pattern covers a whole text.
pub fn covers(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    // Where the pattern may be after each letter; one row at a time.
    let mut row = vec![false; pattern.len() + 1];
    row[0] = true;
    for (at, letter) in pattern.iter().enumerate() {
        row[at + 1] = row[at] && *letter == '*';
    }
    for letter in text {
        let mut next = vec![false; pattern.len() + 1];
        for (at, wanted) in pattern.iter().enumerate() {
            next[at + 1] = match wanted {
                '*' => next[at] || row[at + 1],
                '?' => row[at],
                wanted => row[at] && *wanted == letter,
            };
        }
        row = next;
    }
    row[pattern.len()]
}

/// A text without the beginning that a pattern covers: the longest such, or the shortest.
pub fn without_start(text: &str, pattern: &str, is_longest: bool) -> String {
    let mut ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    if is_longest {
        ends.reverse();
    }
    let end = ends.into_iter().find(|end| covers(pattern, &text[..*end])).unwrap_or(0);
    text[end..].to_owned()
}

/// The same at the end.
pub fn without_end(text: &str, pattern: &str, is_longest: bool) -> String {
    let mut starts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    if !is_longest {
        starts.reverse();
    }
    let start = starts.into_iter().find(|start| covers(pattern, &text[*start..])).unwrap_or(text.len());
    text[..start].to_owned()
}
