//! `prices`: selects the offers to list, and explains which filter removed the last one.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use clap::Args;
use jiff::{SignedDuration, Timestamp};

use crate::arguments::global::OutputFormat;
use crate::question::live;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::printer::Printer;
use crate::session::{Catalogs, Session};
use gpuplan_hardware::selector::SelectorError;
use gpuplan_hardware::{CloudId, GpuSelector, Hardware, InstanceId, InstanceType};
use gpuplan_market::trend::{self, Trend};
use gpuplan_market::{Cache, HostOffer, Offer, PricePoint, Purchase, changes, names_region};
use gpuplan_plan::limits;
use gpuplan_report::catalog;
use gpuplan_report::catalog::changes as report;
use gpuplan_report::catalog::history::{self, PoolTrend};
use gpuplan_report::catalog::hosts::{self, HostPrice};
use gpuplan_report::catalog::prices::{self, PriceTable};
use gpuplan_units::Hours;
use gpuplan_units::names::did_you_mean;

#[derive(Debug, Args)]
pub struct PricesArguments {
    /// List only offers with these GPUs, such as H100:8, or of this machine, such as p5.48xlarge [default: every GPU]
    pub gpus: Option<String>,
    /// List only this cloud (repeat for several)
    #[arg(long = "cloud", value_name = "CLOUD", value_delimiter = ',')]
    pub clouds: Vec<String>,
    /// List only this region, zone id or prefix of one, or `europe`
    #[arg(long = "region", value_name = "REGION")]
    pub regions: Vec<String>,
    /// List only spot offers
    #[arg(long, visible_alias = "use-spot", conflicts_with = "on_demand")]
    pub spot: bool,
    /// List only on-demand offers
    #[arg(long)]
    pub on_demand: bool,
    /// Also list one- and three-year commitments
    #[arg(long)]
    pub commitments: bool,
    /// List only offers without a suspicion
    #[arg(long)]
    pub trusted: bool,
    /// Fetch current prices from the clouds; a cloud that does not answer keeps its last known price
    #[arg(long)]
    pub live: bool,
    /// With --live, skip sources that answered less than this ago: 10m, 6h
    #[arg(long, value_name = "TIME", requires = "live")]
    pub max_age: Option<String>,
    /// Show how spot prices moved in the last 90 days, as far as they are cached; the pools that are cheapest now come first
    #[arg(long, conflicts_with_all = ["on_demand", "commitments"])]
    pub history: bool,
    /// Show what moved, is new or is gone since then, as far as earlier answers and the snapshot know it: 24h, 7d, 2026-11-01
    #[arg(long, value_name = "TIME", conflicts_with_all = ["history", "hosts"])]
    pub since: Option<String>,
    /// List machines without GPUs instead
    #[arg(long, conflicts_with_all = ["gpus", "commitments", "live", "history"])]
    pub hosts: bool,
    /// Show at most this many rows (0: all) [default: 30 in a table, all as JSON or CSV]
    #[arg(long, value_name = "N")]
    pub max_results: Option<usize>,
}

/// Rows of a table where nobody says how many.
const ROWS: usize = 30;

impl PricesArguments {
    /// The first of these, as many as are asked for.
    fn shorten<T>(&self, rows: &mut Vec<T>, output: OutputFormat) {
        let usual = if output == OutputFormat::Table { ROWS } else { 0 };
        let most = self.max_results.unwrap_or(usual);
        if most > 0 {
            rows.truncate(most);
        }
    }
}

/// Alternatives named where a filter leaves nothing.
const MOST_ALTERNATIVES: usize = 8;

/// The arguments, read.
struct Query {
    gpus: Option<GpuSelector>,
    /// The machine that was named instead, in its own spelling.
    machine: Option<String>,
    clouds: Vec<CloudId>,
    regions: Vec<String>,
}

/// One filter: its words on the command line, what it keeps, and what to ask for instead.
struct Filter<'a> {
    words: String,
    keeps: Box<dyn Fn(&Offer) -> bool + 'a>,
    alternative: Box<dyn Fn(&Offer) -> String + 'a>,
}

