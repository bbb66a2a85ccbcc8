//! Which column of an export says what: AWS CUR, FOCUS, Google with flat columns, Azure cost details.
//!
//! Names are those of docs.aws.amazon.com/cur ("CUR 2.0"), the FOCUS specification 1.0 to 1.4, cloud.google.com/billing/docs
//! ("Structure of detailed data export") and learn.microsoft.com ("Cost and usage details fields"). Case and signs do not count.

use std::collections::BTreeSet;

use crate::bill::cell::normalized;
use crate::bill::dimensions::{RunTag, own_tag};
use crate::bill::export::{BillError, Format, Position};

/// The names of the columns, and where they stand.
pub struct Header {
    at: Position,
    pub names: Vec<String>,
    normalized: Vec<String>,
}

impl Header {
    pub fn new(at: Position, names: impl Iterator<Item = String>) -> Self {
        let names: Vec<String> = names.map(|name| name.trim_start_matches('\u{feff}').to_owned()).collect();
        Self { at, normalized: names.iter().map(|name| normalized(own_name(name))).collect(), names }
    }

    fn find(&self, names: &[&str]) -> Option<usize> {
        names.iter().find_map(|name| self.normalized.iter().position(|known| *known == normalized(name)))
    }

    /// Columns that are each one tag: `resourceTags/user:team` of a legacy report, `resource_tags_user_team`.
    fn tags(&self, mark: &RunTag) -> Vec<(String, usize)> {
        let tag = |(column, name): (usize, &String)| {
            let tag =
                ["resourceTags/user:", "resource_tags_user_"].iter().find_map(|start| name.strip_prefix(start))?;
            Some((own_tag(tag, mark)?.to_owned(), column))
        };
        self.names.iter().enumerate().filter_map(tag).collect()
    }

    /// A column of CUR 2.0 as a legacy report writes it, if this is one: `lineItem/UsageStartDate` for `line_item_usage_start_date`.
    fn as_written(&self, column: &str) -> String {
        let is_legacy = self.names.iter().any(|name| name.starts_with("lineItem/"));
        let Some(rest) = column.strip_prefix("line_item_").filter(|_| is_legacy) else { return column.to_owned() };
        let word = |word: &str| word.get(..1).unwrap_or_default().to_uppercase() + word.get(1..).unwrap_or_default();
        format!("lineItem/{}", rest.split('_').map(word).collect::<String>())
    }

    pub fn format(&self) -> Option<Format> {
        let has = |name| self.find(&[name]).is_some();
        if has("line_item_unblended_cost") {
            Some(Format::Cur)
        } else if has("BilledCost") && has("ChargeCategory") {
            Some(Format::Focus)
        } else if has("CostInBillingCurrency") || has("PreTaxCost") || (has("Cost") && has("MeterCategory")) {
            Some(Format::Azure)
        } else if has("usage_start_time") && has("cost") {
            Some(Format::Google)
        } else {
            None
        }
    }

    /// Why it is nobody's export that is known.
    pub fn unlike(&self) -> &'static str {
        let has = |name| self.find(&[name]).is_some();
        let is_one = |mark| self.names.len() == 1 && self.names[0].contains(mark);
        if has("cost_myCost") {
            "it is a cost report of Oracle, whose FOCUS reports are read"
        } else if has("BilledCost") && has("ChargeType") {
            "it is FOCUS of before 1.0, which has no `ChargeCategory`"
        } else if has("BilledCost") {
            "it has the `BilledCost` of FOCUS, but no `ChargeCategory`, which FOCUS demands"
        } else if has("ChargeCategory") && has("ChargePeriodStart") {
            "it has columns of FOCUS, but no `BilledCost`, which FOCUS demands"
        } else if is_one(';') {
            "its columns are separated by `;` instead of commas"
        } else if is_one('\t') {
            "its columns are separated by tabs instead of commas"
        } else {
            "its columns fit none of them"
        }
    }
}

/// Azure writes columns in the language of the account, with the name in parentheses: `Maßeinheit (UnitOfMeasure)`.
fn own_name(name: &str) -> &str {
    let inside = name.trim().strip_suffix(')').and_then(|name| name.rsplit_once('('));
    inside.map_or(name, |(_, inside)| inside)
}

