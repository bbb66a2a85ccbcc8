//! Machines that a service's file or a command line rents: a machine type, or cards by their name and number.

use crate::error::invalid;
use crate::recipe::Entry;
use crate::{Choice, Gpus, ImportError, JobRequest, Names, chips};
use gpuplan_hardware::Hardware;
use gpuplan_hardware::InstanceType;

/// Machines of one kind, as they are written.
#[derive(Clone, Debug, Default)]
pub struct Rented {
    pub machine: Option<String>,
    /// `A100:8` counts them too.
    pub card: Option<String>,
    pub cards: Option<String>,
    pub machines: Option<String>,
    /// The cloud whose service it is, where its own names are meant.
    pub cloud: Option<&'static str>,
    pub is_together: bool,
}

/// Asks for the machines that have GPUs. Whether some are counted. An error: they are of several kinds, or a count is none.
pub fn ask(all: &[Rented], asked: &mut JobRequest, names: Names) -> Result<bool, ImportError> {
    let mut found: Option<(Choice, Option<u32>)> = None;
    for one in all {
        let count = one.machines.as_deref().filter(|text| !is_open(text));
        let count = count.map(|text| number("machines", text)).transpose()?;
        let Some(choice) = choice(one, asked, names)? else {
            // Without machines of its own the count belongs to a cluster that is described elsewhere.
            if one.machine.is_none() && asked.nodes.is_none() {
                asked.nodes = count.map(|count| count..=count);
            }
            continue;
        };
        found = match found {
            None => Some((choice, count)),
            Some((same, known)) if same == choice => {
                let sum = known.unwrap_or(1).checked_add(count.unwrap_or(1));
                Some((same, Some(sum.ok_or_else(|| invalid("machines", "more than can be counted"))?)))
            }
            Some(_) => {
                return Err(invalid(
                    "machines",
                    "it asks for two kinds of machines, which have to be priced one by one",
                ));
            }
        };
    }
    let Some((choice, count)) = found else { return Ok(false) };
    asked.understand(
        "machines",
        choice.instance_type.clone().or(choice.chips.as_ref().map(|chips| chips.word.clone())).unwrap_or_default(),
    );
    asked.choices.push(choice);
    asked.nodes = count.map(|count| count..=count);
    Ok(true)
}

/// A value that something else fills in.
fn is_open(text: &str) -> bool {
    text.contains(['$', '<', '{'])
}

fn choice(one: &Rented, asked: &mut JobRequest, names: Names) -> Result<Option<Choice>, ImportError> {
    let (card, counted) = match one.card.as_deref().and_then(|card| card.rsplit_once(':')) {
        Some((card, count)) => (Some(card), Some(count)),
        None => (one.card.as_deref(), None),
    };
    let machine = one.machine.as_deref().map(|name| name.strip_prefix("ml.").unwrap_or(name));
    let known = machine.and_then(|name| instance(name, one.cloud, names.hardware));
    let stated = one.cards.as_deref().or(counted);
    let count = stated.filter(|text| !is_open(text)).map(|text| number("GPUs", text)).transpose()?;
    let cards = count.map(|count| if one.is_together { Gpus::Together(count) } else { Gpus::PerMachine(count) });
    let cloud = one.cloud.and_then(|name| names.hardware.clouds().into_iter().find(|cloud| cloud.as_str() == name));
    if let Some(known) = known {
        let gpus = Some(Gpus::PerMachine(known.node.devices()));
        let chips = card.and_then(|card| chips::find(card, names.hardware));
        let (instance_type, cloud) = (Some(known.name.clone()), Some(known.cloud.clone()));
        return Ok(Some(Choice { chips, gpus, instance_type, cloud, ..Choice::default() }));
    }
    if let Some(machine) = machine {
        asked.leave_unread("machine type", format!("{machine} (no machine with GPUs of the catalog is called so)"));
    }
    let card = card.filter(|card| !is_open(card));
    let chips = card.and_then(|card| chips::named(card, names.hardware));
    // A card of any kind (`gpu="any"`) is one too.
    if card.is_none() && cards.is_none() {
        return Ok(None);
    }
    if let (None, Some(text)) = (cards, stated) {
        asked.leave_unread("GPUs", text);
    }
    let gpus = cards.or(stated.is_none().then_some(Gpus::PerMachine(1)));
    Ok(Some(Choice { chips, gpus, cloud: cloud.filter(|_| one.card.is_some()), ..Choice::default() }))
}

