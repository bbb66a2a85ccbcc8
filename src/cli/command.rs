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
use crate::help;
use crate::manual;
use crate::mcp;
use crate::measuring::accuracy::{self, AccuracyArguments};
use crate::measuring::bench::{self, BenchArguments};
use crate::measuring::profile::{self, ProfileCommand};
use crate::planning::arguments::PlanArguments;
use crate::planning::estimate::{self, EstimateArguments};
use crate::planning::explain::{self, ExplainArguments};
use crate::planning::export::{self, ExportArguments};
use crate::planning::init::{self, InitArguments};
use crate::planning::plan;
use crate::planning::simulate::{self, SimulateArguments};
use crate::running::access::{self, ExecArguments, ForwardArguments, SshArguments};
use crate::running::agent;
use crate::running::agent::arguments::AgentArguments;
use crate::running::copying::{self, CopyArguments};
use crate::running::doctor::{self, DoctorArguments};
use crate::running::download::{self, DownloadArguments};
use crate::running::launch;
use crate::running::launch::adopt::{self, AdoptArguments};
use crate::running::launch::arguments::LaunchArguments;
use crate::running::launch::lead::{self, ResumeArguments, WatchArguments};
use crate::running::logs::{self, LogsArguments};
use crate::running::setup::{self, SetupArguments};
use crate::running::status::{self, StatusArguments};
use crate::running::stop::{self, DownArguments, GcArguments, StopArguments};
use crate::running::verify::{self, VerifyArguments};
use crate::session::Session;
use crate::session::diagnostic::Diagnostic;

