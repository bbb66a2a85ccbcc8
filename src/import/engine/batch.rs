//! Directives of batch systems beside Slurm, as far as they ask for GPUs: Grid Engine (qsub(1), `#$ -l gpu=2`), PBS
//! (`#PBS -l select=2:ncpus=16:ngpus=4`, of Torque `nodes=2:gpus=4`), LSF (bsub(1), `#BSUB -gpu "num=4"`) and OAR.

use crate::engine::batch::figures::{number, sum};
use crate::{Choice, GpuModels, Gpus, JobRequest, chips, shell};
use gpuplan_hardware::Hardware;
use gpuplan_units::Hours;

mod figures;
mod oar;

/// Names under which administrators of Grid Engine count GPUs.
const OF_GRID_ENGINE: [&str; 3] = ["gpu", "gpus", "ngpus"];
/// Names under which administrators of all of them name cards.
const CARDS: [&str; 5] = ["gpu_model", "gpu_type", "gputype", "gpu_card", "gmodel"];

/// Reads what the lines of a script ask for.
pub fn read(text: &str, asked: &mut JobRequest, hardware: &Hardware) {
    let mut lsf = Lsf::default();
    let of_oar = text.lines().filter_map(|line| shell::split(line.strip_prefix("#OAR ")?)).flatten();
    oar::read(&of_oar.collect::<Vec<_>>(), asked, hardware);
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("#BSUB ") {
            lsf.read(rest, asked, hardware);
            continue;
        }
        let (of_pbs, rest) = match (line.strip_prefix("#PBS "), line.strip_prefix("#$ ")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => continue,
        };
        let mut words = rest.split_whitespace();
        while let Some(word) = words.next() {
            let Some(list) = word.strip_prefix("-l") else { continue };
            let list = if list.is_empty() { words.next().unwrap_or_default() } else { list };
            for request in list.split(',') {
                if of_pbs { chunks(request, asked, hardware) } else { resource(request, asked, hardware) }
            }
        }
    }
    lsf.apply(asked);
}

/// `bsub -gpu "num=4" ... COMMAND`, `qsub -l gpus=4 SCRIPT`: what a line that hands a job over asks for.
pub fn submitted(words: &[String], asked: &mut JobRequest, hardware: &Hardware) {
    match words.split_first().map(|(name, rest)| (name.rsplit('/').next().unwrap_or(name), rest)) {
        Some(("bsub", rest)) => {
            let mut lsf = Lsf::default();
            lsf.read_words(rest, asked, hardware);
            lsf.apply(asked);
        }
        Some(("oarsub", rest)) => oar::read(rest, asked, hardware),
        Some(("qsub", rest)) => {
            let lists = rest.windows(2).filter(|pair| pair[0] == "-l").flat_map(|pair| pair[1].split(','));
            for request in lists {
                chunks(request, asked, hardware);
                if asked.choices.is_empty() {
                    resource(request, asked, hardware);
                }
            }
        }
        _ => {}
    }
}

fn gpus(count: u32, asked: &mut JobRequest) {
    if asked.choices.is_empty() {
        asked.choices.push(Choice { gpus: Some(Gpus::PerMachine(count)), ..Choice::default() });
    }
}

fn card(name: &str, asked: &mut JobRequest, hardware: &Hardware) {
    if let (Some(choice), Some(named)) = (asked.choices.first_mut(), chips::named(name, hardware)) {
        choice.chips = Some(named);
    }
}

/// `gpus=2`: of the machine.
fn resource(request: &str, asked: &mut JobRequest, hardware: &Hardware) {
    let Some((key, value)) = request.split_once('=') else { return };
    if key == "h_rt" {
        asked.hours = clock(value).or(asked.hours);
    } else if CARDS.contains(&key) {
        card(value, asked, hardware);
    } else if OF_GRID_ENGINE.contains(&key) {
        match number(value) {
            Some(count) => {
                gpus(count, asked);
                asked.nodes.get_or_insert(1..=1);
                asked.understand(&format!("-l {key}"), value);
            }
            None => asked.leave_unread(&format!("-l {key}"), value),
        }
    }
}

