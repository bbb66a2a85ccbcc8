//! Options of sbatch and srun: what they ask of machines (sbatch(1), srun(1)).

use std::ops::RangeInclusive;

use crate::error::invalid;
use crate::{Choice, GpuModels, Gpus, ImportError, JobRequest, Names, Need, chips, shell};
use gpuplan_units::Hours;
use gpuplan_workload::assumption::JobAssumption;

/// Short options and their long names.
const SHORT: [(char, &str); 25] = [
    ('N', "nodes"),
    ('n', "ntasks"),
    ('c', "cpus-per-task"),
    ('G', "gpus"),
    ('t', "time"),
    ('p', "partition"),
    ('A', "account"),
    ('J', "job-name"),
    ('o', "output"),
    ('e', "error"),
    ('C', "constraint"),
    ('a', "array"),
    ('D', "chdir"),
    ('q', "qos"),
    ('d', "dependency"),
    ('w', "nodelist"),
    ('x', "exclude"),
    ('H', "hold"),
    ('M', "clusters"),
    ('L', "licenses"),
    ('O', "overcommit"),
    ('Q', "quiet"),
    ('W', "wait"),
    ('s', "oversubscribe"),
    ('v', "verbose"),
];
/// Options that take no value of their own word.
const FLAGS: [&str; 16] = [
    "exclusive",
    "requeue",
    "no-requeue",
    "hold",
    "contiguous",
    "parsable",
    "overcommit",
    "oversubscribe",
    "spread-job",
    "use-min-nodes",
    "verbose",
    "quiet",
    "wait",
    "test-only",
    "ignore-pbs",
    "disable-stdout-job-summary",
];
/// Known, and neither machines nor price depend on them.
const WITHOUT_EFFECT: [&str; 33] = [
    "wait-all-nodes",
    "reservation",
    "partition",
    "account",
    "output",
    "error",
    "chdir",
    "qos",
    "dependency",
    "nodelist",
    "exclude",
    "hold",
    "mail-type",
    "mail-user",
    "exclusive",
    "requeue",
    "no-requeue",
    "open-mode",
    "signal",
    "export",
    "comment",
    "parsable",
    "ntasks-per-gpu",
    "gpu-bind",
    "contiguous",
    "hint",
    "distribution",
    "verbose",
    "wckey",
    "quiet",
    "wait",
    "overcommit",
    "oversubscribe",
];

/// Key of a word of a directive that belongs to no option.
pub const NO_OPTION: &str = "#SBATCH";

/// What the options say, before it is put together.
#[derive(Default)]
pub struct Options {
    pub nodes: Option<RangeInclusive<u32>>,
    /// Whoever submits it says how many.
    pub has_open_nodes: bool,
    tasks: Option<u32>,
    pub tasks_per_node: Option<u32>,
    chips: Option<GpuModels>,
    /// Cards by which administrators have named the partition: those of the job, where it names none itself.
    chips_of_partition: Option<GpuModels>,
    gpus_per_node: Option<u32>,
    gpus_per_task: Option<u32>,
    gpus: Option<u32>,
    cpus_per_task: Option<u32>,
    cpus_per_gpu: Option<u32>,
    memory: Option<f64>,
    memory_per_cpu: Option<f64>,
    memory_per_gpu: Option<f64>,
}

/// What a step of Slurm asks for in a script that has no directives: its counts of machines and cards.
pub fn step(words: &[String], asked: &mut JobRequest, names: Names) {
    const COUNTS: [&str; 7] = ["nodes", "ntasks", "ntasks-per-node", "gpus", "gpus-per-node", "gpus-per-task", "gres"];
    let mut options = Options::default();
    let mut has_open_tasks = false;
    for (key, value) in options_given(words.to_vec()) {
        let key = if key == "tasks-per-node" { "ntasks-per-node" } else { &key };
        has_open_tasks |= key == "ntasks" && shell::is_unknown(&value);
        if COUNTS.contains(&key)
            && let Err(error) = apply_option(key, &value, &mut options, asked, names)
        {
            asked.leave_unread("srun", error);
        }
    }
    // `-n $N --ntasks-per-node=8`: on how many machines only a run would tell.
    options.has_open_nodes |= has_open_tasks && options.tasks_per_node.is_some() && options.nodes.is_none();
    if let Err(error) = combine(options, asked) {
        asked.leave_unread("srun", error);
    }
    if asked.choices.is_empty() {
        asked.nodes = None;
        asked.assumed.clear();
    }
}

