//! Renews the lease of this machine, term by term, and moves the end that the machine goes by.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

use crate::event::Event;
use crate::life::Life;
use crate::rules::renewal::{Renewals, Shown};
use crate::state::{State, with};
use crate::supervise::settings::LeaseSettings;
use gpuplan_runstore::{Phase, Renewal};
use gpuplan_telemetry::GpuSample;

/// Less than this share of the time of a card is no work.
const IDLE_SHARE: f64 = 0.05;

/// What changes while something is done for the program beside its own work: data that is fetched, checkpoints that are sent.
#[derive(Clone, Debug, Default, PartialEq)]
struct Traffic {
    phase: Option<Phase>,
    starts: u32,
    staged_bytes: Option<u64>,
    backlog_bytes: u64,
}

impl Traffic {
    fn of(state: &State) -> Self {
        Self {
            phase: state.phase,
            starts: state.starts,
            staged_bytes: state.staged.map(|staged| staged.bytes),
            backlog_bytes: state.checkpoints.backlog_bytes,
        }
    }
}

struct Renewing {
    life: Life,
    settings: LeaseSettings,
    rule: Renewals,
    /// As it was asked for first: asked again it is the same object.
    asked: Option<Renewal>,
    traffic: Traffic,
    traffic_at: Duration,
    /// As they were sampled last.
    gpus: Vec<GpuSample>,
    is_told: bool,
    /// The end that the machine goes by, which is earlier than that of the lease while it cannot be moved.
    machine_ends: Duration,
}

/// Looks at every heartbeat. A store that does not answer is asked again until the term ends: then the program has to save, and the machine ends.
pub async fn keep_renewing(life: Life, settings: LeaseSettings) {
    let heartbeat = life.heartbeat;
    let mut renewing = Renewing::new(life, settings);
    loop {
        let now = renewing.life.begun.elapsed();
        renewing.look(now).await;
        tokio::time::sleep(heartbeat).await;
    }
}

impl Renewing {
    fn new(life: Life, settings: LeaseSettings) -> Self {
        let rule = Renewals::new(Duration::ZERO, settings.term, settings.ends, settings.share_ends);
        with(&life.state, |state| state.lease_ends = Some(rule.ends()));
        let (traffic, traffic_at) = (Traffic::default(), Duration::ZERO);
        let machine_ends = rule.ends();
        let gpus = Vec::new();
        Self { life, settings, rule, asked: None, traffic, traffic_at, gpus, is_told: false, machine_ends }
    }

    async fn look(&mut self, now: Duration) {
        // A disk that was full may have room again.
        self.move_end(now).await;
        let shown = self.shown(now);
        self.rule.see(now, shown);
        let Some(number) = self.rule.due(now) else { return };
        let (epoch, node) = (self.life.epoch, self.life.rank.node);
        let (step, committed) = (shown.step, shown.committed);
        let fresh = Renewal { epoch, node, number, step, committed, at: Timestamp::now() };
        let asked = self.asked.take().filter(|asked| asked.number == number).unwrap_or(fresh);
        let answer = self.life.run.renew(&self.settings.order, &asked).await;
        self.asked = Some(asked);
        match answer {
            Ok(true) => self.is_granted().await,
            Ok(false) => self.rule.is_taken(),
            Err(error) if !self.is_told => {
                self.is_told = true;
                self.warn(format!("the lease of this machine is not renewed yet: {error}")).await;
            }
            Err(_) => {}
        }
    }

    async fn is_granted(&mut self) {
        // However long the answer took.
        let now = self.life.begun.elapsed();
        if self.rule.is_granted(now) {
            self.is_told = false;
            self.move_end(now).await;
        }
    }

    /// The machine first: what is written there and not known here ends the program early, and the machine not late. What cannot be written is tried
    /// again; until then the program has to know the end that stands there.
    async fn move_end(&mut self, now: Duration) {
        let ends = self.rule.ends();
        if now >= self.machine_ends || ends <= self.machine_ends {
            return;
        }
        match move_end(&self.settings.file, ends.saturating_sub(self.life.begun.elapsed())) {
            Ok(()) => {
                self.machine_ends = ends;
                with(&self.life.state, |state| state.lease_ends = Some(ends));
            }
            Err(error) if !self.is_told => {
                self.is_told = true;
                let file = self.settings.file.display();
                self.warn(format!("this machine still ends as if its lease were not renewed: {file}: {error}")).await;
            }
            Err(_) => {}
        }
    }