/// `select=2:ncpus=16:ngpus=4:gpu_model=a100`, `nodes=2:ppn=8:gpus=4:V100`: so many alike.
fn chunks(request: &str, asked: &mut JobRequest, hardware: &Hardware) {
    if let Some(time) = request.strip_prefix("walltime=") {
        asked.hours = clock(time).or(asked.hours);
        return;
    }
    // Of PBS without chunks.
    if let Some(count) = ["ngpus=", "gpus="].iter().find_map(|key| request.strip_prefix(key)) {
        return resource(&format!("gpus={count}"), asked, hardware);
    }
    let Some((key, chunk)) = request.split_once('=').filter(|(key, _)| ["select", "nodes"].contains(key)) else {
        return;
    };
    let shown = format!("-l {key}");
    // Chunks of several kinds are machines of several kinds.
    let mut parts = chunk.split(':');
    let (Some(nodes), false) = (parts.next().and_then(number), chunk.contains('+')) else {
        return asked.leave_unread(&shown, chunk);
    };
    if asked.nodes.as_ref().is_some_and(|known| *known != (nodes..=nodes)) {
        return asked.leave_unread(&shown, format!("{chunk} (other than before)"));
    }
    let value = |name: &str| chunk.split(':').find_map(|part| part.split_once('=').filter(|(key, _)| *key == name));
    let count = ["ngpus", "gpus"].iter().find_map(|name| value(name));
    asked.nodes = Some(nodes..=nodes);
    // Without GPUs counted they are those of its launcher, if any.
    let Some(count) = count.and_then(|(_, count)| number(count)) else { return };
    gpus(count, asked);
    if let Some((_, name)) = CARDS.iter().find_map(|name| value(name)) {
        card(name, asked, hardware);
    } else if let Some(named) = parts.find_map(|part| chips::find(part, hardware)) {
        card(&named.word, asked, hardware);
    }
    asked.understand(&shown, chunk);
}

/// What the options of LSF say, before it is put together.
#[derive(Default)]
struct Lsf {
    gpus: Option<u32>,
    /// Whether each task has so many, and not each host.
    is_per_task: bool,
    chips: Option<GpuModels>,
    /// The card by which administrators have named the queue.
    chips_of_queue: Option<GpuModels>,
    tasks: Option<u32>,
    tasks_per_host: Option<u32>,
    hosts: Option<u32>,
}

impl Lsf {
    fn read(&mut self, rest: &str, asked: &mut JobRequest, hardware: &Hardware) {
        match shell::split(rest) {
            Some(words) => self.read_words(&words, asked, hardware),
            None => asked.leave_unread("#BSUB", rest),
        }
    }

    fn read_words(&mut self, words: &[String], asked: &mut JobRequest, hardware: &Hardware) {
        for pair in words.windows(2) {
            let value = pair[1].as_str();
            match pair[0].as_str() {
                "-n" => self.tasks = number(value.split(',').next().unwrap_or(value)),
                "-nnodes" => self.hosts = number(value),
                "-gpu" => self.gpu(value, asked, hardware),
                "-R" => self.needs(value, hardware),
                "-q" => self.chips_of_queue = chips::of_partitions(value, hardware),
                "-W" => asked.hours = minutes(value).or(asked.hours),
                _ => {}
            }
        }
    }

    /// `num=4/host:gmodel=NVIDIAA100_SXM4_80GB:mode=exclusive_process`
    fn gpu(&mut self, value: &str, asked: &mut JobRequest, hardware: &Hardware) {
        // `-gpu -` takes the queue's own, which is one.
        self.gpus = Some(1);
        for (key, value) in value.split(':').filter_map(|part| part.split_once('=')) {
            match key {
                "num" => {
                    let (count, per) = value.split_once('/').unwrap_or((value, "host"));
                    (self.gpus, self.is_per_task) = (number(count), per == "task");
                    if self.gpus.is_none() {
                        asked.leave_unread("-gpu num", value);
                    }
                }
                "gmodel" => self.chips = chips::named(value, hardware),
                _ => {}
            }
        }
        asked.understand("-gpu", value);
    }

