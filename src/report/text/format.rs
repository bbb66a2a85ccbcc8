//! Numbers for people: the only place that rounds money.

use jiff::Timestamp;

use crate::sentences::input::staging_limit;
use gpuplan_market::Quote;
use gpuplan_plan::input::staging::Staging;
use gpuplan_units::quantity::decimal;
use gpuplan_units::{Band, Bytes, Hours, Usd, UsdPerHour};
use gpuplan_workload::Model;

/// Dollars with cents below a thousand, whole dollars with separators above.
pub fn usd(amount: Usd) -> String {
    let cents = (amount.nanos() + 5_000_000) / 10_000_000;
    if cents < 100_000 {
        format!("${}.{:02}", cents / 100, cents % 100)
    } else {
        // Rounded once: $1,000.4966 is not $1,000.50 and then $1,001.
        format!("${}", thousands((amount.nanos() + 500_000_000) / 1_000_000_000))
    }
}

/// A difference: `+$1,402`, `-$3.20`, `$0.00`.
pub fn change(amount: Usd) -> String {
    let sign = match amount.nanos() {
        nanos if nanos > 0 => "+",
        nanos if nanos < 0 => "-",
        _ => "",
    };
    format!("{sign}{}", usd(Usd::from_nanos(amount.nanos().abs())))
}

/// A probability estimated from draws: never 0, never 1.
pub fn probability(share: f64) -> String {
    match share {
        share if share > 0.99 => "> 0.99".to_owned(),
        share if share < 0.01 => "< 0.01".to_owned(),
        share => format!("{share:.2}"),
    }
}

/// A rate with enough digits to tell offers apart.
pub fn rate(rate: UsdPerHour) -> String {
    let dollars = rate.dollars();
    if dollars < 1.0 { format!("${dollars:.4}") } else { format!("${dollars:.2}") }
}

/// With thousands separators.
pub fn thousands(number: i128) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0 { format!("-{text}") } else { text }
}

/// Machines of a run and where they are rented, such as `32 machines of h100-sxm5-80 on aws`: how many GPUs each has is not said.
pub fn machines(nodes: u32, gpu: Option<&str>, cloud: &str) -> String {
    let machines = if nodes == 1 { "1 machine".to_owned() } else { format!("{nodes} machines") };
    let of = gpu.map_or_else(String::new, |gpu| format!(" of {gpu}"));
    format!("{machines}{of} on {cloud}")
}

/// A model and its size, and whether the size is all that is known of it.
pub fn model(model: &Model) -> String {
    let guessed = if model.shape_is_guessed { ", shape guessed" } else { "" };
    format!("{} ({} parameters{guessed})", model.name, count(model.parameters))
}

/// A large count with a suffix: `1.5T`, `300B`, `8.03B`.
pub fn count(number: f64) -> String {
    for (scale, suffix) in [(1e12, "T"), (1e9, "B"), (1e6, "M"), (1e4, "k")] {
        if number >= scale {
            let unit = if suffix == "k" { 1e3 } else { scale };
            return format!("{}{suffix}", three_figures(number / unit));
        }
    }
    thousands(number.round() as i128)
}

/// Three significant figures without trailing zeros.
pub fn three_figures(number: f64) -> String {
    let digits = if number.abs() >= 100.0 {
        0
    } else if number.abs() >= 10.0 {
        1
    } else {
        2
    };
    decimal(number, digits)
}

/// Seconds of a step: `1.42 s`, `35.1 ms`.
pub fn step_seconds(seconds: f64) -> String {
    if seconds < 1.0 { format!("{} ms", three_figures(seconds * 1e3)) } else { format!("{} s", three_figures(seconds)) }
}

/// `1.42 s (1.21 to 1.65)`.
pub fn step_band(band: Band) -> String {
    format!("{} ({} to {})", step_seconds(band.expected), step_seconds(band.low), step_seconds(band.high))
}

/// Where a price came from and how long ago it was seen, such as `live 4 s` or `snapshot 113 d`.
pub fn seen(quote: &Quote, now: Timestamp) -> String {
    format!("{} {}", quote.origin.word(), age(quote.observed_at, now))
}

/// An observation may be this much newer than `now`, which is when the program started: live prices take a while to arrive. Seconds.
const FETCH_TIME: f64 = 120.0;

/// Age of an observation: `3 h`, `113 d`.
pub fn age(observed_at: Timestamp, now: Timestamp) -> String {
    duration(Hours(now.duration_since(observed_at).as_secs_f64() / 3600.0))
}

/// A length of time in its largest unit: `3 h`, `113 d`.
pub fn duration(length: Hours) -> String {
    let (hours, seconds) = (length.0, length.0 * 3600.0);
    if seconds < -FETCH_TIME {
        "in the future".to_owned()
    } else if seconds < 60.0 {
        format!("{:.0} s", seconds.max(0.0))
    } else if hours < 1.0 {
        format!("{:.0} min", hours * 60.0)
    } else if hours < 48.0 {
        format!("{hours:.0} h")
    } else {
        format!("{:.0} d", hours / 24.0)
    }
}

/// How long the data takes to a new machine, and what that rests on.
pub fn staging(staging: &Staging) -> String {
    let disk = if staging.is_on_local_disk { "local disks" } else { "the network disk" };
    let (time, rate) = (Hours::from(staging.seconds()), Bytes(staging.bytes_per_second));
    format!(
        "{} to {disk} of each machine in {time}, counted with every start: {} gives {rate}/s",
        staging.bytes,
        staging_limit(staging.limit)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_plan::input::store_path::StoreLimit;

    #[test]
    fn money_keeps_its_cents_where_they_matter() {
        assert_eq!(usd(Usd::parse("3.005").unwrap()), "$3.01");
        assert_eq!(usd(Usd::parse("999.994").unwrap()), "$999.99");
        assert_eq!(usd(Usd::parse("1234567.5").unwrap()), "$1,234,568");
        assert_eq!(usd(Usd::parse("208291.4966").unwrap()), "$208,291");
        assert_eq!(usd(Usd::ZERO), "$0.00");
        assert_eq!(change(Usd::from_nanos(-3_204_000_000)), "-$3.20");
        assert_eq!([probability(1.0), probability(0.0), probability(0.874)], ["> 0.99", "< 0.01", "0.87"]);
        assert_eq!(change(Usd::parse("1402").unwrap()), "+$1,402");
    }

    #[test]
    fn counts_read_as_people_say_them() {
        assert_eq!(count(1e12), "1T");
        assert_eq!(count(8.03e9), "8.03B");
        assert_eq!(count(300e9), "300B");
        assert_eq!(count(1281.0), "1,281");
    }

    #[test]
    fn staging_says_how_long_and_why() {
        let said = staging(&Staging {
            bytes: Bytes(1e12),
            bytes_per_second: 1.25e9,
            limit: StoreLimit::NetworkDisk,
            is_on_local_disk: false,
        });
        assert_eq!(
            said,
            "931.3 GiB to the network disk of each machine in 13.3 min, counted with every start: its network disk gives 1.2 GiB/s"
        );
    }
}
