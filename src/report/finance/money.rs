//! `Money`: amounts as the readers of a budget think of them, in dollars or in the currency of its portfolio.

use gpuplan_budget::exchange::{Currency, Exchange};
use gpuplan_units::Usd;

use crate::text::format;

/// Columns of a table in which some amounts are in the currency of `exchange`.
pub const EXCHANGE_COLUMNS: [&str; 4] = ["exchange_currency", "usd_per_unit", "exchange_source", "exchange_as_of"];

pub fn exchange_cells(exchange: &Exchange) -> [String; 4] {
    let Exchange { currency, usd_per_unit, source, as_of } = exchange;
    [currency.to_string(), usd_per_unit.to_string(), source.clone(), as_of.to_string()]
}

/// A mean of 10,000 draws is good to less than that part of it.
const SAID_FROM: f64 = 0.02;

/// How amounts of a budget are written.
#[derive(Clone, Copy, Debug)]
pub struct Money<'a>(Option<&'a Exchange>);

impl<'a> Money<'a> {
    /// In dollars where no other currency is stated.
    pub fn in_currency(exchange: Option<&'a Exchange>) -> Self {
        Self(exchange)
    }

    pub fn currency(self) -> Currency {
        self.0.map_or(Currency::USD, |exchange| exchange.currency)
    }

    /// `US dollars`, or the currency with its rate.
    pub fn name(self) -> String {
        self.0.map_or_else(|| "US dollars".to_owned(), Exchange::words)
    }

    /// Behind a sentence: nothing for dollars.
    pub fn aside(self) -> String {
        self.0.map_or_else(String::new, |exchange| format!(", in {}", exchange.words()))
    }

    /// Of an axis: `dollars`, or the code of the currency.
    pub fn unit(self) -> String {
        self.0.map_or_else(|| "dollars".to_owned(), |exchange| exchange.currency.to_string())
    }

    /// As many units as an amount has, to be written and drawn in place of dollars.
    pub fn units(self, amount: Usd) -> Usd {
        self.0.map_or(amount, |exchange| Usd::from_nanos(exchange.units(amount).billionths()))
    }

    /// What prepaid machines took the place of may be more than what they cost: an amount may be negative.
    pub fn usd(self, amount: Usd) -> String {
        let sign = if amount < Usd::ZERO { "-" } else { "" };
        let size = Usd::from_nanos(self.units(amount).nanos().abs());
        format!("{sign}{}", self.signed(&format::usd(size)))
    }

    pub fn change(self, amount: Usd) -> String {
        self.signed(&format::change(self.units(amount)))
    }

    /// What all outcomes come to on average, where that is far from what the plans add up to.
    pub fn average(self, expected: Usd, mean: Usd) -> Option<String> {
        let is_far = (mean.dollars() - expected.dollars()).abs() >= SAID_FROM * expected.dollars().abs();
        (is_far && mean != expected).then(|| {
            format!(
                "Averaged over all outcomes it is {}: the plans state the middle of each estimate, and what takes longer adds more than what \
                 is quicker saves",
                self.usd(mean)
            )
        })
    }

    /// A figure that is written in dollars, with the sign of the currency.
    pub fn signed(self, dollars: &str) -> String {
        dollars.replacen('$', &self.currency().prefix(), 1)
    }

    /// For a chart in its currency.
    pub fn value(self, amount: Usd) -> f64 {
        self.units(amount).dollars()
    }
}
