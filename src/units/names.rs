//! Finding things by the names people use, and suggesting the nearest one; the words of enumerations.

use std::fmt;

use serde::Serialize;

/// The known name nearest to `wanted`, if it is near enough to be meant.
pub fn did_you_mean<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = plain(wanted);
    if wanted.is_empty() {
        return None;
    }
    let alike = look_alike(&wanted);
    known
        .into_iter()
        .map(|name| {
            let candidate = plain(name);
            let near = strsim::jaro_winkler(&wanted, &candidate) + if candidate.contains(&wanted) { 0.15 } else { 0.0 };
            let is_alike = alike == look_alike(&candidate);
            (if is_alike { near.max(0.99) } else { near }, name)
        })
        .filter(|(score, _)| *score > 0.78)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// Lower case without the separators that people vary: `RTX-4090`, `rtx 4090` and `RTX4090` are one name.
pub fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// How alike two names are, from 0 to 1, whatever their separators.
pub fn similarity(one: &str, other: &str) -> f64 {
    strsim::jaro_winkler(&plain(one), &plain(other))
}

/// One character for those that look the same: `H1OO` is typed for `H100`.
fn look_alike(plain: &str) -> String {
    plain.replace('o', "0").replace(['l', 'i'], "1")
}

/// The word of an enumeration's variant as files write it, such as `full-fine-tune`. A variant with fields has none, and panics.
pub fn word(variant: impl Serialize) -> String {
    struct Word<T>(T);
    impl<T: Serialize> fmt::Display for Word<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.serialize(f)
        }
    }
    Word(variant).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_has_the_word_of_its_file() {
        #[derive(Serialize)]
        #[serde(rename_all = "kebab-case")]
        enum Task {
            FullFineTune,
        }
        assert_eq!(word(Task::FullFineTune), "full-fine-tune");
    }

    #[test]
    fn a_slip_of_the_keyboard_is_understood_and_nonsense_is_not() {
        let known = ["H100", "A100", "L40S", "RTX-4090"];
        assert_eq!(did_you_mean("h10", known), Some("H100"));
        assert_eq!(did_you_mean("rtx4900", known), Some("RTX-4090"));
        assert_eq!(did_you_mean("H1OO", known), Some("H100"));
        assert_eq!((did_you_mean("zzz", known), did_you_mean("", known), did_you_mean("-", known)), (None, None, None));
    }
}
