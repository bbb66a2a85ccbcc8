//! JSON as Python writes it: `json.dump` puts `Infinity` and `NaN` where a number is, which JSON does not know.

const WORDS: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];

/// The same text with those words as `null`, outside of strings.
pub(super) fn to_json(text: Vec<u8>) -> Vec<u8> {
    if !WORDS.iter().any(|word| text.windows(word.len()).any(|part| part == *word)) {
        return text;
    }
    let (mut made, mut at, mut is_string) = (Vec::with_capacity(text.len()), 0, false);
    while let Some(byte) = text.get(at) {
        let word = WORDS.iter().find(|word| !is_string && text.get(at..).is_some_and(|rest| rest.starts_with(word)));
        if let Some(word) = word {
            made.extend_from_slice(b"null");
            at += word.len();
            continue;
        }
        made.push(*byte);
        at += 1;
        match (byte, is_string) {
            // What an escape stands before is no end of the string.
            (b'\\', true) => {
                made.extend(text.get(at));
                at += 1;
            }
            (b'"', _) => is_string = !is_string,
            _ => {}
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::to_json;

    #[test]
    fn only_what_json_does_not_know_is_replaced() {
        for (text, made) in [
            (
                r#"{"time_step_limit": [0.0, Infinity], "low": -Infinity}"#,
                r#"{"time_step_limit": [0.0, null], "low": null}"#,
            ),
            (r#"{"a": NaN, "NaN": "Infinity", "b\"": "\"NaN"}"#, r#"{"a": null, "NaN": "Infinity", "b\"": "\"NaN"}"#),
            (r#"{"a": 1}"#, r#"{"a": 1}"#),
        ] {
            assert_eq!(String::from_utf8(to_json(text.into())).unwrap(), made);
        }
    }
}
