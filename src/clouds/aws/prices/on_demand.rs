//! `ListedPrices`: asks the price list interface what each machine type costs by the hour, in every region at once.

use aws_sdk_pricing::Client;
use aws_sdk_pricing::types::{Filter, FilterType};
use futures_util::StreamExt;
use futures_util::stream;
use jiff::Timestamp;

use crate::CLOUD;
use crate::account::session::{Account, Session};
use crate::feeds::addresses::service;
use crate::prices::gather::gather;
use crate::prices::price_list::{self, ListPrices, PLAIN};
use gpuplan_market::{About, BoxFuture, OfferQuery, PriceAnswer, PriceSource, SourceError};

/// The interface stands in three regions and answers for all of them (documentation of the Price List API).
const REGION: &str = "us-east-1";
/// Machine types that are asked about at the same time; the interface throttles much sooner than EC2.
const LANES: usize = 6;

/// On-demand list prices, read with the account's own credentials.
pub struct ListedPrices {
    session: Session,
}

impl ListedPrices {
    pub fn new(session: Session) -> Self {
        Self { session }
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let account = &self.session.sign_in_for(query.patience).await?;
        let client = &account.pricing(REGION);
        let lanes = query.instances().into_keys().map(|name| async move {
            let question = products(account, client, name);
            (name.to_owned(), account.in_time(name, question).await)
        });
        let outcomes: Vec<_> = stream::iter(lanes.collect::<Vec<_>>()).buffered(LANES).collect().await;
        let answered_at = Timestamp::now();
        let mut prices = ListPrices::new(query, price_list::SOURCE);
        for (name, product) in gather(outcomes, &mut prices.notes)?.into_iter().flatten() {
            prices.add(&name, price_list::read(&product));
        }
        let (offers, notes) = prices.into_offers(answered_at);
        Ok(PriceAnswer { offers, history: Vec::new(), notes })
    }
}

/// Every product of a machine type, named for the note if it cannot be read.
async fn products(account: &Account, client: &Client, name: &str) -> Result<Vec<(String, String)>, SourceError> {
    let wanted = [("instanceType", name)].into_iter().chain(PLAIN);
    let filter = |(field, value): (&str, &str)| {
        Filter::builder().r#type(FilterType::TermMatch).field(field).value(value).build()
    };
    let filters: Result<Vec<_>, _> = wanted.map(filter).collect();
    let filters =
        filters.map_err(|error| SourceError::Malformed { field: "filter".to_owned(), detail: error.to_string() })?;
    let mut pages = client.get_products().service_code("AmazonEC2").set_filters(Some(filters)).into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| account.error(name, &error))?;
        found.extend(page.price_list().iter().map(|product| (name.to_owned(), product.clone())));
    }
    Ok(found)
}

impl PriceSource for ListedPrices {
    fn about(&self) -> About {
        About::account(CLOUD, price_list::SOURCE)
    }

    fn address(&self) -> String {
        service("PRICING", "GetProducts")
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(self.ask(query))
    }
}
