//! Charges as rows of FOCUS, the FinOps Open Cost and Usage Specification, versions 1.2 to 1.4.
//!
//! FOCUS describes charges; a forecast is none. A forecast row has the same columns so that it can be laid beside actual ones,
//! bills nothing (`BilledCost` is 0, which the specification demands of whoever does not invoice) and says so in `x_Forecast`.

mod checker;
mod row;
mod tests;
mod version;
mod vocabulary;

use crate::finance::focus::row::{FocusRow, whole_seconds};
pub use crate::finance::focus::version::{FocusError, FocusVersion};
use crate::text::csv_text::csv_text;
use gpuplan_budget::exchange::Exchange;
use gpuplan_budget::{Charge, Costs, Nature};
use gpuplan_units::Usd;

/// One row a charge, the columns of the version first and our own (`x_...`) after them. An empty field is null. With an exchange, amounts are
/// billed in its currency and priced in dollars.
pub fn write(version: FocusVersion, charges: &[Charge], exchange: Option<&Exchange>) -> Result<String, FocusError> {
    let is_here = |column: &&Column| column.is_in(version) && (!column.is_of_exchange || exchange.is_some());
    let columns: Vec<&Column> = COLUMNS.iter().filter(is_here).collect();
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    let mut lines: Vec<Vec<String>> = Vec::with_capacity(charges.len());
    let billed = exchange.map(|exchange| in_currency(charges, exchange));
    for (at, charge) in charges.iter().enumerate() {
        let row = match (exchange, &billed) {
            (Some(exchange), Some(billed)) => FocusRow::new(&billed[at])?.priced_in_dollars(charge, exchange),
            _ => FocusRow::new(charge)?,
        };
        lines.push(columns.iter().map(|column| (column.value)(&row).unwrap_or_default()).collect());
    }
    Ok(csv_text(&names, lines))
}

/// The same charges with every amount in units of a currency. Each column of costs adds up to its sum in dollars, converted once.
fn in_currency(charges: &[Charge], exchange: &Exchange) -> Vec<Charge> {
    let units = |usd: Usd| Usd::from_nanos(exchange.units(usd).billionths());
    let column = |of: fn(&Costs) -> Usd| {
        let parts = exchange.parts(charges.iter().map(|charge| of(&charge.costs))).into_iter();
        parts.map(|part| Usd::from_nanos(part.billionths()))
    };
    let costs = column(|costs| costs.list).zip(column(|costs| costs.contracted));
    let costs = costs.zip(column(|costs| costs.effective)).zip(column(|costs| costs.billed.unwrap_or_default()));
    let converted = |(charge, (((list, contracted), effective), billed)): (&Charge, _)| Charge {
        nature: match charge.nature {
            Nature::Actual => Nature::Actual,
            Nature::Forecast { p50, p90 } => Nature::Forecast { p50: units(p50), p90: units(p90) },
        },
        unit_price: units(charge.unit_price),
        costs: Costs { list, contracted, effective, billed: charge.costs.billed.map(|_| billed) },
        ..charge.clone()
    };
    charges.iter().zip(costs).map(converted).collect()
}

/// A column: in which versions it stands, and what a row has in it.
struct Column {
    name: &'static str,
    since: FocusVersion,
    until: FocusVersion,
    /// Only where amounts are billed in another currency than they are priced in.
    is_of_exchange: bool,
    value: fn(&FocusRow) -> Option<String>,
}

impl Column {
    fn is_in(&self, version: FocusVersion) -> bool {
        (self.since..=self.until).contains(&version)
    }
}

const fn column(name: &'static str, value: fn(&FocusRow) -> Option<String>) -> Column {
    Column { name, since: FocusVersion::V1_2, until: FocusVersion::V1_4, is_of_exchange: false, value }
}

const fn since(since: FocusVersion, column: Column) -> Column {
    Column { since, ..column }
}

const fn until(until: FocusVersion, column: Column) -> Column {
    Column { until, ..column }
}

const fn of_exchange(name: &'static str, value: fn(&FocusRow) -> Option<String>) -> Column {
    Column { is_of_exchange: true, ..column(name, value) }
}

