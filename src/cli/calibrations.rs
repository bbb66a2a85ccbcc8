//! The measurements that an estimate rests on: the file that was named, else the set that `bench` keeps for this user.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::costs;
use crate::diagnostic::{Diagnostic, Exit};
use crate::printer::Printer;
use crate::profile;
use crate::settings::{Settings, sha256};
use gpuplan_budget::mine::{Usable, compare, usable};
use gpuplan_calibration::Calibration;
use gpuplan_estimate::constants::Fitted;
use gpuplan_estimate::measured::measured_gpu;
use gpuplan_estimate::{Correction, OwnRun, OwnRuns};
use gpuplan_hardware::Hardware;
use gpuplan_workload::Precision;
use gpuplan_workload::profile::Profile;

/// Folder of the set, among the settings.
const FOLDER: &str = "calibrations";
/// Said instead of a file: the constants alone.
const NONE: &str = "none";

/// What was measured and corrects the estimate.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Measured")]
pub struct MeasuredArguments {
    /// Calibration of `gpuplan bench`, or none [default: those that bench has kept]
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// Profile of the run itself, made by `gpuplan profile`
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Plan without what your own finished runs say of the time (`gpuplan accuracy --mine` shows them)
    #[arg(long)]
    pub no_history: bool,
}

/// Texts of calibrations and where they stood.
pub struct Measurements {
    files: Vec<(PathBuf, String)>,
    /// One file was named, so it has to be good.
    is_named: bool,
    profile: Option<(String, Profile)>,
    own_runs: Own,
}

/// What the user's own finished runs say.
enum Own {
    /// Of the ledger; empty where none is wanted or kept.
    Usable(Usable),
    /// Of a plan that is repeated.
    Recorded(Vec<OwnRun>),
    Unreadable(String),
}

impl Measurements {
    pub fn find(arguments: &MeasuredArguments, settings: &Settings) -> Result<Self, Diagnostic> {
        let profile = arguments.profile.as_deref().map(profile::read).transpose()?;
        let (files, is_named) = match &arguments.calibration {
            Some(path) if path == Path::new(NONE) => (Vec::new(), false),
            Some(path) => {
                let text = fs::read_to_string(path).map_err(|error| {
                    Diagnostic::file(path, &error)
                        .hint("make one with `gpuplan bench --output json`; `--calibration none` uses none")
                })?;
                (vec![(path.clone(), text)], true)
            }
            None => (kept(settings)?, false),
        };
        let mut found = Self { files, is_named, profile, own_runs: Own::Usable(Usable::default()) };
        if !arguments.no_history {
            found.own_runs = found.of_ledger(settings);
        }
        Ok(found)
    }

    /// A ledger that cannot be read is no reason to plan nothing.
    fn of_ledger(&self, settings: &Settings) -> Own {
        let is_there = settings.home.state_file(costs::LEDGER).is_some_and(|path| path.is_file());
        if !is_there {
            return Own::Usable(Usable::default());
        }
        let read = costs::open(settings).map_err(|error| error.message);
        match read.and_then(|ledger| ledger.runs_in_turn().map_err(|error| error.to_string())) {
            Ok(runs) => {
                Own::Usable(usable(&compare(runs.iter()), &Fitted::embedded().version, self.sha256().as_deref()))
            }
            Err(why) => Own::Unreadable(why),
        }
    }

    /// The same with the runs that a recorded plan went by.
    pub fn with_own_runs(self, runs: Vec<OwnRun>) -> Self {
        Self { own_runs: Own::Recorded(runs), ..self }
    }

    /// Runs of the user that the plan goes by. What is left out is told.
    pub fn own_runs(&self, printer: &Printer) -> Option<OwnRuns> {
        match &self.own_runs {
            Own::Usable(found) => {
                if let Some(words) = found.left_out.words() {
                    printer.note(&format!("of your finished runs these say nothing of the time: {words}"));
                }
                OwnRuns::new(found.runs.clone())
            }
            Own::Recorded(runs) => OwnRuns::new(runs.clone()),
            Own::Unreadable(why) => {
                printer.warning(&format!("the plan goes without what your own runs say: {why}"));
                None
            }
        }
    }

    /// Identity of what was measured, for a plan that is to be repeated; `None` without any.
    pub fn sha256(&self) -> Option<String> {
        let profile = self.profile.iter().map(|(text, _)| text.as_str());
        let all: String = self.files.iter().map(|(_, text)| text.as_str()).chain(profile).collect();
        (!all.is_empty()).then(|| sha256(all.as_bytes()))
    }

    /// What was measured of the run itself.
    pub fn profile(&self) -> Option<&Profile> {
        self.profile.as_ref().map(|(_, profile)| profile)
    }

    /// What they correct for a workload in `precision`. A kept file that cannot be used is told and left out.
    pub fn correction(
        &self,
        precision: Precision,
        hardware: &Hardware,
        printer: &Printer,
    ) -> Result<Correction, Diagnostic> {
        let mut correction = Correction::NONE;
        for (path, text) in &self.files {
            let read = Calibration::read(text).map_err(|error| error.to_string());
            match read.and_then(|calibration| {
                measured_gpu(&calibration, precision, hardware).map_err(|error| error.to_string())
            }) {
                Ok(measured) => correction.push(measured),
                Err(why) => {
                    let message = format!("{} is no usable calibration: {why}", path.display());
                    if self.is_named {
                        return Err(Diagnostic::new(Exit::Usage, message).hint("gpuplan bench --output json"));
                    }
                    printer.warning(&format!("{message}; the estimate goes without it"));
                }
            }
        }
        Ok(correction)
    }
}

/// In the order of their names. A folder that is not there holds none.
fn kept(settings: &Settings) -> Result<Vec<(PathBuf, String)>, Diagnostic> {
    let Some(folder) = settings.home.config_file(FOLDER).filter(|folder| folder.exists()) else {
        return Ok(Vec::new());
    };
    let unreadable =
        |path: &Path, error: &std::io::Error| Diagnostic::file(path, error).hint("`--calibration none` uses none");
    let mut paths = Vec::new();
    for entry in fs::read_dir(&folder).map_err(|error| unreadable(&folder, &error))? {
        paths.push(entry.map_err(|error| unreadable(&folder, &error))?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
    paths.sort();
    paths
        .into_iter()
        .map(|path| fs::read_to_string(&path).map_err(|error| unreadable(&path, &error)).map(|text| (path, text)))
        .collect()
}

/// Puts a calibration into the set, in place of an older one of the same GPU. `None` where the user has no home.
pub fn keep(calibration: &Calibration, settings: &Settings) -> Result<Option<PathBuf>, Diagnostic> {
    let Some(folder) = settings.home.config_file(FOLDER) else { return Ok(None) };
    let name = calibration.gpu.as_deref().unwrap_or(&calibration.device.name);
    let name: String = name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' })
        .collect();
    let (path, making) = (folder.join(format!("{name}.json")), folder.join(format!(".{name}.json.part")));
    let written = fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&making, calibration.json()))
        .and_then(|()| fs::rename(&making, &path));
    written.map_err(|error| Diagnostic::new(Exit::Unexpected, format!("cannot write {}: {error}", path.display())))?;
    Ok(Some(path))
}
