//! Who rents the machines of a run, and how fast its time passes.

use crate::diagnostic::{Diagnostic, Exit};
use crate::settings::Settings;
use gpuplan_clouds::fake::{self, FakeCloud};
use gpuplan_launch::{Clock, Launcher, RunSpec};

pub type Launchers = Vec<Box<dyn Launcher>>;

pub fn fake_cloud(settings: &Settings) -> Result<FakeCloud, Diagnostic> {
    let folder = settings.home.state_file("fake-cloud").ok_or_else(super::no_home)?;
    let folder = std::path::absolute(&folder).map_err(|error| Diagnostic::file(&folder, &error))?;
    Ok(FakeCloud::at(&folder))
}

/// One for each cloud named.
pub fn launchers<'a>(clouds: impl IntoIterator<Item = &'a str>, settings: &Settings) -> Result<Launchers, Diagnostic> {
    let mut launchers: Launchers = Vec::new();
    for cloud in clouds {
        if launchers.iter().any(|launcher| launcher.cloud() == cloud) {
            continue;
        }
        launchers.push(match cloud {
            fake::CLOUD => Box::new(fake_cloud(settings)?),
            _ if settings.offline => {
                return Err(Diagnostic::new(Exit::Usage, format!("{cloud} cannot be asked with --offline")));
            }
            _ => gpuplan_clouds::launcher(cloud).ok_or_else(|| no_launcher(cloud))?,
        });
    }
    Ok(launchers)
}

pub fn no_launcher(cloud: &str) -> Diagnostic {
    Diagnostic::new(Exit::Usage, format!("machines of {cloud} are planned and not rented yet"))
        .hint(format!("machines are rented of: {}", gpuplan_clouds::LAUNCHERS.join(", ")))
        .hint("--cloud fake shows the whole life of a run")
}

pub fn of_run(spec: &RunSpec, settings: &Settings) -> Result<Launchers, Diagnostic> {
    launchers(spec.clouds(), settings)
}

/// A cloud of this machine plays its part faster.
pub fn clock(spec: &RunSpec) -> Clock {
    Clock { started_at: spec.started_at, speed: if spec.stand_in.is_some() { fake::SPEED } else { 1.0 } }
}
