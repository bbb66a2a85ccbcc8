//! Configurations that Hydra composes: `--config-path` and `--config-name` name the first, and its `defaults` those that it builds on
//! (Hydra, "Defaults List").

use serde_json::{Map, Value};

use crate::document;
use crate::recipe::Entry;

/// Files that name files.
const DEEPEST: usize = 5;
/// Files of one configuration.
const MOST: usize = 100;

/// Gives the text of a file. `None`: it is not there.
pub type Open<'a> = dyn Fn(&str) -> Option<String> + 'a;

const NAMES: [&str; 2] = ["config_name", "cn"];
const FOLDERS: [&str; 2] = ["config_path", "config_dir"];

/// Whether a flag is Hydra's.
pub fn is_flag(key: &str) -> bool {
    NAMES.contains(&key) || FOLDERS.contains(&key)
}

/// The file that the flags of a program name. `None`: they name none. Transformers' examples have a `--config_name` of another meaning:
/// Hydra's comes with a folder, or with `key=value`.
pub fn named(flags: &[Entry]) -> Option<String> {
    let value = |keys: [&str; 2]| keys.iter().find_map(|key| flags.iter().find(|flag| flag.key == *key)?.value.clone());
    let name = value(NAMES)?;
    let folder = value(FOLDERS);
    let has_overrides = flags.iter().any(|flag| !flag.shown.starts_with('-'));
    let folder = folder.or_else(|| has_overrides.then(|| "conf".to_owned()))?;
    Some(format!("{}/{}", folder.trim_end_matches('/'), with_ending(&name)))
}

/// A configuration with what its `defaults` say beneath it, and the files among them that are not there.
pub fn composed(document: &Value, path: &str, open: &Open) -> (Value, Vec<String>) {
    let mut reading = Reading { open, missing: Vec::new(), left: MOST };
    let all = reading.compose(document, folder(path), DEEPEST);
    (all, reading.missing)
}

struct Reading<'a> {
    open: &'a Open<'a>,
    missing: Vec<String>,
    /// Files that may still be opened.
    left: usize,
}

impl Reading<'_> {
    fn compose(&mut self, document: &Value, folder: &str, depth: usize) -> Value {
        let mut all = Value::Object(Map::new());
        let names = document.get("defaults").and_then(Value::as_array).filter(|_| depth > 0);
        for (group, option) in names.into_iter().flatten().filter_map(parts) {
            let (place, package) = group.split_once('@').unwrap_or((group, group));
            let path = join(&join(folder, place), &with_ending(option));
            let Some((text, found)) = self.file(&path) else { continue };
            let below = self.compose(&found, self::folder(&path), depth - 1);
            let is_global = text.lines().any(|line| line.trim_start_matches('#').trim() == "@package _global_");
            merge(&mut all, nested(if is_global { "" } else { package }, below));
        }
        let mut own = document.clone();
        if let (Some(own), true) = (own.as_object_mut(), document.get("defaults").is_some_and(Value::is_array)) {
            own.remove("defaults");
        }
        merge(&mut all, own);
        all
    }

    fn file(&mut self, path: &str) -> Option<(String, Value)> {
        self.left = self.left.checked_sub(1)?;
        let found = (self.open)(path).and_then(|text| Some((text.clone(), document::parse(&text)?)));
        if found.is_none() {
            self.missing.push(path.to_owned());
        }
        found
    }
}

/// `- model: gpt3`, `- override hydra/launcher: basic`, `- base`. `None`: it stands for the file itself, or for nothing.
fn parts(entry: &Value) -> Option<(&str, &str)> {
    let (group, option) = match entry {
        Value::String(name) => name.rsplit_once('/').unwrap_or(("", name)),
        Value::Object(one) => {
            let (group, option) = one.iter().next()?;
            (group.as_str(), option.as_str()?)
        }
        _ => return None,
    };
    let group = group.trim_start_matches("override ").trim_start_matches("optional ").trim_matches('/');
    // Hydra's own settings say nothing of the work.
    (option != "_self_" && !group.starts_with("hydra")).then_some((group, option))
}

fn with_ending(name: &str) -> String {
    if [".yaml", ".yml"].iter().any(|end| name.ends_with(end)) { name.to_owned() } else { format!("{name}.yaml") }
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn join(folder: &str, name: &str) -> String {
    match (folder, name) {
        ("", name) => name.to_owned(),
        (folder, "") => folder.to_owned(),
        (folder, name) => format!("{folder}/{name}"),
    }
}

/// A value below the keys of a group: `model/encoder` is `model.encoder`.
fn nested(keys: &str, value: Value) -> Value {
    let names = keys.split(['/', '.']).filter(|key| !key.is_empty() && *key != "_global_" && *key != "_here_");
    names.rev().fold(value, |inner, key| Value::Object(Map::from_iter([(key.to_owned(), inner)])))
}

/// What comes later wins, key by key.
fn merge(all: &mut Value, later: Value) {
    match (all, later) {
        (Value::Object(all), Value::Object(later)) => {
            for (key, value) in later {
                merge(all.entry(key).or_insert(Value::Null), value);
            }
        }
        (all, later) => *all = later,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_lie_beneath_the_file_that_names_them() {
        let open = |path: &str| {
            let text = match path {
                "conf/model/gpt.yaml" => "defaults: [base]\nlayers: 24\nheads: 16",
                "conf/model/base.yaml" => "layers: 12\nhidden: 1024",
                "conf/experiment/a.yaml" => "# @package _global_\ntrainer: {devices: 8}",
                _ => return None,
            };
            Some(text.to_owned())
        };
        let text = "defaults:\n  - model: gpt\n  - experiment: a\n  - optim: adam\n  - override hydra/launcher: slurm\n  - _self_\nmodel: {heads: 32}\n";
        let (all, missing) = composed(&document::parse(text).unwrap(), "conf/config.yaml", &open);
        assert_eq!(
            all,
            serde_json::json!({"model": {"layers": 24, "hidden": 1024, "heads": 32}, "trainer": {"devices": 8}})
        );
        assert_eq!(missing, ["conf/optim/adam.yaml"]);
    }

    #[test]
    fn a_file_that_names_itself_comes_to_an_end() {
        let open = |_: &str| Some("defaults: [a, a]\nx: 1".to_owned());
        let (all, missing) = composed(&document::parse("defaults: [a]").unwrap(), "a.yaml", &open);
        assert_eq!((all, missing.len()), (serde_json::json!({"x": 1}), 0));
    }

    #[test]
    fn flags_name_the_first_file() {
        let flag = |key: &str, value: &str| Entry::flag(key, Some(value.to_owned()));
        let both = [flag("config-path", "conf/nlp/"), flag("config-name", "gpt_5b")];
        assert_eq!(named(&both).as_deref(), Some("conf/nlp/gpt_5b.yaml"));
        let set = Entry { key: "trainer.devices".to_owned(), value: None, shown: "trainer.devices".to_owned() };
        assert_eq!(named(&[flag("config-name", "a.yaml"), set]).as_deref(), Some("conf/a.yaml"));
        assert_eq!(named(&[flag("config_name", "bert-base-uncased")]), None);
        assert_eq!(named(&[flag("config-path", "a.yaml")]), None);
    }
}