/// `--key=value`, `--key value`, `-K value`, `-Kvalue` and flags alone.
pub fn options_given(directive: Vec<String>) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut words = directive.into_iter().peekable();
    while let Some(word) = words.next() {
        let (key, value) = if let Some(long) = word.strip_prefix("--") {
            match long.split_once('=') {
                Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
                None => (long.to_owned(), None),
            }
        } else if let Some(option) = word.strip_prefix('-').filter(|option| !option.is_empty()) {
            let known = SHORT.iter().find_map(|(short, long)| Some((*long, option.strip_prefix(*short)?)));
            let (long, rest) = known.unwrap_or((&word, ""));
            (long.to_owned(), (!rest.is_empty()).then(|| rest.to_owned()))
        } else {
            (NO_OPTION.to_owned(), Some(word))
        };
        let value = match value {
            Some(value) => value,
            None if FLAGS.contains(&key.as_str()) => String::new(),
            None => words.next_if(|next| !next.starts_with('-')).unwrap_or_default(),
        };
        all.push((key, value));
    }
    all
}

pub fn apply_option(
    key: &str,
    value: &str,
    options: &mut Options,
    asked: &mut JobRequest,
    names: Names,
) -> Result<(), ImportError> {
    let refused = |what: &str| invalid(key, format!("`{value}` is not {what}"));
    let number =
        || value.parse::<u32>().ok().filter(|number| *number > 0).ok_or_else(|| refused("a number above zero"));
    match key {
        NO_OPTION => {
            asked.leave_unread(key, value);
            return Ok(());
        }
        "job-name" => asked.name = Some(value.to_owned()),
        // A number that the one who submits fills in.
        _ if shell::is_unknown(value) || is_placeholder(value) => {
            options.has_open_nodes |= key == "nodes";
            asked.leave_unread(&format!("--{key}"), value);
            return Ok(());
        }
        "nodes" => {
            options.nodes = Some(range(value).ok_or_else(|| refused("a number of machines; try 4 or 2-4"))?);
        }
        "ntasks" => options.tasks = Some(number()?),
        "ntasks-per-node" | "tasks-per-node" => options.tasks_per_node = Some(number()?),
        "cpus-per-task" => options.cpus_per_task = Some(number()?),
        "cpus-per-gpu" => options.cpus_per_gpu = Some(number()?),
        "gpus" => options.gpus = Some(gpus(value, options, key, asked, names)?),
        "gpus-per-node" => options.gpus_per_node = Some(gpus(value, options, key, asked, names)?),
        "gpus-per-task" => options.gpus_per_task = Some(gpus(value, options, key, asked, names)?),
        "gres" | "tres-per-node" => match generic(key, value, options, asked, names)? {
            Some(count) => options.gpus_per_node = Some(count),
            None => return Ok(()),
        },
        "mem" | "mem-per-cpu" | "mem-per-gpu" | "time" if !memory_and_time(key, value, options, asked) => return Ok(()),
        "mem" | "mem-per-cpu" | "mem-per-gpu" | "time" => {}
        // Administrators name nodes by their cards.
        "constraint" => match chips::of_features(value, names.hardware) {
            Some(found) if options.chips.as_ref().is_none_or(|chips| chips.ids.is_empty()) => {
                options.chips = Some(found);
            }
            _ => {
                asked.leave_unread("--constraint", value);
                return Ok(());
            }
        },
        "partition" if chips::of_partitions(value, names.hardware).is_some() => {
            options.chips_of_partition = chips::of_partitions(value, names.hardware);
        }
        known if WITHOUT_EFFECT.contains(&known) => {
            asked.note_without_effect(&format!("--{key}"), value);
            return Ok(());
        }
        _ => {
            asked.leave_unread(&if key.starts_with('-') { key.to_owned() } else { format!("--{key}") }, value);
            return Ok(());
        }
    }
    asked.understand(&format!("--{key}"), value);
    Ok(())
}

