//! `Diagnostic`: message, hints, exit code. Every library error becomes one here, with what to type next.

use std::fmt::Display;
use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;

use crate::arguments::foreign::instead_of;
use crate::arguments::workload::{flag_named, flag_of};
use gpuplan_embedded::EmbeddedError;
use gpuplan_hardware::catalog::HardwareError;
use gpuplan_hardware::selector::SelectorError;
use gpuplan_market::snapshot::MarketError;
use gpuplan_plan::limits::LimitsError;
use gpuplan_units::names::did_you_mean;
use gpuplan_workload::file::{ForeignFormat, WorkloadFileError};
use gpuplan_workload::huggingface::ConfigError;
use gpuplan_workload::model::names::Spelling;
use gpuplan_workload::safetensors::IndexError;

/// How a call ended. Exit codes and words are part of the interface: scripts and schedulers read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Exit {
    #[serde(skip)]
    Done = 0,
    /// What should not happen, or a program that failed.
    Unexpected = 1,
    /// Arguments or input that cannot be used.
    Usage = 2,
    NoPlanFits = 3,
    /// Only a limit of money or a rule of `policy.toml` is in the way.
    OverBudget = 4,
    /// Prices are stale or suspect.
    StalePrice = 5,
    NoCapacity = 6,
    Quota = 7,
    CloudRefused = 8,
    /// The call failed, and machines may still cost money.
    MayStillCost = 9,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error under `--output json`: the last line of stderr.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ErrorDocument {
    pub error: ErrorRecord,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ErrorRecord {
    pub kind: Exit,
    pub message: String,
    /// What to type next, one line each.
    pub hint: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub exit: Exit,
    pub message: String,
    pub hints: Vec<String>,
}

impl Diagnostic {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hints: Vec::new() }
    }

    /// Wrong arguments, from the paragraphs that clap says of them: what is wrong, then a tip or the usage.
    pub fn of_arguments(error: &clap::Error) -> Self {
        let text = error.to_string();
        let mut paragraphs = text.trim().split("\n\n").map(str::trim);
        let first = paragraphs.next().unwrap_or_default();
        let diagnostic = Self::new(Exit::Usage, first.strip_prefix("error: ").unwrap_or(first));
        match paragraphs.next() {
            Some(next) => diagnostic.hint(next.strip_prefix("tip: ").unwrap_or(next)),
            None => diagnostic,
        }
    }

    /// What should not happen.
    pub fn unexpected(error: impl Display) -> Self {
        Self::new(Exit::Unexpected, error.to_string())
    }

    /// Arguments or input that cannot be used.
    pub fn usage(error: impl Display) -> Self {
        Self::new(Exit::Usage, error.to_string())
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!("error: {}\n", self.message);
        if !self.hints.is_empty() {
            text.push('\n');
        }
        for hint in &self.hints {
            text.push_str(&format!("hint: {hint}\n"));
        }
        text
    }

    /// For programs, in one line.
    pub fn json(&self) -> String {
        let hint = (!self.hints.is_empty()).then(|| self.hints.join("\n"));
        let error = ErrorRecord { kind: self.exit, message: self.message.clone(), hint };
        let text = serde_json::to_string(&ErrorDocument { error }).expect("words are written as JSON");
        format!("{text}\n")
    }
}

impl From<EmbeddedError> for Diagnostic {
    fn from(error: EmbeddedError) -> Self {
        Self::unexpected(&error)
    }
}

impl From<HardwareError> for Diagnostic {
    fn from(error: HardwareError) -> Self {
        Self::usage(&error)
    }
}

impl From<MarketError> for Diagnostic {
    fn from(error: MarketError) -> Self {
        Self::usage(&error)
    }
}

