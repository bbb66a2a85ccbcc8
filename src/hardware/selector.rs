//! `GpuSelector`: the grammar people know from other tools: `H100:8`, `A100:80GB:1..16`, `24GB+`, `H100,H200:8+`, `L4:1/4`.

use std::ops::RangeInclusive;

use crate::catalog::{Hardware, without_vendor};
use crate::gpu::{Gpu, GpuId};
use gpuplan_units::GpuCount;
use gpuplan_units::names::{did_you_mean, plain};

/// Which GPUs, with how much memory, how many. Empty names mean any chip.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuSelector {
    names: Vec<Name>,
    /// Marketing gigabytes, since that is what people write.
    memory_gb: RangeInclusive<f64>,
    count: Option<RangeInclusive<u32>>,
    share: Option<Share>,
}

/// A part of one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    Exactly(GpuCount),
    AtMost(GpuCount),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    Chip(GpuId),
    Family(String),
}

/// Why text selects no GPU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    #[error("no GPU is called `{name}`")]
    UnknownGpu { name: String, suggestion: Option<String> },
    #[error("`{0}` is not a valid choice of GPUs; try H100:8, A100:80GB:1..16, 24GB+ or L4:1/4")]
    Malformed(String),
    /// A count before or after a name, as other tools write it.
    #[error("`{text}` is not a valid choice of GPUs: the count follows the name and a colon")]
    CountMisplaced { text: String, meant: String },
    /// A number that is also the end of a chip's name.
    #[error("`{count}` asks for {count} GPUs of any kind, and a GPU is called {name}")]
    CountOrName { count: u32, name: String },
    /// A machine of a cloud, and the GPUs that it has.
    #[error("`{name}` is a machine of {cloud}, and no GPU")]
    Machine { name: String, cloud: String, gpus: String },
    /// A TPU or another accelerator, with the words for what it is.
    #[error("`{name}` is {what}, and only GPUs that run CUDA or ROCm are planned")]
    OtherAccelerator { name: String, what: &'static str },
    /// A word for parts of GPUs, or a MIG profile, without the GPU.
    #[error("`{0}` is a part of a GPU, and does not say how much of which")]
    PartOfWhich(String),
    /// A name that is short for several.
    #[error("`{name}` may be {}", families.join(", "))]
    Ambiguous { name: String, families: Vec<String> },
    /// The memory is that of no chip, or of none with this name.
    #[error("no GPU matches `{text}`: their memory is {sizes}")]
    NoSuchMemory { text: String, sizes: String },
}

impl GpuSelector {
    pub fn parse(text: &str, hardware: &Hardware) -> Result<Self, SelectorError> {
        let malformed = || SelectorError::Malformed(text.to_owned());
        if let Some(error) = count_that_is_a_name(text, hardware) {
            return Err(error);
        }
        let mut selector = Self { names: Vec::new(), memory_gb: 0.0..=f64::INFINITY, count: None, share: None };
        let mut seen_memory = false;
        for (position, part) in text.trim().split(':').enumerate() {
            // `4090:2` has its count elsewhere.
            if let Some(family) = digits_of_a_name(part, hardware).filter(|_| position == 0 && text.contains(':')) {
                selector.names = vec![Name::Family(plain(family))];
            } else if let Some(memory) = memory_range(part) {
                if std::mem::replace(&mut seen_memory, true) {
                    return Err(malformed());
                }
                selector.memory_gb = memory;
            } else if let Some(count) = count_range(part) {
                if selector.count.replace(count).is_some() {
                    return Err(malformed());
                }
            } else if let Some(share) = share(part) {
                if selector.share.replace(share).is_some() {
                    return Err(malformed());
                }
            } else if position == 0 && !part.trim().is_empty() && !part.contains("..") {
                for name in part.split(',') {
                    selector.names.extend(find(name.trim(), hardware)?);
                }
            } else {
                return Err(malformed());
            }
        }
        if selector.count.is_some() && selector.share.is_some() {
            return Err(malformed());
        }
        if !hardware.gpus().iter().enumerate().any(|(id, gpu)| selector.matches_gpu(GpuId(id as u16), gpu)) {
            return Err(selector.no_such_memory(text, hardware));
        }
        Ok(selector)
    }

