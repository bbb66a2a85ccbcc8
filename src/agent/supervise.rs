//! `supervise`: one life of an agent, from the fence to the recorded outcome.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::json;
use tokio::sync::{mpsc, watch};

use crate::agent::caps::Caps;
use crate::agent::checkpoint::Framework;
use crate::agent::claim::{Claim, ClaimError};
use crate::agent::heart::{Event, Finish, Heart, Pulse, Shared, Shipping, listen, spent, with};
use crate::agent::notice::{Notice, NoticeSource, Urgency, grace};
use crate::agent::outcome::{Asked, Exit, Outcome};
use crate::agent::program::Program;
use crate::agent::restart::{Crash, Decision, History};
use crate::agent::restore::{Restore, Restored};
use crate::agent::scan::{Over, Settling};
use crate::agent::signals;
use crate::agent::tree;
use crate::agent::upload::Shipper;
use crate::runstore::history::Keep;
use crate::runstore::{Phase, Run, StoreError};

/// Between two looks at caps and progress.
const TICK: Duration = Duration::from_millis(250);
/// Between two collections of orphans that ended: each reads the whole process table.
const REAPING: Duration = Duration::from_secs(5);
/// A store that is away at the end of a run that nobody hurries is waited for so long; the machine costs money meanwhile.
const FINAL_PATIENCE: Duration = Duration::from_mins(15);
/// Of the time left, kept for recording the outcome.
const RECORDING: Duration = Duration::from_secs(2);
const RESTORE_TRIES: u32 = 5;
/// torchrun kills its workers 30 s after SIGTERM unless it is told otherwise; the agent ends them in time by itself.
const LAUNCHER_PATIENCE: Duration = Duration::from_mins(2);
/// Warnings that a status shows.
const MOST_WARNINGS: usize = 8;
/// Folder of the agent among the checkpoints.
const OWN_FOLDER: &str = ".gpuplan";

/// Where the agent's words go.
pub trait Talk: Send + Sync {
    fn say(&self, line: &str);
}

pub struct Settings {
    pub run: Run,
    /// As the user wrote it.
    pub store: String,
    pub command: Vec<String>,
    /// Checkpoint folder, absolute.
    pub folder: PathBuf,
    pub framework: Framework,
    pub settle: Duration,
    pub heartbeat: Duration,
    /// Time to save and end where a signal or a cap asks for it; a cloud's notice says its own.
    pub grace: Duration,
    /// Before the first restart after a crash.
    pub first_pause: Duration,
    pub keep: Keep,
    pub caps: Caps,
    pub force: bool,
    /// Stands for this machine, in tests.
    pub machine: Option<String>,
    /// A file whose appearance is a notice.
    pub notice_from: Option<PathBuf>,
    pub notices: Vec<Arc<dyn NoticeSource>>,
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Machine(#[from] std::io::Error),
}

struct Supervisor {
    settings: Settings,
    talk: Arc<dyn Talk>,
    mark: String,
    epoch: u64,
    begun: Instant,
    begun_at: Timestamp,
    pulse: Shared,
    sender: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
    asked: Option<Asked>,
    /// When the whole tree is killed, and when the machine may be gone.
    kill_at: Option<Instant>,
    leave_by: Option<Instant>,
    told: Option<u32>,
    reaped: Instant,
    exit: Option<Exit>,
    synced: bool,
}

/// Runs the command until it is done, may not go on, or is given up.
pub async fn supervise(settings: Settings, talk: Arc<dyn Talk>) -> Result<Outcome, Fault> {
    tree::adopt_orphans();
    let me = tree::myself(settings.machine.as_deref());
    let prefix = format!("{}@{}|{}|", settings.run.name(), settings.store, me.machine);
    let mark = format!("{prefix}{}", me.mark());
    let (sender, events) = mpsc::channel(64);
    signals::listen(settings.grace, sender.clone())?;
    let heartbeat = settings.heartbeat;
    let claim = Claim { run: &settings.run, me: &me, mark: &mark, prefix: &prefix, heartbeat, force: settings.force, talk: &*talk };
    let epoch = claim.take().await?;
    talk.say(&format!("run {}, epoch {epoch}: {}", settings.run.name(), settings.framework.promise()));
    let pulse = Arc::new(std::sync::Mutex::new(Pulse { phase: Some(Phase::Running), ..Pulse::default() }));
    let (begun, begun_at) = (Instant::now(), Timestamp::now());
    let (asked, kill_at, leave_by, told, reaped, exit, synced) = (None, None, None, None, begun, None, true);
    let mut supervisor = Supervisor {
        settings,
        talk,
        mark,
        epoch,
        begun,
        begun_at,
        pulse,
        sender,
        events,
        asked,
        kill_at,
        leave_by,
        told,
        reaped,
        exit,
        synced,
    };
    supervisor.live().await
}

impl Supervisor {
    fn heart(&self) -> Heart {
        let (run, pulse, events) = (self.settings.run.clone(), self.pulse.clone(), self.sender.clone());
        let (pace, caps) = (self.settings.heartbeat, self.settings.caps);
        Heart { run, epoch: self.epoch, pace, caps, begun: self.begun, begun_at: self.begun_at, pulse, events }
    }

