//! `Month`: a month of the calendar in UTC, the unit of budgets.

use std::borrow::Cow;
use std::fmt;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Months since the year 0, so that arithmetic is arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Month(i32);

/// The months of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Period {
    pub start: Month,
    pub months: u32,
}

impl Month {
    /// `2027-01`.
    pub fn parse(text: &str) -> Option<Self> {
        let (year, month) = text.trim().split_once('-')?;
        let (year, month): (i32, i32) = (year.parse().ok()?, month.parse().ok()?);
        (text.trim().len() == 7 && (1970..=2999).contains(&year) && (1..=12).contains(&month))
            .then(|| Self(year * 12 + month - 1))
    }

    pub fn containing(moment: Timestamp) -> Self {
        let day = moment.to_zoned(TimeZone::UTC).date();
        Self(i32::from(day.year()) * 12 + i32::from(day.month()) - 1)
    }

    pub fn ahead(self, months: u32) -> Self {
        Self(self.0.saturating_add(months as i32))
    }

    /// The month before.
    pub fn back(self) -> Self {
        Self(self.0 - 1)
    }

    /// Months from `earlier` to this one; negative where this one comes first.
    pub fn since(self, earlier: Self) -> i32 {
        self.0 - earlier.0
    }

    /// Its first moment.
    pub fn begin(self) -> Timestamp {
        let day = Date::new(self.0.div_euclid(12) as i16, (self.0.rem_euclid(12) + 1) as i8, 1);
        // The month after the last one of the calendar begins where times end.
        day.and_then(|day| day.to_zoned(TimeZone::UTC)).map_or(Timestamp::MAX, |zoned| zoned.timestamp())
    }

    pub fn hours(self) -> f64 {
        let length: SignedDuration = self.ahead(1).begin().duration_since(self.begin());
        length.as_secs_f64() / 3600.0
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.0.div_euclid(12), self.0.rem_euclid(12) + 1)
    }
}

impl Serialize for Month {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Month {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom(format!("`{text}` is not a month, such as 2026-10")))
    }
}

impl JsonSchema for Month {
    fn schema_name() -> Cow<'static, str> {
        "Month".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9]{4}-(0[1-9]|1[0-2])$", "description": "A month of the calendar in UTC" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_follow_each_other_over_the_year() {
        let december = Month::parse("2026-12").unwrap();
        assert_eq!(december.ahead(1).to_string(), "2027-01");
        assert_eq!(december.ahead(3).since(december), 3);
        assert_eq!(december.begin().to_string(), "2026-12-01T00:00:00Z");
        assert_eq!((december.hours(), Month::parse("2028-02").unwrap().hours()), (744.0, 696.0));
        assert_eq!(Month::containing("2026-12-31T23:59:59Z".parse().unwrap()), december);
        assert_eq!(Month::containing(Timestamp::MAX).ahead(1).begin(), Timestamp::MAX);
        for text in ["", "2026", "2026-13", "2026-1", "0000-01", "26-01", "soon-ly"] {
            assert_eq!(Month::parse(text), None, "{text}");
        }
    }
}
