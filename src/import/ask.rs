//! `JobRequest`: what a job asks for, whatever engine it was written for.

use std::collections::HashSet;
use std::fmt;
use std::ops::RangeInclusive;

use serde::Serialize;

use crate::ImportError;
use gpuplan_hardware::gpu::GpuId;
use gpuplan_hardware::{CloudId, Hardware, InstanceType};
use gpuplan_units::Hours;
use gpuplan_workload::assumption::JobAssumption;
use gpuplan_workload::file::WorkloadFile;

/// What is said of a configuration that a command names and that is not beside the job.
pub const ABSENT: &str = "a configuration that is not there";

/// The engine that a job was written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JobKind {
    Slurm,
    Skypilot,
    Kubernetes,
    Dstack,
    /// Docker Compose.
    Compose,
    /// A shell script without an engine.
    Script,
    /// The configuration of a training program.
    Recipe,
}

impl JobKind {
    /// As JSON spells it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Slurm => "slurm",
            Self::Skypilot => "skypilot",
            Self::Kubernetes => "kubernetes",
            Self::Dstack => "dstack",
            Self::Compose => "compose",
            Self::Script => "script",
            Self::Recipe => "recipe",
        }
    }
}

/// Machines and processes that a command or a configuration starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    pub gpus_per_machine: Option<u32>,
    /// Fewer than there are GPUs: each of them splits its model over several.
    pub processes_per_machine: Option<u32>,
    /// On all machines together.
    pub gpus: Option<u32>,
    pub machines: Option<u32>,
}

/// A key of the file and its value, as they stand there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct KeyValue {
    pub key: String,
    pub value: String,
}

impl KeyValue {
    /// The flag or the key of a file by itself: `output_dir` of `--output-dir` and of `train.yaml: output_dir`.
    pub fn plain_key(&self) -> String {
        self.key.rsplit(": ").next().unwrap_or(&self.key).trim_start_matches("--").replace('-', "_")
    }

    /// Whether it is a flag or a key of a file with this name.
    fn is_named(&self, key: &str) -> bool {
        self.plain_key() == key.replace('-', "_")
    }
}

/// A job, read.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRequest {
    pub kind: JobKind,
    pub name: Option<String>,
    /// Machines. `None`: as many as hold the GPUs.
    pub nodes: Option<RangeInclusive<u32>>,
    /// Machines of any one of these will do.
    pub choices: Vec<Choice>,
    /// The longest that the job may take.
    pub hours: Option<Hours>,
    /// What its command says of the workload.
    pub workload: WorkloadFile,
    /// The model as the job names it.
    pub model_name: Option<String>,
    /// Why its work cannot be planned, where the job says that it is of another kind.
    pub not_planned: Option<String>,
    /// An optimizer that the estimate does not know: its states are others than those that the work would be planned with.
    pub unknown_optimizer: Option<String>,
    pub launch: Launch,
    /// The program that its command starts.
    pub program: Option<String>,
    /// Whether the name of its program says that it trains.
    pub trains: bool,
    /// What was used.
    pub understood: Vec<KeyValue>,
    /// Known keys that change neither machines nor price.
    pub no_effect: Vec<KeyValue>,
    /// What was not understood.
    pub unread: Vec<KeyValue>,
    /// What the file leaves open, and what was taken for it.
    pub assumed: Vec<JobAssumption>,
}

/// One kind of machine that a job accepts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    pub chips: Option<GpuModels>,
    pub gpus: Option<Gpus>,
    pub vcpus: Option<Need>,
    /// GiB of a machine.
    pub memory: Option<Need>,
    pub instance_type: Option<String>,
    pub cloud: Option<CloudId>,
    pub region: Option<String>,
    /// A zone by its name, which narrows a price only where zones are priced by name.
    pub zone: Option<String>,
    pub is_spot: bool,
}

/// A GPU by the name that the file uses, and the chips that it may mean: none where the catalog has no such card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuModels {
    pub word: String,
    pub ids: Vec<GpuId>,
}

/// How many GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gpus {
    PerMachine(u32),
    Together(u32),
}

/// An amount of processors or memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Need {
    AtLeast(f64),
    Exactly(f64),
}

/// Memory on a machine's label and in a catalog differ by rounding.
const SAME: f64 = 0.01;

impl Need {
    pub fn is_met(self, amount: f64) -> bool {
        match self {
            Self::AtLeast(least) => amount >= least,
            Self::Exactly(wanted) => (amount - wanted).abs() <= SAME * wanted,
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, "at least {least}"),
            Self::Exactly(amount) => write!(f, "{amount}"),
        }
    }
}

