//! What the machines of a run are given: the agent, the user's own folder, variables and secrets. Found and checked before any
//! money is spent, sent to the run's store after the yes.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::running::launch::arguments::DeliveryArguments;
use crate::running::launch::data::{Receiver, Upload, find_data};
use crate::session::diagnostic::Diagnostic;
use crate::session::printer::Printer;
use crate::session::runtime::runtime;
use gpuplan_clouds::fake;
use gpuplan_clouds::http::variable;
use gpuplan_launch::job::{DOCKER, container, variable_name};
use gpuplan_launch::{Job, Parcel, Secret};
use gpuplan_runstore::Run;
use gpuplan_runstore::sha256;
use gpuplan_workload::DataSet;

/// What a program for Linux starts with, and where it says for which processor.
const ELF: &[u8] = b"\x7fELF";

/// More than this is data, not a program: it belongs into a bucket. Bytes.
const LARGEST_FOLDER: u64 = 1 << 30;

/// A job, and the files that have to be in the store before a machine starts.
pub struct Delivery {
    pub job: Job,
    /// Files of a folder here that have to be in the store, too.
    upload: Option<Upload>,
    parcels: Vec<(String, Vec<u8>)>,
}

impl Delivery {
    pub fn prepare(
        arguments: &DeliveryArguments,
        command: &[String],
        data: Option<&DataSet>,
        to: &Receiver,
    ) -> Result<Self, Diagnostic> {
        let Receiver { cloud, run, .. } = *to;
        let mut parcels = Vec::new();
        let agent = agent(arguments.agent.as_deref(), cloud, &mut parcels)?;
        let workdir = match &arguments.workdir {
            Some(folder) => {
                let archive = archive(folder)?;
                let sha256 = sha256(&archive);
                let key = run.workdir_key(&sha256);
                parcels.push((key.clone(), archive));
                Some(Parcel::Stored { key, sha256 })
            }
            None => None,
        };
        let wrong = |error: &dyn std::error::Error, hint: &str| Diagnostic::usage(error).hint(hint);
        let secrets = arguments.secrets.iter().map(|text| Secret::parse(text));
        let secrets =
            secrets.collect::<Result<_, _>>().map_err(|error| wrong(&error, "--secret HF_TOKEN=gpuplan/hf-token"))?;
        let mut environment = region(cloud)?;
        for text in &arguments.environment {
            let (name, value) = text.split_once('=').ok_or_else(|| {
                Diagnostic::usage(format!("--env `{text}` has no value")).hint(format!("--env {text}=VALUE"))
            })?;
            environment
                .push((variable_name(name).map_err(|error| wrong(&error, "--env NAME=VALUE"))?, value.to_owned()));
        }
        let command = if arguments.workdir.is_some() { command.to_vec() } else { found(command, cloud)? };
        let docker = arguments.image.as_deref().filter(|image| image.starts_with(DOCKER));
        if let (Some(_), Some(image)) = (&arguments.container, docker) {
            return Err(
                Diagnostic::usage(format!("--image {image} and --container both name a container")).hint("give one")
            );
        }
        let container = arguments.container.as_deref().or(docker).map(container).transpose();
        let container =
            container.map_err(|error| wrong(&error, "--container pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime"))?;
        let (data, upload) = find_data(data, to)?.unzip();
        let setup = arguments.setup.clone();
        let job = Job { command, agent, workdir, setup, environment, secrets, data, container, sweep: None };
        Ok(Self { job, upload: upload.flatten(), parcels })
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
        .hint("--agent PATH names it; .ci/agent of the source builds it")
    })?;
    if !bytes.starts_with(ELF) {
        return Err(Diagnostic::usage(format!("{} is not a Linux program; nothing was rented", path.display())));
    }
    let sha256 = sha256(&bytes);
    let key = Run::agent_key(&sha256);
    parcels.push((key.clone(), bytes));
    Ok(Parcel::Stored { key, sha256 })
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

/// The same files give the same bytes: sorted, without owners and times.
fn archive(folder: &Path) -> Result<Vec<u8>, Diagnostic> {
    let unreadable = |error: io::Error| Diagnostic::file(folder, &error);
    let files = files(folder)?;
    let mut size = 0;
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    archive.mode(tar::HeaderMode::Deterministic);
    archive.follow_symlinks(false);
    for file in files {
        let path = folder.join(&file);
        let about = match path.symlink_metadata() {
            Ok(about) => about,
            // Tracked by git, and deleted since.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Diagnostic::file(&path, &error)),
        };
        size += about.len();
        if size > LARGEST_FOLDER {
            return Err(Diagnostic::usage(format!("{} holds more than 1 GiB", folder.display()))
                .hint("list data and results in .gitignore, and keep data in a bucket"));
        }
        archive.append_path_with_name(&path, &file).map_err(unreadable)?;
    }
    let packed = archive.into_inner().and_then(|mut packing| {
        packing.flush()?;
        packing.finish()
    });
    packed.map_err(unreadable)
}

/// Files below a folder, those that git ignores left out where it is a repository.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, Diagnostic> {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let mut files: Vec<PathBuf> = match git.output() {
        Ok(output) if output.status.success() => {
            let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
            names.map(|name| PathBuf::from(String::from_utf8_lossy(name).into_owned())).collect()
        }
        // Where git cannot be asked, what it ignores would be sent too.
        other
            if folder
                .canonicalize()
                .is_ok_and(|folder| folder.ancestors().any(|above| above.join(".git").exists())) =>
        {
            let why = other.map_or_else(
                |error| error.to_string(),
                |output| String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            );
            return Err(Diagnostic::usage(format!("git does not list the files of {}: {why}", folder.display()))
                .hint("`git status` in that folder says more; `--workdir` accepts any other folder"));
        }
        _ => all_files(folder, Path::new("")).map_err(|error| Diagnostic::file(folder, &error))?,
    };
    files.sort();
    if files.is_empty() {
        return Err(Diagnostic::usage(format!("{} has no files to upload", folder.display())));
    }
    Ok(files)
}

fn all_files(folder: &Path, below: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            files.extend(all_files(folder, &path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}
