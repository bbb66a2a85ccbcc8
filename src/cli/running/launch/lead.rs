//! Leading a run to its end: a new one, or one that was left.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::watch;

use crate::finance::entries;
use crate::running::launch::{capacity_block, keep_alive};
use crate::runs::groups;
use crate::runs::journal::{open_journal, unknown_run};
use crate::runs::launchers::{Launchers, clock, exit_of, forget, launchers_of_run};
use crate::runs::leader::{led_elsewhere, this_leader};
use crate::runs::store::store_of_run;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::printer::Printer;
use crate::session::progress::with_progress;
use crate::session::runtime::runtime;
use gpuplan_agent::{Message, Occasion};
use gpuplan_clouds::reader::Reader;
use gpuplan_launch::execute::LeadError;
use gpuplan_launch::{End, Journal, LaunchError, LeadContext, LeaderCommand, Progress, RunSpec, lead};
use gpuplan_report::text::format::usd;
use gpuplan_runstore::Run;
use gpuplan_spot::AvailabilityModel;
use gpuplan_spot::policy::Policy;
use gpuplan_units::Usd;

/// Nobody waits longer until a message has arrived.
const NOTIFYING: Duration = Duration::from_secs(10);
/// Between two redraws of the progress line.
const TICK: Duration = Duration::from_millis(250);

#[derive(Debug, Args)]
pub struct WatchArguments {
    /// Name the run
    pub run: String,
    /// Print a systemd unit that leads the run whenever this user is signed in
    #[arg(long)]
    pub unit: bool,
    /// Lead the run although another machine does, which then stops leading
    #[arg(long)]
    pub take_over: bool,
}

#[derive(Debug, Args)]
pub struct ResumeArguments {
    /// Name the run
    pub run: String,
    /// Spend at most this much on the run, with what it has cost before [default: what was agreed to at its launch]
    #[arg(long, value_name = "USD")]
    pub budget: Option<String>,
    /// Lead the run although another machine does, which then stops leading
    #[arg(long)]
    pub take_over: bool,
}

/// Resumes leading a run, from what the journal knows.
pub fn watch(arguments: &WatchArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let mut journal = open_journal(session)?;
    let kept = journal.run(&arguments.run)?;
    let kept = kept.ok_or_else(|| unknown_run(&arguments.run))?;
    if arguments.unit {
        return unit(&arguments.run, &session.printer);
    }
    if let Some(end) = kept.end {
        return Err(Diagnostic::usage(format!("the run `{}` has already ended: {end}", arguments.run))
            .hint(format!("gpuplan restart {}", arguments.run))
            .hint("gpuplan status"));
    }
    if groups::is_kept(&kept, &journal)? {
        return keep_alive::hand_over(
            &kept.spec,
            &launchers_of_run(&kept.spec, session)?,
            &mut journal,
            session,
            false,
        );
    }
    let policy = kept.spec.policy(&AvailabilityModel::prior());
    let launchers = launchers_of_run(&kept.spec, session)?;
    lead_run(&kept.spec, policy, launchers, &mut journal, arguments.take_over, session)
}

/// Leads a run again that was stopped, failed or refused: it goes on from its newest checkpoint.
pub fn resume(arguments: &ResumeArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let mut journal = open_journal(session)?;
    let kept = journal.run(&arguments.run)?;
    let kept = kept.ok_or_else(|| unknown_run(&arguments.run))?;
    match kept.end.as_deref() {
        None if groups::is_kept(&kept, &journal)? => {
            return Err(Diagnostic::usage(format!(
                "{} is kept alive by its cloud, and needs no resume",
                arguments.run
            ))
            .hint(format!("gpuplan watch {}", arguments.run)));
        }
        None => {}
        Some("completed") => {
            return Err(Diagnostic::usage(format!("the run `{}` is completed", arguments.run))
                .hint(format!("gpuplan download {}", arguments.run)));
        }
        Some(_) => journal.reopen(&arguments.run)?,
    }
    let mut spec = kept.spec;
    if let Some(budget) = &arguments.budget {
        let budget = Usd::parse(budget).map_err(|error| Diagnostic::usage(&error).hint("--budget 500"))?;
        spec = RunSpec { budget_usd: Some(budget), ..spec };
        journal.amend(&spec)?;
    }
    let policy = spec.policy(&AvailabilityModel::prior());
    let launchers = launchers_of_run(&spec, session)?;
    lead_run(&spec, policy, launchers, &mut journal, arguments.take_over, session)
}