pub fn run(arguments: &PricesArguments, session: &Session) -> Result<Exit, Diagnostic> {
    if arguments.hosts {
        return host_prices(arguments, session);
    }
    let mut catalogs = session.catalogs()?;
    let (gpus, machine) = wanted(arguments.gpus.as_deref(), &catalogs.hardware)?;
    let query = Query {
        gpus,
        machine,
        clouds: arguments
            .clouds
            .iter()
            .map(|name| limits::cloud(name, &catalogs.hardware))
            .collect::<Result<_, _>>()?,
        regions: arguments.regions.iter().map(|region| region.to_ascii_lowercase()).collect(),
    };
    if arguments.live {
        let wanted = live::Request {
            clouds: query.clouds.clone(),
            gpus: query.gpus.clone().into_iter().collect(),
            max_age: live::parse_max_age(arguments.max_age.as_deref())?,
            ..live::Request::default()
        };
        let answers = live::ask_clouds(&mut catalogs, session, &wanted)?;
        answers.warn(&session.printer);
        catalogs.market = answers.merge_into(catalogs.market, &catalogs.hardware);
    }
    let filters = filters(arguments, &query, &catalogs);
    if let Some(text) = &arguments.since {
        return changes(text, &filters, arguments, &catalogs, session);
    }
    let mut offers: Vec<&Offer> =
        catalogs.market.offers().iter().filter(|offer| filters.iter().all(|filter| (filter.keeps)(offer))).collect();
    sort(&mut offers, &catalogs);
    if arguments.history {
        return history(&offers, arguments, &catalogs, session);
    }
    let head = session.warn_about_age(&catalogs.market);
    if let (Some(line), true) = (&head, session.output != OutputFormat::Table || offers.is_empty()) {
        session.printer.warning(line);
    }
    let matching = offers.len();
    arguments.shorten(&mut offers, session.output);
    match session.output {
        OutputFormat::Json => session.printer.data(&prices::json(&offers, &catalogs.hardware)),
        OutputFormat::Csv => {
            session.printer.data(&prices::csv(&offers, &catalogs.hardware).map_err(Diagnostic::unexpected)?)
        }
        OutputFormat::Table => {
            let unpriced = unpriced(&query, &catalogs);
            if offers.is_empty() {
                explain_nothing(&filters, &catalogs, &unpriced, &session.printer);
                return Ok(Exit::Done);
            }
            let around = PriceTable { head, matching, unpriced };
            let is_commitment = |offer: &&Offer| matches!(offer.purchase, Purchase::Commitment { .. });
            if arguments.commitments && !offers.iter().any(is_commitment) {
                session.printer.note("of none of these a price for one or three years is known; one that you are offered goes into capacity.toml");
            }
            session.printer.data(&prices::table(&offers, &catalogs.hardware, session.now, session.width, &around))
        }
    }
}

/// Machines without GPU, cheapest vCPU first.
fn host_prices(arguments: &PricesArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let Catalogs { hardware, market } = session.catalogs()?;
    let clouds: Vec<CloudId> =
        arguments.clouds.iter().map(|name| limits::cloud(name, &hardware)).collect::<Result<_, _>>()?;
    let regions: Vec<String> = arguments.regions.iter().map(|region| region.to_ascii_lowercase()).collect();
    let is_asked = |offer: &&HostOffer| {
        let begins = |name: &str| regions.iter().any(|region| names_region(region, name));
        (clouds.is_empty() || clouds.contains(&hardware.host(offer.host).cloud))
            && (regions.is_empty() || begins(&offer.place.region) || offer.place.zone_id.as_deref().is_some_and(begins))
            && (!arguments.spot || offer.purchase == Purchase::Spot)
            && (!arguments.on_demand || offer.purchase == Purchase::OnDemand)
            && (!arguments.trusted || offer.suspicions.is_empty())
    };
    let mut offers: Vec<&HostOffer> = market.host_offers().iter().filter(is_asked).collect();
    offers.sort_by_cached_key(|offer| {
        let vcpus = f64::from(hardware.host(offer.host).vcpus);
        (offer.quote.rate.per_gpu(vcpus), offer.quote.rate, offer.host, offer.place.clone(), offer.purchase)
    });
    let mut lines: Vec<HostPrice> = offers.into_iter().map(|offer| HostPrice::new(offer, &hardware)).collect();
    if session.output != OutputFormat::Table {
        arguments.shorten(&mut lines, session.output);
    }
    match session.output {
        OutputFormat::Json => session.printer.data(&catalog::json(&lines)),
        OutputFormat::Csv => {
            session.printer.data(&catalog::csv(&lines, &hosts::PRICE_COLUMNS).map_err(Diagnostic::unexpected)?)
        }
        OutputFormat::Table if lines.is_empty() => {
            session
                .printer
                .note("no offer of a machine without GPU matches; `gpuplan catalog hosts` lists the machines");
            Ok(Exit::Done)
        }
        OutputFormat::Table => session.printer.data(&hosts::prices(
            &lines,
            session.now,
            session.width,
            arguments.max_results.unwrap_or(ROWS),
        )),
    }
}