fn instance<'a>(name: &str, cloud: Option<&str>, hardware: &'a Hardware) -> Option<&'a InstanceType> {
    let is_of = |one: &&InstanceType| cloud.is_none_or(|cloud| one.cloud.as_str() == cloud);
    hardware.instances().iter().filter(is_of).find(|one| one.name.eq_ignore_ascii_case(name))
}

/// A number above zero.
fn number(key: &str, value: &str) -> Result<u32, ImportError> {
    let count = value.parse::<u32>().ok().filter(|count| *count > 0 && *count < 1_000_000);
    count.ok_or_else(|| invalid(key, format!("`{value}` is not a number above zero")))
}

/// Command lines that rent machines: the program, a word that says so, and the cloud whose names it uses.
const RENT: [(&str, &str, Option<&str>); 9] = [
    ("gcloud", "create", Some("gcp")),
    ("aws", "run-instances", Some("aws")),
    ("az", "create", Some("azure")),
    ("runpodctl", "create", Some("runpod")),
    ("runpod", "create", Some("runpod")),
    ("hf", "jobs", None),
    ("hfjobs", "run", None),
    ("sky", "launch", None),
    ("vastai", "create", None),
];

/// The machines that a command line rents. `None`: it rents none.
pub fn of_command(words: &[String], flags: &[Entry]) -> Option<Vec<Rented>> {
    let name = words.first()?.rsplit('/').next()?;
    if name == "runai" {
        return of_run_ai(words).map(|machines| vec![machines]);
    }
    let (.., cloud) = RENT.iter().find(|(program, word, _)| *program == name && words.iter().any(|one| one == word))?;
    let value = |keys: &[&str]| {
        let of = |entry: &&Entry| keys.contains(&entry.key.replace('_', "").to_ascii_lowercase().as_str());
        flags.iter().find(of).and_then(|entry| entry.value.clone())
    };
    let mut all = Vec::new();
    for pool in flags.iter().filter(|entry| entry.key == "worker_pool_spec") {
        let part = |key: &str| {
            let mut parts = pool.value.as_deref()?.split(',').filter_map(|part| part.split_once('='));
            parts.find(|(name, _)| *name == key).map(|(_, value)| value.trim_matches(['\'', '"']).to_owned())
        };
        all.push(Rented {
            machine: part("machine-type"),
            card: part("accelerator-type"),
            cards: part("accelerator-count"),
            machines: part("replica-count"),
            cloud: *cloud,
            ..Rented::default()
        });
    }
    if !all.is_empty() {
        return Some(all);
    }
    // `--accelerator=type=nvidia-tesla-t4,count=2`
    let attached = value(&["accelerator"]).unwrap_or_default();
    let of_attached = |key: &str| attached.split(',').find_map(|part| part.strip_prefix(key)).map(str::to_owned);
    let flavor = value(&["flavor"]).map(|flavor| of_flavor(&flavor));
    let (flavor, flavored) = flavor.map_or((None, None), |(card, count)| (Some(card), Some(count)));
    let machines = Rented {
        machine: value(&["machinetype", "instancetype", "size"]),
        card: value(&["gputype", "gputypeid", "gpus", "gpu"]).or_else(|| of_attached("type=")).or(flavor),
        cards: value(&["gpucount"]).or_else(|| of_attached("count=")).or(flavored),
        machines: value(&["numnodes", "count"]),
        cloud: *cloud,
        is_together: false,
    };
    (machines.machine.is_some() || machines.card.is_some()).then(|| vec![machines])
}

