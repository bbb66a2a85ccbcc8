//! `[ ... ]`, `[[ ... ]]` and `test`: what they ask, as far as the script says it.

use super::expand::is_unknown;
use super::pattern::covers;

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
