//! The measurements that an estimate rests on: the file that was named, else the set that `bench` keeps for this user.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::arguments::measured::MeasuredArguments;
use crate::question::gpus::shape;
use crate::question::workload;
use crate::runs::journal::{JOURNAL, open_journal};
use crate::runs::ledger::{self, LEDGER};
use crate::session::Session;
use crate::session::diagnostic::Diagnostic;
use crate::session::printer::Printer;
use gpuplan_budget::mine::{UsableRuns, compare, usable};
use gpuplan_calibration::Calibration;
use gpuplan_estimate::constants::Fitted;
use gpuplan_estimate::measured::measured_gpu;
use gpuplan_estimate::{Correction, OwnRun, OwnRuns};
use gpuplan_hardware::Hardware;
use gpuplan_market::own::OwnPool;
use gpuplan_plan::training::profile::{UnusableProfile, catalog_gpu, correction_from};
use gpuplan_report::sentences::{self, rejection::unusable_profile};
use gpuplan_runstore::sha256;
use gpuplan_workload::Precision;
use gpuplan_workload::file::Resolved;
use gpuplan_workload::profile::Profile;

/// A profile larger than this is none.
const LARGEST_PROFILE: u64 = 64 << 20;

/// Folder of the set, among the settings.
const FOLDER: &str = "calibrations";

/// Stands for no file: the constants alone.
const NONE: &str = "none";

/// Texts of calibrations and where they stood.
pub struct Measurements {
    files: Vec<(PathBuf, String)>,
    /// One file was named, so it has to be good.
    is_named: bool,
    profile: Option<(String, Profile)>,
    own_runs: Own,
    own_pools: Result<Vec<OwnPool>, String>,
}

/// What the user's own finished runs say.
enum Own {
    /// Of the ledger; empty where none is wanted or kept.
    Usable(UsableRuns),
    /// Of a plan that is repeated.
    Recorded(Vec<OwnRun>),
    Unreadable(String),
}

impl Measurements {
    pub fn find(arguments: &MeasuredArguments, session: &Session) -> Result<Self, Diagnostic> {
        let profile = arguments.profile.as_deref().map(read_profile).transpose()?;
        let (files, is_named) = match &arguments.calibration {
            Some(path) if path == Path::new(NONE) => (Vec::new(), false),
            Some(path) => {
                let text = fs::read_to_string(path).map_err(|error| {
                    Diagnostic::file(path, &error)
                        .hint("make one with `gpuplan bench --output json`; `--calibration none` uses none")
                })?;
                (vec![(path.clone(), text)], true)
            }
            None => (kept_calibrations(session)?, false),
        };
        let mut found =
            Self { files, is_named, profile, own_runs: Own::Usable(UsableRuns::default()), own_pools: Ok(Vec::new()) };
        if !arguments.no_history {
            found.own_runs = found.of_ledger(session);
            found.own_pools = of_journal(session);
        }
        Ok(found)
    }

    /// A ledger that cannot be read is no reason to plan nothing.
    fn of_ledger(&self, session: &Session) -> Own {
        let is_there = session.home.state_file(LEDGER).is_some_and(|path| path.is_file());
        if !is_there {
            return Own::Usable(UsableRuns::default());
        }
        let read = ledger::open_ledger(session).map_err(|error| error.message);
        match read.and_then(|ledger| ledger.runs_in_turn().map_err(|error| error.to_string())) {
            Ok(runs) => {
                Own::Usable(usable(&compare(runs.iter()), &Fitted::embedded().version, self.sha256().as_deref()))
            }
            Err(why) => Own::Unreadable(why),
        }
    }

    /// The same with the runs, and what was seen of pools, that a recorded plan went by.
    pub fn recorded(self, runs: Vec<OwnRun>, pools: Vec<OwnPool>) -> Self {
        Self { own_runs: Own::Recorded(runs), own_pools: Ok(pools), ..self }
    }

    /// What the user's own launches saw of pools of spot machines.
    pub fn own_pools(&self, printer: &Printer) -> Vec<OwnPool> {
        self.own_pools.clone().unwrap_or_else(|why| {
            printer.warning(&format!("the plan goes without what your own launches saw of spot machines: {why}"));
            Vec::new()
        })
    }

    /// Finished runs of the user that correct the plan. The user is told which are left out.
    pub fn own_runs(&self, printer: &Printer) -> Option<OwnRuns> {
        match &self.own_runs {
            Own::Usable(found) => {
                if let Some(words) = found.left_out.words() {
                    printer.note(&format!("these of your finished runs say nothing about the time: {words}"));
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

    /// What they correct for a workload in `precision`. A kept file that cannot be used is skipped with a warning.
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
                    let message = format!("{} cannot be used as a calibration: {why}", path.display());
                    if self.is_named {
                        return Err(Diagnostic::usage(message).hint("gpuplan bench --output json"));
                    }
                    printer.warning(&format!("{message}; the estimate goes without it"));
                }
            }
        }
        Ok(correction)
    }
}