    /// `span[hosts=1]`, `span[ptile=4]`, `V100`, `select[a100]`.
    fn needs(&mut self, value: &str, hardware: &Hardware) {
        let inner = |key: &str| value.split_once(key).and_then(|(_, rest)| number(rest.split([']', ' ']).next()?));
        self.hosts = inner("span[hosts=").or(self.hosts);
        self.tasks_per_host = inner("ptile=").or(self.tasks_per_host);
        let mut words = value.split(|letter: char| !(letter.is_ascii_alphanumeric() || "-_".contains(letter)));
        self.chips = self.chips.take().or_else(|| words.find_map(|word| chips::find(word, hardware)));
    }

    fn apply(self, asked: &mut JobRequest) {
        let Some(count) = self.gpus else {
            // Whole machines (`-nnodes 128`), whose cards nobody counts.
            asked.nodes = self.hosts.map(|hosts| hosts..=hosts).or(asked.nodes.take());
            return;
        };
        let spread = self.tasks.zip(self.tasks_per_host).map(|(tasks, each)| tasks.div_ceil(each));
        let hosts = self.hosts.or(spread).or((self.tasks == Some(1)).then_some(1));
        let tasks = self.tasks_per_host.or(self.tasks.filter(|_| hosts == Some(1))).unwrap_or(1);
        let each = if self.is_per_task { count.checked_mul(tasks) } else { Some(count) };
        if let (Some(each), true) = (each, asked.choices.is_empty()) {
            let chips = self.chips.or(self.chips_of_queue);
            asked.choices.push(Choice { chips, gpus: Some(Gpus::PerMachine(each)), ..Choice::default() });
            asked.nodes = hosts.map(|hosts| hosts..=hosts).or(asked.nodes.take());
        }
    }
}

/// `24:00:00`, `30:00`, seconds.
fn clock(text: &str) -> Option<Hours> {
    sum(text, 3600.0)
}

