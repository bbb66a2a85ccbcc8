//! `ssh`, `exec` and `forward`: the way to a run's machines, by the clouds' own tools and OpenSSH, without an open port.

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use clap::Args;

use crate::runs::clouds::{Errand, RentalCloud, SshAccess, rental_cloud};
use crate::runs::journal::{find_run, no_state_folder};
use crate::runs::launchers::fake_cloud;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_clouds::{aws, fake};
use gpuplan_launch::job::command_line;
use gpuplan_launch::{MachineId, Pool};
use gpuplan_runstore::private;

/// The boot script takes the first of these that is there; the job runs as root in it.
const TO_THE_JOB: &str = "for place in /opt/dlami/nvme /mnt/disks/ssd /var/lib; do \
     if [ -d \"$place/gpuplan/work\" ]; then cd \"$place/gpuplan/work\" || exit 1; break; fi; done; ";

/// Which machine of which run.
#[derive(Debug, Args)]
pub struct MachineArguments {
    /// Name the run
    pub run: String,
    /// Choose one of its machines, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub node: u32,
    /// Sign in as this user, where OpenSSH does it (AWS)
    #[arg(long, value_name = "NAME", default_value = "ubuntu")]
    pub user: String,
}

#[derive(Debug, Args)]
pub struct SshArguments {
    #[command(flatten)]
    pub machine: MachineArguments,
    /// Print an entry for ~/.ssh/config instead, for editors and tools that use ssh
    #[arg(long)]
    pub config: bool,
}

#[derive(Debug, Args)]
pub struct ExecArguments {
    #[command(flatten)]
    pub machine: MachineArguments,
    /// Run this command, as root in the folder of the job
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct ForwardArguments {
    #[command(flatten)]
    pub machine: MachineArguments,
    /// Reach these ports of the machine under the same numbers here, until Ctrl-C
    #[arg(required = true, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub ports: Vec<u16>,
}

/// A machine that runs now.
pub struct Target {
    cloud: String,
    pool: Pool,
    id: MachineId,
}

pub fn find(arguments: &MachineArguments, session: &Session) -> Result<Target, Diagnostic> {
    let kept = find_run(&arguments.run, session)?;
    let newest = kept.machines.iter().rfind(|machine| !machine.is_over && machine.node == arguments.node);
    let machine = newest.ok_or_else(|| {
        Diagnostic::usage(format!("{} has no machine {} now", arguments.run, arguments.node)).hint("gpuplan status")
    })?;
    let cloud = kept.spec.stand_in.as_deref().unwrap_or(&machine.pool.cloud).to_owned();
    Ok(Target { cloud, pool: machine.pool.clone(), id: machine.id.clone() })
}

fn known(cloud: &str) -> Result<&'static RentalCloud, Diagnostic> {
    rental_cloud(cloud).ok_or_else(|| Diagnostic::usage(format!("gpuplan knows no way to machines of {cloud}")))
}

/// A shell, or the entry for other tools.
pub fn ssh(arguments: &SshArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let target = find(&arguments.machine, session)?;
    if arguments.config {
        if target.cloud == fake::CLOUD {
            return Err(Diagnostic::usage("a machine of the fake cloud is a folder of this computer")
                .hint(format!("gpuplan ssh {}", arguments.machine.run)));
        }
        let access = access(&arguments.machine, session)?;
        return session.printer.data(&(known(&target.cloud)?.ssh_entry)(&target.pool, &target.id.0, &access));
    }
    if target.cloud == fake::CLOUD {
        let mut shell = Command::new("sh");
        shell.current_dir(fake_cloud(session)?.folder_of(&target.id));
        return ended(shell);
    }
    ended((known(&target.cloud)?.go)(&target.pool, &target.id.0, &Errand::Shell))
}

pub fn exec(arguments: &ExecArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let target = find(&arguments.machine, session)?;
    let script = format!("exec {}", command_line(&arguments.command));
    ended(in_the_job(&target, &script, &arguments.machine, session)?)
}

