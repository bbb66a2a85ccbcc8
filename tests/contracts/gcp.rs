//! Compute Engine's capacity history over canned answers.

use std::collections::BTreeMap;

use gpuplan::clouds::ask;
use gpuplan::clouds::gcp::spot_prices::SpotPrices;
use gpuplan::hardware::{CloudId, Hardware};
use gpuplan::market::{Answer, OfferQuery, Origin, SourceError};

use crate::server::{Reply, Request, Server};

fn ask_gcp(hardware: &Hardware, endpoint: &str, types: &[&str], regions: &[&str]) -> Result<Answer, SourceError> {
    let instances: Vec<_> = types.iter().map(|name| hardware.find_instance(&CloudId::new("gcp"), name).unwrap()).collect();
    let wanted: BTreeMap<_, _> = regions.iter().map(|region| ((*region).into(), instances.clone())).collect();
    let source = SpotPrices::at(endpoint, "some-project");
    ask(&[(&source, OfferQuery { hardware, wanted })]).unwrap().remove(0)
}

fn json(status: u16, body: &str) -> Reply {
    Reply::Text(status, "application/json", body.to_owned())
}

pub fn sells_in_us_central1_only(request: &Request) -> Reply {
    if !request.path.contains("/regions/us-central1/") {
        return json(
            400,
            r#"{"error":{"code":400,"message":"Machine type is not available in this region.","status":"INVALID_ARGUMENT"}}"#,
        );
    }
    if request.body.contains("g2-standard-4") {
        return json(200, r#"{"machineType":"g2-standard-4","priceHistory":[]}"#);
    }
    json(
        200,
        r#"{"machineType":"a2-highgpu-1g","priceHistory":[
            {"interval":{"startTime":"2026-06-01T00:00:00Z","endTime":"2026-07-01T00:00:00Z"},"listPrice":{"currencyCode":"USD","units":"1","nanos":500000000}},
            {"interval":{"startTime":"2026-07-01T00:00:00Z","endTime":"2026-07-30T06:00:00Z"},"listPrice":{"currencyCode":"USD","units":"1","nanos":750000000}}]}"#,
    )
}

#[test]
fn the_newest_record_is_the_offer_and_what_has_none_is_a_note() {
    let hardware = Hardware::embedded().unwrap();
    let server = Server::start(sells_in_us_central1_only);
    let answer = ask_gcp(&hardware, &server.endpoint, &["a2-highgpu-1g", "g2-standard-4"], &["us-central1", "europe-west9"]).unwrap();
    assert_eq!(answer.offers.len(), 1, "{answer:?}");
    let offer = &answer.offers[0];
    assert_eq!(offer.quote.rate.to_string(), "1.75");
    assert_eq!(offer.quote.origin, Origin::Live);
    assert_eq!(offer.quote.observed_at, "2026-07-30T06:00:00Z".parse().unwrap());
    assert_eq!((&*offer.place.region, offer.place.zone_id.as_deref()), ("us-central1", None));
    let notes: Vec<String> = answer.notes.iter().map(ToString::to_string).collect();
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert_eq!(notes[0], "europe-west9, a2-highgpu-1g: refused with HTTP 400: Machine type is not available in this region.");
    assert_eq!(notes[2], "us-central1, g2-standard-4: the history has no price for it");
    let asked = server.asked();
    assert_eq!(asked.len(), 4);
    assert!(asked.iter().all(|request| request.header("authorization").is_empty()), "no key goes to a stand-in");
    let first = asked.iter().find(|request| request.path.contains("us-central1")).unwrap();
    assert!(first.path.starts_with("/compute/v1/projects/some-project/regions/us-central1/advice/capacityHistory"), "{}", first.path);
    assert!(first.body.contains(r#""provisioningModel":"SPOT""#) && first.body.contains(r#""types":["PRICE"]"#), "{}", first.body);
}

#[test]
fn a_refusal_of_the_project_ends_the_question_at_once() {
    let hardware = Hardware::embedded().unwrap();
    let server = Server::start(|_| json(403, r#"{"error":{"code":403,"message":"Not enabled.","status":"PERMISSION_DENIED"}}"#));
    let regions: Vec<String> = (0..40).map(|index| format!("region-{index}")).collect();
    let regions: Vec<&str> = regions.iter().map(String::as_str).collect();
    let error = ask_gcp(&hardware, &server.endpoint, &["a2-highgpu-1g"], &regions).unwrap_err();
    assert!(matches!(&error, SourceError::Refused { code, .. } if code == "HTTP 403"), "{error}");
    assert!(server.asked().len() < 40, "{} questions", server.asked().len());
}

#[test]
fn an_answer_that_is_no_json_and_a_closed_port_are_errors() {
    let hardware = Hardware::embedded().unwrap();
    let server = Server::start(|_| json(200, "<html>sign in</html>"));
    let error = ask_gcp(&hardware, &server.endpoint, &["a2-highgpu-1g"], &["us-central1"]).unwrap_err();
    assert!(matches!(error, SourceError::Malformed { .. }), "{error}");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = ask_gcp(&hardware, &format!("http://{closed}"), &["a2-highgpu-1g"], &["us-central1"]).unwrap_err();
    assert!(matches!(&error, SourceError::Unreachable { detail, .. } if detail.contains("refused")), "{error}");
}
