//! Targets for whatever has a price: amounts, catalogs, answers of clouds, bills, policies, capacity and portfolios.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use std::sync::LazyLock;

use gpuplan::budget::bill::sums::{Known, Sums};
use gpuplan::budget::bill::{self as bills, Format, ImportedBill};
use gpuplan::budget::guardrail::Guardrail;
use gpuplan::budget::portfolio::calendar::Month;
use gpuplan::budget::portfolio::{CostSource, Portfolio, PortfolioError};
use gpuplan::clouds::euro::EuroRate;
use gpuplan::clouds::listing::Listing;
use gpuplan::clouds::runpod::stock::{GpuTypes, Reply};
use gpuplan::clouds::{
    akamai, aws, azure, digitalocean, gcp, jarvis_labs, lambda, oci, runpod, scaleway, vast, verda, vultr,
};
use gpuplan::embedded::Table;
use gpuplan::hardware::{CloudId, InstanceId};
use gpuplan::market::import::{self, CatalogFile};
use gpuplan::market::snapshot::read_prices;
use gpuplan::market::{Capacity, Market, Offer, Origin, PriceAnswer, Purchase, RiskAnswer, Signal};
use gpuplan::plan::Policy;
use gpuplan::units::quantity::parse_count;
use gpuplan::units::{Bytes, FineUsd, GpuCount, Hours, Usd, UsdPerHour};
use serde_json::{Value, from_value};

use super::{HARDWARE, assert_line, assert_same, now, text};

/// Few offers, so that a run of the fuzzer costs little.
static MARKET: LazyLock<Market> = LazyLock::new(|| {
    let market = Market::embedded(&HARDWARE).expect("tests/catalogs.rs reads the embedded catalog");
    market
        .only(|offer| HARDWARE.instance(offer.instance).name.starts_with("p5.") && &*offer.place.region == "us-east-1")
});

/// Machine types of AWS by name, as its readers take them.
static OF_AWS: LazyLock<BTreeMap<&'static str, InstanceId>> = LazyLock::new(|| {
    let all = HARDWARE.instance_ids().map(|id| (HARDWARE.instance(id), id));
    all.filter(|(instance, _)| instance.cloud.as_str() == "aws")
        .map(|(instance, id)| (instance.name.as_str(), id))
        .collect()
});

/// Amounts of money, time, data and cards: finite, not negative, and the same when read from what they print.
pub fn quantities(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let reread = |amount: Usd| assert_eq!(Usd::parse(&amount.to_string()), Ok(amount), "{text:?}");
    if let Ok(amount) = Usd::parse(text) {
        reread(amount);
        assert_eq!(Usd::parse_up(text), Ok(amount), "{text:?} needs no rounding");
        assert!(amount >= Usd::ZERO && amount + amount >= amount, "{text:?}");
    }
    if let Ok(amount) = Usd::parse_up(text) {
        reread(amount);
    }
    if let Ok(amount) = Usd::parse_signed(text) {
        assert_eq!(Usd::parse_signed(&amount.to_string()), Ok(amount), "{text:?}");
    }
    if let Ok(rate) = UsdPerHour::parse(text) {
        assert_eq!(UsdPerHour::parse(&rate.to_string()), Ok(rate), "{text:?}");
    }
    if let Ok(fine) = FineUsd::parse(text) {
        let (rounded, exact) = (fine.rounded(), Usd::parse_signed(text));
        assert!(exact.is_err() || exact == Ok(rounded), "{text:?}: {rounded}");
    }
    if let Ok(hours) = Hours::parse(text) {
        assert!(hours.0.is_finite() && hours.0 >= 0.0, "{text:?}: {hours:?}");
    }
    if let Ok(bytes) = Bytes::parse(text) {
        assert!(bytes.0.is_finite() && bytes.0 >= 0.0, "{text:?}: {bytes:?}");
    }
    if let Ok(count) = GpuCount::parse(text) {
        assert_eq!(GpuCount::parse(&count.to_string()), Ok(count), "{text:?}");
        assert!(count.devices() >= 1 && count.as_f64() > 0.0, "{text:?}");
    }
    if let Ok(count) = parse_count(text) {
        assert!(count.is_finite() && count > 0.0, "{text:?}: {count}");
    }
    if let Some(month) = Month::parse(text) {
        assert_eq!(Month::parse(&month.to_string()), Some(month), "{text:?}");
    }
}

