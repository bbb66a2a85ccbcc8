//! Tests of `slurm.rs`.

#![cfg(test)]

use proptest::prelude::*;

use super::options::time;
use super::*;
use crate::{Need, chips};
use gpuplan_hardware::Hardware;
use gpuplan_workload::Models;

fn asked(text: &str) -> Result<JobRequest, ImportError> {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    read(text, Names::new(&hardware, &models))
}

/// Megatron's own scripts take whole machines and start a task for each GPU.
#[test]
fn tasks_of_megatron_are_gpus() {
    let script = "#!/bin/bash\n#SBATCH -p luna --nodes=35 --exclusive --mem=0 --ntasks-per-node=8\n";
    let sizes = "--num-layers 105 --hidden-size 20480 --num-attention-heads 128 --micro-batch-size 1";
    let megatron = asked(&format!("{script}srun sh -c \"python -u pretrain_gpt.py {sizes}\"\n")).unwrap();
    assert_eq!((megatron.nodes.clone(), megatron.choices[0].gpus), (Some(35..=35), Some(Gpus::PerMachine(8))));
    // Tasks of another program may be anything.
    let other = asked(&format!("{script}srun python simulate.py\n")).unwrap();
    assert_eq!(other.choices[0].gpus, None);
    // A launcher has one task a machine and says the rest.
    let launched = script.replace("ntasks-per-node=8", "ntasks-per-node=2");
    let launched = asked(&format!("{launched}srun torchrun --nproc-per-node 4 pretrain_gpt.py {sizes}\n")).unwrap();
    assert_eq!(launched.choices[0].gpus, Some(Gpus::PerMachine(4)));
}

#[test]
fn every_way_to_ask_for_gpus_is_read() {
    let one = |text: &str| {
        let mut asked = asked(text).unwrap();
        (asked.nodes.clone(), asked.choices.remove(0).gpus.unwrap())
    };
    assert_eq!(one("#SBATCH -N2 --gres=gpu:a100:4"), (Some(2..=2), Gpus::PerMachine(4)));
    assert_eq!(one("#SBATCH --nodes=4-8\n#SBATCH --gpus-per-node=8"), (Some(4..=8), Gpus::PerMachine(8)));
    assert_eq!(one("#SBATCH -G h100:16"), (None, Gpus::Together(16)));
    assert_eq!(one("#SBATCH -G 16 -N 2"), (Some(2..=2), Gpus::PerMachine(8)));
    assert_eq!(one("#SBATCH --ntasks 16 --ntasks-per-node 8 --gpus-per-task 1"), (Some(2..=2), Gpus::PerMachine(8)));
    assert_eq!(one("#SBATCH --gres=gpu"), (Some(1..=1), Gpus::PerMachine(1)));
    assert_eq!(one("#SBATCH --tres-per-node=gres/gpu:4"), (Some(1..=1), Gpus::PerMachine(4)));
    assert_eq!(one("#SBATCH --gres=lscratch:100,gres:gpu:2"), (Some(1..=1), Gpus::PerMachine(2)));
    let two = asked("#SBATCH --gres=gpu:a100:2,gpu:v100:2").unwrap_err().to_string();
    assert!(two.contains("cards of two kinds"), "{two}");
}

#[test]
fn components_of_one_kind_are_counted_together() {
    let component = "#SBATCH --nodes=4 --gres=gpu:1 -C public&1v100\n";
    let both = asked(&format!("{component}#SBATCH hetjob\n{component}")).unwrap();
    assert_eq!((both.nodes.clone(), both.choices.len()), (Some(8..=8), 1));
    assert_eq!(both.choices[0].chips, chips::find("v100", &Hardware::embedded().unwrap()));
    let beside = asked(&format!("#SBATCH -N 1 --mem=4G\n#SBATCH hetjob\n{component}")).unwrap();
    assert_eq!((beside.nodes.clone(), beside.choices[0].gpus), (Some(4..=4), Some(Gpus::PerMachine(1))));
    let mixed = asked(&format!("#SBATCH -N 1 --gres=gpu:8\n#SBATCH hetjob\n{component}")).unwrap_err();
    assert!(mixed.to_string().contains("different machines"), "{mixed}");
}

#[test]
fn a_launcher_that_says_otherwise_is_named() {
    let unread = |script: &str| {
        let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
        let asked = crate::read(script, Names::new(&hardware, &models)).unwrap();
        asked.unread.iter().map(|one| one.key.clone()).filter(|key| key == "machines" || key == "GPUs").count()
    };
    let script =
        "#!/bin/bash\n#SBATCH -N 2 --gres=gpu:4\nsrun torchrun --nnodes $SLURM_NNODES --nproc-per-node 4 train.py\n";
    assert_eq!(unread(script), 0);
    assert_eq!(unread(&script.replace("$SLURM_NNODES", "3")), 1);
    assert_eq!(unread(&script.replace("node 4", "node 8")), 1);
}

