//! The clouds that rent the machines of a run, and how fast its time passes.

use futures_util::future::join_all;

use crate::runs::journal::no_state_folder;
use crate::runs::store::store_of_run;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::printer::Printer;
use crate::session::runtime::runtime;
use gpuplan_clouds::fake::{self, FakeCloud};
use gpuplan_launch::{Clock, LaunchError, Launcher, Machine, RunSpec, Shared};

pub type Launchers = Vec<Box<dyn Launcher>>;

pub fn fake_cloud(session: &Session) -> Result<FakeCloud, Diagnostic> {
    let folder = session.home.state_file("fake-cloud").ok_or_else(no_state_folder)?;
    let folder = std::path::absolute(&folder).map_err(|error| Diagnostic::file(&folder, &error))?;
    Ok(FakeCloud::at(&folder))
}

/// One for each cloud named.
pub fn launchers<'a>(clouds: impl IntoIterator<Item = &'a str>, session: &Session) -> Result<Launchers, Diagnostic> {
    let mut launchers: Launchers = Vec::new();
    for cloud in clouds {
        if launchers.iter().any(|launcher| launcher.cloud() == cloud) {
            continue;
        }
        launchers.push(match cloud {
            fake::CLOUD => Box::new(fake_cloud(session)?),
            _ if session.offline => {
                return Err(Diagnostic::usage(format!("{cloud} cannot be queried with --offline")));
            }
            _ => gpuplan_clouds::launcher(cloud).ok_or_else(|| no_launcher(cloud))?,
        });
    }
    Ok(launchers)
}

pub fn no_launcher(cloud: &str) -> Diagnostic {
    Diagnostic::usage(format!("gpuplan plans machines of {cloud}, but cannot rent them yet"))
        .hint(format!("gpuplan rents machines from {}", gpuplan_clouds::LAUNCHERS.join(", ")))
        .hint("--cloud fake shows the whole life of a run")
}

/// As the run sees them: with the machine that it has taken over, and without one that another has taken over from it.
pub fn launchers_of_run(spec: &RunSpec, session: &Session) -> Result<Launchers, Diagnostic> {
    let clouds = launchers(spec.clouds(), session)?;
    if spec.keep_warm_seconds.is_none() && spec.takes.is_none() {
        return Ok(clouds);
    }
    let store = store_of_run(spec)?;
    Ok(clouds.into_iter().map(|cloud| Shared::of(cloud, spec, &store)).collect())
}

/// A cloud of this machine plays its part faster.
pub fn clock(spec: &RunSpec) -> Clock {
    Clock::new(spec.started_at, if spec.stand_in.is_some() { fake::SPEED } else { 1.0 })
}

/// After the end of a run of which no machine is left. What stays of it at a cloud costs nothing, and is said.
pub fn forget(spec: &RunSpec, clouds: &Launchers, printer: &Printer) -> Result<(), Diagnostic> {
    let access = spec.access();
    let ask = async |cloud: &dyn Launcher| (cloud.cloud().to_owned(), cloud.forget(&access).await);
    for (cloud, answer) in runtime()?.block_on(join_all(clouds.iter().map(|cloud| ask(&**cloud)))) {
        if let Err(error) = answer {
            printer.warning(&format!(
                "what was made for {} at {cloud} beside its machines is still there: {error}",
                spec.run
            ));
        }
    }
    Ok(())
}

/// A cloud, and what it says of its machines.
pub type Listed = (String, Result<Vec<Machine>, LaunchError>);

/// What every cloud says of a run, or of all runs, asked at the same time.
pub fn list_machines(clouds: &Launchers, run: Option<&str>) -> Result<Vec<Listed>, Diagnostic> {
    let ask = async |cloud: &dyn Launcher| (cloud.cloud().to_owned(), cloud.list(run).await);
    Ok(runtime()?.block_on(join_all(clouds.iter().map(|cloud| ask(&**cloud)))))
}

pub fn exit_of(refusal: &LaunchError) -> Exit {
    match refusal {
        LaunchError::Quota { .. } | LaunchError::CloudQuota { .. } => Exit::Quota,
        LaunchError::Credentials { .. } | LaunchError::NotSetUp { .. } => Exit::CloudRefused,
        LaunchError::Capacity { .. }
        | LaunchError::NotSold { .. }
        | LaunchError::Unclear { .. }
        | LaunchError::Request { .. } => Exit::NoCapacity,
    }
}
