//! `StepWork`: what a device did in each of its marked steps. A trace has the marks and the work in any order, so the work is kept until the end.

use crate::profile::{ClassTime, OperatorClass, StepFigures};

/// Work of a device that is kept: 12 MiB. A trace with more has its sums alone.
const MOST: usize = 1 << 19;
const NANOS: f64 = 1e-9;

/// Work of the first device that a trace has some of. Nanoseconds.
#[derive(Debug, Default)]
pub struct StepWork {
    device: Option<i64>,
    /// Start, duration and class of each piece.
    pieces: Vec<(i64, i64, OperatorClass)>,
    is_too_much: bool,
}

impl StepWork {
    pub fn add(&mut self, device: i64, start: i64, nanos: i64, class: OperatorClass) {
        if *self.device.get_or_insert(device) != device || self.is_too_much {
            return;
        }
        if self.pieces.len() == MOST {
            self.is_too_much = true;
            self.pieces = Vec::new();
            return;
        }
        self.pieces.push((start, nanos, class));
    }

    pub fn device(&self) -> Option<i64> {
        self.device
    }

    /// The figures of steps, each with its number and from when to when it lasted. None where there is too much work to be told apart.
    pub fn figures(&self, steps: &[(u64, i64, i64)]) -> Vec<StepFigures> {
        if self.is_too_much {
            return Vec::new();
        }
        let mut sums = vec![[(0_u64, 0_i64); OperatorClass::ALL.len()]; steps.len()];
        for (start, nanos, class) in &self.pieces {
            let Some(at) = steps.partition_point(|(_, from, _)| from <= start).checked_sub(1) else { continue };
            let place = OperatorClass::ALL.iter().position(|one| one == class);
            if let (true, Some((calls, sum))) = (*start < steps[at].2, place.and_then(|place| sums[at].get_mut(place)))
            {
                *calls += 1;
                *sum = sum.saturating_add(*nanos);
            }
        }
        let figures = steps.iter().zip(sums).map(|((number, from, until), sums)| StepFigures {
            number: *number,
            seconds: (until - from) as f64 * NANOS,
            classes: OperatorClass::ALL
                .into_iter()
                .zip(sums)
                .filter(|(_, (calls, _))| *calls > 0)
                .map(|(class, (calls, nanos))| ClassTime { class, calls, seconds: nanos as f64 * NANOS })
                .collect(),
        });
        figures.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_belongs_to_the_step_in_which_it_begins() {
        let mut work = StepWork::default();
        for (start, class) in [
            (5, OperatorClass::Compute),
            (250, OperatorClass::Memory),
            (110, OperatorClass::Compute),
            (199, OperatorClass::Compute),
            (300, OperatorClass::Copy),
        ] {
            work.add(0, start, 50, class);
        }
        work.add(1, 120, 50, OperatorClass::Communication);
        let steps = work.figures(&[(3, 100, 200), (4, 200, 300)]);
        let told: Vec<(u64, Vec<(&str, u64)>)> = steps
            .iter()
            .map(|step| (step.number, step.classes.iter().map(|one| (one.class.word(), one.calls)).collect()))
            .collect();
        assert_eq!(told, [(3, vec![("compute", 2)]), (4, vec![("memory", 1)])]);
        assert!((steps[0].seconds - 1e-7).abs() < 1e-15 && (steps[0].classes[0].seconds - 1e-7).abs() < 1e-15);
    }

    #[test]
    fn too_much_work_has_no_steps() {
        let mut work = StepWork::default();
        for start in 0..=MOST as i64 {
            work.add(0, start, 1, OperatorClass::Compute);
        }
        assert!(work.figures(&[(1, 0, 10)]).is_empty());
    }
}
