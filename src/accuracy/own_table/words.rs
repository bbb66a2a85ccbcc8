//! The columns of a plain table of runs, and the words that people write in them, as keys of a case.

use gpuplan_workload::Precision;
use serde_json::Value;

/// Column of a plain table, and the key of the case that it is.
pub(super) const READ_AS: [(&str, &str); 34] = [
    ("task", "training.task"),
    ("kind", "model.kind"),
    ("model", "model.name"),
    ("params", "model.params"),
    ("layers", "model.layers"),
    ("hidden", "model.hidden"),
    ("heads", "model.heads"),
    ("kv_heads", "model.kv_heads"),
    ("ffn_hidden", "model.ffn_hidden"),
    ("vocab", "model.vocab"),
    ("seq_len", "training.sequence_length"),
    ("gpu_model", "hardware.gpu"),
    ("gpu_mem_gb", "hardware.gpu_memory_gb"),
    ("gpu_count", "hardware.gpus"),
    ("gpus_per_node", "hardware.gpus_per_node"),
    ("gpu_link", "hardware.gpu_link"),
    ("node_network_gbit_per_s", "hardware.node_network_gbit_per_s"),
    ("interconnect", "hardware.gpu_link"),
    ("precision", "training.precision"),
    ("dp", "layout.data"),
    ("tp", "layout.tensor"),
    ("pp", "layout.pipeline"),
    ("cp", "layout.context"),
    ("ep", "layout.expert"),
    ("vp", "layout.virtual_pipeline"),
    ("shard", "layout.shard"),
    ("micro_batch", "training.micro_batch"),
    ("global_batch", "training.global_batch"),
    ("grad_accum", "training.grad_accumulation"),
    ("activation_checkpointing", "training.recompute"),
    ("flash_attention", "training.attention"),
    ("lora_rank", "training.lora_rank"),
    ("optimizer", "training.optimizer"),
    ("framework", "training.framework"),
];

/// Columns that say where a run is from and what was measured, not how it ran; `parallelism` repeats the degrees.
pub(super) fn is_label(name: &str) -> bool {
    matches!(
        name,
        "id" | "quality"
            | "source"
            | "source_locator"
            | "locator"
            | "parallelism"
            | "metric"
            | "value"
            | "unit"
            | "flops_def"
            | "longest_example"
            | "precision_label"
            | "shard_label"
            | "recompute_label"
            | "optimizer_label"
            | "scaling_group"
            | "notes"
    )
}

/// The cells as keys of a case. A dotted column wins over the plain one.
pub(super) fn dotted<'a>(cells: &[(&'a str, &str)]) -> Result<Vec<(&'a str, String)>, String> {
    let mut keys = Vec::new();
    for (name, cell) in cells.iter().filter(|(_, cell)| !cell.is_empty()) {
        if let Some((_, key)) = READ_AS.iter().find(|(column, _)| column == name) {
            keys.extend(said(name, key, cell).map_err(|known| format!("{name} `{cell}` is not known; {known}"))?);
        }
    }
    keys.extend(cells.iter().filter(|(name, _)| name.contains('.')).map(|(name, cell)| (*name, (*cell).to_owned())));
    Ok(keys)
}

/// What one cell says. The error is what it may say.
fn said(column: &str, key: &'static str, cell: &str) -> Result<Vec<(&'static str, String)>, String> {
    let low = cell.to_lowercase();
    let one = |word: &str| Ok(vec![(key, word.to_owned())]);
    match column {
        "precision" => precision(&low),
        "gpu_model" => one(cell.strip_suffix("GB").unwrap_or(cell)),
        "interconnect" => Ok(interconnect(cell)),
        "shard" => shard(&low),
        "activation_checkpointing" => match low.as_str() {
            "unknown" => Ok(Vec::new()),
            text if text.starts_with("selective") => one("selective"),
            text if text.starts_with("full") || text.starts_with("block") => one("full"),
            text if text.starts_with("offload") => one("offload"),
            "none" => one("none"),
            _ => Err("it is none, selective, full, offload or unknown".to_owned()),
        },
        "flash_attention" => match low.as_str() {
            "flash3" => one("flash3"),
            text if text.starts_with('y') || text == "flash" => one("flash"),
            text if text.starts_with('n') || text == "eager" => one("eager"),
            _ => Err("it is y, n or flash3".to_owned()),
        },
        "optimizer" => one(optimizer(&low)),
        // A published name such as `gpt-2` or `7b` is a text, whatever it looks like.
        "model" => one(&Value::String(cell.to_owned()).to_string()),
        _ => one(cell),
    }
}

