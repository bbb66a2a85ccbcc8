//! `RetailPrices`: asks Azure's public price list: which sizes it has where, families side by side, and what they cost, regions side by
//! side; page after page.

use futures_util::StreamExt;
use futures_util::future::try_join_all;
use futures_util::stream;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::azure::CLOUD;
use crate::azure::retail::{self, Page, RetailRow, SOURCE};
use crate::azure::sizes;
use crate::listing::{Listing, Rows, deadline, within};
use gpuplan_clouds_http::{Http, Reply, Request};
use gpuplan_clouds_http::{endpoint, one_line};
use gpuplan_market::{
    About, BoxFuture, MachineList, MachineSource, OfferQuery, PriceAnswer, PriceSource, SourceError, SourceNote,
};

const BASE: &str = "https://prices.azure.com";
const PATH: &str = "/api/retail/prices";
/// The version that lists reservations beside prices by the hour.
const VERSION: &str = "2023-01-01-preview";
/// Every machine with a GPU is of a series whose name begins so.
const GPU_SERIES: &str = "Standard_N";
/// The families of these (learn.microsoft.com/azure/virtual-machines/sizes/overview, "GPU accelerated"), each a question.
const GPU_FAMILIES: [&str; 4] = ["Standard_NC", "Standard_ND", "Standard_NG", "Standard_NV"];
/// Regions asked at a time.
const LANES: usize = 8;
/// A region has a few pages, a family over all regions some dozens; a list that never ends is no answer.
const MOST_PAGES: usize = 200;

/// Azure's retail price list. Nobody needs an account for it.
pub struct RetailPrices {
    endpoint: String,
}

impl RetailPrices {
    pub fn from_environment() -> Self {
        Self::at(&endpoint("GPUPLAN_AZURE_PRICES_ENDPOINT", BASE))
    }

    pub fn at(endpoint: &str) -> Self {
        Self { endpoint: endpoint.to_owned() }
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let http = Http::new()?;
        let until = deadline(query);
        let questions: Vec<BoxFuture<_>> =
            query.wanted.keys().map(|region| self.question(&http, region, until)).collect();
        let answers: Vec<_> = stream::iter(questions).buffered(LANES).collect().await;
        let mut listing = Listing::new(query.hardware, CLOUD, SOURCE, Timestamp::UNIX_EPOCH);
        let mut refused: Vec<(&str, SourceError)> = Vec::new();
        let mut is_answered = false;
        for (region, answer) in query.wanted.keys().zip(answers) {
            match answer {
                Ok(reply) => {
                    is_answered = true;
                    listing.answered_at = reply.answered_at;
                    retail::list(&reply.value, region, &mut listing);
                }
                Err(error) => refused.push((region, error)),
            }
        }
        if !is_answered && !refused.is_empty() {
            return Err(refused.swap_remove(0).1);
        }
        let mut answer = listing.answer();
        let notes = refused
            .into_iter()
            .map(|(region, error)| SourceNote { place: region.to_owned(), detail: error.to_string() });
        answer.notes.splice(0..0, notes);
        Ok(answer)
    }

