//! `profile run`: the command runs unchanged while counters are sampled and its log is read.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use crate::measuring::profile::arguments::RunArguments;
use crate::measuring::profile::exports::Exports;
use crate::measuring::profile::findings::{complete_profile, write_profile};
use crate::session::Session;
use crate::session::diagnostic::Diagnostic;
use crate::session::printer::Printer;
use gpuplan_report::measure::profile_text;
use gpuplan_telemetry::gpus::GpuCounters;
use gpuplan_telemetry::host::{HostCounters, cores};
use gpuplan_telemetry::smi::topology;
use gpuplan_telemetry::steps::Lines;
use gpuplan_telemetry::{Sample, Step, StepFinder, Summary};
use gpuplan_workload::profile::{Profile, ProfiledGpu};

/// Exit codes of a shell that cannot start a program (POSIX, "Exit Status for Commands").
const NOT_FOUND: u8 = 127;

const NOT_EXECUTABLE: u8 = 126;

/// How long to read what background processes still write after the command has ended.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Fewer samples of training than this say less than all samples together.
const LEAST_SAMPLES: u64 = 3;

/// Bytes read of an output at once.
const CHUNK: usize = 1 << 16;

/// Runs the command to its end and gives its exit code, whatever becomes of the profile.
pub fn run(arguments: &RunArguments, session: &Session) -> Result<ExitCode, Diagnostic> {
    let steps = StepFinder::new(arguments.steps.as_deref())
        .map_err(|error| Diagnostic::usage(&error).hint("--steps 'step (?P<step>\\d+)'"))?;
    // What would fail after hours of training fails before it.
    let mut trial = Profile::new("");
    let hardware = session.hardware()?;
    complete_profile(&mut trial, arguments.workload.as_deref(), &hardware, session)?;
    write_profile(&trial, &arguments.out)?;
    let exports = Exports::open(arguments, session.now)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Diagnostic::unexpected)?;
    let ran = runtime.block_on(watch(arguments, steps, exports, &session.printer));
    let (status, mut watched) = match ran {
        Ok(done) => done,
        Err(NotStarted { code, reason }) => {
            session.printer.diagnostic(&Diagnostic::usage(reason));
            return Ok(ExitCode::from(code));
        }
    };
    watched.exports.finish(status.success()).unwrap_or_else(|why| session.printer.warning(&why));
    let mut profile = watched.profile(arguments);
    match complete_profile(&mut profile, arguments.workload.as_deref(), &hardware, session)
        .and_then(|()| write_profile(&profile, &arguments.out))
    {
        Ok(()) => {
            // The last line of the command may lack its end.
            session.printer.note(&format!("\n{}", profile_text::text(&profile, session.width)));
            session.printer.note(&format!(
                "gpuplan: written to {}; use it with `gpuplan plan … --profile`",
                arguments.out.display()
            ));
            if let Some(store) = &arguments.mlflow {
                session.printer.note(&format!(
                    "gpuplan: `mlflow ui`, started in {0}, shows the run, and so does `mlflow ui --backend-store-uri sqlite:///{0}/mlflow.db` elsewhere",
                    store.display()
                ));
            }
        }
        Err(diagnostic) => {
            session.printer.diagnostic(&diagnostic);
        }
    }
    Ok(ExitCode::from(code(status)))
}

/// A signal counts as 128 and its number, as in a shell.
fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, signal) => (128 + signal.unwrap_or(0)) as u8,
    }
}

struct NotStarted {
    code: u8,
    reason: String,
}

/// Everything that is gathered while the command runs.
struct Watched {
    begun: Instant,
    steps: StepFinder,
    exports: Exports,
    counters: Result<GpuCounters, String>,
    host: HostCounters,
    cores: u32,
    /// Of the whole run, and since its first step: what comes before is imports and compilation.
    whole: Summary,
    training: Option<Summary>,
    training_samples: u64,
    last_step: Option<Step>,
    gpus: Vec<(String, Option<f64>)>,
    warned: bool,
}

