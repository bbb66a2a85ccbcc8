//! `Spelling`: a model's name as people type it, taken apart into words, size, revision and weight format.

pub mod family;
pub mod made_of;
mod words;

use self::words::{OTHER_KINDS, PACKAGES, PARTS, PURPOSES, REVISIONS};
use crate::serving::StoredFormat;
use gpuplan_units::names::did_you_mean;

/// Longer texts are no names.
const LONGEST: usize = 200;

/// Two sizes of one family that a name may mean alike: 7B is published as 6.7 and as 7.6 billion.
const SAME_SIZE: f64 = 1.25;

/// Words of a name, in lower case and without its organisation: `Qwen/Qwen3-4B-Instruct-2507` is `qwen3 4b instruct 2507`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spelling {
    words: Vec<String>,
}

/// Sets of images by which timm says what a model was trained on.
const IMAGE_SETS: [&str; 5] = ["in1k", "in12k", "in21k", "in22k", "lvd142m"];

/// Words that name a weight format.
fn format(word: &str) -> Option<StoredFormat> {
    match word.split('.').next().unwrap_or(word) {
        "bf16" | "fp16" | "f16" => Some(StoredFormat::Bf16),
        "fp8" | "f8" | "mxfp8" => Some(StoredFormat::Fp8),
        "nvfp4a4" | "nvfp4a16" => Some(StoredFormat::Nvfp4),
        // What llama.cpp stores in five or six bits takes less than these eight.
        "int8" | "8bit" | "6bit" | "5bit" | "w8a8" | "w8a16" | "q8" | "q6" | "q5" => Some(StoredFormat::Int8),
        "awq" | "gptq" | "int4" | "4bit" | "w4a16" | "w4a8" | "nf4" | "q4" | "iq4" | "q3" | "iq3" | "q2" | "iq2"
        | "3bit" | "2bit" | "int2" => Some(StoredFormat::Int4),
        "mxfp4" => Some(StoredFormat::Mxfp4),
        "fp4" | "nvfp4" => Some(StoredFormat::Nvfp4),
        _ => None,
    }
}

/// Parameters that a word such as `8b`, `135m` or `8x7b` states, with the experts of the last counted apart.
fn size(word: &str) -> Option<f64> {
    let unit = match word.as_bytes().last()? {
        b'm' => 1e6,
        b'b' => 1e9,
        b't' => 1e12,
        _ => return None,
    };
    let number = &word[..word.len() - 1];
    let plain = |text: &str| {
        let is_number = !text.starts_with('.') && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        text.parse::<f64>().ok().filter(|number| is_number && *number > 0.0)
    };
    match number.split_once('x') {
        Some((experts, each)) => Some(plain(experts)? * plain(each)? * unit),
        None => Some(plain(number)? * unit),
    }
}

/// Months and days as organisations write them: `2507`, `0528`.
fn is_date(word: &str) -> bool {
    let is_digits = word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    is_digits && matches!(word[..2].parse(), Ok(1..=12 | 23..=29))
}

/// `v0.3`, which names a revision where it stands behind the size, and another model before it.
fn is_version(word: &str) -> bool {
    word.strip_prefix('v').is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
}

fn is_revision(word: &str) -> bool {
    is_date(word) || REVISIONS.contains(&word)
}

/// Parameters that a token meets, of a word such as `a3b`.
fn active(word: &str) -> Option<f64> {
    word.strip_prefix('a').and_then(size)
}

/// Words with letters and digits apart, so that `llama3` and `llama 3` are alike; a size, a date and a version stay whole.
fn tokens(words: &[String]) -> Vec<&str> {
    let mut tokens = Vec::new();
    for word in words {
        if size(word).is_some() || active(word).is_some() || is_version(word) || is_date(word) {
            tokens.push(word.as_str());
            continue;
        }
        let mut rest = word.as_str();
        while let Some(first) = rest.chars().next() {
            let is_same = |c: char| c.is_ascii_alphabetic() == first.is_ascii_alphabetic();
            let end = rest.find(|c| !is_same(c)).unwrap_or(rest.len());
            tokens.push(&rest[..end]);
            rest = &rest[end..];
        }
    }
    tokens
}

