//! What the machines of a run are given: the agent, the user's own folder, variables and secrets. Found and checked before any
//! money is spent, sent to the run's store after the yes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::running::launch::arguments::DeliveryArguments;
use crate::running::launch::data::{Receiver, Upload, find_data};
use crate::running::launch::folder::Folder;
use crate::running::launch::pipeline;
use crate::session::diagnostic::Diagnostic;
use crate::session::printer::Printer;
use crate::session::runtime::runtime;
use gpuplan_clouds::fake;
use gpuplan_clouds::http::variable;
use gpuplan_launch::job::{DOCKER, VariableError, container, job_variable};
use gpuplan_launch::{Job, Parcel, Secret};
use gpuplan_runstore::Run;
use gpuplan_runstore::sha256;
use gpuplan_workload::DataSet;

/// What a program for Linux starts with, and where it says for which processor.
const ELF: &[u8] = b"\x7fELF";

/// A job, and the files that have to be in the store before a machine starts.
pub struct Delivery {
    pub job: Job,
    /// Files of a folder here that have to be in the store, too.
    upload: Option<Upload>,
    parcels: Vec<(String, Vec<u8>)>,
    /// What a launch would be refused for; only a dry run gets here with any.
    pub missing: Vec<Diagnostic>,
}

impl Delivery {
    pub fn prepare(
        arguments: &DeliveryArguments,
        command: &[String],
        data: Option<&DataSet>,
        to: &Receiver,
        printer: &Printer,
    ) -> Result<Self, Diagnostic> {
        let Receiver { cloud, run, .. } = *to;
        let mut parcels = Vec::new();
        let mut missing = Vec::new();
        let agent = match agent(arguments.agent.as_deref(), cloud, &mut parcels) {
            Err(none) if to.is_dry => {
                missing.push(none);
                Parcel::Here("gpuplan-agent".to_owned())
            }
            found => found?,
        };
        let folder = arguments.workdir.as_deref().map(Folder::list).transpose()?;
        let workdir = match &folder {
            Some(folder) => {
                folder.say_what_stays(printer);
                let archive = folder.archive()?;
                let sha256 = sha256(&archive);
                let key = run.workdir_key(&sha256);
                parcels.push((key.clone(), archive));
                Some(Parcel::Stored { key, sha256 })
            }
            None => None,
        };
        let wrong = |error: &dyn std::error::Error, hint: &str| Diagnostic::usage(error).hint(hint);
        let secrets = arguments.secrets.iter().map(|text| Secret::parse(text));
        let secrets: Vec<Secret> =
            secrets.collect::<Result<_, _>>().map_err(|error| wrong(&error, "--secret HF_TOKEN=gpuplan/hf-token"))?;
        let mut environment = match region(cloud) {
            Err(_) if to.is_dry => Vec::new(),
            found => found?,
        };
        for text in &arguments.environment {
            environment.push(job_variable(text).map_err(|error| no_variable(&error, cloud))?);
        }
        let command = match &folder {
            Some(folder) => {
                folder.has_program_of(command, arguments.setup.is_some())?;
                command.to_vec()
            }
            None => found(command, cloud)?,
        };
        pipeline::check(&command, arguments.workdir.as_deref(), printer)?;
        let container = container_of(arguments)?;
        let container_login = arguments.container_login.clone();
        let (data, upload) = find_data(data, to)?.unzip();
        let setup = arguments.setup.clone();
        let (agent_options, notify) = (arguments.agents.words(), arguments.agents.notified(&secrets, printer)?);
        let job = Job {
            command,
            agent,
            workdir,
            setup,
            environment,
            secrets,
            data,
            container,
            container_login,
            sweep: None,
            agent_options,
            notify,
        };
        Ok(Self { job, upload: upload.flatten(), parcels, missing })
    }