/// LSF's `24:00` and minutes, behind which a host may stand.
fn minutes(text: &str) -> Option<Hours> {
    sum(text.split('/').next()?, 60.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobKind;

    fn asked(line: &str) -> JobRequest {
        let mut asked = JobRequest::new(JobKind::Script);
        let text = format!("#!/bin/bash\n{line}\npython train.py\n");
        read(&text, &mut asked, &Hardware::embedded().unwrap());
        asked
    }

    fn one(line: &str) -> (Option<Gpus>, String, Option<std::ops::RangeInclusive<u32>>, usize) {
        let mut asked = asked(line);
        let choice = asked.choices.pop().unwrap_or_default();
        (choice.gpus, choice.chips.map(|chips| chips.word).unwrap_or_default(), asked.nodes, asked.unread.len())
    }

    #[test]
    fn gpus_are_counted_where_a_directive_counts_them() {
        let machine =
            |gpus, card: &str, nodes: u32| (Some(Gpus::PerMachine(gpus)), card.to_owned(), Some(nodes..=nodes), 0);
        assert_eq!(one("#$ -l gpus=2"), machine(2, "", 1));
        assert_eq!(one("#$ -l h_rt=24:00:00,gpu=1,gpu_type=V100"), machine(1, "V100", 1));
        assert_eq!(one("#$ -l gpu=4 -l gpu_type=A100"), machine(4, "A100", 1));
        assert_eq!(one("#PBS -l select=2:ncpus=16:ngpus=4:gpu_model=a100,walltime=12:00:00"), machine(4, "a100", 2));
        assert_eq!(one("#PBS -l nodes=2:ppn=28:gpus=4:V100"), machine(4, "V100", 2));
        assert_eq!(one("#PBS -l ngpus=4"), machine(4, "", 1));
        assert_eq!(one("#PBS -l select=3"), (None, String::new(), Some(3..=3), 0));
        assert_eq!(one("#PBS -l select=2:ngpus=4\n#PBS -l select=1:ngpus=4").3, 1);
        assert_eq!(one("#PBS -l select=1:ngpus=1+1:ncpus=4").3, 1);
        assert_eq!(one("#$ -l gpus=$N").3, 1);
        assert_eq!(one("#$ -pe omp 8"), (None, String::new(), None, 0));
        assert_eq!(one("#PBS -l select=1:ngpus=2:gpu_model=mi999"), machine(2, "mi999", 1));
    }

    #[test]
    fn lsf_counts_by_hosts_and_tasks() {
        let gpu = "#BSUB -gpu \"num=4:mode=exclusive_process\"\n";
        assert_eq!(one(&format!("{gpu}#BSUB -n 8\n#BSUB -R \"span[hosts=1]\"")).2, Some(1..=1));
        assert_eq!(one(&format!("{gpu}#BSUB -n 8\n#BSUB -R \"rusage[mem=5] span[ptile=2]\"")).2, Some(4..=4));
        assert_eq!(one(&format!("{gpu}#BSUB -n 8")), (Some(Gpus::PerMachine(4)), String::new(), None, 0));
        assert_eq!(one(&format!("{gpu}#BSUB -R V100")).1, "V100");
        let tasks = one("#BSUB -n 4 -gpu \"num=2/task:gmodel=NVIDIAA100_SXM4_80GB\" -R \"span[hosts=1]\"");
        assert_eq!((tasks.0, tasks.1.as_str()), (Some(Gpus::PerMachine(8)), "NVIDIAA100_SXM4_80GB"));
        assert_eq!(one("#BSUB -n 4\n#BSUB -q gpu").0, None);
        assert_eq!((one(&format!("{gpu}#BSUB -q gpuv100")).1, one("#BSUB -q gpuv100").0), ("gpuv100".to_owned(), None));
    }

    #[test]
    fn oar_counts_machines_and_cards_of_each() {
        let each = |line: &str| {
            let (gpus, card, nodes, unread) = one(line);
            (gpus, card, nodes.map(|nodes| *nodes.end()), unread)
        };
        let card = "A100".to_owned();
        let two = (Some(Gpus::PerMachine(4)), card.clone(), Some(2), 0);
        assert_eq!(each("#OAR -l /host=2/gpu=4,walltime=12:00:00\n#OAR -p gpu_model='A100'"), two);
        let one = (Some(Gpus::PerMachine(1)), String::new(), Some(1), 0);
        assert_eq!(each("#OAR -n train\n#OAR -l gpu=1,walltime=2"), one);
        assert_eq!(each("#OAR -l {gpu='YES'}/nodes=1/gpudevice=1 -q besteffort"), one);
        assert_eq!(each("#OAR -l gpu=4").0, Some(Gpus::Together(4)));
        assert_eq!(each("#OAR -l gpu=$N"), (None, String::new(), None, 1));
        assert_eq!(each("#OAR -l host=1/gpu=2 -l host=2/gpu=1"), (None, String::new(), None, 1));
        assert_eq!(each("#OAR -l host=3"), (None, String::new(), Some(3), 0));
        assert_eq!(asked("#OAR -l gpu=1,walltime=2:30").hours, Some(Hours(2.5)));
    }

    #[test]
    fn lines_that_submit_say_it_too() {
        let hardware = Hardware::embedded().unwrap();
        let one = |line: &str| {
            let mut asked = JobRequest::new(JobKind::Script);
            submitted(&shell::split(line).unwrap(), &mut asked, &hardware);
            let choice = asked.choices.pop().unwrap_or_default();
            (choice.gpus, choice.chips.is_some(), asked.nodes)
        };
        let lsf = one("bsub -q normal -n 1 -gpu \"num=4:gmodel=NVIDIAA100_SXM4_80GB\" accelerate launch tune.py");
        assert_eq!(lsf, (Some(Gpus::PerMachine(4)), true, Some(1..=1)));
        let pbs = one("qsub -l select=2:ngpus=4,walltime=1:00:00 train.pbs");
        assert_eq!(pbs, (Some(Gpus::PerMachine(4)), false, Some(2..=2)));
        let oar = one("oarsub -l host=1/gpu=2,walltime=1:00:00 -p \"gpu_model='V100'\" ./train.sh");
        assert_eq!(oar, (Some(Gpus::PerMachine(2)), true, Some(1..=1)));
        assert_eq!(one("qsub -l gpus=2 train.sh"), (Some(Gpus::PerMachine(2)), false, Some(1..=1)));
    }

    #[test]
    fn times_are_hours() {
        let hours = |line: &str| asked(line).hours.map(|hours| hours.0);
        assert_eq!(hours("#PBS -l walltime=12:30:00"), Some(12.5));
        assert_eq!((hours("#BSUB -W 24:00"), hours("#BSUB -W 90")), (Some(24.0), Some(1.5)));
        assert_eq!((hours("#$ -l h_rt=7200"), hours("#BSUB -W soon")), (Some(2.0), None));
    }
}