/// Plan which cloud GPUs to rent for a run, how many, where, on what terms and with which layout; then launch it and watch what it costs.
#[derive(Debug, Parser)]
#[command(name = "gpuplan", version, max_term_width = 100, subcommand_required = true)]
pub struct Arguments {
    #[command(flatten)]
    pub global: GlobalArguments,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a workload file to start from
    Init(InitArguments),
    /// Recommend GPUs, their number, region, terms and layout for a workload
    Plan(Box<PlanArguments>),
    /// Show one plan in full: why it was not chosen and what would change the answer
    Explain(Box<ExplainArguments>),
    /// Forecast what many runs cost by month and team (`plan --budget` is a limit)
    Budget(Box<BudgetArguments>),
    /// Compare two plans, budgets or price lists, and explain what changed
    Diff(DiffArguments),
    /// Estimate memory and step time of a workload on given GPUs, or of many cases
    Estimate(Box<EstimateArguments>),
    /// Measure how far the estimates are from published runs
    Accuracy(AccuracyArguments),
    /// Measure this machine's GPU with the shapes of a workload, for plans to go by
    Bench(Box<BenchArguments>),
    /// Profile a run unchanged, or read a trace: what the GPU waits for, and what to fix
    Profile {
        #[command(subcommand)]
        what: ProfileCommand,
    },
    /// List offers with their price, where the price is from, and its age
    Prices(PricesArguments),
    /// Get current prices from every cloud and cache them
    Refresh(RefreshArguments),
    /// Check credentials, what they permit, and which quotas would block the plan
    Doctor(Box<DoctorArguments>),
    /// Set up an account for launches with Terraform: print, apply or remove it
    Setup(SetupArguments),
    /// Replay spot policies on availability traces
    Simulate(SimulateArguments),
    /// Write a plan as a job file for Slurm, Kubernetes, SkyPilot or another engine
    Export(Box<ExportArguments>),
    /// Write a plan, a budget or a run as one page to share, with charts, risks and sources
    ///
    /// The file is a workload (TOML), a plan or a budget (JSON), or the name of a run that was launched from here. What was recorded is
    /// shown as it was written: nothing is priced again.
    Report(Box<ReportArguments>),
    /// Rent the recommended machines and run the command there to its end
    Launch(Box<LaunchArguments>),
    /// Go on leading a run whose `launch` ended before the run did
    Watch(WatchArguments),
    /// Lead a run that was launched on another computer
    #[command(name = "take-over", alias = "adopt")]
    TakeOver(AdoptArguments),
    /// Start a stopped, failed or refused run again from its latest checkpoint
    #[command(name = "restart", alias = "resume")]
    Restart(ResumeArguments),
    /// Show what is running, where, and what it has cost
    Status(StatusArguments),
    /// Show what runs have cost, how much was wasted, and how the clouds' bills compare
    Costs(Box<CostsArguments>),
    /// Print the output of a run so far
    Logs(LogsArguments),
    /// Download the latest checkpoint of a run
    #[command(name = "download", alias = "fetch")]
    Download(DownloadArguments),
    /// Read every checkpoint that a run keeps, and say which can be restored
    Verify(VerifyArguments),
    /// Open a shell on a machine of a run
    Ssh(SshArguments),
    /// Run a command on a machine of a run
    Exec(ExecArguments),
    /// Copy files to or from a machine of a run
    Cp(CopyArguments),
    /// Reach ports of a machine of a run, such as TensorBoard's
    Forward(ForwardArguments),
    /// Terminate every machine of a run and keep what it saved
    Stop(StopArguments),
    /// Terminate every machine of a run and delete what it saved
    #[command(name = "delete", alias = "down")]
    Delete(DownArguments),
    /// Find machines that belong to no known run, and terminate them
    Gc(GcArguments),
    /// Run a training command so that no checkpoint is lost: restore, upload, resume
    Agent(Box<AgentArguments>),
    /// Serve an AI agent: plans and prices as tools (Model Context Protocol)
    Mcp,
    /// List the catalog, check it, or renew it
    Catalog {
        #[command(subcommand)]
        what: CatalogCommand,
    },
    /// Print a completion script for a shell
    Completions {
        /// Write the script for this shell
        shell: Shell,
    },
    /// Print the manual page, or write one page per command into a folder
    Man {
        /// Write one page per command into this folder
        #[arg(long, value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

pub fn dispatch(command: &Command, session: &Session) -> Result<ExitCode, Diagnostic> {
    if session.markdown && !matches!(command, Command::Budget(_) | Command::Diff(_)) {
        return Err(Diagnostic::usage("only `budget` and `diff` print Markdown").hint("--output json"));
    }
    let exit = match command {
        // Their exit codes may be those of the programs that they run.
        Command::Agent(arguments) => return Ok(agent::run(arguments, session.offline, &session.printer)),
        Command::Profile { what } => return profile::run(what, session),
        Command::Init(arguments) => init::run(arguments, session),
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
        Command::TakeOver(arguments) => adopt::run(arguments, session),
        Command::Restart(arguments) => lead::resume(arguments, session),
        Command::Costs(arguments) => costs::run(arguments, session),
        Command::Status(arguments) => status::run(arguments, session),
        Command::Logs(arguments) => logs::run(arguments, session),
        Command::Download(arguments) => download::run(arguments, session),
        Command::Verify(arguments) => verify::run(arguments, session),
        Command::Ssh(arguments) => access::ssh(arguments, session),
        Command::Exec(arguments) => access::exec(arguments, session),
        Command::Cp(arguments) => copying::copy(arguments, session),
        Command::Forward(arguments) => access::forward(arguments, session),
        Command::Stop(arguments) => stop::stop(arguments, session),
        Command::Delete(arguments) => stop::down(arguments, session),
        Command::Gc(arguments) => stop::gc(arguments, session),
        Command::Simulate(arguments) => simulate::run(arguments, session),
        Command::Mcp => mcp::run(Arguments::command(), session),
        Command::Catalog { what } => list::run(what, session),
        Command::Completions { shell } => manual::completions(*shell, help::program(Arguments::command()), session),
        Command::Man { folder } => manual::pages(folder.as_deref(), help::program(Arguments::command()), session),
    }?;
    Ok(exit.into())
}
