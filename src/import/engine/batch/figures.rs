//! Counts and times as batch systems write them.

use gpuplan_units::Hours;

pub fn number(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|count| *count > 0)
}

/// Parts of a time by sixties, of which the last is so small a part of an hour.
pub fn sum(text: &str, last: f64) -> Option<Hours> {
    let parts = text.trim().split(':').map(|part| part.parse::<u32>().map(f64::from));
    let all = parts.collect::<Result<Vec<f64>, _>>().ok().filter(|all| all.len() <= 3)?;
    let total = all.iter().fold(0.0, |total, part| total * 60.0 + part) / last;
    (total > 0.0).then_some(Hours(total))
}