fn precision(low: &str) -> Result<Vec<(&'static str, String)>, String> {
    let both = |precision: &str, base: &str| {
        Ok(vec![("training.precision", precision.to_owned()), ("training.base_weights", base.to_owned())])
    };
    let known = Precision::ALL.map(gpuplan_units::names::word);
    match low {
        text if text.contains("nf4-dq") => both("pure-bf16", "nf4-dq"),
        text if text.contains("nf4") && text != "nvfp4" => both("pure-bf16", "nf4"),
        "bf16-true" => Ok(vec![("training.precision", "pure-bf16".to_owned())]),
        "fp16/bf16" => Ok(vec![("training.precision", "bf16".to_owned())]),
        "fp32(no tf32)" => Ok(vec![("training.precision", "fp32".to_owned())]),
        text if known.iter().any(|word| word == text) => Ok(vec![("training.precision", text.to_owned())]),
        _ => Err(format!("it is one of {}, nf4, nf4-dq", known.join(", "))),
    }
}

/// `FSDP(zero3)`, `zero1(8)` with the ranks of a group, `sequence-parallel`.
fn shard(low: &str) -> Result<Vec<(&'static str, String)>, String> {
    let mut keys = Vec::new();
    if low.contains("sequence") {
        keys.push(("layout.sequence_parallel", "true".to_owned()));
    }
    let word = match low {
        text if text.contains("hsdp") => "hsdp",
        text if text.contains("zero3") => "zero3",
        text if text.contains("zero2") => "zero2",
        text if text.contains("zero1") => "zero1",
        text if text.contains("fsdp") => "zero3",
        "none" | "ddp" | "zero0" => "none",
        _ if !keys.is_empty() => return Ok(keys),
        _ => return Err("it is none, zero1, zero2, zero3 or hsdp".to_owned()),
    };
    keys.push(("layout.shard", word.to_owned()));
    let group = low.split_once("zero1(").and_then(|(_, rest)| rest.split_once(')')).map(|(inside, _)| inside);
    if let Some(ranks) = group.and_then(|inside| inside.rsplit(' ').next()).filter(|ranks| ranks.parse::<u32>().is_ok())
    {
        keys.push(("layout.shard_group", ranks.to_owned()));
    }
    Ok(keys)
}

/// The link of `NVLink4`, `NVL72` or `PCIe`, and the network of a machine of `8x400Gbps` or `400Gbps/node`; what says neither says nothing.
fn interconnect(cell: &str) -> Vec<(&'static str, String)> {
    let mut keys = Vec::new();
    let generation = cell.split_once("NVLink").and_then(|(_, rest)| rest.chars().next()).filter(char::is_ascii_digit);
    if cell.contains("NVL72") {
        keys.push(("hardware.gpu_link", "nvl72".to_owned()));
    } else if let Some(generation) = generation {
        keys.push(("hardware.gpu_link", format!("nvlink{generation}")));
    } else if cell.contains("slow PCIe") {
        keys.push(("hardware.gpu_link", "pcie-slow".to_owned()));
    } else if cell.contains("PCIe") {
        keys.push(("hardware.gpu_link", "pcie".to_owned()));
    }
    let numbers = |text: &str| {
        let digits = text.len() - text.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        text[text.len() - digits..].parse::<f64>().ok()
    };
    if let Some((before, after)) = cell.split_once("Gb") {
        let before = before.trim_end();
        let rate = numbers(before);
        let ports = rate.and_then(|_| {
            numbers(before.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end().strip_suffix('x')?.trim_end())
        });
        let network = match (rate, ports) {
            (Some(rate), Some(ports)) => Some(rate * ports),
            (Some(rate), None) if after.contains("/node") => Some(rate),
            (Some(rate), None) if after.contains("/GPU") || after.contains("per GPU") => Some(rate * 8.0),
            _ => None,
        };
        keys.extend(network.map(|rate| ("hardware.node_network_gbit_per_s", rate.to_string())));
    }
    keys
}

fn optimizer(low: &str) -> &str {
    match low {
        text if text.contains("bf16 states") => "adamw-bf16",
        text if text.contains("8bit") => "adamw-8bit",
        text if text.contains("paged") => "adamw-paged",
        text if text.starts_with("adam ") || text.starts_with("adamw/") => "adamw",
        text => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_as_people_write_them() {
        for (cell, said) in [
            ("NVLink3 + 4x100Gbps Omni-Path/node (Jean Zay)", Some("400")),
            ("NVLink + 400Gb/s RDMA per GPU", Some("3200")),
            ("NVLink + 800Gbps/node", Some("800")),
            ("NVLink + 400Gbps RoCE/GPU", Some("3200")),
            ("NVLink4 + 8 x 400 Gbps", Some("3200")),
            ("NVLink3 600GB/s/GPU", None),
            ("xGMI", None),
        ] {
            let keys = interconnect(cell);
            let network = keys.iter().find(|(key, _)| key.ends_with("gbit_per_s")).map(|(_, rate)| rate.as_str());
            assert_eq!(network, said, "{cell}");
        }
    }

    #[test]
    fn a_shard_may_name_its_group() {
        assert_eq!(
            shard("zero1(in-node 8)").unwrap(),
            [("layout.shard", "zero1".to_owned()), ("layout.shard_group", "8".to_owned())]
        );
        assert_eq!(shard("zero1(all dp)").unwrap().len(), 1);
        assert_eq!(shard("sequence-parallel").unwrap(), [("layout.sequence_parallel", "true".to_owned())]);
    }
}
