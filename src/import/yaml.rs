//! YAML as values: the only place that knows the parser.

use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;

use crate::ImportError;

/// Every document of a file. What is too deep or too large is refused. Of a key that is said twice the last counts, as in PyYAML, by which
/// most training programs and engines read.
pub fn documents(text: &str) -> Result<Vec<Value>, ImportError> {
    let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let message = error.without_snippet().to_string();
        ImportError::Yaml(message.lines().next().unwrap_or_default().to_owned())
    })
}

/// A value as it is written: `true` and `8` without quotes are texts as well.
pub fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_file_is_its_documents_and_what_is_malformed_is_refused() {
        let read = documents("a: 8+\nb: [1, 2.5]\n---\nc: true\nd: \"7\"\n").unwrap();
        assert_eq!(read, [json!({ "a": "8+", "b": [1, 2.5] }), json!({ "c": true, "d": "7" })]);
        assert_eq!(documents("a: 1\nb: 3\na: 2\n").unwrap(), [json!({ "a": 2, "b": 3 })]);
        for text in ["a: [", "a: *nobody"] {
            assert!(matches!(documents(text), Err(ImportError::Yaml(why)) if !why.is_empty()), "{text}");
        }
        assert!(documents(&"[".repeat(100_000)).is_err());
    }
}