/// The course of every pool that the cache knows more than one price of.
fn history(
    offers: &[&Offer],
    arguments: &PricesArguments,
    catalogs: &Catalogs,
    session: &Session,
) -> Result<Exit, Diagnostic> {
    let nothing = || {
        Diagnostic::usage("the cache knows no history of these pools")
            .hint("`gpuplan refresh --history` fetches the history that clouds publish; every refresh adds to it")
    };
    let cache = session.home.price_cache().map(|path| Cache::open_existing(&path)).transpose();
    let cache =
        cache.map_err(|error| Diagnostic::unexpected(error).hint("gpuplan refresh"))?.flatten().ok_or_else(nothing)?;
    let from = session.now - trend::WINDOW;
    let mut points: HashMap<InstanceId, Vec<PricePoint>> = HashMap::new();
    let mut pools = Vec::new();
    for offer in offers.iter().filter(|offer| offer.purchase == Purchase::Spot) {
        let known = match points.entry(offer.instance) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => {
                let read = cache.history(offer.instance, &catalogs.hardware, from).map_err(Diagnostic::unexpected)?;
                free.insert(read)
            }
        };
        let pool: Vec<PricePoint> = known.iter().filter(|point| point.place == offer.place).cloned().collect();
        if let Some(trend) = Trend::from_points(&pool, session.now).filter(|_| pool.len() > 1) {
            pools.push(PoolTrend { instance: offer.instance, place: offer.place.clone(), trend });
        }
    }
    if pools.is_empty() {
        return Err(nothing());
    }
    arguments.shorten(&mut pools, session.output);
    match session.output {
        OutputFormat::Json => session.printer.data(&history::json(&pools, &catalogs.hardware)),
        OutputFormat::Csv => Err(Diagnostic::usage("a price history cannot be printed as CSV")
            .hint("gpuplan prices --history --output json")),
        OutputFormat::Table => session.printer.data(&history::table(&pools, &catalogs.hardware, session.width)),
    }
}

/// What moved of the offers that are asked for.
fn changes(
    text: &str,
    filters: &[Filter],
    arguments: &PricesArguments,
    catalogs: &Catalogs,
    session: &Session,
) -> Result<Exit, Diagnostic> {
    let moment = moment(text, session.now)?;
    let keeps = |offer: &Offer| filters.iter().all(|filter| (filter.keeps)(offer));
    let (before, now) = (session.snapshot()?.market.only(keeps), catalogs.market.only(keeps));
    let cache = session.home.price_cache().map(|path| Cache::open_existing(&path)).transpose();
    let cache = cache.map_err(|error| Diagnostic::unexpected(error).hint("gpuplan refresh"))?.flatten();
    let mut points = Vec::new();
    if let Some(cache) = &cache {
        let seen: BTreeSet<InstanceId> = now.offers().iter().map(|offer| offer.instance).collect();
        for instance in seen {
            let known = cache.history(instance, &catalogs.hardware, moment - trend::WINDOW);
            points.extend(known.map_err(Diagnostic::unexpected)?);
        }
    }
    let mut found = changes::since(&before, &now, &points, moment);
    if found.is_empty() {
        session.printer.note("nothing moved since then, as far as is known here; `gpuplan refresh` asks the clouds");
    }
    arguments.shorten(&mut found, session.output);
    match session.output {
        OutputFormat::Json => session.printer.data(&report::json(&found, moment, &catalogs.hardware)),
        OutputFormat::Csv => Err(Diagnostic::usage("changes of prices cannot be printed as CSV")
            .hint("gpuplan prices --since 7d --output json")),
        OutputFormat::Table if found.is_empty() => Ok(Exit::Done),
        OutputFormat::Table => session.printer.data(&report::table(&found, &catalogs.hardware, session.width)),
    }
}