/// `runai submit -g 2 ...`, `runai training submit --gpu-devices-request 8 ...` (Run:ai docs, "CLI reference").
fn of_run_ai(words: &[String]) -> Option<Rented> {
    if !words.iter().any(|word| word.contains("submit")) {
        return None;
    }
    let ends = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let value = |keys: &[&str]| {
        let own = words[..ends].windows(2).find(|pair| keys.contains(&pair[0].as_str())).map(|pair| pair[1].clone());
        let joined =
            || words[..ends].iter().find_map(|word| word.split_once('=').filter(|(key, _)| keys.contains(key)));
        own.or_else(|| joined().map(|(_, value)| value.to_owned()))
    };
    let cards = value(&["-g", "--gpu", "--gpu-devices-request"])?;
    // Shares of a card are no count.
    cards.parse::<u32>().is_ok().then(|| Rented { cards: Some(cards), ..Rented::default() })
}

/// A machine of Hugging Face's Jobs: `a10g-largex4` has four A10G, `l40sx8` eight L40S (Hub docs, "Jobs pricing").
fn of_flavor(flavor: &str) -> (String, String) {
    let (name, count) = match flavor.rsplit_once('x') {
        Some((name, count)) if !count.is_empty() && count.chars().all(|letter| letter.is_ascii_digit()) => {
            (name, count)
        }
        _ => (flavor, "1"),
    };
    (name.split('-').next().unwrap_or(name).to_owned(), count.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_workload::Models;

    fn machines(line: &str) -> Option<(Gpus, String, Option<u32>)> {
        let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
        let asked = crate::read(&format!("#!/bin/bash\n{line}\n"), Names::new(&hardware, &models)).ok()?;
        let choice = asked.choices.first()?.clone();
        let card = choice.chips.map(|chips| chips.word).or(choice.instance_type).unwrap_or_default();
        Some((choice.gpus?, card, asked.nodes.map(|nodes| *nodes.end())))
    }

    #[test]
    fn command_lines_that_rent_say_machines() {
        let each = |gpus, card: &str, nodes| Some((Gpus::PerMachine(gpus), card.to_owned(), nodes));
        let pool = "--worker-pool-spec=replica-count=1,machine-type='n1-standard-4',accelerator-type='NVIDIA_TESLA_T4',accelerator-count=2";
        assert_eq!(
            machines(&format!("gcloud ai custom-jobs create --region r {pool} {pool}")),
            each(2, "NVIDIA_TESLA_T4", Some(2))
        );
        let instance =
            "gcloud compute instances create a --machine-type=n1-standard-8 --accelerator=type=nvidia-tesla-t4,count=2";
        assert_eq!(machines(instance), each(2, "nvidia-tesla-t4", None));
        assert_eq!(
            machines("aws ec2 run-instances --instance-type p4d.24xlarge --count 2"),
            each(8, "p4d.24xlarge", Some(2))
        );
        assert_eq!(machines("hf jobs uv run --flavor a10g-largex4 train.py"), each(4, "a10g", None));
        assert_eq!(machines("hf jobs run --flavor a100-large image python train.py"), each(1, "a100", None));
        assert_eq!(
            machines("POD=$(runpodctl create pod --gpuType \"NVIDIA L40S\" --gpuCount 2)"),
            each(2, "NVIDIA L40S", None)
        );
        assert_eq!(machines("sky launch --gpus H100:8 --num-nodes 2 task.sh"), each(8, "H100", Some(2)));
        assert_eq!(machines("gcloud builds submit --config c.yaml"), None);
        assert_eq!(machines("runai submit train -i image -g 2 -- python train.py -g 8"), each(2, "", None));
        assert_eq!(machines("runai training submit a --gpu-devices-request=4"), each(4, "", None));
        assert_eq!(machines("runai submit a -g 0.5"), None);
        assert_eq!(
            machines("gcloud ai custom-jobs create --worker-pool-spec=machine-type=n1-standard-8,replica-count=1"),
            None
        );
    }
}
