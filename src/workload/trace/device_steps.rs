//! `DeviceSteps`: how long steps took on a device, from the marks that profilers draw there.

use std::collections::BTreeMap;

/// Steps of all devices.
const MOST: usize = 100_000;
const NANOS: f64 = 1e-9;

/// Device and kind of mark, then number of the step; first start and last end of its marks, since each stream has one. Nanoseconds.
#[derive(Debug, Default)]
pub struct DeviceSteps {
    marks: BTreeMap<(String, i64), BTreeMap<u64, (i64, i64)>>,
    held: usize,
}

impl DeviceSteps {
    /// `name` ends in the number of the step; one without is no step.
    pub fn add(&mut self, device: i64, marks: &str, name: &str, start: i64, end: i64) {
        let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let Ok(number) = name[digits..].parse() else { return };
        let steps = self.marks.entry((marks.to_owned(), device)).or_default();
        if let Some((from, to)) = steps.get_mut(&number) {
            (*from, *to) = ((*from).min(start), (*to).max(end));
        } else if self.held < MOST {
            self.held += 1;
            steps.insert(number, (start, end));
        }
    }

    /// Steps of the device that has most of them.
    pub fn count(&self) -> u64 {
        self.marks.values().map(|steps| steps.len() as u64).max().unwrap_or(0)
    }

    /// Seconds of the steps of each device, in their order, and the marks that tell them. A step lasts until the next one begins; where no two
    /// follow each other, from its first work to its last.
    pub fn seconds(&self) -> Option<(String, Vec<Vec<f64>>)> {
        let ((marks, _), _) = self.marks.iter().max_by_key(|(_, steps)| steps.len())?;
        let of_marks = || self.marks.iter().filter(|((kind, _), _)| kind == marks).map(|(_, steps)| steps);
        let whole: Vec<Vec<f64>> = of_marks().map(until_the_next).collect();
        let seconds = if whole.iter().all(Vec::is_empty) {
            of_marks().map(|steps| steps.values().filter_map(|(start, end)| lasting(*start, *end)).collect()).collect()
        } else {
            whole
        };
        seconds.iter().any(|run| !run.is_empty()).then(|| (marks.clone(), seconds))
    }
}

impl DeviceSteps {
    /// Number, start and end of the steps of a device, of the marks that it has most of: each lasts until the next begins. Nanoseconds.
    pub fn of(&self, device: i64) -> Vec<(u64, i64, i64)> {
        let of_device = self.marks.iter().filter(|((_, own), _)| *own == device).map(|(_, steps)| steps);
        let Some(steps) = of_device.max_by_key(|steps| steps.len()) else { return Vec::new() };
        let mut all: Vec<(u64, i64, i64)> =
            steps.iter().map(|(number, (start, end))| (*number, *start, *end)).collect();
        all.sort_by_key(|(_, start, _)| *start);
        for at in 1..all.len() {
            let (before, next) = (all[at - 1], all[at]);
            all[at - 1].2 = if before.0.checked_add(1) == Some(next.0) { next.1 } else { before.2.min(next.1) };
        }
        all
    }
}

/// Seconds of the steps behind which the next one follows.
fn until_the_next(steps: &BTreeMap<u64, (i64, i64)>) -> Vec<f64> {
    let pairs = steps.iter().zip(steps.iter().skip(1));
    let following = pairs.filter(|((one, _), (next, _))| one.checked_add(1) == Some(**next));
    following.filter_map(|((_, (start, _)), (_, (then, _)))| lasting(*start, *then)).collect()
}

/// Seconds. `None`: no time.
fn lasting(start: i64, end: i64) -> Option<f64> {
    (end > start).then(|| (end - start) as f64 * NANOS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(marks: &[(i64, &str, i64, i64)]) -> Option<Vec<i64>> {
        let mut steps = DeviceSteps::default();
        for (device, name, start, end) in marks {
            steps.add(*device, "ProfilerStep", name, *start, *end);
        }
        let (_, seconds) = steps.seconds()?;
        let seconds = seconds.concat();
        assert!(steps.count() >= seconds.len() as u64);
        Some(seconds.into_iter().map(|seconds| (seconds * 1e9).round() as i64).collect())
    }

    #[test]
    fn a_step_lasts_until_the_next_begins() {
        // Two streams of one device; the second cycle of the profiler begins at step 9.
        let found = steps(&[
            (0, "ProfilerStep#3", 100, 180),
            (0, "ProfilerStep#3", 110, 290),
            (0, "ProfilerStep#4", 300, 380),
            (0, "ProfilerStep#9", 9000, 9100),
        ]);
        assert_eq!(found, Some(vec![200]));
    }

    #[test]
    fn steps_of_a_device_do_not_overlap() {
        let mut steps = DeviceSteps::default();
        for (number, start, end) in [(3, 100, 290), (4, 300, 520), (5, 500, 700), (9, 9000, 9100)] {
            steps.add(0, "ProfilerStep", &format!("ProfilerStep#{number}"), start, end);
        }
        assert_eq!(steps.of(0), [(3, 100, 300), (4, 300, 500), (5, 500, 700), (9, 9000, 9100)]);
        assert!(steps.of(1).is_empty());
    }

    #[test]
    fn a_single_step_lasts_from_its_first_work_to_its_last() {
        assert_eq!(steps(&[(0, "ProfilerStep#1", 5, 60), (0, "ProfilerStep#1", 20, 134)]), Some(vec![129]));
        assert_eq!(steps(&[(0, "forward", 5, 60)]), None);
        assert_eq!(steps(&[(0, "99999999999999999999999", 5, 60)]), None);
    }
}
