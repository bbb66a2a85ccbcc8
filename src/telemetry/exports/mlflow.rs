//! MLflow's file store: a run as a folder of small texts (MLflow documentation, "Backend Stores", file store).

use std::fmt::Write as _;

use crate::exports::metrics::metrics;
use crate::samples::Sample;

/// The experiment that MLflow itself makes first.
pub const EXPERIMENT: &str = "0";

/// A run in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MlflowRun {
    /// 32 hexadecimal digits.
    pub id: String,
    pub name: String,
    pub start_unix_millis: u64,
    pub end_unix_millis: Option<u64>,
    pub succeeded: bool,
}

impl MlflowRun {
    /// Text of `meta.yaml` in the folder of the run.
    pub fn meta(&self, store: &str) -> String {
        let end = self.end_unix_millis.map_or("null".to_owned(), |millis| millis.to_string());
        // The numbers of `RunStatus` in MLflow's service.proto.
        let status = match (self.end_unix_millis, self.succeeded) {
            (None, _) => 1,
            (Some(_), true) => 3,
            (Some(_), false) => 4,
        };
        let uri = quoted(&format!("{store}/{EXPERIMENT}/{}/artifacts", self.id));
        format!(
            "artifact_uri: {uri}\nend_time: {end}\nentry_point_name: ''\nexperiment_id: '{EXPERIMENT}'\nlifecycle_stage: active\nrun_id: {id}\n\
             run_name: {name}\nrun_uuid: {id}\nsource_name: ''\nsource_type: 4\nsource_version: ''\nstart_time: {start}\nstatus: {status}\n\
             tags: []\nuser_id: ''\n",
            id = self.id,
            name = quoted(&self.name),
            start = self.start_unix_millis,
        )
    }
}

/// Text of `meta.yaml` of the experiment.
pub fn experiment_meta(store: &str, now_unix_millis: u64) -> String {
    format!(
        "artifact_location: {}\ncreation_time: {now_unix_millis}\nexperiment_id: '{EXPERIMENT}'\nlast_update_time: {now_unix_millis}\nlifecycle_stage: active\nname: Default\n",
        quoted(&format!("{store}/{EXPERIMENT}"))
    )
}

/// What is to be added to which file of the folder `metrics`: time, value and step of each.
pub fn metric_lines(sample: &Sample, number: u64) -> Vec<(String, String)> {
    let millis = (sample.at_unix_seconds * 1e3) as u64;
    metrics(sample)
        .into_iter()
        .map(|metric| {
            let mut name = metric.name.to_owned();
            if let Some(gpu) = metric.gpu {
                let _ = write!(name, ".gpu{gpu}");
            }
            (name, format!("{millis} {} {number}\n", metric.value))
        })
        .collect()
}

/// YAML in single quotes holds any text of one line.
fn quoted(text: &str) -> String {
    let line: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    format!("'{}'", line.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exports::metrics::example;

    #[test]
    fn a_run_is_told_with_its_state() {
        let run = MlflowRun {
            id: "a".repeat(32),
            name: "it's\nmine".to_owned(),
            start_unix_millis: 5,
            end_unix_millis: None,
            succeeded: false,
        };
        let meta = run.meta("file:///store");
        assert!(
            meta.contains("run_name: 'it''s mine'\n")
                && meta.contains("status: 1\n")
                && meta.contains("end_time: null\n")
        );
        assert!(meta.contains(&format!("artifact_uri: 'file:///store/0/{}/artifacts'\n", "a".repeat(32))));
        assert!(MlflowRun { end_unix_millis: Some(9), succeeded: true, ..run }.meta("x").contains("status: 3\n"));
    }

    #[test]
    fn a_metric_is_a_line_of_its_file() {
        let lines = metric_lines(&example(), 4);
        assert!(lines.contains(&("gpuplan_gpu_power_watts.gpu1".to_owned(), "1790000000500 300.25 4\n".to_owned())));
    }
}