/// A unit of the user's own systemd: restarted when it dies, not when the run has ended.
fn unit(run: &str, printer: &Printer) -> Result<Exit, Diagnostic> {
    let program = std::env::current_exe().map_err(Diagnostic::unexpected)?;
    printer.note(&format!(
        "# save as ~/.config/systemd/user/gpuplan-{run}.service, then: systemctl --user enable --now gpuplan-{run}"
    ));
    printer.data(&format!(
        "[Unit]\nDescription=gpuplan leads the run {run}\nAfter=network-online.target\n\n[Service]\nExecStart={} watch {run}\n\
         # A run that has ended says so with exit code 2; any other end is tried again.\n\
         Restart=on-failure\nRestartSec=30\nRestartPreventExitStatus=2 4 6 7 8\n\n[Install]\nWantedBy=default.target\n",
        program.display()
    ))
}

pub fn lead_run(
    spec: &RunSpec,
    policy: Policy,
    launchers: Launchers,
    journal: &mut Journal,
    take_over: bool,
    session: &Session,
) -> Result<Exit, Diagnostic> {
    let spec = &capacity_block::find_reservation(spec.clone(), &launchers, journal)?;
    if !capacity_block::until_it_starts(spec, journal, &session.printer)? {
        return session.printer.data(&format!("{}: stopped\n", spec.run));
    }
    let store = store_of_run(spec)?;
    let leave = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let end = led(spec, policy, &launchers, journal, take_over, session, leave)?;
    if let Ok(Some(End::Completed)) = end {
        forget(spec, &launchers, &session.printer)?;
    }
    conclude(end, spec, &store, session)
}

