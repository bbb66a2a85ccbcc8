//! Offers as table, JSON and CSV: one row an offer, in the order given.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::catalog::short_machine_name;
use crate::text::fit::{ALWAYS, FlexibleColumn, WIDE, fit};
use crate::text::format::{age, rate, seen};
use crate::text::json::{VERSION, pretty};
use crate::text::table::{Column, footer, render};
use crate::text::wrap::wrap;
use gpuplan_hardware::{Hardware, InstanceType};
use gpuplan_market::{Offer, Origin, Purchase, Suspicion};
use gpuplan_units::{GpuCount, UsdPerHour};

/// What is said around the rows of a table.
#[derive(Clone, Debug, Default)]
pub struct PriceTable {
    /// Above the table, such as a warning about age.
    pub head: Option<String>,
    /// Offers that match, shown or not.
    pub matching: usize,
    /// Machines that match and have no price.
    pub unpriced: Vec<String>,
}

/// `gpuplan prices -o json`.
#[derive(Serialize, JsonSchema)]
pub struct OfferList<'a> {
    version: u32,
    offers: Vec<OfferLine<'a>>,
}

/// A machine at a price.
#[derive(Serialize, JsonSchema)]
struct OfferLine<'a> {
    cloud: &'a str,
    /// `any` where the price holds in all of them.
    region: &'a str,
    /// `null` where the price holds in the whole region.
    zone_id: Option<&'a str>,
    #[serde(flatten)]
    machine: OfferedMachine<'a>,
    #[serde(flatten)]
    price: OfferPrice<'a>,
    /// How often spot machines of this kind are taken back; `null` where nobody says.
    interruption: Option<InterruptionRate<'a>>,
    /// Why the price may not be what it says, one word a doubt.
    suspect: Vec<&'static str>,
}

/// What is rented.
#[derive(Serialize, JsonSchema)]
struct OfferedMachine<'a> {
    /// What the cloud calls it.
    instance_type: &'a str,
    /// Id of the GPU in the catalog.
    gpu: &'a str,
    /// GPUs of the machine; a fraction where a slice of a card is sold.
    gpu_count: GpuCount,
    /// Memory of each GPU that software sees, GiB.
    gpu_memory_gib_each: f64,
    /// Hardware threads; `null` where the cloud does not say.
    vcpus: Option<u32>,
    /// Main memory, GiB; `null` where the cloud does not say.
    memory_gib: Option<f64>,
}

/// What it costs, and who says so.
#[derive(Serialize, JsonSchema)]
struct OfferPrice<'a> {
    /// Terms of the purchase, such as `on-demand` and `spot`.
    purchase: &'static str,
    /// Dollars an hour for the whole machine.
    rate_usd_per_hour: UsdPerHour,
    /// Dollars an hour for each of its GPUs.
    rate_usd_per_gpu_hour: UsdPerHour,
    origin: Origin,
    /// When the price was seen.
    observed_at: Timestamp,
    /// Id of the source, in `SNAPSHOT.toml` or of a live answer.
    source: &'a str,
}

/// Spot machines that are taken back within a month, percent.
#[derive(Serialize, JsonSchema)]
struct InterruptionRate<'a> {
    monthly_percent_low: u8,
    monthly_percent_high: u8,
    observed_at: Timestamp,
    source: &'a str,
}

/// A row of CSV: what is a list or an object in JSON is one text here.
struct CsvLine<'a>(OfferLine<'a>);

const COLUMNS: [&str; 17] = [
    "cloud",
    "region",
    "zone_id",
    "instance_type",
    "gpu",
    "gpu_count",
    "gpu_memory_gib_each",
    "vcpus",
    "memory_gib",
    "purchase",
    "rate_usd_per_hour",
    "rate_usd_per_gpu_hour",
    "origin",
    "observed_at",
    "source",
    "interruption",
    "suspect",
];

