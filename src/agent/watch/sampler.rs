//! `Sampler`: looks at GPUs and host while the program runs, and at what costs time by what it saw.

use std::mem;
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::task::spawn_blocking;

use crate::rules::window::Window;
use gpuplan_runstore::status;
use gpuplan_telemetry::gpus::GpuCounters;
use gpuplan_telemetry::host::{HostCounters, cores};
use gpuplan_telemetry::{GpuSample, Sample};
use gpuplan_workload::profile::Finding;

/// Processes that a sample names, the busiest first.
const MOST_PROCESSES: usize = 8;
/// Counters end at once, unless the driver hangs; nothing waits for that.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

pub struct Sampler {
    /// The program that is asked where there is no NVML.
    nvidia_smi: String,
    pace: Duration,
    window: Window,
    session: Option<Session>,
    /// It was said why there are no GPU counters.
    is_said: bool,
}

/// While one start of the program lives.
struct Session {
    begun: Instant,
    sampled_at: Instant,
    gpus: Gpus,
    host: HostCounters,
}

enum Gpus {
    /// A driver that nobody used before may take seconds to come up (`nvidia-smi` manual, "Persistence Mode").
    Starting(thread::JoinHandle<Result<GpuCounters, String>>),
    /// Of a child that was gone at the last look: it may have been replaced by another one at that moment.
    Counting {
        counters: GpuCounters,
        was_gone: bool,
    },
    Absent,
}

/// What a sample of the machine brings.
pub struct Update {
    pub sample: Sample,
    /// What costs time and was not told before.
    pub new_findings: Vec<Finding>,
    /// Why there are no GPU counters, once.
    pub absent: Option<String>,
}

impl Sampler {
    pub fn new(nvidia_smi: &str, pace: Duration) -> Self {
        let window = Window::new(cores(), pace.as_secs_f64());
        Self { nvidia_smi: nvidia_smi.to_owned(), pace, window, session: None, is_said: false }
    }

    /// The program was started as that process.
    pub fn begin(&mut self, pid: i32) {
        self.window.clear();
        let (program, pace, now) = (self.nvidia_smi.clone(), self.pace, Instant::now());
        let gpus = Gpus::Starting(thread::spawn(move || GpuCounters::start(&program, pace, false)));
        self.session = Some(Session { begun: now, sampled_at: now, gpus, host: HostCounters::new(pid) });
    }

    /// The program has ended. A counter that cannot be ended in time is left to itself.
    pub async fn end(&mut self) {
        if let Some(session) = self.session.take() {
            let _ = tokio::time::timeout(ENDS_WITHIN, spawn_blocking(move || drop(session))).await;
        }
    }

    /// `None` if the next sample is not due yet. `step` is the last one that the program told of.
    pub fn sample(&mut self, step: Option<u64>) -> Option<Update> {
        let session = self.session.as_mut().filter(|session| session.sampled_at.elapsed() >= self.pace)?;
        session.sampled_at = Instant::now();
        let (gpus, absent) = session.gpus.read();
        let mut host = session.host.look();
        host.processes.retain(|(_, cores)| *cores > 0.0);
        host.processes.sort_by(|a, b| b.1.total_cmp(&a.1));
        host.processes.truncate(MOST_PROCESSES);
        let now = Timestamp::now();
        let seconds = session.begun.elapsed().as_secs_f64();
        let sample = Sample {
            at_unix_seconds: now.as_millisecond() as f64 / 1e3,
            seconds,
            gpus,
            host,
            step,
            step_seconds: None,
        };
        let new_findings = self.window.add(sample.clone(), now);
        let absent = absent.filter(|_| !mem::replace(&mut self.is_said, true));
        Some(Update { sample, new_findings, absent })
    }

    /// What costs time now.
    pub fn findings(&self) -> Vec<status::Finding> {
        self.window.findings()
    }
}

impl Gpus {
    /// What each GPU last said, or why no more will come.
    fn read(&mut self) -> (Vec<GpuSample>, Option<String>) {
        match mem::replace(self, Self::Absent) {
            Self::Starting(starting) if !starting.is_finished() => *self = Self::Starting(starting),
            Self::Starting(starting) => match starting.join() {
                Ok(Ok(counters)) => {
                    *self = Self::Counting { counters, was_gone: false };
                    return self.read();
                }
                Ok(Err(why)) => return (Vec::new(), Some(why)),
                Err(_) => return (Vec::new(), Some("the reader of the counters failed".to_owned())),
            },
            Self::Counting { mut counters, was_gone } => {
                let is_gone = !counters.is_running();
                if is_gone && was_gone {
                    return (
                        Vec::new(),
                        Some("nvidia-smi has ended: there is no driver, no GPU, or it failed".to_owned()),
                    );
                }
                let latest = if is_gone { Vec::new() } else { counters.latest() };
                *self = Self::Counting { counters, was_gone: is_gone };
                return (latest, None);
            }
            Self::Absent => {}
        }
        (Vec::new(), None)
    }
}