impl JobRequest {
    pub fn new(kind: JobKind) -> Self {
        Self {
            kind,
            name: None,
            nodes: None,
            choices: Vec::new(),
            hours: None,
            workload: WorkloadFile::default(),
            model_name: None,
            not_planned: None,
            unknown_optimizer: None,
            launch: Launch::default(),
            program: None,
            trains: false,
            understood: Vec::new(),
            no_effect: Vec::new(),
            unread: Vec::new(),
            assumed: Vec::new(),
        }
    }

    pub fn understand(&mut self, key: &str, value: impl fmt::Display) {
        self.understood.push(KeyValue { key: key.to_owned(), value: value.to_string() });
    }

    pub fn note_without_effect(&mut self, key: &str, value: impl fmt::Display) {
        self.no_effect.push(KeyValue { key: key.to_owned(), value: value.to_string() });
    }

    /// Says once what several commands say in the same words.
    pub fn forget_repeated(&mut self) {
        let mut seen = HashSet::new();
        self.no_effect.retain(|stated| seen.insert(stated.clone()));
    }

    pub fn leave_unread(&mut self, key: &str, value: impl fmt::Display) {
        self.unread.push(KeyValue { key: key.to_owned(), value: value.to_string() });
    }

    /// What was left unread by itself and means something beside others.
    pub fn understand_after_all(&mut self, key: &str) {
        let at = self.unread.iter().position(|one| one.key == key);
        if let Some(at) = at.or_else(|| self.unread.iter().position(|one| one.is_named(key))) {
            let one = self.unread.remove(at);
            self.understood.push(one);
        }
    }

    /// What was understood by itself and beside others is not.
    pub fn leave_unread_after_all(&mut self, key: &str) {
        if let Some(at) = self.understood.iter().position(|one| one.is_named(key)) {
            let one = self.understood.remove(at);
            self.unread.push(one);
        }
    }

    /// Why the work cannot be planned as `file` completes it, with what to type where a word would do.
    pub fn why_not_planned(&self, file: &WorkloadFile) -> Option<String> {
        let optimizer = || {
            let named = self.unknown_optimizer.as_ref().filter(|_| file.training.optimizer.is_none())?;
            Some(format!(
                "the estimate knows no optimizer `{named}`; `--set training.optimizer=adamw` plans the work with another"
            ))
        };
        self.not_planned.clone().or_else(optimizer)
    }

    /// Takes the machines that the command starts processes on, where nothing else asks for some.
    pub fn take_machines_of_launcher(&mut self) {
        let Launch { gpus_per_machine, gpus, machines, .. } = self.launch;
        let even = gpus.zip(machines).filter(|(all, machines)| all.is_multiple_of(*machines));
        let each = gpus_per_machine.or(even.map(|(all, machines)| all / machines));
        let gpus = each.map(Gpus::PerMachine).or(gpus.map(Gpus::Together));
        let is_open = self.choices.iter().all(|choice| choice.gpus.is_none() && choice.instance_type.is_none());
        if let (true, Some(gpus)) = (is_open, gpus) {
            if self.choices.is_empty() {
                self.choices.push(Choice::default());
            }
            for choice in &mut self.choices {
                choice.gpus = Some(gpus);
            }
            self.understand(
                "GPUs of the launcher",
                match gpus {
                    Gpus::PerMachine(count) => format!("{count} of each machine"),
                    Gpus::Together(count) => format!("{count} together"),
                },
            );
        }
        if self.nodes.is_none()
            && let (true, Some(machines)) = (each.is_some() || gpus.is_none(), machines)
        {
            self.nodes = Some(machines..=machines);
        }
    }

    /// As many machines as whoever starts the job says, which counts more than what the job says itself.
    pub fn take_machines_of_user(&mut self, machines: u32) {
        let is_assumed = self.assumed.contains(&JobAssumption::OneMachine);
        let own = self.nodes.clone().filter(|own| !is_assumed && *own != (machines..=machines));
        if let Some(own) = own {
            self.leave_unread("machines", format!("{} of the job's own, and --nodes says {machines}", own.end()));
        }
        self.assumed.retain(|one| *one != JobAssumption::OneMachine);
        self.nodes = Some(machines..=machines);
    }

    /// Names what its launcher says otherwise than the job itself, whose word counts: an engine starts no more machines than it was asked for.
    pub fn name_conflicts(&mut self) {
        let Launch { gpus_per_machine, machines, .. } = self.launch;
        let stated = self.nodes.as_ref().filter(|_| !self.assumed.contains(&JobAssumption::OneMachine));
        let stated = stated.filter(|nodes| nodes.start() == nodes.end()).map(|nodes| *nodes.end());
        if let (Some(stated), Some(started)) = (stated, machines)
            && stated != started
        {
            self.leave_unread("machines", format!("the job asks for {stated} and its launcher starts on {started}"));
        }
        let each = self.choices.first().and_then(|choice| choice.gpus);
        if let (Some(Gpus::PerMachine(each)), Some(started)) = (each, gpus_per_machine)
            && started > each
        {
            self.leave_unread(
                "GPUs",
                format!("the job asks for {each} of a machine and its launcher starts {started} processes"),
            );
        }
    }

