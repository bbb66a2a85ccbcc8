//! One cell of an export, whoever wrote it: names of columns, moments, exact numbers in JSON.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Letters and digits alone: `lineItem/UnblendedCost` and `line_item_unblended_cost` are one column.
pub fn normalized(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// JSON with its braces, which Azure leaves out around tags.
pub fn braced(text: &str) -> String {
    if text.starts_with(['{', '[']) { text.to_owned() } else { format!("{{{text}}}") }
}

/// `2026-10-01T00:00:00Z`, `2026-10-01 00:00:00 UTC`, `2026-10-01`, and `10/01/2026` as Azure writes it.
pub fn parse_moment(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time);
    }
    let text = text.trim_end_matches("UTC").trim_end();
    let in_utc = |time: DateTime| time.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    if let Ok(time) = text.parse::<DateTime>() {
        return in_utc(time);
    }
    let mut parts = text.splitn(3, '/').map(|part| part.parse::<i16>().ok());
    let (month, day, year) = (parts.next()??, parts.next()??, parts.next()??);
    in_utc(Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?.at(0, 0, 0, 0))
}

/// `2026-10` of the begin of a billing period, or of its month as Google writes it (`202610`).
pub fn parse_period(text: &str) -> Option<String> {
    if text.len() == 6 && text.bytes().all(|digit| digit.is_ascii_digit()) {
        let (year, month) = text.split_at(4);
        return (1..=12).contains(&month.parse::<u8>().ok()?).then(|| format!("{year}-{month}"));
    }
    Some(parse_moment(text)?.to_zoned(TimeZone::UTC).strftime("%Y-%m").to_string())
}

/// The same JSON with every number as a text, digit by digit: amounts are read without binary floating point.
pub fn numbers_as_text(json: &str) -> String {
    let (mut out, mut in_text, mut is_escaped, mut in_number) =
        (String::with_capacity(json.len() + 16), false, false, false);
    for letter in json.chars() {
        if in_text {
            in_text = is_escaped || letter != '"';
            is_escaped = !is_escaped && letter == '\\';
        } else {
            let counts =
                letter.is_ascii_digit() || letter == '-' || (in_number && matches!(letter, '+' | '.' | 'e' | 'E'));
            if counts != in_number {
                out.push('"');
                in_number = counts;
            }
            in_text = letter == '"';
        }
        out.push(letter);
    }
    if in_number {
        out.push('"');
    }
    out
}

/// The end of usage whose export says its beginning alone: exports without hours are by the day.
pub fn a_day_after(start: Timestamp) -> Timestamp {
    start.checked_add(SignedDuration::from_hours(24)).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_billing_period_is_a_month() {
        for text in ["202610", "2026-10-01", "2026-10-01T00:00:00.000Z", "10/01/2026", "2026-10-01 00:00:00 UTC"] {
            assert_eq!(parse_period(text).as_deref(), Some("2026-10"), "{text}");
        }
        for text in ["202613", "2026", "october", ""] {
            assert_eq!(parse_period(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_keep_their_digits() {
        assert_eq!(
            numbers_as_text(r#"{"a":-1.5e-3,"b":[1,2],"c":"x 1 \" 2"}"#),
            r#"{"a":"-1.5e-3","b":["1","2"],"c":"x 1 \" 2"}"#
        );
    }
}