    /// Says which memory there is instead.
    fn no_such_memory(self, text: &str, hardware: &Hardware) -> SelectorError {
        let any = Self { memory_gb: 0.0..=f64::INFINITY, ..self };
        let named = hardware.gpus().iter().enumerate().filter(|(id, gpu)| any.matches_gpu(GpuId(*id as u16), gpu));
        let mut sizes: Vec<u32> = named.map(|(_, gpu)| gpu.memory_label_gb.round() as u32).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let sizes: Vec<String> = sizes.into_iter().map(|gb| format!("{gb}GB")).collect();
        SelectorError::NoSuchMemory { text: text.to_owned(), sizes: sizes.join(", ") }
    }

    pub fn matches_gpu(&self, id: GpuId, gpu: &Gpu) -> bool {
        let named = self.names.is_empty()
            || self.names.iter().any(|name| match name {
                Name::Chip(chip) => *chip == id,
                Name::Family(family) => plain(&gpu.family) == *family,
            });
        named && self.memory_gb.contains(&gpu.memory_label_gb)
    }

    /// Whether chips are named, and not only their memory or their number.
    pub fn names_chips(&self) -> bool {
        !self.names.is_empty()
    }

    /// The count, where one was given. A machine offers it in `nodes x devices`.
    pub fn count(&self) -> Option<&RangeInclusive<u32>> {
        self.count.as_ref()
    }

    /// The same GPUs, however many.
    #[must_use]
    pub fn any_count(&self) -> Self {
        Self { count: None, ..self.clone() }
    }

    /// The part of one GPU, where exactly one was asked for.
    pub fn share(&self) -> Option<GpuCount> {
        match self.share? {
            Share::Exactly(share) => Some(share),
            Share::AtMost(_) => None,
        }
    }

    /// Whether a machine with so many GPUs, or so much of one, is meant. Without a share in the text any is.
    pub fn matches_share(&self, gpus: GpuCount) -> bool {
        match self.share {
            None => true,
            Some(Share::Exactly(share)) => gpus == share,
            Some(Share::AtMost(share)) => gpus.is_slice() && gpus.as_f64() <= share.as_f64(),
        }
    }

    pub fn matches_count(&self, gpus: u32) -> bool {
        self.count.as_ref().is_none_or(|count| count.contains(&gpus))
    }
}

/// How names of accelerators begin that run neither CUDA nor ROCm.
const OTHER_ACCELERATORS: [(&str, &str); 12] = [
    ("tpu", "a TPU"),
    ("v5e", "a TPU"),
    ("v5litepod", "a TPU"),
    ("v6e", "a TPU"),
    ("trillium", "a TPU"),
    ("ironwood", "a TPU"),
    ("trainium", "an accelerator of AWS"),
    ("trn", "an accelerator of AWS"),
    ("inferentia", "an accelerator of AWS"),
    ("inf2", "an accelerator of AWS"),
    ("gaudi", "an accelerator of Intel"),
    ("apple", "a chip of Apple"),
];

/// A family, a chip, or a chip of either memory: `A100-SXM4`.
fn find(name: &str, hardware: &Hardware) -> Result<Vec<Name>, SelectorError> {
    let short = plain(name);
    let short = without_vendor(&short);
    if hardware.gpus().iter().any(|gpu| plain(&gpu.family) == short) {
        return Ok(vec![Name::Family(short.to_owned())]);
    }
    if let Some(chip) = hardware.find_gpu(name) {
        return Ok(vec![Name::Chip(chip)]);
    }
    let is_short_for = |id: &str| {
        id.rsplit_once('-').is_some_and(|(chip, memory)| plain(chip) == short && memory.parse::<u32>().is_ok())
    };
    let of_any_memory = hardware.gpus().iter().enumerate().filter(|(_, gpu)| is_short_for(&gpu.id));
    let chips: Vec<Name> = of_any_memory.map(|(index, _)| Name::Chip(GpuId(index as u16))).collect();
    if chips.is_empty() { Err(unknown(name, hardware)) } else { Ok(chips) }
}

