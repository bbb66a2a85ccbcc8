//! Figures of a case within sane limits, and the note of a value that was filled in.

pub(super) fn note<T>(assumed: &mut Vec<String>, key: &str, shown: &str, value: T) -> T {
    assumed.push(format!("{key}={shown}"));
    value
}

pub(super) fn within(name: &str, value: u32, most: u32) -> Result<u32, String> {
    if (1..=most).contains(&value) {
        return Ok(value);
    }
    Err(format!("{name}={value} is outside 1 to {most}; the nearest is {}", value.clamp(1, most)))
}

pub(super) fn positive(name: &str, value: f64, most: f64) -> Result<f64, String> {
    if value > 0.0 && value < most {
        Ok(value)
    } else {
        Err(format!("{name}={value} is not a positive number below {most:e}"))
    }
}