/// CSV of the catalog: every row has every cell, and no row is without a price.
pub fn catalog_table(data: &[u8]) {
    let Some(table) = text(data).and_then(|text| Table::from_csv(text).ok()) else { return };
    for name in table.names() {
        assert_eq!(table.column(name).map(Iterator::count).ok(), Some(table.rows()), "{name}");
    }
    for cloud in ["aws", "gcp"] {
        let mut offers = Vec::new();
        if read_prices(&CloudId::new(cloud), "prices/fuzz", &table, &HARDWARE, &HashMap::default(), &mut offers).is_ok()
        {
            assert_eq!(offers.len(), table.rows(), "a row is an offer");
            assert_offers(&offers, cloud);
        }
    }
}

/// Price catalogs of SkyPilot and gpuhunt: one price above zero for each machine, place and terms, the user's own.
pub fn prices(data: &[u8]) {
    let Some(text) = text(data) else { return };
    for cloud in ["aws", "azure", "gcp", "lambda"] {
        let id = CloudId::new(cloud);
        let file = CatalogFile { cloud: &id, text, as_of: now(), source: "mine.csv" };
        let Ok(read) = import::read(file, &HARDWARE) else { continue };
        assert_offers(&read.offers, cloud);
        assert_one_each(&read.offers);
        assert!(read.offers.iter().all(|offer| offer.quote.origin == Origin::User && offer.quote.observed_at == now()));
        assert!(read.notes.iter().all(|note| !note.detail.is_empty()));
    }
}

/// Answers of the clouds, each read by every reader: offers have a price, risks are shares.
pub fn cloud_answer(data: &[u8]) {
    let Some(text) = text(data) else { return };
    // The price list of AWS comes as a text.
    if let Ok(Some(price)) = aws::prices::price_list::read(text) {
        assert!(price.rate > UsdPerHour::default(), "{price:?}");
    }
    if let Ok(json) = serde_json::from_str(text) {
        answers_of_large_clouds(&json);
        answers_of_other_clouds(&json);
    }
}

fn answers_of_large_clouds(json: &Value) {
    if let Ok(map) = from_value::<aws::feeds::price_map::PriceMap>(json.clone()) {
        let rows = map.prices("us-east-1", "US East (N. Virginia)", |_| true).into_iter().flatten();
        assert!(rows.flatten().all(|price| price.rate > UsdPerHour::default()));
    }
    if let Ok(feed) = from_value::<aws::feeds::spot_feed::SpotFeedDocument>(json.clone()) {
        assert_offers(&feed.answer(&OF_AWS, now()).offers, "aws");
    }
    if let Ok(advisor) = from_value::<aws::feeds::advisor::AdvisorDocument>(json.clone()) {
        assert_risks(&advisor.risks(&OF_AWS, now()));
    }
    if let Ok(page) = from_value::<gcp::prices::skus::Page>(json.clone()) {
        for priced in page.skus.iter().filter_map(|row| gcp::prices::skus::read(row, now())?.ok()) {
            assert!(priced.rate.nanos > 0 && !priced.regions.is_empty(), "{priced:?}");
        }
    }
    if let Ok(page) = from_value::<azure::retail::Page>(json.clone()) {
        listed("azure", azure::retail::SOURCE, |listing| azure::retail::list(&page.items, "eastus", listing));
    }
    if let Ok(page) = from_value::<azure::eviction::Page>(json.clone()) {
        let mut risks = RiskAnswer::default();
        azure::eviction::list(&page.data, &HARDWARE, &CloudId::new("azure"), &mut risks);
        assert_risks(&risks);
    }
}

