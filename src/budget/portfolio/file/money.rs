//! Amounts of a portfolio or of `policy.toml` and the currency that they are in: all become dollars here, at the rate that is stated.

use toml::Spanned;

use crate::exchange::{Currency, Exchange, ExchangeRate, Units};
use crate::portfolio::PortfolioError;
use crate::portfolio::file::keys::{ExchangeSection, PolicyRules};
use crate::portfolio::file::values::{Read, Reader, Wanted};
use gpuplan_units::nearest;
use gpuplan_units::separators::{parse_amount, parse_rate};
use gpuplan_units::{Usd, UsdPerHour};
use gpuplan_workload::file::Scalar;

impl Reader<'_> {
    /// The currency of its amounts with its rate; `None`: they are in dollars. Prices are in dollars, and a rate is nothing to guess.
    pub fn exchange(
        &self,
        currency: Option<&Spanned<String>>,
        rate: Option<&Spanned<ExchangeSection>>,
    ) -> Read<Option<Exchange>> {
        let stated = currency.ok_or_else(|| {
            let detail = "`currency` is missing: state it, nobody should have to guess";
            PortfolioError::at(1, detail, "currency = \"USD\"")
        })?;
        let currency = self.currency(stated)?;
        let Some(section) = rate else {
            if currency == Currency::USD {
                return Ok(None);
            }
            let detail =
                format!("currency is `{currency}`, and every price is in US dollars: no rate of exchange is assumed");
            let hint = format!(
                "exchange = {{ usd_per_unit = \"RATE\", source = \"ECB reference rate\", as_of = 2026-10-30 }}, with the dollars that one {currency} is"
            );
            return Err(PortfolioError::at(self.line(stated), detail, hint));
        };
        let line = self.line(section);
        if currency == Currency::USD {
            return Err(PortfolioError::at(
                line,
                "prices are in US dollars: they need no rate of exchange",
                "take `exchange` out",
            ));
        }
        let section = section.get_ref();
        let mut wanted = Wanted::default();
        let rate = wanted.key("usd_per_unit", "\"RATE\"", section.usd_per_unit.as_ref());
        let source = wanted.key(
            "source",
            "\"ECB reference rate\"",
            section.source.clone().filter(|text| !text.trim().is_empty()),
        );
        let as_of = wanted.key("as_of", "2026-10-30", section.as_of.as_ref());
        let (Some(rate), Some(source), Some(as_of)) = (rate, source, as_of) else {
            return Err(wanted.error(line, "`exchange` needs"));
        };
        let text = rate.get_ref().to_string();
        let usd_per_unit = parse_amount(&text).ok().and_then(ExchangeRate::new).ok_or_else(|| {
            let detail = format!("usd_per_unit `{text}` is not the number of US dollars that one {currency} is");
            let meant = nearest::amount(&text).unwrap_or_else(|| "RATE".to_owned());
            PortfolioError::at(self.line(rate), detail, format!("usd_per_unit = \"{meant}\""))
        })?;
        Ok(Some(Exchange { currency, usd_per_unit, source, as_of: self.date(as_of)? }))
    }

    fn currency(&self, stated: &Spanned<String>) -> Read<Currency> {
        let word = stated.get_ref();
        Currency::parse(word).ok_or_else(|| {
            let meant = Currency::meant(word).unwrap_or(Currency::USD);
            let detail = format!("currency `{word}` is not a code of three capital letters");
            PortfolioError::at(self.line(stated), detail, format!("currency = \"{meant}\""))
        })
    }

    /// The currency of `policy.toml` with its rate; `None`: it is in dollars. Where it is that of the portfolio, the portfolio's rate holds,
    /// so that an amount is the same in both.
    pub fn exchange_of_policy(&self, file: &PolicyRules, portfolio: Option<&Exchange>) -> Read<Option<Exchange>> {
        match (&file.currency, &file.exchange) {
            (None, None) => Ok(None),
            (None, Some(rate)) => {
                let detail = "`exchange` is the rate of a currency, and no `currency` is stated";
                Err(PortfolioError::at(self.line(rate), detail, "currency = \"EUR\""))
            }
            (Some(stated), rate) => {
                let currency = self.currency(stated)?;
                let same = portfolio.filter(|exchange| exchange.currency == currency);
                let own = || self.exchange(Some(stated), rate.as_ref());
                same.map_or_else(own, |exchange| Ok(Some(exchange.clone())))
            }
        }
    }

    pub fn money(&self, key: &str, stated: &Spanned<Scalar>) -> Read<Usd> {
        let number = self.number(key, stated)?;
        let refused = |detail: String, meant: String| {
            PortfolioError::at(self.line(stated), detail, format!("{key} = \"{meant}\""))
        };
        // `20.000` is twenty thousand where a point groups digits, and nobody budgets thousandths of a unit.
        if let Some((whole, part)) = number.split_once('.').filter(|(_, part)| part.len() == 3)
            && (1..=3).contains(&whole.trim_start_matches('$').len())
            && part.bytes().all(|digit| digit.is_ascii_digit())
        {
            let detail = format!("{key}: `{number}` may be {whole}{part} or {whole}");
            return Err(refused(detail, format!("{whole}{part}")));
        }
        let amount = parse_amount(&number).map_err(|error| {
            self.other_currency(key, stated, &number).unwrap_or_else(|| {
                let detail = match self.exchange {
                    None => format!("{key}: {error}"),
                    Some((currency, _)) => format!("{key}: `{number}` is not an amount in {currency}, such as 120000"),
                };
                refused(detail, nearest::amount(&number).unwrap_or_else(|| "120000".to_owned()))
            })
        })?;
        Ok(self.exchange.map_or(amount, |(_, rate)| rate.to_usd(Units::from_billionths(amount.nanos()))))
    }

    /// Of a machine: `usd_per_hour` in dollars, whatever the currency, or `price_per_hour` in the currency. `None`: neither is stated.
    pub fn price(&self, usd: Option<&Spanned<Scalar>>, own: Option<&Spanned<Scalar>>) -> Read<Option<UsdPerHour>> {
        const KEYS: [&str; 2] = ["usd_per_hour", "price_per_hour"];
        match (usd, own) {
            (Some(_), Some(own)) => {
                let detail = "`usd_per_hour` and `price_per_hour` are two prices of one machine";
                Err(PortfolioError::at(self.line(own), detail, "take one of them out"))
            }
            (Some(usd), None) => self.rate_of(KEYS[0], usd, &usd.get_ref().to_string()).map(Some),
            (None, Some(own)) => {
                let price = self.rate_of(KEYS[1], own, &self.number(KEYS[1], own)?)?;
                let Some((currency, rate)) = self.exchange else { return Ok(Some(price)) };
                rate.hourly(price).map(Some).ok_or_else(|| {
                    let detail = format!("{price} {currency} an hour are more dollars than this program can count");
                    PortfolioError::at(self.line(own), detail, "price_per_hour = \"98.32\"")
                })
            }
            (None, None) => Ok(None),
        }
    }

    fn rate_of(&self, key: &str, stated: &Spanned<Scalar>, number: &str) -> Read<UsdPerHour> {
        parse_rate(number).map_err(|error| {
            let meant = nearest::amount(number).unwrap_or_else(|| "98.32".to_owned());
            PortfolioError::at(self.line(stated), format!("{key}: {error}"), format!("{key} = \"{meant}\""))
        })
    }

    /// An amount of another currency than the portfolio's; `None`: it is none of a currency that is known.
    fn other_currency(&self, key: &str, stated: &Spanned<Scalar>, text: &str) -> Option<PortfolioError> {
        let is_of_number =
            |c: char| c.is_ascii_digit() || c.is_whitespace() || matches!(c, '.' | ',' | '_' | '-' | '+');
        let own = self.exchange.map_or(Currency::USD, |(currency, _)| currency);
        let currency = Currency::called(text.trim_matches(is_of_number)).filter(|called| *called != own)?;
        let detail = format!("{key}: `{text}` is in {currency}, and this file is in {own}");
        let hint = if own == Currency::USD {
            format!("currency = \"{currency}\" with its rate in `exchange`, or {key} in US dollars")
        } else {
            format!("{key} in {own}")
        };
        Some(PortfolioError::at(self.line(stated), detail, hint))
    }

    /// The number of an amount, without the currency of the portfolio before or behind it. Dollars are told by whoever reads the number.
    fn number(&self, key: &str, stated: &Spanned<Scalar>) -> Read<String> {
        let text = stated.get_ref().to_string();
        let Some((currency, rate)) = self.exchange else { return Ok(text) };
        let number = currency.taken_from(&text);
        if number.contains('$') || number.to_ascii_lowercase().contains("usd") {
            let dollars = nearest::amount(&number).and_then(|amount| parse_amount(&amount).ok());
            let meant = dollars.map_or_else(|| "120000".to_owned(), |usd| cents(rate.to_units(usd)));
            let detail = format!("{key}: `{text}` is in US dollars, and this file is in {currency}");
            return Err(PortfolioError::at(self.line(stated), detail, format!("{key} = \"{meant}\"")));
        }
        Ok(number)
    }
}

/// With two decimals, as people type amounts.
fn cents(units: Units) -> String {
    let cents = (units.billionths() + 5_000_000) / 10_000_000;
    format!("{}.{:02}", cents / 100, cents % 100)
}
