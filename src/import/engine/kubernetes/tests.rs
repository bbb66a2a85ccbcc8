//! Tests of `kubernetes.rs`.

#![cfg(test)]

use super::*;
use crate::yaml;
use gpuplan_hardware::Hardware;
use gpuplan_units::Hours;
use gpuplan_workload::Models;

fn asked(text: &str) -> Result<JobRequest, ImportError> {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    read(&yaml::documents(text).unwrap(), Names::new(&hardware, &models))
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
        format!("    {name}:\n      replicas: {count}\n      template:\n        spec:{}", POD.replace('\n', "\n    "))
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
        format!("{{weight: 1, preference: {{matchExpressions: [{{key: {key}, operator: In, values: [{values}]}}]}}}}")
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
        let refused =
            asked(&format!("apiVersion: v1\nkind: Pod\nspec: {{{limit}, containers: []}}")).unwrap_err().to_string();
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

/// Every kind with pods, each with two machines of four GPUs.
#[test]
fn pods_of_every_kind_are_read() {
    let pod = "{spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: 4}}}]}}";
    for (kind, spec) in [
        ("Deployment", format!("replicas: 2, template: {pod}")),
        ("StatefulSet", format!("replicas: 2, template: {pod}")),
        ("CronJob", format!("jobTemplate: {{spec: {{parallelism: 2, completions: 2, template: {pod}}}}}")),
        ("Job", format!("tasks: [{{replicas: 2, name: worker, template: {pod}}}]")),
        ("TJob", format!("framework: torch, tasks: [{{replicas: 2, name: worker, template: {pod}}}]")),
        (
            "RayCluster",
            format!(
                "headGroupSpec: {{template: {{spec: {{containers: []}}}}}}, workerGroupSpecs: [{{replicas: 2, template: {pod}}}]"
            ),
        ),
        (
            "RayJob",
            format!(
                "rayClusterSpec: {{headGroupSpec: {{template: {pod}}}, workerGroupSpecs: [{{replicas: 1, template: {pod}}}]}}"
            ),
        ),
        (
            "RayService",
            format!("rayClusterConfig: {{workerGroupSpecs: [{{replicas: 1, numOfHosts: 2, template: {pod}}}]}}"),
        ),
        ("LeaderWorkerSet", format!("replicas: 1, leaderWorkerTemplate: {{size: 2, workerTemplate: {pod}}}")),
        (
            "MPIJob",
            format!(
                "mpiReplicaSpecs: {{Launcher: {{replicas: 1, template: {{spec: {{containers: []}}}}}}, Worker: {{replicas: 2, template: {pod}}}}}"
            ),
        ),
        (
            "TFJob",
            format!(
                "tfReplicaSpecs: {{Chief: {{replicas: 1, template: {pod}}}, Worker: {{replicas: 1, template: {pod}}}}}"
            ),
        ),
        ("TrainJob", "trainer: {numNodes: 2, resourcesPerNode: {limits: {nvidia.com/gpu: 4}}}".to_owned()),
        (
            "ClusterTrainingRuntime",
            format!(
                "template: {{spec: {{replicatedJobs: [{{name: node, template: {{spec: {{parallelism: 2, completions: 2, template: {pod}}}}}}}]}}}}"
            ),
        ),
    ] {
        let read = asked(&format!("apiVersion: v1\nkind: {kind}\nspec: {{{spec}}}")).unwrap();
        assert_eq!((read.nodes.clone(), read.choices[0].gpus), (Some(2..=2), Some(Gpus::PerMachine(4))), "{kind}");
    }
    let strange = asked("apiVersion: v1\nkind: Widget\n---\napiVersion: v1\nkind: Service").unwrap_err();
    assert_eq!(strange, ImportError::UnreadKind("Widget".to_owned()));
}

/// Kinds that nobody knows are read where one container alone asks for GPUs.
#[test]
fn an_unknown_kind_with_one_container_is_read() {
    let gpu = "resources: {limits: {nvidia.com/gpu: 2}}";
    let workflow = format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nspec:\n  templates:\n  - {{name: a, container: {{image: b}}}}\n  - {{name: c, container: {{image: d, {gpu}}}}}\n"
    );
    let read = asked(&workflow).unwrap();
    assert_eq!((read.nodes.clone(), read.choices[0].gpus), (Some(1..=1), Some(Gpus::PerMachine(2))));
    assert_eq!(read.unread[0].value, "Workflow");
    let service =
        format!("apiVersion: apps.nvidia.com/v1alpha1\nkind: NIMService\nspec: {{replicas: 3, image: {{}}, {gpu}}}\n");
    assert_eq!(asked(&service).unwrap().nodes, Some(3..=3));
    let two = workflow.replace("image: b", &format!("image: b, {gpu}"));
    assert_eq!(asked(&two), Err(ImportError::UnreadKind("Workflow".to_owned())));
    let model = "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nspec: {predictor: {model: {modelFormat: {name: triton}, resources: {limits: {nvidia.com/gpu: 1}}}}}\n";
    assert!(asked(model).unwrap().not_planned.is_some(), "it serves, by what is not known");
}

