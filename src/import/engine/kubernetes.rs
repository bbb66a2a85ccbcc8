//! Objects of Kubernetes that have pods, by the resources, node labels and affinity of these.

use serde_json::{Map, Value};

use crate::engine::labels::narrow;
use crate::error::invalid;
use crate::yaml::text;
use crate::{Choice, GpuModels, Gpus, ImportError, JobKind, JobRequest, Names, Need, chips, command};
use gpuplan_workload::assumption::JobAssumption;
use values::{GPU_RESOURCES, has_open_count, is_placeholder, word};

mod pods;
mod tests;
mod values;

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

pub fn is_object(document: &Value) -> bool {
    document.get("apiVersion").is_some() && document.get("kind").is_some()
}

pub fn read(documents: &[Value], names: Names) -> Result<JobRequest, ImportError> {
    let mut asked = JobRequest::new(JobKind::Kubernetes);
    let lists = documents.iter().flat_map(|document| match document.get("items").and_then(Value::as_array) {
        Some(items) => items.iter().collect::<Vec<_>>(),
        None => vec![document],
    });
    let (jobs, others): (Vec<&Value>, Vec<&Value>) =
        lists.filter(|object| !object.is_null()).partition(|object| pods::is_read(object));
    let strange = note_others(&others, &mut asked);
    // Of a kind that nobody knows its one container with GPUs says what it asks for.
    let alone = || pods::of_production_stack(&others).or_else(|| pods::with_one_container(&others));
    let alone = if jobs.is_empty() { alone() } else { None };
    let mut jobs: Vec<&Value> = jobs.into_iter().chain(&alone).collect();
    // A head of a cluster or a page beside the work asks for no GPUs.
    if jobs.len() > 1 && jobs.iter().filter(|job| pods::asks_for_gpus(job)).count() == 1 {
        jobs.retain(|job| pods::asks_for_gpus(job));
    }
    let [job] = jobs.as_slice() else {
        let name = |job: &&Value| {
            format!("{} {}", word(job, "kind"), job.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("-"))
        };
        return Err(match strange {
            Some(kind) if jobs.is_empty() => ImportError::UnreadKind(kind),
            _ if jobs.is_empty() => ImportError::NoGpu,
            _ => ImportError::Several(jobs.iter().map(name).collect()),
        });
    };
    // A ConfigMap beside it may hold the configuration that its command names, wherever that is mounted.
    let files = |path: &str| held(&others, path).or_else(|| (names.files)(path));
    let names = Names { files: &files, ..names };
    asked.name = job.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned);
    asked.understand("kind", word(job, "kind"));
    // A TrainJob names the model that it starts from, and a runtime whose name says what it does.
    let text_at = |pointer: &str| job.pointer(pointer).and_then(Value::as_str);
    command::read_names(
        text_at("/spec/runtimeRef/name"),
        text_at("/spec/initializer/model/storageUri"),
        &mut asked,
        names,
    );
    // A RayJob's pods start Ray alone.
    if let Some(entrypoint) = text_at("/spec/entrypoint") {
        command::read(entrypoint, &[], &mut asked, names);
    }
    let machines = machines_of(job, &mut asked, names)?;
    if word(job, "kind") == "InferenceService" && asked.workload.serving.is_empty() && asked.not_planned.is_none() {
        asked.not_planned = Some(command::OTHER_ENGINE.to_owned());
    }
    let Some((count, choices)) = machines else {
        return open_machines(asked);
    };
    // One is priced of those that a tool has yet to count, and no number is the job's own.
    if has_open_count(&asked) {
        asked.assumed.push(JobAssumption::OneMachine);
    } else {
        asked.nodes = Some(count..=count);
    }
    asked.assumed.push(JobAssumption::MachinePerPod);
    if choices.iter().all(|choice| !choice.is_spot) {
        asked.assumed.push(JobAssumption::NoSpotNodes);
    }
    asked.choices = choices;
    Ok(asked)
}

