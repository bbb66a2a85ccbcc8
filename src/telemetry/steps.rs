//! Finds optimizer steps in the lines of a log: of the common trainers, or by a pattern of the user.

use std::collections::BTreeMap;

use regex_lite::{Captures, Regex};

use gpuplan_workload::profile::StepTimes;

/// Formats and their patterns, the more certain first; a line counts for the first that fits.
///
/// Groups: `step` its number, `total` of how many, and the time that the trainer itself says, as `seconds`, `milliseconds` or
/// `rate` (steps a second).
const FORMATS: [(&str, &str); 8] = [
    (
        "Megatron",
        r"iteration\s+(?P<step>\d+)/\s*(?P<total>\d+)\s*\|.*elapsed time per iteration \(ms\):\s*(?P<milliseconds>[\d.]+)",
    ),
    ("MaxText (JAX)", r"completed step:\s*(?P<step>\d+),\s*seconds:\s*(?P<seconds>[\d.]+)"),
    ("torchtitan", r"\bstep:\s*(?P<step>\d+)\s+loss:"),
    ("nanoGPT", r"\biter (?P<step>\d+): loss \S+ time (?P<milliseconds>[\d.]+)ms"),
    // Hugging Face Trainer and Lightning draw this bar.
    ("progress bar (HF Trainer, Lightning)", r"(?P<step>\d+)/(?P<total>\d+) \[[\d:]+<[\d:?]+"),
    ("Keras", r"(?P<step>\d+)/(?P<total>\d+) (?:\[[=>.]+\]|━+)"),
    ("HF Trainer's last line", r"'train_steps_per_second': '?(?P<rate>[\d.]+)"),
    ("step numbers", r"(?i)\b(?:global[_ ]?step|step|iteration|iter)[ =:#]+(?P<step>\d+)\b"),
];
/// Steps of which the time is kept: 8 MiB. A longer run is judged by its last ones.
const MOST_STEPS: usize = 1 << 20;
/// The first step compiles and fills caches where it takes more than this many times the usual one.
const WARM_UP: f64 = 2.0;

/// Why a pattern cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("`{pattern}` is not a valid regular expression: {detail}")]
    Malformed { pattern: String, detail: String },
    #[error("`{pattern}` has no group named step, seconds, milliseconds or rate, such as (?P<step>\\d+)")]
    NoGroup { pattern: String },
}

/// A step that was found in a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    pub number: Option<u64>,
    /// Of one step, where it is known yet.
    pub seconds: Option<f64>,
}

/// One trainer's steps. A log may have several bars; the one that ran longest is the training.
#[derive(Clone, Debug, Default)]
struct Series {
    last: Option<(u64, f64)>,
    seconds: Vec<f64>,
    elapsed: f64,
}

pub struct StepFinder {
    formats: Vec<(&'static str, Regex)>,
    series: BTreeMap<(usize, u64), Series>,
}

impl StepFinder {
    /// `pattern` replaces the known formats.
    pub fn new(pattern: Option<&str>) -> Result<Self, PatternError> {
        let compile = |text: &str| {
            Regex::new(text)
                .map_err(|error| PatternError::Malformed { pattern: text.to_owned(), detail: error.to_string() })
        };
        let formats = match pattern {
            None => FORMATS
                .iter()
                .map(|(name, text)| Ok((*name, compile(text)?)))
                .collect::<Result<Vec<_>, PatternError>>()?,
            Some(text) => {
                let compiled = compile(text)?;
                let known = ["step", "seconds", "milliseconds", "rate"];
                if !compiled.capture_names().flatten().any(|name| known.contains(&name)) {
                    return Err(PatternError::NoGroup { pattern: text.to_owned() });
                }
                vec![("your pattern", compiled)]
            }
        };
        Ok(Self { formats, series: BTreeMap::new() })
    }

