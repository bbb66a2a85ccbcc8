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

    /// Seconds of each step and the marks that tell them. A step lasts until the next one begins; where no two follow each other,
    /// from its first work to its last.
    pub fn seconds(&self) -> Option<(String, Vec<f64>)> {
        let ((marks, _), _) = self.marks.iter().max_by_key(|(_, steps)| steps.len())?;
        let (mut whole, mut alone) = (Vec::new(), Vec::new());
        for (_, steps) in self.marks.iter().filter(|((kind, _), _)| kind == marks) {
            alone.extend(steps.values().map(|(start, end)| end - start));
            let pairs = steps.iter().zip(steps.iter().skip(1));
            whole.extend(
                pairs
                    .filter(|((one, _), (next, _))| one.checked_add(1) == Some(**next))
                    .map(|((_, (start, _)), (_, (then, _)))| then - start),
            );
        }
        let nanos = if whole.is_empty() { alone } else { whole };
        let seconds: Vec<f64> =
            nanos.into_iter().filter(|nanos| *nanos > 0).map(|nanos| nanos as f64 * NANOS).collect();
        (!seconds.is_empty()).then(|| (marks.clone(), seconds))
    }
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
    fn a_single_step_lasts_from_its_first_work_to_its_last() {
        assert_eq!(steps(&[(0, "ProfilerStep#1", 5, 60), (0, "ProfilerStep#1", 20, 134)]), Some(vec![129]));
        assert_eq!(steps(&[(0, "forward", 5, 60)]), None);
        assert_eq!(steps(&[(0, "99999999999999999999999", 5, 60)]), None);
    }
}