/// How many machines the pods with GPUs ask for, and what each may be; `None`: none of them asks for a GPU.
fn machines_of(job: &Value, asked: &mut JobRequest, names: Names) -> Result<Option<(u32, Vec<Choice>)>, ImportError> {
    let mut machines: Option<(u32, Vec<Choice>)> = None;
    for pods in pods::pods(job, asked)? {
        let choices = choices(pods.spec, asked, names)?;
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
    Ok(machines)
}

/// A file that a ConfigMap among the objects holds.
fn held(objects: &[&Value], path: &str) -> Option<String> {
    let file = path.rsplit('/').next().unwrap_or(path);
    let mut maps = objects.iter().filter(|object| word(object, "kind") == "ConfigMap");
    maps.find_map(|map| map.get("data")?.get(file)?.as_str()).map(str::to_owned)
}

/// Notes the objects that are no jobs; the first kind among them that nobody knows.
fn note_others(others: &[&Value], asked: &mut JobRequest) -> Option<String> {
    let mut strange = None;
    for kind in others.iter().map(|object| word(object, "kind")) {
        if FREE_OBJECTS.contains(&kind) {
            asked.note_without_effect(kind, "...");
        } else {
            asked.leave_unread("kind", kind);
            strange.get_or_insert_with(|| kind.to_owned());
        }
    }
    strange
}

/// A job of which no pod counts its GPUs: they are those of its launcher, or of a placeholder that is not filled in.
fn open_machines(mut asked: JobRequest) -> Result<JobRequest, ImportError> {
    asked.take_machines_of_launcher();
    let is_open = |key: &str| GPU_RESOURCES.contains(&key) || key == "resourceClaims";
    let has_placeholder = asked.unread.iter().any(|one| is_open(&one.key));
    if asked.choices.is_empty() && has_placeholder {
        asked.choices.push(Choice::default());
    }
    if asked.choices.is_empty() && asked.model_name.is_none() {
        return Err(ImportError::NoGpu);
    }
    if !has_open_count(&asked) {
        asked.nodes.get_or_insert(1..=1);
    }
    asked.assumed.push(JobAssumption::MachinePerPod);
    asked.assumed.push(JobAssumption::NoSpotNodes);
    Ok(asked)
}

/// What plugins call slices and shares of a card (NVIDIA, Volcano, Alibaba, Tencent), and chips that the catalog has no machines of.
fn is_other_device(resource: &str) -> bool {
    const BEGINNINGS: [&str; 11] = [
        "nvidia.com/mig-",
        "nvidia.com/gpu.",
        "nvidia.com/vgpu",
        "google.com/tpu",
        "aws.amazon.com/neuron",
        "habana.ai/gaudi",
        "huawei.com/Ascend",
        "gpu.intel.com/",
        "volcano.sh/vgpu",
        "aliyun.com/gpu",
        "tencent.com/vcuda",
    ];
    BEGINNINGS.iter().any(|beginning| resource.starts_with(beginning))
}

/// Machines that a pod can run on: its resources, narrowed by labels; each term of a required affinity is a choice of its own.
fn choices(pod: &Value, asked: &mut JobRequest, names: Names) -> Result<Vec<Choice>, ImportError> {
    let mut choice = Choice::default();
    let mut sum = Resources::default();
    // A TrainJob has the container's keys itself.
    let own = pod.get("resourcesPerNode").map(|_| pod);
    // A predictor of KServe has a runtime's container by its model.
    let model = pod.get("model").filter(|model| model.get("modelFormat").is_some());
    for container in pod.get("containers").and_then(Value::as_array).into_iter().flatten().chain(own).chain(model) {
        sum.add(container, asked, names)?;
        let words = words(container);
        if words.iter().any(|word| word.contains('\0')) {
            return Err(invalid("command", "it has a zero byte"));
        }
        command::read_words(words, &variables(container), asked, names);
    }
    choice.gpus = (sum.gpus > 0).then_some(Gpus::PerMachine(sum.gpus));
    choice.chips = sum.chips;
    choice.vcpus = (sum.cpus > 0.0).then_some(Need::AtLeast(sum.cpus));
    choice.memory = (sum.memory_gib > 0.0).then_some(Need::AtLeast(sum.memory_gib));
    for (key, value) in pod.as_object().into_iter().flatten() {
        match key.as_str() {
            "containers" | "affinity" => {}
            "model" | "minReplicas" if model.is_some() => {}
            "numNodes" | "resourcesPerNode" | "command" | "args" | "env" if own.is_some() => {}
            "nodeSelector" => {
                for (label, value) in value.as_object().into_iter().flatten() {
                    narrow(label, &text(value), &mut choice, asked, names);
                }
            }
            known if POD_KEYS_WITHOUT_EFFECT.contains(&known) => asked.note_without_effect(known, "..."),
            _ => asked.leave_unread(key, "..."),
        }
    }
    affinity(pod, &choice, asked, names)
}

/// What a container starts: its image where it has no command, and `$(NAME)` of its own variables filled in.
fn words(container: &Value) -> Vec<String> {
    let own = variables(container);
    let filled = |word: String| own.iter().fold(word, |word, (name, value)| word.replace(&format!("$({name})"), value));
    let list = |key: &str| container.get(key).and_then(Value::as_array).into_iter().flatten().map(text);
    let image = container.get("image").filter(|_| container.get("command").is_none()).map(text);
    image.into_iter().chain(list("command")).chain(list("args")).map(filled).collect()
}

/// Variables that a container states by value.
fn variables(container: &Value) -> Vec<(String, String)> {
    let all = container.get("env").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|one| Some((one.get("name")?.as_str()?.to_owned(), text(one.get("value")?))))
        .filter(|(_, value)| !is_placeholder(value))
        .collect()
}

