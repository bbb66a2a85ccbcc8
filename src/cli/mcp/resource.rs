//! Resources: the schemas of what the tools read and answer, and the pages of the manual that explain them.

use serde_json::{Value, json};

use crate::mcp::pages::{PAGES, Page};

const HOME: &str = "gpuplan://";

/// In the order of `PAGES`.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pages.bin"));

fn texts() -> Vec<String> {
    let json = gpuplan_embedded::text(PACKED).expect("a test reads every packed page");
    serde_json::from_str(&json).expect("a test reads every packed page")
}

pub fn listed() -> Vec<Value> {
    let described = |(page, text): (&Page, String)| json!({"uri": format!("{HOME}{}", page.path), "name": page.path, "title": page.title, "mimeType": page.kind, "size": text.len()});
    PAGES.iter().zip(texts()).map(described).collect()
}

pub fn read(uri: &str) -> Option<Value> {
    let path = uri.strip_prefix(HOME)?;
    let (page, text) = PAGES.iter().zip(texts()).find(|(page, _)| page.path == path)?;
    Some(json!({"uri": uri, "mimeType": page.kind, "text": text}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::pages::JSON_SCHEMA;

    #[test]
    fn what_is_listed_can_be_read_and_nothing_else() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for page in PAGES {
            let text = std::fs::read_to_string(docs.join(page.file)).unwrap();
            assert_eq!(read(&format!("{HOME}{}", page.path)).unwrap()["text"], text, "{}", page.path);
        }
        for resource in listed() {
            let read = read(resource["uri"].as_str().unwrap()).unwrap();
            assert_eq!(resource["size"], read["text"].as_str().unwrap().len());
            if resource["mimeType"] == JSON_SCHEMA {
                let schema: Value = serde_json::from_str(read["text"].as_str().unwrap()).unwrap();
                assert!(schema["$schema"].is_string(), "{resource}");
            }
        }
        for uri in ["", "gpuplan://", "gpuplan://schema/../plan", "file:///etc/passwd", "gpuplan://docs/estimate.md"] {
            assert!(read(uri).is_none(), "{uri}");
        }
    }
}
