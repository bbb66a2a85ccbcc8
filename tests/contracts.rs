//! The contract of each port, held against every implementation. No test leaves the loopback address or reads the environment.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "what the product may not do is how a test fails")]

#[cfg(feature = "aws")]
#[path = "testbed/answers.rs"]
mod answers;
#[cfg(feature = "aws")]
#[path = "contracts/aws.rs"]
mod aws;
#[cfg(feature = "gcp")]
#[path = "contracts/gcp.rs"]
mod gcp;
#[cfg(feature = "aws")]
#[path = "testbed/moto.rs"]
mod moto;
#[cfg(feature = "aws")]
#[path = "testbed/proxy.rs"]
mod proxy;
#[cfg(any(feature = "aws", feature = "gcp"))]
#[path = "contracts/server.rs"]
mod server;

#[cfg(any(feature = "aws", feature = "gcp"))]
mod prices {
    use std::collections::BTreeMap;

    use gpuplan::clouds::ask;
    use gpuplan::hardware::Hardware;
    use gpuplan::market::{OfferQuery, Origin, PriceSource};
    use gpuplan::units::UsdPerHour;
    use jiff::Timestamp;

    /// What the doc comment of `PriceSource` promises and an answer can show. `secrets` may stand nowhere in it.
    pub fn keep_the_contract(source: &dyn PriceSource, hardware: &Hardware, types: &[&str], regions: &[&str], secrets: &[&str]) {
        let instances: Vec<_> = types.iter().map(|name| hardware.find_instance(&source.cloud(), name).unwrap()).collect();
        let wanted: BTreeMap<_, _> = regions.iter().map(|region| ((*region).into(), instances.clone())).collect();
        let query = OfferQuery { hardware, wanted };
        let answers = ask(&[(source, query.clone()), (source, query)]).unwrap();
        let rates = answers.iter().map(|answer| {
            let answer = answer.as_ref().unwrap();
            assert!(!answer.offers.is_empty() && !answer.notes.is_empty(), "this server sells something and refuses something");
            for offer in &answer.offers {
                assert_eq!(offer.quote.origin, Origin::Live);
                assert!(offer.quote.observed_at <= Timestamp::now());
                assert!(offer.quote.rate > UsdPerHour::default());
                assert!(instances.contains(&offer.instance) && regions.contains(&&*offer.place.region));
            }
            let said = format!("{answer:?}");
            assert!(secrets.iter().all(|secret| !said.contains(secret)), "{said}");
            answer.offers.iter().map(|offer| (offer.instance, offer.place.clone(), offer.quote.rate)).collect::<Vec<_>>()
        });
        let rates: Vec<_> = rates.collect();
        assert_eq!(rates[0], rates[1], "asking twice is harmless");
    }
}

#[cfg(feature = "aws")]
#[test]
fn aws_prices_keep_the_contract() {
    let (hardware, server) = (gpuplan::hardware::Hardware::embedded().unwrap(), server::Server::start(aws::account));
    let source = gpuplan::clouds::aws::spot_prices::SpotPrices::new(aws::session(&server.endpoint, aws::quick()));
    prices::keep_the_contract(&source, &hardware, &aws::TYPES, &["us-east-1", "us-west-1"], &aws::KEYS);
}

#[cfg(feature = "aws")]
#[test]
fn aws_other_prices_keep_the_contract() {
    let (hardware, (_proxy, sources)) = (gpuplan::hardware::Hardware::embedded().unwrap(), aws::other_price_sources());
    for source in sources {
        prices::keep_the_contract(source.as_ref(), &hardware, &aws::TYPES, &["us-east-1", "eu-west-1"], &aws::KEYS);
    }
}

#[cfg(feature = "gcp")]
#[test]
fn gcp_prices_keep_the_contract() {
    let (hardware, server) = (gpuplan::hardware::Hardware::embedded().unwrap(), server::Server::start(gcp::sells_in_us_central1_only));
    let source = gpuplan::clouds::gcp::spot_prices::SpotPrices::at(&server.endpoint, "some-project");
    prices::keep_the_contract(&source, &hardware, &["a2-highgpu-1g"], &["us-central1", "europe-west9"], &[]);
}
