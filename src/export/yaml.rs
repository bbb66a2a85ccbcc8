//! YAML of what exports write: block style, long commands on one line, texts of several lines as literal blocks.

use serde_json::Value;
use serde_saphyr::SerializerOptions;

/// One document.
pub fn document(value: &Value) -> String {
    serde_saphyr::to_string_with_options(value, options())
        .expect("JSON values have a YAML form and strings take any text")
}

/// Several documents of one file.
pub fn documents(values: &[Value]) -> String {
    values.iter().map(document).collect::<Vec<_>>().join("---\n")
}

fn options() -> SerializerOptions {
    serde_saphyr::ser_options! {
        compact_list_indent: false,
        // A command is searched for and copied as one line.
        folded_wrap_chars: usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn maps_lists_and_blocks_read_as_people_write_them() {
        let value = json!({
            "name": "a-b", "count": 8, "is": true, "empty": {}, "none": [],
            "list": [{"key": "one", "values": [75]}, "two"],
            "run": "first\n\n  second\n", "tail": "a\nb", "long": "word ".repeat(60).trim_end(),
        });
        let long = format!("long: {}\n", "word ".repeat(60).trim_end());
        let wanted = "name: a-b\ncount: 8\nis: true\nempty: {}\nnone: []\nlist:\n  - key: one\n    values:\n      - 75\n  - two\n\
            run: |\n  first\n\n    second\ntail: |-\n  a\n  b\n"
            .to_owned()
            + &long;
        assert_eq!(document(&value), wanted);
    }

    #[test]
    fn a_text_stays_a_text_and_keeps_its_spaces() {
        for text in ["yes", "No", "75", "1e3", "12:30", "a: b", "- a", "a #b", "*", "", "null", "a ", "  a\nb", "a\n\n"]
        {
            let value = json!({ "text": text, "list": [text] });
            let read: Value = serde_saphyr::from_str(&document(&value)).unwrap();
            assert_eq!(read, value, "{text:?}");
        }
        for text in ["yes", "No", "75", "1e3", "12:30", "null"] {
            assert!(!document(&json!({ "text": text })).contains(&format!(" {text}\n")), "{text} needs quotes");
        }
    }
}