#[test]
fn processors_and_memory_are_per_machine() {
    let one = |text: &str| asked(text).unwrap().choices.remove(0);
    let choice = one("#SBATCH -N 1 --gpus-per-node=4 --ntasks-per-node=4 --cpus-per-task=12 --mem-per-cpu=4G");
    assert_eq!((choice.vcpus, choice.memory), (Some(Need::AtLeast(48.0)), Some(Need::AtLeast(192.0))));
    let choice = one("#SBATCH --gres=gpu:2 --cpus-per-gpu=8 --mem=65536");
    assert_eq!((choice.vcpus, choice.memory), (Some(Need::AtLeast(16.0)), Some(Need::AtLeast(64.0))));
    assert_eq!(one("#SBATCH --gres=gpu:2 --mem=0").memory, None);
}

#[test]
fn times_of_slurm_are_read() {
    for (text, hours) in
        [("90", 1.5), ("90:00", 1.5), ("36:30:00", 36.5), ("2-12", 60.0), ("1-00:30", 24.5), ("1-00:00:36", 24.01)]
    {
        assert!((time(text).unwrap().unwrap().0 - hours).abs() < 1e-9, "{text}");
    }
    assert_eq!(time("UNLIMITED"), Ok(None));
    assert!(["", "soon", "1:2:3:4", "1-2:3:4:5", "-1"].into_iter().all(|text| time(text).is_err()));
}

#[test]
fn what_is_not_understood_is_named() {
    let asked =
        asked("#!/bin/bash\n#SBATCH --gres=gpu:8,nvme:1 --constraint=ib --bb=x -p gpu\n\nset -e\n#SBATCH --time=1\n")
            .unwrap();
    let unread: Vec<&str> = asked.unread.iter().map(|one| one.key.as_str()).collect();
    assert_eq!((unread, asked.hours), (vec!["--gres", "--constraint", "--bb", "#SBATCH"], None));
    assert_eq!(asked.no_effect[0].key, "--partition");
    let refused = |text: &str| self::asked(text).unwrap_err().to_string();
    // A name that is none of the catalog's is no other card, until --gpus names one.
    let strange = self::asked("#SBATCH --gres=gpu:warp9:8").unwrap();
    assert!(strange.unread[0].value.contains("warp9"));
    let none = strange.clone().named(None, None).unwrap_err();
    assert_eq!(none.to_string(), "it asks for 8 GPUs called `warp9`, and no GPU of the catalog is called so");
    let a100 = chips::find("a100", &Hardware::embedded().unwrap());
    assert_eq!(strange.named(a100.as_ref(), None).unwrap().choices[0].chips, a100);
    assert!(refused("#SBATCH --nodes=0").contains("machines"));
    // Without these the cards are known all the same.
    let words = self::asked("#SBATCH --gres=gpu:2 --mem=MaxMemPerNode --time=soon").unwrap();
    let unread: Vec<&str> = words.unread.iter().map(|one| one.key.as_str()).collect();
    assert_eq!((unread, words.choices[0].gpus), (vec!["--mem", "--time"], Some(Gpus::PerMachine(2))));
    assert!(refused("#SBATCH --gpus-per-task=99999 --ntasks=99999").contains("99999 x 99999"));
    let bare = self::asked("#SBATCH --gres=gpu:8 nodes=2").unwrap();
    assert_eq!((bare.unread[0].value.as_str(), bare.no_effect.len()), ("nodes=2", 0));
    assert!(self::asked("#SBATCH --gres=gpu:8 \\\n#SBATCH -C a100|h100 # it's\n").is_ok());
    assert!(refused("#SBATCH --gres=gpu:8 --comment='it").contains("a quote is never closed in `#SBATCH --gres=gpu:8"));
}

/// `bash` runs its command: a comment goes on in no line.
#[test]
fn a_comment_that_ends_in_a_backslash_swallows_no_command() {
    let job = "#!/bin/bash\n#SBATCH --gpus-per-node=a100:8\n#SBATCH --time=10:00:00\n# see wiki, section 3 \\\n\
        python pretrain_gpt.py --model llama-3.1-8b --train-iters 1000 --global-batch-size 64 --seq-length 4096 --bf16\n";
    let read = asked(job).unwrap();
    assert_eq!(read.workload.model.preset.as_deref(), Some("llama-3.1-8b"));
    assert_eq!(read.workload.training.steps, Some("1000".into()));
    assert_eq!(read, asked(&job.replace("# see wiki, section 3 \\\n", "")).unwrap());
}

