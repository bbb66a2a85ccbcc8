//! `InstanceTypes`: signs in at Verda, then asks for machine types and for what its locations have.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::listing::{Listing, Rows, deadline, machines_with, within};
use crate::verda::CLOUD;
use crate::verda::types::{self, Location, SOURCE, Type};
use gpuplan_clouds_http::{Http, Reply, Request};
use gpuplan_clouds_http::{endpoint, variable};
use gpuplan_market::{
    About, BoxFuture, MachineList, MachineSource, OfferQuery, PriceAnswer, PriceSource, Purchase, SourceError,
};

const BASE: &str = "https://api.verda.com";
const CLIENT: &str = "VERDA_CLIENT_ID";
const SECRET: &str = "VERDA_CLIENT_SECRET";

pub struct InstanceTypes {
    endpoint: String,
    client: Option<String>,
    secret: Option<String>,
}

/// The answer to a sign-in; never shown.
#[derive(Deserialize)]
struct Token {
    access_token: String,
}

/// A signed-in conversation.
struct Session<'a> {
    http: Http,
    endpoint: &'a str,
    token: String,
}

impl Session<'_> {
    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Reply<T>, SourceError> {
        let request =
            Request::get(format!("{}/v1/{path}", self.endpoint)).secret("authorization", &self.token, "Bearer ");
        self.http.json(&request).await
    }
}

impl InstanceTypes {
    pub fn from_environment() -> Self {
        Self { endpoint: endpoint("GPUPLAN_VERDA_ENDPOINT", BASE), client: variable(CLIENT), secret: variable(SECRET) }
    }

    pub fn at(endpoint: &str, client: &str, secret: &str) -> Self {
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Self { endpoint: endpoint.to_owned(), client: given(client), secret: given(secret) }
    }

    async fn sign_in(&self) -> Result<Session<'_>, SourceError> {
        let client = self.client.as_deref().ok_or(SourceError::MissingCredentials { variable: CLIENT })?;
        let secret = self.secret.as_deref().ok_or(SourceError::MissingCredentials { variable: SECRET })?;
        let http = Http::new()?;
        let body =
            json!({ "grant_type": "client_credentials", "client_id": client, "client_secret": secret }).to_string();
        let request = Request::post(format!("{}/v1/oauth2/token", self.endpoint), "application/json", body);
        let token = http.json::<Token>(&request.hide(secret).hide(client)).await?.value.access_token;
        Ok(Session { http, endpoint: &self.endpoint, token })
    }

    async fn list(&self, known: &OfferQuery<'_>) -> Result<MachineList, SourceError> {
        let types = self.sign_in().await?.get::<Rows<Type>>("instance-types?currency=usd").await?;
        let gpus = types.value.read.iter().filter_map(Type::gpus);
        Ok(machines_with(gpus, CLOUD, known.hardware, types.answered_at))
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let session = self.sign_in().await?;
        let (types, stock, spot_stock) = tokio::join!(
            session.get::<Rows<Type>>("instance-types?currency=usd"),
            session.get::<Rows<Location>>("instance-availability?is_spot=false"),
            session.get::<Rows<Location>>("instance-availability?is_spot=true"),
        );
        let types = types?;
        let mut listing = Listing::new(query.hardware, CLOUD, SOURCE, types.answered_at);
        listing.unreadable(CLOUD, types.value.unreadable);
        for (purchase, stock) in [(Purchase::OnDemand, stock), (Purchase::Spot, spot_stock)] {
            let locations = match stock {
                Ok(reply) => Some(reply.value),
                Err(error) => {
                    listing.note(&format!("{purchase} stock"), error.to_string());
                    None
                }
            };
            types::list(&types.value, purchase, locations.as_ref(), &mut listing);
        }
        Ok(listing.answer())
    }
}

impl MachineSource for InstanceTypes {
    fn about(&self) -> About {
        About::account(CLOUD, "verda-machine-types")
    }

    fn address(&self) -> String {
        format!("{}/v1", self.endpoint)
    }

    fn machines<'a>(&'a self, known: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<MachineList, SourceError>> {
        Box::pin(within("Verda", deadline(known), self.list(known)))
    }
}

impl PriceSource for InstanceTypes {
    fn about(&self) -> About {
        About::account(CLOUD, SOURCE)
    }

    fn address(&self) -> String {
        format!("{}/v1", self.endpoint)
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(within("Verda", deadline(query), self.ask(query)))
    }
}