    pub fn bytes(&self) -> usize {
        self.parcels.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    pub fn sends_data(&self) -> bool {
        self.upload.is_some()
    }

    /// Into the store; what is there already is not sent again.
    pub fn send(self, run: &Run, printer: &Printer) -> Result<(), Diagnostic> {
        if let Some(upload) = self.upload {
            upload.send(run, printer)?;
        }
        runtime()?.block_on(async {
            for (key, bytes) in self.parcels {
                run.keep_parcel(&key, bytes).await?;
            }
            Ok(())
        })
    }
}

/// The image that the command runs in, by either option.
fn container_of(arguments: &DeliveryArguments) -> Result<Option<String>, Diagnostic> {
    let docker = arguments.image.as_deref().filter(|image| image.starts_with(DOCKER));
    if let (Some(_), Some(image)) = (&arguments.container, docker) {
        return Err(
            Diagnostic::usage(format!("--image {image} and --container both name a container")).hint("give one")
        );
    }
    let hint = "--container pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime";
    let image = arguments.container.as_deref().or(docker).map(container).transpose();
    match (&arguments.container_login, &image) {
        (Some(_), Ok(None)) => {
            return Err(Diagnostic::usage(
                "--container-login signs in to the registry of a container, and none is named",
            )
            .hint("--container IMAGE"));
        }
        (Some(name), _) if name.is_empty() => {
            return Err(Diagnostic::usage("--container-login has no name").hint("--container-login gpuplan/registry"));
        }
        _ => {}
    }
    image.map_err(|error| Diagnostic::usage(&error).hint(hint))
}

/// The program for the machines. None found is an error before any money is spent.
pub fn agent(named: Option<&str>, cloud: &str, parcels: &mut Vec<(String, Vec<u8>)>) -> Result<Parcel, Diagnostic> {
    if let Some((url, sha256)) = named.and_then(|text| text.split_once("#sha256=")) {
        return Ok(Parcel::Address { url: url.to_owned(), sha256: sha256.to_ascii_lowercase() });
    }
    if named.is_some_and(|text| text.contains("://")) {
        return Err(Diagnostic::usage("an agent from an address needs its hash")
            .hint("--agent https://.../gpuplan-agent#sha256=HEX"));
    }
    let here = std::env::current_exe().map_err(Diagnostic::unexpected)?;
    if named.is_none() && cloud == fake::CLOUD {
        return Ok(Parcel::Here(here.to_string_lossy().into_owned()));
    }
    let path = named.map_or_else(|| here.with_file_name("gpuplan-agent"), PathBuf::from);
    let bytes = fs::read(&path).map_err(|error| {
        Diagnostic::usage(format!(
            "the agent for the machines cannot be read: {}: {error}; nothing was rented",
            path.display()
        ))
        .hint(format!(
            "`.ci/agent {}`, in the folder of gpuplan's source, builds it and puts it there",
            path.parent().unwrap_or(&path).display()
        ))
        .hint("--agent PATH names another")
    })?;
    if !bytes.starts_with(ELF) {
        return Err(Diagnostic::usage(format!("{} is not a Linux program; nothing was rented", path.display())));
    }
    let sha256 = sha256(&bytes);
    let key = Run::agent_key(&sha256);
    parcels.push((key.clone(), bytes));
    Ok(Parcel::Stored { key, sha256 })
}

/// A secret has a place of its own, and the rest of what is refused can be set for the command alone.
fn no_variable(error: &VariableError, cloud: &str) -> Diagnostic {
    let said = Diagnostic::usage(format!("--env: {error}"));
    match error {
        VariableError::Secret(name) => {
            let secret = format!("gpuplan/{}", name.to_ascii_lowercase().replace('_', "-"));
            let kept = match cloud {
                "gcp" => format!("gcloud secrets create {} --data-file FILE stores it", secret.replace('/', "-")),
                _ => format!("aws secretsmanager create-secret --name {secret} --secret-string file://FILE stores it"),
            };
            let secret = if cloud == "gcp" { secret.replace('/', "-") } else { secret };
            said.hint(format!("--secret {name}={secret}"))
                .hint(kept)
                .hint(format!("-- env {name}=VALUE COMMAND, if it is none"))
        }
        VariableError::Steers(name) => said.hint(format!("-- env {name}=VALUE COMMAND")),
        _ => said.hint("--env NAME=VALUE"),
    }
}

/// A bucket of S3 is asked in its region, which a machine elsewhere does not know.
fn region(cloud: &str) -> Result<Vec<(String, String)>, Diagnostic> {
    if cloud != "aws" {
        return Ok(Vec::new());
    }
    let named = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
    let region = match named {
        Some(region) => Some(region),
        None => runtime()?.block_on(gpuplan_clouds::store_keys()).map(|(region, _)| region),
    };
    let region = region.ok_or_else(|| {
        Diagnostic::usage("the region of the bucket is unknown").hint("export AWS_REGION=REGION_OF_THE_BUCKET")
    })?;
    Ok(vec![("AWS_REGION".to_owned(), region)])
}

/// A program that lies here does not lie on a machine, unless the machine is this one.
fn found(command: &[String], cloud: &str) -> Result<Vec<String>, Diagnostic> {
    let lies_here = |word: &String| Path::new(word).is_relative() && Path::new(word).is_file();
    if cloud != fake::CLOUD {
        return match command.iter().find(|word| lies_here(word)) {
            Some(word) => Err(Diagnostic::usage(format!("`{word}` exists here, but not on the machine"))
                .hint("--workdir . uploads this folder")),
            None => Ok(command.to_vec()),
        };
    }
    let absolute = |word: &String| {
        let path = if lies_here(word) { std::path::absolute(word) } else { Ok(PathBuf::from(word)) };
        path.map(|path| path.to_string_lossy().into_owned()).map_err(Diagnostic::unexpected)
    };
    command.iter().map(absolute).collect()
}
