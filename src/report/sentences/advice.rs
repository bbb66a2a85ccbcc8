//! What to do, or to know, to run a plan well.

use crate::sentences::input::wait;
use gpuplan_plan::Advice;
use gpuplan_plan::explanation::advice::{Dimension, ProjectHours};

/// One piece of advice as a sentence.
pub fn sentence(advice: &Advice) -> String {
    match advice {
        Advice::GradientAccumulation { micro_steps, micro_batch } => {
            format!("gradient accumulation: {micro_steps:.0} micro-steps of {micro_batch} sequences a GPU")
        }
        Advice::ActivationCheckpointing => {
            "activation checkpointing is needed to fit and costs about a third more arithmetic".to_owned()
        }
        Advice::LossScaling => "fp16 needs loss scaling (dynamic, starting at 2^16)".to_owned(),
        Advice::NoBf16 { gpu, is_served: true } => format!("{gpu} has no bf16 units: serve in fp16"),
        Advice::NoBf16 { gpu, is_served: false } => format!("{gpu} has no bf16 units: use fp16 with loss scaling"),
        Advice::NoFp8 { gpu } => {
            format!("{gpu} has no fp8 units: weights are stored in 8 bits and multiplied in 16")
        }
        Advice::UnfittedVendor => {
            "hardly any published run on AMD chips is in the fit: measure before renting many".to_owned()
        }
        Advice::PadWidth { dimension, width, tensor_parallel } => pad_width(*dimension, *width, *tensor_parallel),
        Advice::LargeBatch { counts_samples: true } => "a global batch this large needs LARS or LAMB".to_owned(),
        Advice::LargeBatch { counts_samples: false } => {
            "a global batch this large needs learning-rate scaling with a longer warm-up, or LAMB".to_owned()
        }
        Advice::BeyondPositions { tokens, positions } => beyond_positions(*tokens, *positions),
        Advice::WholeRun { lost_share, by_hand_share, projects } => whole_run(*lost_share, *by_hand_share, *projects),
        Advice::CompileModel => "kernel launches dominate: compile the model, or raise the micro batch".to_owned(),
        Advice::StageOnLocalDisk { data_bytes, disk_bytes } => {
            format!("stage the data on local NVMe ({:.1} of {:.1} TB)", data_bytes.0 / 1e12, disk_bytes.0 / 1e12)
        }
        Advice::DataExceedsLocalDisk => {
            "the data does not fit on local NVMe: stream it, or shard it over machines".to_owned()
        }
        Advice::SmallerCard { memory_share, run_hours, slice } => {
            let mig = slice.as_ref().map_or_else(String::new, |slice| {
                format!("; MIG {} holds it, with {} of the multiprocessors", slice.profile, slice.processors)
            });
            format!(
                "uses {:.0} % of the card's memory for {run_hours}: a part of one (`--share 1/2`) or a smaller card would do{mig}",
                memory_share * 100.0
            )
        }
        Advice::ShardingOverPcie => "these GPUs talk over PCIe: sharding can cost more than it saves".to_owned(),
        Advice::ServingOverPcie => "these GPUs talk over PCIe: every layer of every token waits for it".to_owned(),
        Advice::ExpertParallel => {
            "experts are split by matrices here; splitting them over GPUs (expert parallel) may be faster for large batches".to_owned()
        }
        Advice::KeepAnsweredRequests => {
            "keep a list of answered requests in the bucket: an interruption then costs those that were running".to_owned()
        }
        Advice::SaveOnNotice { notice_seconds, checkpoint_bytes } => format!(
            "on the notice of {:.0} s save at once: all of {checkpoint_bytes} is safe before the machine is gone",
            notice_seconds.0
        ),
        Advice::ShortNotice { notice_seconds, saved_bytes, checkpoint_bytes } => format!(
            "a notice of {:.0} s saves only {saved_bytes} of {checkpoint_bytes}: an interruption costs the work since the last save",
            notice_seconds.0
        ),
        Advice::NoNotice => {
            "no notice before an interruption is known of this cloud: it costs the work since the last save".to_owned()
        }
        Advice::UnprobedCount { nodes } => format!(
            "{nodes} machines at once: how often they can be had is taken from counts of up to 16 machines of one H100 each, and yours may be had less often"
        ),
        Advice::NoInterruptionData => {
            "no interruption data for this machine: the forecast starts from the average pool of other machines".to_owned()
        }
        Advice::InputWait(waiting) => wait(waiting),
    }
}

fn whole_run(lost_share: f64, by_hand_share: f64, projects: ProjectHours) -> String {
    let ProjectHours { projects, median, upper_quartile, .. } = projects;
    format!(
        "saving and failures of machines are counted ({:.1} % of the time, with restarts that nobody waits for; restarted by hand, failures would \
         take {:.0} %). Evaluation and runs that are done again are not: {projects} published projects paid {median:.1} times the hours of their \
         steps in the median, a quarter of them {upper_quartile:.1} times or more. State yours as training.overhead=0.1",
        lost_share * 100.0,
        by_hand_share * 100.0
    )
}

fn beyond_positions(tokens: u32, positions: u32) -> String {
    format!(
        "sequences of {tokens} tokens are longer than the {positions} positions of the model: stretch them (RoPE scaling, \
         interpolated position tables), or state sequence_length={positions}"
    )
}

fn pad_width(dimension: Dimension, width: u32, tensor_parallel: u32) -> String {
    let name = match dimension {
        Dimension::HiddenSize => "hidden size",
        Dimension::FeedForwardWidth => "feed-forward width",
        Dimension::Vocabulary => "vocabulary",
    };
    format!("pad the {name} ({width} over {tensor_parallel}) to a multiple of 64 a rank: tensor cores lose whole tiles")
}
