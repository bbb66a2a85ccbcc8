//! EC2's spot price history over canned answers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gpuplan::clouds::ask;
use gpuplan::clouds::aws::spot_prices::{SpotPrices, TimeLimits};
use gpuplan::hardware::{CloudId, Hardware};
use gpuplan::market::{Answer, OfferQuery, Origin, Purchase, SourceError, Suspicion};
use jiff::Timestamp;

use crate::server::{Reply, Request, Server};

pub const TYPES: [&str; 2] = ["p5.48xlarge", "g5.xlarge"];

pub const KEYS: [&str; 2] = ["AKIAEXAMPLE", "top-secret-key"];

pub fn source(endpoint: &str, limits: TimeLimits) -> SpotPrices {
    SpotPrices::at(endpoint, KEYS[0], KEYS[1], limits)
}

pub fn quick() -> TimeLimits {
    let seconds = Duration::from_secs;
    TimeLimits { connect: seconds(2), attempt: seconds(5), attempts: 1, region: seconds(8), credentials: seconds(2) }
}

fn ask_aws(hardware: &Hardware, endpoint: &str, regions: &[&str], limits: TimeLimits) -> Result<Answer, SourceError> {
    let cloud = CloudId::new("aws");
    let instances: Vec<_> = TYPES.iter().map(|name| hardware.find_instance(&cloud, name).unwrap()).collect();
    let wanted: BTreeMap<_, _> = regions.iter().map(|region| ((*region).into(), instances.clone())).collect();
    let source = source(endpoint, limits);
    ask(&[(&source, OfferQuery { hardware, wanted })]).unwrap().remove(0)
}

/// The region that a request is signed for.
fn region(request: &Request) -> String {
    request.header("authorization").split('/').nth(2).unwrap_or_default().to_owned()
}

fn is_action(request: &Request, action: &str) -> bool {
    request.body.contains(&format!("Action={action}&"))
}

fn xml(body: String) -> Reply {
    Reply::Text(200, "text/xml", body)
}

fn refusal(status: u16, code: &str) -> Reply {
    let body = format!(
        "<Response><Errors><Error><Code>{code}</Code><Message>not\n here</Message></Error></Errors><RequestID>r</RequestID></Response>"
    );
    Reply::Text(status, "text/xml", body)
}

fn item(name: &str, zone: &str, price: &str, time: &str) -> String {
    format!(
        "<item><instanceType>{name}</instanceType><productDescription>Linux/UNIX</productDescription><spotPrice>{price}</spotPrice>\
         <timestamp>{time}</timestamp><availabilityZone>{zone}</availabilityZone></item>"
    )
}

fn history(items: &[String], token: &str) -> Reply {
    xml(format!(
        "<DescribeSpotPriceHistoryResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>r</requestId>\
         <spotPriceHistorySet>{}</spotPriceHistorySet><nextToken>{token}</nextToken></DescribeSpotPriceHistoryResponse>",
        items.concat()
    ))
}

fn zones() -> Reply {
    let zone = |name: &str, id: &str| format!("<item><zoneName>{name}</zoneName><zoneId>{id}</zoneId></item>");
    let zones = [zone("us-east-1a", "use1-az6"), zone("us-east-1b", "use1-az1"), zone("us-east-1-atl-2a", "use1-atl2-az1")];
    xml(format!(
        "<DescribeAvailabilityZonesResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>r</requestId>\
         <availabilityZoneInfo>{}</availabilityZoneInfo></DescribeAvailabilityZonesResponse>",
        zones.concat()
    ))
}

/// us-east-1 answers in two pages, us-west-1 is not opted in.
pub fn account(request: &Request) -> Reply {
    if region(request) != "us-east-1" {
        return refusal(401, "AuthFailure");
    }
    if is_action(request, "DescribeAvailabilityZones") {
        return zones();
    }
    if request.body.contains("NextToken=more") {
        let rows = [
            item("g5.xlarge", "us-east-1b", "9.0E-4", "2026-01-15T10:00:00.000Z"),
            item("g5.xlarge", "us-east-1-atl-2a", "0.600000", "2026-01-15T10:00:00.000Z"),
            item("g5.xlarge", "us-east-1z", "0.100000", "2026-01-15T10:00:00.000Z"),
        ];
        return history(&rows, "");
    }
    let rows = [
        item("p5.48xlarge", "us-east-1a", "19.253100", "2026-01-15T10:20:30.000Z"),
        item("p5.48xlarge", "us-east-1a", "18.000000", "2026-01-10T10:20:30.000Z"),
        item("p5.48xlarge", "us-east-1b", "N/A*", "2026-01-15T09:01:12.000Z"),
        item("t3.micro", "us-east-1b", "0.003000", "2026-01-15T09:01:12.000Z"),
    ];
    history(&rows, "more")
}

