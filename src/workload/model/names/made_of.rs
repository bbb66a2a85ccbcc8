//! What the name of an unknown model tells: the known model that it was made of, or its size.

use super::words::{ON_BACKBONES, OTHER_KINDS, PARTS, PURPOSES, VARIANTS, WITH_TOWERS};
use super::{Spelling, active, format, is_date, is_revision, is_version, size, slips, tokens};
use crate::serving::StoredFormat;

/// A size in the name may be rounded by this factor from that of the model it was made of.
const ROUNDED: f64 = 1.25;

/// A size that a name states, in parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StatedSize {
    pub parameters: f64,
    /// Those that a token passes: `a3b`.
    pub active: Option<f64>,
}

/// Where `known` stands among `own`, in order.
pub(super) fn positions(own: &[&str], known: &[&str]) -> Option<Vec<usize>> {
    // From the last token back, so that a family stands beside its size: the second `qwen` of `qwen distill qwen 7b`.
    let mut end = own.len();
    let mut found = Vec::with_capacity(known.len());
    for token in known.iter().rev() {
        end = own[..end].iter().rposition(|own| own == token)?;
        found.push(end);
    }
    found.reverse();
    Some(found)
}

impl Spelling {
    /// The weight format that the name states.
    pub fn format(&self) -> Option<StoredFormat> {
        let is_gguf = |word: &String| word == "gguf";
        // A repository of GGUF files has several, and what people take of it is the one of four bits.
        let usual = || self.words.iter().any(is_gguf).then_some(StoredFormat::Int4);
        self.words.iter().find_map(|word| format(word)).or_else(usual)
    }