/// Where an export keeps what.
#[derive(Default)]
pub struct Columns {
    pub run: RunColumns,
    /// Begin of the billing period, or its month.
    pub period: Option<usize>,
    pub start: usize,
    pub end: Option<usize>,
    pub account: Option<usize>,
    pub cloud: Option<usize>,
    pub amounts: AmountColumns,
    pub usage: UsageColumns,
    pub place: PlaceColumns,
    pub identity: IdentityColumns,
}

/// Where an export tells lines apart, for deliveries that add to each other.
#[derive(Default)]
pub struct IdentityColumns {
    /// The append with which a line came, or its own reference, which never change.
    pub part: Option<usize>,
    /// What tells lines apart that are alike in everything else that is read.
    pub more: Vec<usize>,
}

/// Where an export says which run a line is of.
#[derive(Default)]
pub struct RunColumns {
    /// The tag itself.
    pub tag: Option<usize>,
    /// All tags together.
    pub tags: Option<usize>,
}

/// Where an export keeps the amounts of a line.
#[derive(Default)]
pub struct AmountColumns {
    /// `None`: the export has no such column, and the currency was stated beside it.
    pub currency: Option<usize>,
    pub billed: usize,
    pub list: Option<usize>,
    pub contracted: Option<usize>,
    pub effective: EffectiveColumns,
    pub credits: Option<usize>,
}

/// Where an export keeps the cost with commitments spread over the hours that they cover.
#[derive(Default)]
pub struct EffectiveColumns {
    /// Of every line.
    pub every: Option<usize>,
    /// Of lines that a savings plan covers; CUR fills it with zeros elsewhere.
    pub savings_plan: Option<usize>,
    /// Of lines that a reservation covers; the same.
    pub reservation: Option<usize>,
    pub fees: FeeColumns,
}

/// Where CUR says how much of the fee of a commitment no line used: what is used is in the effective cost of the lines that it covers.
#[derive(Default)]
pub struct FeeColumns {
    /// What a savings plan is committed to in the time of the fee, and how much of that was used.
    pub committed: Option<usize>,
    pub used: Option<usize>,
    /// What is unused of the fee of a reservation: of the part that was paid up front, and of the part of the month.
    pub unused_upfront: Option<usize>,
    pub unused_recurring: Option<usize>,
    /// Whose fee it is, where it is one of a reservation.
    pub reservation: Option<usize>,
}

/// Where an export says what a line bought, and how much of it.
#[derive(Default)]
pub struct UsageColumns {
    pub category: Option<usize>,
    pub service: Option<usize>,
    pub usage: Option<usize>,
    pub quantity: Option<usize>,
    pub unit: Option<usize>,
}

/// Where an export says what was rented, where, and on what terms.
#[derive(Default)]
pub struct PlaceColumns {
    pub region: Option<usize>,
    /// Of a report that leaves the first one empty.
    pub region_before: Option<usize>,
    pub instance_type: Option<usize>,
    /// JSON that may name the machine.
    pub details: Option<usize>,
    pub terms: Option<usize>,
    /// Number of the invoice.
    pub invoice: Option<usize>,
    /// Tags that are columns of their own, by their names.
    pub own_tags: Vec<(String, usize)>,
}

/// A header and whose it is, while columns are looked for.
struct Search<'a> {
    file: &'a str,
    header: &'a Header,
    /// The currency of amounts was stated beside the export.
    knows_currency: bool,
}

impl Search<'_> {
    fn find(&self, names: &[&str]) -> Option<usize> {
        self.header.find(names)
    }

    fn identity(&self, part: &[&str], more: &[&str]) -> IdentityColumns {
        let more = more.iter().filter_map(|name| self.find(&[name])).collect();
        IdentityColumns { part: self.find(part), more }
    }

    fn currency(&self, names: &[&str]) -> Result<Option<usize>, BillError> {
        let found = self.find(names);
        if found.is_some() || self.knows_currency {
            return Ok(found);
        }
        let (file, column) = (self.file.to_owned(), self.header.as_written(names[0]));
        Err(BillError::MissingCurrency { file, at: self.header.at, column })
    }

    fn need(&self, names: &[&str]) -> Result<usize, BillError> {
        let missing = || BillError::Missing {
            file: self.file.to_owned(),
            at: self.header.at,
            column: self.header.as_written(names[0]),
        };
        self.find(names).ok_or_else(missing)
    }
}