/// A journal that cannot be read is no reason to plan nothing, and nobody gets one by planning.
fn of_journal(session: &Session) -> Result<Vec<OwnPool>, String> {
    if !session.home.state_file(JOURNAL).is_some_and(|path| path.is_file()) {
        return Ok(Vec::new());
    }
    let journal = open_journal(session).map_err(|error| error.message)?;
    journal.own_pools(session.now).map_err(|error| error.to_string())
}

/// In the order of their names. A folder that is not there holds none.
fn kept_calibrations(session: &Session) -> Result<Vec<(PathBuf, String)>, Diagnostic> {
    let Some(folder) = session.home.config_file(FOLDER).filter(|folder| folder.exists()) else {
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
pub fn keep_calibration(calibration: &Calibration, session: &Session) -> Result<Option<PathBuf>, Diagnostic> {
    let Some(folder) = session.home.config_file(FOLDER) else { return Ok(None) };
    let name = calibration.gpu.as_deref().unwrap_or(&calibration.device.name);
    let name: String = name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' })
        .collect();
    let (path, making) = (folder.join(format!("{name}.json")), folder.join(format!(".{name}.json.part")));
    let written = fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&making, calibration.json()))
        .and_then(|()| fs::rename(&making, &path));
    written.map_err(|error| Diagnostic::unexpected(format!("cannot write {}: {error}", path.display())))?;
    Ok(Some(path))
}

/// Reads a profile file.
pub fn read_profile(path: &Path) -> Result<(String, Profile), Diagnostic> {
    let mut text = String::new();
    let opened = fs::File::open(path).and_then(|file| file.take(LARGEST_PROFILE).read_to_string(&mut text));
    let hint = "make one with `gpuplan profile run -- COMMAND` or `gpuplan profile trace FILE --out PROFILE.json`";
    opened.map_err(|error| Diagnostic::file(path, &error).hint(hint))?;
    let profile =
        Profile::parse(&text).map_err(|error| Diagnostic::usage(format!("{}: {error}", path.display())).hint(hint))?;
    Ok((text, profile))
}

/// Everything measured as one correction: the profile of the run itself before what benchmarks say of the same GPU, and what the
/// user's own finished runs say.
pub fn correction(
    found: &Measurements,
    resolved: &Resolved,
    hardware: &Hardware,
    session: &Session,
) -> Result<Correction, Diagnostic> {
    let measured = measured_in(found, resolved, hardware, session)?;
    Ok(measured.with_own_runs(found.own_runs(&session.printer)))
}

fn measured_in(
    found: &Measurements,
    resolved: &Resolved,
    hardware: &Hardware,
    session: &Session,
) -> Result<Correction, Diagnostic> {
    let calibrated = found.correction(resolved.workload.training.precision, hardware, &session.printer)?;
    let Some(profile) = found.profile() else { return Ok(calibrated) };
    match of_profile(profile, resolved, hardware, session)? {
        Ok(measured) => {
            let mut correction = Correction::new(vec![measured]);
            calibrated.measured().iter().for_each(|each| correction.push(each.clone()));
            Ok(correction)
        }
        Err(why) => {
            let why = unusable_profile(&why);
            session.printer.warning(&format!("the profile changes no estimate: {why}"));
            Ok(calibrated)
        }
    }
}

fn of_profile(
    profile: &Profile,
    resolved: &Resolved,
    hardware: &Hardware,
    session: &Session,
) -> Result<Result<gpuplan_estimate::MeasuredGpu, UnusableProfile>, Diagnostic> {
    let Some(gpu) = &profile.gpu else { return Ok(Err(UnusableProfile::NoGpu)) };
    let Some(id) = catalog_gpu(&gpu.name, gpu.memory_bytes, hardware) else {
        return Ok(Err(UnusableProfile::UnknownGpu(gpu.name.clone())));
    };
    let (shape, nodes) = shape(id, hardware.gpu(id), gpu.count, hardware)?;
    // A profile that names its workload is compared with that, whatever is planned now.
    let own = profile.workload.as_ref().map(|file| workload::resolve(file, &session.models()?)).transpose()?;
    let compared = &own.as_ref().unwrap_or(resolved).workload;
    Ok(correction_from(profile, compared, hardware, &shape, nodes).map(|found| {
        let mut measured = found.gpu;
        measured.reasons.extend(found.notes.iter().map(sentences::profile::note));
        if own.is_none() {
            measured.reasons.push(
                "the profile names no workload (`--workload FILE`): it is taken to be of the one that is planned"
                    .to_owned(),
            );
        }
        measured
    }))
}
