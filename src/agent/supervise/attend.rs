//! One life of the program: started, attended, and everything that it completed made safe.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};

use crate::checkpoint::restore::Restored;
use crate::checkpoint::scan::{Over, Place, Settling};
use crate::checkpoint::shipping::{Finish, Shipping};
use crate::checkpoint::upload::Shipper;
use crate::event::Event;
use crate::life::Life;
use crate::ports::logger::Stream;
use crate::process::program::Program;
use crate::process::shell;
use crate::process::tree;
use crate::rules::outcome::{Exit, StopReason};
use crate::rules::pipeline::{Hidden, Obstacle};
use crate::rules::stall::Stall;
use crate::state::with;
use crate::supervise::attention::TICK;
use crate::supervise::record::RECORDING;
use crate::supervise::settings::CheckpointSettings;
use crate::supervise::supervisor::{AgentError, Supervisor};
use crate::team::members;
use crate::team::rendezvous;
use crate::team::sharing::Sharing;

/// A store that is away at the end of a run that nobody hurries is waited for so long; the machine costs money meanwhile.
const FINAL_PATIENCE: Duration = Duration::from_mins(15);
/// The first machine may go on for long after the others' programs are done. If it falls silent, they hear of it.
const UNTIL_THE_FIRST_ENDS: Duration = Duration::from_hours(24 * 30);
/// torchrun kills its workers 30 s after SIGTERM unless it is told otherwise; the agent ends them in time by itself.
const LAUNCHER_PATIENCE: Duration = Duration::from_mins(2);
/// The last output of a program whose processes are all gone is waited for so long, since somebody else may hold its end open; and
/// where nothing hurries the end of the run.
const LAST_WORDS: Duration = Duration::from_secs(2);
const LAST_WORDS_UNHURRIED: Duration = Duration::from_secs(30);
/// Between two looks at what a program that was asked to end has left.
const LOOK_FOR_THE_REST: Duration = Duration::from_millis(50);
/// Where the shell that the command needs is not there: as a shell says it.
const NO_SHELL: i32 = 127;

impl Supervisor {
    /// Until all that the program completed is safe or cannot be made so.
    pub(super) async fn attend(&mut self, restored: &Restored) -> Result<Exit, AgentError> {
        let (own, shares_a_folder) = (self.own_folder()?, self.shares_a_folder()?);
        let starts = with(&self.life.state, |state| {
            (state.starts, state.progress) = (state.starts + 1, None);
            state.started_at.get_or_insert_with(Instant::now);
            state.starts
        });
        let environment = self.environment(restored, starts, &own);
        let Some(command) = self.command() else { return Ok(Exit::Code(NO_SHELL)) };
        let mut program = match Program::start(&command, &environment, self.logs.is_some(), self.group.as_ref()) {
            Ok(program) => program,
            Err((exit, error)) => {
                self.logger.say(&format!("cannot start {}: {error}", command.first().map_or("", String::as_str)));
                return Ok(exit);
            }
        };
        self.notify_started(restored, starts);
        let reading = self.read_output(&mut program)?;
        self.monitors.stall = Stall::new(self.settings.stall.after, self.life.begun.elapsed());
        if let Some(pid) = program.pid() {
            self.monitors.sampler.begin(pid);
        }
        let (finish, told) = watch::channel(None);
        let mut folder = self.folder_of(restored);
        let mut shipping = self.shipping(restored, &folder, shares_a_folder, told);
        let saving = self.saving();
        let mut looking = JoinSet::new();
        if let Some(saving) = saving.clone() {
            looking.spawn(saving.watch(folder.clone(), self.life.clone()));
        }
        let mut tick = tokio::time::interval(TICK);
        let exit = loop {
            tokio::select! {
                exit = program.wait() => break exit?,
                Some(event) = self.events.recv() => match event {
                    Event::SavesIn(there) => {
                        shipping.abort();
                        folder = self.move_to(there);
                        shipping = self.shipping(restored, &folder, shares_a_folder, finish.subscribe());
                    }
                    event => self.handle(event, Some(&program)),
                },
                _ = tick.tick() => self.check(Some(&program)),
                () = at(self.ending.kill_at) => {
                    self.ending.kill_at = None;
                    self.end_tree().await?;
                }
            }
        };
        self.monitors.sampler.end().await;
        self.wait_for_the_rest(&program, exit).await;
        // The program is gone; what it left behind goes, too, before its files are looked at for the last time.
        self.end_tree().await?;
        self.read_the_rest(reading).await;
        self.read_progress();
        self.hear_from_team(exit).await;
        self.ending.exit = Some(exit);
        if exit != Exit::Code(0) && self.ending.reason.is_none() {
            self.warn_team(None, "its program failed", self.settings.program.grace);
        }
        looking.shutdown().await;
        if let Some(there) = self.where_it_saved(saving).await.filter(|there| *there != folder) {
            shipping.abort();
            shipping = self.shipping(restored, &self.move_to(there), shares_a_folder, finish.subscribe());
        }
        self.finish(if exit == Exit::Code(0) { Over::Orderly } else { Over::Torn }, &finish, shipping).await;
        Ok(exit)
    }