impl Serialize for CsvLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let OfferLine { cloud, region, zone_id, machine, price, interruption, suspect } = &self.0;
        let band =
            interruption.as_ref().map(|risk| format!("{}-{}", risk.monthly_percent_low, risk.monthly_percent_high));
        ((cloud, region, zone_id), machine, price, band, suspect.join(";")).serialize(serializer)
    }
}

fn line<'a>(offer: &'a Offer, hardware: &'a Hardware) -> OfferLine<'a> {
    let instance = hardware.instance(offer.instance);
    let thousandth = |gib: f64| (gib * 1000.0).round() / 1000.0;
    OfferLine {
        cloud: instance.cloud.as_str(),
        region: &offer.place.region,
        zone_id: offer.place.zone_id.as_deref(),
        machine: OfferedMachine {
            instance_type: &instance.name,
            gpu: &hardware.gpu(instance.node.gpu).id,
            gpu_count: instance.node.gpus,
            gpu_memory_gib_each: thousandth(instance.node.gpu_memory.gib()),
            vcpus: Some(instance.vcpus).filter(|vcpus| *vcpus > 0),
            memory_gib: Some(thousandth(instance.memory.gib())).filter(|gib| *gib > 0.0),
        },
        price: OfferPrice {
            purchase: offer.purchase.word(),
            rate_usd_per_hour: offer.quote.rate,
            rate_usd_per_gpu_hour: offer.quote.rate.per_gpu(instance.node.gpus.as_f64()),
            origin: offer.quote.origin,
            observed_at: offer.quote.observed_at,
            source: &offer.source,
        },
        interruption: offer.risk.as_deref().map(|risk| InterruptionRate {
            monthly_percent_low: risk.monthly_percent_low,
            monthly_percent_high: risk.monthly_percent_high,
            observed_at: risk.observed_at,
            source: &risk.source,
        }),
        suspect: offer.suspicions.iter().map(|suspicion| suspicion.word()).collect(),
    }
}

/// The document of `-o json`.
pub fn json(offers: &[&Offer], hardware: &Hardware) -> String {
    pretty(&OfferList { version: VERSION, offers: offers.iter().map(|offer| line(offer, hardware)).collect() })
}

pub fn csv(offers: &[&Offer], hardware: &Hardware) -> Result<String, csv::Error> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for offer in offers {
        writer.serialize(CsvLine(line(offer, hardware)))?;
    }
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// How the title of the column of interruptions begins.
const TAKEN: &str = "taken";

/// Rows, what the marks mean, what is hidden, and what has no price.
pub fn table(offers: &[&Offer], hardware: &Hardware, now: Timestamp, width: u16, around: &PriceTable) -> String {
    let is_wide = width >= WIDE;
    let flexible = [
        FlexibleColumn::elastic(Column::left("GPUs", 0), 8),
        FlexibleColumn::elastic(Column::left("machine", 0), 8),
        FlexibleColumn::elastic(Column::left("place", 0), 8),
        FlexibleColumn::needed(Column::left("terms", 0), ALWAYS),
        FlexibleColumn::needed(Column::right("$/GPU-h", 0), ALWAYS),
        FlexibleColumn::needed(Column::right("$/h", 0), ALWAYS),
        FlexibleColumn::needed(Column::right("seen", 0), 1),
        FlexibleColumn::extra(Column::right(if is_wide { "taken/month" } else { TAKEN }, 0), 2),
        FlexibleColumn::extra(Column::right("GiB/GPU", 0), 1),
        FlexibleColumn::extra(Column::right("vCPU", 0), 0),
        FlexibleColumn::extra(Column::right("RAM GiB", 0), 0),
    ];
    let most_marks = offers.iter().map(|offer| offer.suspicions.len()).max().unwrap_or(0);
    let most_digits =
        offers.iter().map(|offer| hardware.instance(offer.instance).node.gpus.to_string().len()).max().unwrap_or(0);
    let cells = |offer: &&Offer| cells(offer, hardware, now, (is_wide, most_marks, most_digits));
    let mut rows: Vec<Vec<String>> = offers.iter().map(cells).collect();
    let mut text = around.head.as_ref().map_or(String::new(), |head| format!("{head}\n\n"));
    let columns = fit(&flexible, &mut rows, width);
    text.push_str(&render(&columns, rows, width));
    let hint = if most_marks > 0 {
        "`--max-results 0` shows all, `--trusted` leaves out the marked"
    } else {
        "`--max-results 0` shows all"
    };
    let hidden = footer(offers.len(), around.matching, hint);
    let hidden = if hidden.is_empty() { hidden } else { wrap(hidden.trim_end(), width, "") + "\n" };
    let has_bands = columns.iter().any(|column| column.from_width <= width && column.title.starts_with(TAKEN));
    let bands = if has_bands { taken(offers, now, width) } else { String::new() };
    let below = [bands, legend(offers, width), hidden, unpriced(&around.unpriced, width)];
    for part in below.iter().filter(|part| !part.is_empty()) {
        text.push('\n');
        text.push_str(part);
    }
    text
}

