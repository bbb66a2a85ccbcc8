//! What an hour until the result is worth where the user does not say: by the amount of work, never by the offers at hand.

use gpuplan_units::{Seconds, Usd};
use gpuplan_workload::{Amount, Load, Sampling, Serving, Workload};

use crate::limits::Limits;

/// Price of useful work, dollars for 1e18 FLOPs of the model's own mathematics: an hour of an H100 for $3 (the middle of the on-demand
/// list prices of 2026-10 outside of the three large clouds, 2.0 to 4.3) at 40 % of its 989 dense TFLOP/s. Fixed, so that no offer moves it.
const USD_PER_EXAFLOP: f64 = 2.1;
/// Price of an hour of one core, for work without GPU: c7i on demand in us-east-1, $0.0893 for two vCPUs (2026). Dollars.
const USD_PER_CORE_HOUR: f64 = 0.045;
/// Who spends this on a run, in dollars, ...
const REFERENCE_RUN: f64 = 10.0;
/// ... would pay this for each hour that it ends sooner: a twentieth of an hour of an engineer ($100), who does something else meanwhile and
/// has to come back to it. Larger runs have more people waiting, but not in proportion: it grows with the square root of the work, to some
/// $3,500 an hour for a run of $5M. Judged.
const REFERENCE_VALUE: f64 = 5.0;
/// What an hour counts at least, however small the work, in dollars: about a minute of an engineer ($100 an hour), since whoever waits looks
/// once in an hour whether it has ended. Whoever would lose less than that by waiting says so with `--value-of-time`. Judged.
const LEAST_VALUE: f64 = 2.0;

/// What an hour sooner is worth, and who says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueOfTime {
    pub usd_per_hour: Usd,
    /// By the user, and not by the amount of work.
    pub is_stated: bool,
}

impl ValueOfTime {
    /// Of a workload on GPUs. A service ends by nothing it does, so that its hours are worth nothing.
    pub fn new(workload: &Workload, limits: &Limits) -> Self {
        if workload.is_service() {
            return Self { usd_per_hour: Usd::ZERO, is_stated: false };
        }
        Self::for_work(limits, useful_flops(workload) / 1e18 * USD_PER_EXAFLOP)
    }

    /// Of work without GPU that takes so long on one core.
    pub fn of_cores(core: Seconds, limits: &Limits) -> Self {
        Self::for_work(limits, core.0 / 3600.0 * USD_PER_CORE_HOUR)
    }

    /// The least that an hour counts where nobody says what it is worth: the work is too small to count for more.
    pub fn is_least(&self) -> bool {
        !self.is_stated && Some(self.usd_per_hour) == Usd::from_dollars(LEAST_VALUE)
    }

    fn for_work(limits: &Limits, dollars_of_work: f64) -> Self {
        let by_work = (REFERENCE_VALUE * (dollars_of_work / REFERENCE_RUN).sqrt()).max(LEAST_VALUE);
        // To the cent, as it is told.
        let by_work = Usd::from_dollars((by_work * 100.0).ceil() / 100.0).unwrap_or(Usd::ZERO);
        Self { usd_per_hour: limits.value_of_time.unwrap_or(by_work), is_stated: limits.value_of_time.is_some() }
    }
}

/// Dense FLOPs of the model's own mathematics in the whole work: what is recomputed does not count.
fn useful_flops(workload: &Workload) -> f64 {
    let (model, training) = (&workload.model, &workload.training);
    if let Some(Serving { load: Load::Job { requests }, .. }) = &workload.serving {
        let tokens = workload.serving.as_ref().map_or(0.0, Serving::written_tokens);
        let forward = if model.kind.is_transformer() {
            model.training_flops_per_sample(tokens) / 3.0
        } else {
            model.forward_flops_per_sample
                * workload.serving.and_then(|serving| serving.images).map_or(1.0, Sampling::passes)
        };
        return forward * requests;
    }
    let sequence = f64::from(training.sequence_length);
    let has_backward = training.task.has_backward();
    let per_sample = if model.kind.is_transformer() {
        let share = match (has_backward, training.task.has_adapters()) {
            (false, _) => 1.0 / 3.0,
            // A frozen base has no weight gradients: 4 instead of 6 per weight.
            (true, true) => 2.0 / 3.0,
            (true, false) => 1.0,
        };
        model.training_flops_per_sample(sequence) * share
    } else {
        model.forward_flops_per_sample * if has_backward { 3.0 } else { 1.0 }
    };
    let batch = training.global_batch.unwrap_or(1) as f64;
    let samples = match workload.amount {
        Amount::Tokens(tokens) => tokens / sequence.max(1.0),
        Amount::Samples(samples) => samples,
        Amount::Steps(steps) => steps * batch,
    };
    per_sample * samples * workload.sweep.map_or(1.0, |sweep| f64::from(sweep.runs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default_value(dollars_of_work: f64) -> f64 {
        ValueOfTime::for_work(&Limits::default(), dollars_of_work).usd_per_hour.dollars()
    }

    #[test]
    fn an_hour_is_worth_five_dollars_to_a_run_of_ten_and_grows_with_its_square_root() {
        assert!((default_value(10.0) - 5.0).abs() < 1e-9);
        assert!((default_value(1000.0) - 50.0).abs() < 1e-9);
        let of_millions = default_value(5e6);
        assert!((3300.0..=3700.0).contains(&of_millions), "{of_millions}");
        let stated = Limits { value_of_time: Usd::from_dollars(7.0), ..Limits::default() };
        let value = ValueOfTime::for_work(&stated, 5e6);
        assert!(value.is_stated && (value.usd_per_hour.dollars() - 7.0).abs() < 1e-9);
    }

    /// 19 seconds of work are no reason to wait seven hours to save $8.
    #[test]
    fn an_hour_of_small_work_counts_as_long_as_somebody_waits_for_it() {
        for dollars in [0.0, 1e-6, 0.09, 1.0] {
            let value = ValueOfTime::for_work(&Limits::default(), dollars);
            assert!(value.is_least() && (value.usd_per_hour.dollars() - 2.0).abs() < 1e-9, "{dollars}: {value:?}");
        }
        assert!(!ValueOfTime::for_work(&Limits::default(), 10.0).is_least());
        for stated in [0.0, 0.5, 2.0] {
            let limits = Limits { value_of_time: Usd::from_dollars(stated), ..Limits::default() };
            let value = ValueOfTime::for_work(&limits, 1e-6);
            assert!(!value.is_least() && (value.usd_per_hour.dollars() - stated).abs() < 1e-9, "{value:?}");
        }
    }

    #[test]
    fn an_hour_of_more_work_never_counts_less() {
        let values: Vec<f64> = (-40..60).map(|power| default_value(1.3_f64.powi(power))).collect();
        assert!(values.windows(2).all(|pair| pair[0] <= pair[1]), "{values:?}");
        assert!(values[99] > values[0]);
    }
}