/// A name without what is pasted around it: the page of a repository, a command, the folder of a cache.
fn pasted(name: &str) -> &str {
    let command = ["ollama run ", "ollama pull ", "vllm serve "].iter().find_map(|command| name.strip_prefix(command));
    let name = command.unwrap_or(name);
    let name = name.split(['?', '#']).next().unwrap_or(name);
    let name =
        ["/tree/", "/blob/", "/resolve/"].iter().find_map(|part| name.split_once(part)).map_or(name, |(page, _)| page);
    name.strip_prefix("models--").and_then(|folder| folder.split_once("--")).map_or(name, |(_, name)| name)
}

impl Spelling {
    /// `None` where the text has no letter or digit, or is longer than a name.
    pub fn parse(name: &str) -> Option<Self> {
        if name.len() > LONGEST {
            return None;
        }
        let name = name.trim().trim_end_matches('/').to_ascii_lowercase();
        let name = pasted(&name);
        // `timm/resnet18.a1_in1k`: behind the point stands how it was trained, which changes no size.
        let name = match name.split_once('.') {
            Some((model, trained))
                if name.starts_with("timm/") || IMAGE_SETS.iter().any(|set| trained.contains(set)) =>
            {
                model
            }
            _ => name,
        };
        let name = name.rsplit('/').next().unwrap_or_default();
        let name = name.strip_suffix(".gguf").or(name.strip_suffix(".safetensors")).unwrap_or(name);
        let letters: Vec<char> = name.chars().collect();
        let is_digit = |at: Option<usize>| at.and_then(|at| letters.get(at)).is_some_and(char::is_ascii_digit);
        // `Llama-3_3` is 3.3; the underscores of `Q4_K_M` and of `patch16_224` only separate.
        let is_point = |at: usize| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1));
        let separated = letters.iter().enumerate().map(|(at, letter)| match letter {
            '.' if is_point(at) => '.',
            '_' if is_point(at) && !is_digit(Some(at + 2)) => '.',
            letter if letter.is_ascii_alphanumeric() => *letter,
            _ => ' ',
        });
        let words: Vec<String> = separated.collect::<String>().split_whitespace().map(str::to_owned).collect();
        (!words.is_empty()).then_some(Self { words })
    }

    /// The words without what separates them.
    pub fn joined(&self) -> String {
        self.words.concat()
    }

    /// The words that are no size: `gemma3` of `gemma-3-27b`.
    fn unsized_words(&self) -> String {
        self.words.iter().filter(|word| size(word).is_none()).map(String::as_str).collect()
    }

    /// Words of letters and digits that are no size: `4o`.
    fn mixed_words(&self) -> impl Iterator<Item = &str> {
        let is_mixed = |word: &&str| {
            let has = |of: fn(u8) -> bool| word.bytes().any(of);
            has(|byte| byte.is_ascii_digit()) && has(|byte| byte.is_ascii_alphabetic()) && size(word).is_none()
        };
        self.words.iter().map(String::as_str).filter(is_mixed)
    }

    /// The words joined without the parameters that a token meets, where there are some: `qwen3coder480b` of `qwen3-coder-480b-a35b`.
    pub fn without_active(&self) -> Option<String> {
        let is_active = |word: &String| word.strip_prefix('a').is_some_and(|rest| size(rest).is_some());
        let rest: Vec<&str> = self.words.iter().filter(|word| !is_active(word)).map(String::as_str).collect();
        (rest.len() < self.words.len()).then(|| rest.concat())
    }

    /// What the name can mean, the closest first: as it stands, without its format, without its revision; each also with
    /// `3-1` for 3.1 and without `meta-`. With the format that the name states.
    pub fn readings(&self) -> impl Iterator<Item = (String, Option<StoredFormat>)> {
        let stated = self.format();
        let is_packed = |word: &String| format(word).is_some() || PACKAGES.contains(&word.as_str());
        let unpacked: Vec<String> = match self.words.iter().position(is_packed) {
            // What follows a format tells more of it: `Q4_K_M`, `bnb-4bit`, `FP8-dynamic`.
            Some(at)
                if at > 0
                    && self.words[at..].iter().all(|word| is_packed(word) || is_revision(word) || word.len() <= 2) =>
            {
                self.words[..at].to_vec()
            }
            _ => self.words.clone(),
        };
        // The first word is the family; a size is never dropped.
        let sized = unpacked.iter().position(|word| size(word).is_some()).unwrap_or(unpacked.len());
        let is_kept = |at: usize, word: &str| at == 0 || !(is_revision(word) || at > sized && is_version(word));
        let kept = |(at, word): (usize, &String)| is_kept(at, word).then(|| word.clone());
        let unrevised: Vec<String> = unpacked.iter().enumerate().filter_map(kept).collect();
        let mut readings = Vec::new();
        for (words, format) in [(&self.words, None), (&unpacked, stated), (&unrevised, stated)] {
            for words in [words.clone(), dotted(words)] {
                readings.push((words.concat(), format));
                if words.len() > 1 && words[0] == "meta" {
                    readings.push((words[1..].concat(), format));
                }
            }
        }
        readings.into_iter()
    }

    /// The size in the name, of all parameters: `30b` of `30b-a3b`.
    fn size(&self) -> Option<f64> {
        self.words.iter().find_map(|word| size(word))
    }

    /// Letters at the start of each word: `llama` of `llama3.1`.
    fn stems(&self) -> impl Iterator<Item = &str> {
        self.words
            .iter()
            .filter(|word| size(word).is_none() && !is_revision(word) && format(word).is_none())
            .filter_map(|word| {
                let end = word.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(word.len());
                (end > 1).then(|| &word[..end])
            })
    }

    /// Words for which the model is another than without them, in the order of the name.
    fn purposes(&self) -> impl Iterator<Item = &str> {
        self.stems().filter(|stem| PURPOSES.contains(stem) || OTHER_KINDS.contains(stem) || PARTS.contains(stem))
    }

    /// Whether no language model is called by the family of this name, and another known model is: `FLUX.3-5B` is of the family of FLUX.1.
    pub fn is_of_other_kind<'a>(&self, known: impl Iterator<Item = (&'a str, bool)>) -> bool {
        let Some(family) = self.stems().next() else { return false };
        let mut others = false;
        for (name, is_language_model) in known {
            if Self::parse(name).is_some_and(|other| other.stems().next() == Some(family)) {
                if is_language_model {
                    return false;
                }
                others = true;
            }
        }
        others
    }

    /// Parameters where the name is a size and nothing that names a family: `7B`, `a 7b model`.
    pub fn size_alone(&self) -> Option<f64> {
        let said = |word: &String| size(word).is_some() || matches!(word.as_str(), "a" | "model" | "llm" | "dense");
        self.size().filter(|_| self.words.iter().all(said))
    }

    /// Of known names with their parameters the nearest of the same family and size.
    pub fn nearest<'a>(&self, known: impl Iterator<Item = (&'a str, f64)>) -> Option<&'a str> {
        // `e2b`: two billion are met by a token, of more.
        let effective = || self.words.iter().find_map(|word| word.strip_prefix('e').and_then(size));
        let (wanted, stated) = (self.joined(), self.size().or_else(effective));
        let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
        let is_near = |name: &str, parameters: f64| {
            let Some(other) = Self::parse(name) else { return false };
            let family = |stem: &str| self.stems().any(|own| is_slip(own, stem));
            if !self.purposes().eq(other.purposes()) {
                return false;
            }
            match stated {
                Some(size) => {
                    let ratio = size / parameters;
                    let is_same = (1.0 / SAME_SIZE..=SAME_SIZE).contains(&ratio);
                    is_same && (self.size_alone().is_some() || other.stems().next().is_some_and(family))
                }
                // Without a size every word counts: `Qwen-Image` is no `Qwen3-Embedding`.
                None => {
                    let has = |own: &str| other.stems().any(|stem| is_slip(own, stem));
                    let begins_alike = other.stems().next().is_some_and(family);
                    let is_of_family = begins_alike
                        && self.stems().all(has)
                        && digits(&other.unsized_words()).starts_with(&digits(&wanted))
                        && self.mixed_words().all(|word| other.joined().contains(word));
                    // `8bb` is no size, and a slip of one.
                    is_of_family || begins_alike && other.size().is_some() && self.is_slip_of(name)
                }
            }
        };
        // Of a family and size those with most words in common: `gpt-oss-safeguard-20b` is no `gpt-neox-20b`, `gemma-2-2.6b` no `gemma-2b`.
        let own = tokens(&self.words);
        let shared = |name: &str| {
            let other = Self::parse(name);
            other.map_or(0, |other| {
                let named = tokens(&other.words).into_iter().filter(|word| size(word).is_none());
                own.iter().filter(|word| named.clone().any(|other| other == **word)).count()
            })
        };
        let near: Vec<(&'a str, usize)> = known
            .filter(|(name, parameters)| is_near(name, *parameters))
            .map(|(name, _)| (name, shared(name)))
            .collect();
        let most = near.iter().map(|(_, shared)| *shared).max();
        let candidates: Vec<&'a str> =
            near.iter().filter(|(_, shared)| Some(*shared) == most).map(|(name, _)| *name).collect();
        let short = |name: &&'a str| (name.rsplit('/').next().unwrap_or(name), *name);
        let by_short: Vec<(&str, &str)> = candidates.iter().map(short).collect();
        let near = did_you_mean(&wanted, by_short.iter().map(|(short, _)| *short));
        let near = near.and_then(|near| by_short.iter().find(|(short, _)| *short == near)).map(|(_, name)| *name);
        // The same family and size is near enough, however the rest is spelled.
        near.or_else(|| candidates.first().copied().filter(|_| stated.is_some()))
    }
}