impl From<SelectorError> for Diagnostic {
    fn from(error: SelectorError) -> Self {
        let diagnostic = Self::usage(&error);
        match error {
            SelectorError::UnknownGpu { suggestion: Some(name), .. } => {
                diagnostic.hint(format!("did you mean `{name}`? `gpuplan catalog gpus` lists all"))
            }
            SelectorError::UnknownGpu { suggestion: None, .. } => diagnostic
                .hint("`gpuplan catalog gpus` lists every name")
                .hint("--gpus 16GB+ takes any with so much memory"),
            SelectorError::Machine { cloud, gpus, .. } => diagnostic.hint(format!("--gpus {gpus} --cloud {cloud}")),
            SelectorError::CountMisplaced { meant, .. } => diagnostic.hint(flag("limits.gpus", &meant)),
            SelectorError::PartOfWhich(_) => diagnostic
                .hint("--gpus ..1/2: the parts that clouds rent, of at most a half")
                .hint("`gpuplan estimate --gpus H100:1/7` computes with any part"),
            SelectorError::Ambiguous { families, .. } => {
                families.iter().fold(diagnostic, |told, family| told.hint(format!("--gpus {family}")))
            }
            SelectorError::CountOrName { count, name } => {
                diagnostic.hint(format!("--gpus {name}")).hint(format!("`--gpus {count}..{count}` is the count"))
            }
            SelectorError::Malformed(text) => match text.split(':').next().filter(|name| is_word(name)) {
                Some(name) => diagnostic.hint(format!("--gpus {name}:{}", meant_count(&text))),
                None => diagnostic.hint("--gpus H100:8").hint("`gpuplan catalog gpus` lists every name"),
            },
            _ => diagnostic.hint("`gpuplan catalog gpus` lists every name"),
        }
    }
}

impl From<LimitsError> for Diagnostic {
    fn from(error: LimitsError) -> Self {
        let diagnostic = Self::usage(&error);
        match error {
            LimitsError::Gpus(inner) => Self::from(inner),
            LimitsError::UnknownCloud { known, nearest, .. } => {
                let meant = nearest.map(|name| format!("did you mean `--cloud {name}`?"));
                let known = format!("known clouds: {}", known.join(", "));
                meant.into_iter().chain([known]).fold(diagnostic, Self::hint)
            }
            LimitsError::CloudWithoutPrices { .. } => diagnostic
                .hint("leave --cloud out: what others ask stands beside its quote, as in `gpuplan prices H100:8`")
                .hint("or plan with its quote, as an [[own]] entry of capacity.toml (docs/prices.md)"),
            LimitsError::UnknownRegion { nearest, clouds, .. } => match (nearest.is_empty(), clouds.first()) {
                (false, _) => nearest.iter().fold(diagnostic, |told, region| told.hint(format!("--region {region}"))),
                (true, Some(cloud)) => diagnostic
                    .hint(format!("`gpuplan prices --cloud {cloud}` shows its regions"))
                    .hint("leave --region out where the prices name no region"),
                (true, None) => diagnostic.hint("`gpuplan prices` shows the regions of every offer"),
            },
            LimitsError::ZoneName { region, zone_ids, .. } => {
                let told = diagnostic.hint(format!("--region {region}"));
                match zone_ids.first() {
                    Some(zone) => told
                        .hint(format!("`--region {zone}` names a zone by its id, which is the same in every account")),
                    None => told,
                }
            }
            LimitsError::RegionOfOther { name, owner, nearest, .. } => {
                let told = diagnostic.hint(format!("--cloud {owner} --region {name}"));
                nearest.first().map(|region| format!("--region {region}")).into_iter().fold(told, Self::hint)
            }
            LimitsError::DataPlace { nearest, .. } => {
                nearest.iter().fold(diagnostic, |told, place| told.hint(format!("--data-place {place}")))
            }
            LimitsError::DeadlinePassed { .. } => {
                diagnostic.hint("give a length of time instead, such as `--deadline 48h`")
            }
            LimitsError::Invalid { key, nearest, .. } => {
                nearest.iter().fold(diagnostic, |told, value| told.hint(flag(&format!("limits.{key}"), value)))
            }
        }
    }
}

