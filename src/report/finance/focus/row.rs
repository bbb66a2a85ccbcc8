//! One charge in the terms of FOCUS: what kind it is, which cells have to be null, and every value as text.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use crate::finance::focus::version::FocusError;
use crate::finance::focus::vocabulary::{self, Service};
use gpuplan_budget::exchange::{Currency, Exchange};
use gpuplan_budget::{Charge, Costs, Item, Nature, Waste};
use gpuplan_units::Usd;

/// Digits of a unit price that had to be worked out from a cost and a quantity: below a billionth of a cent.
const DIGITS: usize = 12;

pub struct FocusRow<'a> {
    pub charge: &'a Charge,
    /// `Usage`, `Credit`, `Tax` or `Adjustment`.
    pub category: &'static str,
    pub service: Service,
    pub provider: String,
    pub start: String,
    pub end: String,
    /// Of its invoice, else the month in which the charge begins: clouds bill by the calendar month.
    pub month_start: String,
    pub month_end: String,
    pub tags: String,
    pub sku_details: String,
    unit: &'static str,
    /// The same charge in dollars, and the rate at which it is billed, where that is in another currency.
    priced: Option<(&'a Charge, &'a Exchange)>,
}

impl<'a> FocusRow<'a> {
    pub fn new(charge: &'a Charge) -> Result<Self, FocusError> {
        let id = || charge.id.clone();
        if !charge.quantity.is_finite() {
            return Err(FocusError::Quantity { charge: id() });
        }
        if charge.end < charge.start {
            return Err(FocusError::Period { charge: id() });
        }
        let unit = vocabulary::unit(&charge.unit)
            .ok_or_else(|| FocusError::Unit { charge: id(), unit: charge.unit.clone() })?;
        let month = charge.invoice.as_ref().map(|invoice| format!("{}-01T00:00:00Z", invoice.month));
        let month =
            month.map_or(Ok(charge.start), |month| month.parse()).map_err(|_| FocusError::Period { charge: id() })?;
        let (month_start, month_end) = billing_month(month).ok_or_else(|| FocusError::Period { charge: id() })?;
        let written = |value: &Value| {
            serde_json::to_string(value).map_err(|error| FocusError::Text { charge: id(), detail: error.to_string() })
        };
        Ok(Self {
            charge,
            category: category(charge.item),
            service: vocabulary::service(&charge.resource.cloud, charge.item),
            provider: vocabulary::provider(&charge.resource.cloud),
            start: whole_seconds(charge.start),
            end: whole_seconds(charge.end),
            month_start: whole_seconds(month_start),
            month_end: whole_seconds(month_end),
            tags: written(&tags(charge))?,
            sku_details: written(&details(charge))?,
            unit,
            priced: None,
        })
    }

    /// Of a charge whose amounts are in another currency.
    pub fn priced_in_dollars(self, charge: &'a Charge, exchange: &'a Exchange) -> Self {
        Self { priced: Some((charge, exchange)), ..self }
    }