/// Alphabetically, as the specification lists them; columns of our own at the end, as it demands.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a method is of one lifetime of `FocusRow`, a column of every"
)]
const COLUMNS: &[Column] = &[
    column("AvailabilityZone", |row| row.charge.resource.zone.clone()),
    column("BilledCost", |row| Some(row.billed().to_string())),
    column("BillingAccountId", |row| Some(row.account())),
    column("BillingAccountName", |_| None),
    column("BillingCurrency", |row| Some(row.billing_currency())),
    column("BillingPeriodEnd", |row| Some(row.month_end.clone())),
    column("BillingPeriodStart", |row| Some(row.month_start.clone())),
    column("ChargeCategory", |row| Some(row.category.to_owned())),
    column("ChargeClass", |_| None),
    column("ChargeDescription", |row| Some(row.description())),
    column("ChargeFrequency", |row| Some(row.frequency().to_owned())),
    column("ChargePeriodEnd", |row| Some(row.end.clone())),
    column("ChargePeriodStart", |row| Some(row.start.clone())),
    column("CommitmentDiscountCategory", |row| row.of_commitment("Usage")),
    column("CommitmentDiscountId", |row| row.commitment()),
    column("CommitmentDiscountName", |_| None),
    column("CommitmentDiscountQuantity", |row| row.commitment().and(row.quantity())),
    column("CommitmentDiscountStatus", |row| row.of_commitment(if row.is_unused() { "Unused" } else { "Used" })),
    column("CommitmentDiscountType", |row| row.of_commitment("Commitment")),
    column("CommitmentDiscountUnit", |row| row.commitment().and(row.unit())),
    column("ConsumedQuantity", |row| row.quantity().filter(|_| !row.is_unused())),
    column("ConsumedUnit", |row| row.unit().filter(|_| !row.is_unused())),
    column("ContractedCost", |row| Some(row.charge.costs.contracted.to_string())),
    column("ContractedUnitPrice", |row| row.unit_price(row.charge.costs.contracted)),
    column("EffectiveCost", |row| Some(row.charge.costs.effective.to_string())),
    since(FocusVersion::V1_3, column("HostProviderName", |row| Some(row.provider.clone()))),
    since(FocusVersion::V1_4, column("InvoiceDetailId", |_| None)),
    column("InvoiceId", |row| row.charge.invoice.as_ref().and_then(|invoice| invoice.id.clone())),
    column("InvoiceIssuerName", |row| Some(row.provider.clone())),
    column("ListCost", |row| Some(row.charge.costs.list.to_string())),
    column("ListUnitPrice", |row| row.unit_price(row.charge.costs.list)),
    column("PricingCategory", |row| row.priced(row.pricing())),
    of_exchange("PricingCurrency", |row| row.priced("USD")),
    of_exchange("PricingCurrencyContractedUnitPrice", |row| row.dollars_each(|costs| costs.contracted)),
    of_exchange("PricingCurrencyEffectiveCost", |row| row.effective_dollars()),
    of_exchange("PricingCurrencyListUnitPrice", |row| row.dollars_each(|costs| costs.list)),
    column("PricingQuantity", |row| row.quantity()),
    column("PricingUnit", |row| row.unit()),
    until(FocusVersion::V1_3, column("ProviderName", |row| Some(row.provider.clone()))),
    until(FocusVersion::V1_3, column("PublisherName", |row| Some(row.provider.clone()))),
    column("RegionId", |row| row.charge.resource.region.clone()),
    column("RegionName", |row| row.charge.resource.region.clone()),
    column("ResourceId", |row| row.charge.resource.id.clone()),
    column("ResourceName", |_| None),
    column("ResourceType", |row| row.charge.resource.id.as_ref().map(|_| row.resource_type())),
    column("ServiceCategory", |row| Some(row.service.category.to_owned())),
    column("ServiceName", |row| Some(row.service.name.to_owned())),
    since(FocusVersion::V1_3, column("ServiceProviderName", |row| Some(row.provider.clone()))),
    column("ServiceSubcategory", |row| Some(row.service.subcategory.to_owned())),
    column("SkuId", |row| row.priced(&row.sku())),
    column("SkuMeter", |row| row.priced(row.service.meter)),
    column("SkuPriceDetails", |row| row.priced(&row.sku_details)),
    column("SkuPriceId", |row| row.priced(&row.sku_price())),
    column("Tags", |row| Some(row.tags.clone())),
    column("x_Assumption", |row| non_empty(&row.charge.assumption)),
    column("x_ChargeId", |row| non_empty(&row.charge.id)),
    of_exchange("x_ExchangeDate", |row| row.exchange().map(|exchange| exchange.as_of.to_string())),
    of_exchange("x_ExchangeRate", |row| row.exchange().map(|exchange| exchange.usd_per_unit.to_string())),
    of_exchange("x_ExchangeSource", |row| row.exchange().map(|exchange| exchange.source.clone())),
    column("x_Forecast", |row| Some(row.is_forecast().to_string())),
    column("x_Gpu", |row| row.charge.resource.gpu.clone()),
    column("x_GpuCount", |row| row.charge.resource.gpus.map(|gpus| gpus.to_string())),
    column("x_Item", |row| Some(row.item().to_owned())),
    column("x_LostWorkCost", |row| row.lost().map(|cost| cost.to_string())),
    column("x_P50Cost", |row| row.percentiles().map(|(p50, _)| p50.to_string())),
    column("x_P90Cost", |row| row.percentiles().map(|(_, p90)| p90.to_string())),
    column("x_PlanId", |row| row.charge.allocation.tags.get("plan-id").cloned()),
    column("x_PricedAt", |row| row.charge.priced_at.map(whole_seconds)),
    column("x_PriceSource", |row| non_empty(&row.charge.source)),
    column("x_Run", |row| row.charge.allocation.run.clone()),
    column("x_Team", |row| row.charge.allocation.team.clone()),
    column("x_Waste", |row| row.waste().map(str::to_owned)),
];

/// A custom column has null where there is nothing to say.
fn non_empty(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}
