//! Reading and showing counts with the suffixes people use for tokens and parameters: `1T`, `300B`, `8.03e9`, `15_000`.

use crate::separators::without_separators;

/// Why text is not a count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid count; try 1T, 300B, 15M, 8.03e9 or 1_281_167")]
pub struct CountError(String);

/// A positive count: `1T` is 10^12, `300B` 3 x 10^11, `15M`, `50k`, plain or scientific numbers.
pub fn parse_count(text: &str) -> Result<f64, CountError> {
    let refuse = || CountError(text.to_owned());
    let clean = without_separators(text.trim()).ok_or_else(refuse)?;
    let (digits, scale) = match clean.chars().last() {
        Some('k' | 'K') => (&clean[..clean.len() - 1], 1e3),
        Some('m' | 'M') => (&clean[..clean.len() - 1], 1e6),
        Some('b' | 'B' | 'g' | 'G') => (&clean[..clean.len() - 1], 1e9),
        Some('t' | 'T') => (&clean[..clean.len() - 1], 1e12),
        Some(_) => (clean.as_str(), 1.0),
        None => return Err(refuse()),
    };
    let value = digits.trim().parse::<f64>().map_err(|_| refuse())? * scale;
    // 10^24 is a million times the largest run ever trained; more is a slip of the keyboard.
    if value.is_finite() && value > 0.0 && value <= 1e24 { Ok(value) } else { Err(refuse()) }
}

/// A count as people say it, with two decimals: `8.03B`.
pub fn short_count(count: f64) -> String {
    let (scale, suffix) = match count {
        count if count < 1e6 => (1.0, ""),
        count if count < 1e9 => (1e6, "M"),
        count if count < 1e12 => (1e9, "B"),
        _ => (1e12, "T"),
    };
    format!("{:.2}{suffix}", count / scale)
}

/// A number with so many decimals at most: without zeros at its end, and without the sign of what rounds to zero.
pub fn decimal(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_has_no_zeros_to_spare() {
        for (number, decimals, text) in
            [(1.50, 2, "1.5"), (-0.001, 2, "0"), (-0.0, 0, "0"), (100.0, 0, "100"), (-2.0, 1, "-2"), (0.005, 2, "0.01")]
        {
            assert_eq!(decimal(number, decimals), text, "{number}");
        }
    }

    #[test]
    fn counts_are_shown_as_people_say_them() {
        for (count, text) in [(8.03e9, "8.03B"), (125e6, "125.00M"), (1e12, "1.00T"), (512.0, "512.00")] {
            assert_eq!(short_count(count), text);
        }
    }

    #[test]
    fn suffixes_and_separators() {
        assert_eq!(parse_count("1T").unwrap(), 1e12);
        assert_eq!(parse_count("1.5b").unwrap(), 1.5e9);
        assert_eq!(parse_count("1_281_167").unwrap(), 1_281_167.0);
        assert_eq!(parse_count("50,000,000").unwrap(), 5e7);
        for text in ["", "0", "-1B", "many", "nan", "inf", "1e99", "é", "1,5B", "50,5M", "1.000,5"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }
}
