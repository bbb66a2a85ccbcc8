//! What a name leaves open: a family whose members have names of their own, or an adapter, which says what it adapts.

use super::Spelling;
use super::made_of::positions;
use super::words::{HEARING, VARIANTS};
use super::{format, is_revision, size, tokens};

/// Words of adapters, which run with the model that they adapt.
const ADAPTERS: [&str; 7] = ["lora", "loras", "qlora", "dora", "adapter", "adapters", "peft"];

/// How names of models begin whose makers serve them alone.
const UNPUBLISHED: [&str; 14] = [
    "claude",
    "gemini",
    "chatgpt",
    "gpt35",
    "gpt3.5",
    "gpt4",
    "gpt5",
    "o1",
    "o3",
    "o4mini",
    "textembedding",
    "dalle",
    "sora",
    "midjourney",
];

impl Spelling {
    /// Whether nobody but its maker can run the model, since its weights are not published: `gpt-4o`, `claude-sonnet`.
    pub fn is_unpublished(&self) -> bool {
        let name = self.joined();
        let is_digit = |c: char| c.is_ascii_digit();
        let known = |maker: &str| {
            name.strip_prefix(maker).is_some_and(|rest| !(maker.ends_with(is_digit) && rest.starts_with(is_digit)))
        };
        // `GPT4-x-Vicuna-13B` has a size, which makers who keep their weights do not tell.
        self.size().is_none() && UNPUBLISHED.iter().any(|maker| known(maker))
    }

    /// Whether `known` begins like this name, which has no size, and goes on: `sam2` leaves open which of `sam2-hiera-large` and its
    /// siblings is meant.
    pub fn leaves_open(&self, known: &Self) -> bool {
        let (own, other) = (tokens(&self.words), tokens(&known.words));
        let own: Vec<&str> = own.into_iter().filter(|word| !is_revision(word)).collect();
        let is_word = own.len() > 1 || own.first().is_some_and(|word| word.len() > 2);
        is_word && !own.iter().any(|word| size(word).is_some()) && own.len() < other.len() && other.starts_with(&own)
    }

    /// Whether `known` has the words of this name, its size among them, in this order: `nemotron super 49b` of
    /// `llama-3.3-nemotron-super-49b`. A name of an organisation says which repository is meant, and is no part of another.
    pub fn is_part_of(&self, known: &Self) -> bool {
        let own = tokens(&self.words);
        let is_name = |word: &&&str| !is_revision(word) && format(word).is_none();
        let own: Vec<&str> = own.iter().filter(is_name).copied().collect();
        let begins = own.first().is_some_and(|word| word.len() > 2 && !VARIANTS.contains(word) && size(word).is_none());
        begins
            && own.iter().any(|word| size(word).is_some())
            && positions(&tokens(&known.words), &own).is_some()
            && self.purposes().eq(known.purposes())
    }

    /// The name without words that say that it hears: `whisper large v3` of `whisper-large-v3-asr`; `None` where it has none.
    pub fn heard(&self) -> Option<Self> {
        let words: Vec<String> = self.words.iter().filter(|word| !HEARING.contains(&word.as_str())).cloned().collect();
        (!words.is_empty() && words.len() < self.words.len()).then_some(Self { words })
    }

    /// The name without words of adapters: `sdxl` of `sdxl lora`; `None` where it has no such word, or no other.
    pub fn adapted(&self) -> Option<String> {
        let rest: Vec<&str> = self.words.iter().map(String::as_str).filter(|word| !ADAPTERS.contains(word)).collect();
        (!rest.is_empty() && rest.len() < self.words.len()).then(|| rest.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_leaves_open_which_of_its_members_is_meant() {
        let leaves_open =
            |name: &str, known: &str| Spelling::parse(name).unwrap().leaves_open(&Spelling::parse(known).unwrap());
        for (name, known) in [
            ("sam2", "facebook/sam2-hiera-large"),
            ("SAM-2", "sam2-hiera-tiny"),
            ("e5", "intfloat/e5-base-v2"),
            ("grounding dino", "grounding-dino-tiny"),
            ("llama 3.1 instruct", "llama-3.1-8b"),
        ] {
            assert!(leaves_open(name, known), "{name}");
        }
        for (name, known) in [
            ("sam2", "sam2.1-hiera-large"),
            ("sam2", "sam2"),
            ("e", "e5-base"),
            ("llama-3.1-8b", "llama-3.1-8b-vision"),
            ("llama-3", "llama-3.1-8b"),
        ] {
            assert!(!leaves_open(name, known), "{name}");
        }
    }

    #[test]
    fn a_part_of_a_name_keeps_its_size_and_what_it_is_for() {
        let is_part =
            |name: &str, known: &str| Spelling::parse(name).unwrap().is_part_of(&Spelling::parse(known).unwrap());
        assert!(is_part("nemotron super 49b", "llama-3.3-nemotron-super-49b"));
        assert!(is_part("coder-480b-awq", "qwen3-coder-480b-a35b"));
        for (name, known) in [
            ("super 49b", "llama-3.3-nemotron-super-49b"),
            ("nemotron super", "llama-3.3-nemotron-super-49b"),
            ("qwen 8b", "qwen3-vl-8b"),
            ("gemma-5-12b", "gemma-3-12b"),
            ("llama 7b", "llama-3.1-70b"),
        ] {
            assert!(!is_part(name, known), "{name}");
        }
    }

    #[test]
    fn models_that_only_their_makers_run_are_told_apart() {
        let is_unpublished = |name: &str| Spelling::parse(name).unwrap().is_unpublished();
        for name in ["gpt-4o", "openai/gpt-4.1-mini", "claude-sonnet-4", "Gemini 2.5 Pro", "o3-mini", "gpt-3.5-turbo"] {
            assert!(is_unpublished(name), "{name}");
        }
        for name in ["gpt-oss-20b", "gpt-j", "gpt4-x-vicuna-13b", "olmo", "gpt2", "marco-o1", "gemma-3"] {
            assert!(!is_unpublished(name), "{name}");
        }
    }

    #[test]
    fn an_adapter_names_what_it_adapts() {
        let adapted = |name: &str| Spelling::parse(name).unwrap().adapted();
        assert_eq!(adapted("sdxl lora").as_deref(), Some("sdxl"));
        assert_eq!(adapted("acme/Qwen3-8B-LoRA").as_deref(), Some("qwen3 8b"));
        assert_eq!((adapted("qwen3-8b"), adapted("lora")), (None, None));
    }
}
