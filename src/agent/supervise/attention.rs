//! What the supervisor hears and sees while the program runs, and what it does about it.

use std::fs;
use std::mem;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::json;

use crate::checkpoint::restore::Restored;
use crate::event::Event;
use crate::ports::notice::{Notice, Urgency, grace, sending};
use crate::ports::notify::{Message, Occasion};
use crate::process::program::Program;
use crate::process::tree;
use crate::rules::caps::Caps;
use crate::rules::improvement::ImprovementTracker;
use crate::rules::outcome::{Exit, StopReason};
use crate::rules::stall::{OnStall, Signs};
use crate::state::with;
use crate::supervise::supervisor::Supervisor;
use gpuplan_runstore::{Leaving, Phase};
use gpuplan_units::Bytes;

/// Between two looks at caps and progress.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// Between two looks at the table of processes, to collect orphans that ended and to see who works.
const TABLE: Duration = Duration::from_secs(5);
/// Warnings that a status shows.
const MOST_WARNINGS: usize = 8;
/// Room for another checkpoint with what a file system needs beside it, as a share of the last one. Judged.
const ROOM: f64 = 1.2;

impl Supervisor {
    pub(super) fn handle(&mut self, event: Event, program: Option<&Program>) {
        match event {
            Event::Notice { notice, by_cloud } => {
                with(&self.life.state, |state| state.is_taken |= by_cloud && notice.urgency == Urgency::Leave);
                self.handle_notice(&notice, program);
            }
            Event::PeerLeaves { node, leaving } => {
                let asked = match (leaving.is_cap, leaving.is_stall) {
                    (true, _) => StopReason::Cap,
                    (_, true) => StopReason::Stall,
                    _ => StopReason::Interruption,
                };
                let left = Duration::try_from_secs_f64(leaving.seconds_left)
                    .unwrap_or_default()
                    .max(self.settings.program.grace);
                if self.ending.exit.is_some_and(|exit| exit != Exit::Code(0)) {
                    // Whose program failed has told the others, and hears the echo. How it ended stands; what they have not sent when they
                    // are gone never comes.
                    let by = Instant::now() + left;
                    self.ending.leave_by = Some(self.ending.leave_by.map_or(by, |known| known.min(by)));
                    return;
                }
                self.drain(asked, &format!("node {node}: {}", leaving.from), left, program);
            }
            Event::Fenced => {
                self.logger
                    .say("another owner has taken over this run: the program is killed, nothing more is written");
                self.ending.reason = Some(StopReason::Fenced);
                self.ending.kill_at = Some(Instant::now());
            }
            // Only while the program runs does that change what is watched.
            Event::SavesIn(_) => {}
            Event::Committed(name) => self.logger.say(&format!("step {} is safe", name.step)),
            Event::Warning(text) => {
                self.logger.say(&format!("warning: {text}"));
                with(&self.life.state, |state| {
                    state.warnings.push(format!("{} {text}", Timestamp::now()));
                    let surplus = state.warnings.len().saturating_sub(MOST_WARNINGS);
                    state.warnings.drain(..surplus);
                });
            }
        }
    }

    fn handle_notice(&mut self, notice: &Notice, program: Option<&Program>) {
        let left = notice.left.unwrap_or(self.settings.program.grace);
        let seconds = left.as_secs_f64();
        let deadline = Timestamp::now().checked_add(jiff::SignedDuration::try_from(left).unwrap_or_default()).ok();
        let told =
            json!({"urgency": notice.urgency, "from": notice.from, "seconds_left": seconds, "deadline": deadline});
        let file = self.own_folder_of(self.life.rank.node).join("notice.json");
        // The program gets its signal in any case.
        let _ = fs::write(file.with_extension("new"), told.to_string())
            .and_then(|()| fs::rename(file.with_extension("new"), file));
        let (run, name) =
            (self.life.run.clone(), format!("e{}-notice-{}", self.life.epoch, Timestamp::now().as_millisecond()));
        tokio::spawn(async move { run.event(&name, &told).await });
        if notice.urgency == Urgency::Advice {
            self.logger.say(&format!("{}: the machine is at risk; the program goes on", notice.from));
            return;
        }
        self.drain(StopReason::Interruption, &notice.from, left, program);
    }

