//! Finds optimizer steps in the lines of a log: of the common trainers, or by a pattern of the user.

use std::collections::BTreeMap;

use regex_lite::{Captures, Regex};

use gpuplan_workload::profile::StepTimes;

/// Formats and their patterns, the more certain first; a line counts for the first that fits.
///
/// Groups: `step` its number, `total` of how many, and the time that the trainer itself says, as `seconds`, `milliseconds` or
/// `rate` (steps a second).
const FORMATS: [(&str, &str); 20] = [
    (
        "Megatron",
        r"iteration\s+(?P<step>\d+)/\s*(?P<total>\d+)\s*\|.*elapsed time per iteration \(ms\):\s*(?P<milliseconds>[\d.]+)",
    ),
    ("NeMo", r"iteration (?P<step>\d+)/\d+ \|.*train_step_timing in s: (?P<seconds>[\d.]+)"),
    // A thousand milliseconds and more come as `4.71K`.
    (
        "nanotron",
        r"iteration: (?P<step>\d+) / \d+ \|.*elapsed_time_per_iteration_ms: (?:(?P<seconds>[\d.]+)K|(?P<milliseconds>[\d.]+)\b)",
    ),
    ("MaxText (JAX)", r"completed step:\s*(?P<step>\d+),\s*seconds:\s*(?P<seconds>[\d.]+)"),
    ("verl", r"\bstep:(?P<step>\d+) - .*timing_s/step:(?P<seconds>[\d.]+)"),
    ("torchtitan", r"\bstep:\s*(?P<step>\d+)\s+loss:"),
    ("nanoGPT", r"\biter (?P<step>\d+): loss \S+ time (?P<milliseconds>[\d.]+)ms"),
    ("llm.c", r"\bstep\s+(?P<step>\d+)/\d+ \| .*\| (?P<milliseconds>[\d.]+) ms \|"),
    ("nanochat", r"\bstep\s+(?P<step>\d+)\b.*\| dt: (?P<milliseconds>[\d.]+) ?ms"),
    // Its `iter` counts micro batches.
    ("LitGPT", r"\biter \d+ step (?P<step>\d+)\b"),
    // Both write validation as `Epoch(val)`.
    (
        "MMEngine, MMCV",
        r"(?:Epoch|Iter)(?:\(train\))?\s*(?:\[\d+\])?\s*\[\s*(?P<step>\d+)/\d+\].*[\s,]time: (?P<seconds>[\d.]+)",
    ),
    ("Detectron2", r"\biter: (?P<step>\d+)  total_loss: .*\btime: (?P<seconds>[\d.]+)"),
    ("timm", r"Train: \d+ \[\s*(?P<step>\d+)/\d+ .*?Time: (?P<seconds>[\d.]+)s"),
    // The examples of PyTorch, and what was made of them.
    ("ImageNet example", r"Epoch: \[\d+\]\[\s*(?P<step>\d+)/\d+\]\s+Time\s+(?P<seconds>[\d.]+)"),
    ("OpenCLIP", r"Train Epoch: \d+ \[.*Batch \(t\): (?P<seconds>[\d.]+)"),
    ("fairseq", r#"train_inner.*"num_updates": "(?P<step>\d+)""#),
    // Hugging Face Trainer and Lightning draw this bar.
    ("progress bar (HF Trainer, Lightning)", r"(?P<step>\d+)/(?P<total>\d+) \[[\d:]+<[\d:?]+"),
    ("Keras", r"(?P<step>\d+)/(?P<total>\d+) (?:\[[=>.]+\]|━+)"),
    ("HF Trainer's last line", r"'train_steps_per_second': '?(?P<rate>[\d.]+)"),
    ("step numbers", r"(?i)\b(?:global[_ ]?step|step|iteration|iter)[ =:#]+(?P<step>\d+)\b"),
];
/// Steps of which the time is kept: 8 MiB. A longer run is judged by its last ones.
const MOST_STEPS: usize = 1 << 20;

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
        StepTimes::after_warm_up(std::slice::from_ref(&series.seconds), name)
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

    /// Two lines each as public logs have them, cut before their end; what a line states counts, whatever the clock says.
    #[test]
    fn a_step_takes_what_its_line_states() {
        for (trainer, lines, seconds) in [
            (
                "NeMo",
                [
                    "Training epoch 0, iteration 45/99 | lr: 6.897e-06 | global_step: 45 | reduced_train_loss: 11.96 | train_step_timing in s: 6.08 | T",
                    " 0: Training epoch 0, iteration 46/99 | lr: 7.046e-06 | global_step: 46 | reduced_train_loss: 11.96 | train_step_timing in s: 6.06 | T",
                ],
                6.07,
            ),
            (
                "nanotron",
                [
                    "08/31/2024 14:37:31 [INFO|DP=0|PP=0|TP=0]: iteration: 1 / 15 | consumed_tokens: 512 | elapsed_time_per_iteration_ms: 1.21K | tokens_per_sec: 109",
                    "08/31/2024 14:37:32 [INFO|DP=0|PP=0|TP=0]: iteration: 2 / 15 | consumed_tokens: 1.02K | elapsed_time_per_iteration_ms: 990 | tokens_per_sec: 109",
                ],
                1.1,
            ),
            (
                "verl",
                [
                    "(TaskRunner pid=1) step:1 - global_seqlen/min:1 - timing_s/gen:87.4 - timing_s/step:330.467 - timing_per_token_ms/gen:0.214",
                    "step:2 - actor/entropy:6.29 - timing_s/update_actor:3.1 - timing_s/step:330.469 - timing_per_token_ms/gen:0.214",
                ],
                330.468,
            ),
            (
                "llm.c",
                [
                    "step    1/3 | loss 11.032358 (+nanz)| norm 22.1414 (+nanz)| lr 8.57e-07 | 2500.46 ms | 40.2% bf16 MFU | 209676 tok/s",
                    "step    2/3 | loss 10.958507 (+nanz)| norm 22.0968 (+nanz)| lr 1.71e-06 | 2494.80 ms | 40.3% bf16 MFU | 210153 tok/s",
                ],
                2.49763,
            ),
            (
                "nanochat",
                [
                    "step 00000 (0.0%) | loss: 9.011034 | lrm: 1.00 | dt: 671ms | tok/sec: 4,882 | mfu: 0.1% | epoch: 1 | remaining: 300s",
                    "step 00010/21400 (0.05%) | loss: 6.5 | lrm: 1.00 | dt: 673.00ms | tok/sec: 155,764 | mfu: 49.00",
                ],
                0.672,
            ),
            (
                "MMEngine, MMCV",
                [
                    "06/11 00:20:51 - mmengine - INFO - Epoch(train)  [9][ 50/400]  base_lr: 2.5000e-04 lr: 2.5000e-04  eta: 1:04:47  time: 0.6590  data_time: 0.0086  memory: 16178",
                    "2023-03-13 10:48:45,976 - mmdet - INFO - Epoch [1][25/25]       lr: 2.500e-03, eta: -1 day, 23:59:54, time: 0.661, data_time: 0.092, loss_rpn_cls: 0.0237",
                ],
                0.66,
            ),
            (
                "Detectron2",
                [
                    "[04/13 23:51:12 d2.utils.events]:  eta: 3 days, 0:24:23  iter: 359  total_loss: 59.9  loss_ce: 0.5766    time: 0.7098  last_time: 0.7054  data_time: 0.0058",
                    "[04/13 23:51:26 d2.utils.events]:  eta: 3 days, 0:24:23  iter: 379  total_loss: 59.9  loss_ce: 0.5766    time: 0.7102  last_time: 0.7054  data_time: 0.0058",
                ],
                0.71,
            ),
            (
                "timm",
                [
                    "Train: 0 [  50/10009 (  0%)]  Loss:  6.927876 (6.9180)  Time: 1.462s,   87.53/s  (1.896s,   67.51/s)  LR: 1.000e-06  Data: 0.026 (0.199)",
                    "Train: 0 [ 100/10009 (  1%)]  Loss: 6.77 (6.83)  Time: 1.464s,  400.32/s  (0.470s,  272.39/s)  LR: 1.000e-05  Data: 0.217 (0.047)",
                ],
                1.463,
            ),
            (
                "ImageNet example",
                [
                    "Epoch: [0][ 10/625]\tTime  1.425 ( 2.465)\tData  0.000 ( 0.559)\tLoss 0.0000e+00 (6.1692e-01)",
                    "Epoch: [0][ 20/625]  Time  1.427 ( 0.211)  Data  0.015 ( 0.017)  Loss 3.0120e+00 (1.5143e+01)",
                ],
                1.426,
            ),
            (
                "OpenCLIP",
                [
                    "2023-04-21,12:03:13 | INFO | Train Epoch: 0 [  16384/3200000 (1%)] Data (t): 0.938 Batch (t): 137.606, 119.065/s, 3.72078/s/gpu LR: 0.000000",
                    "2023-04-21,12:03:20 | INFO | Train Epoch: 0 [  32768/3200000 (1%)] Data (t): 0.938 Batch (t): 137.608, 119.065/s, 3.72078/s/gpu LR: 0.000000",
                ],
                137.607,
            ),
        ] {
            let found = times(&lines.map(|line| (0.0, line)));
            assert_eq!((found.found_in.as_str(), found.count), (trainer, 2));
            assert!((found.median_seconds - seconds).abs() < 1e-9, "{trainer}: {}", found.median_seconds);
        }
    }

    #[test]
    fn validation_and_micro_batches_are_no_steps() {
        let mut finder = StepFinder::new(None).unwrap();
        for line in [
            "2023/06/07 - mmengine - INFO - Epoch(val) [40][56/56]  coco/bbox_mAP: 0.9320  data_time: 0.0758  time: 0.1038",
            "Test: [   0/30]  Time: 6.593 (6.593)  Loss:  6.8 (6.8)",
            r#"2024-02-29 | INFO | valid | {"valid_loss": "4", "valid_num_updates": "20"}"#,
        ] {
            assert_eq!(finder.line(0.0, line), None, "{line}");
        }
        let lit = |iter: u32, step: u32| {
            format!("Epoch 1 | iter {iter} step {step} | loss train: 2.1, val: n/a | iter time: 25.3 ms")
        };
        let found = times(&[(0.0, &lit(3, 0)), (1.0, &lit(4, 1)), (2.0, &lit(5, 1)), (5.0, &lit(8, 2))]);
        assert_eq!((found.found_in.as_str(), found.count, found.median_seconds), ("LitGPT", 2, 2.5));
        let fair = |step: u32| {
            format!(r#"[train_inner][INFO] - {{"epoch": 1, "ups": "0.12", "num_updates": "{step}", "wall": "259"}}"#)
        };
        assert_eq!(times(&[(0.0, &fair(10)), (83.0, &fair(20))]).median_seconds, 8.3);
    }

    #[test]
    fn a_long_first_step_is_told_apart() {
        let line = |step| format!("step: {step} loss: 1");
        let found = times(&[(0.0, &line(0)), (30.0, &line(1)), (31.0, &line(2)), (32.0, &line(3)), (33.0, &line(4))]);
        assert_eq!((found.count, found.median_seconds, found.first_seconds), (3, 1.0, Some(30.0)));
        // Two are enough to tell, against the rest and not against the middle of both.
        let timm = |step: u32, time: &str| {
            format!("Train: 0 [  {step:2}/10009 (  0%)]  Loss:  6.9 (6.9)  Time: {time}s,   87.53/s")
        };
        let found = times(&[(0.0, &timm(0, "23.170")), (9.0, &timm(50, "1.462"))]);
        assert_eq!((found.count, found.median_seconds, found.first_seconds), (1, 1.462, Some(23.17)));
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
