//! Jobs of services that say machines in a few keys: Vertex AI (CustomJobSpec), Azure Machine Learning (command job), SageMaker
//! (CreateTrainingJob), Determined (experiment configuration), MosaicML (run), Anyscale (job), Ray (cluster), RunPod (pod), Baseten
//! (Truss), Cog, which says only that it has a GPU.

use serde_json::Value;

use super::rented::{self, Rented};
use crate::yaml::text;
use crate::{Choice, ImportError, JobKind, JobRequest, Names, command};

/// Where a service keeps what. Keys are compared by their letters alone, so that `machineType` is `machine_type` as well.
struct Service {
    /// Keys that only its files have.
    marks: &'static [&'static [&'static str]],
    /// A list of machines of several kinds, each with the keys below.
    pools: &'static [&'static str],
    machine: &'static [&'static [&'static str]],
    card: &'static [&'static [&'static str]],
    cards: &'static [&'static [&'static str]],
    machines: &'static [&'static [&'static str]],
    command: &'static [&'static [&'static str]],
    environment: &'static [&'static str],
    cloud: Option<&'static str>,
    /// Its cards are counted on all machines together.
    is_together: bool,
}

const NONE: Service = Service {
    marks: &[],
    pools: &[],
    machine: &[],
    card: &[],
    cards: &[],
    machines: &[],
    command: &[],
    environment: &[],
    cloud: None,
    is_together: false,
};

const SERVICES: [Service; 12] = [
    Service { pools: &["workerpoolspecs"], ..VERTEX },
    Service { pools: &["jobspec", "workerpoolspecs"], ..VERTEX },
    Service { pools: &["spec", "workerpoolspecs"], ..VERTEX },
    Service {
        marks: &[&["command"], &["compute"], &["environment"]],
        machine: &[&["resources", "instancetype"]],
        cards: &[&["distribution", "processcountperinstance"]],
        machines: &[&["resources", "instancecount"]],
        command: &[&["command"]],
        environment: &["environmentvariables"],
        cloud: Some("azure"),
        ..NONE
    },
    Service {
        marks: &[&["resourceconfig", "instancetype"]],
        machine: &[&["resourceconfig", "instancetype"]],
        machines: &[&["resourceconfig", "instancecount"]],
        environment: &["environment"],
        cloud: Some("aws"),
        ..NONE
    },
    Service {
        marks: &[&["resources", "slotspertrial"]],
        cards: &[&["resources", "slotspertrial"]],
        command: &[&["entrypoint"]],
        is_together: true,
        ..NONE
    },
    Service {
        marks: &[&["compute", "gpus"], &["command"]],
        card: &[&["compute", "gputype"]],
        cards: &[&["compute", "gpus"]],
        command: &[&["command"]],
        environment: &["envvariables"],
        is_together: true,
        ..NONE
    },
    Service {
        marks: &[&["computeconfig"], &["entrypoint"]],
        pools: &["computeconfig", "workernodes"],
        machine: &[&["instancetype"]],
        machines: &[&["maxnodes"], &["minnodes"]],
        command: &[&["entrypoint"]],
        environment: &["envvars"],
        ..NONE
    },
    Service {
        marks: &[&["availablenodetypes"], &["clustername"]],
        pools: &["availablenodetypes"],
        machine: &[
            &["nodeconfig", "instancetype"],
            &["nodeconfig", "machinetype"],
            &["nodeconfig", "azurearmparameters", "vmsize"],
        ],
        machines: &[&["maxworkers"], &["minworkers"]],
        ..NONE
    },
    Service { marks: &[&["build", "gpu"], &["predict"]], ..NONE },
    Service {
        marks: &[&["gpucount"], &["imagename"]],
        card: &[&["gputypeid"], &["gputypeids"], &["gputype"]],
        cards: &[&["gpucount"]],
        cloud: Some("runpod"),
        ..NONE
    },
    Service { marks: &[&["resources", "accelerator"], &["modelname"]], card: &[&["resources", "accelerator"]], ..NONE },
];

const VERTEX: Service = Service {
    machine: &[&["machinespec", "machinetype"]],
    card: &[&["machinespec", "acceleratortype"]],
    cards: &[&["machinespec", "acceleratorcount"]],
    machines: &[&["replicacount"]],
    command: &[&["containerspec", "command"], &["containerspec", "args"]],
    cloud: Some("gcp"),
    ..NONE
};

/// A job of a service.
pub struct ServiceJob<'a> {
    service: &'static Service,
    document: &'a Value,
}

/// `None`: it is of none of them.
pub fn service(document: &Value) -> Option<ServiceJob<'_>> {
    let is_of = |service: &&Service| {
        let has = |path: &&[&str]| at(document, path).is_some();
        let has_pools = service.marks.is_empty() && at(document, service.pools).is_some();
        has_pools || (!service.marks.is_empty() && service.marks.iter().all(has))
    };
    SERVICES.iter().find(is_of).map(|service| ServiceJob { service, document })
}

impl ServiceJob<'_> {
    pub fn read(&self, names: Names) -> Result<JobRequest, ImportError> {
        let Self { service, document } = self;
        let mut asked = JobRequest::new(JobKind::Script);
        asked.name =
            ["name", "displayname", "trainingjobname"].iter().find_map(|key| Some(text(at(document, &[key])?)));
        let pools: Vec<&Value> = match at(document, service.pools).filter(|_| !service.pools.is_empty()) {
            Some(Value::Array(pools)) => pools.iter().collect(),
            // Ray's clusters name their kinds of machines.
            Some(Value::Object(kinds)) if !service.marks.is_empty() => kinds.values().collect(),
            Some(pool) => vec![pool],
            None => vec![*document],
        };
        let machines: Vec<Rented> = pools.iter().map(|pool| self.machines(pool)).collect();
        let is_counted = rented::ask(&machines, &mut asked, names)?;
        // The workspace has a cluster under this name, and says there what it is made of.
        if let (false, Some(compute)) =
            (is_counted, at(document, &["compute"]).filter(|_| service.cloud == Some("azure")))
        {
            asked.leave_unread("compute", format!("{} (what it has is said in the workspace)", text(compute)));
            if machines.iter().any(|one| one.cards.is_some() || one.machines.is_some()) && asked.choices.is_empty() {
                asked.choices.push(Choice::default());
            }
        }
        let first = pools.iter().map(|pool| self.command(pool)).find(|words| !words.is_empty()).unwrap_or_default();
        command::read(&first, &self.variables(), &mut asked, names);
        // Determined hands these over to the program.
        let own = document.get("hyperparameters").filter(|own| service.is_together && own.is_object());
        if let Some(own) = own {
            command::read_document(own, None, asked.program.clone().as_deref().unwrap_or_default(), &mut asked, names);
        }
        asked.take_machines_of_launcher();
        if asked.choices.is_empty() && at(document, &["build", "gpu"]) == Some(&Value::Bool(true)) {
            asked.understand("build.gpu", true);
            asked.choices.push(Choice::default());
        }
        if asked.choices.is_empty() && (service.marks.is_empty() || !service.pools.is_empty()) {
            return Err(ImportError::NoGpu);
        }
        Ok(asked)
    }

    fn machines(&self, pool: &Value) -> Rented {
        let Self { service, .. } = self;
        let find = |paths: &[&[&str]]| paths.iter().find_map(|path| at(pool, path)).filter(|value| !value.is_null());
        // Of a list of cards any will do; the first is taken.
        let word = |paths: &[&[&str]]| find(paths).map(|value| text(value.get(0).unwrap_or(value)));
        Rented {
            machine: word(service.machine),
            card: word(service.card),
            cards: word(service.cards),
            machines: word(service.machines),
            cloud: service.cloud,
            is_together: service.is_together,
        }
    }

    /// Its command as a shell would be given it, with the values of its inputs.
    fn command(&self, pool: &Value) -> String {
        let mut all = Vec::new();
        for value in self.service.command.iter().filter_map(|path| at(pool, path).or_else(|| at(self.document, path))) {
            match value {
                Value::Array(words) => all.extend(words.iter().map(|word| command::quote(&text(word)))),
                other => all.push(text(other)),
            }
        }
        let mut line = all.join(" ");
        // Arguments alone are those of the program that its image starts.
        if line.trim_start_matches('"').starts_with('-') {
            line = format!("python3 program.py {line}");
        }
        for (name, value) in self.document.get("inputs").and_then(Value::as_object).into_iter().flatten() {
            if !value.is_object() {
                line = line.replace(&format!("${{{{inputs.{name}}}}}"), &text(value));
            }
        }
        // What is filled in when it runs stays unknown.
        line.replace("${{", "$").replace("}}", "")
    }

    fn variables(&self) -> Vec<(String, String)> {
        let own = at(self.document, self.service.environment).filter(|_| !self.service.environment.is_empty());
        let own = own.and_then(Value::as_object).into_iter().flatten();
        own.map(|(name, value)| (name.clone(), text(value))).collect()
    }
}

/// A value by the letters of its keys.
fn at<'a>(document: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(document, |value, wanted| {
        let map = value.as_object()?;
        map.iter().find(|(key, _)| letters(key) == *wanted).map(|(_, value)| value)
    })
}