    /// Asks the program to save and end. Asked twice it is not signalled twice, but a shorter deadline counts.
    fn drain(&mut self, asked: StopReason, why: &str, left: Duration, program: Option<&Program>) {
        let (bytes, rate) = with(&self.life.state, |state| {
            state.phase = Some(Phase::Draining);
            (state.checkpoints.newest_bytes, state.checkpoints.upload_bytes_per_second)
        });
        let (now, is_first) = (Instant::now(), self.ending.reason.is_none());
        let kill_at = now + grace(left, bytes, rate);
        if !is_first && self.ending.leave_by.is_some_and(|by| by <= now + left) {
            return;
        }
        (self.ending.kill_at, self.ending.leave_by) = (Some(kill_at), Some(now + left));
        self.logger.say(&format!(
            "{why}: {:.0} s left, the program has {:.0} s of them",
            left.as_secs_f64(),
            (kill_at - now).as_secs_f64()
        ));
        if is_first {
            self.ending.reason = Some(asked);
            // Programs of a team may tell each other to stop, so the agents are told first.
            self.warn_team(Some(asked), why, left);
            if let Some(program) = program {
                program.ask_to_end(self.settings.program.signal);
            }
            self.notify(Occasion::Interrupted, &format!("{why}: the program saves and ends"));
        }
    }

    /// All machines save at the same time: a step that only some have saved cannot be restored. Nobody asked for a failure.
    pub(super) fn warn_team(&self, asked: Option<StopReason>, why: &str, left: Duration) {
        let rank = self.life.rank;
        if !rank.is_alone() {
            let leaving = Leaving {
                from: why.to_owned(),
                seconds_left: left.as_secs_f64(),
                is_cap: asked == Some(StopReason::Cap),
                is_stall: asked == Some(StopReason::Stall),
                is_failure: asked.is_none(),
            };
            let (run, epoch) = (self.life.run.clone(), self.life.epoch);
            tokio::spawn(async move { run.leave(epoch, rank.node, &leaving).await });
        }
    }

    pub(super) fn check(&mut self, program: Option<&Program>) {
        self.read_progress();
        if self.monitors.processes_seen_at.elapsed()
            >= self.settings.stall.after.map_or(TABLE, |stall| TABLE.min(stall / 4))
        {
            let processor = tree::tend(program.and_then(Program::pid), &mut self.monitors.strangers);
            self.monitors.processes_seen_at = Instant::now();
            if program.is_some() && self.ending.reason.is_none() {
                self.check_for_stall(processor, program);
                self.check_improvement();
            }
        }
        if program.is_some() {
            self.sample_machine();
        }
        if self.ending.reason.is_some() {
            return;
        }
        let (spent, is_known) = (self.heartbeat().spent_at_least(), self.heartbeat().spent().is_some());
        with(&self.life.state, |state| state.spending.at_least = spent);
        let passed = self.settings.caps.passed(spent);
        if passed > self.warned.budget_percent
            && let Some((percent, spent)) = passed.zip(spent)
        {
            self.warned.budget_percent = passed;
            let at_least = if is_known { "" } else { "at least " };
            let text = format!("{at_least}{percent} % of the budget are spent (${spent})");
            self.logger.say(&text);
            self.notify(Occasion::Budget, &text);
        }
        let (alive, sending) = (self.life.begun.elapsed(), self.sending());
        let term = with(&self.life.state, |state| state.lease_ends).zip(self.settings.lease.as_ref());
        let of_term = term.and_then(|(ends, lease)| Caps::term_ends(ends, lease.term, alive, sending));
        let ends = self.settings.caps.ends(alive, sending).into_iter().chain(of_term).min();
        if let Some(left) = ends {
            self.drain(StopReason::Cap, "the lease of this machine ends", left, program);
        } else if let Some(why) = self.settings.caps.reached(spent, alive) {
            self.drain(StopReason::Cap, &why, self.settings.program.grace, program);
        } else if self.settings.notices.file.as_ref().is_some_and(|file| file.exists()) {
            let from = "notice file".to_owned();
            self.handle_notice(&Notice { urgency: Urgency::Leave, from, left: None }, program);
        }
    }

    /// How long the checkpoint that is saved at the end takes to be sent.
    fn sending(&self) -> Duration {
        with(&self.life.state, |state| {
            sending(state.checkpoints.newest_bytes, state.checkpoints.upload_bytes_per_second)
        })
    }

    fn check_for_stall(&mut self, processor: Duration, program: Option<&Program>) {
        self.warn_of_lost_output();
        let signs = with(&self.life.state, |state| Signs {
            step: state.progress,
            committed: state.checkpoints.committed,
            output_bytes: state.output.bytes,
            processor,
        });
        let silent = self.monitors.stall.check(self.life.begun.elapsed(), signs);
        let stall = &self.monitors.stall;
        with(&self.life.state, |state| {
            state.busy_at = state.busy_at.max(stall.alive());
            state.wrote_at = state.wrote_at.max(stall.wrote());
        });
        let Some(silent) = silent else { return };
        let text = format!("no step, checkpoint, output or work of a processor for {:.0} s", silent.as_secs_f64());
        self.handle(Event::Warning(text.clone()), None);
        self.notify(Occasion::Stalled, &text);
        match self.settings.stall.action {
            OnStall::Warn => {}
            OnStall::Stop => {
                self.ending.why.get_or_insert_with(|| format!("stalled: {text}"));
                self.drain(StopReason::Stall, "stalled, and --on-stall stop", self.settings.program.grace, program);
            }
            OnStall::Kill => {
                self.logger.say("the program is killed, as --on-stall kill says");
                self.ending.kill_at = Some(Instant::now());
            }
        }
    }

