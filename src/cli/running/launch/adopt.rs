//! `adopt`: a run whose journal is lost, or lies with somebody else, is known here again.

use clap::Args;

use crate::runs::journal::open_journal;
use crate::runs::launchers::{clock, launchers_of_run, list_machines};
use crate::runs::store::open_store;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::runtime::runtime;
use gpuplan_launch::journal::Adopted;
use gpuplan_launch::rental::Rental;
use gpuplan_launch::{Clock, Machine, MachineId, MachineState, Rentable, RunSpec};
use gpuplan_runstore::Billed;

/// Epochs that a lost journal may have ordered without a trace in store or clouds: refused everywhere, or gone before a word.
const UNSEEN_EPOCHS: u64 = 1000;

#[derive(Debug, Args)]
pub struct AdoptArguments {
    /// Name the run
    pub run: String,
    /// Find its checkpoints here
    #[arg(long, value_name = "URI")]
    pub store: String,
}

pub fn run(arguments: &AdoptArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let (run, runtime) = (open_store(&arguments.store, &arguments.run)?, runtime()?);
    let text = runtime.block_on(run.spec())?;
    let text = text.ok_or_else(|| {
        Diagnostic::usage(format!("{} has no run `{}`", arguments.store, arguments.run))
            .hint("gpuplan adopt RUN --store URI")
    })?;
    let spec = RunSpec::read(&text).map_err(|error| {
        Diagnostic::usage(format!("`{}` was not launched by `gpuplan launch`: {error}", arguments.run))
    })?;
    let mut machines = Vec::new();
    for (cloud, answer) in list_machines(&launchers_of_run(&spec, session)?, Some(&arguments.run))? {
        let answer = answer.map_err(|error| {
            Diagnostic::new(
                Exit::CloudRefused,
                format!("{cloud} does not report which machines run, and nothing was adopted: {error}"),
            )
            .hint("gpuplan doctor")
        })?;
        machines.extend(answer);
    }
    let billed = runtime.block_on(run.billed_all())?;
    let epoch = runtime.block_on(run.highest_epoch())?;
    let adopted = adopted(spec, &machines, &billed, epoch);
    let (alive, earlier) = (adopted.machines.len(), adopted.earlier.len());
    if !open_journal(session)?.adopt(&adopted)? {
        return Err(Diagnostic::usage(format!("the journal on this machine already has a run `{}`", arguments.run))
            .hint("gpuplan status"));
    }
    session.printer.note(&format!("hint: gpuplan watch {} resumes leading it", arguments.run));
    session
        .printer
        .data(&format!("{}: adopted, {alive} machines are there, {earlier} were paid before\n", arguments.run))
}

fn adopted(spec: RunSpec, machines: &[Machine], billed: &[Billed], highest_epoch: u64) -> Adopted {
    let clock = clock(&spec);
    let mut alive = Vec::new();
    for machine in machines.iter().filter(|machine| machine.state != MachineState::Gone) {
        let known = spec.places().find(|offered| offered.pool == machine.pool).or_else(|| spec.places().next());
        if let Some(offered) = known {
            let choice = Rentable { pool: machine.pool.clone(), ..offered.choice() };
            alive.push((machine.clone(), choice, clock.of(machine.created_at)));
        }
    }
    let first_alive = alive.iter().map(|(machine, _, _)| machine.created_at).min();
    let is_earlier = |billed: &&Billed| first_alive.is_none_or(|first| billed.from < first);
    let earlier =
        billed.iter().filter(is_earlier).map(|billed| (billed.epoch, billed.node, rental(billed, &clock))).collect();
    let epochs = machines.iter().map(|machine| machine.epoch);
    let epoch = match alive.iter().map(|(machine, _, _)| machine.epoch).max() {
        // Never two gangs at a time: what is there is the newest.
        Some(epoch) => epoch,
        None => epochs.max().unwrap_or(0).max(highest_epoch) + UNSEEN_EPOCHS,
    };
    let pool = alive.first().map(|(machine, _, _)| machine.pool.clone());
    Adopted { spec, machines: alive, earlier, epoch, pool }
}

/// As the agent measured it: from its start, not from the order.
fn rental(billed: &Billed, clock: &Clock) -> Rental {
    let since = clock.of(billed.from);
    Rental {
        machine: MachineId(format!("epoch {} node {}", billed.epoch, billed.node)),
        rate: billed.rate_usd_per_hour,
        minimum_seconds: billed.minimum_seconds,
        since,
        until: Some(since + billed.elapsed_nanos as f64 / 1e9 * clock.speed),
    }
}