    async fn live(&mut self) -> Result<Outcome, Fault> {
        let heart = tokio::spawn(self.heart().beat());
        let mut listening: Vec<_> =
            self.settings.notices.iter().map(|source| tokio::spawn(listen(source.clone(), self.sender.clone()))).collect();
        let outcome = self.start_again_and_again().await;
        listening.push(heart);
        for task in listening {
            task.abort();
        }
        let outcome = outcome?;
        if outcome != Outcome::Fenced {
            self.record(outcome).await;
        }
        Ok(outcome)
    }

    async fn start_again_and_again(&mut self) -> Result<Outcome, Fault> {
        let mut history = History::default();
        loop {
            let Some(restored) = self.restore().await? else { return Ok(self.outcome(Exit::Code(0))) };
            let safe_before = restored.name.map(|name| name.step);
            let kills_before = tree::memory_kills();
            let exit = self.attend(&restored).await?;
            self.exit = Some(exit);
            let outcome = self.outcome(exit);
            let Outcome::Failed(exit) = outcome else { return Ok(outcome) };
            let (safe, progress) = with(&self.pulse, |pulse| (pulse.committed.map(|name| name.step), pulse.progress));
            let crash = Crash {
                exit,
                step: progress.or(safe),
                is_exact: progress.is_some(),
                progressed: safe > safe_before || progress.is_some_and(|step| step > safe_before.unwrap_or(0)),
                out_of_memory: tree::memory_kills() > kills_before,
                disk_full: self.disk_is_full(),
            };
            match history.after(crash, self.settings.first_pause) {
                Decision::GiveUp { why } => {
                    self.talk.say(&format!("the program failed ({exit:?}) and is not started again: {why}"));
                    return Ok(outcome);
                }
                Decision::Again { after } => {
                    self.talk.say(&format!("the program failed ({exit:?}); started again in {:.0} s", after.as_secs_f64()));
                    if self.unless_asked(tokio::time::sleep(after)).await.is_none() {
                        return Ok(self.outcome(exit));
                    }
                }
            }
        }
    }

    /// A program that says it is done while its last checkpoint could not be made safe is worth another start elsewhere.
    fn outcome(&self, exit: Exit) -> Outcome {
        match Outcome::of(self.asked, exit) {
            Outcome::Completed if !self.synced => Outcome::Interrupted,
            outcome => outcome,
        }
    }

    /// `None` if the program should not start any more.
    async fn restore(&mut self) -> Result<Option<Restored>, Fault> {
        let (run, folder, talk) = (self.settings.run.clone(), self.settings.folder.clone(), self.talk.clone());
        let (framework, epoch) = (self.settings.framework, self.epoch);
        let work = async move {
            let restore = Restore { run: &run, folder: &folder, framework, epoch, talk: &*talk };
            let mut pause = Duration::from_secs(1);
            for _ in 1..RESTORE_TRIES {
                match restore.newest().await {
                    Err(error @ (StoreError::Unavailable { .. } | StoreError::Denied { .. })) => {
                        talk.say(&format!("warning: {error}; tried again in {} s", pause.as_secs()));
                        tokio::time::sleep(pause).await;
                        pause *= 2;
                    }
                    done => return done,
                }
            }
            restore.newest().await
        };
        let Some(restored) = self.unless_asked(work).await.transpose()? else { return Ok(None) };
        for (name, why) in &restored.rejected {
            let what = json!({"event": "manifest_rejected", "step": name.step, "epoch": name.epoch, "why": why});
            let name = format!("e{}-rejected-{}-{}", self.epoch, name.step, name.epoch);
            self.settings.run.event(&name, &what).await?;
        }
        match (&restored.name, &restored.path) {
            (Some(name), _) => self.talk.say(&format!("restored step {} of epoch {}", name.step, name.epoch)),
            (None, Some(path)) => self.talk.say(&format!("nothing is committed; {} is complete and used", path.display())),
            (None, None) => self.talk.say("nothing to restore: the program starts from nothing"),
        }
        with(&self.pulse, |pulse| pulse.committed = restored.name);
        Ok(Some(restored))
    }

