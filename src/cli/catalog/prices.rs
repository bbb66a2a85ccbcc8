//! `prices`: lists offers, their course, and what moved of them.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use clap::Args;
use jiff::{SignedDuration, Timestamp};

use crate::arguments::global::OutputFormat;
use crate::catalog::price_filters::{Filter, explain_nothing, filters, unpriced};
use crate::catalog::price_query::{Places, Query, Words};
use crate::question::live;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::{Catalogs, Session};
use gpuplan_hardware::InstanceId;
use gpuplan_market::trend::{self, Trend};
use gpuplan_market::{Cache, HostOffer, Offer, PricePoint, Purchase, changes};
use gpuplan_report::catalog;
use gpuplan_report::catalog::changes as report;
use gpuplan_report::catalog::history::{self, PoolTrend};
use gpuplan_report::catalog::hosts::{self, HostPrice};
use gpuplan_report::catalog::prices::{self, PriceTable};
use gpuplan_units::Hours;

#[derive(Debug, Args)]
pub struct PricesArguments {
    /// List only offers with these GPUs, such as H100:8 or H100 H200, or of this machine, such as p5.48xlarge [default: every GPU]
    pub gpus: Vec<String>,
    /// The same as a flag, as other commands have it
    #[arg(long = "gpus", alias = "gpu", value_name = "GPUS", hide_short_help = true)]
    pub gpu_flags: Vec<String>,
    /// List only this cloud (repeat for several)
    #[arg(long = "cloud", value_name = "CLOUD", value_delimiter = ',')]
    pub clouds: Vec<String>,
    /// List only this region, zone id or prefix of one, this city, or `europe`, `asia` or `us`
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
    /// List only these terms: on-demand, spot, commitment, capacity-block, calendar, flex-start, or any
    #[arg(long = "purchase", alias = "terms", value_name = "TERMS", value_delimiter = ',', conflicts_with_all = ["spot", "on_demand"])]
    pub purchases: Vec<String>,
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
    #[arg(long, conflicts_with_all = ["gpus", "gpu_flags", "commitments", "live", "history"])]
    pub hosts: bool,
    /// Show at most this many rows (0: all) [default: 30 in a table, all as JSON or CSV]
    #[arg(short = 'n', long, visible_alias = "limit", alias = "top", value_name = "N")]
    pub max_results: Option<usize>,
}

/// Rows of a table where nobody says how many.
const ROWS: usize = 30;

/// Why nothing that is sold ahead is in a snapshot.
const SOLD_AHEAD: &str = "what is sold ahead has no list price: `--live` asks EC2 for its next capacity blocks and Google for calendar and flex-start, and \
     `gpuplan plan --live --purchase capacity-block` for as many machines for as long as a run needs";

impl PricesArguments {
    fn words(&self) -> Words<'_> {
        Words {
            gpus: self.gpus.iter().chain(&self.gpu_flags).map(String::as_str).collect(),
            clouds: &self.clouds,
            purchases: &self.purchases,
            spot: self.spot,
            on_demand: self.on_demand,
            commitments: self.commitments,
            trusted: self.trusted,
        }
    }

    /// The first of these, as many as are asked for.
    fn shorten<T>(&self, rows: &mut Vec<T>, output: OutputFormat) {
        let usual = if output == OutputFormat::Table { ROWS } else { 0 };
        let most = self.max_results.unwrap_or(usual);
        if most > 0 {
            rows.truncate(most);
        }
    }
}

pub fn run(arguments: &PricesArguments, session: &Session) -> Result<Exit, Diagnostic> {
    if arguments.hosts {
        return host_prices(arguments, session);
    }
    let mut catalogs = session.catalogs()?;
    let query = Query::read(&arguments.words(), &catalogs.hardware)?;
    if arguments.live {
        let wanted = live::Request {
            clouds: query.clouds.clone(),
            gpus: query.wanted.iter().flat_map(|wanted| wanted.gpus.clone()).collect(),
            max_age: live::parse_max_age(arguments.max_age.as_deref())?,
            ..live::Request::default()
        };
        let answers = live::ask_clouds(&mut catalogs, session, &wanted)?;
        answers.warn(&session.printer);
        catalogs.market = answers.merge_into(catalogs.market, &catalogs.hardware);
    }
    let places = Places::read(&arguments.regions, &query.clouds, &catalogs.market, &catalogs.hardware)?;
    let filters = filters(&query, &places, &catalogs);
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
                explain_nothing(&query, &filters, &catalogs, &unpriced, &session.printer);
                if query.terms.are_sold_ahead() && !arguments.live {
                    session.printer.note(SOLD_AHEAD);
                }
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
    let query = Query::read(&arguments.words(), &hardware)?;
    let places = Places::read(&arguments.regions, &query.clouds, &market, &hardware)?;
    let is_asked = |offer: &&HostOffer| {
        (query.clouds.is_empty() || query.clouds.contains(&hardware.host(offer.host).cloud))
            && places.include(&offer.place)
            && query.terms.include(offer.purchase)
            && (!query.trusted || offer.suspicions.is_empty())
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

/// The course of every pool of which more than one price is known: from answers and feeds that came here, and from the snapshot.
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
    let snapshot = session.snapshot()?.market;
    let is_young = |offer: &&Offer| offer.purchase == Purchase::Spot && offer.quote.observed_at >= from;
    let snapshot: HashMap<_, PricePoint> = snapshot
        .offers()
        .iter()
        .filter(is_young)
        .map(|offer| ((offer.instance, offer.place.clone()), PricePoint::of(offer)))
        .collect();
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
        let is_here = |point: &&PricePoint| point.place == offer.place && point.purchase == offer.purchase;
        let mut pool: Vec<PricePoint> = known.iter().filter(is_here).cloned().collect();
        pool.extend(snapshot.get(&(offer.instance, offer.place.clone())).cloned());
        pool.sort_by_key(|point| point.since);
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
