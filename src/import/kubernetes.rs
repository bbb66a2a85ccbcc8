//! Objects of Kubernetes: Job, JobSet, PyTorchJob and Pod, by the resources, node labels and affinity of their pods.

use serde_json::{Map, Value};

use crate::error::invalid;
use crate::labels::narrow;
use crate::{Choice, Gpus, ImportError, JobKind, JobRequest, Names, Need, command};
use gpuplan_units::Hours;
use gpuplan_workload::assumption::JobAssumption;

/// Objects that may come with a job and cost nothing themselves.
const FREE_OBJECTS: [&str; 13] = [
    "Service",
    "ConfigMap",
    "Secret",
    "PersistentVolumeClaim",
    "Namespace",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ResourceFlavor",
    "ClusterQueue",
    "LocalQueue",
    "NetworkPolicy",
    "Topology",
];
/// Parts of a pod that change neither machines nor price.
const POD_KEYS_WITHOUT_EFFECT: [&str; 25] = [
    "restartPolicy",
    "terminationGracePeriodSeconds",
    "tolerations",
    "volumes",
    "subdomain",
    "hostname",
    "serviceAccountName",
    "serviceAccount",
    "imagePullSecrets",
    "priorityClassName",
    "schedulerName",
    "hostNetwork",
    "hostIPC",
    "hostPID",
    "securityContext",
    "initContainers",
    "runtimeClassName",
    "schedulingGates",
    "topologySpreadConstraints",
    "dnsPolicy",
    "dnsConfig",
    "setHostnameAsFQDN",
    "automountServiceAccountToken",
    "enableServiceLinks",
    "shareProcessNamespace",
];

/// Pods of one kind.
struct Pods<'a> {
    count: u32,
    spec: &'a Value,
}

pub fn is_object(document: &Value) -> bool {
    document.get("apiVersion").is_some() && document.get("kind").is_some()
}

pub fn read(documents: &[Value], names: Names) -> Result<JobRequest, ImportError> {
    let mut asked = JobRequest::new(JobKind::Kubernetes);
    let lists = documents.iter().flat_map(|document| match document.get("items").and_then(Value::as_array) {
        Some(items) => items.iter().collect::<Vec<_>>(),
        None => vec![document],
    });
    let (jobs, others): (Vec<&Value>, Vec<&Value>) = lists
        .filter(|object| !object.is_null())
        .partition(|object| ["Job", "JobSet", "PyTorchJob", "Pod"].contains(&word(object, "kind")));
    for object in others {
        let kind = word(object, "kind");
        if FREE_OBJECTS.contains(&kind) {
            asked.note_without_effect(kind, "...");
        } else {
            asked.leave_unread("kind", kind);
        }
    }
    let [job] = jobs.as_slice() else {
        let name = |job: &&Value| {
            format!("{} {}", word(job, "kind"), job.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("-"))
        };
        return Err(if jobs.is_empty() {
            ImportError::NoGpu
        } else {
            ImportError::Several(jobs.iter().map(name).collect())
        });
    };
    asked.name = job.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned);
    asked.understand("kind", word(job, "kind"));
    let mut machines: Option<(u32, Vec<Choice>)> = None;
    for pods in pods_of(job, &mut asked)? {
        let choices = choices(pods.spec, &mut asked, names)?;
        if choices.iter().all(|choice| choice.gpus.is_none()) {
            asked.note_without_effect("pods without GPUs", pods.count);
            continue;
        }
        machines = match machines {
            None => Some((pods.count, choices)),
            Some((count, same)) if same == choices => {
                let more = count
                    .checked_add(pods.count)
                    .ok_or_else(|| invalid("replicas", "more pods than can be counted"))?;
                Some((more, same))
            }
            Some(_) => {
                return Err(invalid(
                    "resources",
                    "pods ask for two kinds of machines, which have to be priced one by one",
                ));
            }
        };
    }
    let (count, choices) = machines.ok_or(ImportError::NoGpu)?;
    asked.nodes = Some(count..=count);
    asked.assumed.push(JobAssumption::MachinePerPod);
    if choices.iter().all(|choice| !choice.is_spot) {
        asked.assumed.push(JobAssumption::NoSpotNodes);
    }
    asked.choices = choices;
    Ok(asked)
}