    pub fn exchange(&self) -> Option<&'a Exchange> {
        self.priced.map(|(_, exchange)| exchange)
    }

    pub fn billing_currency(&self) -> String {
        self.exchange().map_or(Currency::USD, |exchange| exchange.currency).to_string()
    }

    /// Of a unit, in dollars.
    pub fn dollars_each(&self, cost: fn(&Costs) -> Usd) -> Option<String> {
        let (charge, _) = self.priced?;
        self.priced(&price_of_a_unit(charge, cost(&charge.costs)))
    }

    pub fn effective_dollars(&self) -> Option<String> {
        let (charge, _) = self.priced?;
        self.priced(&charge.costs.effective.to_string())
    }

    pub fn is_forecast(&self) -> bool {
        matches!(self.charge.nature, Nature::Forecast { .. })
    }

    pub fn percentiles(&self) -> Option<(Usd, Usd)> {
        match self.charge.nature {
            Nature::Actual => None,
            Nature::Forecast { p50, p90 } => Some((p50, p90)),
        }
    }

    /// Nothing is billed that only is expected, and nothing that stands on no invoice known here.
    pub fn billed(&self) -> Usd {
        if self.is_forecast() { Usd::ZERO } else { self.charge.costs.billed.unwrap_or(Usd::ZERO) }
    }

    /// The cloud's account where a tag names it; else the cloud, since the column must not be null.
    pub fn account(&self) -> String {
        let invoiced = self.charge.invoice.as_ref().map(|invoice| invoice.account.clone());
        let known = invoiced.or_else(|| self.charge.allocation.tags.get("billing-account").cloned());
        known.filter(|account| !account.is_empty()).unwrap_or_else(|| self.charge.resource.cloud.clone())
    }

    pub fn description(&self) -> String {
        let of = self.charge.allocation.run.as_ref().map_or(String::new(), |run| format!(" of run {run}"));
        let what = self.charge.resource.instance_type.as_ref().map_or(String::new(), |kind| format!(", {kind}"));
        let terms = self.charge.resource.purchase.as_ref().map_or(String::new(), |terms| format!(", {terms}"));
        let forecast = if self.is_forecast() { "Forecast: " } else { "" };
        format!("{forecast}{}{of}{what}{terms}", self.item().replace('-', " "))
    }

    pub fn frequency(&self) -> &'static str {
        if self.category == "Usage" { "Usage-Based" } else { "One-Time" }
    }

    /// Only usage has a price list behind it; everything about a SKU is null elsewhere.
    pub fn priced(&self, value: &str) -> Option<String> {
        (self.category == "Usage").then(|| value.to_owned())
    }

    pub fn pricing(&self) -> &'static str {
        match self.charge.resource.purchase.as_deref() {
            _ if self.commitment().is_some() => "Committed",
            Some(terms) if terms.starts_with("spot") && self.charge.is_machine_time() => "Dynamic",
            Some("calendar" | "flex-start" | "capacity-block") => "Other",
            _ => "Standard",
        }
    }

    /// Of machine time that a commitment covers, or that was committed and not used.
    pub fn commitment(&self) -> Option<String> {
        let is_committed =
            matches!(self.charge.resource.purchase.as_deref(), Some("commitment" | "reserved")) || self.is_unused();
        let place = self.charge.resource.region.as_deref().unwrap_or("any");
        let kind = self.charge.resource.instance_type.as_deref().unwrap_or("any");
        self.priced(&format!("{}/{place}/{kind}/commitment", self.charge.resource.cloud)).filter(|_| is_committed)
    }

    pub fn of_commitment(&self, value: &str) -> Option<String> {
        self.commitment().map(|_| value.to_owned())
    }

    pub fn is_unused(&self) -> bool {
        self.charge.item == Item::UnusedCommitment
    }

    pub fn quantity(&self) -> Option<String> {
        // Never with an exponent: that is how this type is written in full. With a point, or a reader that guesses types takes whole
        // numbers for integers, which the specification forbids. What was taken back counts backwards: prices are never negative.
        let size = self.charge.quantity.abs().to_string();
        let sign = if self.is_backwards() { "-" } else { "" };
        self.priced(&format!("{sign}{size}{}", if size.contains('.') { "" } else { ".0" }))
    }

    /// Usage that was charged before and is taken back.
    fn is_backwards(&self) -> bool {
        self.charge.quantity < 0.0 || self.charge.costs.billed.unwrap_or(self.charge.costs.effective) < Usd::ZERO
    }

    pub fn unit(&self) -> Option<String> {
        self.priced(self.unit)
    }

    pub fn unit_price(&self, cost: Usd) -> Option<String> {
        self.priced(&price_of_a_unit(self.charge, cost))
    }

    pub fn resource_type(&self) -> String {
        self.charge.resource.instance_type.clone().unwrap_or_else(|| self.service.meter.to_owned())
    }

    pub fn sku(&self) -> String {
        format!(
            "{}/{}",
            self.charge.resource.cloud,
            self.charge.resource.instance_type.as_deref().unwrap_or(self.item())
        )
    }

    pub fn sku_price(&self) -> String {
        let place = self.charge.resource.zone.as_deref().or(self.charge.resource.region.as_deref()).unwrap_or("any");
        format!("{}/{place}/{}", self.sku(), self.charge.resource.purchase.as_deref().unwrap_or("list"))
    }

    pub fn item(&self) -> &'static str {
        self.charge.item.word()
    }

    pub fn waste(&self) -> Option<&'static str> {
        self.charge.waste.map(Waste::word)
    }

    /// What was paid for work that was lost and done again.
    pub fn lost(&self) -> Option<Usd> {
        let is_lost = self.charge.item == Item::LostWork || self.charge.waste == Some(Waste::Redone);
        is_lost.then_some(self.charge.costs.effective)
    }
}

/// The price that was charged where it gives this cost, else the cost by the quantity.
fn price_of_a_unit(charge: &Charge, cost: Usd) -> String {
    let size = |amount: Usd| if amount < Usd::ZERO { Usd::ZERO - amount } else { amount };
    let (price, quantity, cost) = (size(charge.unit_price), charge.quantity.abs(), size(cost));
    let gives = Usd::from_dollars(price.dollars() * quantity)
        .is_some_and(|product| (product.nanos() - cost.nanos()).abs() <= 1);
    if gives || quantity == 0.0 {
        return price.to_string();
    }
    let text = format!("{:.DIGITS$}", cost.dollars() / quantity);
    // With a point, as a quantity.
    let text = text.trim_end_matches('0');
    if text.ends_with('.') { format!("{text}0") } else { text.to_owned() }
}

fn category(item: Item) -> &'static str {
    match item {
        Item::Credit => "Credit",
        Item::Tax => "Tax",
        Item::Other => "Adjustment",
        _ => "Usage",
    }
}

fn tags(charge: &Charge) -> Value {
    let mut tags: Map<String, Value> =
        charge.allocation.tags.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    // The mark that every rented machine bears.
    if let Some(run) = &charge.allocation.run {
        tags.entry("gpuplan:run").or_insert_with(|| json!(run));
    }
    Value::Object(tags)
}

/// Keys of the specification where it has them ("SKU Price Details"), our own with `x_`.
fn details(charge: &Charge) -> Value {
    let mut details = Map::new();
    let mut say = |key: &str, value: Option<Value>| value.map(|value| details.insert(key.to_owned(), value));
    say("InstanceType", charge.resource.instance_type.as_ref().map(|kind| json!(kind)));
    say("GpuCount", charge.resource.gpus.map(|gpus| json!(gpus)));
    say("x_Gpu", charge.resource.gpu.as_ref().map(|gpu| json!(gpu)));
    say("x_Purchase", charge.resource.purchase.as_ref().map(|terms| json!(terms)));
    Value::Object(details)
}

/// `YYYY-MM-DDTHH:mm:ssZ`, whole seconds (attribute "Date/Time Format").
pub fn whole_seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// First moment of the calendar month in UTC, and that of the next.
fn billing_month(at: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let first = at.to_zoned(TimeZone::UTC).date().first_of_month();
    let next = first.last_of_month().tomorrow().ok()?;
    let midnight = |date: Date| date.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    Some((midnight(first)?, midnight(next)?))
}