fn answers_of_other_clouds(json: &Value) {
    // Two answers that belong together stand in one seed.
    let part = |name: &str| json.get(name).cloned().unwrap_or_default();
    if let Ok(types) = from_value(json.clone()) {
        listed("lambda", lambda::types::SOURCE, |listing| lambda::types::list(&types, listing));
    }
    if let (Ok(shapes), Ok(products)) = (from_value(part("shapes")), from_value(part("products"))) {
        listed("oci", oci::shapes::SOURCE, |listing| oci::shapes::list(&shapes, &products, listing));
    }
    if let Some(types) = from_value::<Reply<GpuTypes>>(json.clone()).ok().and_then(|reply| reply.data) {
        listed("runpod", runpod::stock::SOURCE, |listing| {
            runpod::stock::list(&types.gpu_types, "EU-RO-1", listing);
            runpod::stock::list_sold_out(&types.gpu_types, listing);
        });
    }
    if let Ok(bundles) = from_value::<vast::bundles::Bundles>(json.clone()) {
        listed("vast", vast::bundles::SOURCE, |listing| vast::bundles::list(&bundles.offers, listing));
    }
    if let Ok(answer) = from_value::<vultr::plans::Answer>(json.clone()) {
        listed("vultr", vultr::plans::SOURCE, |listing| vultr::plans::list(&answer.plans.read, listing));
    }
    if let Ok(plans) = from_value::<akamai::types::Answer<akamai::types::Plan>>(part("types")) {
        let room = from_value::<akamai::types::Answer<akamai::types::Room>>(part("availability")).ok();
        let room = room.map(|room| room.data.read);
        listed("akamai", akamai::types::SOURCE, |listing| {
            akamai::types::list(&plans.data.read, room.as_deref(), listing);
        });
    }
    if let Ok(servers) = from_value::<scaleway::servers::Answer<scaleway::servers::Server>>(part("servers")) {
        let room = from_value::<scaleway::servers::Answer<scaleway::servers::Room>>(part("availability")).ok();
        let (room, euro) =
            (room.map(|room| room.servers), EuroRate::read("<C time='d'><C currency='USD' rate='1.1'/>"));
        listed("scaleway", scaleway::servers::SOURCE, |listing| {
            let euro = euro.expect("the document names a day and a dollar");
            scaleway::servers::list("fr-par-2", &servers.servers, room.as_ref(), &euro, listing);
        });
    }
    if let Ok(answer) = from_value::<digitalocean::sizes::Answer>(json.clone()) {
        listed("digitalocean", digitalocean::sizes::SOURCE, |listing| {
            digitalocean::sizes::list(&answer.sizes, listing);
        });
    }
    if let Ok(answer) = from_value::<jarvis_labs::Answer>(json.clone()) {
        listed("jarvis-labs", jarvis_labs::SOURCE, |listing| jarvis_labs::list(&answer, listing));
    }
    if let Ok(types) = from_value(part("types")) {
        let locations = from_value(part("locations")).ok();
        for purchase in [Purchase::OnDemand, Purchase::Spot] {
            listed("verda", verda::types::SOURCE, |listing| {
                verda::types::list(&types, purchase, locations.as_ref(), listing);
            });
        }
    }
}

fn listed(cloud: &str, source: &'static str, list: impl FnOnce(&mut Listing)) {
    let mut listing = Listing::new(&HARDWARE, cloud, source, now());
    list(&mut listing);
    let PriceAnswer { offers, notes, .. } = listing.answer();
    assert_offers(&offers, cloud);
    assert_one_each(&offers);
    assert!(notes.iter().all(|note| !note.detail.is_empty()));
}

fn assert_offers(offers: &[Offer], cloud: &str) {
    for offer in offers {
        assert!(offer.quote.rate > UsdPerHour::default(), "a price of zero is no price: {offer:?}");
        assert_eq!(HARDWARE.instance(offer.instance).cloud.as_str(), cloud);
    }
}

fn assert_one_each(offers: &[Offer]) {
    let keys: BTreeSet<_> = offers.iter().map(|offer| (offer.instance, &offer.place, offer.purchase)).collect();
    assert_eq!(keys.len(), offers.len(), "two prices for one machine, place and terms");
}

fn assert_risks(risks: &RiskAnswer) {
    for (_, _, risk) in &risks.risks {
        assert!(risk.monthly_percent_low < risk.monthly_percent_high && risk.monthly_percent_high <= 100, "{risk:?}");
    }
    for (_, _, signal) in &risks.signals {
        assert!(
            matches!(signal, Signal::HourlyEvictionPercent { low, high } if low < high && *high <= 100),
            "{signal:?}"
        );
    }
}

/// `capacity.toml` laid over a market: no offer is lost, a discount is no surcharge, and what is owned can be used.
pub fn capacity(data: &[u8]) {
    let Some(read) = text(data).and_then(|text| Capacity::read(text).ok()) else { return };
    let mut hardware = HARDWARE.clone();
    let Ok(market) = read.apply(MARKET.clone(), &mut hardware, now()) else { return };
    let places = |market: &Market| -> BTreeSet<_> {
        market
            .offers()
            .iter()
            .filter(|offer| offer.owned.is_none())
            .map(|offer| (offer.instance, offer.place.clone(), offer.purchase))
            .collect()
    };
    assert!(places(&MARKET).is_subset(&places(&market)), "an offer is lost");
    for offer in market.offers() {
        let node = &hardware.instance(offer.instance).node;
        assert!(
            node.devices() > 0
                && node.fabric.is_none_or(|fabric| fabric.bandwidth.0.is_finite() && fabric.bandwidth.0 > 0.0),
            "{node:?}"
        );
        let memory = hardware.instance(offer.instance).memory;
        assert!(memory.0.is_finite() && memory.0 >= 0.0, "{memory:?}");
        match &offer.owned {
            Some(owned) => assert!(owned.nodes > 0 && owned.until.is_none_or(|until| until > now()), "{owned:?}"),
            None => assert!(offer.quote.rate > UsdPerHour::default(), "a price of zero is no price: {offer:?}"),
        }
    }
}