fn letters(key: &str) -> String {
    key.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gpus, yaml};
    use gpuplan_hardware::Hardware;
    use gpuplan_workload::Models;

    fn asked(job: &str) -> Result<JobRequest, ImportError> {
        let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
        assert!(service(&yaml::documents(job).unwrap()[0]).is_some(), "{job}");
        crate::read(job, Names::new(&hardware, &models))
    }

    fn machines(job: &str) -> (Option<Gpus>, String, Option<u32>) {
        let asked = asked(job).unwrap();
        let choice = asked.choices.first().cloned().unwrap_or_default();
        let card = choice.chips.map(|chips| chips.word).or(choice.instance_type).unwrap_or_default();
        (choice.gpus, card, asked.nodes.map(|nodes| *nodes.end()))
    }

    #[test]
    fn machines_of_every_service_are_found() {
        let each = |gpus, card: &str, nodes| (Some(Gpus::PerMachine(gpus)), card.to_owned(), nodes);
        let vertex = "workerPoolSpecs:\n- machineSpec: {machineType: n1-standard-8, acceleratorType: NVIDIA_TESLA_T4, acceleratorCount: 2}\n  replicaCount: 1\n- machineSpec: {machineType: n1-standard-8, acceleratorType: NVIDIA_TESLA_T4, acceleratorCount: 2}\n  replicaCount: 3\n";
        assert_eq!(machines(vertex), each(2, "NVIDIA_TESLA_T4", Some(4)));
        let vertex = "{\"worker_pool_specs\": [{\"machine_spec\": {\"machine_type\": \"a2-highgpu-8g\"}, \"replica_count\": 2}]}";
        assert_eq!(machines(vertex), each(8, "a2-highgpu-8g", Some(2)));
        let sagemaker = "{\"TrainingJobName\": \"a\", \"ResourceConfig\": {\"InstanceType\": \"ml.p4d.24xlarge\", \"InstanceCount\": 2}}";
        assert_eq!(machines(sagemaker), each(8, "p4d.24xlarge", Some(2)));
        let azure = "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\ncommand: python train.py --epochs ${{inputs.epochs}}\ninputs: {epochs: 7}\nenvironment: e@latest\ncompute: azureml:gpu\ndistribution: {type: pytorch, process_count_per_instance: 4}\nresources: {instance_count: 2}\n";
        assert_eq!(machines(azure), each(4, "", Some(2)));
        assert_eq!(asked(azure).unwrap().workload.training.epochs, Some("7".into()));
        let together = |gpus, card: &str| (Some(Gpus::Together(gpus)), card.to_owned(), None);
        let determined = "name: a\nresources: {slots_per_trial: 16}\nsearcher: {name: single}\nentrypoint: python3 -m determined.launch.torch_distributed python train.py\n";
        assert_eq!(machines(determined), together(16, ""));
        let mosaic = "name: a\nimage: b\ncompute: {gpus: 16, gpu_type: h100_80gb, cluster: c}\ncommand: |-\n  cd x\n  composer train.py --max_steps 9\n";
        assert_eq!(machines(mosaic), together(16, "h100_80gb"));
        assert!(asked(mosaic).unwrap().workload.training.steps.is_some());
        let anyscale = "name: a\nentrypoint: python train.py\ncompute_config:\n  worker_nodes:\n  - {instance_type: g5.12xlarge, min_nodes: 2, max_nodes: 2}\n";
        assert_eq!(machines(anyscale), each(4, "g5.12xlarge", Some(2)));
        let ray = "cluster_name: a\navailable_node_types:\n  head: {node_config: {InstanceType: m5.large}, resources: {}}\n  gpu: {node_config: {InstanceType: p4d.24xlarge}, min_workers: 0, max_workers: 2}\n";
        assert_eq!(machines(ray), each(8, "p4d.24xlarge", Some(2)));
        let runpod = "{\"imageName\": \"a\", \"gpuTypeIds\": [\"NVIDIA A100 80GB PCIe\"], \"gpuCount\": 2}";
        assert_eq!(machines(runpod), each(2, "NVIDIA A100 80GB PCIe", None));
        let truss = "model_name: a\nresources: {accelerator: 'H100:2', use_gpu: true}\n";
        assert_eq!(machines(truss), each(2, "H100", None));
    }

    #[test]
    fn what_no_machine_of_the_catalog_has_is_refused_by_its_name() {
        let of = |pool: &str| asked(&format!("workerPoolSpecs:\n- {pool}\n"));
        assert_eq!(of("{machineSpec: {machineType: n1-standard-8}, replicaCount: 1}"), Err(ImportError::NoGpu));
        let two = "{machineSpec: {machineType: g2-standard-8}}\n- {machineSpec: {machineType: a2-highgpu-1g}}";
        assert!(matches!(of(two), Err(ImportError::Invalid { .. })));
        let zero = "{machineSpec: {acceleratorType: NVIDIA_L4, acceleratorCount: 1}, replicaCount: many}";
        assert!(matches!(of(zero), Err(ImportError::Invalid { .. })));
        let unknown = of("{machineSpec: {acceleratorType: NVIDIA_Z9, acceleratorCount: 2}, replicaCount: 1}").unwrap();
        assert_eq!(unknown.named(None, None), Err(ImportError::UnknownGpu { count: 2, name: "NVIDIA_Z9".to_owned() }));
    }
}