fn unknown(name: &str, hardware: &Hardware) -> SelectorError {
    let other = OTHER_ACCELERATORS.iter().find(|(begin, _)| plain(name).starts_with(begin));
    if let Some((_, what)) = other {
        return SelectorError::OtherAccelerator { name: name.to_owned(), what };
    }
    if let Some(meant) = counted(name).filter(|(_, chip)| find(chip, hardware).is_ok()) {
        return SelectorError::CountMisplaced { text: name.to_owned(), meant: format!("{}:{}", meant.1, meant.0) };
    }
    if let Some(machine) = hardware.instances().iter().find(|machine| machine.name.eq_ignore_ascii_case(name)) {
        let gpus = format!("{}:{}", hardware.gpu(machine.node.gpu).family, machine.node.gpus);
        return SelectorError::Machine { name: name.to_owned(), cloud: machine.cloud.to_string(), gpus };
    }
    if is_part(name) {
        return SelectorError::PartOfWhich(name.to_owned());
    }
    let families = families_of(name, hardware);
    if families.len() > 1 {
        return SelectorError::Ambiguous { name: name.to_owned(), families };
    }
    // `H100s` is one more than one.
    let one = name.strip_suffix(['s', 'S']).filter(|one| find(one, hardware).is_ok());
    // `B200 NVL` is a B200 with a word too many; `RTX 4070 Ti` is not any RTX.
    let is_chip = |word: &&str| word.chars().any(|c| c.is_ascii_digit()) && find(word, hardware).is_ok();
    let first = name.split([' ', '-']).next().filter(|word| *word != name && is_chip(word));
    let near = one.or(first).or_else(|| did_you_mean(name, hardware.gpu_names()).filter(|near| is_slip(name, near)));
    let suggestion = near.map(str::to_owned);
    SelectorError::UnknownGpu { name: name.to_owned(), suggestion }
}

/// Whether one name may be a slip of the other: `4070` is no slip of `4090` but another card, as `H800` is beside `H200`.
fn is_slip(name: &str, near: &str) -> bool {
    let digits = |text: &str| {
        let mut digits: Vec<char> = text.chars().filter(char::is_ascii_digit).collect();
        digits.sort_unstable();
        digits
    };
    let (own, other) = (digits(name), digits(near));
    !own.is_empty() && (own.len() != other.len() || own == other)
}

/// `MIG`, `vGPU`, or a profile such as `1g.10gb`.
fn is_part(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_profile = || {
        let (slices, memory) = name.rsplit(['-', ' ']).next()?.split_once("g.")?;
        slices.parse::<u32>().ok().zip(memory.strip_suffix("gb")?.parse::<u32>().ok())
    };
    ["mig", "vgpu", "slice", "fraction", "fractional"].contains(&name.as_str()) || is_profile().is_some()
}

/// The families whose names have the letters and the number of this one, and other words beside them: `rtx6000` is short for three.
fn families_of(name: &str, hardware: &Hardware) -> Vec<String> {
    let plain_name = plain(name);
    let letters = plain_name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = &plain_name[letters.len()..];
    if number.len() < 4 || letters.is_empty() {
        return Vec::new();
    }
    let has_both = |family: &&str| plain(family).strip_prefix(letters).is_some_and(|rest| rest.contains(number));
    let mut families: Vec<String> = Vec::new();
    for family in hardware.gpus().iter().map(|gpu| gpu.family.as_str()).filter(has_both) {
        if !families.iter().any(|known| known == family) {
            families.push(family.to_owned());
        }
    }
    families
}

/// Count and name of `8xH100`, `8*H100`, `8 H100`, `H100x8` and `H100*8`.
fn counted(text: &str) -> Option<(u32, &str)> {
    let is_sign = |c: char| matches!(c, 'x' | 'X' | '*' | '=' | ' ' | '\u{d7}');
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let before =
        text[..digits].parse().ok().zip(text[digits..].trim_start().strip_prefix(is_sign).map(str::trim_start));
    let before =
        before.or_else(|| text[..digits].parse().ok().zip(text[digits..].strip_prefix(' ').map(str::trim_start)));
    let after = || {
        let name = text.trim_end_matches(|c: char| c.is_ascii_digit());
        let count = text[name.len()..].parse().ok()?;
        let is_apart = name.ends_with(' ') && !name.trim_end().ends_with(is_sign);
        Some((count, if is_apart { name.trim_end() } else { name.trim_end().strip_suffix(is_sign)?.trim_end() }))
    };
    before.or_else(after).filter(|(count, name)| *count > 0 && !name.is_empty())
}

/// A number of four digits alone is a name as often as a count: `4090`. As a range, `4090..4090`, it is a count.
fn count_that_is_a_name(text: &str, hardware: &Hardware) -> Option<SelectorError> {
    let text = text.trim();
    let name = digits_of_a_name(text, hardware)?.to_owned();
    Some(SelectorError::CountOrName { count: text.parse().ok()?, name })
}

/// The family whose name ends in these four digits or more.
fn digits_of_a_name<'h>(text: &str, hardware: &'h Hardware) -> Option<&'h str> {
    let text = text.trim();
    text.parse().ok().filter(|count: &u32| *count >= 1000)?;
    hardware.gpus().iter().map(|gpu| gpu.family.as_str()).find(|family| plain(family).ends_with(text))
}