/// Memory and time. Some sites have words of their own (`--mem=MaxMemPerNode`), and the cards are known without them: what is no amount is
/// named. Whether it is one.
fn memory_and_time(key: &str, value: &str, options: &mut Options, asked: &mut JobRequest) -> bool {
    let hint = match (key, gib(value), time(value)) {
        ("time", _, Ok(hours)) => {
            asked.hours = hours;
            return true;
        }
        ("time", ..) => "no time of Slurm; try 2-12:00:00",
        (_, None, _) => "no amount of memory; try 64G",
        (_, amount, _) => {
            let slot = match key {
                "mem" => &mut options.memory,
                "mem-per-cpu" => &mut options.memory_per_cpu,
                _ => &mut options.memory_per_gpu,
            };
            *slot = amount;
            return true;
        }
    };
    asked.leave_unread(&format!("--{key}"), format!("{value} ({hint})"));
    false
}

/// `gpu:a100:4,lscratch:100`, `gres/gpu:4`: GPUs among generic resources of a machine. `None`: there are none.
fn generic(
    key: &str,
    value: &str,
    options: &mut Options,
    asked: &mut JobRequest,
    names: Names,
) -> Result<Option<u32>, ImportError> {
    let mut cards = None;
    for one in value.split(',') {
        let plain = one.trim_start_matches("gres").trim_start_matches([':', '/']);
        let Some(rest) = plain.strip_prefix("gpu").filter(|rest| rest.is_empty() || rest.starts_with(':')) else {
            asked.leave_unread(&format!("--{key}"), one);
            continue;
        };
        let count = gpus(rest.trim_start_matches(':'), options, key, asked, names)?;
        if cards.replace(count).is_some() {
            let detail = format!("`{value}` asks for cards of two kinds in a machine, which no place sells");
            return Err(invalid(key, detail));
        }
    }
    Ok(cards)
}

/// `{nodes}`, `<count>`: what a template leaves to fill in.
fn is_placeholder(value: &str) -> bool {
    [('{', '}'), ('<', '>')].iter().any(|(open, close)| value.contains(*open) && value.contains(*close))
}

/// `4`, `a100:4`, `a100` (one), nothing (one).
fn gpus(
    value: &str,
    options: &mut Options,
    key: &str,
    asked: &mut JobRequest,
    names: Names,
) -> Result<u32, ImportError> {
    let (name, count) = match value.rsplit_once(':') {
        Some((name, count)) => (Some(name), count),
        None if value.is_empty() => (None, "1"),
        None if value.parse::<u32>().is_ok() => (None, value),
        None => (Some(value), "1"),
    };
    // A name that administrators gave is no other card.
    if let Some(name) = name {
        match chips::find(name, names.hardware) {
            Some(found) => options.chips = Some(found),
            None => {
                options.chips = chips::named(name, names.hardware);
                asked.leave_unread(&format!("--{key}"), format!("{name} (no GPU of the catalog is called so)"));
            }
        }
    }
    count
        .parse()
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| invalid(key, format!("`{value}` is not a number of GPUs")))
}

fn range(value: &str) -> Option<RangeInclusive<u32>> {
    let (low, high) = value.split_once('-').unwrap_or((value, value));
    let (low, high) = (low.parse().ok()?, high.parse().ok()?);
    (0 < low && low <= high).then_some(low..=high)
}

/// Megabytes where no unit stands, in powers of two (sbatch(1), `--mem`).
fn gib(value: &str) -> Option<f64> {
    let upper = value.to_ascii_uppercase();
    let upper = upper.trim_end_matches('B');
    let (digits, scale) = match upper.chars().last()? {
        'K' => (&upper[..upper.len() - 1], 1.0 / 1024.0 / 1024.0),
        'M' => (&upper[..upper.len() - 1], 1.0 / 1024.0),
        'G' => (&upper[..upper.len() - 1], 1.0),
        'T' => (&upper[..upper.len() - 1], 1024.0),
        _ => (upper, 1.0 / 1024.0),
    };
    digits.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0).map(|number| number * scale)
}

/// Not a time of Slurm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidTime;