    /// A line, or a piece of one that a carriage return ended, which came `at` seconds after the start.
    pub fn line(&mut self, at: f64, text: &str) -> Option<Step> {
        let text = without_colours(text);
        let (format, captures) =
            self.formats.iter().enumerate().find_map(|(at, (_, pattern))| Some((at, pattern.captures(&text)?)))?;
        let number = whole(&captures, "step");
        let stated = stated_seconds(&captures);
        let series = self.series.entry((format, whole(&captures, "total").unwrap_or(0))).or_default();
        let passed = match (series.last, number) {
            // A bar draws a step more than once, and begins again with each epoch.
            (Some((before, then)), Some(now)) if now > before => Some(((at - then) / (now - before) as f64, at - then)),
            _ => None,
        };
        if let Some(number) = number {
            let is_new = series.last.is_none_or(|(before, _)| before != number);
            if is_new {
                series.last = Some((number, at));
            }
        }
        series.elapsed += stated.or(passed.map(|(_, elapsed)| elapsed)).unwrap_or(0.0);
        let seconds = stated.or(passed.map(|(each, _)| each)).filter(|seconds| seconds.is_finite() && *seconds > 0.0);
        if let Some(seconds) = seconds {
            if series.seconds.len() >= MOST_STEPS {
                series.seconds.drain(..MOST_STEPS / 2);
            }
            series.seconds.push(seconds);
        }
        Some(Step { number, seconds })
    }

    /// What the steps of the training come to.
    pub fn times(&self) -> Option<StepTimes> {
        let timed = self.series.iter().filter(|(_, series)| !series.seconds.is_empty());
        let ((format, _), series) = timed.max_by(|a, b| a.1.elapsed.total_cmp(&b.1.elapsed))?;
        let name = self.formats.get(*format).map_or("", |(name, _)| name);
        let all = StepTimes::from_seconds(&series.seconds, None, name)?;
        match series.seconds.split_first() {
            Some((first, rest)) if !rest.is_empty() && *first > WARM_UP * all.median_seconds => {
                StepTimes::from_seconds(rest, Some(*first), name)
            }
            _ => Some(all),
        }
    }
}

fn whole(captures: &Captures, group: &str) -> Option<u64> {
    captures.name(group)?.as_str().parse().ok()
}

fn stated_seconds(captures: &Captures) -> Option<f64> {
    let number = |group: &str| {
        captures.name(group)?.as_str().parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0)
    };
    number("seconds").or(number("milliseconds").map(|millis| millis / 1e3)).or(number("rate").map(|rate| 1.0 / rate))
}

/// Trainers colour their lines: an escape, a bracket, numbers, a letter (ECMA-48, section 5.4).
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' && letters.peek() == Some(&'[') {
            letters.next();
            for inside in letters.by_ref() {
                if ('\u{40}'..='\u{7e}').contains(&inside) {
                    break;
                }
            }
        } else {
            plain.push(letter);
        }
    }
    plain
}

/// Cuts a stream of bytes into lines; a carriage return, by which bars draw over themselves, ends one too.
#[derive(Debug, Default)]
pub struct Lines {
    held: Vec<u8>,
}

/// A line longer than this is no log.
const LONGEST_LINE: usize = 1 << 16;