fn pods_of<'a>(job: &'a Value, asked: &mut JobRequest) -> Result<Vec<Pods<'a>>, ImportError> {
    let empty = &Value::Null;
    let spec = job.get("spec").unwrap_or(empty);
    let of_job = |spec: &'a Value, times: u32, asked: &mut JobRequest| -> Result<Pods<'a>, ImportError> {
        let at_once = count(spec, "parallelism")?;
        let completions = count(spec, "completions")?;
        if completions > at_once {
            asked.assumed.push(JobAssumption::PodsAtATime { parallelism: at_once, completions });
        }
        asked.hours = deadline(spec)?.or(asked.hours);
        let count =
            times.checked_mul(at_once).ok_or_else(|| invalid("replicas", format!("{times} x {at_once} pods")))?;
        Ok(Pods { count, spec: spec.pointer("/template/spec").unwrap_or(empty) })
    };
    match word(job, "kind") {
        "Job" => Ok(vec![of_job(spec, 1, asked)?]),
        "JobSet" => {
            let jobs = spec.get("replicatedJobs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            jobs.iter()
                .map(|one| of_job(one.pointer("/template/spec").unwrap_or(empty), count(one, "replicas")?, asked))
                .collect()
        }
        "PyTorchJob" => {
            asked.hours = spec.get("runPolicy").map(deadline).transpose()?.flatten();
            let replicas = spec.get("pytorchReplicaSpecs").and_then(Value::as_object).into_iter().flat_map(Map::values);
            replicas
                .map(|one| {
                    Ok(Pods { count: count(one, "replicas")?, spec: one.pointer("/template/spec").unwrap_or(empty) })
                })
                .collect()
        }
        _ => {
            asked.hours = deadline(spec)?;
            Ok(vec![Pods { count: 1, spec }])
        }
    }
}

/// A count that is 1 where it is not given.
fn count(object: &Value, key: &str) -> Result<u32, ImportError> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(1),
        Some(value) => value
            .as_u64()
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| *number > 0 && *number < 1_000_000)
            .ok_or_else(|| invalid(key, format!("`{value}` is not a number of pods"))),
    }
}

fn deadline(spec: &Value) -> Result<Option<Hours>, ImportError> {
    let key = "activeDeadlineSeconds";
    let Some(value) = spec.get(key).filter(|value| !value.is_null()) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| *seconds > 0.0);
    seconds
        .map(|seconds| Some(Hours(seconds / 3600.0)))
        .ok_or_else(|| invalid(key, format!("`{value}` is not a number of seconds")))
}

/// A value as it is written: `true` and `8` without quotes are texts as well.
fn scalar_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Machines that a pod can run on: its resources, narrowed by labels; each term of a required affinity is a choice of its own.
fn choices(pod: &Value, asked: &mut JobRequest, names: Names) -> Result<Vec<Choice>, ImportError> {
    let mut choice = Choice::default();
    let mut sum = Resources::default();
    for container in pod.get("containers").and_then(Value::as_array).into_iter().flatten() {
        sum.add(container, asked)?;
        let words: Vec<String> = ["command", "args"]
            .into_iter()
            .filter_map(|key| container.get(key)?.as_array())
            .flatten()
            .map(scalar_text)
            .collect();
        let command =
            shlex::try_join(words.iter().map(String::as_str)).map_err(|error| invalid("command", error.to_string()))?;
        command::read(&command, asked, names);
    }
    choice.gpus = (sum.gpus > 0).then_some(Gpus::PerMachine(sum.gpus));
    choice.vcpus = (sum.cpus > 0.0).then_some(Need::AtLeast(sum.cpus));
    choice.memory = (sum.memory_gib > 0.0).then_some(Need::AtLeast(sum.memory_gib));
    for (key, value) in pod.as_object().into_iter().flatten() {
        match key.as_str() {
            "containers" | "affinity" => {}
            "nodeSelector" => {
                for (label, value) in value.as_object().into_iter().flatten() {
                    narrow(label, &scalar_text(value), &mut choice, asked, names);
                }
            }
            known if POD_KEYS_WITHOUT_EFFECT.contains(&known) => asked.note_without_effect(known, "..."),
            _ => asked.leave_unread(key, "..."),
        }
    }
    affinity(pod, &choice, asked, names)
}