fn cells(offer: &Offer, hardware: &Hardware, now: Timestamp, layout: (bool, usize, usize)) -> Vec<String> {
    let (is_wide, most_marks, most_digits) = layout;
    let instance = hardware.instance(offer.instance);
    let known = |number: f64| if number > 0.0 { format!("{number:.0}") } else { "-".to_owned() };
    let per_gpu = offer.quote.rate.per_gpu(instance.node.gpus.as_f64());
    let marks: String = offer.suspicions.iter().map(|suspicion| letter(*suspicion)).collect();
    // Marks stand behind the figure, padded so that the figures stay in line.
    let marks = if most_marks > 0 { format!(" {marks:<most_marks$}") } else { marks };
    vec![
        format!("{:>most_digits$} {}", instance.node.gpus.to_string(), hardware.gpu(instance.node.gpu).id),
        short_machine_name(&instance.name, is_wide).to_owned(),
        place(offer, instance),
        terms(offer.purchase, is_wide),
        format!("{}{marks}", rate(per_gpu).trim_start_matches('$')),
        rate(offer.quote.rate).trim_start_matches('$').to_owned(),
        if is_wide { seen(&offer.quote, now) } else { age(offer.quote.observed_at, now) },
        offer.risk.as_deref().map_or(String::new(), |risk| {
            match (risk.monthly_percent_low, risk.monthly_percent_high) {
                (0, high) => format!("<{high} %"),
                (low, 100) => format!(">{low} %"),
                (low, high) => format!("{low}-{high} %"),
            }
        }),
        format!("{:.0}", instance.node.gpu_memory.gib()),
        known(f64::from(instance.vcpus)),
        known(instance.memory.gib()),
    ]
}

fn terms(purchase: Purchase, is_wide: bool) -> String {
    match purchase {
        Purchase::Commitment { years: 1 } => "1 year".to_owned(),
        Purchase::Commitment { years } => format!("{years} years"),
        Purchase::OnDemand if !is_wide => "demand".to_owned(),
        other => other.word().to_owned(),
    }
}

/// Cloud and the narrowest place that the price holds for; a zone id names its region.
fn place(offer: &Offer, instance: &InstanceType) -> String {
    match offer.place.zone_id.as_deref().unwrap_or(&offer.place.region) {
        "any" => instance.cloud.to_string(),
        place => format!("{} {place}", instance.cloud),
    }
}

/// One letter a suspicion, so that marks stay narrow.
fn letter(suspicion: Suspicion) -> char {
    match suspicion {
        Suspicion::SpotAboveOnDemand => 's',
        Suspicion::FarFromMedian => 'm',
        Suspicion::SourcesDisagree => 'd',
        Suspicion::ZoneUnverified => 'z',
        Suspicion::PlaceUnknown => 'p',
        Suspicion::ZoneOutlier => 'o',
        Suspicion::LocalZone => 'l',
        Suspicion::BidFloor => 'b',
        Suspicion::Estimated => 'e',
        Suspicion::NotRepeated => 'n',
    }
}

