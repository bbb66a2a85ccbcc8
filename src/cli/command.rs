//! Every command of the program, and which function runs it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::arguments::global::GlobalArguments;
use crate::catalog::list::{self, CatalogCommand};
use crate::catalog::prices::{self, PricesArguments};
use crate::catalog::refresh::{self, RefreshArguments};
use crate::finance::budget::{self, BudgetArguments};
use crate::finance::costs::{self, CostsArguments};
use crate::finance::diff::{self, DiffArguments};
use crate::finance::report::{self, ReportArguments};
use crate::manual;
use crate::measuring::accuracy::{self, AccuracyArguments};
use crate::measuring::bench::{self, BenchArguments};
use crate::measuring::profile::{self, ProfileCommand};
use crate::planning::arguments::PlanArguments;
use crate::planning::estimate::{self, EstimateArguments};
use crate::planning::explain::{self, ExplainArguments};
use crate::planning::export::{self, ExportArguments};
use crate::planning::plan;
use crate::planning::simulate::{self, SimulateArguments};
use crate::running::access::{self, FetchArguments, LogsArguments, SshArguments};
use crate::running::agent;
use crate::running::agent::arguments::AgentArguments;
use crate::running::doctor::{self, DoctorArguments};
use crate::running::launch;
use crate::running::launch::adopt::{self, AdoptArguments};
use crate::running::launch::arguments::LaunchArguments;
use crate::running::launch::lead::{self, ResumeArguments, WatchArguments};
use crate::running::setup::{self, SetupArguments};
use crate::running::status::{self, StatusArguments};
use crate::running::stop::{self, DownArguments, GcArguments, StopArguments};
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};

/// Which cloud GPUs to rent for a run, how many, where, on what terms and with which layout; what it costs and when it ends.
#[derive(Debug, Parser)]
#[command(name = "gpuplan", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Arguments {
    #[command(flatten)]
    pub global: GlobalArguments,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Recommend GPUs, count, place, terms and layout for a workload
    Plan(Box<PlanArguments>),
    /// Show one candidate in full, why it lost and what would change the answer
    Explain(Box<ExplainArguments>),
    /// What many runs cost by month and team, with what probability, and what moves it
    Budget(Box<BudgetArguments>),
    /// What changed between two plans, budgets or price lists, and why
    Diff(DiffArguments),
    /// Memory and step time of a workload on given GPUs, or of many cases
    Estimate(Box<EstimateArguments>),
    /// How wrong the estimate is on published runs, and other estimators beside it
    Accuracy(AccuracyArguments),
    /// Measure this machine's GPU with the shapes of a workload, so that plans rest on it
    Bench(Box<BenchArguments>),
    /// Measure a run as it is, or read a profiler's trace: step time, what the GPU waits for, what to mend
    Profile {
        #[command(subcommand)]
        what: ProfileCommand,
    },
    /// List offers with price, origin and age
    Prices(PricesArguments),
    /// Ask every cloud for its prices of now and keep the answers
    Refresh(RefreshArguments),
    /// Which credentials are found, what they may do, and which quotas would block the plan
    Doctor(Box<DoctorArguments>),
    /// What a launch needs in an account, as Terraform: print it, apply it or remove it
    Setup(SetupArguments),
    /// Replay spot policies on availability traces
    Simulate(SimulateArguments),
    /// Write a plan as a file for Slurm, Kubernetes, SkyPilot and other engines, which keep the run alive
    Export(Box<ExportArguments>),
    /// Write a plan or a run as one page to hand on, with charts, risks, assumptions and sources
    Report(Box<ReportArguments>),
    /// Rent the recommended machines and lead the run to its end
    Launch(Box<LaunchArguments>),
    /// Lead a run again that was left
    Watch(WatchArguments),
    /// Take over a run of which no journal is here, from its store and the marks on its machines
    Adopt(AdoptArguments),
    /// Go on with a run that was stopped, failed or refused, from its newest checkpoint
    Resume(ResumeArguments),
    /// What runs, where, and what it has cost
    Status(StatusArguments),
    /// What runs have cost, how much of it was wasted, and what the clouds' bills say of it
    Costs(Box<CostsArguments>),
    /// What the program of a run has said so far
    Logs(LogsArguments),
    /// Bring the newest checkpoint of a run here
    Fetch(FetchArguments),
    /// A shell on a machine of a run
    Ssh(SshArguments),
    /// End every machine of a run; what it saved stays
    Stop(StopArguments),
    /// End every machine of a run and delete what it saved
    Down(DownArguments),
    /// Find machines that no run knows any more, and end them
    Gc(GcArguments),
    /// Run a training command so that nothing is lost: restore, save away, answer notices, resume
    Agent(Box<AgentArguments>),
    /// Look into the catalog, or check it
    Catalog {
        #[command(subcommand)]
        what: CatalogCommand,
    },
    /// Print a completion script for a shell
    Completions { shell: Shell },
    /// Print the manual page, or write one a command into a folder
    Man {
        #[arg(long, value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

pub fn dispatch(command: &Command, session: &Session) -> Result<ExitCode, Diagnostic> {
    if session.markdown && !matches!(command, Command::Budget(_) | Command::Diff(_)) {
        return Err(Diagnostic::new(Exit::Usage, "only `budget` and `diff` print Markdown").hint("--output json"));
    }
    let exit = match command {
        // Their exit codes may be those of the programs that they run.
        Command::Agent(arguments) => return Ok(agent::run(arguments, session.offline, &session.printer)),
        Command::Profile { what } => return profile::run(what, session),
        Command::Plan(arguments) => plan::run(arguments, session),
        Command::Explain(arguments) => explain::run(arguments, session),
        Command::Budget(arguments) => budget::run(arguments, session),
        Command::Diff(arguments) => diff::run(arguments, session),
        Command::Estimate(arguments) => estimate::run(arguments, session),
        Command::Accuracy(arguments) => accuracy::run(arguments, session),
        Command::Bench(arguments) => bench::run(arguments, session),
        Command::Prices(arguments) => prices::run(arguments, session),
        Command::Refresh(arguments) => refresh::run(arguments, session),
        Command::Doctor(arguments) => doctor::run(arguments, session),
        Command::Setup(arguments) => setup::run(arguments, session),
        Command::Export(arguments) => export::run(arguments, session),
        Command::Report(arguments) => report::run(arguments, session),
        Command::Launch(arguments) => launch::run(arguments, session),
        Command::Watch(arguments) => lead::watch(arguments, session),
        Command::Adopt(arguments) => adopt::run(arguments, session),
        Command::Resume(arguments) => lead::resume(arguments, session),
        Command::Costs(arguments) => costs::run(arguments, session),
        Command::Status(arguments) => status::run(arguments, session),
        Command::Logs(arguments) => access::logs(arguments, session),
        Command::Fetch(arguments) => access::fetch(arguments, session),
        Command::Ssh(arguments) => access::ssh(arguments, session),
        Command::Stop(arguments) => stop::stop(arguments, session),
        Command::Down(arguments) => stop::down(arguments, session),
        Command::Gc(arguments) => stop::gc(arguments, session),
        Command::Simulate(arguments) => simulate::run(arguments, session),
        Command::Catalog { what } => list::run(what, session),
        Command::Completions { shell } => manual::completions(*shell, Arguments::command(), session),
        Command::Man { folder } => manual::pages(folder.as_deref(), Arguments::command(), session),
    }?;
    Ok(exit.into())
}