/// One family with at most a slip of the keyboard.
fn is_slip(own: &str, other: &str) -> bool {
    let is_long =
        own.len().min(other.len()) >= 4 && own.len().max(other.len()) >= 5 && own.len().abs_diff(other.len()) <= 1;
    own == other || is_long && own.as_bytes()[0] == other.as_bytes()[0] && slips(own, other) <= 1
}

/// Letters to change, add or leave out between two words (Levenshtein).
fn slips(own: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in own.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, against) in other.bytes().enumerate() {
            let changed = diagonal + usize::from(letter != against);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

/// `3` and `1` as `3.1` where they stand for a version.
fn dotted(words: &[String]) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    let is_digit = |word: &str| word.len() == 1 && word.bytes().all(|byte| byte.is_ascii_digit());
    for word in words {
        match joined.last_mut() {
            Some(last)
                if is_digit(word)
                    && (is_digit(last)
                        || last.ends_with(|c: char| c.is_ascii_digit())
                            && size(last).is_none()
                            && !last.contains('.')) =>
            {
                last.push('.');
                last.push_str(word);
            }
            _ => joined.push(word.clone()),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(name: &str) -> Vec<String> {
        Spelling::parse(name).unwrap().readings().map(|(name, _)| name).collect()
    }

    #[test]
    fn revisions_and_formats_are_left_out_and_nothing_else() {
        for (name, meant) in [
            ("Qwen/Qwen3-4B-Instruct-2507", "qwen34b"),
            ("unsloth/Meta-Llama-3.1-8B-bnb-4bit", "llama3.18b"),
            ("bartowski/Llama-3.3-70B-Instruct-Q4_K_M.gguf", "llama3.370b"),
            ("meta-llama-3-1-8b-instruct", "llama3.18b"),
            ("nvidia/Llama-3_3-Nemotron-Super-49B-v1_5", "llama3.3nemotronsuper49b"),
            ("RedHatAI/Mistral-7B-Instruct-v0.3-quantized.w4a16", "mistral7b"),
        ] {
            assert!(readings(name).contains(&meant.to_owned()), "{name}: {:?}", readings(name));
        }
        for (name, other) in [
            ("Llama-3.1-8B-EAGLE", "llama3.18b"),
            ("DeepSeek-R1-Distill-Qwen-7B", "qwen7b"),
            ("Qwen3-VL-8B-Instruct", "qwen38b"),
            ("Qwen3-8B-LoRA", "qwen38b"),
        ] {
            assert!(!readings(name).contains(&other.to_owned()), "{name}: {:?}", readings(name));
        }
    }

    #[test]
    fn what_is_pasted_around_a_name_is_no_part_of_it() {
        let plain = Spelling::parse("qwen3-8b").unwrap();
        for pasted in [
            "https://huggingface.co/Qwen/Qwen3-8B/tree/main",
            "https://huggingface.co/Qwen/Qwen3-8B?library=transformers",
            "models--Qwen--Qwen3-8B",
            "ollama run qwen3:8b",
            "vllm serve Qwen/Qwen3-8B",
        ] {
            assert_eq!(Spelling::parse(pasted).as_ref(), Some(&plain), "{pasted}");
        }
        let trained = Spelling::parse("vit_base_patch16_224.augreg2_in21k_ft_in1k").unwrap();
        assert_eq!(trained, Spelling::parse("vit_base_patch16_224").unwrap());
    }

    #[test]
    fn a_format_in_the_name_is_read() {
        let format = |name: &str| Spelling::parse(name).unwrap().readings().last().unwrap().1;
        assert_eq!(format("Qwen3-32B-FP8"), Some(StoredFormat::Fp8));
        assert_eq!(format("Qwen2.5-7B-Instruct-AWQ"), Some(StoredFormat::Int4));
        assert_eq!(format("x-8B-w8a8"), Some(StoredFormat::Int8));
        // Of the files of such a repository people take the one of four bits, where they do not say which.
        assert_eq!(format("unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF"), Some(StoredFormat::Int4));
        assert_eq!(format("x-8B-GGUF-Q8_0"), Some(StoredFormat::Int8));
        assert_eq!(format("Qwen3-32B"), None);
    }

    #[test]
    fn a_size_is_read_from_a_word() {
        for (word, parameters) in [("8b", Some(8e9)), ("0.6b", Some(6e8)), ("135m", Some(135e6)), ("8x7b", Some(56e9))]
        {
            assert_eq!(size(word), parameters, "{word}");
        }
        for word in ["", "b", "nanb", "infb", "1e9b", "-7b", "xb", "x7b", "8x", "v3", "0b"] {
            assert_eq!(size(word), None, "{word}");
        }
        assert_eq!(Spelling::parse("a 7B model").unwrap().size_alone(), Some(7e9));
        assert_eq!(Spelling::parse("llama-7b").unwrap().size_alone(), None);
    }

    #[test]
    fn the_nearest_is_of_the_family_and_the_size() {
        let known = [
            ("llama-3.1-8b", 8.03e9),
            ("llama-3.2-1b", 1.24e9),
            ("qwen3-8b", 8.19e9),
            ("gpt-2", 1.24e8),
            ("resnet-50", 2.6e7),
        ];
        let nearest = |name: &str| Spelling::parse(name).unwrap().nearest(known.into_iter());
        assert_eq!(nearest("Hermes-3-Llama-3.1-8B"), Some("llama-3.1-8b"));
        assert_eq!(nearest("lama-8b"), Some("llama-3.1-8b"));
        assert_eq!(nearest("llama-3.1-8bb"), Some("llama-3.1-8b"));
        assert_eq!(nearest("Llama-4-Maverick-17B-128E"), None);
        assert_eq!(nearest("Qwen3-4B"), None);
        assert_eq!(nearest("gpt-4"), None);
        for name in ["qwen-2e8b", "canary-qwen3-8b", "llama-3.1-8b-drafter", "qwen3-e8b-audio"] {
            assert_eq!(nearest(name), None, "{name}");
        }
        let gemma = Spelling::parse("google/gemma-3n-E2B-it").unwrap();
        assert_eq!(gemma.nearest([("gemma-3-27b", 2.7e10), ("gemma-3-1b", 1e9)].into_iter()), None);
        let other = |name: &str| {
            let known = [("flux.1-dev", false), ("wan2.1-t2v-14b", false), ("phi-4", true), ("phi-clip", false)];
            Spelling::parse(name).unwrap().is_of_other_kind(known.into_iter())
        };
        assert!(other("black-forest-labs/FLUX.3-klein-4B") && !other("phi-5-4b") && !other("kolibri-7b"));
        assert_eq!(nearest("resnet5"), Some("resnet-50"));
        assert_eq!(nearest("8B").map(|name| name.contains("8b")), Some(true));
        assert_eq!(nearest("kimi-8b"), None);
        assert_eq!(nearest("Llama-3.1-Audio-8B"), None);
        let arctic =
            |name: &str| Spelling::parse(name).unwrap().nearest([("snowflake-arctic-embed-l", 5.7e8)].into_iter());
        assert_eq!((arctic("snowflake-arctic-instruct"), arctic("snowflake-artic-embed-l").is_some()), (None, true));
        assert_eq!(Spelling::parse(&"z".repeat(100_000)), None);
        assert_eq!(Spelling::parse(" /-/ "), None);
    }
}
