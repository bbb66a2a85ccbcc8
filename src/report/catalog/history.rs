//! Price history as a table: a pool a row, the cheapest now first, with change, range, volatility and a sparkline.

use schemars::JsonSchema;
use serde::Serialize;

use crate::text::fit::{FlexibleColumn, fit};
use crate::text::format::rate;
use crate::text::json::{VERSION, pretty};
use crate::text::table::{Column, render};
use gpuplan_hardware::{Hardware, InstanceId};
use gpuplan_market::Location;
use gpuplan_market::trend::Trend;
use gpuplan_units::UsdPerHour;

/// Eight heights of a character cell.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One pool.
pub struct PoolTrend {
    pub instance: InstanceId,
    pub place: Location,
    pub trend: Trend,
}

/// From the lowest price of the course to the highest; a space where nothing is known.
pub fn sparkline(course: &[Option<UsdPerHour>]) -> String {
    let known = || course.iter().flatten().map(|rate| rate.dollars());
    let (low, high) = (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
    let top = (BARS.len() - 1) as f64;
    let bar = |rate: &UsdPerHour| {
        // A price that never moved is drawn in the middle.
        let height = if high > low { (rate.dollars() - low) / (high - low) * top } else { top / 2.0 };
        BARS[(height.round() as usize).min(BARS.len() - 1)]
    };
    course.iter().map(|rate| rate.as_ref().map_or(' ', bar)).collect()
}

pub fn table(pools: &[PoolTrend], hardware: &Hardware, width: u16) -> String {
    let flexible = [
        FlexibleColumn::elastic(Column::left("machine", 0), 14),
        FlexibleColumn::elastic(Column::left("place", 0), 14),
        FlexibleColumn::needed(Column::right("$/h now", 0), 9),
        FlexibleColumn::extra(Column::right("7 days", 0), 6),
        FlexibleColumn::extra(Column::right("30 days", 0), 5),
        FlexibleColumn::extra(Column::right("low", 0), 4),
        FlexibleColumn::extra(Column::right("high", 0), 4),
        FlexibleColumn::extra(Column::right("volatility a day", 0), 2),
        FlexibleColumn::extra(Column::left("90 days", 0), 7),
    ];
    let percent = |change: Option<f64>| change.map_or(String::new(), |change| format!("{:+.0} %", change * 100.0));
    let plain = |value: UsdPerHour| rate(value).trim_start_matches('$').to_owned();
    let row = |pool: &PoolTrend| {
        let (instance, trend) = (hardware.instance(pool.instance), &pool.trend);
        vec![
            instance.name.clone(),
            format!("{} {}", instance.cloud, pool.place.zone_id.as_deref().unwrap_or(&pool.place.region)),
            plain(trend.now),
            percent(trend.change_7_days),
            percent(trend.change_30_days),
            plain(trend.lowest),
            plain(trend.highest),
            trend.daily_volatility.map_or(String::new(), |share| format!("{:.1} %", share * 100.0)),
            sparkline(&trend.course),
        ]
    };
    let mut rows: Vec<Vec<String>> = pools.iter().map(row).collect();
    let columns = fit(&flexible, &mut rows, width);
    render(&columns, rows, width)
}

/// `gpuplan prices --history -o json`.
#[derive(Serialize, JsonSchema)]
pub struct PriceHistory<'a> {
    version: u32,
    pools: Vec<PoolHistory<'a>>,
}

/// Prices of one machine in one place over time.
#[derive(Serialize, JsonSchema)]
struct PoolHistory<'a> {
    cloud: &'a str,
    /// What the cloud calls the machine.
    instance_type: &'a str,
    region: &'a str,
    zone_id: Option<&'a str>,
    /// The newest price.
    rate_usd_per_hour: UsdPerHour,
    lowest_usd_per_hour: UsdPerHour,
    highest_usd_per_hour: UsdPerHour,
    /// Relative change over seven days; `null` where the history does not reach that far back.
    change_7_days: Option<f64>,
    /// Relative change over thirty days; `null` where the history does not reach that far back.
    change_30_days: Option<f64>,
    /// Standard deviation of the logarithm of the price from day to day.
    daily_volatility: Option<f64>,
    /// The price at the end of each three days of the last ninety, oldest first; `null` before the first known price.
    course_usd_per_hour: &'a [Option<UsdPerHour>],
}

pub fn json(pools: &[PoolTrend], hardware: &Hardware) -> String {
    pretty(&PriceHistory { version: VERSION, pools: pools.iter().map(|pool| pool_history(pool, hardware)).collect() })
}

fn pool_history<'a>(pool: &'a PoolTrend, hardware: &'a Hardware) -> PoolHistory<'a> {
    let (instance, trend) = (hardware.instance(pool.instance), &pool.trend);
    PoolHistory {
        cloud: instance.cloud.as_str(),
        instance_type: &instance.name,
        region: &pool.place.region,
        zone_id: pool.place.zone_id.as_deref(),
        rate_usd_per_hour: trend.now,
        lowest_usd_per_hour: trend.lowest,
        highest_usd_per_hour: trend.highest,
        change_7_days: trend.change_7_days,
        change_30_days: trend.change_30_days,
        daily_volatility: trend.daily_volatility,
        course_usd_per_hour: &trend.course,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_spans_its_own_range() {
        let course = |rates: &[&str]| rates.iter().map(|rate| UsdPerHour::parse(rate).ok()).collect::<Vec<_>>();
        assert_eq!(sparkline(&course(&["1", "2", "3", "8"])), "▁▂▃█");
        assert_eq!(sparkline(&course(&["", "5", "5"])), " ▅▅");
        assert_eq!(sparkline(&[]), "");
    }
}