    /// As it is started: a shell ends as the program in its pipeline does, or the run would be complete whatever became of it. `None`: no
    /// shell here can, which is said.
    fn command(&self) -> Option<Vec<String>> {
        let program = &self.settings.program;
        if let Some(carrier) = &program.carrier {
            return Some(carrier.clone());
        }
        let Some(piped) = shell::piped(&program.command, Path::new(".")) else { return Some(program.command.clone()) };
        let Hidden { line, obstacle } = &piped.hidden;
        let said = match obstacle {
            None => {
                format!("`{line}`: its shell is started with `-o pipefail`, so that it fails where the program does")
            }
            Some(Obstacle::GoesOn) => {
                format!(
                    "`{line}`: the script goes on after it and ends as its last command does, even if the program fails; `set -eo pipefail` ends it there"
                )
            }
            Some(Obstacle::Fails(other)) => {
                self.logger.say(&format!(
                    "`{line}`: its exit code is not that of the program, and with `pipefail` the script might end at `{other}`; `set -o pipefail` before the \
                     one and `set +o pipefail` before the other settle it"
                ));
                return Some(program.command.clone());
            }
        };
        self.logger.say(&said);
        piped.keeping_its_end().map_err(|why| self.logger.say(&why)).ok()
    }

    /// What was asked to save has its time for that, though the process that was started is gone, as a shell is. What a program leaves
    /// behind that ended by itself is ended at once, and said: it may have been the training, started with `&`.
    async fn wait_for_the_rest(&mut self, program: &Program, exit: Exit) {
        let asked = self.ending.reason.is_some_and(|reason| reason != StopReason::Fenced);
        if !asked {
            let left = program.left();
            if !left.is_empty() {
                let text = format!(
                    "the command has ended, and what it left running is ended too: {}; a script that starts its training with `&` has to `wait` for it",
                    left.join(", ")
                );
                self.handle(Event::Warning(text), None);
            }
            return;
        }
        program.ask_the_rest_to_end(exit, self.settings.program.signal);
        let mut look = tokio::time::interval(LOOK_FOR_THE_REST);
        while program.has_left_some() {
            tokio::select! {
                () = at(self.ending.kill_at) => return,
                Some(event) = self.events.recv() => self.handle(event, None),
                _ = look.tick() => {}
            }
        }
    }

    /// Waits until what the program completed is safe, or the time is over, or somebody else owns the run.
    async fn finish(&mut self, over: Over, finish: &watch::Sender<Option<Finish>>, mut shipping: JoinHandle<bool>) {
        let until = |by: Instant| by.checked_sub(RECORDING).unwrap_or(by);
        let patience = if self.life.rank.is_first() { FINAL_PATIENCE } else { UNTIL_THE_FIRST_ENDS };
        let at_first = self.ending.leave_by.map_or_else(|| Instant::now() + patience, until);
        let _ = finish.send(Some(Finish { until: at_first, over }));
        self.ending.is_synced = loop {
            if self.ending.reason == Some(StopReason::Fenced) {
                shipping.abort();
                break false;
            }
            tokio::select! {
                done = &mut shipping => break done.unwrap_or(false),
                Some(event) = self.events.recv() => {
                    self.handle(event, None);
                    if let Some(by) = self.ending.leave_by {
                        // Only news: whoever sends checkpoints tries again at once when this changes.
                        let news = Finish { until: until(by), over };
                        finish.send_if_modified(|known| known.replace(news).is_none_or(|known| known.until != news.until));
                    }
                }
            }
        };
        while let Ok(event) = self.events.try_recv() {
            self.handle(event, None);
        }
        if !self.ending.is_synced && self.ending.reason != Some(StopReason::Fenced) {
            self.logger.say("warning: the newest checkpoint could not be uploaded in time");
        }
    }

