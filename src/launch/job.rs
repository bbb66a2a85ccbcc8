//! `Job`: what the machines of a run are given to do, and the files that they fetch for it.

use serde::{Deserialize, Serialize};

use gpuplan_workload::Sweep;

/// Everything that a machine needs beside the run's store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    pub command: Vec<String>,
    /// The program of this crate, for the machine.
    pub agent: Parcel,
    /// The user's own folder as an archive (tar, gzip).
    pub workdir: Option<Parcel>,
    /// Run once on a new machine, in the folder of the command, before it.
    pub setup: Option<String>,
    /// Variables of the command. They stand in the boot script, which whoever may describe the machine can read.
    pub environment: Vec<(String, String)>,
    pub secrets: Vec<Secret>,
    /// What each machine fetches or mounts before the command starts.
    #[serde(default)]
    pub data: Option<Data>,
    /// Image that the command runs in; `None`: on the machine itself.
    #[serde(default)]
    pub container: Option<String>,
    /// Name of the secret, `USER:PASSWORD`, with which a machine signs in to the registry of the image; `None`: by its own identity, where the
    /// registry is one of its cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_login: Option<String>,
    /// The command many times, beside each other on one machine; `None`: once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
    /// More words for the agent's own command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent_options: Vec<String>,
    /// Where people are told what happens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<String>,
}

impl Job {
    /// After the name of its image: with which secret a machine signs in to the registry.
    pub fn login_words(&self) -> String {
        self.container_login.as_ref().map_or_else(String::new, |name| format!(", signed in with the secret {name}"))
    }
}

/// A command as a person would type it.
pub fn command_line(command: &[String]) -> String {
    let quoter = shlex::Quoter::new().allow_nul(true);
    quoter.join(command.iter().map(String::as_str)).expect("only a NUL is refused, and it is allowed")
}

/// Data as it was when the run was launched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Data {
    pub address: String,
    pub files: usize,
    pub bytes: u64,
    /// The bucket is a folder of the machine and is read in every pass; else all of it is copied to a disk first.
    #[serde(default)]
    pub is_mounted: bool,
}

/// A file for a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parcel {
    /// It lies on the machine already.
    Here(String),
    /// Fetched from anywhere, and used only if it is the one.
    Address { url: String, sha256: String },
    /// In the run's store.
    Stored { key: String, sha256: String },
}

/// A secret of the cloud's own store. The machine asks for it with its own identity; nobody else sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    pub variable: String,
    pub name: String,
}

/// Words of names of variables whose values are secrets. A word that only contains one, such as TOKENIZERS, is none.
const SECRET_WORDS: [&str; 13] = [
    "KEY",
    "KEYS",
    "APIKEY",
    "TOKEN",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "CREDENTIALS",
    "AUTH",
    "PAT",
];
/// Variables that change what a shell or a loader does before the program of the job runs.
const SHELL: [&str; 16] = [
    "PATH",
    "IFS",
    "ENV",
    "BASH_ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "BASH_FUNC",
    "CDPATH",
    "PS4",
    "PWD",
    "OLDPWD",
    "HOME",
    "SHELL",
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
];
/// Names of this program's own.
const OWN: &str = "GPUPLAN_";

/// Why a text is no secret or variable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VariableError {
    #[error("`{0}` is not a valid variable name; use letters, digits and `_`, not starting with a digit")]
    Name(String),
    #[error("`{0}` has no value")]
    Valueless(String),
    #[error("the name of the secret for `{0}` is empty")]
    Nameless(String),
    #[error(
        "`{0}` looks like a secret, and a variable can be read in the boot script, in the store and in the journal"
    )]
    Secret(String),
    #[error("`{0}` would change the shell or the agent on the machine, and not only the command")]
    Steers(String),
}

/// `NAME=VALUE`, a variable of the command that anybody may see.
///
/// # Errors
/// If it has no value, if its name says that it is a secret, or if it would change more than the command.
pub fn job_variable(text: &str) -> Result<(String, String), VariableError> {
    let (name, value) = text.split_once('=').ok_or_else(|| VariableError::Valueless(text.to_owned()))?;
    let name = variable_name(name)?;
    let upper = name.to_ascii_uppercase();
    if SHELL.contains(&upper.as_str()) || upper.starts_with(OWN) {
        return Err(VariableError::Steers(name));
    }
    if upper.split('_').any(|word| SECRET_WORDS.contains(&word)) {
        return Err(VariableError::Secret(name));
    }
    Ok((name, value.to_owned()))
}

