//! Resources: the schemas of what the tools read and answer, and the pages of the manual that explain them.

use serde_json::{Value, json};

const HOME: &str = "gpuplan://";

const JSON_SCHEMA: &str = "application/schema+json";
const MARKDOWN: &str = "text/markdown";

/// Path below `HOME`, what it is, its type, its text.
type Resource = (&'static str, &'static str, &'static str, &'static str);

const RESOURCES: [Resource; 14] = [
    (
        "schema/workload-file",
        "Every key of a workload file",
        JSON_SCHEMA,
        include_str!("../../../docs/schema/workload-file.json"),
    ),
    (
        "schema/portfolio-file",
        "Every key of a portfolio",
        JSON_SCHEMA,
        include_str!("../../../docs/schema/portfolio-file.json"),
    ),
    ("schema/plan", "Answer of `plan`", JSON_SCHEMA, include_str!("../../../docs/schema/plan.json")),
    ("schema/explain", "Answer of `explain`", JSON_SCHEMA, include_str!("../../../docs/schema/explain.json")),
    ("schema/estimate", "Answer of `estimate`", JSON_SCHEMA, include_str!("../../../docs/schema/estimate.json")),
    ("schema/prices", "Answer of `prices`", JSON_SCHEMA, include_str!("../../../docs/schema/prices.json")),
    ("schema/budget", "Answer of `budget`", JSON_SCHEMA, include_str!("../../../docs/schema/budget.json")),
    ("schema/status", "Answer of `status`", JSON_SCHEMA, include_str!("../../../docs/schema/status.json")),
    ("schema/error", "An error of any tool", JSON_SCHEMA, include_str!("../../../docs/schema/error.json")),
    ("docs/planning", "How a plan is chosen", MARKDOWN, include_str!("../../../docs/planning.md")),
    ("docs/prices", "Where prices come from", MARKDOWN, include_str!("../../../docs/prices.md")),
    ("docs/risk", "Spot machines and their risk", MARKDOWN, include_str!("../../../docs/risk.md")),
    ("docs/finance", "Budgets and costs", MARKDOWN, include_str!("../../../docs/finance.md")),
    ("docs/launch", "What a launch does", MARKDOWN, include_str!("../../../docs/launch.md")),
];

pub fn listed() -> Vec<Value> {
    let listed = |(path, title, kind, text): &Resource| json!({"uri": format!("{HOME}{path}"), "name": path, "title": title, "mimeType": kind, "size": text.len()});
    RESOURCES.iter().map(listed).collect()
}

pub fn read(uri: &str) -> Option<Value> {
    let path = uri.strip_prefix(HOME)?;
    let (_, _, kind, text) = RESOURCES.iter().find(|(known, ..)| *known == path)?;
    Some(json!({"uri": uri, "mimeType": kind, "text": text}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listed_can_be_read_and_nothing_else() {
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
