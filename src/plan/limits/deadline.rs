//! Reading a deadline: a length of time or a day, and what was probably meant where it is neither.

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::limits::error::LimitsError;
use gpuplan_units::{Hours, nearest};

const KEY: &str = "deadline";

/// `2026-12-24`, `2026-12-24T18:00:00Z` or a length of time from now.
pub(super) fn deadline(text: &str, now: Timestamp) -> Result<Hours, LimitsError> {
    let text = text.trim();
    if let Ok(hours) = Hours::parse(text) {
        let detail = || format!("`{text}` leaves no time; try 36h or 2026-12-24");
        return if hours.0 > 0.0 { Ok(hours) } else { Err(refused(detail(), Vec::new())) };
    }
    let moment = text.parse::<Timestamp>().ok().or_else(|| {
        let date: Date = text.parse().ok()?;
        // A day means until its end, in UTC.
        date.at(23, 59, 59, 0).to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    });
    let moment = moment.ok_or_else(|| not_a_deadline(text, now))?;
    let hours = moment.duration_since(now).as_secs_f64() / 3600.0;
    if hours > 0.0 { Ok(Hours(hours)) } else { Err(LimitsError::DeadlinePassed { deadline: moment, now }) }
}

fn not_a_deadline(text: &str, now: Timestamp) -> LimitsError {
    let mut meant = nearest::durations(text);
    let detail = if meant.len() > 1 {
        format!("`{text}` has no unit; try {}", meant.join(" or "))
    } else {
        format!("`{text}` is not a valid deadline; try 36h or 2026-12-24")
    };
    meant.extend(day(text, now.to_zoned(TimeZone::UTC).date()).map(|date| date.to_string()));
    refused(detail, meant)
}

fn refused(detail: String, nearest: Vec<String>) -> LimitsError {
    LimitsError::Invalid { key: KEY, detail, nearest }
}

/// The day that `Friday`, `tomorrow`, `24.12.2026` or `2026/12/24` means.
fn day(text: &str, today: Date) -> Option<Date> {
    let word = text.to_ascii_lowercase();
    let word = word.trim_start_matches("next ").trim_start_matches("by ").trim();
    if let Some(days) =
        [("today", 0), ("tonight", 1), ("tomorrow", 1)].iter().find(|(name, _)| *name == word).map(|(_, days)| *days)
    {
        return today.checked_add(days.days()).ok();
    }
    let weekdays = [
        ("monday", Weekday::Monday),
        ("tuesday", Weekday::Tuesday),
        ("wednesday", Weekday::Wednesday),
        ("thursday", Weekday::Thursday),
        ("friday", Weekday::Friday),
        ("saturday", Weekday::Saturday),
        ("sunday", Weekday::Sunday),
    ];
    if let Some((_, weekday)) = weekdays.into_iter().find(|(name, _)| *name == word || name[..3] == *word) {
        return today.nth_weekday(1, weekday).ok();
    }
    let parts: Vec<i16> = word.split(['/', '.', '-', ' ']).map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [first, second, third] = parts[..] else { return None };
    let of = |year: i16, month: i16, day: i16| Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok();
    if first > 31 {
        return of(first, second, third);
    }
    // The day before the month, and the other way round, where only one of them is a date.
    match (of(third, second, first), of(third, first, second)) {
        (Some(date), None) | (None, Some(date)) => Some(date),
        (Some(one), Some(other)) => (one == other).then_some(one),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-08-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_deadline_is_a_length_or_a_date() {
        assert_eq!(deadline("36h", now()).unwrap(), Hours(36.0));
        assert_eq!(deadline("2026-08-02T00:00:00Z", now()).unwrap(), Hours(24.0));
        assert!((deadline("2026-08-01", now()).unwrap().0 - 24.0).abs() < 0.01);
        assert!(matches!(deadline("2026-07-01", now()), Err(LimitsError::DeadlinePassed { .. })));
        for text in ["soon", "0h", "", "-3d", "2026-02-31"] {
            assert!(matches!(deadline(text, now()), Err(LimitsError::Invalid { .. })), "{text}");
        }
    }

    #[test]
    fn what_is_none_is_answered_with_the_nearest() {
        let nearest = |text: &str| match deadline(text, now()) {
            Err(LimitsError::Invalid { nearest, .. }) => nearest,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(nearest("12"), ["12h", "12d"]);
        // The first of August 2026 is a Saturday.
        for (text, date) in [
            ("Friday", "2026-08-07"),
            ("sat", "2026-08-08"),
            ("tomorrow", "2026-08-02"),
            ("tonight", "2026-08-02"),
            ("24.12.2026", "2026-12-24"),
            ("12/24/2026", "2026-12-24"),
            ("2026/12/24", "2026-12-24"),
        ] {
            assert_eq!(nearest(text), [date], "{text}");
        }
        // May or June: nobody can say.
        assert!(nearest("05/06/2026").is_empty() && nearest("soon").is_empty());
    }
}
