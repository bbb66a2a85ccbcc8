//! `Scale`: from values to places along an axis, with ticks at round numbers.

use crate::text::format;
use gpuplan_budget::exchange::Currency;
use gpuplan_budget::portfolio::calendar::Month;
use gpuplan_units::Hours;

/// What is counted along an axis, which decides how a tick is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantity {
    Usd,
    Hours,
    /// Months that are over, from the beginning of this one.
    Months(Month),
}

/// From values to pixels.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    is_logarithmic: bool,
    ticks: Vec<f64>,
    quantity: Quantity,
}

/// Values further apart than this are shown by their ratios: on an even axis the small ones would fall together.
const WIDE_RATIO: f64 = 20.0;
/// Pixels that a tick with its label needs, beside others and above others.
const ROOM_ACROSS: f64 = 60.0;
const ROOM_UP: f64 = 36.0;
/// Lengths of time that people name, in hours: minutes, hours, days and weeks.
const LENGTHS: [f64; 20] = [
    1.0 / 60.0,
    2.0 / 60.0,
    5.0 / 60.0,
    10.0 / 60.0,
    20.0 / 60.0,
    30.0 / 60.0,
    1.0,
    2.0,
    4.0,
    8.0,
    12.0,
    24.0,
    48.0,
    96.0,
    168.0,
    336.0,
    720.0,
    1440.0,
    2880.0,
    8760.0,
];
/// The same, where there is little room.
const FEW_LENGTHS: [f64; 8] = [1.0 / 60.0, 10.0 / 60.0, 1.0, 6.0, 24.0, 168.0, 720.0, 8760.0];

impl Scale {
    /// From zero to the largest value; `None` where there is no finite, positive value.
    pub fn from_zero(values: impl Iterator<Item = f64>, quantity: Quantity, (from, to): (f64, f64)) -> Option<Self> {
        let high = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        (high > 0.0).then(|| Self::even(0.0, high, quantity, (from, to)))
    }

    /// Over the values, by ratios where they lie far apart; `None` where there is no finite, positive value.
    pub fn over(values: impl Iterator<Item = f64>, quantity: Quantity, (from, to): (f64, f64)) -> Option<Self> {
        let (low, high) = ends(values.filter(|value| *value > 0.0))?;
        if high / low > WIDE_RATIO {
            return Some(Self::by_ratio(low, high, quantity, (from, to)));
        }
        // An axis that is near zero anyway begins there.
        let low = if low < high / 2.0 { 0.0 } else { low };
        Some(Self::even(low, high, quantity, (from, to)))
    }

    fn even(low: f64, high: f64, quantity: Quantity, (from, to): (f64, f64)) -> Self {
        let most = most_ticks(from, to);
        let high = if high > low { high } else { low + low.abs().max(1.0) };
        let step = round_step((high - low) / most, quantity, high);
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        let ticks: Vec<f64> = (0..=(last - first) as usize).map(|index| (first + index as f64) * step).collect();
        Self { low: first * step, high: last * step, from, to, is_logarithmic: false, ticks, quantity }
    }

    fn by_ratio(low: f64, high: f64, quantity: Quantity, (from, to): (f64, f64)) -> Self {
        let room = most_ticks(from, to) as usize;
        let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
        let digits = |digits: &[f64]| {
            decades.clone().flat_map(|decade| digits.iter().map(move |digit| digit * 10_f64.powi(decade))).collect()
        };
        let mut choices: Vec<Vec<f64>> = vec![digits(&[1.0, 2.0, 5.0]), digits(&[1.0, 3.0]), digits(&[1.0])];
        if quantity == Quantity::Hours && low >= LENGTHS[0] && high <= LENGTHS[LENGTHS.len() - 1] {
            choices.splice(..0, [LENGTHS.to_vec(), FEW_LENGTHS.to_vec()]);
        }
        let round =
            choices.iter().find(|choice| choice.iter().filter(|tick| (low..=high).contains(*tick)).count() <= room);
        let round = round.unwrap_or(&choices[0]);
        // The axis begins and ends at round numbers too.
        let begin = round.iter().copied().rfind(|tick| *tick <= low).unwrap_or(low);
        let end = round.iter().copied().find(|tick| *tick >= high).unwrap_or(high);
        let inside: Vec<f64> = round.iter().copied().filter(|tick| (begin..=end).contains(tick)).collect();
        let ticks = inside.iter().copied().step_by(inside.len().div_ceil(2 * room).max(1)).collect();
        Self { low: begin, high: end, from, to, is_logarithmic: true, ticks, quantity }
    }

