//! A JobSet (jobset.sigs.k8s.io, v1alpha2): all machines start again together after an interruption, as often as it takes.

use serde_json::json;

use crate::job::Job;
use crate::target::kubernetes::LONGEST_NAME;
use crate::target::pod::{self, INTERRUPTED, on_disruption, on_exit_codes};
use crate::{ExportError, Target, yaml};

const MACHINES: &str = "machines";

pub fn render(job: &Job) -> Result<String, ExportError> {
    let name = job.dns_name(Target::Jobset, LONGEST_NAME)?;
    // An interruption fails the Job at once for a reason of its own; every other end is a failure of the first try.
    let rules = json!([on_exit_codes("FailJob", &[INTERRUPTED]), on_disruption("FailJob")]);
    let spec = pod::job_spec(job, &format!("{name}-{MACHINES}-0-0.{name}"), None, rules, false)?;
    let object = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": { "name": name },
        "spec": {
            "network": { "enableDNSHostnames": true, "subdomain": name, "publishNotReadyAddresses": true },
            "failurePolicy": {
                "maxRestarts": 0,
                "rules": [{
                    "name": "interrupted",
                    "action": "RestartJobSetAndIgnoreMaxRestarts",
                    "onJobFailureReasons": ["PodFailurePolicy"],
                }],
            },
            "replicatedJobs": [{ "name": MACHINES, "replicas": 1, "template": { "spec": spec } }],
        },
    });
    let mut how = pod::what_to_edit(job);
    how.push("kubectl apply -f FILE; JobSet 0.6 or later has to be installed".to_owned());
    Ok(job.comments(&how) + &yaml::document(&object))
}
