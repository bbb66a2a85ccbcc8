//! A run of MosaicML's platform (mcli, "Run schema"): `compute` and `command`.

use serde_json::Value;

use crate::yaml::text;
use crate::{Choice, Gpus, JobKind, JobRequest, Names, chips, command};

pub fn is_run(document: &Value) -> bool {
    document.pointer("/compute/gpus").is_some() && document.get("command").is_some_and(Value::is_string)
}

/// Its GPUs are counted together; machines are the cluster's own.
pub fn read(document: &Value, names: Names) -> JobRequest {
    let mut asked = JobRequest::new(JobKind::Script);
    asked.name = document.get("name").map(text);
    let gpus = document.pointer("/compute/gpus").and_then(Value::as_u64).and_then(|gpus| u32::try_from(gpus).ok());
    if let Some(gpus) = gpus.filter(|gpus| *gpus > 0) {
        let card = document.pointer("/compute/gpu_type").map(text);
        let chips = card.as_deref().and_then(|card| chips::find(card, names.hardware));
        asked.choices.push(Choice { chips, gpus: Some(Gpus::Together(gpus)), ..Choice::default() });
        asked.understand("compute.gpus", gpus);
    }
    let own = document.get("env_variables").and_then(Value::as_object).into_iter().flatten();
    let variables: Vec<(String, String)> = own.map(|(name, value)| (name.clone(), text(value))).collect();
    command::read(document.get("command").and_then(Value::as_str).unwrap_or_default(), &variables, &mut asked, names);
    asked
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::Hardware;
    use gpuplan_workload::Models;

    #[test]
    fn its_gpus_are_counted_together() {
        let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
        let run = "name: a\nimage: b\ncompute: {gpus: 16, gpu_type: h100_80gb, cluster: c}\ncommand: |-\n  cd x\n  composer train.py --max_steps 9\n";
        let read = crate::read(run, Names::new(&hardware, &models)).unwrap();
        assert_eq!(read.choices[0].gpus, Some(Gpus::Together(16)));
        assert!(read.choices[0].chips.is_some() && read.workload.training.steps.is_some());
    }
}