/// Minutes, `minutes:seconds`, `hours:minutes:seconds`, `days-hours`, `days-hours:minutes[:seconds]`; `Ok(None)`: no limit.
pub fn time(value: &str) -> Result<Option<Hours>, InvalidTime> {
    if ["unlimited", "infinite", "0"].contains(&value.to_ascii_lowercase().as_str()) {
        return Ok(None);
    }
    let (days, rest) = value.split_once('-').map_or((None, value), |(days, rest)| (Some(days), rest));
    let parts = rest
        .split(':')
        .map(|part| part.parse::<u32>().map(f64::from))
        .collect::<Result<Vec<f64>, _>>()
        .map_err(|_| InvalidTime)?;
    let hours = match (days, parts.as_slice()) {
        (None, [minutes]) => minutes / 60.0,
        (None, [minutes, seconds]) => minutes / 60.0 + seconds / 3600.0,
        (None, [hours, minutes, seconds]) => hours + minutes / 60.0 + seconds / 3600.0,
        (Some(days), [hours, later @ ..]) if later.len() <= 2 => {
            let days: f64 = days.parse::<u32>().map_err(|_| InvalidTime)?.into();
            let (minutes, seconds) = (later.first().unwrap_or(&0.0), later.get(1).unwrap_or(&0.0));
            24.0 * days + hours + minutes / 60.0 + seconds / 3600.0
        }
        _ => return Err(InvalidTime),
    };
    Ok(Some(Hours(hours)))
}

pub fn combine(options: Options, asked: &mut JobRequest) -> Result<(), ImportError> {
    let product = |key: &str, each: u32, times: u32| {
        each.checked_mul(times).ok_or_else(|| invalid(key, format!("{each} x {times} are more than any machine has")))
    };
    let tasks_per_node = options.tasks_per_node.unwrap_or_else(|| match (&options.tasks, &options.nodes) {
        (Some(tasks), Some(nodes)) => tasks.div_ceil(*nodes.start()),
        (tasks, _) => tasks.unwrap_or(1),
    });
    let gpus = match (options.gpus_per_node, options.gpus_per_task, options.gpus, &options.nodes) {
        (Some(each), ..) => Some(Gpus::PerMachine(each)),
        (None, Some(each), ..) => Some(Gpus::PerMachine(product("gpus-per-task", each, tasks_per_node)?)),
        // A total over a given number of machines is so many on each.
        (None, None, Some(all), Some(nodes)) if nodes.start() == nodes.end() && all.is_multiple_of(*nodes.start()) => {
            Some(Gpus::PerMachine(all / nodes.start()))
        }
        (None, None, Some(all), _) => Some(Gpus::Together(all)),
        _ => None,
    };
    asked.nodes = options.nodes.clone().or_else(|| match (gpus, options.tasks, options.tasks_per_node) {
        // One is priced, and no number of the job's own.
        _ if options.has_open_nodes => {
            asked.assumed.push(JobAssumption::OneMachine);
            None
        }
        (Some(Gpus::Together(_)), ..) => None,
        (_, Some(tasks), Some(each)) => Some(tasks.div_ceil(each)..=tasks.div_ceil(each)),
        _ => {
            asked.assumed.push(JobAssumption::OneMachine);
            Some(1..=1)
        }
    });
    let per_node = if let Some(Gpus::PerMachine(each)) = gpus { Some(each) } else { None };
    let cpus = match (options.cpus_per_gpu.zip(per_node), options.cpus_per_task) {
        (Some((cpus, gpus)), _) => Some(product("cpus-per-gpu", cpus, gpus)?),
        (None, Some(cpus)) => Some(product("cpus-per-task", cpus, tasks_per_node)?),
        (None, None) => None,
    };
    let memory = options
        .memory
        .or(options.memory_per_gpu.zip(per_node).map(|(each, gpus)| each * f64::from(gpus)))
        .or(options.memory_per_cpu.zip(cpus).map(|(each, cpus)| each * f64::from(cpus)))
        // `--mem=0`: all that the machine has.
        .filter(|gib| *gib > 0.0);
    asked.assumed.push(JobAssumption::OnDemandOnly);
    // A partition with cards is no request for one: some job there has none.
    if gpus.is_some() || options.chips.is_some() {
        asked.choices.push(Choice {
            chips: options.chips.or(options.chips_of_partition),
            gpus,
            vcpus: cpus.map(|cpus| Need::AtLeast(f64::from(cpus))),
            memory: memory.map(Need::AtLeast),
            ..Choice::default()
        });
    }
    Ok(())
}