/// What the containers of a pod ask for together.
#[derive(Default)]
struct Resources {
    gpus: u32,
    cpus: f64,
    memory_gib: f64,
}

impl Resources {
    /// Adds what a container asks for: requests, or limits where it requests nothing.
    fn add(&mut self, container: &Value, asked: &mut JobRequest) -> Result<(), ImportError> {
        let mut all = Map::new();
        for part in ["/resources/limits", "/resources/requests"] {
            all.extend(container.pointer(part).and_then(Value::as_object).cloned().unwrap_or_default());
        }
        for (key, value) in all {
            let text = scalar_text(&value);
            let refused = || invalid(&key, format!("`{text}` is not a valid Kubernetes quantity; try 8 or 64Gi"));
            let amount = quantity(&text).ok_or_else(refused)?;
            match key.as_str() {
                "nvidia.com/gpu" | "amd.com/gpu" if amount.fract() == 0.0 && amount < 1e6 => {
                    let sum = self.gpus.checked_add(amount as u32);
                    self.gpus = sum.ok_or_else(|| invalid(&key, "more GPUs than can be counted"))?;
                }
                "cpu" => self.cpus += amount,
                "memory" => self.memory_gib += amount / 1024.0_f64.powi(3),
                "ephemeral-storage" | "vpc.amazonaws.com/efa" | "hugepages-2Mi" => {
                    asked.note_without_effect(&key, text);
                    continue;
                }
                _ => {
                    asked.leave_unread(&key, text);
                    continue;
                }
            }
            asked.understand(&key, text);
        }
        Ok(())
    }
}

/// `500m`, `64Gi`, `2e3` (Kubernetes, "Resource Management": quantities).
fn quantity(text: &str) -> Option<f64> {
    let suffixes = [
        ("Ki", 1024.0),
        ("Mi", 1024.0_f64.powi(2)),
        ("Gi", 1024.0_f64.powi(3)),
        ("Ti", 1024.0_f64.powi(4)),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
    ];
    let (digits, scale) =
        suffixes.iter().find_map(|(end, scale)| Some((text.strip_suffix(end)?, *scale))).unwrap_or((text, 1.0));
    digits.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0).map(|number| number * scale)
}

/// More kinds of machines than these cannot be compared by a person, and every requirement and preference multiplies them.
const MOST_CHOICES: usize = 256;

/// Kinds of machines, each once.
#[derive(Default)]
struct Choices(Vec<Choice>);

impl Choices {
    fn add(&mut self, choice: Choice) -> Result<(), ImportError> {
        if self.0.contains(&choice) {
            return Ok(());
        }
        if self.0.len() == MOST_CHOICES {
            let detail = format!(
                "its terms and preferences combine to more than {MOST_CHOICES} kinds of machines; keep those that matter"
            );
            return Err(invalid("affinity", detail));
        }
        self.0.push(choice);
        Ok(())
    }
}

/// The choice narrowed by the terms of a required affinity, any of which will do, and by its preferences.
fn affinity(pod: &Value, choice: &Choice, asked: &mut JobRequest, names: Names) -> Result<Vec<Choice>, ImportError> {
    let required = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let preferred = "/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";
    for other in ["/affinity/podAffinity", "/affinity/podAntiAffinity"] {
        if pod.pointer(other).is_some() {
            asked.note_without_effect(other.trim_start_matches("/affinity/"), "...");
        }
    }
    let list = |pointer: &str| pod.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let mut choices = Choices::default();
    for term in list(required) {
        for narrowed in term_choices(term, choice, asked, names)? {
            choices.add(narrowed)?;
        }
    }
    if choices.0.is_empty() {
        choices.add(choice.clone())?;
    }
    // A preference is met where it can be, and the job runs without it too.
    for preference in list(preferred).filter_map(|one| one.get("preference")) {
        for one in choices.0.clone() {
            for narrowed in term_choices(preference, &one, asked, names)? {
                choices.add(narrowed)?;
            }
        }
    }
    Ok(choices.0)
}

