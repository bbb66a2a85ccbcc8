//! `*.xplane.pb`, the file that the profilers of JAX and TensorFlow write first: planes of devices and of the host, with lines of events.
//!
//! Numbers of fields are those of `xplane.proto` (github.com/openxla/xla, `third_party/tsl/tsl/profiler/protobuf`).

use std::collections::BTreeMap;
use std::io::Read;

use crate::trace::chrome::ChromeTrace;
use crate::trace::classes::is_xla_operator;
use crate::trace::protobuf::{Part, Value};
use crate::trace::scan::TraceError;
use crate::trace::tally::{Tally, Work};

/// A first field 1 whose message begins with its own field 1 or 2: a plane with its number or name. Text may begin with the same line break,
/// and never goes on so.
pub fn is_xplane(head: &[u8]) -> bool {
    let Some((0x0a, rest)) = head.split_first().map(|(first, rest)| (*first, rest)) else { return false };
    let length = rest.iter().take_while(|byte| **byte >= 0x80).count() + 1;
    matches!(rest.get(length), Some(0x08 | 0x12))
}

/// What TensorFlow's executor calls taking the next batch out of `tf.data` (`tensorflow/core/kernels/data/iterator_ops.cc`).
const WAITS_FOR_INPUT: &str = "IteratorGetNextOp::DoCompute";

/// The kind of an operator that TensorFlow's executor ran, of `scope/name:Kind`. Scopes are words of the program: what stands there says nothing.
fn tensorflow_operator(name: &str) -> Option<&str> {
    let (scope, kind) = name.rsplit_once(':')?;
    let is_word = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_./>-".contains(&byte))
    };
    (is_word(scope) && is_word(kind)).then_some(kind)
}

/// Reads a whole file; a message is at most 2 GiB, and names may stand behind what they name.
pub fn read(mut reader: impl Read) -> Result<ChromeTrace, TraceError> {
    let mut data = Vec::new();
    reader
        .read_to_end(&mut data)
        .map_err(|error| TraceError { at: data.len() as u64, detail: format!("unreadable: {error}") })?;
    let mut tally = Tally::default();
    let mut space = Part::whole(&data);
    while let Some((number, value)) = space.next_field()? {
        if let (1, Value::Bytes(part)) = (number, value) {
            Plane::read(part)?.count(&mut tally)?;
        }
    }
    let counted = tally.finish("TensorFlow or JAX profiler");
    if counted.operators.classes.is_empty() && counted.step.is_none() {
        let detail = "none of its planes has an operator, a kernel or a step".to_owned();
        return Err(TraceError { at: data.len() as u64, detail });
    }
    Ok(ChromeTrace { counted, gpu: None })
}

/// A device, or the host.
#[derive(Default)]
struct Plane<'a> {
    name: &'a str,
    lines: Vec<Part<'a>>,
    event_names: BTreeMap<i64, &'a str>,
    stat_names: BTreeMap<i64, &'a str>,
}

impl<'a> Plane<'a> {
    fn read(mut plane: Part<'a>) -> Result<Self, TraceError> {
        let mut read = Self::default();
        while let Some((number, value)) = plane.next_field()? {
            match (number, value) {
                (2, _) => read.name = value.text(),
                (3, Value::Bytes(line)) => read.lines.push(line),
                (4, Value::Bytes(entry)) => read.event_names.extend([named(entry)?]),
                (5, Value::Bytes(entry)) => read.stat_names.extend([named(entry)?]),
                _ => {}
            }
        }
        Ok(read)
    }

    /// Number of the device; `None`: the host.
    fn device(&self) -> Option<i64> {
        let (_, device) = self.name.split_once("/device:")?;
        Some(
            device
                .rsplit(':')
                .next()?
                .chars()
                .take_while(char::is_ascii_digit)
                .collect::<String>()
                .parse()
                .unwrap_or(0),
        )
    }

    fn count(&self, tally: &mut Tally) -> Result<(), TraceError> {
        for (thread, line) in (0..).zip(&self.lines) {
            self.count_line(*line, thread, tally)?;
        }
        Ok(())
    }