    pub(super) fn warn_of_lost_output(&mut self) {
        if with(&self.life.state, |state| mem::take(&mut state.output.is_lost))
            && !mem::replace(&mut self.warned.output_is_lost, true)
        {
            self.handle(
                Event::Warning(
                    "not all of the program's output could be kept: the log in the store has gaps".to_owned(),
                ),
                None,
            );
        }
    }

    fn check_improvement(&mut self) {
        let Some(advice) =
            with(&self.life.state, |state| state.improvement.as_mut().and_then(ImprovementTracker::advice))
        else {
            return;
        };
        self.logger.say(&format!("advice: {}", advice.words()));
        self.notify(Occasion::Advice, &advice.words());
    }

    fn sample_machine(&mut self) {
        let (step, needed) = with(&self.life.state, |state| (state.progress, state.checkpoints.newest_bytes));
        let Some(update) = self.monitors.sampler.sample(step) else { return };
        if let Some(why) = update.absent {
            self.logger.say(&format!("no GPU counters, since {why}; the host's alone are sampled"));
        }
        for finding in update.new_findings {
            self.logger.say(&format!(
                "finding {}: {}. Advice: {}",
                finding.rule.word(),
                finding.evidence,
                finding.advice
            ));
        }
        let (findings, free) = (self.monitors.sampler.findings(), self.free_bytes());
        with(&self.life.state, |state| {
            (state.machine.sample, state.machine.findings, state.machine.disk_free_bytes) =
                (Some(update.sample), findings, free);
        });
        let is_short = free.is_some_and(|free| (free as f64) < needed as f64 * ROOM);
        if is_short && !mem::replace(&mut self.warned.is_short_of_disk, true) {
            let (free, needed) = (Bytes(free.unwrap_or(0) as f64), Bytes(needed as f64));
            self.handle(
                Event::Warning(format!("the disk has {free} left and the last checkpoint took {needed}: make room")),
                None,
            );
        }
    }

    /// Room for checkpoints; `None` where the file system does not say.
    fn free_bytes(&self) -> Option<u64> {
        rustix::fs::statvfs(&self.settings.checkpoints.folder)
            .ok()
            .map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// Tells people elsewhere. Nothing depends on it, and only the end of a run waits for it, for a few seconds.
    pub(super) fn notify(&mut self, event: Occasion, text: &str) {
        let Some(notifier) = self.settings.notifier.clone() else { return };
        let (run, epoch, node) = (self.life.run.name().to_owned(), self.life.epoch, self.life.rank.node);
        let spent_usd = self.heartbeat().spent();
        let text = format!("gpuplan run {run}, epoch {epoch}: {text}");
        let message = Message { event, run, epoch, node, text, spent_usd };
        let events = self.life.events.clone();
        self.notifications.spawn(async move {
            if let Err(why) = notifier.notify(&message).await {
                let _ = events.try_send(Event::Warning(format!("nobody was notified: {why}")));
            }
        });
    }

    pub(super) fn notify_started(&mut self, restored: &Restored, starts: u32) {
        let from = restored.name.map_or_else(|| "nothing committed".to_owned(), |name| format!("step {}", name.step));
        self.notify(Occasion::Started, &format!("start {starts} of the program, from {from}"));
    }

    pub(super) fn read_progress(&self) {
        let text = fs::read_to_string(self.own_folder_of(self.life.rank.node).join("progress"));
        if let Some(step) = text.ok().and_then(|text| text.trim().parse().ok()) {
            with(&self.life.state, |state| state.progress = Some(step));
        }
    }

    /// Too little room for another checkpoint like the last.
    pub(super) fn disk_is_full(&self) -> bool {
        let needed = with(&self.life.state, |state| state.checkpoints.newest_bytes);
        self.free_bytes().is_some_and(|free| free < needed.max(1))
    }

    /// Waits for the work, and gives it up when the run has to end.
    pub(super) async fn unless_stopping<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        let mut tick = tokio::time::interval(TICK);
        while self.ending.reason.is_none() {
            tokio::select! {
                done = &mut work => return Some(done),
                Some(event) = self.events.recv() => self.handle(event, None),
                _ = tick.tick() => self.check(None),
            }
        }
        None
    }
}
