//! OAR, the batch system of Grid'5000 (oarsub(1)): `#OAR -l host=2/gpu=4,walltime=12:00:00 -p "gpu_model='A100-SXM4-40GB'"`.

use crate::engine::batch::figures::{number, sum};
use crate::{Choice, Gpus, JobRequest, chips};
use gpuplan_hardware::Hardware;
use gpuplan_units::Hours;

/// Names of a machine among the properties of a resource.
const MACHINES: [&str; 3] = ["host", "nodes", "network_address"];
/// Names of a card.
const CARDS: [&str; 4] = ["gpu", "gpunum", "gpudevice", "gpuid"];

/// Reads the options of a directive, or those that `oarsub` is given.
pub fn read(words: &[String], asked: &mut JobRequest, hardware: &Hardware) {
    let value = |short: &str, long: &str| {
        let behind = words.windows(2).filter(|pair| pair[0] == short || pair[0] == long).map(|pair| pair[1].as_str());
        let joined =
            words.iter().filter_map(|word| word.strip_prefix(long)?.strip_prefix('=').or(word.strip_prefix(short)));
        behind.chain(joined.filter(|text| !text.is_empty())).collect::<Vec<_>>()
    };
    // A job of several shapes takes the first that fits: none of them is the one that it has.
    match value("-l", "--resource").as_slice() {
        [] => {}
        [only] => resources(only, asked),
        several => asked.leave_unread("oarsub -l", several.join(" or ")),
    }
    for property in value("-p", "--property") {
        let mut quoted = property.split(['\'', '"', '=', ' ', '(', ')']).filter(|word| word.len() > 1);
        let named = quoted.find_map(|word| chips::find(word, hardware));
        if let (Some(choice), Some(chips)) = (asked.choices.first_mut(), named) {
            choice.chips = choice.chips.take().or(Some(chips));
        }
    }
}

/// `/host=2/gpu=4,walltime=12:00:00`: so many machines with so many cards each; `gpu=4` alone is four wherever they are.
fn resources(list: &str, asked: &mut JobRequest) {
    let mut hierarchy = "";
    for part in list.split(',') {
        match part.trim().strip_prefix("walltime=") {
            Some(time) => asked.hours = hours(time).or(asked.hours),
            None => hierarchy = part.trim(),
        }
    }
    // `{gpu_model = 'V100'}/host=1/gpu=2`
    let levels = hierarchy.rsplit_once('}').map_or(hierarchy, |(_, levels)| levels);
    let count = |names: &[&str]| {
        let level = |part: &&str| part.split_once('=').is_some_and(|(key, _)| names.contains(&key.trim()));
        levels.split('/').find(level)?.split_once('=').map(|(_, value)| value)
    };
    let (machines, cards) = (count(&MACHINES), count(&CARDS));
    let Some(cards) = cards else {
        asked.nodes = machines.and_then(number).map(|count| count..=count).or(asked.nodes.take());
        return;
    };
    let (each, machines) = (number(cards), machines.map(number));
    let (Some(each), false) = (each, machines == Some(None) || hierarchy.contains('+')) else {
        return asked.leave_unread("oarsub -l", list);
    };
    let machines = machines.flatten();
    let gpus = if machines.is_some() || each == 1 { Gpus::PerMachine(each) } else { Gpus::Together(each) };
    if asked.choices.is_empty() {
        asked.choices.push(Choice { gpus: Some(gpus), ..Choice::default() });
        asked.nodes = machines.or((each == 1).then_some(1)).map(|count| count..=count);
        asked.understand("oarsub -l", hierarchy);
    }
}

/// `12:00:00`, `12:00` and `12` are twelve hours.
fn hours(text: &str) -> Option<Hours> {
    let last = [1.0, 60.0, 3600.0].get(text.matches(':').count())?;
    sum(text, *last)
}