    /// Waits for the work, and gives it up when the run has to end.
    async fn unless_asked<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        let mut tick = tokio::time::interval(TICK);
        while self.asked.is_none() {
            tokio::select! {
                done = &mut work => return Some(done),
                Some(event) = self.events.recv() => self.hear(event, None),
                _ = tick.tick() => self.look(None),
            }
        }
        None
    }

    /// One life of the program, until all that it completed is safe or cannot be made so.
    async fn attend(&mut self, restored: &Restored) -> Result<Exit, Fault> {
        let own = self.own_folder()?;
        let starts = with(&self.pulse, |pulse| {
            (pulse.starts, pulse.progress) = (pulse.starts + 1, None);
            pulse.starts
        });
        let mut program = match Program::start(&self.settings.command, &self.environment(restored, starts, &own)) {
            Ok(program) => program,
            Err((exit, error)) => {
                self.talk.say(&format!("cannot start {}: {error}", self.settings.command.first().map_or("", String::as_str)));
                return Ok(exit);
            }
        };
        let (finish, told) = watch::channel(None);
        let mut shipping = tokio::spawn(self.shipping(restored).run(told));
        let mut tick = tokio::time::interval(TICK);
        let exit = loop {
            tokio::select! {
                exit = program.wait() => break exit?,
                Some(event) = self.events.recv() => self.hear(event, Some(&program)),
                _ = tick.tick() => self.look(Some(&program)),
                () = at(self.kill_at) => {
                    self.kill_at = None;
                    tokio::task::spawn_blocking(tree::end_descendants).await.map_err(std::io::Error::other)??;
                }
            }
        };
        // The program is gone; what it left behind goes, too, before its files are looked at for the last time.
        tokio::task::spawn_blocking(tree::end_descendants).await.map_err(std::io::Error::other)??;
        self.read_progress();
        let over = if exit == Exit::Code(0) { Over::Orderly } else { Over::Torn };
        let until = self.leave_by.map_or_else(|| Instant::now() + FINAL_PATIENCE, |by| by.checked_sub(RECORDING).unwrap_or(by));
        let _ = finish.send(Some(Finish { until, over }));
        self.synced = loop {
            if self.asked == Some(Asked::Fenced) {
                shipping.abort();
                break false;
            }
            tokio::select! {
                done = &mut shipping => break done.is_ok_and(|(_, is_safe)| is_safe),
                Some(event) = self.events.recv() => {
                    self.hear(event, None);
                    if let Some(by) = self.leave_by {
                        let _ = finish.send(Some(Finish { until: by.checked_sub(RECORDING).unwrap_or(by), over }));
                    }
                }
            }
        };
        while let Ok(event) = self.events.try_recv() {
            self.hear(event, None);
        }
        if !self.synced && self.asked != Some(Asked::Fenced) {
            self.talk.say("warning: the newest checkpoint could not be made safe in time");
        }
        Ok(exit)
    }

    fn shipping(&self, restored: &Restored) -> Shipping {
        let (run, folder) = (self.settings.run.clone(), self.settings.folder.clone());
        let shipper = Shipper::new(run, folder.clone(), self.epoch, self.settings.keep, restored.name);
        let settling = Settling::new(self.settings.framework, self.settings.settle);
        Shipping { shipper, settling, folder, begun: self.begun, pulse: self.pulse.clone(), events: self.sender.clone() }
    }