/// What the containers of a pod ask for together.
#[derive(Default)]
struct Resources {
    gpus: u32,
    /// Cards that a cluster names as a resource of their own.
    chips: Option<GpuModels>,
    cpus: f64,
    memory_gib: f64,
}

impl Resources {
    /// Adds what a container asks for: requests, or limits where it requests nothing.
    fn add(&mut self, container: &Value, asked: &mut JobRequest, names: Names) -> Result<(), ImportError> {
        let mut all = Map::new();
        for part in
            ["/resources/limits", "/resources/requests", "/resourcesPerNode/limits", "/resourcesPerNode/requests"]
        {
            all.extend(container.pointer(part).and_then(Value::as_object).cloned().unwrap_or_default());
        }
        for (key, value) in all.into_iter().filter(|(_, value)| !value.is_null()) {
            let shown = text(&value);
            if is_placeholder(&shown) {
                asked.leave_unread(&key, format!("{shown} (a placeholder)"));
                continue;
            }
            let refused = || invalid(&key, format!("`{shown}` is not a valid Kubernetes quantity; try 8 or 64Gi"));
            let amount = quantity(&shown).ok_or_else(refused)?;
            // `nvidia.com/a40`: clusters of several kinds of cards count each by its name.
            let card = key.strip_prefix("nvidia.com/").and_then(|name| chips::find(name, names.hardware));
            // Slices of cards and chips that are none: no whole card is taken for them.
            let card = card.or_else(|| is_other_device(&key).then(|| GpuModels { word: key.clone(), ids: Vec::new() }));
            let is_gpu = GPU_RESOURCES.contains(&key.as_str()) || card.is_some();
            self.chips = self.chips.take().or(card);
            match key.as_str() {
                _ if is_gpu && amount.fract() == 0.0 && amount < 1e6 => {
                    let sum = self.gpus.checked_add(amount as u32);
                    self.gpus = sum.ok_or_else(|| invalid(&key, "more GPUs than can be counted"))?;
                }
                "cpu" => self.cpus += amount,
                "memory" => self.memory_gib += amount / 1024.0_f64.powi(3),
                "ephemeral-storage" | "vpc.amazonaws.com/efa" | "hugepages-2Mi" => {
                    asked.note_without_effect(&key, shown);
                    continue;
                }
                _ => {
                    asked.leave_unread(&key, shown);
                    continue;
                }
            }
            asked.understand(&key, shown);
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
            requirement.get("values").and_then(Value::as_array).into_iter().flatten().map(text).collect();
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
