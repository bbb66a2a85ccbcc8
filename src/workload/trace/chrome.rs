//! Chrome trace JSON: of PyTorch's profiler (Kineto) and of TensorFlow's and JAX's, told apart by their events.

use std::collections::BTreeMap;
use std::io::BufRead;

use serde::Deserialize;

use crate::profile::{MOST_GPUS, ProfiledGpu};
use crate::trace::classes::is_xla_operator;
use crate::trace::event::{Event, product};
use crate::trace::scan::{Scan, TraceError};
use crate::trace::shapes::Shapes;
use crate::trace::tally::{Counted, Tally, Work};
use crate::trace::unseen::Unseen;

/// What PyTorch marks a step of an optimizer with, `Optimizer.step#AdamW.step` (`torch/optim/optimizer.py`).
const OPTIMIZER: &str = "Optimizer.step#";

/// A trace and what it says of its machine.
#[derive(Clone, Debug, PartialEq)]
pub struct ChromeTrace {
    pub counted: Counted,
    pub gpu: Option<ProfiledGpu>,
}

/// Of `deviceProperties` and `distributedInfo` in the head of a Kineto trace.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DeviceProperties {
    id: i64,
    name: String,
    #[serde(rename = "totalGlobalMem")]
    memory: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Distributed {
    world_size: u32,
}

/// Reads a whole trace, event by event.
pub fn read(reader: impl BufRead) -> Result<ChromeTrace, TraceError> {
    let mut scan = Scan::new(reader);
    let mut trace = TraceReader::default();
    match scan.peek()? {
        Some(b'{') => trace.object(&mut scan)?,
        // The oldest form is the list alone.
        Some(b'[') => trace.events(&mut scan)?,
        Some(found) => {
            return Err(scan.error(format!("`{}` where a trace begins with `{{` or `[`", found.escape_ascii())));
        }
        None => return Err(scan.error("the file is empty")),
    }
    if let Some(found) = scan.peek()? {
        return Err(scan.error(format!("`{}` behind the end of the trace", found.escape_ascii())));
    }
    trace.finish(&scan)
}

#[derive(Default)]
struct TraceReader {
    tally: Tally,
    shapes: Shapes,
    events: u64,
    has_list: bool,
    devices: Vec<DeviceProperties>,
    world_size: u32,
    /// Parts of the head that cannot be read.
    notes: Vec<String>,
    /// Kineto gives each event a category; the others do not.
    is_kineto: bool,
    unseen: Unseen,
    /// Lines that TensorFlow and JAX draw: a device by process, and what kind of line by process and thread.
    device_of: BTreeMap<i64, i64>,
    lines: BTreeMap<(i64, i64), EventLine>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventLine {
    Work,
    Steps,
    HostOperators,
}

impl TraceReader {
    fn object<R: BufRead>(&mut self, scan: &mut Scan<R>) -> Result<(), TraceError> {
        scan.require(b'{')?;
        if scan.pass(b'}')? {
            return Ok(());
        }
        let mut text = Vec::new();
        loop {
            if scan.peek()? != Some(b'"') {
                scan.require(b'"')?;
            }
            scan.value(Some(&mut text))?;
            let key = String::from_utf8_lossy(&text).into_owned();
            scan.require(b':')?;
            match key.trim_matches('"') {
                "traceEvents" => self.events(scan)?,
                // What cannot be read there is no reason to refuse the rest.
                part @ ("deviceProperties" | "computeProperties") => {
                    scan.value(Some(&mut text))?;
                    let unknown =
                        |error| self.notes.push(format!("the GPU is not known: `{part}` cannot be read: {error}"));
                    self.devices = serde_json::from_slice(&text).map_err(unknown).unwrap_or_default();
                }
                part @ "distributedInfo" => {
                    scan.value(Some(&mut text))?;
                    let unknown = |error| {
                        self.notes
                            .push(format!("only the GPUs of this trace are counted: `{part}` cannot be read: {error}"));
                    };
                    self.world_size =
                        serde_json::from_slice::<Distributed>(&text).map_err(unknown).unwrap_or_default().world_size;
                }
                _ => scan.value(None)?,
            }
            if !scan.pass(b',')? {
                return scan.require(b'}');
            }
        }
    }

