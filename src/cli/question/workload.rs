//! From workload file and flags to a resolved workload: the only place that opens a config.json.

use std::fs::File;
use std::io::{BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use crate::arguments::limits::LimitsArguments;
use crate::arguments::workload::WorkloadArguments;
use crate::question::{hub_cache, plan_file};
use crate::session::diagnostic::{Diagnostic, flag};
use crate::session::input::read_text;
use gpuplan_plan::document::AnyDocument;
use gpuplan_units::UsdPerHour;
use gpuplan_workload::assumption::Assumption;
use gpuplan_workload::file::{
    DataSection, ForeignFormat, LimitsSection, ModelSection, Resolved, Scalar, WorkloadFile, WorkloadFileError,
};
use gpuplan_workload::huggingface::ConfigError;
use gpuplan_workload::safetensors::Census;
use gpuplan_workload::{Model, Models, huggingface, safetensors};

/// The file, with flags laid over it. Paths inside a file are relative to the file.
pub fn read(arguments: &WorkloadArguments) -> Result<WorkloadFile, Diagnostic> {
    let flags = stated_keys(arguments)?;
    let Some(path) = &arguments.file else {
        if !arguments.is_given() {
            return Err(Diagnostic::usage("no workload given")
                .hint("gpuplan plan examples/llama-3.1-8b-finetune.toml")
                .hint("gpuplan plan --model llama-3.1-8b --task lora --tokens 10M"));
        }
        return Ok(flags);
    };
    let text = read_text(path)?;
    if ForeignFormat::detect(&text) == Some(ForeignFormat::ModelConfig) {
        return Err(at(path, WorkloadFileError::Foreign { format: ForeignFormat::ModelConfig }.into()));
    }
    if text.trim_start().starts_with('{') {
        let mut file = Recorded::read(path, &text)?.file;
        if let Some(name) = &arguments.phase {
            file = file.phase(name)?.file;
        }
        return Ok(file.overlay(flags));
    }
    let mut file = WorkloadFile::parse(&text).map_err(|error| at(path, error.into()))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    resolve_paths(folder, &mut file.model, &mut file.data)?;
    for phase in &mut file.phase {
        resolve_paths(folder, &mut phase.model, &mut phase.data)?;
    }
    match &arguments.phase {
        Some(name) => file = file.phase(name)?.file,
        None => changes_every_phase(arguments, &file)?,
    }
    Ok(file.overlay(flags))
}

/// A flag stands above the phases: what a phase states itself would win over it, and nobody would see that.
fn changes_every_phase(arguments: &WorkloadArguments, file: &WorkloadFile) -> Result<(), Diagnostic> {
    for assignment in arguments.assignments() {
        let Some((key, value)) = assignment.split_once('=') else { continue };
        if let Some(phase) = file.phase.iter().find(|phase| phase.states(key.trim())) {
            let flag = flag(key.trim(), value);
            let message = format!("`{flag}` changes nothing: phase `{}` has a value of its own", phase.name);
            return Err(Diagnostic::usage(message).hint(format!("--phase {} {flag}", phase.name)));
        }
    }
    Ok(())
}

/// Where it matters how fast training is and not how much there is of it: one step, unless the file says how much.
pub fn take_one_step(file: &mut WorkloadFile) {
    let is_trained = file.serving.is_empty();
    let training = &mut file.training;
    let amounts = [&training.tokens, &training.samples, &training.epochs, &training.steps];
    if is_trained && amounts.iter().all(|amount| amount.is_none()) {
        training.steps = Some(Scalar::from("1".to_owned()));
    }
}

/// An error in a file, with its name.
fn at(path: &Path, mut diagnostic: Diagnostic) -> Diagnostic {
    diagnostic.message = format!("{}: {}", path.display(), diagnostic.message);
    diagnostic
}

/// Paths inside a file are relative to it.
fn resolve_paths(folder: &Path, model: &mut ModelSection, data: &mut DataSection) -> Result<(), Diagnostic> {
    for inner in [&mut model.config, &mut model.index].into_iter().flatten() {
        *inner = folder.join(&*inner).to_string_lossy().into_owned();
    }
    if let Some(location) = data.location.as_mut().filter(|location| !location.contains("://")) {
        let resolved =
            std::path::absolute(folder.join(&*location)).map_err(|error| Diagnostic::file(folder, &error))?;
        *location = resolved.to_string_lossy().into_owned();
    }
    Ok(())
}

/// A plan as `plan --output json` wrote it: the question, and the answer of then.
pub struct Recorded {
    pub file: WorkloadFile,
    pub id: String,
    pub rate: UsdPerHour,
}

impl Recorded {
    /// `None` for a file that is not JSON.
    pub fn find(path: Option<&Path>) -> Result<Option<Self>, Diagnostic> {
        let text = plan_file::json_text(path)?;
        path.zip(text).map(|(path, text)| Self::read(path, &text)).transpose()
    }

    fn read(path: &Path, text: &str) -> Result<Self, Diagnostic> {
        let read = || {
            let document = AnyDocument::read(text)?;
            let file = document.workload_file()?;
            let (id, rate) = match document {
                AnyDocument::Gpu(document) => {
                    let plan = document.pick(None)?;
                    (plan.id.clone(), plan.machines.rate_usd_per_hour)
                }
                AnyDocument::Processing(document) => {
                    let plan = document.plans.pick(None)?;
                    (plan.id.clone(), plan.machines.rate_usd_per_hour)
                }
            };
            Ok(Self { file, id, rate })
        };
        read().map_err(|error| plan_file::refused(path, &error))
    }
}

/// A served model is planned and exported; nothing of this program runs or times one.
pub fn is_no_service(arguments: &WorkloadArguments, command: &str) -> Result<(), Diagnostic> {
    if arguments.file.is_none() || read(arguments)?.serving.is_empty() {
        return Ok(());
    }
    Err(Diagnostic::usage(format!(
        "this file serves a model, which can only be planned and exported: `{command}` takes a training run"
    ))
    .hint("gpuplan plan FILE"))
}

/// Fills every gap; reads the model's own files where they are named.
pub fn resolve(file: &WorkloadFile, models: &Models) -> Result<Resolved, Diagnostic> {
    // What can be launched comes first to mind.
    if let Some(first) = file.phase.iter().find(|phase| phase.processing.is_none()).or(file.phase.first()) {
        let names: Vec<&str> = file.phase.iter().map(|phase| phase.name.as_str()).collect();
        return Err(Diagnostic::usage(format!(
            "this workload has phases ({}), and this is for one of them",
            names.join(", ")
        ))
        .hint(format!("--phase {}", first.name)));
    }
    if file.processing.is_some() {
        return Err(Diagnostic::usage("this is work for machines without GPU, which is planned only: nothing here starts, times or hands on such a machine",
        )
        .hint("gpuplan plan FILE, with --phase NAME where it is one of several, says which machines to rent")
        .hint("rent them with the tool of their cloud, and give the phases after it `place` and `size` of what they leave"));
    }
    if let Some((name, config)) = cached(&file.model, models) {
        let shown = config.to_string_lossy().into_owned();
        let beside = ["model.safetensors.index.json", "model.safetensors"].map(|name| config.with_file_name(name));
        let index = beside.iter().find(|path| path.is_file()).map(|path| path.to_string_lossy().into_owned());
        let model = Model { name: name.clone(), ..read_model(&shown, index.as_deref())? };
        let section = ModelSection { preset: None, config: Some(shown), ..file.model.clone() };
        let mut resolved = WorkloadFile { model: section, ..file.clone() }.resolve(models, Some(model))?;
        resolved.assumed.push(Assumption::ModelOfCache { name });
        return Ok(resolved);
    }
    let model = file.model.config.as_deref().map(|path| read_model(path, file.model.index.as_deref())).transpose()?;
    Ok(file.resolve(models, model)?)
}

/// A model that the catalog lacks and that was downloaded to this machine before.
fn cached(section: &ModelSection, models: &Models) -> Option<(String, PathBuf)> {
    let name = section.preset.as_deref().filter(|name| section.config.is_none() && models.named(name).is_none())?;
    Some((name.to_owned(), hub_cache::config_of(name)?))
}

fn read_model(config: &str, index: Option<&str>) -> Result<Model, Diagnostic> {
    let open = |path: &str| {
        let path = Path::new(path);
        let file = if path.is_dir() { Err(ErrorKind::IsADirectory.into()) } else { File::open(path) };
        file.map(BufReader::new).map_err(|error| Diagnostic::file(path, &error))
    };
    let name = name_of(Path::new(config));
    let mut model = match huggingface::read_config(open(config)?, &name) {
        // A pipeline names the folder of its network.
        Err(ConfigError::Pipeline { part }) => {
            let path = Path::new(config).with_file_name(part).join("config.json");
            huggingface::read_config(open(&path.to_string_lossy())?, &name)?
        }
        read => read?,
    };
    if let Some(index) = index {
        model.parameters = exact(index, safetensors::census(open(index)?)?, &model)?;
    }
    Ok(model)
}

/// The folder of a file whose name is that of every model, and else the file.
fn name_of(config: &Path) -> String {
    let is_any = ["config.json", "model_index.json"].iter().any(|name| config.ends_with(name));
    let named = if is_any { config.parent().and_then(Path::file_name) } else { config.file_stem() };
    named.map_or_else(|| "config.json".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// The parameters that a file of weights tells; those of the configuration where weights are packed.
fn exact(path: &str, census: Census, model: &Model) -> Result<f64, Diagnostic> {
    let counted = match census {
        Census::Parameters(parameters) => parameters,
        // A 32-bit checkpoint has twice the bytes of a 16-bit one, and one of eight bits half of them.
        Census::Size(size) => {
            let of_bytes = [2.0, 4.0, model.published.bytes()].map(|each| size.0 / each);
            let off = |parameters: &f64| (parameters / model.parameters).ln().abs();
            of_bytes.into_iter().min_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or(model.parameters)
        }
    };
    if !(0.4..=2.2).contains(&(counted / model.parameters)) {
        let what = format!("{path} holds {counted:.3e} parameters, the configuration counts {:.3e}", model.parameters);
        return Err(Diagnostic::usage(what).hint("check that the file of weights belongs to this config.json"));
    }
    // Scales and embeddings of a checkpoint in four bits have bytes of their own, so that its size tells too little.
    let is_packed = matches!(census, Census::Size(_)) && model.published.bytes() < 1.0;
    Ok(if is_packed { model.parameters } else { counted })
}

/// Keys that were stated on the command line, as a file of their own.
fn stated_keys(arguments: &WorkloadArguments) -> Result<WorkloadFile, Diagnostic> {
    let stated: Vec<String> = arguments.assignments().collect();
    Ok(WorkloadFile::from_assignments(stated.iter().map(String::as_str))?)
}

/// The workload with the limits of the command line laid over its own.
pub fn with_limits(workload: &WorkloadArguments, limits: &LimitsArguments) -> Result<WorkloadFile, Diagnostic> {
    Ok(read(workload)?.overlay(WorkloadFile { limits: self::limits(limits), ..WorkloadFile::default() }))
}

/// Limits of the flags alone, to be laid over those of the file.
pub fn limits(arguments: &LimitsArguments) -> LimitsSection {
    let mut clouds = arguments.places.clouds.clone();
    let mut regions = arguments.places.regions.clone();
    if let Some(place) = &arguments.places.infra {
        let mut parts = place.splitn(2, '/');
        clouds.extend(parts.next().map(str::to_owned));
        regions.extend(parts.next().map(str::to_owned));
    }
    let purchase = if arguments.terms.spot {
        Some("spot".to_owned())
    } else if arguments.terms.on_demand {
        Some("on-demand".to_owned())
    } else {
        arguments.terms.purchase.clone()
    };
    LimitsSection {
        deadline: arguments.deadline.clone(),
        budget: arguments.budget.clone(),
        confidence: arguments.confidence.clone(),
        max_price: arguments.max_price.clone(),
        value_of_time: arguments.value_of_time.clone(),
        clouds,
        regions,
        gpus: gpus(&arguments.gpus, arguments.share.as_deref()),
        objective: arguments.objective.clone(),
        purchase,
        max_nodes: arguments.max_nodes,
        include_suspect: arguments.include_suspect.then_some(true),
        allow_slow_network: arguments.allow_slow_network.then_some(true),
    }
}

/// GPUs as the file names them; `--share 1/4` is short for `..1/4` after each, or alone.
fn gpus(named: &[String], share: Option<&str>) -> Option<String> {
    match share {
        None => (!named.is_empty()).then(|| named.join(";")),
        Some(share) if named.is_empty() => Some(format!("..{share}")),
        Some(share) => {
            let parts: Vec<String> = named.iter().map(|name| format!("{name}:..{share}")).collect();
            Some(parts.join(";"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_short_for_a_part_of_each_gpu() {
        let named = ["L4".to_owned(), "A10".to_owned()];
        assert_eq!((gpus(&[], None), gpus(&named, None)), (None, Some("L4;A10".to_owned())));
        assert_eq!(gpus(&[], Some("1/4")), Some("..1/4".to_owned()));
        assert_eq!(gpus(&named, Some("1/4")), Some("L4:..1/4;A10:..1/4".to_owned()));
    }

    #[test]
    fn a_configuration_has_the_name_of_its_folder_or_its_own() {
        let names =
            ["models/llama-x/config.json", "flux/model_index.json", "configs/acme--kolibri.json", "config.json"];
        let read = names.map(|path| name_of(Path::new(path)));
        assert_eq!(read, ["llama-x", "flux", "acme--kolibri", "config.json"]);
    }
}