/// `80GB`, `24GB+`, `24GB..80GB`.
fn memory_range(part: &str) -> Option<RangeInclusive<f64>> {
    let gb = |text: &str| {
        let text = text.trim().to_ascii_lowercase();
        text.strip_suffix("gb")
            .or_else(|| text.strip_suffix("gib"))?
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|gb| gb.is_finite() && *gb > 0.0)
    };
    let part = part.trim();
    if let Some((low, high)) = part.split_once("..") {
        // `24..80GB` is memory, and `8..` a count.
        let (low, high) = if high.is_empty() {
            (gb(low)?, f64::INFINITY)
        } else {
            (gb(low).or_else(|| low.trim().parse().ok().filter(|low: &f64| *low > 0.0))?, gb(high)?)
        };
        return (low <= high).then_some(low..=high);
    }
    if let Some(low) = part.strip_suffix('+') {
        return Some(gb(low)?..=f64::INFINITY);
    }
    gb(part).map(|exact| exact..=exact)
}

/// `1/4`, or `..1/4` for that or less.
fn share(part: &str) -> Option<Share> {
    let part = part.trim();
    let (text, made): (&str, fn(GpuCount) -> Share) = match part.strip_prefix("..") {
        Some(text) => (text, Share::AtMost),
        None => (part, Share::Exactly),
    };
    let count = text.contains('/').then(|| GpuCount::parse(text).ok())??;
    count.is_slice().then(|| made(count))
}