    fn events<R: BufRead>(&mut self, scan: &mut Scan<R>) -> Result<(), TraceError> {
        self.has_list = true;
        scan.require(b'[')?;
        if scan.pass(b']')? {
            return Ok(());
        }
        let mut json = Vec::with_capacity(4096);
        loop {
            scan.peek()?;
            let at = scan.position();
            scan.value(Some(&mut json))?;
            self.event(&json).map_err(|error| TraceError {
                at: at + byte_of(&json, &error),
                detail: format!("an event cannot be read: {}", without_place(&error)),
            })?;
            if !scan.pass(b',')? {
                return scan.require(b']');
            }
        }
    }

    fn event(&mut self, json: &[u8]) -> Result<(), serde_json::Error> {
        let event: Event = serde_json::from_slice(json)?;
        self.events += 1;
        match &*event.ph {
            "X" => {}
            "M" => {
                self.name_line(&event);
                return Ok(());
            }
            _ => return Ok(()),
        }
        let (Some(start), Some(length)) = (event.ts.nanos(), event.dur.nanos()) else { return Ok(()) };
        let end = start.saturating_add(length);
        if event.cat.is_empty() {
            self.unseen.uncategorised(event.pid, json);
            self.xla_event(&event, start, end);
        } else {
            self.kineto_event(&event, json, start, end);
        }
        Ok(())
    }

    fn kineto_event(&mut self, event: &Event, json: &[u8], start: i64, end: i64) {
        self.is_kineto = true;
        let joined = event.args.correlation.whole().or(event.args.external.whole());
        let correlation = joined.and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
        let device = event.args.device.whole().or(event.pid.whole()).unwrap_or(0);
        match &*event.cat {
            "kernel" | "Kernel" | "gpu_memcpy" | "Memcpy" | "gpu_memset" | "Memset" => {
                self.shapes.kernel(&mut self.tally.products, correlation, end.saturating_sub(start) as f64 * 1e-9);
                self.tally.device_work(Work {
                    name: &event.name,
                    device,
                    start,
                    end,
                    correlation,
                    bytes: event.args.bytes.0.unwrap_or(0.0),
                });
            }
            // `cuda_runtime`, `hip_runtime`, `xpu_driver`, ...; early versions of Kineto wrote `Runtime`.
            calls if calls.ends_with("_runtime") || calls.ends_with("_driver") || calls == "Runtime" => {
                self.unseen.calls += 1;
                if event.name.contains("Synchronize") {
                    self.tally.synchronisation(end - start);
                }
                self.shapes.launch(event.tid.whole().unwrap_or(0), start, correlation);
                self.tally.launch(correlation, end);
            }
            "gpu_user_annotation" if event.name.starts_with("ProfilerStep") => {
                self.tally.device_step(device, "ProfilerStep on the device", &event.name, start, end);
            }
            "gpu_user_annotation" if event.name.starts_with(OPTIMIZER) => {
                self.tally.optimizer(Some(device), &event.name, start);
            }
            "cpu_op" | "Operator" | "user_annotation" => self.host_event(event, json, start, end),
            _ => {}
        }
    }

    fn host_event(&mut self, event: &Event, json: &[u8], start: i64, end: i64) {
        let name = &*event.name;
        if name.starts_with("ProfilerStep") {
            self.tally.step("ProfilerStep", end - start);
        } else if name.starts_with(OPTIMIZER) {
            self.tally.optimizer(None, name, start);
        } else if name.starts_with("enumerate(DataLoader)") {
            self.tally.input_wait(end - start);
        } else if event.cat != "user_annotation" {
            self.tally.host.add(event.tid.whole().unwrap_or(0).unsigned_abs(), name, start, end);
            if let Some(found) = product(name, json) {
                let thread = event.tid.whole().unwrap_or(0);
                self.shapes.product(&mut self.tally.products, name, &found, thread, (start, end));
            }
        }
        // Autograd names its operators so.
        self.tally.products.has_backward |= name.contains("Backward");
        // The operators by which automatic mixed precision unscales gradients and looks for overflows.
        if name.starts_with("aten::_amp_") {
            self.tally.products.has_loss_scaler = true;
        }
    }