#[test]
fn a_placeholder_is_no_number_and_no_fault() {
    let job = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Worker: {replicas: $NODES, template: {spec: {containers: \
        [{command: [torchrun, --nproc_per_node=$GPUS, train.py, --max_steps=9], resources: {limits: {nvidia.com/gpu: $GPUS}}}]}}}}}";
    let read = asked(job).unwrap();
    let unread: Vec<&str> = read.unread.iter().map(|one| one.key.as_str()).collect();
    assert_eq!((unread, read.choices[0].gpus), (vec!["replicas", "nvidia.com/gpu", "--nproc_per_node"], None));
    assert_eq!(read.nodes, None, "a number that is not filled in is none");
    assert!(matches!(read.named(None, None), Err(ImportError::NoGpu)));
}

#[test]
fn the_entrypoint_of_a_ray_job_is_its_command() {
    let asked = asked(
        "apiVersion: ray.io/v1\nkind: RayJob\nspec:\n  entrypoint: python train.py --model_name_or_path /tmp/llama2-7b --per_device_train_batch_size 2 --lora_target q_proj,v_proj\n  \
         rayClusterSpec:\n    headGroupSpec: {template: {spec: {containers: [{image: rayproject/ray}]}}}\n    \
         workerGroupSpecs: [{replicas: 2, template: {spec: {containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}}}]\n",
    )
    .unwrap();
    assert_eq!((asked.nodes.clone(), asked.choices[0].gpus), (Some(2..=2), Some(Gpus::PerMachine(1))));
    let training = &asked.workload.training;
    assert_eq!((asked.workload.model.preset.as_deref(), training.task.as_deref()), (Some("llama-2-7b"), Some("lora")));
    assert_eq!(training.micro_batch.as_ref().map(ToString::to_string).as_deref(), Some("2"));
}

#[test]
fn clusters_name_cards_and_hold_configurations_their_own_way() {
    let pod = |resources: &str, command: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\ndata:\n  train.yaml: |\n    model: {{name: Qwen/Qwen2.5-7B}}\n    training: {{per_device_train_batch_size: 2}}\n---\n\
             apiVersion: apps/v1\nkind: Deployment\nspec: {{replicas: 0, template: {{spec: {{containers: [{{{command}, resources: {{limits: {{{resources}}}}}}}]}}}}}}\n"
        )
    };
    let read = asked(&pod("nvidia.com/a40: 2", "command: [python, train.py, --config, /config/train.yaml]")).unwrap();
    let choice = &read.choices[0];
    assert_eq!((choice.gpus, choice.chips.as_ref().map(|chips| chips.ids.len())), (Some(Gpus::PerMachine(2)), Some(1)));
    assert_eq!((read.nodes.clone(), read.workload.model.preset.as_deref()), (Some(1..=1), Some("qwen2.5-7b")));
    assert!(read.unread.iter().any(|one| one.key == "replicas"), "that it is scaled from outside is said");
}

#[test]
fn what_is_no_whole_card_is_refused_by_its_name() {
    let pod = |resource: &str| {
        let resources = format!("resources: {{limits: {{{resource}}}}}");
        asked(&format!("apiVersion: v1\nkind: Pod\nspec: {{containers: [{{{resources}}}]}}")).unwrap()
    };
    for name in ["google.com/tpu", "nvidia.com/mig-1g.5gb", "aws.amazon.com/neuron", "nvidia.com/gpu.shared"] {
        let refused = pod(&format!("{name}: 4")).named(None, None).unwrap_err();
        assert_eq!(refused, ImportError::UnknownGpu { count: 4, name: name.to_owned() });
    }
    let claims = "resourceClaims: [{name: gpu, resourceClaimTemplateName: a}]";
    let claimed = asked(&format!("apiVersion: v1\nkind: Pod\nspec: {{{claims}, containers: [{{image: a}}]}}")).unwrap();
    assert_eq!((claimed.choices[0].gpus, claimed.unread[0].key.as_str()), (None, "resourceClaims"));
}

