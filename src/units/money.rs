//! `Usd` and `UsdPerHour`: exact integer nano-dollars, written as decimal strings.
//!
//! A price is a sum people pay, so it is exact and totally ordered. Hours and bytes come from a model and are
//! floating point. The two meet in one place: `UsdPerHour::for_hours`, which rounds to the nano-dollar once.

use std::borrow::Cow;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Sub};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

const NANOS_PER_DOLLAR: i128 = 1_000_000_000;
/// An amount that is read or computed stays below this many nano-dollars, 8 x 10^19 dollars. Two billion of the largest add up.
const MOST: i128 = 1_i128 << 96;
/// Why a sum of amounts is an amount. An overflow would be a mistake of the program: it ends instead of showing another sum.
const ADDS_UP: &str = "an amount is below 2^96 nano-dollars, and an i128 holds two billion of those";

/// An amount of United States dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usd(i128);

/// A rate of spending for a whole machine (or what the name of the field says).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UsdPerHour(i64);

/// Why text is no amount of money.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    #[error("`{0}` is not an amount in dollars, such as 55.04")]
    Malformed(String),
    #[error("the comma in `{0}` does not group digits by three; write a decimal point")]
    DecimalComma(String),
    #[error("`{0}` is negative")]
    Negative(String),
    #[error("`{0}` has more decimals than are counted; rounding it would lose money")]
    TooFine(String),
    #[error("`{0}` is more than this program can count")]
    TooLarge(String),
}

impl Usd {
    pub const ZERO: Self = Self(0);

    pub const fn from_nanos(nanos: i128) -> Self {
        Self(nanos)
    }

    pub const fn nanos(self) -> i128 {
        self.0
    }

    pub fn parse(text: &str) -> Result<Self, MoneyError> {
        nanos(text, false).map(Self)
    }

    /// The same for amounts that may be negative, such as a credit.
    pub fn parse_signed(text: &str) -> Result<Self, MoneyError> {
        signed(text, |size| nanos(size, false)).map(Self)
    }

    /// This part of the amount: `part` of `whole`, rounded down to the nano-dollar. Nothing where the whole is nothing.
    pub fn share(self, part: i128, whole: i128) -> Self {
        if whole == 0 {
            return Self::ZERO;
        }
        // In two steps, since the product of a large amount and a large part is beyond counting.
        let (times, rest) = (self.0.div_euclid(whole), self.0.rem_euclid(whole));
        Self(times.saturating_mul(part).saturating_add(rest.saturating_mul(part).div_euclid(whole)))
    }

    /// The amount in parts as large as these are to each other. They add up to it: each ends where its share of the whole ends,
    /// to the nano-dollar. Nothing where every part is nothing.
    pub fn split<const N: usize>(self, parts: [i128; N]) -> [Self; N] {
        let whole: i128 = parts.iter().sum();
        let (mut before, mut given) = (0, Self::ZERO);
        parts.map(|part| {
            before += part;
            let so_far = self.share(before, whole);
            let own = so_far - given;
            given = so_far;
            own
        })
    }

    /// The same, with what is finer than a nano-dollar rounded up: for amounts that somebody computed instead of quoting.
    pub fn parse_up(text: &str) -> Result<Self, MoneyError> {
        nanos(text, true).map(Self)
    }

    /// Nearest nano-dollar; `None` for what is no number or beyond counting.
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        let nanos = (dollars * 1e9).round();
        (nanos.is_finite() && nanos.abs() < MOST as f64).then_some(Self(nanos as i128))
    }

    /// For arithmetic that is a prediction anyway; never to add up a bill.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl UsdPerHour {
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Reads a decimal as clouds write it, `9.0E-4` included, without passing through binary floating point.
    pub fn parse(text: &str) -> Result<Self, MoneyError> {
        i64::try_from(nanos(text, false)?).map(Self).map_err(|_| MoneyError::TooLarge(text.to_owned()))
    }

    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Cost of `count` machines for `hours`, rounded once to the nano-dollar. `None` if the hours are no finite number.
    pub fn for_hours(self, count: u32, hours: f64) -> Option<Usd> {
        Usd::from_dollars(self.times(count).nanos() as f64 * hours / 1e9)
    }

    pub fn times(self, count: u32) -> Usd {
        Usd(i128::from(self.0) * i128::from(count))
    }

    /// Share of this rate that falls on one of `gpus` cards, rounded down to the nano-dollar.
    pub fn per_gpu(self, gpus: f64) -> Self {
        Self((self.0 as f64 / gpus) as i64)
    }
}

/// An amount as the bills of clouds write it: their lines are finer than a nano-dollar. Read and added up exactly, to 10^-24
/// dollars; only a sum is rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FineUsd(i128);

/// Decimals of a `FineUsd`. An i128 then holds 10^14 dollars.
const FINE_DECIMALS: i64 = 24;
/// In units of the smallest decimal.
const MOST_FINE: i128 = 1_i128 << 120;
/// In a nano-dollar.
const FINE_IN_A_NANO: i128 = 1_000_000_000_000_000;

impl FineUsd {
    pub const ZERO: Self = Self(0);

    /// Negative amounts are credits. What floating point of an export has behind the last decimal is rounded: a billion such
    /// lines are less than a millionth of a nano-dollar off.
    pub fn parse(text: &str) -> Result<Self, MoneyError> {
        signed(text, |size| decimal(size, FINE_DECIMALS, Rest::Nearest)).map(Self)
    }