    /// Processes and threads are named before their events come.
    fn name_line(&mut self, event: &Event) {
        let (name, process) = (&*event.args.name, event.pid.whole().unwrap_or(0));
        match &*event.name {
            "process_name" => {
                let device = name.split_once("/device:").and_then(|(_, device)| device.rsplit(':').next());
                let number = device.map(|device| device.chars().take_while(char::is_ascii_digit).collect::<String>());
                if let Some(number) = number {
                    self.device_of.insert(process, number.parse().unwrap_or(process));
                }
            }
            "thread_name" => {
                let on_device = self.device_of.contains_key(&process);
                let line = match name {
                    "Steps" if on_device => EventLine::Steps,
                    // A TPU draws its operators on one line; the other lines group the same work by program and scope.
                    "XLA Ops" if on_device => EventLine::Work,
                    _ if on_device && name.starts_with("Stream #") => EventLine::Work,
                    _ if !on_device && name.starts_with("tf_XLA") => EventLine::HostOperators,
                    _ => return,
                };
                self.lines.insert((process, event.tid.whole().unwrap_or(0)), line);
            }
            _ => {}
        }
    }

    fn xla_event(&mut self, event: &Event, start: i64, end: i64) {
        if event.args.step_num.0.is_some() {
            self.tally.step(&format!("steps named `{}`", event.name), end - start);
        }
        let (process, thread) = (event.pid.whole().unwrap_or(0), event.tid.whole().unwrap_or(0));
        let correlation = event.args.correlation.whole().and_then(|id| u32::try_from(id).ok());
        // What names a correlation on the host launched something.
        if let Some(correlation) = correlation.filter(|_| !self.device_of.contains_key(&process)) {
            self.tally.launch(correlation, end);
        }
        match self.lines.get(&(process, thread)) {
            Some(EventLine::Work) => self.tally.device_work(Work {
                name: &event.name,
                device: self.device_of.get(&process).copied().unwrap_or(process),
                start,
                end,
                correlation: correlation.unwrap_or(0),
                bytes: event.args.bytes.0.unwrap_or(0.0),
            }),
            Some(EventLine::Steps) => {
                let device = self.device_of.get(&process).copied().unwrap_or(process);
                self.tally.device_step(device, "the device's steps", &event.name, start, end);
            }
            Some(EventLine::HostOperators) if is_xla_operator(&event.name) => {
                self.tally.host.add(thread.unsigned_abs(), &event.name, start, end);
            }
            Some(EventLine::HostOperators) | None => {}
        }
    }

    fn finish<R: BufRead>(self, scan: &Scan<R>) -> Result<ChromeTrace, TraceError> {
        if !self.has_list {
            return Err(scan.error("there is no list `traceEvents`: this is not a profiler's trace"));
        }
        if self.events == 0 {
            return Err(scan.error("the trace has no events"));
        }
        let mut counted =
            self.tally.finish(if self.is_kineto { "PyTorch profiler" } else { "TensorFlow or JAX profiler" });
        if counted.operators.classes.is_empty() && counted.step.is_none() {
            return Err(scan.error(self.unseen.why_nothing(self.events)));
        }
        if counted.operators.devices == 0 {
            counted.notes.extend(self.unseen.device(!self.devices.is_empty()));
        }
        counted.notes.extend(self.notes);
        let used = counted.operators.devices.max(1);
        let first = self.devices.iter().min_by_key(|device| device.id).filter(|device| !device.name.is_empty());
        let gpu = first.map(|device| ProfiledGpu {
            name: device.name.clone(),
            // More than a profile may have is damage, and says nothing.
            count: if self.world_size <= MOST_GPUS { self.world_size.max(used) } else { used },
            memory_bytes: Some(device.memory).filter(|memory| *memory > 0.0),
        });
        Ok(ChromeTrace { counted, gpu })
    }
}

/// Where in `json` serde stopped; it counts lines and columns from one.
fn byte_of(json: &[u8], error: &serde_json::Error) -> u64 {
    let lines_before = json
        .split_inclusive(|byte| *byte == b'\n')
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum::<usize>();
    (lines_before + error.column().saturating_sub(1)).min(json.len()) as u64
}

fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line").map_or(text.clone(), |(before, _)| before.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::OperatorClass;
    use proptest::prelude::*;

