//! `setup`: what a launch needs in an account, as Terraform: printed, or applied and removed by Terraform or OpenTofu itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::Value;

use crate::runs::clouds::{rental_cloud, rental_clouds};
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_clouds::aws;
use gpuplan_runstore::private;

#[derive(Debug, Args)]
pub struct SetupArguments {
    /// Set up an account of this cloud
    #[arg(value_parser = PossibleValuesParser::new(rental_clouds()))]
    pub cloud: String,
    /// Print the Terraform file and change nothing
    #[arg(long, conflicts_with_all = ["remove", "yes"])]
    pub print: bool,
    /// Remove what was set up from this machine
    #[arg(long)]
    pub remove: bool,
    /// Skip the confirmation
    #[arg(short, long)]
    pub yes: bool,
    /// Create the bucket in this region
    #[arg(long)]
    pub region: Option<String>,
    /// Use this project (Google Cloud)
    #[arg(long)]
    pub project: Option<String>,
    /// Begin every name with this
    #[arg(long)]
    pub name: Option<String>,
}

/// Programs that apply it, in the order in which they are looked for.
const PROGRAMS: [&str; 2] = ["tofu", "terraform"];

/// Folder of the state among the settings: without it nothing could be removed again.
const FOLDER: &str = "setup";

/// As Terraform calls it.
const STATE: &str = "terraform.tfstate";

pub fn run(arguments: &SetupArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let word = arguments.cloud.as_str();
    let text = rental_cloud(word).expect("the parser takes these names alone").setup;
    if arguments.print {
        return session.printer.data(text);
    }
    if session.offline {
        return Err(Diagnostic::usage("setup asks the cloud, which --offline (or GPUPLAN_OFFLINE) forbids")
            .hint(format!("gpuplan setup {word} --print")));
    }
    let folder =
        session.home.config_file(FOLDER).map(|folder| folder.join(word)).ok_or_else(|| {
            Diagnostic::usage("there is no folder to keep the state in").hint("set HOME or GPUPLAN_HOME")
        })?;
    let (folder, text) = match elsewhere(arguments, &folder, word)? {
        Some(Elsewhere { folder, region, first }) => {
            session.printer.note(&format!(
                "bucket, role and policy are those of {first}, which is set up; {region} gets a security group, with a Terraform state of its own: \
                 with the state of {first} they would be moved"
            ));
            (folder, aws::SETUP_REGION)
        }
        None => (folder, text),
    };
    let program = PROGRAMS.into_iter().find(|program| is_there(program)).ok_or_else(|| {
        Diagnostic::usage("neither `tofu` nor `terraform` is installed, and one of them does the work").hint(format!(
            "install one from https://opentofu.org, or `gpuplan setup {word} --print` and give the file to whoever runs Terraform"
        ))
    })?;
    if arguments.remove && !folder.join(STATE).is_file() {
        return Err(Diagnostic::usage(format!("nothing was set up from here: {} has no state", folder.display()))
            .hint(format!("gpuplan setup {word} --print shows what would be there")));
    }
    write(&folder, text)?;
    session
        .printer
        .note(&format!("{program} works in {}; keep that folder, it is what `--remove` needs", folder.display()));
    apply(program, &folder, arguments)
}

/// Another region of AWS than that which was set up first.
#[derive(Debug, PartialEq, Eq)]
struct Elsewhere {
    /// Of its state.
    folder: PathBuf,
    region: String,
    first: String,
}

/// `None`: nothing was set up yet, or it was this region. A state that cannot be read is not taken for none: what it has would be moved.
fn elsewhere(arguments: &SetupArguments, first: &Path, word: &str) -> Result<Option<Elsewhere>, Diagnostic> {
    let path = first.join(STATE);
    let Some(region) = arguments.region.as_deref().filter(|_| word == aws::CLOUD && path.exists()) else {
        return Ok(None);
    };
    let unreadable = |why: String| {
        Diagnostic::usage(format!("the state of what is set up cannot be read: {}: {why}", path.display()))
            .hint(format!("restore it from its backup in the same folder, {STATE}.backup"))
    };
    let text = fs::read(&path).map_err(|error| unreadable(error.to_string()))?;
    let state: Value = serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
    let is_bucket = |resource: &&Value| resource["mode"] == "managed" && resource["type"] == "aws_s3_bucket";
    let bucket = state["resources"].as_array().and_then(|resources| resources.iter().find(is_bucket));
    let known = bucket.and_then(|bucket| bucket["instances"][0]["attributes"]["region"].as_str());
    Ok(known.filter(|first| *first != region).map(|known| Elsewhere {
        folder: first.with_file_name(format!("{word}-{region}")),
        region: region.to_owned(),
        first: known.to_owned(),
    }))
}