/// Leads until the run ends, until Ctrl-C, or until `enough` is there; `None`: it was left.
pub fn lead_until(
    spec: &RunSpec,
    policy: Policy,
    launchers: Launchers,
    journal: &mut Journal,
    take_over: bool,
    session: &Session,
    enough: impl Future<Output = ()> + Send + 'static,
) -> Result<Option<End>, Diagnostic> {
    let leave = async {
        tokio::select! {
            () = enough => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    led(spec, policy, &launchers, journal, take_over, session, leave)?.map_err(Diagnostic::unexpected)
}

fn led(
    spec: &RunSpec,
    policy: Policy,
    launchers: &Launchers,
    journal: &mut Journal,
    take_over: bool,
    session: &Session,
    leave: impl Future<Output = ()> + Send + 'static,
) -> Result<Result<Option<End>, LeadError>, Diagnostic> {
    let (wish, wishes) = watch::channel(LeaderCommand::GoOn);
    let store = store_of_run(spec)?;
    let bar = bar(&session.printer);
    let stands = Mutex::new("checking the run".to_owned());
    let wiring = LeadContext {
        launchers,
        journal,
        store: &store,
        policy,
        clock: clock(spec),
        by: this_leader(),
        take_over,
        say: &|line| bar.suspend(|| session.printer.note(&format!("gpuplan: {line}"))),
        show: &|standing| {
            bar.set_message(words(standing));
            // A reader that died left whole words behind.
            *stands.lock().unwrap_or_else(PoisonError::into_inner) = words(standing);
        },
        wish: wishes,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(Diagnostic::unexpected)?;
    let leading = async {
        tokio::spawn(async move {
            leave.await;
            let _ = wish.send(LeaderCommand::Leave);
            // The sender lives as long as the run is led.
            std::future::pending::<()>().await;
        });
        lead(spec, wiring).await
    };
    let end = if session.printer.stderr_is_terminal() {
        // The line moves by itself.
        runtime.block_on(leading)
    } else {
        with_progress(
            &session.printer,
            || stands.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            || runtime.block_on(leading),
        )
    };
    bar.finish_and_clear();
    Ok(end)
}

/// What the end of leading means for the run, which may go on without.
fn conclude(
    end: Result<Option<End>, LeadError>,
    spec: &RunSpec,
    store: &Run,
    session: &Session,
) -> Result<Exit, Diagnostic> {
    let run = &spec.run;
    // Whatever stopped the leading, machines that were rented go on until they end themselves.
    let left = |why: String| {
        let left = Diagnostic::new(Exit::MayStillCost, why).hint(format!("gpuplan watch {run}"));
        Err(left.hint(format!("gpuplan stop {run}")))
    };
    match end {
        Err(error @ LeadError::Followed) => {
            session.printer.note(&format!("gpuplan: {run}: {error}"));
            Ok(Exit::Done)
        }
        Err(error @ LeadError::LedElsewhere { .. }) => Err(led_elsewhere(run, &error)),
        Err(error) => left(format!("the run `{run}` is no longer led, and its machines keep running: {error}")),
        Ok(None) => left(format!(
            "the run `{run}` is no longer led: its machines keep running, and are not replaced when interrupted"
        )),
        Ok(Some(end)) => {
            entries::enter_ended_run(store, session);
            if end == End::Completed && spec.job.sweep.is_none() {
                say_where_nothing_is_kept(store, run, &session.printer);
            }
            let reported = report_end(&end, run, &session.printer);
            if let (Err(diagnostic), Some(url)) = (&reported, &spec.job.notify)
                && let Err(why) = notify(url, run, &diagnostic.message)
            {
                session.printer.warning(&format!("nobody was notified of the end of {run}: {why}"));
            }
            reported
        }
    }
}

/// A script that went on after what failed in it ends with 0 as well, and one that saves out of sight leaves nothing.
fn say_where_nothing_is_kept(store: &Run, run: &str, printer: &Printer) {
    let kept = runtime().ok().and_then(|runtime| runtime.block_on(store.restore_order()).ok());
    if kept.is_some_and(|kept| kept.is_empty()) {
        printer.warning(&format!(
            "the command of {run} ended with 0, and no checkpoint of it was seen: `gpuplan logs {run}` shows what it said, and `--checkpoints DIR` names \
             where a program saves"
        ));
    }
}

/// Agents tell how their programs ended; that no machine is rented any more, none is left to tell.
fn notify(url: &str, run: &str, why: &str) -> Result<(), String> {
    let text = format!("gpuplan leads no more: {why}");
    let message = Message { event: Occasion::Finished, run: run.to_owned(), epoch: 0, node: 0, text, spent_usd: None };
    let reader = Reader::parse(url)?.notifier()?;
    let runtime = runtime().map_err(|error| error.message)?;
    let told = runtime.block_on(async { tokio::time::timeout(NOTIFYING, reader.notify(&message)).await });
    told.unwrap_or_else(|_| Err(format!("no answer within {} s", NOTIFYING.as_secs())))
}

/// Where the run stands, in a line of its own while somebody looks; elsewhere it is said again and again.
fn bar(printer: &Printer) -> ProgressBar {
    if !printer.stderr_is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise}  {wide_msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(TICK);
    bar
}

fn words(standing: &Progress) -> String {
    let safe = standing.done.map_or("no checkpoint yet".to_owned(), |done| format!("{:.0} % safe", done * 100.0));
    format!("{safe}, {} spent: {}", usd(standing.spent), standing.what)
}

fn report_end(end: &End, run: &str, printer: &Printer) -> Result<Exit, Diagnostic> {
    match end {
        End::Completed => printer.data(&format!("{run}: completed\n")),
        End::Stopped => printer.data(&format!("{run}: stopped\n")),
        End::OutOfBudget => {
            let why = format!("{run}: what it may cost is spent or granted; what was saved is kept");
            Err(Diagnostic::new(Exit::OverBudget, why).hint(format!("gpuplan resume {run} --budget USD")))
        }
        End::Failed(why) => {
            Err(Diagnostic::unexpected(format!("{run}: the command failed: {why}")).hint(format!("gpuplan logs {run}")))
        }
        End::Refused { refusal, place } => {
            let hint = if let LaunchError::NotSetUp { command, .. } = refusal { command } else { "gpuplan doctor" };
            Err(Diagnostic::new(exit_of(refusal), format!("{run}: {place}: {refusal}")).hint(hint))
        }
    }
}