    fn shown(&mut self, now: Duration) -> Shown {
        let (traffic, mut shown, computes) = with(&self.life.state, |state| {
            let gpus = state.machine.sample.as_ref().map(|sample| sample.gpus.as_slice()).unwrap_or_default();
            // Counters of a driver that hangs say the same for ever.
            let computes = gpus != self.gpus && gpus.iter().filter_map(|gpu| gpu.busy).any(|busy| busy >= IDLE_SHARE);
            self.gpus = gpus.to_vec();
            let (step, committed) = (state.progress, state.checkpoints.committed);
            let shown = Shown { step, committed, wrote_at: state.wrote_at, busy_at: state.busy_at };
            (Traffic::of(state), shown, computes)
        });
        if traffic != self.traffic || computes {
            (self.traffic, self.traffic_at) = (traffic, now);
        }
        shown.busy_at = shown.busy_at.max(self.traffic_at);
        shown
    }

    async fn warn(&self, text: String) {
        let _ = self.life.events.send(Event::Warning(text)).await;
    }
}

/// The machine ends so long from now, by the time since it booted, which nobody sets.
fn move_end(file: &Path, left: Duration) -> io::Result<()> {
    let ends = since_boot()?.saturating_add(left);
    let new = file.with_extension("new");
    fs::write(&new, format!("{}\n", ends.as_secs()))?;
    fs::rename(new, file)
}

/// From now until the end that stands there; none where it is past.
pub fn end_of(file: &Path) -> io::Result<Duration> {
    let wrong = |_| io::Error::new(io::ErrorKind::InvalidData, format!("{} says no second", file.display()));
    let second = fs::read_to_string(file)?.trim().parse().map_err(wrong)?;
    Ok(Duration::from_secs(second).saturating_sub(since_boot()?))
}