    fn count_line(&self, mut line: Part<'a>, thread: u64, tally: &mut Tally) -> Result<(), TraceError> {
        let (mut name, mut begun, mut events) = ("", 0, Vec::new());
        while let Some((number, value)) = line.next_field()? {
            match (number, value) {
                (2, _) => name = value.text(),
                (3, _) => begun = value.signed(),
                (4, Value::Bytes(event)) => events.push(event),
                _ => {}
            }
        }
        let device = self.device();
        for event in events {
            let Some(event) = self.event(event, begun)? else { continue };
            let (start, end) = (event.start, event.end);
            match device {
                // A TPU draws its operators on one line; a GPU each stream.
                Some(device) if name == "XLA Ops" || name.starts_with("Stream #") => {
                    let kinds = event.copied.map(|(from, to)| format!("{} ({from} -> {to})", event.name));
                    tally.device_work(Work {
                        name: kinds.as_deref().unwrap_or(event.name),
                        device,
                        start,
                        end,
                        correlation: event.correlation,
                        bytes: event.bytes,
                    });
                }
                Some(device) if name == "Steps" => {
                    tally.device_step(device, "the device's steps", event.name, start, end);
                }
                Some(_) => {}
                None => {
                    if event.correlation != 0 {
                        tally.launch(event.correlation, end);
                    }
                    if event.is_step {
                        tally.step(&format!("steps named `{}`", event.name), end.saturating_sub(start));
                    }
                    if event.name == WAITS_FOR_INPUT {
                        tally.input_wait(end.saturating_sub(start));
                    }
                    if name.starts_with("tf_XLA") {
                        if is_xla_operator(event.name) {
                            tally.host.add(thread, event.name, start, end);
                        }
                    } else if let Some(kind) = tensorflow_operator(event.name).filter(|_| !name.starts_with("tf_data"))
                    {
                        tally.host.add(thread, kind, start, end);
                    }
                }
            }
        }
        Ok(())
    }