/// A script of the shell, as root in the folder of the job.
pub fn in_the_job(
    target: &Target,
    script: &str,
    arguments: &MachineArguments,
    session: &Session,
) -> Result<Command, Diagnostic> {
    if target.cloud == fake::CLOUD {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(fake_cloud(session)?.folder_of(&target.id).join("work"));
        return Ok(command);
    }
    let line = command_line(&["sudo", "sh", "-c", &format!("{TO_THE_JOB}{script}")].map(str::to_owned));
    to(target, &Errand::Run(&line), arguments, session)
}

pub fn forward(arguments: &ForwardArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let target = find(&arguments.machine, session)?;
    let places: Vec<String> = arguments.ports.iter().map(|port| format!("http://127.0.0.1:{port}")).collect();
    if target.cloud == fake::CLOUD {
        session.printer.note("gpuplan: a machine of the fake cloud is this computer: its ports are here already");
        return session.printer.data(&format!("{}\n", places.join("\n")));
    }
    let way = to(&target, &Errand::Forward(&arguments.ports), &arguments.machine, session)?;
    session.printer.note(&format!("gpuplan: {} until Ctrl-C", places.join(", ")));
    ended(way)
}

fn to(
    target: &Target,
    errand: &Errand,
    arguments: &MachineArguments,
    session: &Session,
) -> Result<Command, Diagnostic> {
    let cloud = known(&target.cloud)?;
    if target.cloud != aws::CLOUD {
        return Ok((cloud.go)(&target.pool, &target.id.0, errand));
    }
    let access = access(arguments, session)?;
    let config = access.key.with_file_name(format!("{}.config", access.alias));
    let entry = (cloud.ssh_entry)(&target.pool, &target.id.0, &access);
    std::fs::write(&config, entry).map_err(|error| cannot_write(&config, &error))?;
    Ok(errand.by_ssh(&config, &access.alias))
}

/// A key of this program's own, made when it is first wanted.
fn access(arguments: &MachineArguments, session: &Session) -> Result<SshAccess, Diagnostic> {
    let folder = session.home.state_file("ssh").ok_or_else(no_state_folder)?;
    let folder = std::path::absolute(&folder).map_err(|error| cannot_write(&folder, &error))?;
    private::folder(&folder).map_err(|error| cannot_write(&folder, &error))?;
    let key = folder.join("id_ed25519");
    if !key.exists() {
        let mut making = Command::new("ssh-keygen");
        making.args(["-q", "-t", "ed25519", "-N", "", "-C", "gpuplan", "-f"]).arg(&key).stdin(Stdio::null());
        ended(making)?;
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if arguments.user.is_empty() || arguments.user.starts_with('-') || !arguments.user.chars().all(allowed) {
        return Err(Diagnostic::usage(format!("`{}` is not a user name", arguments.user)).hint("--user ubuntu"));
    }
    let node = if arguments.node == 0 { String::new() } else { format!("-{}", arguments.node) };
    let alias = format!("gpuplan-{}{node}", arguments.run);
    Ok(SshAccess { alias, user: arguments.user.clone(), key, known_hosts: folder.join("known_hosts") })
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Diagnostic {
    Diagnostic::usage(format!("cannot write {}: {error}", path.display()))
}

fn ended(mut command: Command) -> Result<Exit, Diagnostic> {
    let ended = command.status().map_err(|error| cannot_run(&command, &error))?;
    checked(&command, ended)?;
    Ok(Exit::Done)
}

/// # Errors
/// Where a command did not end well.
pub fn checked(command: &Command, ended: ExitStatus) -> Result<(), Diagnostic> {
    let name = command.get_program().display();
    if ended.success() { Ok(()) } else { Err(Diagnostic::unexpected(format!("`{name}` ended with {ended}"))) }
}

pub fn cannot_run(command: &Command, error: &std::io::Error) -> Diagnostic {
    Diagnostic::usage(format!("`{}` cannot be run: {error}", command.get_program().display()))
        .hint("it is the cloud's own tool or part of OpenSSH; install it and sign in")
}