async fn watch(
    arguments: &RunArguments,
    steps: StepFinder,
    exports: Exports,
    printer: &Printer,
) -> Result<(ExitStatus, Watched), NotStarted> {
    let mut child = start(&arguments.command)?;
    let begun = Instant::now();
    let mut watched = Watched {
        begun,
        steps,
        exports,
        counters: GpuCounters::start(&arguments.nvidia_smi, arguments.interval, true),
        host: HostCounters::new(child.id().map_or(0, |pid| pid as i32)),
        cores: cores(),
        whole: Summary::default(),
        training: None,
        training_samples: 0,
        last_step: None,
        gpus: Vec::new(),
        warned: false,
    };
    if let Err(why) = &watched.counters {
        printer.note(&format!("gpuplan: no GPU counters, since {why}; the host's alone are sampled"));
    }
    let status = follow(&mut child, &mut watched, arguments.interval, printer).await;
    status
        .map(|status| (status, watched))
        .map_err(|error| NotStarted { code: 1, reason: format!("the command was lost: {error}") })
}

fn start(command: &[String]) -> Result<Child, NotStarted> {
    let Some((name, rest)) = command.split_first() else {
        return Err(NotStarted { code: NOT_FOUND, reason: "there is no command".to_owned() });
    };
    // The same process group: Ctrl-C in a terminal reaches it as it always does.
    Command::new(name).args(rest).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|error| NotStarted {
        code: if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE },
        reason: format!("cannot start {name}: {error}"),
    })
}

/// One output of the command, handed on as it comes.
struct Output<R> {
    reader: Option<R>,
    buffer: Vec<u8>,
    lines: Lines,
    is_error: bool,
}

impl<R: tokio::io::AsyncRead + Unpin> Output<R> {
    fn new(reader: Option<R>, is_error: bool) -> Self {
        Self { reader, buffer: vec![0; CHUNK], lines: Lines::default(), is_error }
    }

    /// Bytes of the next piece; forever nothing after its end.
    async fn read(&mut self) -> usize {
        let Some(reader) = &mut self.reader else { return std::future::pending().await };
        match reader.read(&mut self.buffer).await {
            Ok(length) if length > 0 => length,
            _ => {
                self.reader = None;
                0
            }
        }
    }
}

async fn follow(
    child: &mut Child,
    watched: &mut Watched,
    interval: Duration,
    printer: &Printer,
) -> std::io::Result<ExitStatus> {
    let mut out = Output::new(child.stdout.take(), false);
    let mut errors = Output::new(child.stderr.take(), true);
    let pid = child.id().and_then(|pid| Pid::from_raw(pid as i32));
    let mut terminated = signal(SignalKind::terminate())?;
    let mut hung_up = signal(SignalKind::hangup())?;
    // Ctrl-C reaches the command by itself; it is caught here so that it does not end the profile before its command.
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut clock = tokio::time::interval(interval);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    clock.tick().await;
    let mut ended: Option<(ExitStatus, Instant)> = None;
    loop {
        let left = ended.map_or(Duration::MAX, |(_, at)| LAST_WORDS.saturating_sub(at.elapsed()));
        let is_silent = out.reader.is_none() && errors.reader.is_none();
        if let Some((status, _)) = ended.filter(|_| is_silent || left.is_zero()) {
            return Ok(status);
        }
        tokio::select! {
            length = out.read() => watched.read(&mut out, length, printer),
            length = errors.read() => watched.read(&mut errors, length, printer),
            _ = clock.tick(), if ended.is_none() => watched.look(printer),
            status = child.wait(), if ended.is_none() => ended = Some((status?, Instant::now())),
            _ = terminated.recv() => pass_on(pid, Signal::TERM),
            _ = hung_up.recv() => pass_on(pid, Signal::HUP),
            _ = interrupted.recv() => {}
            () = tokio::time::sleep(left), if ended.is_some() => {}
        }
    }
}