/// A day, a time, or how long ago.
fn moment(text: &str, now: Timestamp) -> Result<Timestamp, Diagnostic> {
    let day = || format!("{text}T00:00:00Z").parse().ok();
    let ago = || Hours::parse(text).ok().and_then(|hours| SignedDuration::try_from_secs_f64(hours.0 * 3600.0).ok());
    let read = text.parse().ok().or_else(day).or_else(|| now.checked_sub(ago()?).ok());
    read.filter(|moment| *moment <= now).ok_or_else(|| {
        Diagnostic::usage(format!("`{text}` is not a valid time for --since")).hint("--since 7d or --since 2026-11-01")
    })
}

/// Cheapest card first; what costs the same stays in a fixed order.
fn sort(offers: &mut [&Offer], catalogs: &Catalogs) {
    offers.sort_by_cached_key(|offer| {
        let instance = catalogs.hardware.instance(offer.instance);
        let per_gpu = offer.quote.rate.per_gpu(instance.node.gpus.as_f64());
        (per_gpu, offer.quote.rate, instance.cloud.clone(), offer.instance, offer.place.clone(), offer.purchase)
    });
}

/// The GPUs that are asked for: those of a machine where one is named, with its name.
fn wanted(text: Option<&str>, hardware: &Hardware) -> Result<(Option<GpuSelector>, Option<String>), SelectorError> {
    let Some(text) = text else { return Ok((None, None)) };
    match GpuSelector::parse(text, hardware) {
        Err(SelectorError::Machine { name, gpus, .. }) => Ok((Some(GpuSelector::parse(&gpus, hardware)?), Some(name))),
        given => given.map(|gpus| (Some(gpus), None)),
    }
}

/// In the order in which people think of them; each names the one that a reader would change.
fn filters<'a>(arguments: &'a PricesArguments, query: &'a Query, catalogs: &'a Catalogs) -> Vec<Filter<'a>> {
    let instance = |offer: &Offer| catalogs.hardware.instance(offer.instance);
    let mut filters = Vec::new();
    let mut add =
        |words: String, keeps: Box<dyn Fn(&Offer) -> bool + 'a>, alternative: Box<dyn Fn(&Offer) -> String + 'a>| {
            filters.push(Filter { words, keeps, alternative });
        };
    if let Some((selector, text)) = query.gpus.as_ref().zip(arguments.gpus.as_deref()) {
        let gpu = move |offer: &Offer| catalogs.hardware.gpu(instance(offer).node.gpu);
        add(
            format!("the GPU of `{text}`"),
            Box::new(move |offer| selector.matches_gpu(instance(offer).node.gpu, gpu(offer))),
            Box::new(move |offer| gpu(offer).family.clone()),
        );
        add(
            format!("the count of `{text}`"),
            Box::new(move |offer| {
                let node = &instance(offer).node;
                selector.matches_count(node.devices()) && selector.matches_share(node.gpus)
            }),
            Box::new(move |offer| format!("{:>3}", instance(offer).node.gpus)),
        );
    }
    if let Some(machine) = &query.machine {
        add(
            format!("the machine `{machine}`"),
            Box::new(move |offer| instance(offer).name.eq_ignore_ascii_case(machine)),
            Box::new(move |offer| instance(offer).name.clone()),
        );
    }
    if !query.clouds.is_empty() {
        add(
            format!("--cloud {}", arguments.clouds.join(" --cloud ")),
            Box::new(move |offer| query.clouds.contains(&instance(offer).cloud)),
            Box::new(move |offer| instance(offer).cloud.to_string()),
        );
    }
    if !query.regions.is_empty() {
        add(
            format!("--region {}", arguments.regions.join(" --region ")),
            Box::new(|offer| in_regions(offer, &query.regions)),
            Box::new(|offer| match &*offer.place.region {
                "any" => "any (its source names no region)".to_owned(),
                region => region.to_owned(),
            }),
        );
    }
    let terms = match (arguments.spot, arguments.on_demand) {
        (true, _) => "--spot",
        (_, true) => "--on-demand",
        _ => "no --commitments",
    };
    add(
        terms.to_owned(),
        Box::new(|offer| has_terms(offer, arguments)),
        Box::new(|offer| format!("--{}", offer.purchase.word())),
    );
    if arguments.trusted {
        add(
            "--trusted".to_owned(),
            Box::new(|offer| !offer.is_suspect()),
            Box::new(|offer| offer.suspicions.iter().map(|suspicion| suspicion.word()).collect::<Vec<_>>().join(" ")),
        );
    }
    filters
}

