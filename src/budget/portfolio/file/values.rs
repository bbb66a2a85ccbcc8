//! Values of a portfolio: months, shares and days, each refused with its line and what to write instead.

use std::ops::RangeInclusive;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use toml::Spanned;

use crate::exchange::{Currency, ExchangeRate};
use crate::portfolio::PortfolioError;
use crate::portfolio::calendar::Month;
use gpuplan_workload::file::Scalar;

pub type Read<T> = Result<T, PortfolioError>;

/// Keys that a section needs and does not have: all are named at once, so that nobody is sent back once a key.
#[derive(Default)]
pub struct Wanted {
    /// Key and what it may look like.
    missing: Vec<(&'static str, &'static str)>,
}

impl Wanted {
    /// The value of `key` as it stands in the section; if none does, the key is missed, and shown with `example`.
    pub fn key<T>(&mut self, key: &'static str, example: &'static str, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.missing.push((key, example));
        }
        value
    }

    /// What is said of a section at `line` when `whose` keys are missed, with a line of the hint a key.
    pub fn error(&self, line: usize, whose: &str) -> PortfolioError {
        let names: Vec<String> = self.missing.iter().map(|(key, _)| format!("`{key}`")).collect();
        let hints: Vec<String> = self.missing.iter().map(|(key, example)| format!("{key} = {example}")).collect();
        let detail = match names.as_slice() {
            [most @ .., last] if !most.is_empty() => format!("{whose} {} and {last}", most.join(", ")),
            names => format!("{whose} {}", names.concat()),
        };
        PortfolioError::at(line, detail, hints.join("\n"))
    }
}

/// Knows the lines of its file.
pub struct Reader<'a> {
    pub text: &'a str,
    /// What its amounts are in; `None`: in dollars.
    pub exchange: Option<(Currency, ExchangeRate)>,
}

impl Reader<'_> {
    pub fn line<T>(&self, spanned: &Spanned<T>) -> usize {
        self.text[..spanned.span().start.min(self.text.len())].matches('\n').count() + 1
    }

    pub fn month(&self, stated: &Spanned<String>) -> Read<Month> {
        let refused = || {
            PortfolioError::at(
                self.line(stated),
                format!("`{}` is not a valid month; try 2027-01", stated.get_ref()),
                "start = \"2027-01\"",
            )
        };
        Month::parse(stated.get_ref()).ok_or_else(refused)
    }

    pub fn whole(&self, key: &str, stated: &Spanned<i64>, range: RangeInclusive<i64>) -> Read<u32> {
        let number = *stated.get_ref();
        let inside = u32::try_from(number).ok().filter(|_| range.contains(&number));
        inside.ok_or_else(|| {
            let detail = format!("{key} = {number} is outside {} to {}", range.start(), range.end());
            PortfolioError::at(self.line(stated), detail, format!("{key} = {}", range.start()))
        })
    }

    /// `40`, `40 %` or `"40%"` as 0.4.
    pub fn percent(&self, key: &str, stated: &Spanned<Scalar>) -> Read<f64> {
        let text = stated.get_ref().to_string();
        let number =
            text.trim().trim_end_matches('%').trim().parse::<f64>().ok().filter(|number| (0.0..100.0).contains(number));
        let refused = || {
            PortfolioError::at(
                self.line(stated),
                format!("{key} `{text}` is not a percentage from 0 to 100"),
                format!("{key} = 40"),
            )
        };
        number.map(|number| number / 100.0).ok_or_else(refused)
    }

    pub fn day(&self, stated: &Spanned<Scalar>) -> Read<Timestamp> {
        let day = self.date(stated)?.to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp());
        day.map_err(|_| self.no_day(stated))
    }

    pub fn date(&self, stated: &Spanned<Scalar>) -> Read<Date> {
        stated.get_ref().to_string().parse().map_err(|_| self.no_day(stated))
    }

    fn no_day(&self, stated: &Spanned<Scalar>) -> PortfolioError {
        let detail = format!("`{}` is not a valid day; try 2026-10-01", stated.get_ref());
        PortfolioError::at(self.line(stated), detail, "as_of = 2026-10-01")
    }

    /// A probability or a share: `0.8` or `"80 %"`.
    pub fn share(&self, key: &str, stated: &Spanned<Scalar>) -> Read<f64> {
        let text = stated.get_ref().to_string();
        let number = match text.trim().strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().ok().map(|percent| percent / 100.0),
            None => text.trim().parse::<f64>().ok(),
        };
        number.filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| {
            let detail = format!("{key} `{text}` is neither a share from 0 to 1 nor a percentage");
            PortfolioError::at(self.line(stated), detail, format!("{key} = \"80 %\""))
        })
    }
}