    /// GPUs of all machines together, where every choice has as many. `None`: the job does not say.
    pub fn gpus(&self) -> Option<u32> {
        let machines = self.nodes.as_ref().map_or(1, |nodes| *nodes.end());
        let counted = |choice: &Choice| match choice.gpus? {
            Gpus::PerMachine(each) => each.checked_mul(machines),
            Gpus::Together(all) => Some(all),
        };
        let first = self.choices.first().and_then(counted)?;
        self.choices.iter().all(|choice| counted(choice) == Some(first)).then_some(first)
    }

    /// Parts of the job that take a batch each: its GPUs, unless a process splits its model over several.
    pub fn replicas(&self) -> Option<u32> {
        let gpus = self.gpus()?;
        let Launch { gpus_per_machine: Some(each), processes_per_machine: Some(processes), .. } = self.launch else {
            return Some(gpus);
        };
        let together = each / processes.max(1);
        (together > 0 && gpus.is_multiple_of(together)).then(|| gpus / together)
    }

    /// The data set as the job names it.
    pub fn data_set(&self) -> Option<&str> {
        const KEYS: [&str; 7] =
            ["dataset_name", "dataset", "datasets.0.path", "train_file", "data_path", "train_data_dir", "dataset_path"];
        let named = self.no_effect.iter().find(|one| KEYS.contains(&one.plain_key().as_str()))?;
        Some(named.value.as_str()).filter(|value| !value.is_empty() && value.len() < 80 && !value.contains('$'))
    }

    /// Machines of this type that the job would run on, by the first choice that takes them. `None`: it does not take them.
    pub fn nodes_of(&self, choice: &Choice, instance: &InstanceType) -> Option<u32> {
        let devices = instance.node.devices();
        // Of a range an engine gives the most that it has.
        let most = self.nodes.as_ref().map_or(1, |nodes| *nodes.end());
        let nodes = match choice.gpus {
            Some(Gpus::Together(all)) if all.is_multiple_of(devices) => all / devices,
            Some(Gpus::Together(_)) => return None,
            // A machine that was named is taken as it is.
            Some(Gpus::PerMachine(each)) if each != devices && choice.instance_type.is_none() => return None,
            _ => most,
        };
        // A slice of a card is no whole one.
        if instance.node.gpus.is_slice() && choice.instance_type.is_none() {
            return None;
        }
        let is_named = choice.instance_type.as_ref().is_none_or(|name| *name == instance.name);
        let is_chip = choice.chips.as_ref().is_none_or(|chips| chips.ids.contains(&instance.node.gpu));
        let is_there = choice.cloud.as_ref().is_none_or(|cloud| *cloud == instance.cloud);
        let is_enough = choice.vcpus.is_none_or(|need| need.is_met(f64::from(instance.vcpus)))
            && choice.memory.is_none_or(|need| need.is_met(instance.memory.gib()));
        let in_range = self.nodes.as_ref().is_none_or(|range| range.contains(&nodes));
        (is_named && is_chip && is_there && is_enough && in_range && nodes > 0).then_some(nodes)
    }

    /// Asks for one GPU of any kind where none is counted (one process, or a launcher that takes all there are), or for those that are counted
    /// and not named.
    pub fn of_any_gpu(mut self) -> Self {
        if self.choices.is_empty() {
            self.choices.push(Choice { gpus: Some(Gpus::PerMachine(1)), ..Choice::default() });
            self.assumed.push(JobAssumption::OneGpu);
        }
        let count = self.choices.iter().find(|choice| choice.is_any_gpu()).and_then(|choice| choice.gpus);
        if let Some(Gpus::PerMachine(gpus) | Gpus::Together(gpus)) = count {
            self.assumed.push(JobAssumption::AnyGpu { gpus });
        }
        self
    }

