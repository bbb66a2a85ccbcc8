//! `Trend`: what the price of one pool did: change, range, volatility, and its course in equal steps of time.

use jiff::{SignedDuration, Timestamp};

use crate::answer::PricePoint;
use gpuplan_units::UsdPerHour;

/// What is looked back on.
pub const WINDOW: SignedDuration = SignedDuration::from_hours(90 * 24);
/// Steps of the course: one for three days.
pub const STEPS: usize = 30;

#[derive(Clone, Debug, PartialEq)]
pub struct Trend {
    pub now: UsdPerHour,
    pub lowest: UsdPerHour,
    pub highest: UsdPerHour,
    /// Relative change over the last 7 and 30 days; `None` where the history does not reach that far back.
    pub change_7_days: Option<f64>,
    pub change_30_days: Option<f64>,
    /// Standard deviation of the logarithm of the price from day to day, which is the usual daily volatility.
    pub daily_volatility: Option<f64>,
    /// Price at the end of each step, oldest first; `None` before the first point.
    pub course: Vec<Option<UsdPerHour>>,
}

impl Trend {
    /// From the points of one pool, oldest first. A price holds until the next point.
    pub fn from_points(points: &[PricePoint], now: Timestamp) -> Option<Self> {
        let first = points.first()?;
        let at = |moment: Timestamp| points.iter().rev().find(|point| point.since <= moment).map(|point| point.rate);
        let back = |days: i64| now - SignedDuration::from_hours(24 * days);
        let current = at(now)?;
        let change = |days: i64| at(back(days)).map(|then| current.dollars() / then.dollars() - 1.0);
        let step = WINDOW / STEPS as i32;
        let course = (1..=STEPS).map(|index| at(now - WINDOW + step * index as i32)).collect();
        let days = now.duration_since(first.since).as_hours() / 24;
        let daily: Vec<f64> =
            (0..=days.min(90)).rev().filter_map(|day| at(back(day))).map(|rate| rate.dollars().ln()).collect();
        Some(Self {
            now: current,
            lowest: points.iter().map(|point| point.rate).min()?,
            highest: points.iter().map(|point| point.rate).max()?,
            change_7_days: change(7),
            change_30_days: change(30),
            daily_volatility: deviation(&daily),
            course,
        })
    }
}

/// Standard deviation of the differences between neighbours, about their mean.
fn deviation(logs: &[f64]) -> Option<f64> {
    let changes: Vec<f64> = logs.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if changes.len() < 2 {
        return None;
    }
    let mean = changes.iter().sum::<f64>() / changes.len() as f64;
    let squares: f64 = changes.iter().map(|change| (change - mean).powi(2)).sum();
    Some((squares / (changes.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offer::{Location, Purchase};
    use gpuplan_hardware::InstanceId;

    fn points(rows: &[(&str, &str)]) -> Vec<PricePoint> {
        let place = Location { region: "r".into(), zone_id: Some("z".into()) };
        let point = |(since, rate): &(&str, &str)| PricePoint {
            instance: InstanceId(0),
            place: place.clone(),
            purchase: Purchase::Spot,
            since: since.parse().unwrap(),
            rate: UsdPerHour::parse(rate).unwrap(),
        };
        rows.iter().map(point).collect()
    }

    #[test]
    fn a_price_holds_until_the_next_and_changes_are_against_what_held_then() {
        let now = "2026-11-20T00:00:00Z".parse().unwrap();
        let rows = [("2026-08-01T00:00:00Z", "10"), ("2026-11-01T00:00:00Z", "20"), ("2026-11-18T00:00:00Z", "15")];
        let trend = Trend::from_points(&points(&rows), now).unwrap();
        assert_eq!(
            (trend.now.to_string(), trend.lowest.to_string(), trend.highest.to_string()),
            ("15.00".into(), "10.00".into(), "20.00".into())
        );
        assert_eq!((trend.change_7_days, trend.change_30_days), (Some(-0.25), Some(0.5)));
        assert_eq!(trend.course.len(), STEPS);
        assert_eq!(
            (trend.course[0], trend.course[STEPS - 1]),
            (Some(UsdPerHour::parse("10").unwrap()), Some(trend.now))
        );
        assert!(trend.daily_volatility.unwrap() > 0.05);
        let short = Trend::from_points(&points(&rows[2..]), now).unwrap();
        assert_eq!((short.change_7_days, short.course[0]), (None, None));
        assert_eq!(Trend::from_points(&[], now), None);
    }
}