/// `/proc/uptime`, which a container shares with its machine (proc(5)).
fn since_boot() -> io::Result<Duration> {
    let text = fs::read_to_string("/proc/uptime")?;
    let seconds = text.split(['.', ' ']).next().and_then(|seconds| seconds.parse().ok());
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "/proc/uptime says no seconds");
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use tokio::sync::mpsc;

    use super::*;
    use crate::team::rank::Rank;
    use gpuplan_runstore::layout::Layout;
    use gpuplan_runstore::{Run, Store};

    /// A machine of its own for an order, with terms of an hour; it began so many minutes ago.
    struct Machine {
        renewing: Renewing,
        heard: mpsc::Receiver<Event>,
        folder: tempfile::TempDir,
    }

    fn minutes(minutes: u64) -> Duration {
        Duration::from_secs(minutes * 60)
    }

    impl Machine {
        fn new(order: &str, store: &Path) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("lease-ends");
            let (events, heard) = mpsc::channel(8);
            let life = Life {
                run: Run::new(Store::open(&store.display().to_string()).unwrap(), Layout::new("a").unwrap()),
                epoch: 1,
                ordered_by: None,
                rank: Rank { node: 0, nodes: 1 },
                heartbeat: minutes(1),
                begun: Instant::now(),
                begun_at: Timestamp::now(),
                state: Arc::default(),
                events,
            };
            let settings = LeaseSettings {
                order: order.to_owned(),
                term: minutes(60),
                ends: minutes(60),
                share_ends: minutes(100),
                file,
            };
            Self { renewing: Renewing::new(life, settings), heard, folder }
        }

        async fn look(&mut self, minute: u64, step: u64) {
            with(&self.renewing.life.state, |state| state.progress = Some(step));
            self.renewing.look(minutes(minute)).await;
        }

        /// Minutes until the agent has its program save and end, and until the machine ends; `None`: nobody moved that.
        fn ends(&self) -> (u64, Option<u64>) {
            let ends = with(&self.renewing.life.state, |state| state.lease_ends).unwrap();
            let moved = end_of(&self.renewing.settings.file).ok();
            (ends.as_secs() / 60, moved.map(|left| (left.as_secs() + 30) / 60))
        }
    }

    fn renewed(store: &Path) -> usize {
        fs::read_dir(store.join("runs/a/events")).map_or(0, Iterator::count)
    }

    #[tokio::test]
    async fn a_lease_is_renewed_on_progress_out_of_its_own_share() {
        let store = tempfile::tempdir().unwrap();
        let mut machine = Machine::new("one", store.path());
        assert_eq!(machine.ends(), (60, None));
        for (minute, step) in [(1, 1), (2, 2), (29, 3)] {
            machine.look(minute, step).await;
        }
        assert_eq!((machine.ends(), renewed(store.path())), ((60, None), 0), "not before half of it");
        machine.look(30, 3).await;
        assert_eq!((machine.ends(), renewed(store.path())), ((90, Some(90)), 1));
        machine.look(65, 3).await;
        assert_eq!((machine.ends(), renewed(store.path())), ((90, Some(90)), 1), "no step since");
        machine.look(66, 4).await;
        assert_eq!((machine.ends(), renewed(store.path())), ((100, Some(100)), 2), "and no further than the share");
        machine.look(97, 5).await;
        assert_eq!(renewed(store.path()), 2);
        let mut other = Machine::new("two", store.path());
        for (minute, step) in [(1, 1), (2, 2), (30, 3)] {
            other.look(minute, step).await;
        }
        assert_eq!(renewed(store.path()), 3, "another machine has terms of its own");
    }

    #[tokio::test]
    async fn with_the_store_away_a_lease_runs_to_its_end_and_no_further() {
        let home = tempfile::tempdir().unwrap();
        let (store, away) = (home.path().join("store"), home.path().join("away"));
        fs::create_dir(&store).unwrap();
        let mut machine = Machine::new("one", &store);
        for (minute, step) in [(1, 1), (2, 2)] {
            machine.look(minute, step).await;
        }
        fs::rename(&store, &away).unwrap();
        fs::write(&store, "no folder").unwrap();
        for minute in 30..40 {
            machine.look(minute, minute).await;
        }
        assert_eq!(machine.ends(), (60, None));
        let Ok(Event::Warning(said)) = machine.heard.try_recv() else { panic!("nothing is said") };
        assert!(said.contains("not renewed yet") && machine.heard.try_recv().is_err(), "once: {said}");
        fs::remove_file(&store).unwrap();
        fs::rename(&away, &store).unwrap();
        machine.look(59, 60).await;
        assert_eq!(machine.ends(), (90, Some(90)), "from when it was asked for first");
        fs::rename(&store, &away).unwrap();
        fs::write(&store, "no folder").unwrap();
        machine.look(61, 70).await;
        fs::remove_file(&store).unwrap();
        fs::rename(&away, &store).unwrap();
        machine.look(91, 80).await;
        assert_eq!((machine.ends(), renewed(&store)), ((90, Some(90)), 1), "what has ended is not renewed");
    }

    /// `nvidia-smi` stands still with the driver.
    #[tokio::test]
    async fn gpus_that_say_the_same_for_ever_do_not_work() {
        let store = tempfile::tempdir().unwrap();
        let mut asked = Vec::new();
        for is_alive in [false, true] {
            let mut machine = Machine::new(if is_alive { "alive" } else { "hung" }, store.path());
            for minute in 0..40 {
                let power_watts = Some(if is_alive { 400.0 + minute as f64 } else { 400.0 });
                let gpus = vec![GpuSample { busy: Some(1.0), power_watts, ..GpuSample::default() }];
                let sample = Some(gpuplan_telemetry::Sample { gpus, ..gpuplan_telemetry::Sample::default() });
                with(&machine.renewing.life.state, |state| state.machine.sample = sample);
                machine.renewing.look(minutes(minute)).await;
                asked.push(machine.ends().0);
            }
        }
        // Minutes until the end after 40 minutes of each. The first reading is news in both, and too early to count.
        assert_eq!((asked[39], asked[79]), (60, 90));
    }

    /// Its agent would go on beyond the end that the machine goes by.
    #[tokio::test]
    async fn an_end_that_cannot_be_moved_is_not_taken_for_moved() {
        let store = tempfile::tempdir().unwrap();
        let mut machine = Machine::new("one", store.path());
        fs::create_dir(machine.folder.path().join("lease-ends")).unwrap();
        for (minute, step) in [(1, 1), (2, 2), (30, 3)] {
            machine.look(minute, step).await;
        }
        let ends = with(&machine.renewing.life.state, |state| state.lease_ends);
        assert_eq!((ends, renewed(store.path())), (Some(minutes(60)), 1));
        let Ok(Event::Warning(said)) = machine.heard.try_recv() else { panic!("nothing is said") };
        assert!(said.contains("still ends"), "{said}");
        // As once a full disk has room again.
        fs::remove_dir(machine.folder.path().join("lease-ends")).unwrap();
        machine.look(40, 3).await;
        assert_eq!((machine.ends(), renewed(store.path())), ((90, Some(90)), 1), "the term that it has, no other");
    }
}
