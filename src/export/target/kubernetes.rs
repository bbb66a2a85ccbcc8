//! A Kubernetes Job (`kubectl apply -f FILE`): one pod a machine, an interrupted one made anew and not counted as a failure.

use serde_json::{Value, json};

use crate::job::Job;
use crate::target::pod::{self, CAPPED, INTERRUPTED, on_disruption, on_exit_codes};
use crate::{ExportError, Target, yaml};

/// Longest name of which pods and their host names can still be made.
pub const LONGEST_NAME: usize = 40;

pub fn render(job: &Job) -> Result<String, ExportError> {
    let (name, job_object) = object(job, Target::Kubernetes)?;
    let mut all = Vec::new();
    if job.machines().nodes > 1 {
        all.push(pod::headless_service(&name));
    }
    all.push(job_object);
    let mut how = pod::what_to_edit(job);
    how.push("kubectl apply -f FILE".to_owned());
    Ok(job.comments(&how) + &yaml::documents(&all))
}

/// Name and object of the Job.
pub fn object(job: &Job, target: Target) -> Result<(String, Value), ExportError> {
    let name = job.dns_name(target, LONGEST_NAME)?;
    let subdomain = (job.machines().nodes > 1).then_some(name.as_str());
    // The order matters: the first rule that fits is taken.
    let rules =
        json!([on_exit_codes("FailJob", &[CAPPED]), on_exit_codes("Ignore", &[INTERRUPTED]), on_disruption("Ignore"),]);
    let spec = pod::job_spec(job, &format!("{name}-0.{name}"), subdomain, rules, true)?;
    Ok((name.clone(), json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name }, "spec": spec })))
}
