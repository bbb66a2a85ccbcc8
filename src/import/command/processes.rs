//! On how many GPUs and machines a command runs: by its launcher, the step of Slurm that it is, and its environment.

use super::launcher::Start;
use crate::engine::slurm::options;
use crate::recipe::Entry;
use crate::{JobKind, JobRequest, Names};

/// Flags of launchers that count.
const COUNTS: [&str; 7] =
    ["nproc_per_node", "nnodes", "num_machines", "num_processes", "num_gpus", "num_nodes", "devices"];
/// Programs that read `NPROC_PER_NODE` and `NNODES` themselves: ms-swift (swift/cli/main.py), LLaMA-Factory (launcher.py), XTuner.
const READ_THEIR_ENVIRONMENT: [&str; 4] = ["swift", "megatron", "llamafactory-cli", "xtuner"];

/// What a launcher says of machines and processes.
pub fn of_launcher(launch: &[Entry], asked: &mut JobRequest) {
    for entry in launch.iter().filter(|entry| COUNTS.contains(&entry.key.as_str())) {
        let count = entry.value.as_deref().and_then(count);
        let slot = match entry.key.as_str() {
            "nproc_per_node" | "num_gpus" | "devices" => &mut asked.launch.gpus_per_machine,
            "nnodes" | "num_machines" | "num_nodes" => &mut asked.launch.machines,
            _ => &mut asked.launch.gpus,
        };
        if count.is_some() {
            *slot = count;
        }
    }
    // DeepSpeed: `--include localhost:0,1`, `--include worker-0@worker-1:0,1,2,3`.
    let included = launch.iter().find(|entry| entry.key == "include").and_then(|entry| entry.value.as_deref());
    if let Some((hosts, gpus)) = included.and_then(|text| text.rsplit_once(':')) {
        asked.launch.gpus_per_machine = devices(gpus);
        asked.launch.machines = u32::try_from(hosts.split('@').count()).ok();
    }
}

/// `srun --nodes 8 --gpus-per-node 8 ...` in a script without directives.
pub fn of_step(before: &[String], asked: &mut JobRequest, names: Names) {
    let Some(at) = before.iter().position(|word| word.rsplit('/').next() == Some("srun")) else { return };
    if asked.kind != JobKind::Script || !asked.choices.is_empty() {
        return;
    }
    options::step(&before[at + 1..], asked, names);
}

/// `CUDA_VISIBLE_DEVICES=0,1 python ...`, where no launcher counts.
pub fn of_environment(start: &Start, launch: &[Entry], environment: &[(&str, String)], asked: &mut JobRequest) {
    let value = |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
    if launch.iter().any(|entry| COUNTS.contains(&entry.key.as_str()) || entry.key == "include") {
        return;
    }
    let program = start.program.split([' ', '/']).next().unwrap_or_default();
    if READ_THEIR_ENVIRONMENT.contains(&program) {
        asked.launch.machines = value("NNODES").and_then(count).or(asked.launch.machines);
        if let Some(processes) = value("NPROC_PER_NODE").and_then(count) {
            asked.launch.gpus_per_machine = Some(processes);
            return;
        }
    }
    let visible = ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"].into_iter().find_map(value).and_then(devices);
    if asked.launch.gpus_per_machine.is_none() && asked.launch.gpus.is_none() {
        asked.launch.gpus_per_machine = visible;
    }
}

/// Numbers above zero.
fn count(text: &str) -> Option<u32> {
    text.parse::<u32>().ok().filter(|count| *count > 0)
}

/// `0,1,2`; names of cards and of their slices count too. `None`: none, or not known.
fn devices(text: &str) -> Option<u32> {
    let all: Vec<&str> = text.split(',').map(str::trim).collect();
    let is_device = |word: &&str| word.parse::<u32>().is_ok() || word.starts_with("GPU-") || word.starts_with("MIG-");
    all.iter().all(is_device).then(|| u32::try_from(all.len()).ok()).flatten()
}
