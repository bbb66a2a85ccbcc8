//! Which chips a name means, as engines and their administrators write it: `a100`, `A100-80GB`, `nvidia-h100-mega-80gb`, `NVIDIA-L40S`.

use crate::GpuModels;
use gpuplan_hardware::Hardware;
use gpuplan_hardware::gpu::{Gpu, GpuId};
use gpuplan_hardware::names::plain;

/// Words that tell no chip from another: vendors, brands, memory types, a network.
const SAY_NOTHING: [&str; 18] = [
    "any",
    "nvidia",
    "tesla",
    "geforce",
    "quadro",
    "amd",
    "instinct",
    "gpu",
    "accelerator",
    "hbm2",
    "hbm2e",
    "hbm3",
    "hbm3e",
    "mega",
    "nvlink",
    "sku",
    "type",
    "model",
];

/// `None`: no chip of the catalog is called so.
pub fn find(word: &str, hardware: &Hardware) -> Option<GpuModels> {
    let named = |ids: Vec<GpuId>| (!ids.is_empty()).then(|| GpuModels { word: word.to_owned(), ids });
    for exact in [with(hardware, |gpu| gpu.id == word), with(hardware, |gpu| plain(&gpu.family) == plain(word))] {
        if !exact.is_empty() {
            return named(exact);
        }
    }
    let lower = word.to_ascii_lowercase();
    let tokens = telling(&lower);
    // A bare number is part of a name (RTX 4090), or else a size of memory (a100-80). A name of the catalog's own comes last: it
    // means one chip where engines mean all of that memory.
    let described = named(described(&tokens, false, hardware)).or_else(|| named(described(&tokens, true, hardware)));
    described.or_else(|| named(hardware.find_gpu(word).into_iter().collect()))
}

/// A card that a job names: those of the catalog, or its own name without any, so that no other is taken for it. `None`: the word names no card
/// (`gpu`, `nvidia`).
pub fn named(word: &str, hardware: &Hardware) -> Option<GpuModels> {
    let unknown = || GpuModels { word: word.to_owned(), ids: Vec::new() };
    let says_nothing = telling(&word.to_ascii_lowercase()).is_empty();
    find(word, hardware).or_else(|| (!says_nothing).then(unknown))
}

/// Whether a word is the name of an older card of NVIDIA's that no catalog has to know: `k80`, `p40`, `m60`, `2080ti`.
pub fn is_older(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let tokens = telling(&lower);
    let [name] = tokens.as_slice() else { return false };
    let digits = |text: &str, most: usize| {
        (2..=most).contains(&text.len()) && text.chars().all(|letter| letter.is_ascii_digit())
    };
    let of_machines = name.strip_prefix(['k', 'm', 'p']).is_some_and(|number| digits(number, 3));
    of_machines || name.strip_suffix("ti").is_some_and(|number| digits(number, 4))
}

/// Cards among the features of a node: `a100|h100` is any of them, `public&1v100` (one of them in a node) all at once. `None`: one of the
/// alternatives names none.
pub fn of_features(features: &str, hardware: &Hardware) -> Option<GpuModels> {
    let card = |feature: &str| {
        let counted = feature.trim_start_matches(|letter: char| letter.is_ascii_digit());
        find(feature, hardware).or_else(|| find(counted, hardware))
    };
    let plain = features.trim_matches(['[', ']', '(', ')', '"']);
    let alternatives = plain.split('|').map(|all| all.split(['&', ',']).find_map(|feature| card(feature.trim())));
    let mut all = alternatives.collect::<Option<Vec<GpuModels>>>()?;
    if all.len() == 1 {
        return all.pop();
    }
    let mut ids: Vec<GpuId> = all.into_iter().flat_map(|cards| cards.ids).collect();
    ids.dedup();
    Some(GpuModels { word: plain.to_owned(), ids })
}

/// Cards by which partitions are named (`NV_H100`, `gpu-a100-short,gpu-a100-long`, `gpuA40x4`): any of those of several. `None`: one of them names none, or
/// more than one.
pub fn of_partitions(partitions: &str, hardware: &Hardware) -> Option<GpuModels> {
    // `p4` and `g5` are machines of a cloud.
    let is_card = |word: &&str| word.len() > 2 || matches!(*word, "t4" | "l4");
    let of = |partition: &str| {
        let lower = partition.to_ascii_lowercase();
        let words = lower.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(is_card);
        let mut cards = words.filter(|word| word.chars().any(|letter| letter.is_ascii_alphabetic()));
        let named = |word: &str| find(word, hardware).or_else(|| find(without_count(word)?, hardware));
        let found: Vec<GpuModels> = cards.by_ref().filter_map(named).collect();
        let [only] = found.as_slice() else { return None };
        Some(only.clone())
    };
    let all = partitions.split(',').map(of).collect::<Option<Vec<GpuModels>>>()?;
    let mut ids: Vec<GpuId> = Vec::new();
    for id in all.into_iter().flat_map(|cards| cards.ids) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Some(GpuModels { word: partitions.to_owned(), ids })
}

/// `a40` of `gpua40x4`, four in each machine.
fn without_count(word: &str) -> Option<&str> {
    let word = word.strip_prefix("gpu")?;
    let (card, count) = word.rsplit_once('x').unwrap_or((word, ""));
    count.chars().all(|letter| letter.is_ascii_digit()).then_some(card)
}

