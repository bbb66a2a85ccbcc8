//! `ImprovementTracker`: what the next improvement of a metric costs, read from the program's own output. Advice only: nobody is stopped.

use std::collections::VecDeque;

use regex_lite::Regex;

use gpuplan_units::Usd;

/// The newest part of the spending that is compared with as much before it.
const WINDOW: f64 = 0.2;
/// Readings that each of the two windows needs.
const LEAST_READINGS: usize = 5;
/// Readings that are kept; older ones are thinned out to every other.
const MOST_READINGS: usize = 4096;

/// What the user asked for.
#[derive(Clone, Debug)]
pub struct MetricQuestion {
    /// Its first group is the number.
    pub metric: Regex,
    pub higher_is_better: bool,
    /// Most dollars that one more percent of improvement is worth.
    pub limit: Usd,
}

/// Readings of the metric, each with what had been spent by then.
#[derive(Clone, Debug)]
pub struct ImprovementTracker {
    question: MetricQuestion,
    readings: VecDeque<(f64, f64)>,
    is_told: bool,
}

/// The last improvements cost more than they are worth to the user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Advice {
    /// Of the last window against the one before, percent. Not above zero: it does not improve any more.
    pub improvement_percent: f64,
    /// Dollars that the last window cost.
    pub spent: f64,
}

impl ImprovementTracker {
    pub fn new(question: MetricQuestion) -> Self {
        Self { question, readings: VecDeque::new(), is_told: false }
    }

    /// A line of output, and what is spent so far.
    pub fn read(&mut self, line: &str, spent: Usd) {
        let found = self.question.metric.captures(line).and_then(|groups| groups.get(1)?.as_str().parse::<f64>().ok());
        let Some(value) = found.filter(|value| value.is_finite()) else { return };
        self.readings.push_back((spent.dollars(), value));
        if self.readings.len() > MOST_READINGS {
            let mut keep = false;
            self.readings.retain(|_| {
                keep = !keep;
                keep
            });
        }
    }

    /// Advice, once until the metric improves again at a price that is worth it.
    pub fn advice(&mut self) -> Option<Advice> {
        let newest = self.readings.back()?.0;
        let first = self.readings.front()?.0;
        let window = (newest - first) * WINDOW;
        let values = |from: f64, to: f64| -> Vec<f64> {
            self.readings.iter().filter(|(spent, _)| *spent > from && *spent <= to).map(|(_, value)| *value).collect()
        };
        let (last, before) = (values(newest - window, newest), values(newest - 2.0 * window, newest - window));
        if window <= 0.0 || last.len() < LEAST_READINGS || before.len() < LEAST_READINGS {
            return None;
        }
        let (last, before) = (median(last), median(before));
        let gain = if self.question.higher_is_better { last - before } else { before - last };
        let improvement_percent = 100.0 * gain / before.abs().max(f64::MIN_POSITIVE);
        let is_worth_it = improvement_percent > 0.0 && window / improvement_percent <= self.question.limit.dollars();
        let is_news = !is_worth_it && !self.is_told;
        self.is_told = !is_worth_it;
        is_news.then_some(Advice { improvement_percent, spent: window })
    }
}

impl Advice {
    pub fn words(&self) -> String {
        let Self { improvement_percent, spent } = self;
        if *improvement_percent > 0.0 {
            let each = spent / improvement_percent;
            format!(
                "the last ${spent:.2} improved the metric by {improvement_percent:.2} %: ${each:.2} for each percent. ImprovementTracker stopping?"
            )
        } else {
            format!("the last ${spent:.2} did not improve the metric. ImprovementTracker stopping?")
        }
    }
}

/// Noise of single readings does not count.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn worth(limit: &str, higher_is_better: bool) -> ImprovementTracker {
        let metric = Regex::new(r"loss[:= ]+([-+0-9.eE]+)").unwrap();
        ImprovementTracker::new(MetricQuestion { metric, higher_is_better, limit: Usd::parse(limit).unwrap() })
    }

    fn dollars(dollars: f64) -> Usd {
        Usd::from_dollars(dollars).unwrap()
    }

    #[test]
    fn advice_comes_when_the_curve_is_flat_and_once() {
        let mut worth = worth("2.00", false);
        let mut told = Vec::new();
        for step in 0..400 {
            let loss = 2.0 + 3.0 * (-f64::from(step) / 40.0).exp();
            worth.read(&format!("step {step} loss: {loss:.6}"), dollars(f64::from(step) * 0.25));
            told.extend(worth.advice().map(|advice| (step, advice)));
        }
        assert_eq!(told.len(), 1, "{told:?}");
        let (step, advice) = told[0];
        assert!((150..350).contains(&step), "{told:?}");
        assert!(
            advice.spent / advice.improvement_percent > 2.0 && advice.words().contains("for each percent"),
            "{advice:?}"
        );
    }

    #[test]
    fn what_improves_cheaply_or_is_not_known_yet_gives_no_advice() {
        let mut cheap = worth("2.00", true);
        for step in 1..200 {
            cheap.read(&format!("loss={}", f64::from(step)), dollars(f64::from(step) * 0.01));
            assert_eq!(cheap.advice(), None, "{step}");
        }
        let mut silent = worth("2.00", false);
        silent.read("nothing here", dollars(5.0));
        silent.read("loss: NaN", dollars(6.0));
        assert_eq!(silent.advice(), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut worth = worth("1.00", false);
        for step in 0..20_000 {
            worth.read("loss: 1.0", dollars(f64::from(step)));
        }
        assert!(worth.readings.len() <= MOST_READINGS);
        assert_eq!(worth.advice().unwrap().improvement_percent, 0.0);
    }

    proptest! {
        #[test]
        fn whoever_is_advised_paid_more_than_it_is_worth(
            lines in proptest::collection::vec(("-?[0-9]{1,4}(\\.[0-9]{1,4})?(e[0-9]{1,3})?|.{0,20}", 0.0_f64..1e3), 0..200),
            higher_is_better: bool,
        ) {
            let (mut worth, mut spent) = (worth("1.00", higher_is_better), 0.0);
            for (line, more) in lines {
                spent += more;
                worth.read(&format!("loss: {line}"), dollars(spent));
                if let Some(Advice { improvement_percent, spent: window }) = worth.advice() {
                    prop_assert!(window > 0.0 && window <= spent && !improvement_percent.is_nan());
                    prop_assert!(improvement_percent <= 0.0 || window / improvement_percent > 1.0, "{window} for {improvement_percent} %");
                    prop_assert_eq!(worth.advice(), None, "once");
                }
            }
        }
    }
}