    fn question<'a>(
        &'a self,
        http: &'a Http,
        region: &'a str,
        until: Instant,
    ) -> BoxFuture<'a, Result<Reply<Rows<RetailRow>>, SourceError>> {
        Box::pin(within(region, until, self.pages(http, region, self.first_page(region))))
    }

    /// The sizes of all regions. Without one of the families nobody knows what a region lacks.
    async fn sizes(&self, known: &OfferQuery<'_>) -> Result<MachineList, SourceError> {
        let (http, until) = (&Http::new()?, deadline(known));
        let families = GPU_FAMILIES.map(|family| {
            let filter = format!("priceType eq 'Consumption' and contains(armSkuName, '{family}')");
            within(family, until, self.pages(http, family, self.question_of(&filter)))
        });
        let mut rows = Rows::default();
        let mut answered_at = Timestamp::now();
        for reply in try_join_all(families).await? {
            rows.read.extend(reply.value.read);
            rows.unreadable += reply.value.unreadable;
            answered_at = answered_at.min(reply.answered_at);
        }
        Ok(sizes::list(&rows, known.hardware, &answered_at.strftime("%Y-%m-%d").to_string()))
    }

    /// All rows of a list, dated by its first page.
    async fn pages(&self, http: &Http, what: &str, first: String) -> Result<Reply<Rows<RetailRow>>, SourceError> {
        let mut reply = http.json::<Page>(&Request::get(first)).await?;
        let (answered_at, modified_at) = (reply.answered_at, reply.modified_at);
        let mut rows = std::mem::take(&mut reply.value.items);
        for _ in 1..MOST_PAGES {
            let Some(link) = reply.value.next_page_link.take().filter(|link| !link.is_empty()) else {
                return Ok(Reply { value: rows, answered_at, modified_at });
            };
            reply = http.json::<Page>(&Request::get(self.next_page(&link)?)).await?;
            rows.read.append(&mut reply.value.items.read);
            rows.unreadable += reply.value.items.unreadable;
        }
        Err(SourceError::Malformed {
            field: "NextPageLink".to_owned(),
            detail: format!("{what} has more than {MOST_PAGES} pages"),
        })
    }

    fn first_page(&self, region: &str) -> String {
        self.question_of(&format!("armRegionName eq '{region}' and contains(armSkuName, '{GPU_SERIES}')"))
    }

    fn question_of(&self, filter: &str) -> String {
        let filter = format!("serviceName eq 'Virtual Machines' and {filter}");
        format!("{}{PATH}?api-version={VERSION}&currencyCode='USD'&$filter={}", self.endpoint, escaped(&filter))
    }

    /// The rest of a list, on the host that was asked and on no other: a stand-in repeats the links of the real one.
    fn next_page(&self, link: &str) -> Result<String, SourceError> {
        let own = link.strip_prefix(BASE).map(|rest| rest.strip_prefix(":443").unwrap_or(rest));
        match own.or_else(|| link.strip_prefix(&self.endpoint)) {
            Some(rest) if rest.starts_with(PATH) => Ok(format!("{}{rest}", self.endpoint)),
            _ => Err(SourceError::Malformed {
                field: "NextPageLink".to_owned(),
                detail: format!("it leads away from {}: {}", self.endpoint, one_line(link)),
            }),
        }
    }
}

/// Percent-encodes what may not stand in a query.
fn escaped(text: &str) -> String {
    let byte = |byte: u8| {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(byte).collect()
}

impl MachineSource for RetailPrices {
    fn about(&self) -> About {
        About::public(CLOUD, "azure-sizes")
    }

    fn address(&self) -> String {
        format!("{}{PATH}", self.endpoint)
    }

    fn machines<'a>(&'a self, known: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<MachineList, SourceError>> {
        Box::pin(self.sizes(known))
    }
}

impl PriceSource for RetailPrices {
    fn about(&self) -> About {
        About::public(CLOUD, SOURCE)
    }

    fn address(&self) -> String {
        format!("{}{PATH}", self.endpoint)
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(self.ask(query))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_link_stays_on_the_host_that_was_asked() {
        let (real, stand_in) = (RetailPrices::at(BASE), RetailPrices::at("http://127.0.0.1:9"));
        for link in [
            "https://prices.azure.com/api/retail/prices?$skip=100",
            "https://prices.azure.com:443/api/retail/prices?$skip=100",
        ] {
            assert_eq!(real.next_page(link).unwrap(), "https://prices.azure.com/api/retail/prices?$skip=100");
            assert_eq!(stand_in.next_page(link).unwrap(), "http://127.0.0.1:9/api/retail/prices?$skip=100");
        }
        assert_eq!(
            stand_in.next_page("http://127.0.0.1:9/api/retail/prices?a").unwrap(),
            "http://127.0.0.1:9/api/retail/prices?a"
        );
        for link in [
            "https://prices.azure.com.example.com/api/retail/prices",
            "https://prices.azure.com@example.com/api/retail/prices",
            "https://prices.azure.com:4430/api/retail/prices",
            "https://prices.azure.com/other",
            "http://169.254.169.254/",
            "/api/retail/prices?$skip=100",
        ] {
            assert!(real.next_page(link).is_err() && stand_in.next_page(link).is_err(), "{link}");
        }
    }

    #[test]
    fn a_question_has_no_space_or_quote_of_its_filter() {
        let page = RetailPrices::at(BASE).first_page("eastus");
        assert!(page.contains("armRegionName%20eq%20%27eastus%27") && !page.contains(' '), "{page}");
    }
}