fn write(folder: &Path, text: &str) -> Result<(), Diagnostic> {
    let cannot = |path: &Path| {
        let path = path.to_owned();
        move |error: std::io::Error| Diagnostic::usage(format!("cannot write {}: {error}", path.display()))
    };
    private::folder(folder).map_err(cannot(folder))?;
    let path = folder.join("main.tf");
    fs::write(&path, text).map_err(cannot(&path))
}

/// Shows what would change, and asks before it does: the program's own question, unless `--yes`.
fn apply(program: &str, folder: &Path, arguments: &SetupArguments) -> Result<Exit, Diagnostic> {
    let init = ["init", "-input=false"].map(str::to_owned).to_vec();
    let mut change = vec![if arguments.remove { "destroy" } else { "apply" }.to_owned()];
    let variables = [("region", &arguments.region), ("project", &arguments.project), ("name", &arguments.name)];
    change.extend(
        variables.into_iter().filter_map(|(name, value)| value.as_ref().map(|value| format!("-var={name}={value}"))),
    );
    change.extend(arguments.yes.then(|| "-auto-approve".to_owned()));
    for arguments in [init, change] {
        let status = Command::new(program).args(&arguments).current_dir(folder).status();
        let status = status.map_err(|error| Diagnostic::unexpected(format!("cannot run {program}: {error}")))?;
        if !status.success() {
            return Err(Diagnostic::new(
                Exit::CloudRefused,
                format!("`{program} {}` ended with {status}; what it said stands above", arguments[0]),
            )
            .hint("gpuplan doctor"));
        }
    }
    Ok(Exit::Done)
}

fn is_there(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|folders| std::env::split_paths(&folders).any(|folder: PathBuf| folder.join(program).is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(region: Option<&str>) -> SetupArguments {
        let region = region.map(str::to_owned);
        SetupArguments {
            cloud: aws::CLOUD.to_owned(),
            print: false,
            remove: false,
            yes: false,
            region,
            project: None,
            name: None,
        }
    }

    #[test]
    fn another_region_has_a_state_of_its_own_and_moves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let first = home.path().join("aws");
        fs::create_dir(&first).unwrap();
        let place = |region| elsewhere(&asked(region), &first, "aws").unwrap();
        assert_eq!(place(Some("us-west-2")), None, "nothing was set up yet");
        let state = r#"{"resources": [{"mode": "data", "type": "aws_vpc"},
            {"mode": "managed", "type": "aws_s3_bucket", "instances": [{"attributes": {"region": "us-east-1"}}]}]}"#;
        fs::write(first.join(STATE), state).unwrap();
        let (region, known) = ("us-west-2".to_owned(), "us-east-1".to_owned());
        assert_eq!(
            place(Some("us-west-2")),
            Some(Elsewhere { folder: home.path().join("aws-us-west-2"), region, first: known })
        );
        assert_eq!((place(Some("us-east-1")), place(None)), (None, None));
        assert_eq!(elsewhere(&asked(Some("us-west-2")), &first, "gcp").unwrap(), None);
        fs::write(first.join(STATE), &state[..60]).unwrap();
        let said = elsewhere(&asked(Some("us-west-2")), &first, "aws").unwrap_err();
        assert!(
            said.message.contains("cannot be read") && said.hints[0].contains("terraform.tfstate.backup"),
            "{said:?}"
        );
    }

    #[test]
    fn the_security_group_is_the_same_in_every_region() {
        let group = |text: &'static str| {
            text.split_once("resource \"aws_security_group\"").unwrap().1.split_once("\n}\n").unwrap().0
        };
        assert_eq!(group(aws::SETUP), group(aws::SETUP_REGION));
        assert!(!aws::SETUP_REGION.contains("aws_iam") && !aws::SETUP_REGION.contains("aws_s3"));
    }
}