proptest! {
    /// Machines and GPUs that are read are some, and what is refused is named by its option.
    #[test]
    fn any_numbers_are_read_or_refused(
        numbers in prop::collection::vec((0..8_usize, prop_oneof![0_u64..20, any::<u64>()], "[:,-]?[0-9KMGT]{0,3}"), 1..6),
    ) {
        const OPTIONS: [&str; 8] =
            ["-N", "-n", "--ntasks-per-node=", "--gpus-per-task=", "-G", "--cpus-per-task=", "--mem-per-gpu=", "--cpus-per-gpu="];
        let words = numbers.iter().map(|(option, number, end)| format!(" {}{number}{end}", OPTIONS[*option]));
        let line = words.collect::<Vec<_>>().concat();
        match asked(&format!("#SBATCH --gres=gpu:h100:8{line}")) {
            Ok(asked) => {
                prop_assert!(asked.nodes.as_ref().is_none_or(|nodes| 0 < *nodes.start() && nodes.start() <= nodes.end()), "{asked:?}");
                let enough = |need: Option<Need>| need.is_none_or(|need| matches!(need, Need::AtLeast(least) if least.is_finite() && least > 0.0));
                prop_assert!(asked.choices.iter().all(|choice| enough(choice.vcpus) && enough(choice.memory)), "{asked:?}");
            }
            Err(error) => prop_assert!(matches!(&error, ImportError::Invalid { detail, .. } if detail.chars().any(|c| c.is_ascii_digit())), "{error}"),
        }
    }
}

/// Whole machines are counted by the launcher, or by the one who asks; a number that is not filled in is no number.
#[test]
fn whole_machines_have_the_gpus_of_their_launcher() {
    let read =
        asked("#SBATCH -N 2 --exclusive\nsrun torchrun --nproc_per_node=8 --nnodes=$SLURM_NNODES train.py\n").unwrap();
    assert_eq!((read.nodes.clone(), read.choices[0].gpus), (Some(2..=2), Some(Gpus::PerMachine(8))));
    let open = asked("#SBATCH -N 2 --exclusive\nsrun ./a.out\n").unwrap();
    let named = open.named(chips::find("h100", &Hardware::embedded().unwrap()).as_ref(), Some(8)).unwrap();
    assert_eq!((named.nodes.clone(), named.choices[0].gpus), (Some(2..=2), Some(Gpus::PerMachine(8))));
    let template = asked("#SBATCH --nodes=$NUM_NODES --gpus-per-node=8\n").unwrap();
    assert_eq!((template.unread[0].key.as_str(), template.nodes), ("--nodes", None));
    let started =
        asked("#SBATCH --nodes=$N --gpus-per-node=8\nsrun torchrun --nnodes 4 --nproc-per-node 8 a.py\n").unwrap();
    assert_eq!(started.nodes, Some(4..=4));
}

#[test]
fn a_constraint_may_name_the_card() {
    let choice = asked("#SBATCH --gres=gpu:8 -C a100_80gb").unwrap().choices.remove(0);
    assert_eq!(choice.chips.unwrap().ids.len(), 2);
}

/// Options of the command line win over those of the script, and both reach its commands.
#[test]
fn what_a_script_submits_is_the_job() {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let files = |name: &str| {
        let text = "#!/bin/bash\n#SBATCH --nodes=1 --gres=gpu:a100:4 --time=1:00:00\n\
            torchrun --nproc_per_node=4 train.py --model_name_or_path $MODEL --max_steps 9\n";
        (name == "train.sbatch").then(|| text.to_owned())
    };
    let read = |script: &str| crate::read(script, Names { files: &files, ..Names::new(&hardware, &models) }).unwrap();
    let job = read("#!/bin/bash\nexport MODEL=gpt2\nsbatch -W -N 2 --export=ALL,X=1 train.sbatch --bf16\n");
    assert_eq!((job.kind, job.nodes.clone()), (JobKind::Slurm, Some(2..=2)));
    assert_eq!(job.choices[0].gpus, Some(Gpus::PerMachine(4)));
    assert_eq!(job.workload.model.preset.as_deref(), Some("gpt-2"));
    // Each of a loop is the same; a second of another kind is named.
    let wrapped = read(
        "sbatch --gpus-per-node=8 -N4 --wrap \"srun python train.py --model_name_or_path gpt2 --max_steps 3\"\nsbatch other.sh\n",
    );
    assert_eq!((wrapped.nodes.clone(), wrapped.choices[0].gpus), (Some(4..=4), Some(Gpus::PerMachine(8))));
    assert_eq!(wrapped.workload.training.steps.as_ref().map(ToString::to_string).as_deref(), Some("3"));
    let keys: Vec<&str> = wrapped.unread.iter().map(|one| one.key.as_str()).collect();
    assert_eq!(keys, ["sbatch", "kind of work"]);
    let handed =
        read("COMMAND=\"uv run run_grpo.py --bf16\"\nsbatch --gres=gpu:8 --export=ALL,COMMAND=\"$COMMAND\" ray.sub\n");
    assert!(handed.not_planned.is_some(), "{:?}", handed.unread);
    let elsewhere = read("sbatch --gres=gpu:h100:8 elsewhere.sh\n");
    assert_eq!((elsewhere.choices.len(), elsewhere.unread[0].key.as_str()), (1, "elsewhere.sh"));
}

