//! On how many GPUs and machines a command runs: by its launcher, the step of Slurm that it is, and its environment.

use super::launcher::{Start, base, flags};
use crate::engine::slurm::options;
use crate::recipe::Entry;
use crate::{JobKind, JobRequest, Names};

/// Flags of launchers that count.
const COUNTS: [&str; 7] =
    ["nproc_per_node", "nnodes", "num_machines", "num_processes", "num_gpus", "num_nodes", "devices"];
/// Programs that read `NPROC_PER_NODE` and `NNODES` themselves: ms-swift (swift/cli/main.py), LLaMA-Factory (launcher.py), XTuner.
const READ_THEIR_ENVIRONMENT: [&str; 4] = ["swift", "megatron", "llamafactory-cli", "xtuner"];

/// What a launcher says of machines and processes.
pub fn of_launcher(before: &[String], launch: &[Entry], asked: &mut JobRequest) {
    for entry in launch.iter().filter(|entry| COUNTS.contains(&entry.key.as_str())) {
        let count = entry.value.as_deref().and_then(count);
        let slot = match entry.key.as_str() {
            "nproc_per_node" | "num_gpus" | "devices" => &mut asked.launch.gpus_per_machine,
            "nnodes" | "num_machines" | "num_nodes" => &mut asked.launch.machines,
            _ => &mut asked.launch.gpus,
        };
        match (count, &entry.value) {
            (Some(_), _) => *slot = count,
            // `gpu`, `auto`, `$GPUS`: as many as there are, or as somebody fills in.
            (None, Some(value)) => asked.leave_unread(&entry.shown, value),
            (None, None) => {}
        }
    }
    // `torchrun --standalone` meets nobody on another machine.
    if asked.kind == JobKind::Script && launch.iter().any(|entry| entry.key == "standalone") {
        asked.launch.machines = asked.launch.machines.or(Some(1));
    }
    // Horovod has a process for each GPU: `horovodrun -np 8 -H host-a:4,host-b:4`.
    if before.iter().any(|word| word.rsplit('/').next() == Some("horovodrun")) {
        let of = |flag: &str| before.windows(2).find(|pair| pair[0] == flag).map(|pair| pair[1].as_str());
        asked.launch.gpus = of("-np").and_then(count).or(asked.launch.gpus);
        let hosts = of("-H").and_then(|hosts| u32::try_from(hosts.split(',').count()).ok());
        asked.launch.machines = hosts.or(asked.launch.machines);
    }
    // DeepSpeed: `--include localhost:0,1`, `--include worker-0@worker-1:0,1,2,3`.
    let included = launch.iter().find(|entry| entry.key == "include").and_then(|entry| entry.value.as_deref());
    if let Some((hosts, gpus)) = included.and_then(|text| text.rsplit_once(':')) {
        asked.launch.gpus_per_machine = devices(gpus);
        asked.launch.machines = u32::try_from(hosts.split('@').count()).ok();
    }
}

/// A process of MPI has a card of its own where it trains (`mpiexec -n 8 python image_train.py`); of other programs it may be anything.
pub fn of_mpi(start: &Start, asked: &mut JobRequest) {
    let runs = start.before.iter().any(|word| matches!(word.rsplit('/').next(), Some("mpirun" | "mpiexec")));
    let name = start.name().to_ascii_lowercase();
    if !runs || !["train", "tune"].iter().any(|word| name.contains(word)) {
        return;
    }
    let of = |pair: &&[String]| ["-np", "-n", "--np"].contains(&pair[0].as_str());
    let processes = start.before.windows(2).find(of).and_then(|pair| count(&pair[1]));
    asked.launch.gpus = asked.launch.gpus.or(processes);
}

/// `--gpus=4 --nodes=8` of a program that nobody knows: nodes beside a count of cards are machines, and no part of a graph.
pub fn of_program(flags: &[Entry], asked: &mut JobRequest) {
    const CARDS: [&str; 5] = ["gpus", "num_gpus", "devices", "gpus_per_node", "num_gpus_per_node"];
    let counts = flags.iter().any(|flag| CARDS.contains(&flag.key.as_str()));
    let Some(nodes) = flags.iter().find(|flag| flag.key == "nodes").filter(|_| counts) else { return };
    let machines = nodes.value.as_deref().and_then(count);
    if asked.launch.machines.is_none() && machines.is_some() {
        asked.launch.machines = machines;
        asked.understand_after_all(&nodes.shown);
    }
}

/// `docker run --gpus '"device=0,1"' ...` (Docker, "Runtime options with Memory, CPUs, and GPUs"): `all` counts none.
pub fn of_container(before: &[String], launch: &[Entry], asked: &mut JobRequest) {
    const RUNTIMES: [&str; 3] = ["docker", "nvidia-docker", "podman"];
    if !before.iter().any(|word| RUNTIMES.contains(&word.rsplit('/').next().unwrap_or(word))) {
        return;
    }
    let given = launch.iter().find(|entry| entry.key == "gpus").and_then(|entry| entry.value.as_deref());
    let Some(given) = given.map(|text| text.trim_matches(['"', '\''])) else { return };
    let gpus = given.strip_prefix("device=").map_or_else(|| count(given), devices);
    if asked.launch.gpus_per_machine.is_none() && asked.launch.gpus.is_none() {
        asked.launch.gpus_per_machine = gpus;
    }
}

