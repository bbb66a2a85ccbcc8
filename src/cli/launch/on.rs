//! `launch --on ENGINE`: writes the plan as the engine's file and hands it over, journal first.

use clap::Args;
use jiff::Timestamp;

use crate::diagnostic::{Diagnostic, Exit};
use crate::export::{Question, job_of};
use crate::launch::{LaunchArguments, confirm, journal};
use crate::patience::meanwhile;
use crate::printer::Printer;
use crate::runs::{journal_said, runtime};
use crate::settings::{Settings, sha256};
use gpuplan_export::{Job, Target, Wishes, export};
use gpuplan_launch::{EngineError, Handed};
use gpuplan_report::format::{rate, usd};
use gpuplan_report::plan_text::wrap;
use gpuplan_units::{Hours, UsdPerHour};

#[derive(Debug, Args)]
#[command(next_help_heading = "On a cluster of your own")]
pub struct OnArguments {
    /// Hand the run to an engine instead of renting: slurm, kubernetes or skypilot, by its own client
    #[arg(long, value_name = "ENGINE", conflicts_with_all = [
        "any_zone", "keep_alive", "detach", "fake_scenario", "lifetime", "tags", "workdir", "setup", "environment", "secrets", "container", "agent",
    ])]
    pub on: Option<String>,
    /// An option of the engine's client, such as --on-option=--partition=gpu (repeat for several)
    #[arg(long = "on-option", value_name = "OPTION", requires = "on", allow_hyphen_values = true)]
    pub on_options: Vec<String>,
    /// What a machine of the cluster costs an hour; without it no money is counted
    #[arg(long, value_name = "USD", requires = "on")]
    pub rate: Option<String>,
    /// Start with so few machines too (slurm)
    #[arg(long, value_name = "N", requires = "on")]
    pub min_nodes: Option<u32>,
}

pub fn run(
    engine: &str,
    arguments: &LaunchArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Diagnostic> {
    let known = gpuplan_clouds::engine(engine).zip(engine.parse::<Target>().ok());
    let (client, target) = known.ok_or_else(|| {
        let choices = gpuplan_clouds::ENGINES.join(", ");
        Diagnostic::new(
            Exit::Usage,
            format!("`{engine}` is no engine that runs can be handed to; choose among {choices}"),
        )
        .hint(format!("gpuplan launch FILE --on {} --store URI -- COMMAND", gpuplan_clouds::ENGINES[0]))
        .hint("`gpuplan export FILE --to TARGET` writes files for more engines")
    })?;
    let job = planned(target, arguments, settings, printer)?;
    let text = export(target, &job)?;
    let work = handed(client.name(), &job, text, arguments)?;
    tell(&work, &job, settings, printer);
    if arguments.dry_run {
        return printer.data(&work.text);
    }
    confirm(arguments.yes, "gpuplan launch -y ...")?;
    let mut journal = journal(settings)?;
    if !journal.hand(&work).map_err(|error| journal_said(&error))? {
        return Err(Diagnostic::new(Exit::Usage, format!("there is a run `{}` already", work.run))
            .hint(format!("gpuplan status {}", work.run))
            .hint("--run NAME names another one"));
    }
    let (runtime, asking) = (runtime()?, || format!("handing {} to {}", work.run, work.engine));
    match meanwhile(printer, asking, || runtime.block_on(client.submit(&work))) {
        Ok(id) => {
            journal.handed_as(&work.run, &id).map_err(|error| journal_said(&error))?;
            let (run, engine) = (&work.run, &work.engine);
            printer.note(&format!(
                "gpuplan: {engine} has it as job {}; `gpuplan status {run}` asks it, `gpuplan stop {run}` ends it",
                id.0
            ));
            printer.data(&format!("{}\n", work.run))
        }
        Err(error) => {
            if !matches!(error, EngineError::Unclear { .. }) {
                journal.forget_handed(&work.run).map_err(|error| journal_said(&error))?;
            }
            Err(of_engine(&error, &work.run))
        }
    }
}

/// The plan as a job of the engine, with nothing left to edit.
fn planned(
    target: Target,
    arguments: &LaunchArguments,
    settings: &Settings,
    printer: &Printer,
) -> Result<Job, Diagnostic> {
    let question = Question {
        workload: &arguments.workload,
        limits: &arguments.limits,
        prices: &arguments.prices,
        measured: &arguments.measured,
        plan: arguments.plan.as_deref(),
    };
    let wishes = Wishes {
        run: arguments.run.clone(),
        store: arguments.store.clone(),
        framework: arguments.workload.framework.clone(),
        image: arguments.delivery.image.clone(),
        nodes_at_least: arguments.on.min_nodes,
        command: arguments.command.clone(),
    };
    let job = job_of(&question, wishes, settings, printer)?;
    let missing = |what: &str, hint: &str| {
        Diagnostic::new(Exit::Usage, format!("{target} needs {what}; nothing was handed over")).hint(hint)
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

fn handed(engine: &str, job: &Job, text: String, arguments: &LaunchArguments) -> Result<Handed, Diagnostic> {
    let rate = arguments
        .on
        .rate
        .as_deref()
        .map(UsdPerHour::parse)
        .transpose()
        .map_err(|error| Diagnostic::new(Exit::Usage, format!("--rate: {error}")).hint("--rate 2.50"))?;
    let here = std::env::current_dir().map_err(|error| Diagnostic::unexpected(&error))?;
    let now = Timestamp::now();
    Ok(Handed {
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

fn tell(work: &Handed, job: &Job, settings: &Settings, printer: &Printer) {
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
            work.nodes, job.machines().gpus_per_node, job.gpu.name, job.machines().instance_type
        ),
        format!(
            "time      {} expected, {} at 90 %, once it has its machines",
            Hours(job.plan.time.run_hours.expected),
            Hours(job.plan.time.run_hours.p90)
        ),
        format!("cost      {money}"),
        format!("store     {}", work.store),
    ];
    let wrapped: Vec<String> = lines.iter().map(|line| wrap(line, settings.width, "          ")).collect();
    printer.note(&wrapped.join("\n"));
}

/// What an engine said, for a person.
pub fn of_engine(error: &EngineError, run: &str) -> Diagnostic {
    match error {
        EngineError::Missing { install, .. } => Diagnostic::new(Exit::Usage, format!("{error}; install {install}")),
        EngineError::Refused { .. } => Diagnostic::new(Exit::CloudRefused, error.to_string()),
        EngineError::Unclear { .. } => {
            Diagnostic::new(Exit::MayCostMoney, format!("{error}; the job may be there all the same"))
                .hint(format!("gpuplan status {run}"))
        }
    }
}
