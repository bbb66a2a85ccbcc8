//! `ForeignFormat`: what a file is that is no TOML, from its first lines. Asked only where TOML was not read.

/// A kind of file that people give as a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForeignFormat {
    #[error("this is JSON")]
    Json,
    #[error("this is the configuration of a model (config.json)")]
    ModelConfig,
    #[error("this is YAML")]
    Yaml,
    #[error("this is a Kubernetes manifest")]
    Kubernetes,
    #[error("this is a Docker Compose file")]
    Compose,
    #[error("this is a SkyPilot task")]
    SkyPilot,
    #[error("this is a Slurm script")]
    Slurm,
    #[error("this is a script")]
    Script,
    #[error("this is a page of HTML or XML")]
    Markup,
    #[error("this is a Dockerfile")]
    Dockerfile,
}

impl ForeignFormat {
    /// `None` for what may well be TOML with a mistake in it.
    pub fn detect(text: &str) -> Option<Self> {
        let text = text.trim_start_matches('\u{feff}');
        let mut lines = text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty());
        let is_comment = |line: &&str| line.trim_start().starts_with('#') && !line.starts_with("#!");
        let first = lines.clone().find(|line| !is_comment(line))?;
        if text.starts_with("#!") || text.lines().any(|line| line.starts_with("#SBATCH")) {
            return Some(if text.contains("#SBATCH") { Self::Slurm } else { Self::Script });
        }
        if first.starts_with(['{', '<']) || is_json_list(first) {
            let is_model =
                ["\"model_type\"", "\"architectures\"", "\"num_hidden_layers\""].iter().any(|key| text.contains(key));
            return Some(match first.starts_with('<') {
                true => Self::Markup,
                false if is_model => Self::ModelConfig,
                false => Self::Json,
            });
        }
        if first.starts_with("FROM ") || first.starts_with("ARG ") {
            return Some(Self::Dockerfile);
        }
        if ["import ", "from ", "def ", "\"\"\""].iter().any(|start| first.starts_with(start)) {
            return Some(Self::Script);
        }
        let keys = || text.lines().filter_map(yaml_key);
        let is_yaml = first.starts_with("---") || first.starts_with("- ") || yaml_key(first).is_some();
        let has = |key: &str| keys().any(|found| found == key);
        let is_table = lines.any(|line| line.starts_with('[') && line.ends_with(']'));
        match is_yaml && !is_table {
            false => None,
            true if has("apiVersion") && has("kind") => Some(Self::Kubernetes),
            true if has("services") => Some(Self::Compose),
            true if has("resources") && (has("run") || has("setup")) => Some(Self::SkyPilot),
            true => Some(Self::Yaml),
        }
    }
}

/// `[1, 2]` or `[{`: a table of TOML has a name in its brackets.
fn is_json_list(first: &str) -> bool {
    let Some(rest) = first.strip_prefix('[') else { return false };
    match rest.trim_start_matches('[').trim_start().chars().next() {
        Some(next) => {
            matches!(next, '{' | ']' | '-') || (next == '"' && !rest.contains("\"]")) || next.is_ascii_digit()
        }
        None => true,
    }
}

/// The key of a line `key: value` that stands at its beginning.
fn yaml_key(line: &str) -> Option<&str> {
    let (key, rest) = line.split_once(':')?;
    let is_word = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-./\"'".contains(c));
    (is_word && (rest.is_empty() || rest.starts_with(' '))).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_formats_are_named() {
        use ForeignFormat::{
            Compose, Dockerfile, Json, Kubernetes, Markup, ModelConfig, Script, SkyPilot, Slurm, Yaml,
        };
        for (text, format) in [
            ("{\"a\": 1}", Json),
            ("[1, 2]", Json),
            ("[\n  1\n]", Json),
            ("[[[[", Json),
            ("{\n \"model_type\": \"llama\"}", ModelConfig),
            ("# of us\nmodel: llama\ntraining:\n  task: lora\n", Yaml),
            ("---\n- a\n", Yaml),
            ("apiVersion: batch/v1\nkind: Job\n", Kubernetes),
            ("version: '3'\nservices:\n  web: {}\n", Compose),
            ("resources:\n  accelerators: H100:8\nrun: |\n  python train.py\n", SkyPilot),
            ("#!/bin/bash\n#SBATCH --gpus=8\nsrun python\n", Slurm),
            ("#!/bin/bash\npython train.py\n", Script),
            ("import torch\n", Script),
            ("<!DOCTYPE html>\n", Markup),
            ("FROM nvidia/cuda:12\n", Dockerfile),
        ] {
            assert_eq!(ForeignFormat::detect(text), Some(format), "{text}");
        }
        for text in
            ["", "[model]\npreset = ", "[[phase]]\n", "a = 1", "# only: a comment", "name = \"a: b\"\nx", "[\"a\"]\n"]
        {
            assert_eq!(ForeignFormat::detect(text), None, "{text}");
        }
    }
}