/// `srun --nodes 8 --gpus-per-node 8 ...` in a script without directives.
pub fn of_step(before: &[String], asked: &mut JobRequest, names: Names) {
    let is_step = |word: &String| matches!(word.rsplit('/').next(), Some("srun" | "salloc"));
    let Some(at) = before.iter().position(is_step) else { return };
    if !asked.choices.is_empty() {
        return;
    }
    match asked.kind {
        JobKind::Script => options::step(&before[at + 1..], asked, names),
        // Of a batch script that asks for none itself: how many machines it has, it has said.
        JobKind::Slurm => {
            let mut step = JobRequest::new(JobKind::Slurm);
            options::step(&before[at + 1..], &mut step, names);
            asked.choices = step.choices;
            asked.understood.extend(step.understood);
        }
        _ => {}
    }
}

/// A step that takes GPUs for a program that is not known, such as a script that lies elsewhere.
pub fn of_unknown_step(words: &[String], asked: &mut JobRequest, names: Names) {
    if words.iter().any(|word| word.starts_with("--gpus") || word.starts_with("--gres=gpu") || word.starts_with("gpu:"))
    {
        of_step(words, asked, names);
    }
}

/// `CUDA_VISIBLE_DEVICES=0,1 bash finetune.sh`, where that script is not there: it has no other cards.
pub fn of_script_elsewhere(words: &[String], environment: &[(&str, String)], asked: &mut JobRequest) {
    let is_script = words.first().is_some_and(|name| matches!(base(name), "bash" | "sh"))
        && words.get(1).is_some_and(|path| path.strip_suffix(".sh").is_some());
    let seen = visible(environment).and_then(|all| u32::try_from(all.len()).ok()).filter(|_| is_script);
    asked.launch.gpus_per_machine = asked.launch.gpus_per_machine.max(seen);
}

/// `ray start --head --num-gpus=8`: the cards of each machine that a script gives Ray before it starts its work there.
pub fn of_ray(words: &[String], asked: &mut JobRequest) {
    let starts = |pair: &[String]| base(&pair[0]) == "ray" && pair[1] == "start";
    let Some(at) = words.windows(2).position(starts) else { return };
    let given = flags(&words[at + 2..]).into_iter().find(|flag| flag.key == "num_gpus");
    let gpus = given.and_then(|flag| count(&flag.value?));
    asked.launch.gpus_per_machine = asked.launch.gpus_per_machine.max(gpus);
}

/// `CUDA_VISIBLE_DEVICES=0,1 python ...`, where no launcher counts, or where a process has several cards.
pub fn of_environment(
    start: &Start,
    launch: &[Entry],
    flags: &[Entry],
    environment: &[(&str, String)],
    asked: &mut JobRequest,
) {
    let value = |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
    let visible = visible(environment).and_then(|all| u32::try_from(all.len()).ok());
    let is_counted = launch.iter().any(|entry| COUNTS.contains(&entry.key.as_str()) || entry.key == "include");
    let mut processes = asked.launch.gpus_per_machine.filter(|_| is_counted);
    let program = start.program.split([' ', '/']).next().unwrap_or_default();
    if !is_counted && READ_THEIR_ENVIRONMENT.contains(&program) {
        asked.launch.machines = value("NNODES").and_then(count).or(asked.launch.machines);
        processes = value("NPROC_PER_NODE").and_then(count);
        asked.launch.gpus_per_machine = processes.or(asked.launch.gpus_per_machine);
    }
    // A count that a variable holds leaves the cards that the command sees: it has no others.
    if asked.launch.gpus_per_machine.is_none() && asked.launch.gpus.is_none() {
        asked.launch.gpus_per_machine = visible;
    }
    let (processes, Some(visible)) = (processes.unwrap_or(1), visible) else { return };
    if splits_layers(program, flags) && visible > processes && visible.is_multiple_of(processes) {
        asked.launch.gpus_per_machine = Some(visible);
        asked.launch.processes_per_machine = Some(processes);
    }
}

/// Whether each process splits the layers of its model over the cards that are left to it: where it is told a map of devices (Accelerate,
/// `device_map`), and in ms-swift by itself (swift/utils/torch_utils.py, `is_mp`), but not under DeepSpeed.
fn splits_layers(program: &str, flags: &[Entry]) -> bool {
    let value = |name: &str| flags.iter().find(|flag| flag.key == name).map(|flag| flag.value.as_deref());
    let is_swift = program == "swift" || value("sft_type").is_some();
    let is_mapped = matches!(value("device_map"), Some(Some("auto" | "balanced" | "balanced_low_0" | "sequential")));
    is_mapped || (is_swift && value("deepspeed").is_none() && value("fsdp").is_none())
}

/// Numbers above zero.
fn count(text: &str) -> Option<u32> {
    text.parse::<u32>().ok().filter(|count| *count > 0)
}

/// Cards that a command sees. `None`: all that there are, or it is not known which.
pub fn visible(environment: &[(&str, String)]) -> Option<Vec<String>> {
    let value = |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
    ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"].into_iter().find_map(value).and_then(list)
}

/// How many cards a list names. `None`: none, or not known.
fn devices(text: &str) -> Option<u32> {
    list(text).and_then(|all| u32::try_from(all.len()).ok())
}

/// `0,1,2`; names of cards and of their slices count too.
fn list(text: &str) -> Option<Vec<String>> {
    let all: Vec<&str> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    let is_device = |word: &&str| word.parse::<u32>().is_ok() || word.starts_with("GPU-") || word.starts_with("MIG-");
    (!all.is_empty() && all.iter().all(is_device)).then(|| all.into_iter().map(str::to_owned).collect())
}