/// `policy.toml`, its guardrails included: a rule knows its line, and comments change none.
pub fn policy(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let commented = format!("{text}\n# of the house\n");
    if let Ok(policy) = Policy::read(text, &HARDWARE) {
        for rule in [&policy.max_usd_per_hour, &policy.max_p90_usd].into_iter().flatten() {
            assert_line(rule.line, text);
            assert!(rule.value >= Usd::ZERO);
        }
        assert_eq!(policy, Policy::read(&commented, &HARDWARE).expect("a comment is no rule"));
    }
    if let Ok(guardrail) = Guardrail::read(text) {
        assert!(guardrail.max_increase_percent.as_ref().is_none_or(|rule| rule.value.is_finite() && rule.value >= 0.0));
        assert_eq!(guardrail, Guardrail::read(&commented).expect("a comment is no rule"));
    }
}

/// Bills as CSV or JSON lines, as what they say they are and as every format: the ledger can keep what they add up to.
pub fn bill(data: &[u8]) {
    for format in [None].into_iter().chain(Format::ALL.map(Some)) {
        let mut sums = Sums::default();
        if let Ok(found) = bills::read("bill", format, data, &mut sums) {
            assert!(format.is_none_or(|format| format == found));
            assert_bills(&mut sums);
            let mut twice = Sums::default();
            let mut again = || bills::read("bill", format, data, &mut twice).is_ok();
            if again() && again() {
                assert_eq!((twice.lines, twice.ours), (2 * sums.lines, 2 * sums.ours));
            }
        }
    }
}

/// The same as Parquet.
pub fn bill_parquet(data: &[u8]) {
    let (mut file, mut sums) = (tempfile::tempfile().expect("a temporary file"), Sums::default());
    file.write_all(data).expect("a temporary file");
    if bills::columnar::read("bill", None, file, &mut sums).is_ok() {
        assert!(bills::is_columnar(data));
        assert_bills(&mut sums);
    }
}

fn assert_bills(sums: &mut Sums) {
    assert!(sums.ours <= sums.lines, "{} of {} lines", sums.ours, sums.lines);
    let known = Known { runs: &BTreeSet::new(), hardware: &HARDWARE };
    let bills = sums.take_bills("hash", "a bill", &known);
    let charges: Vec<_> = bills.iter().flat_map(|bill| &bill.charges).collect();
    assert_eq!(charges.is_empty(), sums.ours == 0);
    assert_eq!(
        charges.iter().map(|charge| &charge.id).collect::<BTreeSet<_>>().len(),
        charges.len(),
        "an id is of one charge"
    );
    for bill in &bills {
        assert!(bill.charges.iter().all(|charge| charge.resource.cloud == bill.cloud
            && charge.quantity.is_finite()
            && charge.costs.billed.is_some()));
        let json = serde_json::to_string(bill).expect("a bill is plain data");
        let again: ImportedBill = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}\n{json}"));
        assert_same(&again, bill, &json);
    }
}

/// A portfolio: phases that lie within its months, each with something to do and a name of its own.
pub fn portfolio(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let portfolio = match Portfolio::read(text) {
        Ok(portfolio) => portfolio,
        Err(PortfolioError::Invalid { line, detail, hint }) => {
            assert!(!detail.is_empty() && !hint.is_empty(), "an error says what to type instead");
            return assert_line(line, text);
        }
        Err(PortfolioError::Syntax(why)) => return assert!(!why.is_empty()),
    };
    assert!((1..=120).contains(&portfolio.months) && !portfolio.phases.is_empty());
    assert!((0.0..=1.0).contains(&portfolio.data_spread.share) && portfolio.tax.millionths >= 0, "{:?}", portfolio.tax);
    let paths: BTreeSet<_> = portfolio.phases.iter().map(|phase| (&phase.run, &phase.name)).collect();
    assert_eq!(paths.len(), portfolio.phases.len(), "a phase has a name of its own");
    for phase in &portfolio.phases {
        let (end, last) = (phase.start.ahead(phase.months), portfolio.start.ahead(portfolio.months));
        assert!(phase.months > 0 && phase.repeats > 0 && portfolio.start <= phase.start && end <= last, "{phase:?}");
        assert!(portfolio.teams.iter().any(|team| team.name == phase.team), "{phase:?}");
        if let CostSource::Rate(rate) = &phase.what {
            assert!(
                0.0 < rate.hours.0 && rate.hours <= rate.hours_p90 && rate.hours_p90.0.is_finite() && rate.nodes > 0,
                "{rate:?}"
            );
        }
    }
}