    /// `None`: one without a time.
    fn event(&self, mut event: Part<'a>, begun: i64) -> Result<Option<Event<'a>>, TraceError> {
        let (mut named, mut offset, mut length) = (0, None, 0);
        let mut found = Event::default();
        while let Some((number, value)) = event.next_field()? {
            match (number, value) {
                (1, _) => named = value.signed(),
                (2, _) => offset = Some(value.signed()),
                (3, _) => length = value.signed(),
                (4, Value::Bytes(stat)) => self.stat(stat, &mut found)?,
                _ => {}
            }
        }
        found.name = self.event_names.get(&named).copied().unwrap_or("(no name)");
        // Lines begin at nanoseconds, events at picoseconds after that. A field that is 0 is not written.
        found.start = begun.saturating_add(offset.unwrap_or(0) / 1000);
        found.end = found.start.saturating_add(length.max(0) / 1000);
        Ok((offset.is_some() || length > 0).then_some(found))
    }

    fn stat(&self, mut stat: Part<'a>, found: &mut Event<'a>) -> Result<(), TraceError> {
        let (mut named, mut number, mut text) = (0, 0, "");
        while let Some((field, value)) = stat.next_field()? {
            match field {
                1 => named = value.signed(),
                3 | 4 => number = value.number(),
                5 => text = value.text(),
                7 => text = self.stat_names.get(&value.signed()).copied().unwrap_or_default(),
                _ => {}
            }
        }
        match self.stat_names.get(&named).copied().unwrap_or_default() {
            "correlation_id" => found.correlation = u32::try_from(number).unwrap_or(0),
            "step_num" => found.is_step = true,
            "bytes_accessed" => found.bytes = number as f64,
            // `kind_src:pageable kind_dst:device size:4096 dest:0 async:1`
            "memcpy_details" => {
                let part = |key: &str| text.split_whitespace().find_map(|word| word.strip_prefix(key));
                found.copied = part("kind_src:").zip(part("kind_dst:"));
                found.bytes = part("size:").and_then(|bytes| bytes.parse().ok()).unwrap_or(found.bytes);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Nanoseconds.
#[derive(Default)]
struct Event<'a> {
    name: &'a str,
    start: i64,
    end: i64,
    correlation: u32,
    is_step: bool,
    bytes: f64,
    /// Kinds of memory of a copy.
    copied: Option<(&'a str, &'a str)>,
}

/// An entry of a map from numbers to messages with a name.
fn named(mut entry: Part<'_>) -> Result<(i64, &str), TraceError> {
    let (mut key, mut name) = (0, "");
    while let Some((number, value)) = entry.next_field()? {
        match (number, value) {
            (1, _) => key = value.signed(),
            (2, Value::Bytes(mut message)) => {
                while let Some((number, value)) = message.next_field()? {
                    if number == 2 {
                        name = value.text();
                    }
                }
            }
            _ => {}
        }
    }
    Ok((key, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::OperatorClass;
    use proptest::prelude::*;

    fn varint(mut number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        while number >= 0x80 {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
        out
    }

    fn number(field: u64, value: u64) -> Vec<u8> {
        [varint(field << 3), varint(value)].concat()
    }

    fn bytes(field: u64, value: impl AsRef<[u8]>) -> Vec<u8> {
        let value = value.as_ref();
        [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
    }

    fn entry(field: u64, key: u64, name: &str) -> Vec<u8> {
        bytes(field, [number(1, key), bytes(2, [number(1, key), bytes(2, name)].concat())].concat())
    }

    fn event(name: u64, start: u64, length: u64, stats: &[Vec<u8>]) -> Vec<u8> {
        let stats: Vec<u8> = stats.iter().flat_map(|stat| bytes(4, stat)).collect();
        bytes(4, [number(1, name), number(2, start * 1_000_000), number(3, length * 1_000_000), stats].concat())
    }

    fn line(name: &str, events: &[Vec<u8>]) -> Vec<u8> {
        bytes(3, [bytes(2, name), number(3, 7_000), events.concat()].concat())
    }

    /// A GPU with a product, a copy and two steps, and a host that launched them; names behind what they name, as the protobuf library may.
    fn space() -> Vec<u8> {
        let copied = [number(1, 3), bytes(5, "kind_src:pageable kind_dst:device size:4096 dest:0 async:1")].concat();
        let launched = [number(1, 1), number(3, 12)].concat();
        let step = [number(1, 2), number(4, 0)].concat();
        let gpu = [
            number(1, 1),
            bytes(2, "/device:GPU:0"),
            line(
                "Stream #13(Compute)",
                &[event(1, 10, 20, std::slice::from_ref(&launched)), event(2, 40, 10, &[copied])],
            ),
            line("Steps", &[event(4, 10, 20, &[]), event(5, 45, 10, &[])]),
            line("XLA Modules", &[event(3, 10, 70, &[])]),
            entry(4, 1, "gemm_fusion_dot_3"),
            entry(4, 2, "MemcpyH2D"),
            entry(4, 3, "jit_step"),
            entry(4, 4, "0"),
            entry(4, 5, "1"),
            entry(5, 1, "correlation_id"),
            entry(5, 3, "memcpy_details"),
        ];
        let host = [
            bytes(2, "/host:CPU"),
            line("python", &[event(1, 0, 90, &[step]), event(2, 8, 1, &[launched])]),
            entry(4, 1, "train"),
            entry(4, 2, "cuLaunchKernel"),
            entry(5, 1, "correlation_id"),
            entry(5, 2, "step_num"),
        ];
        [bytes(1, gpu.concat()), bytes(1, host.concat())].concat()
    }

    #[test]
    fn a_device_is_counted() {
        let data = space();
        assert!(is_xplane(&data) && !is_xplane(b"\n{ \"traceEvents\": []}") && !is_xplane(b"{") && !is_xplane(b""));
        let found = read(&data[..]).unwrap().counted;
        let micros = |seconds: f64| (seconds * 1e6).round() as i64;
        let operators = &found.operators;
        assert_eq!((operators.devices, micros(operators.busy_seconds), micros(operators.gap_seconds)), (1, 30, 10));
        assert_eq!(micros(operators.seconds(OperatorClass::Compute)), 20);
        assert_eq!((operators.copies[0].kind.as_str(), operators.copies[0].bytes), ("HtoD pageable", 4096.0));
        let step = found.step.unwrap();
        assert_eq!((micros(step.median_seconds), step.found_in.as_str()), (35, "the device's steps"));
    }

    proptest! {
        #[test]
        fn damage_is_told_inside_the_file(length in 0_usize..500, at in 0_usize..500, byte in any::<u8>()) {
            let mut data = space();
            let at = at % data.len();
            data[at] = byte;
            data.truncate(length.max(2));
            if let Err(error) = read(&data[..]) {
                prop_assert!(error.at <= data.len() as u64, "{error}");
            }
        }
    }
}
