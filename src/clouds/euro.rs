//! `EuroRate`: what a euro is in dollars by the European Central Bank's reference rate, for clouds that charge in euros.

use gpuplan_clouds_http::endpoint;
use gpuplan_clouds_http::{Http, Request};
use gpuplan_market::SourceError;
use gpuplan_units::{Usd, UsdPerHour};
use serde_json::Value;

use crate::price;

const BASE: &str = "https://www.ecb.europa.eu";
/// The rates of the last working day (ecb.europa.eu/stats/policy_and_exchange_rates/euro_reference_exchange_rates).
const PATH: &str = "/stats/eurofxref/eurofxref-daily.xml";

/// Dollars for a euro, and the day of which that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EuroRate {
    dollars: Usd,
    day: String,
}

/// Where the bank is, or where the environment says.
pub fn address() -> String {
    endpoint("GPUPLAN_ECB_ENDPOINT", BASE)
}

impl EuroRate {
    /// Asks the bank at its address for today's.
    pub async fn today(http: &Http, bank: &str) -> Result<Self, SourceError> {
        Self::read(&http.text(&Request::get(format!("{bank}{PATH}"))).await?.value)
    }

    /// The document has one element a currency: `<Cube currency='USD' rate='1.1225'/>`, below one with its day: `<Cube time='2026-10-02'>`.
    pub fn read(document: &str) -> Result<Self, SourceError> {
        let missing = |field: &str| {
            let detail = "the document of the European Central Bank does not say it".to_owned();
            SourceError::Malformed { field: field.to_owned(), detail }
        };
        let elements = || document.split('<').map(|element| element.replace('"', "'"));
        let value = |element: &str, name: &str| {
            let (_, rest) = element.split_once(&format!("{name}='"))?;
            rest.split_once('\'').map(|(value, _)| value.to_owned())
        };
        let dollar = elements().find(|element| value(element, "currency").as_deref() == Some("USD"));
        let dollars = dollar.and_then(|element| Usd::parse(&value(&element, "rate")?).ok());
        let dollars = dollars.filter(|dollars| *dollars > Usd::ZERO).ok_or_else(|| missing("rate of the dollar"))?;
        let day = elements().find_map(|element| value(&element, "time")).ok_or_else(|| missing("time"))?;
        Ok(Self { dollars, day })
    }

    /// Euros for an hour, in dollars, rounded up to the nano-dollar.
    pub fn rate(&self, euros: &Value) -> Result<UsdPerHour, String> {
        price::hourly(price::amount(euros)?, self.dollars.nanos(), price::NANO)
    }

    /// As a flag of an offer: what its amount in dollars rests on.
    pub fn flag(&self) -> String {
        format!("euro={}@{}", self.dollars, self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The form of the bank's document.
    pub const DOCUMENT: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<gesmes:Envelope><gesmes:subject>Reference rates</gesmes:subject><Cube>\
        <Cube time='2026-10-02'>\n<Cube currency='USD' rate='1.1225'/>\n<Cube currency='JPY' rate='171.30'/></Cube></Cube></gesmes:Envelope>";

    #[test]
    fn euros_are_dollars_at_the_rate_of_a_day() {
        let rate = EuroRate::read(DOCUMENT).unwrap();
        assert_eq!(rate.rate(&json!(2.8665)).unwrap().to_string(), "3.21764625");
        assert_eq!(rate.flag(), "euro=1.1225@2026-10-02");
        assert_eq!(EuroRate::read(&DOCUMENT.replace('\'', "\"")).unwrap(), rate);
        assert!(rate.rate(&json!(0)).is_err() && rate.rate(&json!("x")).is_err());
    }

    #[test]
    fn without_a_dollar_or_a_day_there_is_no_rate() {
        for (from, to) in [("USD", "GBP"), ("1.1225", "0"), ("1.1225", "-1"), ("time=", "day=")] {
            let error = EuroRate::read(&DOCUMENT.replace(from, to)).unwrap_err();
            assert!(matches!(error, SourceError::Malformed { .. }), "{error}");
        }
        assert!(EuroRate::read("").is_err());
    }
}
