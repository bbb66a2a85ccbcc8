//! Which chips a name means, as engines and their administrators write it: `a100`, `A100-80GB`, `nvidia-h100-mega-80gb`, `NVIDIA-L40S`.

use crate::GpuModels;
use gpuplan_hardware::Hardware;
use gpuplan_hardware::gpu::{Gpu, GpuId};
use gpuplan_hardware::names::plain;

/// Words that tell no chip from another: vendors, brands, memory types, a network.
const SAY_NOTHING: [&str; 14] = [
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
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).flat_map(with_memory);
    let tokens: Vec<&str> = words.filter(|token| !SAY_NOTHING.contains(token)).collect();
    // A bare number is part of a name (RTX 4090), or else a size of memory (a100-80). A name of the catalog's own comes last: it
    // means one chip where engines mean all of that memory.
    let described = named(described(&tokens, false, hardware)).or_else(|| named(described(&tokens, true, hardware)));
    described.or_else(|| named(hardware.find_gpu(word).into_iter().collect()))
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
        assert!(["", "gpu", "tpu-v4", "h1000", "a100-81gb"].into_iter().all(|word| ids(word).is_empty()));
    }
}