impl From<WorkloadFileError> for Diagnostic {
    fn from(error: WorkloadFileError) -> Self {
        let diagnostic = Self::usage(&error);
        match error {
            WorkloadFileError::UnknownModel { name, suggestion, members } => {
                unknown_model(diagnostic, &name, suggestion.as_deref(), &members)
            }
            WorkloadFileError::Syntax { suggestion: Some(name), .. } => diagnostic.hint(format!("did you mean `{name}`?")),
            WorkloadFileError::Syntax { .. } => diagnostic.hint("`gpuplan init` writes a workload file to start from"),
            WorkloadFileError::Foreign { format } => of_format(diagnostic, format),
            WorkloadFileError::Missing { key, .. } if key.starts_with("model") => {
                diagnostic.hint("name one, as in `gpuplan plan --model llama-3.1-8b --task lora --tokens 10M`")
            }
            WorkloadFileError::Missing { key, .. } => match key.as_str() {
                "training.task" => diagnostic.hint("--task lora"),
                "training.tokens" => diagnostic.hint("--tokens 10M"),
                // Both are open as a rule.
                "serving.prompt_tokens" => diagnostic.hint("--prompt-tokens 1000 --answer-tokens 300"),
                "serving.steps" => diagnostic.hint("--image-steps 28"),
                "serving.guidance" => diagnostic.hint("--guidance true"),
                "serving.audio_hours_per_day" => diagnostic.hint("--audio-hours 1000"),
                "serving.answer_tokens" => diagnostic.hint("--answer-tokens 300"),
                // A key of a part, such as a phase, is stated in the file.
                key if key.contains(' ') => diagnostic,
                key => diagnostic.hint(flag(key, "VALUE")),
            },
            WorkloadFileError::Conflict { first, second } => diagnostic.hint(format!("leave out `{first}` or `{second}`")),
            WorkloadFileError::Invalid { key, detail, .. } if detail.starts_with(NO_SUCH_KEY) => match key_meant(&key) {
                Some(hint) => diagnostic.hint(hint),
                None if detail.contains("did you mean") => diagnostic,
                None => diagnostic.hint("docs/book/keys.md has every key with its value"),
            },
            WorkloadFileError::Invalid { key, detail, .. } if key == "serving" && detail.contains(MAKES_VIDEOS) => {
                diagnostic
                    .hint("--task lora --steps 1000 in place of what is served plans its training")
                    .hint("for clips, measure one: its GPU hours times their number, at the rate that `gpuplan prices H100` shows")
            }
            WorkloadFileError::Invalid { key, nearest, .. } => {
                nearest.iter().fold(diagnostic, |told, value| told.hint(flag(&key, value)))
            }
        }
    }
}

/// How a refusal of a key that no file has begins.
const NO_SUCH_KEY: &str = "there is no such key";
/// What a refusal of a served model says where it makes clips.
const MAKES_VIDEOS: &str = "it makes videos";

/// `training.lora_rank` is what `--lora-rank` sets, and `training.lora_r` what other programs call it: the key whose last word names a flag.
fn key_meant(key: &str) -> Option<String> {
    let name = key.rsplit('.').next().unwrap_or(key).trim().to_ascii_lowercase().replace('_', "-");
    match flag_named(&name) {
        Some((flag, set)) => Some(format!("--{flag} VALUE, which is {set} in a file")),
        None => instead_of(&name),
    }
}

impl Diagnostic {
    /// A settings file in TOML with a key or a value that cannot be meant, and what probably was.
    pub fn settings(error: &impl Display) -> Self {
        let text = error.to_string();
        let diagnostic = Self::usage(&text);
        match meant_in_toml(&text) {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic.hint("docs/book/keys.md has every key with its value"),
        }
    }
}

/// What a message of the TOML reader about a key or a type asks for.
pub fn meant_in_toml(message: &str) -> Option<String> {
    if let Some((_, names)) = message.split_once("unknown field ") {
        let mut names = names.split('`').skip(1).step_by(2);
        let unknown = names.next()?;
        return did_you_mean(unknown, names).map(|name| format!("did you mean `{name}`?"));
    }
    let (_, types) = message.split_once("invalid type: ")?;
    let (given, expected) = types.split_once(", expected ")?;
    let is_number = ["u8", "u16", "u32", "u64", "i64", "f64"].iter().any(|number| expected.starts_with(number));
    match given.split(' ').next()? {
        "string" if is_number => {
            let value = given.trim_start_matches("string ").trim_matches('"');
            Some(match value.parse::<f64>() {
                Ok(_) => format!("write the number without quotes: {value}"),
                Err(_) => "write a number there, such as 4".to_owned(),
            })
        }
        "map" if expected.starts_with("a sequence") => {
            Some("write two brackets around the name, as in [[run]]: there may be several".to_owned())
        }
        "integer" | "floating" if expected.contains("string") => {
            Some(format!("write it in quotes: \"{}\"", given.split('`').nth(1)?))
        }
        _ => None,
    }
}

