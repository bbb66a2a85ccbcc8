//! What the supervisor hears and sees while the program runs, and what it does about it.

use std::fs;
use std::mem;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::json;

use crate::event::Event;
use crate::notice::{Notice, Urgency, grace};
use crate::notify::{Message, Occasion};
use crate::outcome::{Asked, Exit};
use crate::program::Program;
use crate::pulse::with;
use crate::restore::Restored;
use crate::stall::{OnStall, Signs};
use crate::supervise::supervisor::Supervisor;
use crate::tree;
use crate::worth::Worth;
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
    pub(super) fn hear(&mut self, event: Event, program: Option<&Program>) {
        match event {
            Event::Notice { notice, by_cloud } => {
                with(&self.pulse, |pulse| pulse.is_taken |= by_cloud && notice.urgency == Urgency::Leave);
                self.heed(&notice, program);
            }
            Event::PeerLeaves { node, leaving } => {
                let asked = if leaving.is_cap { Asked::Cap } else { Asked::Interruption };
                let left =
                    Duration::try_from_secs_f64(leaving.seconds_left).unwrap_or_default().max(self.settings.grace);
                if self.exit.is_some_and(|exit| exit != Exit::Code(0)) {
                    // Whose program failed has told the others, and hears the echo. How it ended stands; what they have not sent when they
                    // are gone never comes.
                    let by = Instant::now() + left;
                    self.ending.leave_by = Some(self.ending.leave_by.map_or(by, |known| known.min(by)));
                    return;
                }
                self.drain(asked, &format!("node {node}: {}", leaving.from), left, program);
            }
            Event::Fenced => {
                self.talk.say("another owner has taken over this run: the program is killed, nothing more is written");
                self.ending.asked = Some(Asked::Fenced);
                self.ending.kill_at = Some(Instant::now());
            }
            Event::Committed(name) => self.talk.say(&format!("step {} is safe", name.step)),
            Event::Warning(text) => {
                self.talk.say(&format!("warning: {text}"));
                with(&self.pulse, |pulse| {
                    pulse.warnings.push(format!("{} {text}", Timestamp::now()));
                    let surplus = pulse.warnings.len().saturating_sub(MOST_WARNINGS);
                    pulse.warnings.drain(..surplus);
                });
            }
        }
    }

    fn heed(&mut self, notice: &Notice, program: Option<&Program>) {
        let left = notice.left.unwrap_or(self.settings.grace);
        let seconds = left.as_secs_f64();
        let deadline = Timestamp::now().checked_add(jiff::SignedDuration::try_from(left).unwrap_or_default()).ok();
        let told =
            json!({"urgency": notice.urgency, "from": notice.from, "seconds_left": seconds, "deadline": deadline});
        let file = self.own_folder_of(self.settings.place.node).join("notice.json");
        // The program gets its signal in any case.
        let _ = fs::write(file.with_extension("new"), told.to_string())
            .and_then(|()| fs::rename(file.with_extension("new"), file));
        let (run, name) =
            (self.settings.run.clone(), format!("e{}-notice-{}", self.epoch, Timestamp::now().as_millisecond()));
        tokio::spawn(async move { run.event(&name, &told).await });
        if notice.urgency == Urgency::Advice {
            self.talk.say(&format!("{}: the machine is at risk; the program goes on", notice.from));
            return;
        }
        self.drain(Asked::Interruption, &notice.from, left, program);
    }

    /// Asks the program to save and end. Asked twice it is not signalled twice, but a shorter deadline counts.
    fn drain(&mut self, asked: Asked, why: &str, left: Duration, program: Option<&Program>) {
        let (bytes, rate) = with(&self.pulse, |pulse| {
            pulse.phase = Some(Phase::Draining);
            (pulse.checkpoint_bytes, pulse.upload_bytes_per_second)
        });
        let (now, is_first) = (Instant::now(), self.ending.asked.is_none());
        let kill_at = now + grace(left, bytes, rate);
        if !is_first && self.ending.leave_by.is_some_and(|by| by <= now + left) {
            return;
        }
        (self.ending.kill_at, self.ending.leave_by) = (Some(kill_at), Some(now + left));
        self.talk.say(&format!(
            "{why}: {:.0} s left, the program has {:.0} s of them",
            left.as_secs_f64(),
            (kill_at - now).as_secs_f64()
        ));
        if is_first {
            self.ending.asked = Some(asked);
            // Programs of a team may tell each other to stop, so the agents are told first.
            self.warn_the_others(Some(asked), why, left);
            if let Some(program) = program {
                program.ask_to_end(self.settings.signal);
            }
            self.tell(Occasion::Interrupted, &format!("{why}: the program saves and ends"));
        }
    }

    /// All machines save at the same time: a step that only some have saved cannot be restored. Nobody asked for a failure.
    pub(super) fn warn_the_others(&self, asked: Option<Asked>, why: &str, left: Duration) {
        let place = self.settings.place;
        if !place.is_alone() {
            let (is_cap, is_failure) = (asked == Some(Asked::Cap), asked.is_none());
            let leaving = Leaving { from: why.to_owned(), seconds_left: left.as_secs_f64(), is_cap, is_failure };
            let (run, epoch) = (self.settings.run.clone(), self.epoch);
            tokio::spawn(async move { run.leave(epoch, place.node, &leaving).await });
        }
    }

    pub(super) fn look(&mut self, program: Option<&Program>) {
        self.read_progress();
        if self.looked.elapsed() >= self.settings.stall.map_or(TABLE, |stall| TABLE.min(stall / 4)) {
            let processor = tree::tend(program.and_then(Program::pid), &mut self.strangers);
            self.looked = Instant::now();
            if program.is_some() && self.ending.asked.is_none() {
                self.look_for_life(processor, program);
                self.look_for_worth();
            }
        }
        if program.is_some() {
            self.look_at_machine();
        }
        if self.ending.asked.is_some() {
            return;
        }
        let (spent, is_known) = (self.heart().spent_at_least(), self.heart().spent().is_some());
        with(&self.pulse, |pulse| pulse.spent_at_least = spent);
        let passed = self.settings.caps.passed(spent);
        if passed > self.told
            && let Some((percent, spent)) = passed.zip(spent)
        {
            self.told = passed;
            let at_least = if is_known { "" } else { "at least " };
            let text = format!("{at_least}{percent} % of the budget are spent (${spent})");
            self.talk.say(&text);
            self.tell(Occasion::Budget, &text);
        }
        if let Some(why) = self.settings.caps.reached(spent, self.begun.elapsed()) {
            self.drain(Asked::Cap, &why, self.settings.grace, program);
        } else if self.settings.notice_from.as_ref().is_some_and(|file| file.exists()) {
            let from = "notice file".to_owned();
            self.heed(&Notice { urgency: Urgency::Leave, from, left: None }, program);
        }
    }

    fn look_for_life(&mut self, processor: Duration, program: Option<&Program>) {
        self.tell_of_lost_output();
        if self.settings.stall.is_none() {
            return;
        }
        let signs = with(&self.pulse, |pulse| Signs {
            step: pulse.progress,
            committed: pulse.committed,
            output_bytes: pulse.output_bytes,
            processor,
        });
        let Some(silent) = self.stall.look(self.begun.elapsed(), signs) else { return };
        let text = format!("no step, checkpoint, output or work of a processor for {:.0} s", silent.as_secs_f64());
        self.hear(Event::Warning(text.clone()), None);
        self.tell(Occasion::Stalled, &text);
        match self.settings.on_stall {
            OnStall::Warn => {}
            OnStall::Stop => self.drain(Asked::Cap, "stalled, and --on-stall stop", self.settings.grace, program),
            OnStall::Kill => {
                self.talk.say("the program is killed, as --on-stall kill says");
                self.ending.kill_at = Some(Instant::now());
            }
        }
    }

    pub(super) fn tell_of_lost_output(&mut self) {
        if with(&self.pulse, |pulse| mem::take(&mut pulse.output_lost)) && !mem::replace(&mut self.output_lost, true) {
            self.hear(
                Event::Warning(
                    "not all of the program's output could be kept: the log in the store has gaps".to_owned(),
                ),
                None,
            );
        }
    }

    fn look_for_worth(&mut self) {
        let Some(advice) = with(&self.pulse, |pulse| pulse.worth.as_mut().and_then(Worth::advice)) else { return };
        self.talk.say(&format!("advice: {}", advice.words()));
        self.tell(Occasion::Advice, &advice.words());
    }

    fn look_at_machine(&mut self) {
        let (step, needed) = with(&self.pulse, |pulse| (pulse.progress, pulse.checkpoint_bytes));
        let Some(look) = self.sampler.look(step) else { return };
        if let Some(why) = look.absent {
            self.talk.say(&format!("no GPU counters, since {why}; the host's alone are sampled"));
        }
        for finding in look.news {
            self.talk.say(&format!(
                "finding {}: {}. Advice: {}",
                finding.rule.word(),
                finding.evidence,
                finding.advice
            ));
        }
        let (findings, free) = (self.sampler.findings(), self.free_bytes());
        with(&self.pulse, |pulse| {
            (pulse.sample, pulse.findings, pulse.disk_free_bytes) = (Some(look.sample), findings, free);
        });
        let is_short = free.is_some_and(|free| (free as f64) < needed as f64 * ROOM);
        if is_short && !mem::replace(&mut self.is_short_of_disk, true) {
            let (free, needed) = (Bytes(free.unwrap_or(0) as f64), Bytes(needed as f64));
            self.hear(
                Event::Warning(format!("the disk has {free} left and the last checkpoint took {needed}: make room")),
                None,
            );
        }
    }

    /// Room for checkpoints; `None` where the file system does not say.
    fn free_bytes(&self) -> Option<u64> {
        rustix::fs::statvfs(&self.settings.folder).ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// Tells people elsewhere. Nothing waits for it, and nothing depends on it.
    pub(super) fn tell(&mut self, event: Occasion, text: &str) {
        let Some(notifier) = self.settings.notifier.clone() else { return };
        let (run, epoch, node) = (self.settings.run.name().to_owned(), self.epoch, self.settings.place.node);
        let spent_usd = self.heart().spent();
        let text = format!("gpuplan run {run}, epoch {epoch}: {text}");
        let message = Message { event, run, epoch, node, text, spent_usd };
        let events = self.sender.clone();
        self.telling.spawn(async move {
            if let Err(why) = notifier.tell(&message).await {
                let _ = events.try_send(Event::Warning(format!("nobody was notified: {why}")));
            }
        });
    }

    pub(super) fn said_that_it_runs(&mut self, restored: &Restored, starts: u32) {
        let from = restored.name.map_or_else(|| "nothing committed".to_owned(), |name| format!("step {}", name.step));
        self.tell(Occasion::Started, &format!("start {starts} of the program, from {from}"));
    }

    pub(super) fn read_progress(&self) {
        let text = fs::read_to_string(self.own_folder_of(self.settings.place.node).join("progress"));
        if let Some(step) = text.ok().and_then(|text| text.trim().parse().ok()) {
            with(&self.pulse, |pulse| pulse.progress = Some(step));
        }
    }

    /// Too little room for another checkpoint like the last.
    pub(super) fn disk_is_full(&self) -> bool {
        let needed = with(&self.pulse, |pulse| pulse.checkpoint_bytes);
        self.free_bytes().is_some_and(|free| free < needed.max(1))
    }

    /// Waits for the work, and gives it up when the run has to end.
    pub(super) async fn unless_asked<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        let mut tick = tokio::time::interval(TICK);
        while self.ending.asked.is_none() {
            tokio::select! {
                done = &mut work => return Some(done),
                Some(event) = self.events.recv() => self.hear(event, None),
                _ = tick.tick() => self.look(None),
            }
        }
        None
    }
}
