//! The measurements that an estimate rests on: the file that was named, else the set that `bench` keeps for this user.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::calibration::Calibration;
use crate::cli::diagnostic::{Diagnostic, Exit};
use crate::cli::printer::Printer;
use crate::cli::profile;
use crate::cli::settings::{Settings, sha256};
use crate::estimate::Correction;
use crate::estimate::measured::measured_gpu;
use crate::hardware::Hardware;
use crate::workload::Precision;
use crate::workload::profile::Profile;

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
}

/// Texts of calibrations and where they stood.
pub struct Measurements {
    files: Vec<(PathBuf, String)>,
    /// One file was named, so it has to be good.
    is_named: bool,
    profile: Option<(String, Profile)>,
}

impl Measurements {
    pub fn find(arguments: &MeasuredArguments, settings: &Settings) -> Result<Self, Diagnostic> {
        let profile = arguments.profile.as_deref().map(profile::read).transpose()?;
        match &arguments.calibration {
            Some(path) if path == Path::new(NONE) => Ok(Self { files: Vec::new(), is_named: false, profile }),
            Some(path) => {
                let text = fs::read_to_string(path).map_err(|error| {
                    Diagnostic::file(path, &error).hint("make one with `gpuplan bench --output json`; `--calibration none` uses none")
                })?;
                Ok(Self { files: vec![(path.clone(), text)], is_named: true, profile })
            }
            None => Ok(Self { files: kept(settings), is_named: false, profile }),
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
    pub fn correction(&self, precision: Precision, hardware: &Hardware, printer: &Printer) -> Result<Correction, Diagnostic> {
        let mut correction = Correction::NONE;
        for (path, text) in &self.files {
            let read = Calibration::read(text).map_err(|error| error.to_string());
            match read.and_then(|calibration| measured_gpu(&calibration, precision, hardware).map_err(|error| error.to_string())) {
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
fn kept(settings: &Settings) -> Vec<(PathBuf, String)> {
    let Some(folder) = settings.home.config_file(FOLDER) else { return Vec::new() };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    paths.sort();
    paths.into_iter().filter_map(|path| fs::read_to_string(&path).ok().map(|text| (path, text))).collect()
}

/// Puts a calibration into the set, in place of an older one of the same GPU. `None` where the user has no home.
pub fn keep(calibration: &Calibration, settings: &Settings) -> Result<Option<PathBuf>, Diagnostic> {
    let Some(folder) = settings.home.config_file(FOLDER) else { return Ok(None) };
    let name = calibration.gpu.as_deref().unwrap_or(&calibration.device.name);
    let name: String = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' }).collect();
    let (path, making) = (folder.join(format!("{name}.json")), folder.join(format!(".{name}.json.part")));
    let written =
        fs::create_dir_all(&folder).and_then(|()| fs::write(&making, calibration.json())).and_then(|()| fs::rename(&making, &path));
    written.map_err(|error| Diagnostic::new(Exit::Unexpected, format!("cannot write {}: {error}", path.display())))?;
    Ok(Some(path))
}