/// What to type in place of a model's name that nobody knows.
fn unknown_model(diagnostic: Diagnostic, name: &str, suggestion: Option<&str>, members: &[String]) -> Diagnostic {
    if Spelling::parse(name).is_some_and(|name| name.is_unpublished()) {
        return diagnostic.hint(format!(
            "the weights of `{name}` are not published, so no machine that you rent can run it; an open model instead: --model gpt-oss-120b"
        ));
    }
    if name.starts_with(['.', '/', '~']) || name.contains('\\') {
        let folder = name.trim_end_matches(['/', '\\']);
        return diagnostic
            .hint(format!("of a folder with a model: --config '{folder}/config.json' in place of --model"));
    }
    if !members.is_empty() {
        return diagnostic.hint(say_which(name, members));
    }
    if let Some(meant) = suggestion {
        return diagnostic.hint(format!(
            "did you mean `{meant}`? `gpuplan catalog models` lists all; another model is described by `--config FILE`, its config.json, or by its size alone, `--params 7B`"
        ));
    }
    let Some(repository) = repository(name) else {
        return diagnostic.hint("`gpuplan catalog models` lists every name; for another model give `--config FILE` with its config.json, its size alone with `--params 7B`, or its sizes under [model] of the workload file; for what is no transformer `--params 25M --flops-per-sample 8G`");
    };
    diagnostic
        .hint(format!("huggingface-cli download {repository} config.json --local-dir ."))
        .hint("then `--config config.json` in place of --model")
        .hint(format!("a pipeline for images or video has no config.json at its root: huggingface-cli download {repository} --include model_index.json '*/config.json' --local-dir ."))
        .hint("then `--config model_index.json`; or, for an estimate with a wide band, the size of a language model alone, `--params 7B`, and of what is no transformer `--params 25M --flops-per-sample 8G`")
}

/// The repository of the Hub that a name or the address of its page means.
fn repository(name: &str) -> Option<String> {
    let name = name.trim_start_matches("https://").trim_start_matches("http://");
    let name = ["huggingface.co/", "hf.co/"].iter().find_map(|host| name.strip_prefix(host)).unwrap_or(name);
    let (organisation, rest) = name.split_once('/')?;
    let repository = rest.split(['/', '?', '#', ':']).next().unwrap_or_default();
    let is_name = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    // The host of another site has a point, which no organisation has.
    (is_name(organisation) && !organisation.contains('.') && is_name(repository))
        .then(|| format!("{organisation}/{repository}"))
}

/// A name that leaves open which model is meant: the models, as far as a line holds them.
fn say_which(name: &str, members: &[String]) -> String {
    const SHOWN: usize = 6;
    let shown: Vec<String> = members.iter().take(SHOWN).map(|member| format!("`{member}`")).collect();
    let all =
        if members.len() > SHOWN { format!("; `gpuplan catalog models '{name}'` lists all") } else { String::new() };
    format!("say which with --model: {}{all}", shown.join(", "))
}

/// What to do with a file of another kind.
fn of_format(diagnostic: Diagnostic, format: ForeignFormat) -> Diagnostic {
    match format {
        ForeignFormat::Kubernetes | ForeignFormat::SkyPilot | ForeignFormat::Slurm => diagnostic
            .hint("`gpuplan plan --from FILE --model llama-3.1-8b --task lora --tokens 10M` reads what a job asks for"),
        ForeignFormat::ModelConfig => {
            diagnostic.hint("`gpuplan plan --config FILE --task lora --tokens 10M` takes it as the model")
        }
        _ => diagnostic.hint("`gpuplan init` writes a workload file to start from"),
    }
}