    /// `None` where the sum is beyond counting.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// So many billionths of it, to a digit of the last decimal: an amount of another currency at its rate. `None`: beyond counting.
    pub fn times_billionths(self, parts: i128) -> Option<Self> {
        const BILLION: i128 = 1_000_000_000;
        let whole = (self.0 / BILLION).checked_mul(parts)?;
        let rest = (self.0 % BILLION).checked_mul(parts)? / BILLION;
        whole.checked_add(rest).filter(|fine| fine.abs() < MOST_FINE).map(Self)
    }

    /// As it may be kept, digit for digit.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// What `to_bytes` gave.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(i128::from_be_bytes(bytes))
    }

    /// To the nearest nano-dollar, halves away from zero.
    pub fn rounded(self) -> Usd {
        Usd(self.0 / FINE_IN_A_NANO + 2 * (self.0 % FINE_IN_A_NANO) / FINE_IN_A_NANO)
    }
}

/// `-` before what is read otherwise.
fn signed(text: &str, size: impl Fn(&str) -> Result<i128, MoneyError>) -> Result<i128, MoneyError> {
    let trimmed = text.trim();
    match trimmed.strip_prefix("-$").or_else(|| trimmed.strip_prefix('-')) {
        Some(rest) => size(rest).map(|size| -size),
        None => size(trimmed),
    }
}

fn nanos(text: &str, round_up: bool) -> Result<i128, MoneyError> {
    decimal(text, 9, if round_up { Rest::Up } else { Rest::Refused })
}

/// What is done with digits behind the last decimal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    Refused,
    /// Less than one of the smallest unit altogether is no amount that could be rounded up.
    Up,
    Nearest,
}

/// Exact decimal reading: sign, digits, point, digits, and the exponent that some feeds use.
fn decimal(text: &str, decimals: i64, rest: Rest) -> Result<i128, MoneyError> {
    let malformed = || MoneyError::Malformed(text.to_owned());
    let trimmed = text.trim().trim_start_matches('$');
    if trimmed.starts_with('-') {
        return Err(MoneyError::Negative(text.to_owned()));
    }
    let (mantissa, exponent) = match trimmed.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| malformed())?),
        None => (trimmed, 0),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: String = whole.chars().chain(part.chars()).collect();
    if digits.is_empty() || digits.len() > 60 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(malformed());
    }
    let digits = digits.trim_start_matches('0');
    // The value is `digits` x 10^shift of the smallest unit.
    let shift = decimals + i64::from(exponent) - part.len() as i64;
    let (kept, dropped) = match usize::try_from(-shift) {
        Ok(drop) if drop > 0 => digits.split_at(digits.len().saturating_sub(drop)),
        _ => (digits, ""),
    };
    let has_rest = dropped.bytes().any(|digit| digit != b'0');
    if has_rest && (rest == Rest::Refused || (rest == Rest::Up && kept.is_empty())) {
        return Err(MoneyError::TooFine(text.to_owned()));
    }
    // Of fewer digits than are dropped, the first one is behind a zero.
    let is_half =
        usize::try_from(-shift) == Ok(dropped.len()) && dropped.bytes().next().is_some_and(|digit| digit >= b'5');
    let one_more = if rest == Rest::Nearest { is_half } else { has_rest };
    let too_large = || MoneyError::TooLarge(text.to_owned());
    let value: i128 = if kept.is_empty() { 0 } else { kept.parse().map_err(|_| too_large())? };
    let value = value.checked_add(i128::from(one_more)).ok_or_else(too_large)?;
    // Zero is zero, whatever its exponent.
    let shift = if value == 0 { 0 } else { shift.max(0) };
    let scale = u32::try_from(shift).ok().and_then(|shift| 10_i128.checked_pow(shift)).ok_or_else(too_large)?;
    value
        .checked_mul(scale)
        .filter(|units| *units < if decimals == FINE_DECIMALS { MOST_FINE } else { MOST })
        .ok_or_else(too_large)
}

fn write(nanos: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (sign, size) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
    let (whole, part) = (size / NANOS_PER_DOLLAR as u128, size % NANOS_PER_DOLLAR as u128);
    let part = format!("{part:09}");
    let part = part.trim_end_matches('0');
    // Cents always show; finer digits only where they exist.
    write!(f, "{sign}{whole}.{part:0<2}")
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self.0, f)
    }
}

impl fmt::Display for UsdPerHour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(i128::from(self.0), f)
    }
}

impl Add for Usd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.checked_add(other.0).expect(ADDS_UP))
    }
}

impl Sub for Usd {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.checked_sub(other.0).expect(ADDS_UP))
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

/// For amounts that may be negative: `#[serde(with = "crate::money::signed_usd")]`.
pub mod signed_usd {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    use super::Usd;

    pub fn serialize<S: Serializer>(amount: &Usd, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(amount)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Usd, D::Error> {
        Usd::parse_signed(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// The same where there may be none.
pub mod signed_usd_or_none {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    use super::Usd;

    pub fn serialize<S: Serializer>(amount: &Option<Usd>, serializer: S) -> Result<S::Ok, S::Error> {
        match amount {
            Some(amount) => serializer.collect_str(amount),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Usd>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| Usd::parse_signed(&text).map_err(D::Error::custom)).transpose()
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for UsdPerHour {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Usd {
    fn schema_name() -> Cow<'static, str> {
        "Usd".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        decimal_text("US dollars, exact to the nano-dollar, as decimal text")
    }
}

impl JsonSchema for UsdPerHour {
    fn schema_name() -> Cow<'static, str> {
        "UsdPerHour".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        decimal_text("US dollars an hour, exact to the nano-dollar, as decimal text")
    }
}

fn decimal_text(meaning: &str) -> Schema {
    json_schema!({ "type": "string", "pattern": "^-?[0-9]+(\\.[0-9]{1,9})?$", "description": meaning })
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for UsdPerHour {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests;
