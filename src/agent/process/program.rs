//! The user's program: started in a process group of its own, asked to end, waited for.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};
use tokio::process::{Child, Command};

use crate::ports::notify::PASSWORD;
use crate::process::control_group::ControlGroup;
use crate::process::group;
use crate::rules::outcome::Exit;

/// Programs that pass SIGTERM on to their workers themselves: to signal the workers too would run their handlers twice.
const LAUNCHERS: [&str; 8] =
    ["torchrun", "srun", "accelerate", "deepspeed", "mpirun", "mpiexec", "composer", "horovodrun"];
const LAUNCHER_MODULES: [&str; 2] = ["torch.distributed.run", "torch.distributed.launch"];
/// What a shell says where a program cannot be started.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

pub struct Program {
    child: Child,
    pid: Option<i32>,
    is_launcher: bool,
}

impl Program {
    /// There is nothing to read, as another start could not read it again. Its output goes where the agent's goes, or is kept
    /// for `output`. An error is the exit code that a shell would give, with the reason.
    pub fn start(
        command: &[String],
        environment: &[(String, String)],
        keep_output: bool,
        group: Option<&ControlGroup>,
    ) -> Result<Self, (Exit, io::Error)> {
        let Some((name, arguments)) = command.split_first() else {
            return Err((Exit::Code(NOT_FOUND), io::Error::other("there is no command")));
        };
        let mut starting = Command::new(name);
        starting
            .args(arguments)
            // That is for the agent.
            .env_remove(PASSWORD)
            .envs(environment.iter().cloned())
            .process_group(0)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        if keep_output {
            starting.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let started = match group {
            Some(group) => group.inside(|| starting.spawn()).and_then(|started| started),
            None => starting.spawn(),
        };
        let child = started.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => (Exit::Code(NOT_FOUND), error),
            _ => (Exit::Code(NOT_EXECUTABLE), error),
        })?;
        let pid = child.id().map(|pid| pid as i32);
        Ok(Self { child, pid, is_launcher: is_launcher(command) })
    }

    pub fn pid(&self) -> Option<i32> {
        self.pid
    }

    /// What it writes to stdout and stderr, once.
    pub fn output(&mut self) -> io::Result<Option<(OwnedFd, OwnedFd)>> {
        match (self.child.stdout.take(), self.child.stderr.take()) {
            (Some(out), Some(err)) => Ok(Some((out.into_owned_fd()?, err.into_owned_fd()?))),
            _ => Ok(None),
        }
    }

    pub fn ask_to_end(&self, signal: Signal) {
        let Some(pid) = self.pid else { return };
        match Pid::from_raw(pid) {
            // Whoever ended meanwhile needs no signal.
            Some(pid) if self.is_launcher => drop(kill_process(pid, signal)),
            _ => group::signal(pid, signal),
        }
    }

    /// Once its first process is gone, what that one started may still save: a shell dies of the signal before the trainer that it
    /// waits for. A launcher that died of it has told its workers nothing.
    pub fn ask_the_rest_to_end(&self, exit: Exit, signal: Signal) {
        if self.is_launcher
            && matches!(exit, Exit::Signal(_))
            && let Some(pid) = self.pid
        {
            group::signal(pid, signal);
        }
    }

    /// Whether something of its process group still works.
    pub fn has_left_some(&self) -> bool {
        self.pid.is_some_and(group::is_alive)
    }

    /// Names of the processes that it left behind.
    pub fn left(&self) -> Vec<String> {
        self.pid.and_then(|pid| group::names(pid).ok()).unwrap_or_default()
    }

    pub async fn wait(&mut self) -> io::Result<Exit> {
        let status = self.child.wait().await?;
        Ok(match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or(0)),
        })
    }
}

fn is_launcher(command: &[String]) -> bool {
    let base =
        |text: &str| Path::new(text).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_named = command.first().is_some_and(|name| LAUNCHERS.contains(&base(name).as_str()));
    is_named || command.windows(2).any(|pair| pair[0] == "-m" && LAUNCHER_MODULES.contains(&pair[1].as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_known_by_name_and_module() {
        let is = |line: &str| is_launcher(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(
            is("/opt/bin/torchrun train.py") && is("python3 -m torch.distributed.run train.py") && is("srun train")
        );
        assert!(!is("python3 train.py") && !is("./torchrun.sh"));
    }
}