/// What the column of interruptions counts, and how old that is.
fn taken(offers: &[&Offer], now: Timestamp, width: u16) -> String {
    let oldest = offers.iter().filter_map(|offer| offer.risk.as_deref()).map(|risk| risk.observed_at).min();
    oldest.map_or(String::new(), |seen| {
        let text = format!("{TAKEN}: spot machines that are interrupted within a month, as of {} ago", age(seen, now));
        wrap(&text, width, "  ") + "\n"
    })
}

/// What every mark in these rows means.
fn legend(offers: &[&Offer], width: u16) -> String {
    let is_used = |suspicion: &Suspicion| offers.iter().any(|offer| offer.suspicions.contains(suspicion));
    let line = |suspicion: Suspicion| {
        wrap(&format!("{} {}: {}", letter(suspicion), suspicion.word(), suspicion.explanation()), width, "  ") + "\n"
    };
    Suspicion::ALL.into_iter().filter(is_used).map(line).collect()
}

fn unpriced(names: &[String], width: u16) -> String {
    if names.is_empty() {
        return String::new();
    }
    wrap(&format!("no embedded price: {} (a live source will price them)", names.join(", ")), width, "  ") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_and_json_have_the_same_columns() {
        let hardware = Hardware::embedded().unwrap();
        let market = gpuplan_market::Market::embedded(&hardware).unwrap();
        let offers: Vec<&Offer> =
            market.offers().iter().filter(|offer| offer.risk.is_some() && offer.is_suspect()).take(1).collect();
        let json: serde_json::Value = serde_json::from_str(&json(&offers, &hardware)).unwrap();
        let keys: Vec<&str> = json["offers"][0].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, COLUMNS);
        let text = csv(&offers, &hardware).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next().unwrap(), COLUMNS.join(","));
        assert_eq!(lines.next().unwrap().split(',').count(), COLUMNS.len());
        assert_eq!(csv(&[], &hardware).unwrap().lines().count(), 1);
    }

    #[test]
    fn bands_of_interruptions_say_how_old_they_are_where_they_are_shown() {
        let hardware = Hardware::embedded().unwrap();
        let market = gpuplan_market::Market::embedded(&hardware).unwrap();
        let of = |has_band: bool| -> Vec<&Offer> {
            market.offers().iter().filter(|offer| offer.risk.is_some() == has_band).take(2).collect()
        };
        let now = "2026-11-27T00:00:00Z".parse().unwrap();
        let shown = |has_band, width| table(&of(has_band), &hardware, now, width, &PriceTable::default());
        assert!(shown(true, 200).contains("interrupted within a month, as of 517 d ago"), "{}", shown(true, 200));
        assert!(!shown(false, 200).contains("interrupted") && !shown(true, 40).contains("interrupted"));
    }

    /// What a machine costs an hour is what the table is for: names give way, and so do columns that say less.
    #[test]
    fn no_price_is_dropped_or_cut_on_a_narrow_terminal() {
        let hardware = Hardware::embedded().unwrap();
        let market = gpuplan_market::Market::embedded(&hardware).unwrap();
        let now = "2026-11-27T00:00:00Z".parse().unwrap();
        let all: Vec<&Offer> = market.offers().iter().collect();
        for offers in all.chunks(30).step_by(40) {
            for width in [60, 80, 100, 160] {
                let text = table(offers, &hardware, now, width, &PriceTable::default());
                let rows: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
                let is_whole = |row: &&str| row.chars().count() <= usize::from(width);
                assert!(rows.iter().all(is_whole) && rows.len() == offers.len() + 2, "{width}\n{text}");
                assert!(rows[0].contains("$/GPU-h") && rows[0].contains("$/h"), "{width}\n{text}");
                for (offer, row) in offers.iter().zip(&rows[2..]) {
                    let hourly = rate(offer.quote.rate).trim_start_matches('$').to_owned();
                    assert!(row.split(' ').any(|word| word == hourly), "{width}: {hourly}\n{row}");
                }
                let has_age = rows[0].contains("seen");
                assert!(has_age || width < 80, "{width}\n{text}");
            }
        }
    }
}
