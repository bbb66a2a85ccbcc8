//! `Exchange`: a currency other than the dollar in which a portfolio is stated, with its rate and where that is from.
//!
//! Everything is counted in dollars, since all prices are. Amounts of the currency are converted once where they are read, and once where
//! they are shown.

use std::borrow::Cow;
use std::fmt;

use jiff::civil::Date;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

use gpuplan_units::{Quantiles, Usd, UsdPerHour};

/// Billionths in one, of an amount as of a rate.
const BILLION: i128 = 1_000_000_000;
/// No currency is worth more dollars: a slip of the keyboard. The dearest unit, the dinar of Kuwait, is at 3.
const MOST_USD_PER_UNIT: i128 = 1_000 * BILLION;

/// Signs, names and codes that people write, in small letters and without the `s` of a plural.
const CALLED: [(&str, &[&str]); 10] = [
    ("USD", &["$", "usd", "us$", "dollar", "us dollar"]),
    ("EUR", &["€", "eur", "euro"]),
    ("GBP", &["£", "gbp", "pound", "pound sterling"]),
    ("CHF", &["chf", "fr", "fr.", "sfr", "sfr.", "franc", "swiss franc"]),
    ("JPY", &["¥", "jpy", "yen"]),
    ("INR", &["₹", "inr", "rupee"]),
    ("CAD", &["cad", "ca$", "c$"]),
    ("AUD", &["aud", "a$"]),
    ("SEK", &["sek"]),
    ("PLN", &["pln", "zł"]),
];

/// Three letters of ISO 4217, such as `EUR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

/// What one unit of a currency is in US dollars, in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeRate(i128);

/// A currency at its rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exchange {
    /// ISO 4217, such as `EUR`.
    #[schemars(with = "String")]
    pub currency: Currency,
    /// US dollars for one unit.
    #[schemars(with = "Usd")]
    pub usd_per_unit: ExchangeRate,
    /// Of the rate, in the words of the portfolio.
    pub source: String,
    /// Day of the rate.
    #[schemars(with = "String")]
    pub as_of: Date,
}

/// An amount of a currency that is not the dollar, in billionths of its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Units(i128);

impl Currency {
    pub const USD: Self = Self(*b"USD");

    /// `None`: it is not three capital letters.
    pub fn parse(code: &str) -> Option<Self> {
        let letters: [u8; 3] = code.as_bytes().try_into().ok()?;
        letters.iter().all(u8::is_ascii_uppercase).then_some(Self(letters))
    }

    /// The currency that somebody probably means who writes `euro` or `£`, to be offered and never taken.
    pub fn meant(text: &str) -> Option<Self> {
        Self::called(text).or_else(|| Self::parse(&text.trim().to_ascii_uppercase()))
    }

    /// The currency that is called so: by its sign, its name or its code. `None`: none that is known here.
    pub fn called(text: &str) -> Option<Self> {
        let word = text.trim().to_lowercase();
        let word = word.strip_suffix('s').unwrap_or(&word);
        CALLED.iter().find(|(_, words)| words.contains(&word)).and_then(|(code, _)| Self::parse(code))
    }

    /// The text without its sign, name or code before or behind it; as it is where none of them stands there.
    pub fn taken_from(self, text: &str) -> String {
        let (text, lower) = (text.trim(), text.trim().to_lowercase());
        let code = self.to_string();
        let known = CALLED.iter().find(|(known, _)| *known == code).map_or(&[][..], |(_, words)| *words);
        let mut words: Vec<String> = known.iter().map(|word| (*word).to_owned()).chain([code.to_lowercase()]).collect();
        // The longest first: `us dollar` before `dollar`.
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        let rest = words.iter().find_map(|word| {
            let behind = || lower.strip_suffix(&**word).map(|rest| 0..rest.len());
            lower.strip_prefix(&**word).map(|_| word.len()..lower.len()).or_else(behind)
        });
        // Letters of which small ones are longer are no part of a number.
        rest.and_then(|range| text.get(range)).unwrap_or(text).trim().to_owned()
    }