impl Secret {
    /// `VARIABLE=NAME`, or `NAME`, which gives the variable of the same letters in upper case.
    pub fn parse(text: &str) -> Result<Self, VariableError> {
        let (variable, name) = match text.split_once('=') {
            Some((variable, name)) => (variable.to_owned(), name),
            None => (
                text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect(),
                text,
            ),
        };
        let variable = variable_name(&variable)?;
        if name.is_empty() {
            return Err(VariableError::Nameless(variable));
        }
        Ok(Self { variable, name: name.to_owned() })
    }
}

/// Before an image of a container, where images of machines may stand, too.
pub const DOCKER: &str = "docker://";

/// Why a text names no image of a container.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid container image; try pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime")]
pub struct ImageError(String);

/// The image without `docker://`. What would be an option of the engine is none.
pub fn container(text: &str) -> Result<String, ImageError> {
    let name = text.strip_prefix(DOCKER).unwrap_or(text);
    let fits = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-/:@".contains(c));
    if fits { Ok(name.to_owned()) } else { Err(ImageError(text.to_owned())) }
}

/// A name that a shell takes.
pub fn variable_name(text: &str) -> Result<String, VariableError> {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    let fits = text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || c.is_ascii_digit());
    if fits { Ok(text.to_owned()) } else { Err(VariableError::Name(text.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_no_option() {
        assert_eq!(
            container("docker://nvcr.io/nvidia/pytorch:26.01-py3").as_deref(),
            Ok("nvcr.io/nvidia/pytorch:26.01-py3")
        );
        for text in ["", "docker://", "--privileged", "a b", "a;b"] {
            assert!(container(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_secret_names_its_variable_or_gives_it_its_name() {
        let secret = |variable: &str, name: &str| Ok(Secret { variable: variable.to_owned(), name: name.to_owned() });
        assert_eq!(Secret::parse("gpuplan/hf-token"), secret("GPUPLAN_HF_TOKEN", "gpuplan/hf-token"));
        assert_eq!(Secret::parse("HF_TOKEN=gpuplan/hf"), secret("HF_TOKEN", "gpuplan/hf"));
        assert!(
            Secret::parse("x y=gpuplan/hf").is_err() && Secret::parse("=a").is_err() && Secret::parse("1a").is_err()
        );
        assert_eq!(Secret::parse("HF_TOKEN="), Err(VariableError::Nameless("HF_TOKEN".to_owned())));
    }

    #[test]
    fn a_variable_is_no_secret_and_changes_nothing_but_the_command() {
        for plain in [
            "A=",
            "TOKENIZERS_PARALLELISM=false",
            "MAX_TOKENS=5",
            "MONKEY=1",
            "NCCL_DEBUG=INFO",
            "x=a=b",
            "WANDB_MODE=x",
        ] {
            let (name, value) = job_variable(plain).unwrap();
            assert_eq!(format!("{name}={value}"), plain);
        }
        for secret in [
            "HF_TOKEN=x",
            "WANDB_API_KEY=x",
            "aws_secret_access_key=x",
            "DB_PASSWORD=x",
            "GOOGLE_APPLICATION_CREDENTIALS=x",
        ] {
            assert!(matches!(job_variable(secret), Err(VariableError::Secret(_))), "{secret}");
        }
        for steering in
            ["PATH=/x", "IFS=a", "ENV=x", "BASH_ENV=x", "LD_PRELOAD=x", "GPUPLAN_RUN_ID=x", "gpuplan_agent_options=x"]
        {
            assert!(matches!(job_variable(steering), Err(VariableError::Steers(_))), "{steering}");
        }
        assert!(matches!(job_variable("A"), Err(VariableError::Valueless(_))));
        assert!(matches!(job_variable("A B=1"), Err(VariableError::Name(_))));
    }

    #[test]
    fn a_command_is_written_as_it_is_typed() {
        assert_eq!(command_line(&["sh", "-c", "id > x"].map(str::to_owned)), "sh -c 'id > x'");
    }
}