/// A term holds where all of its requirements do; of the values of one any will do.
fn term_choices(
    term: &Value,
    choice: &Choice,
    asked: &mut JobRequest,
    names: Names,
) -> Result<Vec<Choice>, ImportError> {
    let mut choices = vec![choice.clone()];
    for requirement in term.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let key = word(requirement, "key");
        let values: Vec<String> =
            requirement.get("values").and_then(Value::as_array).into_iter().flatten().map(scalar_text).collect();
        if word(requirement, "operator") != "In" || values.is_empty() {
            asked.leave_unread(key, word(requirement, "operator"));
            continue;
        }
        let mut narrowed = Choices::default();
        for one in &choices {
            for value in &values {
                let mut one = one.clone();
                narrow(key, value, &mut one, asked, names);
                narrowed.add(one)?;
            }
        }
        choices = narrowed.0;
    }
    Ok(choices)
}

fn word<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;
    use gpuplan_hardware::Hardware;
    use gpuplan_workload::Models;

    fn asked(text: &str) -> Result<JobRequest, ImportError> {
        let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
        read(&yaml::documents(text).unwrap(), Names { hardware: &hardware, models: &models })
    }

    const POD: &str = "
      containers:
        - command: [python, train.py, --bf16]
          resources: {requests: {cpu: 90, memory: 900Gi}, limits: {nvidia.com/gpu: 8, rdma/hca: 1}}
      nodeSelector: {cloud.google.com/gke-accelerator: nvidia-h100-80gb, team: vision}
      affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
        {matchExpressions: [{key: cloud.google.com/gke-spot, operator: In, values: ['true']}, {key: topology.kubernetes.io/region, operator: In, values: [us-east4, us-west1]}]}]}}}