    /// What stands before an amount: `$`, `€`, `£`, else the code and a space.
    pub fn prefix(self) -> String {
        match &self.0 {
            b"USD" => "$".to_owned(),
            b"EUR" => "€".to_owned(),
            b"GBP" => "£".to_owned(),
            _ => format!("{self} "),
        }
    }
}

impl Default for Currency {
    fn default() -> Self {
        Self::USD
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        self.0.iter().try_for_each(|letter| write!(formatter, "{}", char::from(*letter)))
    }
}

impl Serialize for Currency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Currency {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = String::deserialize(deserializer)?;
        Self::parse(&code).ok_or_else(|| serde::de::Error::custom(format!("`{code}` is not a currency such as EUR")))
    }
}

impl ExchangeRate {
    /// So many dollars for one unit. `None`: nothing, or more than any currency is worth.
    pub fn new(usd: Usd) -> Option<Self> {
        (1..=MOST_USD_PER_UNIT).contains(&usd.nanos()).then_some(Self(usd.nanos()))
    }

    /// `EUR=1.0842`: of the currency, how many dollars it is. `None`: it is no rate.
    pub fn parse(text: &str) -> Option<(String, Self)> {
        let (currency, rate) = text.split_once('=')?;
        let currency = Currency::parse(&currency.trim().to_ascii_uppercase()).filter(|code| *code != Currency::USD)?;
        Some((currency.to_string(), Self::new(Usd::parse(rate.trim()).ok()?)?))
    }

    pub const fn billionths(self) -> i128 {
        self.0
    }

    /// So many units in dollars, rounded once to the nano-dollar, halves up.
    pub fn to_usd(self, units: Units) -> Usd {
        // In two parts, since an amount times a rate may be beyond an `i128`.
        let (whole, rest) = (units.0.div_euclid(BILLION), units.0.rem_euclid(BILLION));
        let rounded = (rest * self.0 + BILLION / 2).div_euclid(BILLION);
        Usd::from_nanos(whole.saturating_mul(self.0).saturating_add(rounded))
    }

    /// So many dollars in units, rounded once to the billionth, halves up.
    pub fn to_units(self, usd: Usd) -> Units {
        let (whole, rest) = (usd.nanos().div_euclid(self.0), usd.nanos().rem_euclid(self.0));
        Units(whole.saturating_mul(BILLION).saturating_add((rest * BILLION + self.0 / 2).div_euclid(self.0)))
    }

    /// A price of so many units an hour. `None`: beyond counting.
    pub fn hourly(self, units: UsdPerHour) -> Option<UsdPerHour> {
        let usd = self.to_usd(Units(i128::from(units.nanos())));
        i64::try_from(usd.nanos()).ok().map(UsdPerHour::from_nanos)
    }
}

impl Serialize for ExchangeRate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Usd::from_nanos(self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ExchangeRate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let usd = Usd::deserialize(deserializer)?;
        Self::new(usd).ok_or_else(|| serde::de::Error::custom(format!("`{usd}` is no rate of exchange")))
    }
}

impl fmt::Display for ExchangeRate {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        Usd::from_nanos(self.0).fmt(formatter)
    }
}

impl Exchange {
    pub fn units(&self, usd: Usd) -> Units {
        self.usd_per_unit.to_units(usd)
    }

    pub fn quantiles(&self, usd: Quantiles<Usd>) -> Quantiles<Units> {
        Quantiles { expected: self.units(usd.expected), p50: self.units(usd.p50), p90: self.units(usd.p90) }
    }

    /// Amounts that are added up, each in units: each ends where the sum until then ends, so that all of them together are the whole in
    /// units, to the billionth.
    pub fn parts(&self, amounts: impl IntoIterator<Item = Usd>) -> Vec<Units> {
        let (mut sum, mut before) = (Usd::ZERO, Units::default());
        let part = |amount: Usd| {
            sum = sum + amount;
            let until = self.units(sum);
            let own = Units(until.0 - before.0);
            before = until;
            own
        };
        amounts.into_iter().map(part).collect()
    }

    /// `EUR at 1.0842 US dollars (ECB reference rate, 2026-10-30)`: without its rate, no amount of it is shown.
    pub fn words(&self) -> String {
        format!("{} at {} US dollars ({}, {})", self.currency, self.usd_per_unit, self.source, self.as_of)
    }
}

