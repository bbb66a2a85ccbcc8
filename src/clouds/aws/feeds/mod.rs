//! What AWS tells anybody without an account: the spot advisor, the spot price feed and the price list files.

pub mod addresses;
pub mod advisor;
pub mod offer_file;
pub mod spot_feed;

use futures_util::StreamExt;
use futures_util::stream;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::CLOUD;
use crate::feeds::addresses::Addresses;
use crate::feeds::offer_file::OfferFile;
use crate::prices::gather::gather;
use crate::prices::price_list::{ListPrice, ListPrices};
use gpuplan_clouds_http::{Http, Request};
use gpuplan_market::{About, BoxFuture, OfferQuery, PriceAnswer, PriceSource, RiskAnswer, RiskSource, SourceError};

/// Price files read at the same time; each is some hundred megabytes.
const LANES: usize = 4;

/// Bands of interruption by machine type and region.
pub struct SpotAdvisor {
    addresses: Addresses,
}

/// Spot prices of whole regions.
pub struct SpotFeed {
    addresses: Addresses,
}

/// On-demand list prices, region by region.
pub struct OfferFiles {
    addresses: Addresses,
}

impl SpotAdvisor {
    pub fn new(addresses: Addresses) -> Self {
        Self { addresses }
    }

    /// The document has no date inside; the day on which it last changed is the honest one.
    async fn ask(&self, query: &OfferQuery<'_>) -> Result<RiskAnswer, SourceError> {
        let reply =
            Http::new()?.json::<advisor::AdvisorDocument>(&Request::get(self.addresses.advisor_document())).await?;
        Ok(reply.value.risks(&query.instances(), reply.modified_at.unwrap_or(reply.answered_at)))
    }
}

impl SpotFeed {
    pub fn new(addresses: Addresses) -> Self {
        Self { addresses }
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let reply =
            Http::new()?.json::<spot_feed::SpotFeedDocument>(&Request::get(self.addresses.feed_document())).await?;
        Ok(reply.value.answer(&query.instances(), reply.modified_at.unwrap_or(reply.answered_at)))
    }
}

impl OfferFiles {
    pub fn new(addresses: Addresses) -> Self {
        Self { addresses }
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let http = &Http::new()?;
        let mut prices = ListPrices::new(query, offer_file::SOURCE);
        let deadline = Instant::now() + query.patience;
        let instances = &query.instances();
        let wanted = |name: &str| instances.contains_key(name);
        let lanes = query.wanted.keys().map(|region| {
            let request = Request::get(self.addresses.offer_file(region));
            async move { (region.to_string(), read_file(http, &request, wanted, deadline).await) }
        });
        let outcomes: Vec<_> = stream::iter(lanes.collect::<Vec<_>>()).buffered(LANES).collect().await;
        let answered_at = Timestamp::now();
        let regions: Vec<_> =
            outcomes.into_iter().map(|(region, rows)| (region.clone(), rows.map(|rows| (region, rows)))).collect();
        for (region, rows) in gather(regions, &mut prices.notes)? {
            for row in rows {
                prices.add(&region, row.map(Some));
            }
        }
        let (offers, notes) = prices.into_offers(answered_at);
        Ok(PriceAnswer { offers, history: Vec::new(), notes })
    }
}

type PriceRow = Result<ListPrice, String>;

/// Where a file breaks off, the rows before the break are prices all the same, and the last row says why there are no more.
async fn read_file(
    http: &Http,
    request: &Request,
    wanted: impl Fn(&str) -> bool,
    deadline: Instant,
) -> Result<Vec<PriceRow>, SourceError> {
    let (mut file, mut rows) = (OfferFile::default(), Vec::<PriceRow>::new());
    let reading = http.lines(request, |line| rows.extend(file.line(line, &wanted).transpose()));
    let ended = match tokio::time::timeout_at(deadline, reading).await {
        Ok(Ok(_)) if file.has_header() => return Ok(rows),
        Ok(Ok(_)) => SourceError::Malformed { field: "price file".to_owned(), detail: "it has no header".to_owned() },
        Ok(Err(error)) => error,
        Err(_) => {
            let detail = "price files are large, and this one was not read in time".to_owned();
            SourceError::Unreachable { place: "the end of the price file".to_owned(), detail }
        }
    };
    if rows.is_empty() {
        return Err(ended);
    }
    rows.push(Err(ended.to_string()));
    Ok(rows)
}

impl RiskSource for SpotAdvisor {
    fn about(&self) -> About {
        About::public(CLOUD, advisor::SOURCE)
    }

    fn risks<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<RiskAnswer, SourceError>> {
        Box::pin(self.ask(query))
    }
}

impl PriceSource for SpotFeed {
    fn about(&self) -> About {
        About::public(CLOUD, spot_feed::SOURCE)
    }

    fn address(&self) -> String {
        self.addresses.feed_document()
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(self.ask(query))
    }
}

impl PriceSource for OfferFiles {
    fn about(&self) -> About {
        About::public(CLOUD, offer_file::SOURCE)
    }

    fn address(&self) -> String {
        self.addresses.offer_file("REGION")
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(self.ask(query))
    }
}