    /// The known model whose name this one contains: `Hermes-3-Llama-3.1-8B` is a fine-tune of Llama 3.1 8B. The one with most
    /// words of it; none where a word says that the sizes are others.
    pub fn made_of<'a>(&self, known: impl Iterator<Item = (&'a str, f64)>) -> Option<&'a str> {
        let own = tokens(&self.words);
        let mut best: Option<(usize, &'a str)> = None;
        for (name, parameters) in known {
            let Some(other) = Self::parse(name) else { continue };
            let words = tokens(&other.words);
            // Without a size `base` tells one model from another.
            let is_sized = words.iter().any(|word| size(word).is_some());
            let kept: Vec<&str> = words.into_iter().filter(|word| !(is_sized && is_revision(word))).collect();
            if best.is_some_and(|(most, _)| kept.len() <= most) {
                continue;
            }
            if positions(&own, &kept).is_some_and(|at| self.keeps_sizes(&own, &at, &other, parameters)) {
                best = Some((kept.len(), name));
            }
        }
        best.map(|(_, name)| name)
    }

    /// The number and size of experts that the name states: `8x7b`, which only a mixture of that kind has.
    pub fn mixture(&self) -> Option<&str> {
        let mixed = |word: &&String| word.contains('x') && size(word).is_some();
        self.words.iter().find(mixed).map(String::as_str)
    }

    /// Whether the words of this name that are not `at` leave the sizes of the known model as they are.
    fn keeps_sizes(&self, own: &[&str], at: &[usize], known: &Self, parameters: f64) -> bool {
        let (Some(first), Some(last)) = (at.first(), at.last()) else { return false };
        let is_sized = at.iter().any(|index| size(own[*index]).is_some());
        let has_billions = own.iter().any(|word| word.ends_with('b') && size(word).is_some());
        // One word without a size names a family: `bert`, `whisper`. Two names beside each other are one of neither: `x-sd3`.
        let is_prefix = *first == 0 || known.words.len() > 1;
        if !is_sized && (at.len() < 2 || last - first + 1 != at.len() || !is_prefix) {
            return false;
        }
        // `whisper-large-v9` is no `whisper-large`, `gpt-2.5` no `gpt-2`, and `gemma-3n` no `gemma-3`.
        let is_other_version =
            |word: &&str| word.len() == 1 || is_version(word) || word.starts_with(|c: char| c.is_ascii_digit());
        if !is_sized
            && own.get(last + 1).is_some_and(|word| is_other_version(word) && !is_date(word) && size(word).is_none())
        {
            return false;
        }
        let fits = |index: usize, word: &str| {
            if let Some(stated) = size(word) {
                // `1M` beside billions is a length of context.
                let is_context = has_billions && word.ends_with('m');
                return is_context || (1.0 / ROUNDED..=ROUNDED).contains(&(stated / parameters));
            }
            let is_inside = index > *first && index < *last;
            let is_of_another = word.len() < 2 || word.bytes().any(|byte| byte.is_ascii_digit());
            let is_other = PARTS.contains(&word)
                || OTHER_KINDS.contains(&word) && !known.words.iter().any(|own| own == word)
                || WITH_TOWERS.contains(&word)
                || ON_BACKBONES.contains(&word)
                || !is_sized && VARIANTS.contains(&word);
            !(is_other || is_inside && is_of_another && !is_date(word) && format(word).is_none())
        };
        let rest = || own.iter().enumerate().filter(|(index, _)| !at.contains(index));
        let purposes = |words: &[String]| {
            let mut all: Vec<String> = words.iter().filter(|word| PURPOSES.contains(&word.as_str())).cloned().collect();
            all.dedup();
            all
        };
        // Whole words too: `t2v` has no such token.
        let is_of_kind = |word: &String| !OTHER_KINDS.contains(&word.as_str()) || known.words.contains(word);
        rest().all(|(index, word)| fits(index, word))
            && self.words.iter().all(is_of_kind)
            && purposes(&self.words) == purposes(&known.words)
    }

    /// No word says that it is a part of a model, or of a kind that is no language model.
    pub fn is_whole(&self) -> bool {
        let is_other = |word: &str| {
            let is_kind = |kind: &&str| word == *kind || kind.len() >= 5 && word.ends_with(*kind);
            PARTS.contains(&word) && word != "moe" || OTHER_KINDS.iter().any(is_kind)
        };
        !tokens(&self.words).into_iter().any(is_other) && !self.words.iter().any(|word| is_other(word))
    }

    /// The size in the name of a language model; `None` where it has none, several, or is of another kind.
    pub fn stated_size(&self) -> Option<StatedSize> {
        let words = tokens(&self.words);
        if !self.is_whole() {
            return None;
        }
        let of_unit = |unit: char| words.iter().filter(move |word| word.ends_with(unit)).filter_map(|word| size(word));
        let billions: Vec<f64> = of_unit('b').chain(of_unit('t')).collect();
        let sizes = if billions.is_empty() { of_unit('m').collect() } else { billions };
        let active = words.iter().find_map(|word| active(word));
        match sizes[..] {
            [parameters] if self.mixture().is_none() => {
                Some(StatedSize { parameters, active: active.filter(|active| *active < parameters) })
            }
            _ => None,
        }
    }

    /// Typed by a slip for a known name: the same digits, and two letters or signs off at most.
    pub fn is_slip_of(&self, known: &str) -> bool {
        let digits = |text: &str| text.bytes().filter(u8::is_ascii_digit).collect::<Vec<u8>>();
        Self::parse(known).is_some_and(|known| {
            let (own, known) = (self.joined(), known.joined());
            digits(&own) == digits(&known) && slips(&own, &known) <= 2
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [(&str, f64); 12] = [
        ("llama-3-8b", 8.03e9),
        ("llama-3.1-8b", 8.03e9),
        ("llama-3.1-70b", 70.6e9),
        ("qwen3-8b", 8.19e9),
        ("qwen3-30b-a3b", 30.5e9),
        ("falcon-7b", 7.2e9),
        ("falcon3-7b", 7.5e9),
        ("gpt-oss-20b", 20.9e9),
        ("whisper-large-v3", 1.54e9),
        ("bert-base", 1.1e8),
        ("glm-4.5-air", 1.07e11),
        ("qwen3-vl-8b", 8.77e9),
    ];

    fn made_of(name: &str) -> Option<&'static str> {
        Spelling::parse(name).unwrap().made_of(KNOWN.into_iter())
    }

    #[test]
    fn a_fine_tune_has_the_sizes_of_what_it_was_made_of() {
        for (name, base) in [
            ("NousResearch/Hermes-3-Llama-3.1-8B", "llama-3.1-8b"),
            ("somebody/Llama3-8B-Finetune-262k", "llama-3-8b"),
            ("Llama-Guard-3-8B-INT8", "llama-3-8b"),
            ("openai/gpt-oss-safeguard-20b", "gpt-oss-20b"),
            ("cyankiwi/Qwen3-30B-A3B-Thinking-2507-AWQ-4bit-mixed", "qwen3-30b-a3b"),
            ("Systran/faster-whisper-large-v3", "whisper-large-v3"),
            ("somebody/bert-base-uncased-finetuned-ner", "bert-base"),
            ("org/My-Qwen3-VL-8B-SFT", "qwen3-vl-8b"),
            ("Qwen3-8B-Instruct-1M", "qwen3-8b"),
        ] {
            assert_eq!(made_of(name), Some(base), "{name}");
        }
    }

    #[test]
    fn what_has_other_sizes_is_not_taken_for_what_it_names() {
        for name in [
            "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",
            "Qwen3-8B-LoRA",
            "org/qwen3-speech-8b",
            "whisper-large-v3-realtime",
            "Qwen3-8B-MoT",
            "tiiuae/Falcon-H1-7B-Instruct",
            "Falcon3-Mamba-7B",
            "GLM-4.5-Air-REAP-82B-A12B",
            "Llama-3.1-8B-pruned-6B",
            "Qwen3-Embedding-8B",
            "Llama-3-VL-8B",
            "whisper-large-v9",
            "Kolibri-7B",
            "tiny-random-Llama-3-8B",
            "llava-llama-3-8b-v1_1",
            "GLM-4.5-Air-Flash",
            "captioner-bert",
            "facebook/detr-resnet-50",
            "bert-base-x",
        ] {
            assert_eq!(made_of(name), None, "{name}");
        }
    }

    #[test]
    fn a_size_is_stated_once_or_not_at_all() {
        let stated = |name: &str| Spelling::parse(name).unwrap().stated_size();
        let dense = |parameters| Some(StatedSize { parameters, active: None });
        assert_eq!(stated("acme/Kolibri-7B-Instruct"), dense(7e9));
        assert_eq!(stated("acme/Kolibri-350m"), dense(3.5e8));
        assert_eq!(stated("acme/Kolibri-7B-1M"), dense(7e9));
        assert_eq!(stated("Kolibri-80B-A3B"), Some(StatedSize { parameters: 8e10, active: Some(3e9) }));
        for name in [
            "Kolibri",
            "Kolibri-7B-to-3B",
            "Kolibri-T2V-14B",
            "Kolibri-ASR-1B",
            "canary-1b",
            "VibeVoice-1.5B",
            "stt-2.6b-en",
            "Kolibri-8x7B",
            "Kolibri-7B-lora",
            "gpt-4o",
        ] {
            assert_eq!(stated(name), None, "{name}");
        }
    }

    #[test]
    fn a_slip_is_told_from_another_model() {
        let slip = |name: &str, known: &str| Spelling::parse(name).unwrap().is_slip_of(known);
        assert!(slip("llama-31-8b", "llama-3.1-8b") && slip("lama-3.1-8b", "llama-3.1-8b"));
        assert!(!slip("qwen3.6-27b", "qwen3.5-27b") && !slip("kolibri-8b", "qwen3-8b"));
    }
}