/// A script that writes batch scripts has their machines, whether it hands them over by name, as input, or not at all.
#[test]
fn what_a_script_writes_is_the_job() {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let read = |script: &str| crate::read(script, Names::new(&hardware, &models)).unwrap();
    let job = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:a100:4\npython train.py --model_name_or_path $M --max_steps 9\nEOF\n";
    for script in [
        format!("#!/bin/bash\nM=gpt2\nsbatch <<EOF\n{job}"),
        format!("M=gpt2\ncat > $OUT/job.sh <<EOF\n{job}sbatch $OUT/job.sh\n"),
        format!("M=gpt2\ncat <<EOF > job.sh\n{job}sbatch $(ls *.sh)\n"),
        format!("M=gpt2\nfor s in 1 2; do\ncat <<EOF > job_$s.sh\n{job}done\n"),
    ] {
        let read = read(&script);
        assert_eq!((read.kind, read.nodes.clone()), (JobKind::Slurm, Some(2..=2)), "{script}");
        assert_eq!(read.choices[0].gpus, Some(Gpus::PerMachine(4)), "{script}");
        assert_eq!(read.workload.model.preset.as_deref(), Some("gpt-2"), "{script}");
    }
    let own = read(
        "#!/bin/bash\n#SBATCH --gres=gpu:2\ncat <<EOF > b.sh\n#SBATCH --gres=gpu:8\nEOF\npython train.py --bf16\n",
    );
    assert_eq!(own.choices[0].gpus, Some(Gpus::PerMachine(2)));
}

/// A batch script may leave its cards to its steps.
#[test]
fn a_step_asks_for_the_cards_that_its_script_does_not() {
    let read = asked("#SBATCH -N 2\nsrun --gres=gpu:a100:4 python train.py --bf16\n").unwrap();
    assert_eq!((read.nodes.clone(), read.choices[0].gpus), (Some(2..=2), Some(Gpus::PerMachine(4))));
    let own = asked("#SBATCH -N 2 --gres=gpu:8\nsrun --gres=gpu:4 python train.py --bf16\n").unwrap();
    assert_eq!(own.choices[0].gpus, Some(Gpus::PerMachine(8)));
}

#[test]
fn a_template_leaves_its_places_open() {
    let read = asked("#SBATCH --nodes={nodes} --gres=gpu:4 --time=<hours>\npython train.py --bf16\n").unwrap();
    assert_eq!(read.choices[0].gpus, Some(Gpus::PerMachine(4)));
    let keys: Vec<&str> = read.unread.iter().map(|one| one.key.as_str()).collect();
    assert_eq!(keys, ["--nodes", "--time"]);
}

#[test]
fn a_partition_may_be_named_by_its_card() {
    let card = |options: &str| {
        let mut asked = asked(&format!("#!/bin/bash\n#SBATCH {options}\npython train.py\n")).unwrap();
        asked.choices.pop().and_then(|choice| choice.chips).map(|chips| chips.ids.len())
    };
    let hardware = Hardware::embedded().unwrap();
    let of = |word: &str| chips::find(word, &hardware).map(|chips| chips.ids.len());
    assert_eq!(card("-p NV_H100 --gres=gpu:8"), of("h100"));
    assert_eq!(
        card("--partition=kempner_h100,gpu-a100-short --gres=gpu:4"),
        of("h100").zip(of("a100")).map(|(a, b)| a + b)
    );
    // One that names no card may have any, a machine of a cloud is no card, and what the job says itself counts.
    for options in ["-p h100,long --gres=gpu:8", "-p gpu --gres=gpu:8", "-p p4,g5 --gres=gpu:8", "-p a100"] {
        assert_eq!(card(options), None, "{options}");
    }
    assert_eq!(card("-p a100 --gres=gpu:v100:2"), of("v100"));
}