";

    #[test]
    fn a_pod_says_what_its_machine_must_be() {
        let job = format!(
            "apiVersion: batch/v1\nkind: Job\nspec:\n  parallelism: 4\n  completions: 4\n  activeDeadlineSeconds: 7200\n  template:\n    spec:{POD}"
        );
        let asked = asked(&job).unwrap();
        assert_eq!((asked.nodes.clone(), asked.hours, asked.choices.len()), (Some(4..=4), Some(Hours(2.0)), 2));
        let choice = &asked.choices[1];
        assert_eq!(
            (choice.gpus, choice.vcpus, choice.memory),
            (Some(Gpus::PerMachine(8)), Some(Need::AtLeast(90.0)), Some(Need::AtLeast(900.0)))
        );
        assert_eq!(
            (choice.is_spot, choice.region.as_deref(), choice.cloud.as_ref().unwrap().as_str()),
            (true, Some("us-west1"), "gcp")
        );
        let unread: Vec<&str> = asked.unread.iter().map(|one| one.key.as_str()).collect();
        assert_eq!((unread, asked.workload.training.precision.as_deref()), (vec!["rdma/hca", "team"], Some("bf16")));
    }

    #[test]
    fn a_command_is_its_words_or_the_script_of_a_shell() {
        let precision = |command: &str| {
            let limits = "resources: {limits: {nvidia.com/gpu: 8}}";
            let pod = format!("apiVersion: v1\nkind: Pod\nspec: {{containers: [{{{limits}, {command}}}]}}");
            asked(&pod).map(|asked| asked.workload.training.precision)
        };
        for command in [
            "command: [python, train.py, --run_name, \"it's\", --bf16]",
            "command: [torchrun, train.py], args: [--max_steps, 5, --bf16, true]",
            "command: [bash, -c], args: ['cd x && torchrun train.py --bf16 | tee log']",
            "command: [/bin/sh, -c, --], args: ['torchrun train.py --bf16']",
            "command: [bash, -c, \"set -e\\npython train.py \\\\\\n --bf16\\n\"]",
        ] {
            assert_eq!(precision(command).unwrap().as_deref(), Some("bf16"), "{command}");
        }
        assert!(matches!(precision("command: [\"a\\0b\"]"), Err(ImportError::Invalid { key, .. }) if key == "command"));
    }

    #[test]
    fn sets_and_training_jobs_add_up_their_pods() {
        let inner = POD.replace('\n', "\n        ");
        let set = format!(
            "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nspec:\n  replicatedJobs:\n    - replicas: 2\n      template:\n        spec:\n          parallelism: 3\n          template:\n            spec:{inner}"
        );
        assert_eq!(asked(&set).unwrap().nodes, Some(6..=6));
        let worker = |name: &str, count: u32| {
            format!(
                "    {name}:\n      replicas: {count}\n      template:\n        spec:{}",
                POD.replace('\n', "\n    ")
            )
        };
        let job = format!(
            "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec:\n  pytorchReplicaSpecs:\n{}\n{}",
            worker("Master", 1),
            worker("Worker", 3)
        );
        assert_eq!(asked(&job).unwrap().nodes, Some(4..=4));
    }

    fn preferring(preferences: &str) -> Result<JobRequest, ImportError> {
        asked(&format!(
            "apiVersion: v1\nkind: Pod\nspec: {{containers: [{{resources: {{limits: {{nvidia.com/gpu: 8}}}}}}], \
             affinity: {{nodeAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: [{preferences}]}}}}}}"
        ))
    }

    #[test]
    fn preferences_are_combined_up_to_a_bound() {
        let prefer = |key: &str, values: &str| {
            format!(
                "{{weight: 1, preference: {{matchExpressions: [{{key: {key}, operator: In, values: [{values}]}}]}}}}"
            )
        };
        let spot = prefer("cloud.google.com/gke-spot", "'true'");
        let region = prefer("topology.kubernetes.io/region", "us-east4");
        let found = preferring(&format!("{spot}, {region}")).unwrap().choices;
        let described: Vec<(bool, Option<&str>)> =
            found.iter().map(|choice| (choice.is_spot, choice.region.as_deref())).collect();
        assert_eq!(described, [(false, None), (true, None), (false, Some("us-east4")), (true, Some("us-east4"))]);
        // Many that say nothing of machines, or each another place, do not multiply.
        let unknown: Vec<String> = (0..40).map(|at| prefer(&format!("team{at}"), "vision")).collect();
        assert_eq!(preferring(&unknown.join(", ")).unwrap().choices.len(), 1);
        let zones: Vec<String> = (0..40).map(|at| prefer("topology.kubernetes.io/zone", &format!("z{at}"))).collect();
        assert_eq!(preferring(&zones.join(", ")).unwrap().choices.len(), 41);
        let list = |name: &str| (0..20).map(|at| format!("{name}{at}")).collect::<Vec<_>>().join(", ");
        let keys = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];
        let refused = preferring(&keys.map(|key| prefer(key, &list("a"))).join(", ")).unwrap_err().to_string();
        assert!(refused.starts_with("`affinity`: ") && refused.contains("more than 256 kinds"), "{refused}");
    }

    #[test]
    fn what_cannot_be_priced_is_refused() {
        assert_eq!(asked("apiVersion: v1\nkind: Pod\nspec: {containers: [{}]}").unwrap_err(), ImportError::NoGpu);
        assert_eq!(asked("apiVersion: v1\nkind: Service").unwrap_err(), ImportError::NoGpu);
        let two = "apiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: Pod\n";
        assert!(matches!(asked(two), Err(ImportError::Several(names)) if names.len() == 2));
        for limit in ["activeDeadlineSeconds: soon", "activeDeadlineSeconds: -1"] {
            let refused = asked(&format!("apiVersion: v1\nkind: Pod\nspec: {{{limit}, containers: []}}"))
                .unwrap_err()
                .to_string();
            assert!(refused.starts_with("`activeDeadlineSeconds`: "), "{refused}");
        }
        let all = "apiVersion: batch/v1\nkind: JobSet\nspec: {replicatedJobs: [{replicas: 999999, template: {spec: {parallelism: 999999}}}]}";
        assert!(asked(all).unwrap_err().to_string().contains("999999 x 999999"));
        let bad = "apiVersion: v1\nkind: Pod\nspec: {containers: [{resources: {limits: {nvidia.com/gpu: many}}}]}";
        assert!(matches!(asked(bad), Err(ImportError::Invalid { .. })));
        assert_eq!(
            (quantity("500m"), quantity("64Gi"), quantity("1e3")),
            (Some(0.5), Some(64.0 * 1024.0_f64.powi(3)), Some(1000.0))
        );
    }
}
