//! The reference of the keys of input files (docs/book/keys.md), written from their JSON Schemas.
//!
//! `GPUPLAN_RENEW_BOOK=1 cargo test --test tests reach::keys` writes it again.

use std::collections::{BTreeMap, VecDeque};
use std::fs;

use serde_json::Value;

use super::book::RENEW;
use super::root;

const PAGE: &str = "docs/book/keys.md";
const FILES: [(&str, &str, &str); 4] = [
    (
        "workload-file",
        "A workload file",
        "What to run, for `plan`, `estimate`, `launch`. `--set section.key=value` states any key on the command line.",
    ),
    ("portfolio-file", "A portfolio", "Many runs, teams and months, for `budget`: [Budgets and costs](../finance.md)."),
    (
        "capacity-file",
        "capacity.toml",
        "Discounts, commitments and your own machines: [Where prices come from](../prices.md).",
    ),
    ("policy-file", "policy.toml", "Rules of the organisation. A key that is absent allows everything."),
];

/// What a value points at, with its name among the definitions.
fn target<'a>(schema: &'a Value, value: &'a Value) -> (Option<&'a str>, &'a Value) {
    if let Some(name) = value["$ref"].as_str().and_then(|at| at.rsplit('/').next()) {
        return (Some(name), &schema["$defs"][name]);
    }
    let options = value["anyOf"].as_array().map_or(&[][..], Vec::as_slice);
    let mut some = options.iter().filter(|option| option["type"] != "null");
    match (some.next(), some.next()) {
        (Some(only), None) => target(schema, only),
        _ => (None, value),
    }
}

/// What a person writes there.
fn kind(schema: &Value, value: &Value) -> String {
    let (name, value) = target(schema, value);
    match name {
        Some("Scalar") => return "number or text".to_owned(),
        Some("Names") => return "name, or list of names".to_owned(),
        Some("Amount") => return "dollars".to_owned(),
        Some("Day") => return "date".to_owned(),
        _ => {}
    }
    if let Some(options) = value["anyOf"].as_array() {
        return options.iter().map(|option| kind(schema, option)).collect::<Vec<_>>().join(" or ");
    }
    let types: Vec<&str> = match &value["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    let word = |one: &&str| match *one {
        "null" => None,
        "string" => Some("text".to_owned()),
        "integer" => Some("whole number".to_owned()),
        "boolean" => Some("true or false".to_owned()),
        "array" => Some(format!("list of {}", kind(schema, &value["items"]))),
        "object" => Some("table".to_owned()),
        other => Some(other.to_owned()),
    };
    types.iter().filter_map(word).collect::<Vec<_>>().join(" or ")
}

/// A section that a key opens: its path in brackets as TOML has it, its name among the definitions, its keys.
fn section<'a>(schema: &'a Value, value: &'a Value, path: &str) -> Option<(String, Option<&'a str>, &'a Value)> {
    let (name, inner) = target(schema, value);
    if inner["properties"].is_object() {
        return Some((format!("[{path}]"), name, inner));
    }
    let (name, inner) = target(schema, &inner["items"]);
    inner["properties"].is_object().then(|| (format!("[[{path}]]"), name, inner))
}

fn described(value: &Value) -> String {
    let text = value["description"].as_str().unwrap_or_default().replace('\n', " ");
    text.replace('|', "\\|")
}

/// Tables of all keys, section by section.
fn reference(schema: &Value) -> String {
    let (mut out, mut written) = (String::new(), BTreeMap::<&str, String>::new());
    let mut ahead = VecDeque::from([(String::new(), String::new(), schema)]);
    while let Some((heading, path, value)) = ahead.pop_front() {
        let keys = value["properties"].as_object().unwrap();
        let mut rows = Vec::new();
        for (key, value) in keys {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            let meaning = described(value);
            let opened = |how: &str| format!("| `{key}` | section | {} |\n", format!("{meaning} {how}").trim_start());
            match section(schema, value, &path) {
                None => rows.push(format!("| `{key}` | {} | {meaning} |\n", kind(schema, value))),
                Some((_, Some(name), _)) if written.contains_key(name) => {
                    rows.push(opened(&format!("Like `{}`", written[name])));
                }
                Some((inside, name, inner)) => {
                    rows.push(opened(&format!("`{inside}` below")));
                    written.extend(name.map(|name| (name, inside.clone())));
                    ahead.push_back((inside, path, inner));
                }
            }
        }
        if !heading.is_empty() {
            out.push_str(&format!("\n### `{heading}`\n"));
        }
        out.push_str(&format!("\n| key | value | meaning |\n| --- | --- | --- |\n{}", rows.concat()));
    }
    out
}

fn page() -> String {
    let mut out = "# Keys of input files\n\nEvery key may be absent unless its line says otherwise. The same as JSON Schemas for editors: \
                   [JSON documents and input files](../schema/README.md).\n"
        .to_owned();
    for (file, title, lead) in FILES {
        let text = fs::read_to_string(root().join(format!("docs/schema/{file}.json"))).unwrap();
        let schema: Value = serde_json::from_str(&text).unwrap();
        out.push_str(&format!("\n## {title}\n\n{lead}\n{}", reference(&schema)));
    }
    out
}

#[test]
fn the_reference_has_every_key_of_the_schemas() {
    let (page, path) = (page(), root().join(PAGE));
    if std::env::var_os(RENEW).is_some() {
        fs::write(&path, &page).unwrap();
    }
    assert!(
        fs::read_to_string(&path).is_ok_and(|kept| kept == page),
        "{RENEW}=1 cargo test --test tests reach::keys writes {PAGE} again"
    );
    for row in ["### `[training]`", "| `tokens` |", "### `[training.lora]`", "### `[[phase]]`", "### `[[run]]`"] {
        assert!(page.contains(row), "{row}");
    }
}

#[test]
fn keys_say_what_a_person_writes() {
    let schema: Value = serde_json::json!({
        "properties": {
            "name": {"type": ["string", "null"], "description": "What | it\nis."},
            "steps": {"anyOf": [{"$ref": "#/$defs/Scalar"}, {"type": "null"}]},
            "dropout": {"type": ["boolean", "number", "null"]},
            "clouds": {"type": ["array", "null"], "items": {"type": "string"}},
            "part": {"type": "array", "items": {"$ref": "#/$defs/Part"}},
        },
        "$defs": {"Scalar": {}, "Part": {"properties": {"inner": {"type": "array", "items": {"$ref": "#/$defs/Part"}}}}},
    });
    let text = reference(&schema);
    for row in [
        "| `name` | text | What \\| it is. |\n",
        "| `steps` | number or text |  |\n",
        "| `dropout` | true or false or number |  |\n",
        "| `clouds` | list of text |  |\n",
        "| `part` | section | `[[part]]` below |\n",
        "### `[[part]]`\n\n| key | value | meaning |\n| --- | --- | --- |\n| `inner` | section | Like `[[part]]` |\n",
    ] {
        assert!(text.contains(row), "{row}\n{text}");
    }
}