    /// Gives a name to GPUs that the file only counts, and a number to machines whose GPUs it does not count, or refuses where nobody does.
    pub fn named(mut self, wanted: Option<&GpuModels>, count: Option<u32>) -> Result<Self, ImportError> {
        if self.choices.is_empty() && count.is_some() {
            self.choices.push(Choice::default());
        }
        // Of several cards those that the catalog has are priced.
        if wanted.is_none() && self.choices.iter().any(|choice| !choice.is_unnamed()) {
            self.choices.retain(|choice| choice.chips.as_ref().is_none_or(|chips| !chips.ids.is_empty()));
        }
        for choice in &mut self.choices {
            if choice.is_unnamed() {
                choice.gpus = choice.gpus.or(count.map(Gpus::PerMachine));
                match (wanted, choice.gpus) {
                    (Some(chips), Some(_)) => choice.chips = Some(chips.clone()),
                    (None, Some(Gpus::PerMachine(count) | Gpus::Together(count))) => {
                        return Err(match choice.chips.take() {
                            Some(GpuModels { word: name, .. }) => ImportError::UnknownGpu { count, name },
                            None => ImportError::NoGpuName(count),
                        });
                    }
                    (_, None) => return Err(ImportError::NoGpu),
                }
            }
        }
        if self.choices.is_empty() { Err(ImportError::NoGpu) } else { Ok(self) }
    }

    /// The same job asking for less, from the least that is given up to the most: each with what it leaves aside.
    pub fn relaxed(&self) -> Vec<(&'static str, Self)> {
        let without = |size: bool, place: bool, terms: bool, count: bool| {
            let mut other = self.clone();
            for choice in &mut other.choices {
                if size {
                    (choice.vcpus, choice.memory) = (None, None);
                }
                if place {
                    (choice.cloud, choice.region, choice.zone, choice.instance_type) = (None, None, None, None);
                }
                choice.is_spot &= !terms;
                if let (true, Some(Gpus::PerMachine(each))) = (count, choice.gpus) {
                    // Machines are sold with powers of two.
                    choice.gpus =
                        Some(Gpus::PerMachine(each.saturating_add(1).checked_next_power_of_two().unwrap_or(each)));
                }
            }
            other
        };
        let all = vec![
            ("processors and memory aside", without(true, false, false, false)),
            ("in another place", without(false, true, false, false)),
            ("on demand", without(false, false, true, false)),
            ("in another place, processors and memory aside", without(true, true, false, false)),
            ("on demand in another place, processors and memory aside", without(true, true, true, false)),
            ("with more GPUs in a machine", without(true, true, true, true)),
        ];
        all.into_iter().filter(|(_, other)| other != self).collect()
    }

    /// `2 x 8 A100 on aws us-east-1, spot`, one line a choice.
    pub fn lines(&self, hardware: &Hardware) -> Vec<String> {
        let nodes = match &self.nodes {
            Some(range) if range.start() == range.end() => format!("{} x ", range.start()),
            Some(range) => format!("{} to {} x ", range.start(), range.end()),
            None => String::new(),
        };
        self.choices.iter().map(|choice| format!("{nodes}{}", choice.describe(hardware))).collect()
    }
}

impl Choice {
    /// Whether nobody who reads it knows which card it is: none is named, or one that the catalog does not have.
    pub fn is_unnamed(&self) -> bool {
        self.chips.as_ref().is_none_or(|chips| chips.ids.is_empty()) && self.instance_type.is_none()
    }

    /// Whether cards of every kind will do.
    pub fn is_any_gpu(&self) -> bool {
        self.chips.is_none() && self.instance_type.is_none()
    }

    fn describe(&self, hardware: &Hardware) -> String {
        let count = match self.gpus {
            Some(Gpus::PerMachine(count)) => format!("{count} "),
            Some(Gpus::Together(count)) => format!("{count} together, "),
            None => String::new(),
        };
        let gpu = match (&self.chips, &self.instance_type) {
            (Some(chips), Some(name)) => format!("{count}{} ({name})", chips.label(hardware)),
            (Some(chips), None) => format!("{count}{}", chips.label(hardware)),
            (None, Some(name)) => name.clone(),
            (None, None) => format!("{count}GPU"),
        };
        let mut words = vec![gpu];
        words.extend(self.vcpus.map(|need| format!("{need} vCPU")));
        words.extend(self.memory.map(|need| format!("{need} GiB of memory")));
        let place: Vec<&str> = [self.cloud.as_ref().map(CloudId::as_str), self.region.as_deref(), self.zone.as_deref()]
            .into_iter()
            .flatten()
            .collect();
        if !place.is_empty() {
            words.push(place.join(" "));
        }
        words.push(if self.is_spot { "spot" } else { "on-demand" }.to_owned());
        words.join(", ")
    }
}

impl GpuModels {
    /// The chip where it is one, else the word of the file.
    fn label(&self, hardware: &Hardware) -> String {
        match self.ids.as_slice() {
            [only] => hardware.gpu(*only).name.clone(),
            _ => self.word.clone(),
        }
    }
}