/// `8`, `1..16`, `4+`, `4..`.
fn count_range(part: &str) -> Option<RangeInclusive<u32>> {
    let part = part.trim();
    let positive = |text: &str| text.trim().parse::<u32>().ok().filter(|count| *count > 0);
    if let Some((low, high)) = part.split_once("..") {
        let (low, high) = (positive(low)?, if high.is_empty() { u32::MAX } else { positive(high)? });
        return (low <= high).then_some(low..=high);
    }
    if let Some(low) = part.strip_suffix('+') {
        return Some(positive(low)?..=u32::MAX);
    }
    positive(part).map(|exact| exact..=exact)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hardware() -> Hardware {
        Hardware::embedded().unwrap()
    }

    fn chosen(text: &str) -> Vec<String> {
        let hardware = hardware();
        let selector = GpuSelector::parse(text, &hardware).unwrap();
        let matching =
            hardware.gpus().iter().enumerate().filter(|(index, gpu)| selector.matches_gpu(GpuId(*index as u16), gpu));
        matching.map(|(_, gpu)| gpu.id.clone()).collect()
    }

    #[test]
    fn a_family_a_memory_and_a_count() {
        assert_eq!(chosen("A100:80GB:1..16"), ["a100-sxm4-80", "a100-pcie-80"]);
        assert_eq!(chosen("h100-sxm5-80:8"), ["h100-sxm5-80"]);
        assert!(chosen("24GB+").len() > 20);
        assert!(chosen("H100,H200").len() >= 5);
        let selector = GpuSelector::parse("A100:4+", &hardware()).unwrap();
        assert!(selector.matches_count(8) && !selector.matches_count(2));
        for text in ["A100:4..", "4..", "A100:80GB:4.."] {
            let selector = GpuSelector::parse(text, &hardware()).unwrap();
            assert!(selector.matches_count(8) && !selector.matches_count(2), "{text}");
        }
        assert_eq!(chosen("A100:24..40GB"), ["a100-sxm4-40", "a100-pcie-40"]);
        assert_eq!(chosen("4090:2"), chosen("RTX-4090:2"));
        assert_eq!(chosen("A100_SXM4"), ["a100-sxm4-40", "a100-sxm4-80"]);
        assert_eq!(chosen("NVIDIA A100 SXM4:80GB"), ["a100-sxm4-80"]);
    }

    #[test]
    fn a_share_of_one_gpu_is_no_count() {
        let hardware = hardware();
        let matches = |text: &str, count: &str| {
            GpuSelector::parse(text, &hardware).unwrap().matches_share(GpuCount::parse(count).unwrap())
        };
        assert!(matches("L4:1/4", "1/4") && !matches("L4:1/4", "1/8") && !matches("L4:1/4", "1"));
        assert!(
            matches("..1/4", "1/4") && matches("L4:..1/4", "1/8") && !matches("..1/4", "1/2") && !matches("..1/4", "1")
        );
        assert!(matches("L4", "1/4") && matches("L4", "8"));
        assert_eq!(GpuSelector::parse("H100:2/14", &hardware).unwrap().share(), GpuCount::parse("1/7").ok());
        for text in ["L4:1/4:1/8", "L4:8:1/4", "L4:5/4", "L4:0/4", "L4:1/0", "L4:1/4+", "1/4..1/2"] {
            assert!(matches!(GpuSelector::parse(text, &hardware), Err(SelectorError::Malformed(_))), "{text}");
        }
    }

    #[test]
    fn another_card_is_no_slip_of_the_keyboard() {
        let suggested = |text: &str| match GpuSelector::parse(text, &hardware()).unwrap_err() {
            SelectorError::UnknownGpu { suggestion, .. } => suggestion,
            other => panic!("{text}: {other:?}"),
        };
        for text in ["RTX 4070 Ti", "H800", "A800:8", "ada", "RTX 2080 Ti"] {
            assert_eq!(suggested(text), None, "{text}");
        }
        assert_eq!(suggested("B200 NVL").as_deref(), Some("B200"));
        assert!(suggested("RTX 4900").is_some_and(|near| near.contains("4090")));
    }

    #[test]
    fn nonsense_is_named_and_near_misses_are_suggested() {
        let error = GpuSelector::parse("H1000:8", &hardware()).unwrap_err();
        assert!(matches!(error, SelectorError::UnknownGpu { suggestion: Some(_), .. }), "{error:?}");
        let refused = |text: &str| GpuSelector::parse(text, &hardware()).unwrap_err();
        for text in ["8xH100", "8 x H100", "8*H100", "8 H100", "H100x8", "H100 x 8", "H100*8"] {
            let SelectorError::CountMisplaced { meant, .. } = refused(text) else {
                panic!("{text}: {}", refused(text))
            };
            assert_eq!(meant, "H100:8", "{text}");
        }
        assert!(
            matches!(refused("H100s:8"), SelectorError::UnknownGpu { suggestion: Some(one), .. } if one == "H100"),
            "{:?}",
            refused("H100s:8")
        );
        let machine = |name: &str| match refused(name) {
            SelectorError::Machine { cloud, gpus, .. } => format!("{cloud} {gpus}"),
            other => panic!("{name}: {other}"),
        };
        assert_eq!([machine("p5.48xlarge"), machine("A3-HighGPU-8g")], ["aws H100:8", "gcp H100:8"]);
        assert!(matches!(refused("4090"), SelectorError::CountOrName { count: 4090, name } if name == "RTX-4090"));
        for other in ["TPU:v5e", "tpu-v5p", "v6e-8", "Trainium2", "trn1", "Gaudi3"] {
            assert!(matches!(refused(other), SelectorError::OtherAccelerator { .. }), "{other}: {}", refused(other));
        }
        for part in ["MIG", "vGPU", "1g.10gb", "mig-3g.40gb"] {
            assert_eq!(refused(part), SelectorError::PartOfWhich(part.to_owned()));
        }
        assert!(
            matches!(refused("rtx6000"), SelectorError::Ambiguous { families, .. } if families.len() == 3),
            "{}",
            refused("rtx6000")
        );
        let named =
            |text: &str| GpuSelector::parse(text, &hardware()).unwrap_or_else(|error| panic!("{text}: {error}"));
        for (written, name) in [
            ("NVIDIA_H100", "H100"),
            ("h100-80gb-hbm3", "NVIDIA H100 80GB HBM3"),
            ("AMD_MI300X", "MI300X"),
            ("NVIDIA L4", "L4"),
        ] {
            assert_eq!(named(written).names, named(name).names, "{written}");
        }
        assert!(GpuSelector::parse("4090..4090", &hardware()).unwrap().matches_count(4090));
        assert!(GpuSelector::parse("2048", &hardware()).unwrap().matches_count(2048));
        assert!(refused("A100:79GB").to_string().contains("40GB, 80GB"), "{}", refused("A100:79GB"));
        assert!(matches!(refused("9000GB+"), SelectorError::NoSuchMemory { .. }));
        for text in
            ["H100:8:8", "H100:0", "H100:8..4", "", ":", "H100:80GB:80GB", "H100::", "80GB..24GB", "-5GB+", "500TB+"]
        {
            assert!(GpuSelector::parse(text, &hardware()).is_err(), "{text}");
        }
    }
}