#[test]
fn labels_of_ones_own_name_cards_and_predictors_are_pods() {
    let card = |label: &str| {
        let pod = format!("nodeSelector: {{{label}}}, containers: [{{resources: {{limits: {{nvidia.com/gpu: 8}}}}}}]");
        asked(&format!("apiVersion: v1\nkind: Pod\nspec: {{{pod}}}")).unwrap().choices.remove(0)
    };
    for label in ["accelerator: nvidia-tesla-v100", "gpu.nvidia.com/class: A100_PCIE_80GB", "gpu-type: a100"] {
        assert!(card(label).chips.is_some_and(|chips| !chips.ids.is_empty()), "{label}");
    }
    assert_eq!(card("accelerator: nvidia").chips, None);
    assert_eq!(card("pool: a100").chips, None);
    let product = card("nvidia.com/gpu.product: NVIDIA-Z9").chips.unwrap();
    assert_eq!((product.word.as_str(), product.ids.len()), ("NVIDIA-Z9", 0));
    let machine = card("node.kubernetes.io/instance-type: ml.p5.48xlarge").instance_type;
    assert_eq!(machine.as_deref(), Some("p5.48xlarge"));
    let served = asked(
        "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nspec: {predictor: {minReplicas: 2, model: {modelFormat: {name: huggingface}, \
         resources: {limits: {nvidia.com/gpu: 4}}}}}",
    )
    .unwrap();
    assert_eq!((served.nodes, served.choices[0].gpus), (Some(2..=2), Some(Gpus::PerMachine(4))));
}

/// What nobody but the image's own program reads says what it trains, and the first version of MPIJob counts GPUs of all pods together.
#[test]
fn an_image_is_told_flags_and_a_job_of_mpi_counts_cards_together() {
    let container = "image: $IMAGE, args: ['--model_name=Qwen/Qwen3-0.6B', '--epochs=3']";
    let pod = |container: &str| {
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: sft-a}}\nspec: {{containers: [{{{container}}}]}}")
    };
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let names = Names::new(&hardware, &models);
    let sft = crate::read(&pod(&format!("{container}, resources: {{limits: {{nvidia.com/gpu: 2}}}}")), names).unwrap();
    let training = &sft.workload.training;
    assert_eq!((sft.workload.model.preset.as_deref(), training.task.as_deref()), (Some("qwen3-0.6b"), None));
    let other =
        asked(&pod("image: a/b:1, args: ['--model=x', '--port=1'], resources: {limits: {nvidia.com/gpu: 1}}")).unwrap();
    assert_eq!(other.model_name, None);
    let mpi = "apiVersion: kubeflow.org/v1alpha1\nkind: MPIJob\nspec: {gpus: 16, template: {spec: {containers: [{resources: {limits: {nvidia.com/gpu: '8'}}}]}}}";
    let mpi = asked(mpi).unwrap();
    assert_eq!((mpi.nodes, mpi.choices[0].gpus), (Some(2..=2), Some(Gpus::PerMachine(8))));
    let broken = crate::read("apiVersion: v1\nkind: Pod\nspec: {a: b['c'] }\n", names);
    assert!(matches!(broken, Err(ImportError::Yaml(_))), "no script: {broken:?}");
}

/// A card that no catalog has keeps its name, and a group of nodes is none.
#[test]
fn a_label_of_an_older_card_names_it() {
    let pod = |label: &str| {
        let limits = "resources: {limits: {nvidia.com/gpu: 1}}";
        asked(&format!(
            "apiVersion: v1\nkind: Pod\nspec: {{nodeSelector: {{{label}}}, containers: [{{image: a, {limits}}}]}}"
        ))
        .unwrap()
    };
    let word = |label: &str| pod(label).choices[0].chips.as_ref().map(|chips| (chips.word.clone(), chips.ids.len()));
    assert_eq!(word("gpu: k80"), Some(("k80".to_owned(), 0)));
    assert_eq!(word("gpu-type: 2080ti"), Some(("2080ti".to_owned(), 0)));
    assert_eq!(word("gpu: 'true'"), None);
    assert_eq!(word("gpu-pool: training"), None);
    assert_eq!(word("node: nvidia-v100").map(|(word, _)| word), Some("nvidia-v100".to_owned()), "by its vendor");
    assert_eq!(word("node: v100-pool"), None);
}