    fn own_folder(&self) -> std::io::Result<PathBuf> {
        let own = self.settings.folder.join(OWN_FOLDER);
        fs::create_dir_all(&own)?;
        for file in [own.join("notice.json"), own.join("progress")] {
            if let Err(error) = fs::remove_file(file)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                return Err(error);
            }
        }
        Ok(own)
    }

    fn environment(&self, restored: &Restored, starts: u32, own: &Path) -> Vec<(String, String)> {
        let text = |path: &Path| path.display().to_string();
        let patience = LAUNCHER_PATIENCE.max(self.settings.grace);
        [
            (tree::MARK, self.mark.clone()),
            ("GPUPLAN_RUN_ID", self.settings.run.name().to_owned()),
            ("GPUPLAN_EPOCH", self.epoch.to_string()),
            ("GPUPLAN_CKPT_DIR", text(&self.settings.folder)),
            ("GPUPLAN_RESUME_FROM", restored.path.as_deref().map(text).unwrap_or_default()),
            ("GPUPLAN_RESTART_COUNT", (starts - 1).to_string()),
            ("GPUPLAN_NOTICE_FILE", text(&own.join("notice.json"))),
            ("GPUPLAN_PROGRESS_FILE", text(&own.join("progress"))),
            ("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", patience.as_secs().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn hear(&mut self, event: Event, program: Option<&Program>) {
        match event {
            Event::Notice(notice) => self.heed(&notice, program),
            Event::Fenced => {
                self.talk.say("another owner has taken over this run: the program is killed, nothing more is written");
                self.asked = Some(Asked::Fenced);
                self.kill_at = Some(Instant::now());
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
        let told = json!({"urgency": notice.urgency, "from": notice.from, "seconds_left": seconds, "deadline": deadline});
        let file = self.settings.folder.join(OWN_FOLDER).join("notice.json");
        // The program gets its signal in any case.
        let _ = fs::write(file.with_extension("new"), told.to_string()).and_then(|()| fs::rename(file.with_extension("new"), file));
        let (run, name) = (self.settings.run.clone(), format!("e{}-notice-{}", self.epoch, Timestamp::now().as_millisecond()));
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
        let (now, is_first) = (Instant::now(), self.asked.is_none());
        let kill_at = now + grace(left, bytes, rate);
        if !is_first && self.leave_by.is_some_and(|by| by <= now + left) {
            return;
        }
        (self.kill_at, self.leave_by) = (Some(kill_at), Some(now + left));
        self.talk.say(&format!("{why}: {:.0} s left, the program has {:.0} s of them", left.as_secs_f64(), (kill_at - now).as_secs_f64()));
        if is_first {
            self.asked = Some(asked);
            if let Some(program) = program {
                program.ask_to_end();
            }
        }
    }

    fn look(&mut self, program: Option<&Program>) {
        if self.reaped.elapsed() >= REAPING {
            tree::reap_orphans(program.and_then(Program::pid));
            self.reaped = Instant::now();
        }
        self.read_progress();
        if self.asked.is_some() {
            return;
        }
        let spent = spent(self.settings.caps, &self.pulse, self.epoch, self.begun_at, self.begun.elapsed());
        let passed = self.settings.caps.passed(spent);
        if passed > self.told
            && let Some((percent, spent)) = passed.zip(spent)
        {
            self.told = passed;
            self.talk.say(&format!("{percent} % of the budget are spent (${spent})"));
        }
        if let Some(why) = self.settings.caps.reached(spent, self.begun.elapsed()) {
            self.drain(Asked::Cap, &why, self.settings.grace, program);
        } else if self.settings.notice_from.as_ref().is_some_and(|file| file.exists()) {
            let from = "notice file".to_owned();
            self.heed(&Notice { urgency: Urgency::Leave, from, left: None }, program);
        }
    }

    fn read_progress(&self) {
        let text = fs::read_to_string(self.settings.folder.join(OWN_FOLDER).join("progress"));
        if let Some(step) = text.ok().and_then(|text| text.trim().parse().ok()) {
            with(&self.pulse, |pulse| pulse.progress = Some(step));
        }
    }

    /// Too little room for another checkpoint like the last.
    fn disk_is_full(&self) -> bool {
        let needed = with(&self.pulse, |pulse| pulse.checkpoint_bytes);
        rustix::fs::statvfs(&self.settings.folder).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < needed.max(1))
    }

    /// What became of the run. The outcome stands whether or not the store takes the record.
    async fn record(&self, outcome: Outcome) {
        with(&self.pulse, |pulse| pulse.phase = Some(Phase::Ended));
        let heart = self.heart();
        let status = heart.status(0);
        let result = json!({
            "outcome": outcome, "exit": self.exit, "epoch": self.epoch, "committed": status.committed, "synced": self.synced,
            "starts": status.starts, "spent_usd": status.spent_usd, "ended_at": Timestamp::now(),
        });
        let recording = async {
            if self.settings.run.has_epoch(self.epoch + 1).await? {
                return Ok(());
            }
            heart.bill().await?;
            self.settings.run.write_result(&result).await?;
            self.settings.run.write_status(0, &status).await
        };
        if let Ok(Err(error)) = tokio::time::timeout(RECORDING * 2, recording).await {
            self.talk.say(&format!("warning: the outcome is not recorded: {error}"));
        }
        if self.asked == Some(Asked::Interruption) {
            for source in &self.settings.notices {
                let _ = tokio::time::timeout(RECORDING, source.acknowledge()).await;
            }
        }
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