#[test]
fn prices_come_by_zone_id_over_all_pages_and_a_closed_region_costs_only_itself() {
    let hardware = Hardware::embedded().unwrap();
    let server = Server::start(account);
    let before = Timestamp::now();
    let answer = ask_aws(&hardware, &server.endpoint, &["us-east-1", "us-west-1"], quick()).unwrap();
    let mut found: Vec<_> = answer
        .offers
        .iter()
        .map(|offer| {
            assert_eq!((offer.quote.origin, offer.purchase), (Origin::Live, Purchase::Spot));
            assert!(offer.quote.observed_at >= before && offer.quote.observed_at <= Timestamp::now());
            assert_eq!(&*offer.place.region, "us-east-1");
            let name = hardware.instance(offer.instance).name.as_str();
            (name, offer.place.zone_id.as_deref().unwrap(), offer.quote.rate.to_string(), offer.suspicions.clone())
        })
        .collect();
    found.sort();
    let expected = [
        ("g5.xlarge", "use1-atl2-az1", "0.60".to_owned(), vec![Suspicion::LocalZone]),
        ("g5.xlarge", "use1-az1", "0.0009".to_owned(), vec![]),
        ("p5.48xlarge", "use1-az6", "19.2531".to_owned(), vec![]),
    ];
    assert_eq!(found, expected);
    let notes: Vec<String> = answer.notes.iter().map(ToString::to_string).collect();
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes[0].starts_with("us-east-1b, p5.48xlarge: `N/A*` is not an amount"), "{notes:?}");
    assert!(notes[1].starts_with("us-east-1z, g5.xlarge: no zone id is known"), "{notes:?}");
    assert!(notes[2].starts_with("us-west-1: refused with AuthFailure: not here (the region may not be enabled"), "{notes:?}");
}

#[test]
fn one_question_asks_for_the_price_in_force_of_every_type_and_both_products() {
    let hardware = Hardware::embedded().unwrap();
    let server = Server::start(account);
    ask_aws(&hardware, &server.endpoint, &["us-east-1"], quick()).unwrap();
    let asked = server.asked();
    let history: Vec<_> = asked.iter().filter(|request| is_action(request, "DescribeSpotPriceHistory")).collect();
    assert_eq!(history.len(), 2, "a page each; an empty token is the end");
    assert_eq!(asked.len(), 3, "the zones once");
    let body = &history[0].body;
    for part in
        ["InstanceType.1=", "InstanceType.2=", "ProductDescription.1=Linux%2FUNIX", "Linux%2FUNIX%20%28Amazon%20VPC%29", "StartTime="]
    {
        assert!(body.contains(part), "{part} in {body}");
    }
}

#[test]
fn a_region_that_hangs_is_given_up_and_the_others_are_kept() {
    let hardware = Hardware::embedded().unwrap();
    let server = Server::start(|request| if region(request) == "eu-west-1" { Reply::Silence } else { account(request) });
    let limits = TimeLimits { attempt: Duration::from_millis(400), attempts: 2, region: Duration::from_secs(2), ..quick() };
    let started = Instant::now();
    let answer = ask_aws(&hardware, &server.endpoint, &["eu-west-1", "us-east-1"], limits).unwrap();
    assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
    assert_eq!(answer.offers.len(), 3);
    assert!(answer.notes.iter().any(|note| note.place == "eu-west-1" && note.detail.contains("cannot reach")), "{:?}", answer.notes);
}

#[test]
fn where_nothing_answers_it_is_an_error_that_names_no_secret() {
    let hardware = Hardware::embedded().unwrap();
    // A port that was free a moment ago and that nobody listens on.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = ask_aws(&hardware, &format!("http://{closed}"), &["us-east-1"], quick()).unwrap_err();
    assert!(matches!(&error, SourceError::Unreachable { place, .. } if place == "us-east-1"), "{error}");
    let proxy = Server::start(|_| Reply::Text(502, "text/html", "<html>bad gateway</html>".to_owned()));
    let error = ask_aws(&hardware, &proxy.endpoint, &["us-east-1"], quick()).unwrap_err();
    assert!(matches!(&error, SourceError::Refused { code, .. } if code == "HTTP 502"), "{error:?}");
    for (status, code) in [(400, "ExpiredToken"), (401, "AuthFailure"), (403, "UnauthorizedOperation")] {
        let server = Server::start(move |_| refusal(status, code));
        let error = ask_aws(&hardware, &server.endpoint, &["us-east-1", "us-west-2"], quick()).unwrap_err();
        assert!(matches!(&error, SourceError::Refused { code: found, .. } if found == code), "{error}");
        assert!(KEYS.iter().all(|key| !error.to_string().contains(key)), "{error}");
    }
}

#[test]
fn an_answer_that_is_no_xml_or_breaks_off_is_no_price() {
    let hardware = Hardware::embedded().unwrap();
    for body in ["", "<html>sign in</html>", "<DescribeSpotPriceHistoryResponse><spotPriceHistorySet><item>"] {
        let server = Server::start(move |_| xml(body.to_owned()));
        match ask_aws(&hardware, &server.endpoint, &["us-east-1"], quick()) {
            Ok(answer) => assert!(answer.offers.is_empty(), "{body}"),
            Err(error) => assert!(matches!(error, SourceError::Malformed { .. }), "{error}"),
        }
    }
}