impl Columns {
    /// An export without a column of tags has no line of a run, as one has to which no tag was activated: its lines are of no run.
    /// `knows_currency`: it was stated beside an export that may not name it.
    pub fn new(
        file: &str,
        format: Format,
        header: &Header,
        mark: &RunTag,
        knows_currency: bool,
    ) -> Result<Self, BillError> {
        let search = Search { file, header, knows_currency };
        let mut found = match format {
            Format::Cur => cur(&search),
            Format::Focus => focus(&search),
            Format::Google => google(&search),
            Format::Azure => azure(&search),
        }?;
        found.run.tag = header.names.iter().position(|name| mark.is(name));
        found.place.own_tags = header.tags(mark);
        Ok(found)
    }

    /// All columns that are read.
    pub fn needed(&self) -> BTreeSet<usize> {
        let Self { run, period, start, end, account, cloud, amounts, usage, place, identity: _ } = self;
        let always = [*start, amounts.billed];
        let optional = [
            [run.tag, run.tags, *end, *account, *cloud, amounts.list],
            [amounts.contracted, amounts.credits, usage.category, usage.service, usage.usage, usage.quantity],
        ];
        let EffectiveColumns { every, savings_plan, reservation, fees } = &amounts.effective;
        let more = [amounts.currency, usage.unit, *period, *every, *savings_plan, *reservation];
        let fees = [fees.committed, fees.used, fees.unused_upfront, fees.unused_recurring, fees.reservation];
        let PlaceColumns { region, region_before, instance_type, details, terms, invoice, own_tags } = place;
        let places = [*region, *region_before, *instance_type, *details, *terms, *invoice];
        let optional = optional.into_iter().flatten().chain(more).chain(fees).chain(places).flatten();
        always.into_iter().chain(optional).chain(own_tags.iter().map(|(_, column)| *column)).collect()
    }
}

fn cur(search: &Search) -> Result<Columns, BillError> {
    Ok(Columns {
        run: RunColumns { tag: None, tags: search.find(&["resource_tags"]) },
        period: search.find(&["bill_billing_period_start_date"]),
        start: search.need(&["line_item_usage_start_date"])?,
        end: search.find(&["line_item_usage_end_date"]),
        account: search.find(&["bill_payer_account_id", "line_item_usage_account_id"]),
        cloud: None,
        amounts: AmountColumns {
            currency: search.currency(&["line_item_currency_code"])?,
            billed: search.need(&["line_item_unblended_cost"])?,
            list: search.find(&["pricing_public_on_demand_cost"]),
            effective: EffectiveColumns {
                savings_plan: search.find(&["savings_plan_savings_plan_effective_cost"]),
                reservation: search.find(&["reservation_effective_cost"]),
                every: None,
                fees: FeeColumns {
                    committed: search.find(&["savings_plan_total_commitment_to_date"]),
                    used: search.find(&["savings_plan_used_commitment"]),
                    unused_upfront: search.find(&["reservation_unused_amortized_upfront_fee_for_billing_period"]),
                    unused_recurring: search.find(&["reservation_unused_recurring_fee"]),
                    reservation: search.find(&["reservation_reservation_a_r_n"]),
                },
            },
            ..AmountColumns::default()
        },
        usage: UsageColumns {
            category: Some(search.need(&["line_item_line_item_type"])?),
            usage: Some(search.need(&["line_item_usage_type"])?),
            quantity: search.find(&["line_item_usage_amount"]),
            ..UsageColumns::default()
        },
        place: PlaceColumns {
            region: search.find(&["product_region_code"]),
            region_before: search.find(&["product_region"]),
            instance_type: search.find(&["product_instance_type"]),
            terms: search.find(&["line_item_line_item_type"]),
            invoice: search.find(&["bill_invoice_id"]),
            ..PlaceColumns::default()
        },
        identity: search.identity(&[], &["identity_line_item_id", "identity_time_interval", "line_item_resource_id"]),
    })
}