fn in_regions(offer: &Offer, regions: &[String]) -> bool {
    let begins = |name: &str| regions.iter().any(|region| names_region(region, name));
    begins(&offer.place.region) || offer.place.zone_id.as_deref().is_some_and(begins)
}

fn has_terms(offer: &Offer, arguments: &PricesArguments) -> bool {
    match offer.purchase {
        Purchase::Commitment { .. } => arguments.commitments,
        Purchase::Spot => !arguments.on_demand,
        Purchase::OnDemand => !arguments.spot,
        _ => !arguments.spot && !arguments.on_demand,
    }
}

/// Machines with the requested GPU that no source prices.
fn unpriced(query: &Query, catalogs: &Catalogs) -> Vec<String> {
    let Some(selector) = &query.gpus else { return Vec::new() };
    let hardware = &catalogs.hardware;
    let mut is_priced = vec![false; hardware.instances().len()];
    for offer in catalogs.market.offers() {
        is_priced[offer.instance.0 as usize] = true;
    }
    let is_asked_for = |instance: &InstanceType| {
        selector.matches_gpu(instance.node.gpu, hardware.gpu(instance.node.gpu))
            && selector.matches_count(instance.node.devices())
            && selector.matches_share(instance.node.gpus)
            && (query.clouds.is_empty() || query.clouds.contains(&instance.cloud))
            && query.machine.as_ref().is_none_or(|machine| instance.name.eq_ignore_ascii_case(machine))
    };
    let instances = hardware.instances().iter().zip(is_priced);
    instances
        .filter(|(instance, priced)| !priced && is_asked_for(instance))
        .map(|(instance, _)| instance.name.clone())
        .collect()
}

/// Says how many offers each filter left, and what the last of them would have had to be instead.
fn explain_nothing(filters: &[Filter], catalogs: &Catalogs, unpriced: &[String], printer: &Printer) {
    printer.note("no offer matches");
    let mut left: Vec<&Offer> = catalogs.market.offers().iter().collect();
    for filter in filters {
        let kept: Vec<&Offer> = left.iter().copied().filter(|offer| (filter.keeps)(offer)).collect();
        if kept.len() < left.len() {
            printer.note(&format!("  {} leaves {} of {}", filter.words, kept.len(), left.len()));
        }
        if kept.is_empty() {
            let mut others: Vec<String> = left.iter().map(|offer| (filter.alternative)(offer)).collect();
            others.sort();
            others.dedup();
            let others: Vec<&str> = others.iter().map(|other| other.trim()).collect();
            printer.note(&nearest(&filter.words, &others));
            break;
        }
        left = kept;
    }
    if !unpriced.is_empty() {
        printer.note(&format!("no embedded price: {} (a live source will price them)", unpriced.join(", ")));
    }
}

fn nearest(words: &str, others: &[&str]) -> String {
    let wanted = words.rsplit(' ').next().unwrap_or(words);
    let first = if others.len() > 1 { did_you_mean(wanted, others.iter().copied()) } else { None };
    let mut named: Vec<&str> =
        first.into_iter().chain(others.iter().copied().filter(|other| Some(*other) != first)).collect();
    let more = named.len().saturating_sub(MOST_ALTERNATIVES);
    named.truncate(MOST_ALTERNATIVES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("nearest alternatives: {}{more}", named.join(", "))
}