impl Units {
    pub const fn billionths(self) -> i128 {
        self.0
    }

    pub const fn from_billionths(billionths: i128) -> Self {
        Self(billionths)
    }
}

impl fmt::Display for Units {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        Usd::from_nanos(self.0).fmt(formatter)
    }
}

impl JsonSchema for Units {
    fn schema_name() -> Cow<'static, str> {
        "Units".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^-?[0-9]+(\\.[0-9]{1,9})?$",
            "description": "Units of the currency of `exchange`, as decimal text"
        })
    }
}

impl Serialize for Units {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn euro(usd: &str) -> Exchange {
        Exchange {
            currency: Currency::parse("EUR").unwrap(),
            usd_per_unit: ExchangeRate::new(Usd::parse(usd).unwrap()).unwrap(),
            source: "ECB reference rate".to_owned(),
            as_of: "2026-10-30".parse().unwrap(),
        }
    }

    #[test]
    fn a_rate_converts_to_the_billionth_both_ways_and_is_always_said() {
        let rate = euro("1.0842");
        assert_eq!(rate.usd_per_unit.to_usd(Units(20_000 * BILLION)).to_string(), "21684.00");
        assert_eq!(rate.units(Usd::parse("21684").unwrap()).to_string(), "20000.00");
        assert_eq!(rate.units(Usd::parse("1").unwrap()).to_string(), "0.922339052");
        assert_eq!(rate.units(Usd::parse_signed("-1").unwrap()).to_string(), "-0.922339052");
        assert_eq!(rate.words(), "EUR at 1.0842 US dollars (ECB reference rate, 2026-10-30)");
        let text = serde_json::to_string(&rate).unwrap();
        assert_eq!(
            text,
            r#"{"currency":"EUR","usd_per_unit":"1.0842","source":"ECB reference rate","as_of":"2026-10-30"}"#
        );
        assert_eq!(serde_json::from_str::<Exchange>(&text).unwrap(), rate);
    }

    #[test]
    fn a_currency_is_three_letters_and_other_words_are_offered_as_such() {
        for (word, code) in
            [("euro", "EUR"), ("€", "EUR"), ("eur", "EUR"), ("Pounds", "GBP"), ("usd", "USD"), ("$", "USD")]
        {
            assert_eq!(Currency::parse(word), None, "{word}");
            assert_eq!(Currency::meant(word), Currency::parse(code), "{word}");
        }
        assert_eq!(Currency::meant("gold"), None);
        let bare = |code: &str, text: &str| Currency::parse(code).unwrap().taken_from(text);
        for text in ["€20k", "20k €", "20k EUR", "eur 20k", "20k"] {
            assert_eq!(bare("EUR", text), "20k", "{text}");
        }
        assert_eq!((bare("INR", "₹ 40,00,000"), bare("NOK", "nok 7")), ("40,00,000".to_owned(), "7".to_owned()));
        assert_eq!(bare("EUR", "İ€"), "İ€");
        assert_eq!(["EUR", "CHF"].map(|code| Currency::parse(code).unwrap().prefix()), ["€", "CHF "]);
        for wrong in ["0", "1000.01"] {
            assert_eq!(ExchangeRate::new(Usd::parse(wrong).unwrap()), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn parts_add_up_to_the_whole_and_each_is_its_own(
            amounts in proptest::collection::vec(-9_000_000_000_000_i128..9_000_000_000_000, 1..40),
            rate in 1_000_000_i128..1_000_000_000_000,
        ) {
            let rate = Exchange { usd_per_unit: ExchangeRate(rate), ..euro("1") };
            let amounts: Vec<Usd> = amounts.into_iter().map(Usd::from_nanos).collect();
            let parts = rate.parts(amounts.iter().copied());
            prop_assert_eq!(parts.iter().map(|part| part.0).sum::<i128>(), rate.units(amounts.iter().copied().sum()).0);
            for (part, amount) in parts.iter().zip(&amounts) {
                prop_assert!((part.0 - rate.units(*amount).0).abs() <= 1);
            }
        }
    }
}
