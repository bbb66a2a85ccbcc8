//! `launch --on ENGINE`: writes the plan as the engine's file and hands it over, journal first.

use jiff::Timestamp;

use crate::planning::export::job_of;
use crate::running::engine_jobs::engine_error;
use crate::running::launch::arguments::LaunchArguments;
use crate::runs::journal::open_journal;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::progress::with_progress;
use crate::session::runtime::runtime;
use gpuplan_export::{ExportOptions, Job, Target, export};
use gpuplan_launch::{EngineError, Submission};
use gpuplan_report::text::format::{rate, usd};
use gpuplan_report::text::wrap::wrap;
use gpuplan_runstore::sha256;
use gpuplan_units::{Hours, UsdPerHour};

pub fn run(engine: &str, arguments: &LaunchArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let known = gpuplan_clouds::engine(engine).zip(engine.parse::<Target>().ok());
    let (client, target) = known.ok_or_else(|| {
        let choices = gpuplan_clouds::ENGINES.join(", ");
        Diagnostic::usage(format!("`{engine}` is not an engine that gpuplan can submit to; choose one of {choices}"))
            .hint(format!("gpuplan launch FILE --on {} --store URI -- COMMAND", gpuplan_clouds::ENGINES[0]))
            .hint("`gpuplan export FILE --to TARGET` writes files for more engines")
    })?;
    let job = planned(target, arguments, session)?;
    let text = export(target, &job)?;
    let work = submission(client.name(), &job, text, arguments)?;
    tell(&work, &job, session);
    if arguments.dry_run {
        return session.printer.data(&work.text);
    }
    session.printer.confirm(arguments.yes, "gpuplan launch -y ...")?;
    let mut journal = open_journal(session)?;
    if !journal.hand(&work)? {
        return Err(Diagnostic::usage(format!("there is already a run `{}`", work.run))
            .hint(format!("gpuplan status {}", work.run))
            .hint("--run NAME names another one"));
    }
    let (runtime, asking) = (runtime()?, || format!("handing {} to {}", work.run, work.engine));
    match with_progress(&session.printer, asking, || runtime.block_on(client.submit(&work))) {
        Ok(id) => {
            journal.submitted_as(&work.run, &id)?;
            let (run, engine) = (&work.run, &work.engine);
            session.printer.note(&format!(
                "gpuplan: {engine} has it as job {}; `gpuplan status {run}` asks it, `gpuplan stop {run}` ends it",
                id.0
            ));
            session.printer.data(&format!("{}\n", work.run))
        }
        Err(error) => {
            if !matches!(error, EngineError::Unclear { .. }) {
                journal.forget_submission(&work.run)?;
            }
            Err(engine_error(&error, &work.run))
        }
    }
}

/// The plan as a job of the engine, with nothing left to edit.
fn planned(target: Target, arguments: &LaunchArguments, session: &Session) -> Result<Job, Diagnostic> {
    let wishes = ExportOptions {
        run: arguments.run.clone(),
        store: arguments.store.clone(),
        framework: arguments.question.workload.flags.get("training.framework").map(str::to_owned),
        image: arguments.delivery.image.clone(),
        nodes_at_least: arguments.on.min_nodes,
        command: arguments.command.clone(),
    };
    let job = job_of(&arguments.question, arguments.plan.as_deref(), wishes, session)?;
    let missing = |what: &str, hint: &str| {
        Diagnostic::usage(format!("{target} needs {what}; nothing was handed over")).hint(hint)
    };
    if arguments.store.is_none() {
        return Err(missing(
            "a store for checkpoints that its machines can reach",
            "--store s3://BUCKET/PREFIX, or a folder that all share: --store file:///shared/runs",
        ));
    }
    if target == Target::Kubernetes && arguments.delivery.image.is_none() {
        return Err(missing(
            "a container image with your program, its framework and gpuplan",
            "--image REGISTRY/IMAGE:TAG",
        ));
    }
    Ok(job)
}

fn submission(engine: &str, job: &Job, text: String, arguments: &LaunchArguments) -> Result<Submission, Diagnostic> {
    let rate = arguments
        .on
        .rate
        .as_deref()
        .map(UsdPerHour::parse)
        .transpose()
        .map_err(|error| Diagnostic::usage(format!("--rate: {error}")).hint("--rate 2.50"))?;
    let here = std::env::current_dir().map_err(Diagnostic::unexpected)?;
    let now = Timestamp::now();
    Ok(Submission {
        run: job.run.clone(),
        engine: engine.to_owned(),
        token: token(&job.run, now),
        text,
        options: arguments.on.on_options.clone(),
        nodes: job.machines().nodes,
        rate,
        expected_cost: rate.and_then(|rate| rate.for_hours(job.machines().nodes, job.plan.time.run_hours.expected)),
        store: job.store.clone(),
        output: here.join(format!("gpuplan-{}.out", job.run)).to_string_lossy().into_owned(),
        handed_at: now,
    })
}

/// Twelve digits that no other job has: of the run, the moment and this process.
fn token(run: &str, now: Timestamp) -> String {
    let mut digits = sha256(format!("{run} {} {}", now.as_nanosecond(), std::process::id()).as_bytes());
    digits.truncate(12);
    digits
}

fn tell(work: &Submission, job: &Job, session: &Session) {
    let money = match (work.rate, work.expected_cost) {
        (Some(each), Some(cost)) => format!("{} expected, at {} an hour a machine", usd(cost), rate(each)),
        _ => "not counted: a cluster of your own has no price here; --rate USD says what a machine costs an hour"
            .to_owned(),
    };
    let lines = [
        format!("run       {}", work.run),
        format!(
            "engine    {}{}{}",
            work.engine,
            if work.options.is_empty() { "" } else { ", with " },
            work.options.join(" ")
        ),
        format!(
            "machines  {} x {} x {}, as {} has them",
            work.nodes,
            job.machines().gpus_per_node,
            job.gpu.name,
            job.machines().instance_type
        ),
        format!(
            "time      {} expected, {} at 90 %, once it has its machines",
            Hours(job.plan.time.run_hours.expected),
            Hours(job.plan.time.run_hours.p90)
        ),
        format!("cost      {money}"),
        format!("store     {}", work.store),
    ];
    let wrapped: Vec<String> = lines.iter().map(|line| wrap(line, session.width, "          ")).collect();
    session.printer.note(&wrapped.join("\n"));
}
