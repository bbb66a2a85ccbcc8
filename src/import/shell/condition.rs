//! `[ ... ]`, `[[ ... ]]` and `test`: what they ask, as far as the script says it.

use super::expand::is_unknown;
use super::pattern::covers;

/// `echo "$ARGS" | grep -q -- --flag`: whether a printed text has a pattern without wildcards in it. `None`: it asks something else, or a part of
/// the text is not known.
pub fn finds(printed: &[String], search: &[String]) -> Option<bool> {
    let (("echo", text), ("grep", rest)) = (named(printed)?, named(search)?) else { return None };
    let count = rest.iter().take_while(|word| word.starts_with('-') && *word != "--").count();
    let (options, rest) = rest.split_at(count);
    let options = options.concat();
    let pattern = match rest {
        [pattern] => pattern,
        [end, pattern] if end == "--" => pattern,
        _ => return None,
    };
    let is_plain = options.contains('F') || !pattern.contains(['.', '*', '[', '^', '$', '\\', '+', '?', '|', '(', '{']);
    let is_asked = options.contains('q') && options.chars().all(|letter| "-qFE".contains(letter));
    let text = text.join(" ");
    let is_found = text.contains(pattern.as_str());
    (is_asked && is_plain && (is_found || !is_unknown(&text))).then_some(is_found)
}

fn named(words: &[String]) -> Option<(&str, &[String])> {
    words.split_first().map(|(name, rest)| (name.as_str(), rest))
}

/// A test. `None`: what it asks is not known.
pub fn holds(words: &[String]) -> Option<bool> {
    let inner: Vec<&str> = words[1..].iter().map(String::as_str).filter(|word| !matches!(*word, "]" | "]]")).collect();
    let (is_negated, inner) = match inner.split_first() {
        Some((&"!", rest)) => (true, rest.to_vec()),
        _ => (false, inner),
    };
    // No arguments are given.
    let number = |text: &str| if text == "$#" { Some(0) } else { text.parse::<i64>().ok() };
    let holds = match inner.as_slice() {
        [one, "==" | "=", other] if !is_unknown(one) && !is_unknown(other) => Some(covers(other, one)),
        [one, "!=", other] if !is_unknown(one) && !is_unknown(other) => Some(!covers(other, one)),
        ["-z", one] if !is_unknown(one) => Some(one.is_empty()),
        ["-n", one] if !is_unknown(one) => Some(!one.is_empty()),
        ["-z"] => Some(true),
        ["-n"] => Some(false),
        [one, comparison, other] => {
            let (one, other) = (number(one)?, number(other)?);
            match *comparison {
                "-eq" => Some(one == other),
                "-ne" => Some(one != other),
                "-gt" => Some(one > other),
                "-ge" => Some(one >= other),
                "-lt" => Some(one < other),
                "-le" => Some(one <= other),
                _ => None,
            }
        }
        _ => None,
    };
    holds.map(|holds| holds != is_negated)
}