    /// The programs of a team stop together, so this one may have ended before its agent heard why. How it ended depends on that: a
    /// program that lost its peer fails long before the silence of the other machine means anything, and has not failed by itself.
    async fn hear_from_team(&mut self, exit: Exit) {
        let Life { run, epoch, rank, heartbeat, .. } = self.life.clone();
        if rank.is_alone() {
            return;
        }
        let all_is_said = async move {
            tokio::time::sleep(members::LOOK * 2).await;
            if exit != Exit::Code(0) {
                members::all_work_on(&run, epoch, rank, heartbeat).await;
            }
            members::leaving(&run, epoch, rank).await
        };
        let said = self.unless_stopping(tokio::time::timeout(FINAL_PATIENCE, all_is_said)).await;
        while let Ok(event) = self.events.try_recv() {
            self.handle(event, None);
        }
        if let Some(Ok(Some((node, leaving)))) = said {
            self.handle(Event::PeerLeaves { node, leaving }, None);
        }
    }

    async fn end_tree(&self) -> io::Result<()> {
        let group = self.group.clone();
        spawn_blocking(move || tree::end_descendants(group.as_ref())).await.map_err(io::Error::other)?
    }

    async fn read_the_rest(&mut self, reading: Vec<std::thread::JoinHandle<()>>) {
        let limit = if self.ending.leave_by.is_some() { LAST_WORDS } else { LAST_WORDS_UNHURRIED };
        let all_read = spawn_blocking(|| reading.into_iter().try_for_each(std::thread::JoinHandle::join));
        let is_read = matches!(tokio::time::timeout(limit, all_read).await, Ok(Ok(Ok(()))));
        with(&self.life.state, |state| state.output.is_lost |= !is_read);
        self.warn_of_lost_output();
    }

    fn read_output(&self, program: &mut Program) -> io::Result<Vec<std::thread::JoinHandle<()>>> {
        let Some((logs, (out, err))) = self.logs.as_ref().zip(program.output()?) else { return Ok(Vec::new()) };
        let follow =
            |from, stream| logs.follow(fs::File::from(from), stream, self.logger.clone(), self.life.state.clone());
        Ok(vec![follow(out, Stream::Out), follow(err, Stream::Err)])
    }

    fn shipping(
        &self,
        restored: &Restored,
        folder: &Path,
        shares_a_folder: bool,
        told: watch::Receiver<Option<Finish>>,
    ) -> JoinHandle<bool> {
        let Life { run, epoch, rank, .. } = self.life.clone();
        let CheckpointSettings { framework, settle, keep, .. } = self.settings.checkpoints.clone();
        let folder = folder.to_owned();
        let shipper =
            Shipper::new(run, epoch, rank, folder.clone(), keep, restored.name).lies_in(self.below_the_job(&folder));
        let life = self.life.clone();
        if rank.is_first() {
            let mut settling = Settling::new(framework, settle);
            if rank.is_alone() {
                let known = if folder == self.folder_of(restored) { restored.rolling.clone() } else { Vec::new() };
                settling = settling.rolling(restored.name.map_or(0, |name| name.step), known);
            }
            let place = if folder == self.settings.checkpoints.folder { Place::Told } else { Place::Found };
            let shipping = Shipping { shipper, settling, folder, place, life };
            return tokio::spawn(async move { shipping.run(told).await.1 });
        }
        tokio::spawn(Sharing { life, shipper, folder, framework, settle, shares_a_folder }.run(told))
    }

    fn environment(&self, restored: &Restored, starts: u32, own: &Path) -> Vec<(String, String)> {
        let text = |path: &Path| path.display().to_string();
        let patience = LAUNCHER_PATIENCE.max(self.settings.program.grace);
        let mut environment: Vec<(String, String)> = [
            (tree::MARK, self.mark.clone()),
            ("GPUPLAN_RUN_ID", self.life.run.name().to_owned()),
            ("GPUPLAN_EPOCH", self.life.epoch.to_string()),
            ("GPUPLAN_NODE", self.life.rank.node.to_string()),
            ("GPUPLAN_NODES", self.life.rank.nodes.to_string()),
            ("GPUPLAN_CKPT_DIR", text(&self.settings.checkpoints.folder)),
            ("GPUPLAN_RESUME_FROM", restored.path.as_deref().map(text).unwrap_or_default()),
            ("GPUPLAN_RESTART_COUNT", (starts - 1).to_string()),
            ("GPUPLAN_NOTICE_FILE", text(&own.join("notice.json"))),
            ("GPUPLAN_PROGRESS_FILE", text(&own.join("progress"))),
            ("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", patience.as_secs().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        environment.extend(self.settings.data.as_ref().map(|data| ("GPUPLAN_DATA_DIR".to_owned(), text(&data.folder))));
        environment.extend(rendezvous::environment(self.meeting.rendezvous.as_ref(), self.life.rank));
        if self.logs.is_some() && std::env::var_os("PYTHONUNBUFFERED").is_none() {
            // Into a pipe Python writes only every 8 KiB, so that what it said last would be lost with it.
            environment.push(("PYTHONUNBUFFERED".to_owned(), "1".to_owned()));
        }
        environment
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