impl Lines {
    pub fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&str)) {
        for byte in bytes {
            match byte {
                b'\n' | b'\r' => {
                    if !self.held.is_empty() {
                        each(&String::from_utf8_lossy(&self.held));
                    }
                    self.held.clear();
                }
                _ if self.held.len() < LONGEST_LINE => self.held.push(*byte),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn times(lines: &[(f64, &str)]) -> StepTimes {
        let mut finder = StepFinder::new(None).unwrap();
        for (at, line) in lines {
            finder.line(*at, line);
        }
        finder.times().unwrap()
    }

    #[test]
    fn steps_are_found_in_the_log_of_every_trainer() {
        let bar = |step: u32| format!(" {}%|###  | {step}/500 [01:0{step}<07:20,  1.00it/s]", step / 5);
        let (one, two, three) = (bar(1), bar(2), bar(4));
        let found = times(&[
            (0.5, " 50%|####  | 1/2 [00:00<00:00, 12.0it/s]"),
            (0.6, "100%|######| 2/2 [00:00<00:00, 12.0it/s]"),
            (2.0, &one),
            (2.1, &one),
            (3.0, &two),
            (5.0, &three),
        ]);
        assert_eq!(
            (found.found_in.as_str(), found.count, found.median_seconds),
            ("progress bar (HF Trainer, Lightning)", 2, 1.0)
        );

        let megatron = " [2025-01-01 00:00:00] iteration        3/  500000 | consumed samples:          768 | elapsed time per iteration (ms): 1234.5 | learning rate: 1E-4 |";
        assert_eq!(times(&[(0.0, megatron)]).median_seconds, 1.2345);
        let titan = |step| {
            format!(
                "[rank0]:\u{1b}[31m step: {step}  \u{1b}[32mloss: 12.2 \u{1b}[33mmemory: 13.66GiB(14.38%)  tps: 2,346"
            )
        };
        let found = times(&[(1.0, &titan(10)), (21.0, &titan(20))]);
        assert_eq!((found.found_in.as_str(), found.median_seconds), ("torchtitan", 2.0));
        let max_text = "completed step: 7, seconds: 0.517, TFLOP/s/device: 100.1, Tokens/s/device: 7900.2, loss: 9.8";
        assert_eq!(times(&[(0.0, max_text)]).median_seconds, 0.517);
        let keras = |step| format!("{step}/938 ━━━━━━━━━━━━━━━━━━━━ 4s 5ms/step - accuracy: 0.8 - loss: 0.5");
        assert_eq!(times(&[(0.0, &keras(1)), (0.5, &keras(101))]).median_seconds, 0.005);
        assert_eq!(times(&[(0.0, "iter 10: loss 3.2, time 135.2ms, mfu 33.1%")]).median_seconds, 0.1352);
        let last =
            "{'train_runtime': 100.0, 'train_samples_per_second': 32.0, 'train_steps_per_second': 4.0, 'epoch': 1.0}";
        assert_eq!(times(&[(100.0, last)]).median_seconds, 0.25);
        assert_eq!(times(&[(0.0, "Step 1 of training"), (3.0, "global_step=2")]).median_seconds, 3.0);
    }

    #[test]
    fn a_long_first_step_is_told_apart() {
        let line = |step| format!("step: {step} loss: 1");
        let found = times(&[(0.0, &line(0)), (30.0, &line(1)), (31.0, &line(2)), (32.0, &line(3)), (33.0, &line(4))]);
        assert_eq!((found.count, found.median_seconds, found.first_seconds), (3, 1.0, Some(30.0)));
    }

    #[test]
    fn a_pattern_of_the_user_replaces_the_known_ones() {
        let mut finder = StepFinder::new(Some(r"done (?P<step>\d+) in (?P<milliseconds>\d+)")).unwrap();
        assert_eq!(finder.line(0.0, "step: 1 loss: 2"), None);
        assert_eq!(finder.line(0.0, "done 4 in 250"), Some(Step { number: Some(4), seconds: Some(0.25) }));
        assert!(matches!(StepFinder::new(Some("(")), Err(PatternError::Malformed { .. })));
        assert!(matches!(StepFinder::new(Some("step")), Err(PatternError::NoGroup { .. })));
    }

    #[test]
    fn a_carriage_return_ends_a_line() {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for bytes in ["a\rb", "c\n\nd\r\n", "e"] {
            lines.feed(bytes.as_bytes(), |line| found.push(line.to_owned()));
        }
        assert_eq!(found, ["a", "bc", "d"]);
    }

    proptest! {
        #[test]
        fn a_step_is_found_whatever_follows_and_no_time_is_none(lines in prop::collection::vec("\\PC{0,80}", 0..5), number in any::<u64>()) {
            let mut finder = StepFinder::new(None).unwrap();
            for (at, line) in lines.iter().enumerate() {
                let of_text = finder.line(at as f64, line);
                let of_step = finder.line(at as f64, &format!("step: {number} loss: {line}"));
                prop_assert_eq!(of_step.and_then(|step| step.number), Some(number));
                let times = [of_text, of_step].into_iter().flatten().filter_map(|step| step.seconds);
                prop_assert!(times.into_iter().all(|seconds| seconds.is_finite() && seconds > 0.0));
            }
            prop_assert!(finder.times().is_none_or(|times| times.median_seconds > 0.0));
        }
    }
}