/// The flag that states a key of the workload file, with a value.
pub fn flag(key: &str, value: &str) -> String {
    let value = if value.contains(' ') { format!("'{value}'") } else { value.to_owned() };
    match flag_of(key) {
        Some(flag) => format!("--{flag} {value}"),
        None => format!("--set {key}={value}"),
    }
}

/// What was probably meant by a count of GPUs that is none: `8-16` and `16..8` as `8..16`, `8*2` of two machines as `16`.
fn meant_count(text: &str) -> String {
    let counts = text.split_once(':').map_or("", |(_, counts)| counts);
    let factors = counts.split_once(['*', 'x', 'X', '\u{d7}']);
    let factors = factors.and_then(|(a, b)| Some((a.trim().parse::<u32>().ok()?, b.trim().parse::<u32>().ok()?)));
    if let Some(product) = factors.and_then(|(a, b)| a.checked_mul(b)).filter(|product| *product > 0) {
        return product.to_string();
    }
    let ends = counts.split_once("..").or_else(|| counts.split_once(['-', '\u{2013}']));
    let ends = ends.and_then(|(from, to)| Some((from.trim().parse::<u32>().ok()?, to.trim().parse::<u32>().ok()?)));
    match ends.filter(|(from, to)| from.min(to) > &0) {
        Some((from, to)) => format!("{}..{}", from.min(to), from.max(to)),
        None => "8".to_owned(),
    }
}

/// A name as a GPU may have it.
fn is_word(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

impl From<ConfigError> for Diagnostic {
    fn from(error: ConfigError) -> Self {
        let diagnostic = Self::new(Exit::Usage, format!("config.json: {error}"));
        match error {
            ConfigError::UnknownModelType { suggestion: Some(name), .. } => {
                diagnostic.hint(format!("did you mean `{name}`?"))
            }
            ConfigError::UnknownModelType { .. } => {
                diagnostic.hint("give the sizes under [model] of the workload file instead")
            }
            _ => diagnostic.hint(
                "give the config.json of the model's own repository, or `--model NAME` of `gpuplan catalog models`",
            ),
        }
    }
}

impl From<IndexError> for Diagnostic {
    fn from(error: IndexError) -> Self {
        Self::new(Exit::Usage, format!("model.safetensors.index.json: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_toml_reader_says_of_a_key_or_a_type_is_answered_with_what_to_write() {
        for (said, meant) in [
            ("unknown field `repeat`, expected one of `name`, `repeats`", Some("did you mean `repeats`?")),
            ("unknown field `colour`, expected one of `name`, `repeats`", None),
            ("invalid type: string \"2\", expected u32", Some("write the number without quotes: 2")),
            ("invalid type: string \"weekly\", expected i64", Some("write a number there, such as 4")),
            ("invalid type: floating point `4.5`, expected a string", Some("write it in quotes: \"4.5\"")),
            ("missing field `nodes`", None),
        ] {
            assert_eq!(meant_in_toml(said).as_deref(), meant, "{said}");
        }
        assert!(meant_in_toml("invalid type: map, expected a sequence").is_some_and(|hint| hint.contains("[[run]]")));
    }

    #[test]
    fn an_error_is_one_line_of_json_with_its_kind() {
        let error = Diagnostic::new(Exit::MayStillCost, "two\nlines").hint("gpuplan status").hint("gpuplan doctor");
        let expected =
            r#"{"error":{"kind":"may-still-cost","message":"two\nlines","hint":"gpuplan status\ngpuplan doctor"}}"#;
        assert_eq!(error.json(), format!("{expected}\n"));
        assert!(Diagnostic::new(Exit::Usage, "x").json().contains(r#""kind":"usage","message":"x","hint":null"#));
    }

    #[test]
    fn wrong_arguments_keep_their_tip() {
        let program = clap::Command::new("gpuplan").arg(clap::Arg::new("model").long("model"));
        let error = program.try_get_matches_from(["gpuplan", "--modell", "x"]).unwrap_err();
        let diagnostic = Diagnostic::of_arguments(&error);
        assert!(diagnostic.message.starts_with("unexpected argument '--modell'"), "{diagnostic:?}");
        assert!(diagnostic.hints[0].contains("'--model'"), "{diagnostic:?}");
    }
}