/// The words of a name that tell one card from another; `NVIDIAA100` and `TeslaV100` are written in one.
fn telling(lower: &str) -> Vec<&str> {
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).flat_map(with_memory);
    let plain = words.map(|word| {
        let rest = word.strip_prefix("nvidia").or_else(|| word.strip_prefix("tesla"));
        rest.filter(|rest| !rest.is_empty()).unwrap_or(word)
    });
    plain.filter(|token| !token.is_empty() && !SAY_NOTHING.contains(token)).collect()
}

/// `a100m40` is an A100 of 40 GB.
fn with_memory(word: &str) -> Vec<&str> {
    let digits = |text: &str| !text.is_empty() && text.chars().all(|letter| letter.is_ascii_digit());
    match word.rsplit_once('m') {
        Some((card, memory)) if digits(memory) && card.ends_with(|letter: char| letter.is_ascii_digit()) => {
            vec![card, memory]
        }
        _ => vec![word],
    }
}

fn described(tokens: &[&str], numbers_are_memory: bool, hardware: &Hardware) -> Vec<GpuId> {
    let (mut family, mut memory, mut form) = (String::new(), None, None);
    for token in tokens {
        let size = token.strip_suffix("gb").or_else(|| token.strip_suffix("gib")).or_else(|| token.strip_suffix('g'));
        let bare = numbers_are_memory.then_some(*token);
        if let Some(gb) = size.or(bare).and_then(|digits| digits.parse::<f64>().ok()) {
            memory = Some(gb);
        } else if token.starts_with("sxm") {
            form = Some("sxm");
        } else if *token == "pcie" || *token == "nvl" {
            form = Some(token);
        } else {
            family.push_str(token);
        }
    }
    // `pro6000`, `a6000`: the brand is left out.
    with(hardware, |gpu| {
        let known = plain(&gpu.family);
        (known == family || known.strip_prefix("rtx").is_some_and(|rest| rest == family))
            && memory.is_none_or(|gb| gb.to_bits() == gpu.memory_label_gb.to_bits())
            && form.is_none_or(|form| gpu.id.contains(form))
    })
}

fn with(hardware: &Hardware, keeps: impl Fn(&Gpu) -> bool) -> Vec<GpuId> {
    let all = hardware.gpus().iter().filter(|gpu| keeps(gpu));
    all.filter_map(|gpu| hardware.find_gpu(&gpu.id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_engines_are_found() {
        let hardware = Hardware::embedded().unwrap();
        let ids = |word: &str| -> Vec<String> {
            find(word, &hardware).iter().flat_map(|chips| &chips.ids).map(|id| hardware.gpu(*id).id.clone()).collect()
        };
        assert_eq!(ids("a100"), ["a100-sxm4-40", "a100-sxm4-80", "a100-pcie-40", "a100-pcie-80"]);
        assert_eq!(ids("A100-80GB"), ["a100-sxm4-80", "a100-pcie-80"]);
        assert_eq!(ids("a100_80"), ["a100-sxm4-80", "a100-pcie-80"]);
        assert_eq!(ids("A100m40"), ["a100-sxm4-40", "a100-pcie-40"]);
        for (word, id) in [
            ("nvidia-h100-mega-80gb", "h100-sxm5-80 h100-pcie-80"),
            ("NVIDIA-H100-80GB-HBM3", "h100-sxm5-80 h100-pcie-80"),
            ("nvidia_a100_sxm4_80gb", "a100-sxm4-80"),
            ("H100-NVL", "h100-nvl-94"),
            ("NVIDIA-L40S", "l40s"),
            ("nvidia-tesla-t4", "t4"),
            ("Tesla-V100-SXM2-32GB", "v100-sxm2-32"),
            ("RTX4090", "rtx-4090"),
            ("NVIDIA-RTX-A6000", "rtx-a6000"),
            ("MI300X", "mi300x"),
            ("pro6000", "rtx-pro-6000-blackwell-se"),
            ("a6000", "rtx-a6000"),
        ] {
            assert_eq!(ids(word).join(" "), id, "{word}");
        }
        assert_eq!(ids("GPU_SKU:A100_SXM4").join(" "), "a100-sxm4-40 a100-sxm4-80");
        assert_eq!(ids("TeslaV100_SXM2_32GB").join(" "), "v100-sxm2-32");
        assert!(["", "gpu", "tpu-v4", "h1000", "a100-81gb"].into_iter().all(|word| ids(word).is_empty()));
    }

    #[test]
    fn a_card_that_no_catalog_has_keeps_its_name_and_features_are_alternatives() {
        let hardware = Hardware::embedded().unwrap();
        let unknown = named("rtxa5500", &hardware).unwrap();
        assert_eq!((unknown.word.as_str(), unknown.ids.len()), ("rtxa5500", 0));
        assert!(["gpu", "nvidia", "nvidia-gpu", ""].into_iter().all(|word| named(word, &hardware).is_none()));
        let count = |features: &str| of_features(features, &hardware).map(|cards| cards.ids.len());
        let (a100, v100) = (count("a100").unwrap(), count("v100").unwrap());
        assert_eq!(count("[a100|v100]"), Some(a100 + v100));
        assert_eq!(
            (count("public&1v100"), count("4a100"), count("a100|turing"), count("thin")),
            (Some(v100), Some(a100), None, None)
        );
    }
}