    pub fn at(&self, value: f64) -> f64 {
        let share = if self.is_logarithmic {
            (value / self.low).log10() / (self.high / self.low).log10()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Where each is, and what stands at it; amounts are in the currency of the chart.
    pub fn ticks(&self, currency: Currency) -> impl Iterator<Item = (f64, String)> {
        self.ticks.iter().map(move |tick| (self.at(*tick), self.words(*tick, currency)))
    }

    /// The note that an axis by ratios needs.
    pub fn note(&self) -> &'static str {
        if self.is_logarithmic { " (each step a multiple of the last)" } else { "" }
    }

    fn words(&self, value: f64, currency: Currency) -> String {
        let step =
            if self.is_logarithmic { value } else { self.ticks.get(1).map_or(value, |second| second - self.ticks[0]) };
        match self.quantity {
            Quantity::Usd => amount(value, step, &currency.prefix()),
            Quantity::Hours if self.is_logarithmic => Hours(value).to_string(),
            Quantity::Hours if self.high > DAYS_FROM => format!("{} d", plain(value / 24.0)),
            Quantity::Hours => format!("{} h", plain(value)),
            Quantity::Months(_) if value < 1.0 => String::new(),
            Quantity::Months(first) => first.ahead(value.round() as u32 - 1).to_string(),
        }
    }
}

/// An axis of hours that reaches further is written in days.
const DAYS_FROM: f64 = 72.0;

fn most_ticks(from: f64, to: f64) -> f64 {
    ((to - from).abs() / if to > from { ROOM_ACROSS } else { ROOM_UP }).floor().max(2.0)
}

/// As many decimals as tell neighbouring ticks apart.
fn amount(value: f64, step: f64, prefix: &str) -> String {
    if value == 0.0 {
        return format!("{prefix}0");
    }
    if value.abs() < 1e4 && step < 1.0 {
        let digits = (-step.log10().floor()).clamp(2.0, 9.0) as usize;
        return format!("{prefix}{value:.digits$}");
    }
    match value.abs() {
        size if size >= 1e6 => format!("{prefix}{}M", plain(value / 1e6)),
        size if size >= 1e4 => format!("{prefix}{}k", plain(value / 1e3)),
        _ => format!("{prefix}{}", format::thousands(value.round() as i128)),
    }
}

fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// 1, 2 or 5 times a power of ten, no smaller than `least`; for hours beyond a few days, whole days and weeks; whole months.
fn round_step(least: f64, quantity: Quantity, high: f64) -> f64 {
    if quantity == Quantity::Hours && high > DAYS_FROM {
        return 24.0 * decimal_step(least / 24.0).max(1.0);
    }
    if quantity == Quantity::Hours && (1.0..=24.0).contains(&least) {
        return [2.0, 3.0, 6.0, 12.0, 24.0].into_iter().find(|step| *step >= least).unwrap_or(24.0);
    }
    if let Quantity::Months(_) = quantity {
        return [1.0, 2.0, 3.0, 6.0, 12.0, 24.0].into_iter().find(|step| *step >= least).unwrap_or(60.0);
    }
    decimal_step(least)
}

fn decimal_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= least * (1.0 - 1e-9)).unwrap_or(10.0);
    digit * power
}

fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (f64::min(low, value), f64::max(high, value)));
    (low <= high).then_some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(scale: &Scale) -> Vec<String> {
        scale.ticks(Currency::USD).map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_and_reach_over_the_values() {
        let scale = Scale::from_zero([3.2, 48.0].into_iter(), Quantity::Usd, (0.0, 360.0)).unwrap();
        assert_eq!(labels(&scale), ["$0", "$10", "$20", "$30", "$40", "$50"]);
        assert!((scale.at(0.0) - 0.0).abs() < 1e-9 && (scale.at(50.0) - 360.0).abs() < 1e-9);
        let days = Scale::from_zero([470.0].into_iter(), Quantity::Hours, (0.0, 360.0)).unwrap();
        assert_eq!(labels(&days), ["0 d", "5 d", "10 d", "15 d", "20 d"]);
        let hours = Scale::from_zero([31.0].into_iter(), Quantity::Hours, (0.0, 360.0)).unwrap();
        assert_eq!(labels(&hours), ["0 h", "6 h", "12 h", "18 h", "24 h", "30 h", "36 h"]);
    }

    #[test]
    fn months_are_named_at_their_ends() {
        let quantity = Quantity::Months(Month::parse("2026-11").unwrap());
        let over = |months: f64| labels(&Scale::from_zero([months].into_iter(), quantity, (0.0, 300.0)).unwrap());
        assert_eq!(over(3.0), ["", "2026-11", "2026-12", "2027-01"]);
        assert_eq!(over(24.0), ["", "2027-04", "2027-10", "2028-04", "2028-10"], "no more than there is room for");
    }

    #[test]
    fn what_lies_far_apart_is_shown_by_ratios() {
        let scale = Scale::over([8.5, 188.0].into_iter(), Quantity::Usd, (0.0, 600.0)).unwrap();
        assert_eq!(labels(&scale), ["$5", "$10", "$20", "$50", "$100", "$200"]);
        let times = Scale::over([0.43, 130.0].into_iter(), Quantity::Hours, (0.0, 640.0)).unwrap();
        assert_eq!(
            labels(&times),
            ["20 min", "30 min", "1 h", "2 h", "4 h", "8 h", "12 h", "24 h", "48 h", "4 d", "7 d"]
        );
        let narrow = Scale::over([0.43, 130.0].into_iter(), Quantity::Hours, (0.0, 240.0)).unwrap();
        assert_eq!(labels(&narrow), ["10 min", "1 h", "6 h", "24 h", "7 d"]);
        assert!(scale.note().contains("multiple"));
        assert!(Scale::over([0.0, f64::NAN].into_iter(), Quantity::Usd, (0.0, 1.0)).is_none());
    }

    proptest! {
        #[test]
        fn every_value_has_its_place_between_the_ends(values in prop::collection::vec(1e-6_f64..1e12, 1..20), pixels in 100.0_f64..900.0) {
            for scale in [
                Scale::over(values.iter().copied(), Quantity::Usd, (0.0, pixels)).unwrap(),
                Scale::from_zero(values.iter().copied(), Quantity::Hours, (0.0, pixels)).unwrap(),
            ] {
                prop_assert!(scale.ticks(Currency::USD).count() <= 40, "{scale:?}");
                for value in &values {
                    prop_assert!((0.0..=pixels).contains(&scale.at(*value)));
                }
                prop_assert!(values.windows(2).all(|pair| (pair[0] < pair[1]) == (scale.at(pair[0]) < scale.at(pair[1]))
                    || (scale.at(pair[0]) - scale.at(pair[1])).abs() < 1e-6));
            }
        }
    }
}