fn pass_on(pid: Option<Pid>, signal: Signal) {
    if let Some(pid) = pid {
        // One that has ended needs no signal.
        let _ = kill_process(pid, signal);
    }
}

impl Watched {
    fn read<R>(&mut self, output: &mut Output<R>, length: usize, printer: &Printer) {
        let at = self.begun.elapsed().as_secs_f64();
        let bytes = &output.buffer[..length];
        printer.pass(bytes, output.is_error);
        output.lines.feed(bytes, |line| {
            if let Some(step) = self.steps.line(at, line) {
                self.last_step = Some(step);
                self.training.get_or_insert_default();
            }
        });
    }

    fn look(&mut self, printer: &Printer) {
        let gpus = self.counters.as_ref().map(GpuCounters::latest).unwrap_or_default();
        let sample = Sample {
            at_unix_seconds: Timestamp::now().as_millisecond() as f64 / 1e3,
            seconds: self.begun.elapsed().as_secs_f64(),
            gpus,
            host: self.host.look(),
            step: self.last_step.and_then(|step| step.number),
            step_seconds: self.last_step.and_then(|step| step.seconds),
        };
        self.gpus = sample.gpus.iter().map(|gpu| (gpu.name.clone(), gpu.memory_total_bytes)).collect();
        self.whole.add(&sample, self.cores);
        if let Some(training) = &mut self.training {
            training.add(&sample, self.cores);
            self.training_samples += 1;
        }
        if let Err(why) = self.exports.add(&sample) {
            // Once is enough; the command matters more.
            if !self.warned {
                printer.warning(&why);
            }
            self.warned = true;
        }
    }

    fn profile(&mut self, arguments: &RunArguments) -> Profile {
        let mut profile = Profile::new(&arguments.command.join(" "));
        profile.step = self.steps.times();
        let links = if self.gpus.len() > 1 { topology(&arguments.nvidia_smi) } else { None };
        let training = self.training.as_ref().filter(|_| self.training_samples >= LEAST_SAMPLES);
        if training.is_some() {
            profile.notes.push(
                "counters are those since the first step: what comes before is imports and compilation".to_owned(),
            );
        }
        profile.usage = training.unwrap_or(&self.whole).usage(arguments.interval.as_secs_f64(), self.cores, links);
        profile.gpu = self.gpus.first().map(|(name, memory)| ProfiledGpu {
            name: name.clone(),
            count: self.gpus.len() as u32,
            memory_bytes: *memory,
        });
        let ended = self.counters.as_mut().is_ok_and(|counters| !counters.is_running());
        match &self.counters {
            Err(why) => profile.notes.push(format!("no GPU counters, since {why}")),
            Ok(_) if self.gpus.is_empty() && ended => {
                profile.notes.push("no GPU counters: nvidia-smi ended, so there is no driver or no GPU".to_owned());
            }
            Ok(_) if self.gpus.is_empty() => {
                profile.notes.push("no GPU counters: nvidia-smi did not answer in time".to_owned());
            }
            Ok(_) => {}
        }
        if profile.usage.is_none() {
            profile.notes.push("the command ended before the first sample: give a shorter --interval".to_owned());
        }
        if profile.step.is_none() {
            profile.notes.push("no steps were found in the log: describe one with --steps".to_owned());
        }
        profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        let end = |script: &str| code(std::process::Command::new("sh").args(["-c", script]).status().unwrap());
        assert_eq!((end("exit 3"), end("kill -9 $$"), end("true")), (3, 137, 0));
    }

    #[test]
    fn a_command_that_is_not_there_is_told_as_a_shell_would() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let failed = runtime.block_on(async { start(&["/nonexistent/program".to_owned()]).err().unwrap() });
        assert_eq!(failed.code, NOT_FOUND);
        assert!(failed.reason.contains("/nonexistent/program"));
    }
}
