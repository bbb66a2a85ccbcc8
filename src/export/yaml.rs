//! A YAML writer for what exports need: maps, lists, numbers, texts; texts of several lines as blocks.

use serde_json::Value;

/// One document in block style.
pub fn document(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text
}

/// Several documents of one file.
pub fn documents(values: &[Value]) -> String {
    values.iter().map(document).collect::<Vec<_>>().join("---\n")
}

/// A map or a list, each entry on a line of its own, at this depth.
fn block(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                text.push_str(&format!("{}{}:", "  ".repeat(depth), scalar(key)));
                entry(inner, depth, text);
            }
        }
        Value::Array(items) => {
            for item in items {
                let dash = format!("{}-", "  ".repeat(depth));
                match item {
                    Value::Object(map) if !map.is_empty() => {
                        let mut inner = String::new();
                        block(item, depth + 1, &mut inner);
                        // The first line starts behind the dash.
                        text.push_str(&format!("{dash} {}", inner.trim_start()));
                    }
                    _ => {
                        text.push_str(&dash);
                        entry(item, depth, text);
                    }
                }
            }
        }
        _ => {}
    }
}

/// What follows a key or a dash.
fn entry(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(map) if map.is_empty() => text.push_str(" {}\n"),
        Value::Array(items) if items.is_empty() => text.push_str(" []\n"),
        Value::Object(_) | Value::Array(_) => {
            text.push('\n');
            block(value, depth + 1, text);
        }
        Value::String(lines) if lines.contains('\n') => {
            text.push_str(if lines.ends_with('\n') { " |\n" } else { " |-\n" });
            for line in lines.lines() {
                let indent = if line.is_empty() { String::new() } else { "  ".repeat(depth + 1) };
                text.push_str(&format!("{indent}{line}\n"));
            }
        }
        Value::String(one) => text.push_str(&format!(" {}\n", scalar(one))),
        other => text.push_str(&format!(" {other}\n")),
    }
}

/// A text without quotes where nobody can take it for anything else, otherwise as a JSON string, which YAML reads too.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-= $@,+".contains(c);
    let starts_well =
        text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '$') && !text.ends_with(' ');
    let is_address = text.split_once("://").is_some_and(|(scheme, rest)| {
        scheme.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()) && rest.chars().all(plain)
    });
    let means_more =
        ["true", "false", "yes", "no", "on", "off", "null", "y", "n"].contains(&text.to_ascii_lowercase().as_str());
    if starts_well && !means_more && (text.chars().all(plain) || is_address) {
        text.to_owned()
    } else {
        Value::from(text).to_string()
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
            "list": [{"key": "one", "values": [75]}, "two", ["x"]],
            "run": "first\n\n  second\n", "tail": "a\nb",
        });
        let wanted = "name: a-b\ncount: 8\nis: true\nempty: {}\nnone: []\nlist:\n  - key: one\n    values:\n      - 75\n  - two\n  -\n    - x\n\
            run: |\n  first\n\n    second\ntail: |-\n  a\n  b\n";
        assert_eq!(document(&value), wanted);
    }

    #[test]
    fn what_could_be_taken_for_something_else_is_quoted() {
        for text in ["yes", "No", "true", "75", "1e3", "a: b", "- a", "a #b", "*", "", "55.04", "null", "a ", "a:1"] {
            assert_eq!(scalar(text), Value::from(text).to_string(), "{text}");
        }
        for text in ["H100", "/tmp/x", "s3://bucket/x", "topology.kubernetes.io/region", "$(X)x"] {
            let is_plain = scalar(text) == text;
            assert_eq!(is_plain, text != "$(X)x", "{text}");
        }
    }
}