    const TRACE: &str = r#"{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85e9}],
 "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8}, "traceEvents": [
 {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "python"}},
 {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 7, "tid": 7, "ts": 0, "dur": 200},
 {"ph": "X", "cat": "user_annotation", "name": "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "pid": 7, "tid": 7, "ts": 0, "dur": 20},
 {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": 21, "dur": 9, "args": {"Input Dims": [[8, 63], [63, 16]], "Input type": ["c10::Half", "c10::Half"]}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": 22, "dur": 5, "args": {"correlation": 5}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 7, "tid": 7, "ts": 150, "dur": 40, "args": {"correlation": 9}},
 {"ph": "X", "cat": "kernel", "name": "ampere_sgemm_32", "pid": 0, "tid": 7, "ts": 30, "dur": 50, "args": {"device": 0, "stream": 7, "correlation": 5}},
 {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 9, "ts": 70, "dur": 30, "args": {"device": 0, "stream": 9}},
 {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": 7, "ts": 110, "dur": 10, "args": {"device": 0, "bytes": 4096}}],
 "traceName": "x.json"}"#;

    #[test]
    fn a_kineto_trace_is_counted() {
        let trace = read(TRACE.as_bytes()).unwrap();
        let found = &trace.counted.operators;
        assert_eq!(
            trace.gpu,
            Some(ProfiledGpu { name: "NVIDIA H100 80GB HBM3".to_owned(), count: 8, memory_bytes: Some(85e9) })
        );
        assert_eq!((found.format.as_str(), found.devices), ("PyTorch profiler", 1));
        let micros = |seconds: f64| (seconds * 1e6).round() as i64;
        assert_eq!((micros(found.span_seconds), micros(found.busy_seconds), micros(found.gap_seconds)), (90, 80, 10));
        assert_eq!(micros(found.exposed_communication_seconds), 20);
        assert_eq!(micros(found.seconds(OperatorClass::Compute)), 50);
        assert_eq!(micros(found.input_wait_seconds), 20);
        assert_eq!((found.synchronisations, micros(found.synchronisation_seconds)), (1, 40));
        assert_eq!((found.products.shaped, found.products.unaligned, found.products.in_fp16), (1, 1, 1));
        assert_eq!(micros(trace.counted.step.unwrap().median_seconds), 200);
    }

    #[test]
    fn a_head_that_cannot_be_read_is_said() {
        let trace = read(TRACE.replace("\"world_size\": 8", "\"world_size\": \"eight\"").as_bytes()).unwrap();
        assert_eq!(trace.gpu.unwrap().count, 1);
        assert!(
            trace.counted.notes.iter().any(|note| note.starts_with("only the GPUs of this trace are counted")),
            "{:?}",
            trace.counted.notes
        );
        let trace = read(TRACE.replace("\"id\": 0, \"name\"", "\"id\": [], \"name\"").as_bytes()).unwrap();
        assert_eq!(trace.gpu, None);
        assert!(
            trace.counted.notes.iter().any(|note| note.starts_with("the GPU is not known")),
            "{:?}",
            trace.counted.notes
        );
    }

    #[test]
    fn a_trace_of_jax_on_a_gpu_is_counted() {
        let text = r#"{"traceEvents": [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
 {"ph": "M", "pid": 1, "tid": 13, "name": "thread_name", "args": {"name": "Stream #13(Compute)"}},
 {"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "XLA Modules"}},
 {"ph": "M", "pid": 701, "name": "process_name", "args": {"name": "/host:CPU"}},
 {"ph": "X", "pid": 701, "tid": 5, "ts": 0, "dur": 90, "name": "train", "args": {"step_num": "4"}},
 {"ph": "X", "pid": 1, "tid": 13, "ts": 10, "dur": 20, "name": "gemm_fusion_dot_3", "args": {"correlation_id": "12"}},
 {"ph": "X", "pid": 1, "tid": 13, "ts": 40, "dur": 20, "name": "loop_add_fusion"},
 {"ph": "X", "pid": 1, "tid": 2, "ts": 10, "dur": 70, "name": "jit_step"}, {}]}"#;
        let found = read(text.as_bytes()).unwrap().counted;
        assert_eq!(found.operators.format, "TensorFlow or JAX profiler");
        assert!((found.operators.busy_seconds - 40e-6).abs() < 1e-12);
        assert!((found.step.unwrap().median_seconds - 90e-6).abs() < 1e-12);
    }

    /// The host launches a step in 10 us that takes the device 30.
    #[test]
    fn steps_are_the_device_s_where_it_has_marks() {
        let marks: String = (1..4)
            .flat_map(|step| {
                let event = |cat: &str, pid: i64, ts: i64, dur: i64| {
                    format!("{{\"ph\": \"X\", \"cat\": \"{cat}\", \"name\": \"ProfilerStep#{step}\", \"pid\": {pid}, \"tid\": 7, \"ts\": {ts}, \"dur\": {dur}, \"args\": {{\"External id\": {step}}}}},")
                };
                [event("user_annotation", 9, step * 10, 10), event("gpu_user_annotation", 0, step * 30, 28)]
            })
            .collect();
        let step = |text: String| read(text.as_bytes()).unwrap().counted.step.unwrap();
        let found = step(TRACE.replace("\"traceEvents\": [", &format!("\"traceEvents\": [{marks}")));
        assert_eq!((found.count, (found.median_seconds * 1e6).round() as i64), (2, 30));
        assert_eq!(found.found_in, "ProfilerStep on the device");
    }

    #[test]
    fn products_weigh_what_their_kernels_take() {
        let products = read(TRACE.as_bytes()).unwrap().counted.operators.products;
        let micros = |seconds: f64| (seconds * 1e6).round() as i64;
        assert_eq!((products.small, micros(products.small_seconds)), (1, 50));
        assert_eq!((products.unaligned, micros(products.unaligned_seconds)), (1, 50));
        // Launched after the product was over: not its kernel.
        let later = read(TRACE.replace("\"ts\": 22, \"dur\": 5", "\"ts\": 31, \"dur\": 5").as_bytes()).unwrap();
        assert_eq!(later.counted.operators.products.small_seconds, 0.0);
    }

    #[test]
    fn a_trace_without_anything_known_is_refused() {
        let error = read(
            "{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"a\", \"pid\": 1, \"tid\": 2, \"ts\": 1, \"dur\": 2}]}"
                .as_bytes(),
        );
        assert!(error.unwrap_err().detail.contains("none of its 1 events"));
    }

    #[test]
    fn faults_are_told_with_their_byte() {
        let at = |text: &str| read(text.as_bytes()).unwrap_err();
        assert_eq!(at(&TRACE[..900]).at, 900);
        assert!(at(&TRACE[..900]).detail.contains("cut off"));
        assert_eq!(at("").detail, "the file is empty");
        assert_eq!(at("hello").at, 0);
        assert!(at("{\"a\": 1}").detail.contains("no list"));
        // The event begins at byte 17, its second comma is one too many.
        let error = at("{\"traceEvents\": [{\"ph\": \"X\",, }]}");
        assert_eq!(error.at, 28, "{error}");
        assert!(at("{\"traceEvents\": [{}]} x").detail.contains("behind the end"));
    }

    proptest! {
        /// Refused, a place in the file is told; read, no time is negative and no part exceeds the whole.
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,300}", start in any::<f64>(), length in any::<f64>(), category in 0..4_usize) {
            let category = ["kernel", "gpu_memcpy", "cpu_op", ""][category];
            let event = format!("\"cat\": \"{category}\", \"pid\": 1, \"ts\": {start}, \"dur\": {length}, \"name\": {}", serde_json::json!(text));
            let inside = |event: &str| format!("{{\"traceEvents\": [{{\"ph\": \"X\", {event}}}]}}");
            for text in [text.clone(), inside(&text), inside(&event)] {
                match read(text.as_bytes()) {
                    Err(error) => prop_assert!(error.at <= text.len() as u64 && !error.detail.is_empty(), "{error}"),
                    Ok(trace) => {
                        let found = trace.counted.operators;
                        prop_assert!(found.gap_seconds >= 0.0 && (0.0..=found.span_seconds).contains(&found.busy_seconds), "{found:?}");
                        prop_assert!(found.classes.iter().all(|class| class.seconds >= 0.0), "{found:?}");
                    }
                }
            }
        }

        #[test]
        fn any_cut_is_told_inside_the_file(length in 0_usize..TRACE.len()) {
            let error = read(&TRACE.as_bytes()[..length]).unwrap_err();
            prop_assert!(error.at <= length as u64);
        }
    }
}