fn focus(search: &Search) -> Result<Columns, BillError> {
    Ok(Columns {
        run: RunColumns { tag: None, tags: search.find(&["Tags"]) },
        period: search.find(&["BillingPeriodStart"]),
        start: search.need(&["ChargePeriodStart"])?,
        end: search.find(&["ChargePeriodEnd"]),
        account: search.find(&["BillingAccountId"]),
        amounts: AmountColumns {
            currency: search.currency(&["BillingCurrency", "BilledCurrency"])?,
            billed: search.need(&["BilledCost"])?,
            list: search.find(&["ListCost"]),
            contracted: search.find(&["ContractedCost"]),
            effective: EffectiveColumns { every: search.find(&["EffectiveCost"]), ..EffectiveColumns::default() },
            credits: None,
        },
        // The reports of Oracle have the names of the preview: `Provider`, `UsageQuantity`.
        cloud: Some(search.need(&[
            "ServiceProviderName",
            "ProviderName",
            "Provider",
            "InvoiceIssuerName",
            "InvoiceIssuer",
        ])?),
        usage: UsageColumns {
            category: Some(search.need(&["ChargeCategory"])?),
            service: search.find(&["ServiceCategory"]),
            usage: search.find(&["x_UsageType", "SkuMeter", "ServiceName"]),
            quantity: search.find(&["ConsumedQuantity", "UsageQuantity", "PricingQuantity"]),
            unit: search.find(&["ConsumedUnit", "UsageUnit", "PricingUnit"]),
        },
        place: PlaceColumns {
            region: search.find(&["RegionId", "Region"]),
            instance_type: search.find(&["x_InstanceType"]),
            details: search.find(&["SkuPriceDetails", "x_SkuDetails"]),
            terms: search.find(&["PricingCategory"]),
            invoice: search.find(&["InvoiceId"]),
            ..PlaceColumns::default()
        },
        identity: search
            .identity(&["oci_ReferenceNumber", "x_oci_ReferenceNumber", "x_ExportTime"], &["ResourceId", "SkuPriceId"]),
    })
}

fn google(search: &Search) -> Result<Columns, BillError> {
    Ok(Columns {
        run: RunColumns { tag: None, tags: search.find(&["labels"]) },
        period: search.find(&["invoice_month"]),
        start: search.need(&["usage_start_time"])?,
        end: search.find(&["usage_end_time"]),
        account: search.find(&["billing_account_id"]),
        cloud: None,
        amounts: AmountColumns {
            currency: search.currency(&["currency"])?,
            billed: search.need(&["cost"])?,
            list: search.find(&["cost_at_list"]),
            credits: search.find(&["credits_amount", "credits"]),
            ..AmountColumns::default()
        },
        usage: UsageColumns {
            category: search.find(&["cost_type"]),
            service: search.find(&["service_description"]),
            usage: search.find(&["sku_description"]),
            ..UsageColumns::default()
        },
        place: PlaceColumns {
            region: search.find(&["location_region"]),
            details: search.find(&["system_labels"]),
            ..PlaceColumns::default()
        },
        identity: search.identity(&["export_time"], &["sku_id", "project_id", "resource_name", "resource_global_name"]),
    })
}

fn azure(search: &Search) -> Result<Columns, BillError> {
    Ok(Columns {
        run: RunColumns { tag: None, tags: search.find(&["Tags"]) },
        period: search.find(&["BillingPeriodStartDate"]),
        start: search.need(&["Date", "UsageDate", "UsageDateTime"])?,
        end: None,
        account: search.find(&["BillingAccountId", "SubscriptionGuid", "SubscriptionId"]),
        cloud: None,
        amounts: AmountColumns {
            currency: search.currency(&["BillingCurrency", "BillingCurrencyCode", "Currency"])?,
            // Of a Microsoft Customer Agreement, of an Enterprise Agreement, and of pay-as-you-go.
            billed: search.need(&["CostInBillingCurrency", "Cost", "PreTaxCost"])?,
            list: search.find(&["PaygCostInBillingCurrency"]),
            ..AmountColumns::default()
        },
        usage: UsageColumns {
            category: search.find(&["ChargeType"]),
            service: search.find(&["MeterCategory"]),
            usage: search.find(&["MeterName"]),
            quantity: search.find(&["Quantity", "UsageQuantity"]),
            unit: search.find(&["UnitOfMeasure"]),
        },
        place: PlaceColumns {
            region: search.find(&["ResourceLocation"]),
            details: search.find(&["AdditionalInfo"]),
            terms: search.find(&["PricingModel"]),
            invoice: search.find(&["InvoiceId"]),
            ..PlaceColumns::default()
        },
        identity: search.identity(&[], &["ResourceId", "InstanceId", "InstanceName", "MeterId"]),
    })
}
