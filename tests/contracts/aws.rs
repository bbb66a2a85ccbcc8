//! Every source of AWS over canned answers, over faults, and over moto.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use gpuplan::clouds::ask;
use gpuplan::clouds::ask::all;
use gpuplan::clouds::aws::account::AwsAccount;
use gpuplan::clouds::aws::account::session::{Session, TimeLimits};
use gpuplan::clouds::aws::feeds::addresses::Addresses;
use gpuplan::clouds::aws::feeds::{PriceMaps, SpotAdvisor, SpotFeed};
use gpuplan::clouds::aws::prices::capacity_blocks::CapacityBlocks;
use gpuplan::clouds::aws::prices::on_demand::ListedPrices;
use gpuplan::clouds::aws::prices::placement_scores::PlacementScores;
use gpuplan::clouds::aws::prices::spot_prices::SpotPrices;
use gpuplan::hardware::{CloudId, Hardware};
use gpuplan::market::{
    AccountSource, Availability, BoxFuture, Market, OfferQuery, Origin, PriceAnswer, PriceSource, Purchase, QuotaNeed,
    RiskAnswer, RiskSource, Signal, SourceError, Suspicion, Verdict,
};
use gpuplan::units::UsdPerHour;
use jiff::{SignedDuration, Timestamp};

use gpuplan_testbed::answers::{self, Spot, ec2};
use gpuplan_testbed::moto::Moto;
use gpuplan_testbed::proxy::{Fault, Proxy, Rule};
use gpuplan_testbed::server::{Reply, Request, Server};

pub const TYPES: [&str; 2] = ["p5.48xlarge", "g5.xlarge"];

pub const KEYS: [&str; 2] = ["AKIAEXAMPLE", "top-secret-key"];

pub fn session(endpoint: &str, limits: TimeLimits) -> Session {
    Session::at(endpoint, KEYS[0], KEYS[1], limits)
}

pub fn quick() -> TimeLimits {
    let seconds = Duration::from_secs;
    let (attempt, rent) = (seconds(10), seconds(10));
    TimeLimits { connect: seconds(2), attempt, attempts: 1, rent, answer: seconds(20), credentials: seconds(2) }
}

/// For what answers in its own time on a busy machine.
pub fn patient() -> TimeLimits {
    let minute = Duration::from_mins(1);
    TimeLimits { attempt: minute, rent: minute, answer: 2 * minute, ..quick() }
}

fn query<'a>(hardware: &'a Hardware, types: &[&str], regions: &[&str]) -> OfferQuery<'a> {
    let instances: Vec<_> =
        types.iter().map(|name| hardware.find_instance(&CloudId::new("aws"), name).unwrap()).collect();
    OfferQuery::for_instances(
        hardware,
        regions.iter().map(|region| ((*region).into(), instances.clone())).collect::<BTreeMap<_, _>>(),
    )
}

fn one<T>(question: BoxFuture<'_, Result<T, SourceError>>) -> Result<T, SourceError> {
    all(vec![("aws", question)], &|_| {}).unwrap().remove(0)
}

fn ask_spot(
    hardware: &Hardware,
    endpoint: &str,
    regions: &[&str],
    limits: TimeLimits,
) -> Result<PriceAnswer, SourceError> {
    let source = SpotPrices::new(session(endpoint, limits));
    ask(&[(&source, query(hardware, &TYPES, regions))]).unwrap().remove(0)
}

/// Machine type, zone id or region, rate.
fn found(hardware: &Hardware, answer: &PriceAnswer) -> Vec<(String, String, String)> {
    let row = |offer: &gpuplan::market::Offer| {
        let place = offer.place.zone_id.as_ref().unwrap_or(&offer.place.region);
        (hardware.instance(offer.instance).name.clone(), place.to_string(), offer.quote.rate.to_string())
    };
    let mut rows: Vec<_> = answer.offers.iter().map(row).collect();
    rows.sort();
    rows
}

fn notes(answer: &PriceAnswer) -> Vec<String> {
    answer.notes.iter().map(ToString::to_string).collect()
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

fn item(name: &str, zone: &str, price: &str, days_ago: i64) -> String {
    let time = Timestamp::now() - SignedDuration::from_hours(1 + 24 * days_ago);
    format!(
        "<item><instanceType>{name}</instanceType><productDescription>Linux/UNIX</productDescription><spotPrice>{price}</spotPrice>\
         <timestamp>{time:.3}</timestamp><availabilityZone>{zone}</availabilityZone></item>"
    )
}

fn history(items: &[String], token: &str) -> Reply {
    let set = format!("<spotPriceHistorySet>{}</spotPriceHistorySet><nextToken>{token}</nextToken>", items.concat());
    xml(ec2("DescribeSpotPriceHistory", &set))
}

fn zones() -> Reply {
    let zone = |name: &str, id: &str| format!("<item><zoneName>{name}</zoneName><zoneId>{id}</zoneId></item>");
    let zones =
        [zone("us-east-1a", "use1-az6"), zone("us-east-1b", "use1-az1"), zone("us-east-1-atl-2a", "use1-atl2-az1")];
    xml(ec2("DescribeAvailabilityZones", &format!("<availabilityZoneInfo>{}</availabilityZoneInfo>", zones.concat())))
}

/// us-east-1 answers in two pages and does not say what it lists, us-west-1 is not opted in.
pub fn account(request: &Request) -> Reply {
    if region(request) != "us-east-1" {
        return refusal(401, "AuthFailure");
    }
    if is_action(request, "DescribeAvailabilityZones") {
        return zones();
    }
    if !is_action(request, "DescribeSpotPriceHistory") {
        return refusal(403, "UnauthorizedOperation");
    }
    if request.body.contains("NextToken=more") {
        let rows = [
            item("g5.xlarge", "us-east-1b", "9.0E-4", 0),
            item("g5.xlarge", "us-east-1-atl-2a", "0.600000", 0),
            item("g5.xlarge", "us-east-1z", "0.100000", 0),
        ];
        return history(&rows, "");
    }
    let rows = [
        item("p5.48xlarge", "us-east-1a", "19.253100", 0),
        item("p5.48xlarge", "us-east-1a", "18.000000", 5),
        item("p5.48xlarge", "us-east-1b", "N/A*", 0),
        item("t3.micro", "us-east-1b", "0.003000", 0),
    ];
    history(&rows, "more")
}

#[test]
fn prices_come_by_zone_id_over_all_pages_and_a_closed_region_costs_only_itself() {
    let hardware = Hardware::embedded().unwrap();
    let server = Server::start(account);
    let before = Timestamp::now();
    let answer = ask_spot(&hardware, &server.endpoint, &["us-east-1", "us-west-1"], quick()).unwrap();
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
    assert_eq!(notes.len(), 5, "{notes:?}");
    for start in [
        "us-east-1: machine types could not be compared: refused with UnauthorizedOperation",
        "us-east-1: nobody said which zones list a machine: refused with UnauthorizedOperation",
        "us-east-1b, p5.48xlarge: `N/A*` is not an amount",
        "us-east-1z, g5.xlarge: no zone id is known",
        "us-west-1: refused with AuthFailure: not here (the region may not be enabled",
    ] {
        assert!(notes.iter().any(|note| note.starts_with(start)), "{start}: {notes:?}");
    }
}

#[test]
fn one_question_asks_for_the_price_in_force_of_every_type_and_both_products() {
    let hardware = Hardware::embedded().unwrap();
    let server = Server::start(account);
    ask_spot(&hardware, &server.endpoint, &["us-east-1"], quick()).unwrap();
    let asked = server.asked();
    let history: Vec<_> = asked.iter().filter(|request| is_action(request, "DescribeSpotPriceHistory")).collect();
    assert_eq!(history.len(), 2, "a page each; an empty token is the end");
    let count = |action: &str| asked.iter().filter(|request| is_action(request, action)).count();
    let once = ["DescribeAvailabilityZones", "DescribeInstanceTypeOfferings", "DescribeInstanceTypes"];
    assert!(once.iter().all(|action| count(action) == 1) && asked.len() == 5, "everything else once");
    let body = &history[0].body;
    for part in [
        "InstanceType.1=",
        "InstanceType.2=",
        "ProductDescription.1=Linux%2FUNIX",
        "Linux%2FUNIX%20%28Amazon%20VPC%29",
        "StartTime=",
    ] {
        assert!(body.contains(part), "{part} in {body}");
    }
}

#[test]
fn a_region_that_hangs_is_given_up_and_the_others_are_kept() {
    let hardware = Hardware::embedded().unwrap();
    let server =
        Server::start(|request| if region(request) == "eu-west-1" { Reply::Silence } else { account(request) });
    // Nobody would wait for the server to say something: it never does.
    let limits = TimeLimits { attempt: Duration::from_secs(5), ..quick() };
    let answer = ask_spot(&hardware, &server.endpoint, &["eu-west-1", "us-east-1"], limits).unwrap();
    assert_eq!(answer.offers.len(), 3);
    assert!(
        answer.notes.iter().any(|note| note.place == "eu-west-1" && note.detail.contains("cannot reach")),
        "{:?}",
        answer.notes
    );
}

#[test]
fn where_nothing_answers_it_is_an_error_that_names_no_secret() {
    let hardware = Hardware::embedded().unwrap();
    // A port that was free a moment ago and that nobody listens on.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = ask_spot(&hardware, &format!("http://{closed}"), &["us-east-1"], quick()).unwrap_err();
    assert!(matches!(&error, SourceError::Unreachable { place, .. } if place == "us-east-1"), "{error}");
    let proxy = Server::start(|_| Reply::Text(502, "text/html", "<html>bad gateway</html>".to_owned()));
    let error = ask_spot(&hardware, &proxy.endpoint, &["us-east-1"], quick()).unwrap_err();
    assert!(matches!(&error, SourceError::Refused { code, .. } if code == "HTTP 502"), "{error:?}");
    for (status, code) in [(400, "ExpiredToken"), (401, "AuthFailure"), (403, "UnauthorizedOperation")] {
        let server = Server::start(move |_| refusal(status, code));
        let error = ask_spot(&hardware, &server.endpoint, &["us-east-1", "us-west-2"], quick()).unwrap_err();
        assert!(matches!(&error, SourceError::Refused { code: found, .. } if found == code), "{error}");
        assert!(KEYS.iter().all(|key| !error.to_string().contains(key)), "{error}");
    }
}

#[test]
fn an_answer_that_is_no_xml_or_breaks_off_is_no_price() {
    let hardware = Hardware::embedded().unwrap();
    for body in ["", "<html>sign in</html>", "<DescribeSpotPriceHistoryResponse><spotPriceHistorySet><item>"] {
        let server = Server::start(move |_| xml(body.to_owned()));
        match ask_spot(&hardware, &server.endpoint, &["us-east-1"], quick()) {
            Ok(answer) => assert!(answer.offers.is_empty(), "{body}"),
            Err(error) => assert!(matches!(error, SourceError::Malformed { .. }), "{error}"),
        }
    }
}

/// One zone is the cheapest, one was last repeated days ago, one is far under its neighbours, one does not list the machine.
fn a_market_of_us_east_1() -> Vec<Spot> {
    let spot = |zone, price, hours_ago| Spot { machine: "g5.xlarge", zone, price, hours_ago };
    vec![
        spot("us-east-1a", "0.5100", 2),
        spot("us-east-1b", "0.4200", 1),
        spot("us-east-1b", "0.4600", 30),
        spot("us-east-1b", "0.4700", 31),
        spot("us-east-1c", "0.3900", 70),
        spot("us-east-1d", "0.0500", 3),
        spot("us-east-1e", "0.4900", 3),
    ]
}

#[test]
fn half_pages_give_the_same_prices_as_one_page() {
    let hardware = Hardware::embedded().unwrap();
    let ask_in_pages = |page| {
        let zone = Rule::answer("DescribeAvailabilityZones", |call| {
            let zone = |letter| {
                format!("<item><zoneName>us-east-1{letter}</zoneName><zoneId>use1-az-{letter}</zoneId></item>")
            };
            let zones = ["a", "b", "c", "d", "e"].map(zone).concat();
            call.reply(ec2(
                "DescribeAvailabilityZones",
                &format!("<availabilityZoneInfo>{zones}</availabilityZoneInfo>"),
            ))
        });
        let proxy = Proxy::start(None, vec![answers::spot_history(a_market_of_us_east_1(), page), zone]);
        let source = SpotPrices::new(session(&proxy.endpoint, quick()));
        let answer = ask(&[(&source, query(&hardware, &["g5.xlarge"], &["us-east-1"]).with_history())])
            .unwrap()
            .remove(0)
            .unwrap();
        (found(&hardware, &answer), answer.history.len())
    };
    let whole = ask_in_pages(1000);
    assert_eq!(whole.0.len(), 5);
    assert!(whole.1 == 6 || whole.1 == 7, "two of the seven prices may lie in one window of six hours: {}", whole.1);
    assert_eq!(ask_in_pages(1).0, whole.0);
    assert_eq!(ask_in_pages(2).0, whole.0);
}

#[test]
fn list_prices_come_for_every_region_and_other_money_is_left_out() {
    let hardware = Hardware::embedded().unwrap();
    let rows = vec![
        ("g5.xlarge", "us-east-1", "USD", "1.0060000000"),
        ("g5.xlarge", "us-east-1", "USD", "0.0000000000"),
        ("g5.xlarge", "eu-west-1", "USD", "1.1230000000"),
        ("g5.xlarge", "cn-north-1", "CNY", "9.1000000000"),
        ("p5.48xlarge", "us-east-1", "USD", "55.0400000000"),
    ];
    let proxy = Proxy::start(None, vec![answers::products(rows)]);
    let source = ListedPrices::new(session(&proxy.endpoint, quick()));
    let answer = ask(&[(&source, query(&hardware, &TYPES, &["us-east-1"]))]).unwrap().remove(0).unwrap();
    let expected = [
        ("g5.xlarge", "eu-west-1", "1.123"),
        ("g5.xlarge", "us-east-1", "1.006"),
        ("p5.48xlarge", "us-east-1", "55.04"),
    ];
    assert_eq!(found(&hardware, &answer), expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
    let doubted: Vec<_> =
        answer.offers.iter().filter(|offer| offer.is_suspect()).map(|offer| &*offer.place.region).collect();
    assert_eq!(doubted, ["eu-west-1"], "nobody knows of a zone with it there");
    assert!(answer.offers.iter().all(|offer| offer.purchase == Purchase::OnDemand && offer.place.zone_id.is_none()));
    assert_eq!(notes(&answer), ["g5.xlarge: g5.xlarge in cn-north-1: the price is in CNY, not in USD; it is left out"]);
    assert_eq!(proxy.calls().len(), 2, "one question a machine type");
}

#[test]
fn a_machine_type_whose_list_price_is_refused_costs_only_itself() {
    let hardware = Hardware::embedded().unwrap();
    let rules = vec![
        Rule::on("GetProducts", Fault::Refuse(400, "ThrottlingException", "Rate exceeded")).calls(0..1),
        answers::products(vec![
            ("g5.xlarge", "us-east-1", "USD", "1.006"),
            ("p5.48xlarge", "us-east-1", "USD", "55.04"),
        ]),
    ];
    let proxy = Proxy::start(None, rules);
    let source = ListedPrices::new(session(&proxy.endpoint, quick()));
    let answer = ask(&[(&source, query(&hardware, &TYPES, &["us-east-1"]))]).unwrap().remove(0).unwrap();
    assert_eq!((answer.offers.len(), answer.notes.len()), (1, 1), "{:?}", answer.notes);
    assert!(answer.notes[0].detail.contains("ThrottlingException"), "{:?}", answer.notes);
}

#[test]
fn the_fee_of_a_capacity_block_becomes_a_rate() {
    let hardware = Hardware::embedded().unwrap();
    let rows = vec![
        ("p5.48xlarge", "us-east-1b", 40, "755.1360"),
        ("p5.48xlarge", "us-east-1b", 10, "900"),
        ("p5.48xlarge", "us-east-1a", 10, "0"),
    ];
    let zone = Rule::answer("DescribeAvailabilityZones", |_| zones());
    let proxy = Proxy::start(None, vec![answers::capacity_blocks(rows), zone]);
    let source = CapacityBlocks::new(session(&proxy.endpoint, quick()));
    let answer = ask(&[(&source, query(&hardware, &TYPES, &["us-east-1"]))]).unwrap().remove(0).unwrap();
    assert_eq!(
        found(&hardware, &answer),
        [("p5.48xlarge".to_owned(), "use1-az1".to_owned(), "37.50".to_owned())],
        "the block that starts first"
    );
    assert_eq!(answer.offers[0].purchase, Purchase::CapacityBlock);
    assert_eq!(notes(&answer), ["us-east-1a, p5.48xlarge: a fee of zero is not a valid price; it is left out"]);
    assert!(
        proxy.calls().iter().all(|call| call.parameter("InstanceType").is_none_or(|name| name == "p5.48xlarge")),
        "g5 has no blocks"
    );
}

/// GB200 is sold in racks: asked for as such, and a machine of it costs its share.
#[test]
fn a_rack_of_gb200_is_asked_for_whole() {
    let hardware = Hardware::embedded().unwrap();
    let rack = Rule::answer("DescribeCapacityBlockOfferings", |call| {
        assert_eq!((call.parameter("InstanceType"), call.parameter("InstanceCount")), (None, None));
        let rack = call.parameter("UltraserverType").unwrap();
        let item = format!(
            "<item><capacityBlockOfferingId>cb-1</capacityBlockOfferingId><ultraserverType>{rack}</ultraserverType>\
             <ultraserverCount>1</ultraserverCount><availabilityZone>us-east-1b</availabilityZone><startDate>2026-12-01T11:30:00.000Z</startDate>\
             <capacityBlockDurationHours>24</capacityBlockDurationHours><upfrontFee>8640</upfrontFee><currencyCode>USD</currencyCode></item>"
        );
        let set = format!("<capacityBlockOfferingSet>{item}</capacityBlockOfferingSet>");
        call.reply(ec2("DescribeCapacityBlockOfferings", &set))
    });
    let proxy = Proxy::start(None, vec![rack, Rule::answer("DescribeAvailabilityZones", |_| zones())]);
    let source = CapacityBlocks::new(session(&proxy.endpoint, quick()));
    let question = query(&hardware, &["p6e-gb200.36xlarge"], &["us-east-1"]);
    let answer = ask(&[(&source, question)]).unwrap().remove(0).unwrap();
    let offer = &answer.offers[0];
    let booking = offer.booking.as_deref().unwrap();
    assert_eq!((booking.machines, booking.paid_hours), (9, 24), "{:?}", answer.notes);
    assert_eq!(offer.quote.rate.to_string(), "40.00", "$8,640 over nine machines and 24 hours");
}

#[test]
fn placement_scores_come_by_zone_id_and_say_that_they_read_low() {
    let hardware = Hardware::embedded().unwrap();
    let rows = vec![
        ("g5.xlarge", "us-east-1", "use1-az4", 9),
        ("g5.xlarge", "us-east-1", "use1-az6", 0),
        ("p5.48xlarge", "us-east-1", "use1-az6", 1),
    ];
    let proxy = Proxy::start(None, vec![answers::placement_scores(rows)]);
    let source = PlacementScores::new(session(&proxy.endpoint, quick()));
    let answer: RiskAnswer = one(source.risks(&query(&hardware, &TYPES, &["us-east-1"]))).unwrap();
    let signals: Vec<_> =
        answer.signals.iter().map(|(_, place, signal)| (place.zone_id.as_deref().unwrap(), *signal)).collect();
    assert_eq!(signals.len(), 2, "a score of 0 is none: {signals:?}");
    assert!(signals.contains(&("use1-az4", Signal::PlacementScore(9))));
    assert!(
        answer.notes[0].detail.contains("g5.xlarge, p5.48xlarge, which have fewer alike, read low"),
        "{:?}",
        answer.notes
    );
}

const QUOTAS: [(&str, &str, f64); 4] = [
    ("L-DB2E81BA", "Running On-Demand G and VT instances", 64.0),
    ("L-3819A6DF", "All G and VT Spot Instance Requests", 0.0),
    ("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests", 96.0),
    ("L-C4BD4855", "All P5 Spot Instance Requests", 384.0),
];

fn quota_of(
    account: &AwsAccount,
    hardware: &Hardware,
    name: &str,
    purchase: Purchase,
) -> Result<gpuplan::market::Quota, SourceError> {
    let instance = hardware.instance(hardware.find_instance(&CloudId::new("aws"), name).unwrap());
    let need = QuotaNeed { region: "us-east-1", instance, gpus_per_node: 1.0, gpu: "a10g", purchase, nodes: 2 };
    one(account.quotas(need)).map(|quotas| quotas[0].clone())
}

#[test]
fn each_machine_counts_against_the_quota_that_names_it() {
    let hardware = Hardware::embedded().unwrap();
    let proxy = Proxy::start(None, answers::quotas(QUOTAS.to_vec()));
    let account = AwsAccount::new(session(&proxy.endpoint, quick()));
    let quota = |name, purchase| quota_of(&account, &hardware, name, purchase);
    let spot = quota("g5.xlarge", Purchase::Spot).unwrap();
    assert_eq!(
        (spot.code.as_str(), spot.limit, spot.needed, spot.used, spot.unit),
        ("L-3819A6DF", 0.0, 8.0, None, "vCPUs")
    );
    assert!(spot.blocks());
    let command = "aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-3819A6DF --desired-value 8 --region us-east-1";
    assert_eq!(spot.request, command);
    assert_eq!(quota("p4d.24xlarge", Purchase::Spot).unwrap().code, "L-7212CCBC");
    let p5 = quota("p5.48xlarge", Purchase::Spot).unwrap();
    assert_eq!((p5.code.as_str(), p5.blocks()), ("L-C4BD4855", false));
    for (name, purchase) in [
        ("p6-b200.48xlarge", Purchase::Spot),
        ("p5.48xlarge", Purchase::OnDemand),
        ("p5.48xlarge", Purchase::CapacityBlock),
    ] {
        let error = quota(name, purchase).unwrap_err();
        assert!(
            matches!(&error, SourceError::Refused { code, .. } if code == "UnknownQuota"),
            "nobody says which quota counts: {error}"
        );
    }
}

#[test]
fn a_code_that_aws_gave_to_another_family_is_looked_up_by_name() {
    let hardware = Hardware::embedded().unwrap();
    let rows = vec![
        ("L-C4BD4855", "All X Spot Instance Requests", 8.0),
        ("L-NEW", "All P6 and P5 Spot Instance Requests", 192.0),
    ];
    let proxy = Proxy::start(None, answers::quotas(rows));
    let account = AwsAccount::new(session(&proxy.endpoint, quick()));
    let quota = |name| quota_of(&account, &hardware, name, Purchase::Spot).unwrap();
    assert_eq!((quota("p5.48xlarge").code.as_str(), quota("p6-b200.48xlarge").limit), ("L-NEW", 192.0));
}

/// Documents that anybody may read.
fn public_documents() -> Vec<Rule> {
    let file = |text: &'static str| move |call: &gpuplan_testbed::proxy::Call| call.reply(text.to_owned());
    let feed: serde_json::Value = serde_json::from_str(include_str!("../fixtures/aws/spot_feed.json")).unwrap();
    let mut region = serde_json::json!({"region": "us-east", "instanceTypes": feed["instanceTypes_fragment"]});
    region["instanceTypes"][0]["sizes"] = serde_json::json!([
        {"size": "g5.xlarge", "valueColumns": [{"name": "linux", "prices": {"USD": "9.0E-4"}}]},
        {"size": "p5.48xlarge", "valueColumns": [{"name": "linux", "prices": {"USD": "N/A*"}}]}]);
    let feed = serde_json::json!({"config": {"regions": [region]}}).to_string();
    let maps = "GET /pricing/2.0/meteredUnitMaps/ec2/USD/current/ec2-ondemand-without-sec-sel";
    vec![
        Rule::answer("GET /spot-advisor-data.json", file(include_str!("../fixtures/aws/spot_advisor.json"))),
        Rule::answer("GET /spot.json", move |call| call.reply(feed.clone())),
        Rule::answer(
            "GET /locations/1.0/aws/current/locations.json",
            file(include_str!("../fixtures/aws/places.json")),
        ),
        Rule::answer(
            &format!("{maps}/US%20East%20(N.%20Virginia)/Linux/index.json"),
            file(include_str!("../fixtures/aws/price_map.json")),
        ),
        Rule::answer(&format!("{maps}/EU%20(Ireland)/Linux/index.json"), |call| {
            call.reply("<html>sign in</html>".to_owned())
        }),
    ]
}

#[test]
fn public_documents_are_read_without_an_account() {
    let hardware = Hardware::embedded().unwrap();
    let proxy = Proxy::start(None, public_documents());
    let addresses = Addresses::at(&proxy.endpoint);
    let query = query(&hardware, &TYPES, &["us-east-1", "eu-west-1", "eu-west-2"]);
    let risks = one(SpotAdvisor::new(addresses.clone()).risks(&query)).unwrap();
    assert_eq!((risks.risks.len(), risks.notes.len()), (4, 0));
    let feed = one(SpotFeed::new(addresses.clone()).offers(&query)).unwrap();
    assert_eq!(found(&hardware, &feed), [("g5.xlarge".to_owned(), "us-east-1".to_owned(), "0.0009".to_owned())]);
    assert!(notes(&feed)[0].starts_with("us-east-1, p5.48xlarge: `N/A*` is not an amount"));
    let maps = one(PriceMaps::new(addresses).offers(&query)).unwrap();
    let expected = [("g5.xlarge", "us-east-1", "1.006"), ("p5.48xlarge", "us-east-1", "55.04")];
    assert_eq!(found(&hardware, &maps), expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
    let notes = notes(&maps);
    assert_eq!(notes.len(), 2, "a region that sends a page, one that has no name: {notes:?}");
    assert!(proxy.calls().iter().all(|call| call.region.is_empty()), "nothing is signed");
}

/// Answers with a document and the name of its state, or only that it has not changed.
fn document(request: &Request, state: &'static str, text: &str) -> Reply {
    let kind = format!("application/json\r\nETag: \"{state}\"");
    if request.header("if-none-match") == format!("\"{state}\"") {
        return Reply::Text(304, "application/json", String::new());
    }
    Reply::Text(200, kind.leak(), text.to_owned())
}

#[test]
fn a_public_document_that_has_not_changed_is_not_sent_again() {
    let (hardware, folder) = (Hardware::embedded().unwrap(), tempfile::tempdir().unwrap());
    let (is_new, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let server = Server::start({
        let (is_new, sent) = (Arc::clone(&is_new), Arc::clone(&sent));
        move |request| {
            let map = include_str!("../fixtures/aws/price_map.json");
            let reply = match (request.path.ends_with("locations.json"), is_new.load(Ordering::SeqCst)) {
                (true, _) => document(request, "places", include_str!("../fixtures/aws/places.json")),
                (false, false) => document(request, "first", map),
                (false, true) => document(request, "second", &map.replace("1.0060000000", "1.1000000000")),
            };
            if let Reply::Text(200, ..) = reply {
                sent.fetch_add(1, Ordering::SeqCst);
            }
            reply
        }
    });
    let source = PriceMaps::new(Addresses::at(&server.endpoint));
    let documents = Some(folder.path().join("documents"));
    let query = OfferQuery { documents, ..query(&hardware, &["g5.xlarge"], &["us-east-1"]) };
    let ask = || found(&hardware, &one(source.offers(&query)).unwrap());
    let first = ask();
    assert_eq!((first[0].2.as_str(), sent.load(Ordering::SeqCst)), ("1.006", 2));
    assert_eq!((ask(), sent.load(Ordering::SeqCst)), (first, 2), "two questions, and no document");
    is_new.store(true, Ordering::SeqCst);
    assert_eq!((ask()[0].2.as_str(), sent.load(Ordering::SeqCst)), ("1.10", 3), "the one that changed");
    for file in std::fs::read_dir(folder.path().join("documents")).unwrap() {
        std::fs::write(file.unwrap().path(), "damaged").unwrap();
    }
    assert_eq!((ask()[0].2.as_str(), sent.load(Ordering::SeqCst)), ("1.10", 5), "a damaged copy is no copy");
    assert_eq!(server.asked().len(), 8);
}

/// Every source of prices but the spot history, each with something to sell and something that cannot be read.
pub fn other_price_sources() -> (Proxy, Vec<Box<dyn PriceSource>>) {
    let mut rules = public_documents();
    rules.push(answers::products(vec![
        ("g5.xlarge", "us-east-1", "USD", "1.006"),
        ("p5.48xlarge", "us-east-1", "CNY", "500"),
    ]));
    rules.push(answers::capacity_blocks(vec![
        ("p5.48xlarge", "us-east-1a", 10, "900"),
        ("p5.48xlarge", "us-east-1b", 10, "N/A"),
    ]));
    rules.push(Rule::answer("DescribeAvailabilityZones", |_| zones()));
    let proxy = Proxy::start(None, rules);
    let (session, addresses) = (session(&proxy.endpoint, quick()), Addresses::at(&proxy.endpoint));
    let sources: Vec<Box<dyn PriceSource>> = vec![
        Box::new(ListedPrices::new(session.clone())),
        Box::new(CapacityBlocks::new(session)),
        Box::new(SpotFeed::new(addresses.clone())),
        Box::new(PriceMaps::new(addresses)),
    ];
    (proxy, sources)
}

#[test]
fn no_secret_stands_in_an_error_a_note_or_an_answer() {
    let hardware = Hardware::embedded().unwrap();
    let query = query(&hardware, &TYPES, &["us-east-1", "eu-west-1"]);
    let echo = "signed AKIAEXAMPLE with top-secret-key";
    for (status, code) in
        [(403, "SignatureDoesNotMatch"), (400, "SomethingNew"), (401, "AuthFailure"), (400, "top-secret-key")]
    {
        let proxy = Proxy::start(None, vec![Rule::on("*", Fault::Refuse(status, code, echo))]);
        let session = session(&proxy.endpoint, quick());
        let account = AwsAccount::new(session.clone());
        let said = [
            format!("{:?}", one(SpotPrices::new(session.clone()).offers(&query.clone().with_history()))),
            format!("{:?}", one(ListedPrices::new(session.clone()).offers(&query))),
            format!("{:?}", one(CapacityBlocks::new(session.clone()).offers(&query))),
            format!("{:?}", one(PlacementScores::new(session).risks(&query))),
            format!("{:?}", one(account.identity())),
            format!("{:?}", one(account.permissions("us-east-1"))),
            format!("{:?}", quota_of(&account, &hardware, "g5.xlarge", Purchase::Spot)),
        ];
        for said in said {
            assert!(said.contains("[redacted]"), "the server repeats the keys: {said}");
            assert!(KEYS.iter().all(|key| !said.contains(key)), "{said}");
        }
    }
}

/// The first answer comes only when every region has been asked.
#[test]
fn all_regions_are_asked_at_the_same_time() {
    let hardware = Hardware::embedded().unwrap();
    let market = Market::embedded(&hardware).unwrap();
    let query = OfferQuery::known(&market, &hardware, &CloudId::new("aws"));
    let regions = query.wanted.len();
    let all_asked = std::sync::Barrier::new(regions);
    let rules = vec![
        Rule::answer("DescribeSpotPriceHistory", move |call| {
            if call.number == 0 {
                all_asked.wait();
            }
            let rows = call.parameters("InstanceType").into_iter().map(|name| {
                let zoned = format!("<availabilityZoneId>{}-az1</availabilityZoneId></item>", call.region);
                item(&name, &format!("{}a", call.region), "1.25", 0).replace("</item>", &zoned)
            });
            history(&rows.collect::<Vec<_>>(), "")
        }),
        Rule::answer("DescribeInstanceTypes", |call| call.reply(ec2(&call.action, "<instanceTypeSet/>"))),
        Rule::on("DescribeInstanceTypeOfferings", Fault::Refuse(403, "UnauthorizedOperation", "no")),
    ];
    let proxy = Proxy::start(None, rules);
    let source = SpotPrices::new(session(&proxy.endpoint, patient()));
    let answer = ask(&[(&source, query.clone())]).unwrap().remove(0).unwrap();
    assert!(
        regions > 10 && answer.offers.len() > regions,
        "{} offers of {regions} regions: {:?}",
        answer.offers.len(),
        answer.notes
    );
    let answered: std::collections::BTreeSet<_> = answer.offers.iter().map(|offer| &offer.place.region).collect();
    assert_eq!(answered.len(), regions, "{:?}", answer.notes);
}

/// All that needs moto, on one moto, since it takes seconds to start.
#[test]
fn aws_over_moto() {
    let Some(moto) = Moto::start("aws_over_moto") else { return };
    moto.open(["us-east-1", "us-west-2", "eu-west-1", "eu-central-1", "ap-northeast-1"]);
    let hardware = Hardware::embedded().unwrap();
    the_cheapest_zone_is_found_and_the_stale_one_named(&moto, &hardware);
    constant_prices_of_2006_are_doubted(&moto, &hardware);
    faults_cost_only_their_region(&moto, &hardware);
    the_account_says_who_it_is_and_what_it_may(&moto, &hardware);
}

fn the_cheapest_zone_is_found_and_the_stale_one_named(moto: &Moto, hardware: &Hardware) {
    let proxy = Proxy::start(Some(moto.address.clone()), vec![answers::spot_history(a_market_of_us_east_1(), 3)]);
    let source = SpotPrices::new(session(&proxy.endpoint, patient()));
    let answer = ask(&[(&source, query(hardware, &["g5.xlarge"], &["us-east-1"]))]).unwrap().remove(0).unwrap();
    // moto's zones: a az6, b az1, c az2, d az4, e az3, of which az3 does not list the machine.
    assert!(
        notes(&answer).iter().any(|note| note.starts_with("us-east-1e, g5.xlarge: the zone does not list")),
        "{:?}",
        answer.notes
    );
    assert_eq!(answer.offers.len(), 4, "{:?}", answer.offers);
    assert!(answer.offers.iter().all(|offer| offer.availability == Availability::Listed));
    let stale: Vec<_> = answer.offers.iter().filter(|offer| offer.suspicions == [Suspicion::NotRepeated]).collect();
    assert_eq!((stale.len(), stale[0].quote.rate), (1, UsdPerHour::parse("0.39").unwrap()));
    let age = stale[0].quote.age(Timestamp::now()).0;
    assert!((69.9..70.1).contains(&age), "its age is that of its row: {age}");
    assert!(
        !notes(&answer).iter().any(|note| note.contains("AWS says")),
        "moto's figures are the catalog's: {:?}",
        answer.notes
    );
    let market = Market::embedded(hardware).unwrap().merged(answer.offers, hardware);
    let id = hardware.find_instance(&CloudId::new("aws"), "g5.xlarge").unwrap();
    let is_here = |offer: &&gpuplan::market::Offer| offer.instance == id && &*offer.place.region == "us-east-1";
    let live: Vec<_> =
        market.offers().iter().filter(is_here).filter(|offer| offer.quote.origin == Origin::Live).collect();
    let suspect = live.iter().find(|offer| offer.quote.rate == UsdPerHour::parse("0.05").unwrap()).unwrap();
    assert!(suspect.is_suspect(), "{suspect:?}");
    let best = live.iter().filter(|offer| !offer.is_suspect()).min_by_key(|offer| offer.quote.rate).unwrap();
    assert_eq!(
        (best.quote.rate.to_string().as_str(), best.place.zone_id.as_deref()),
        ("0.42", Some("use1-az1")),
        "{live:?}"
    );
}

fn constant_prices_of_2006_are_doubted(moto: &Moto, hardware: &Hardware) {
    let source = SpotPrices::new(session(&format!("http://{}", moto.address), patient()));
    let answer = ask(&[(&source, query(hardware, &TYPES, &["us-east-1"]))]).unwrap().remove(0).unwrap();
    assert!(!answer.offers.is_empty());
    for offer in &answer.offers {
        assert!(offer.suspicions.contains(&Suspicion::NotRepeated), "{offer:?}");
        assert_eq!(offer.quote.observed_at, "2006-01-02T15:04:05Z".parse().unwrap());
    }
}

fn faults_cost_only_their_region(moto: &Moto, hardware: &Hardware) {
    let history = "DescribeSpotPriceHistory";
    let spot = |zone| Spot { machine: "g5.xlarge", zone, price: "0.5", hours_ago: 1 };
    let zones = ["us-east-1a", "us-west-2a", "eu-west-1a", "eu-central-1a", "ap-northeast-1a"];
    let rules = vec![
        Rule::on(history, Fault::Refuse(503, "RequestLimitExceeded", "Request limit exceeded."))
            .region("us-west-2")
            .calls(0..1),
        Rule::on(history, Fault::CutInHalf).region("eu-west-1"),
        Rule::on(history, Fault::Hang).region("eu-central-1"),
        Rule::on(history, Fault::Refuse(503, "RequestLimitExceeded", "Request limit exceeded."))
            .region("ap-northeast-1"),
        answers::spot_history(zones.map(spot).to_vec(), 1000),
    ];
    let proxy = Proxy::start(Some(moto.address.clone()), rules);
    let limits = TimeLimits { attempts: 2, attempt: Duration::from_secs(15), ..quick() };
    let source = SpotPrices::new(session(&proxy.endpoint, limits));
    let regions = ["us-east-1", "us-west-2", "eu-west-1", "eu-central-1", "ap-northeast-1"];
    let answer = ask(&[(&source, query(hardware, &["g5.xlarge"], &regions))]).unwrap().remove(0).unwrap();
    let mut answered: Vec<_> = answer.offers.iter().map(|offer| &*offer.place.region).collect();
    answered.sort_unstable();
    assert_eq!(answered, ["us-east-1", "us-west-2"], "a busy region is asked again: {:?}", answer.notes);
    let failed: Vec<_> = answer.notes.iter().map(|note| note.place.as_str()).collect();
    assert_eq!(failed, ["ap-northeast-1", "eu-central-1", "eu-west-1"], "{:?}", answer.notes);
    for (code, hint) in [
        ("ExpiredToken", "sign in again"),
        ("RequestExpired", "check the clock"),
        ("SignatureDoesNotMatch", "check the clock"),
    ] {
        let rules = vec![
            Rule::on(history, Fault::Refuse(400, code, "no")).region("us-west-2"),
            answers::spot_history(zones.map(spot).to_vec(), 1000),
        ];
        let proxy = Proxy::start(Some(moto.address.clone()), rules);
        let source = SpotPrices::new(session(&proxy.endpoint, patient()));
        let error = ask(&[(&source, query(hardware, &["g5.xlarge"], &["us-east-1", "us-west-2"]))])
            .unwrap()
            .remove(0)
            .unwrap_err();
        assert!(error.to_string().contains(hint), "void credentials end the whole question: {error}");
    }
}

fn the_account_says_who_it_is_and_what_it_may(moto: &Moto, hardware: &Hardware) {
    let mut rules = answers::quotas(QUOTAS.to_vec());
    rules.push(Rule::on(
        "DescribeSubnets",
        Fault::Refuse(403, "UnauthorizedOperation", "You are not authorized to perform this operation."),
    ));
    let proxy = Proxy::start(Some(moto.address.clone()), rules);
    let account = AwsAccount::new(session(&proxy.endpoint, patient()));
    let identity = one(account.identity()).unwrap();
    assert_eq!(identity.account, "123456789012");
    let permissions = one(account.permissions("us-east-1")).unwrap();
    let denied: Vec<_> = permissions
        .iter()
        .filter(|it| matches!(it.verdict, Verdict::Denied { .. }))
        .map(|it| it.action.as_str())
        .collect();
    assert_eq!(denied, ["ec2:DescribeSubnets"], "{permissions:?}");
    let unknown: Vec<_> = permissions
        .iter()
        .filter(|it| matches!(it.verdict, Verdict::Unknown { .. }))
        .map(|it| it.action.as_str())
        .collect();
    let not_in_moto = ["iam:PassRole", "ec2:CreatePlacementGroup", "ec2:DeletePlacementGroup"];
    let (fleets, others): (Vec<&str>, Vec<&str>) =
        unknown.into_iter().partition(|action| action.contains("Fleet") || action.contains("Template"));
    assert_eq!(others, not_in_moto, "there is no such role, and moto knows no such groups: {permissions:?}");
    assert!(fleets.len() < 6, "of fleets and templates moto answers some dry runs: {permissions:?}");
    let of_fleets = permissions.iter().filter(|it| it.needed_for == "--keep-alive and --any-zone").count();
    assert_eq!(of_fleets, 6, "{permissions:?}");
    assert!(
        proxy
            .calls()
            .iter()
            .filter(|call| call.region == "us-east-1" && !call.action.starts_with("GetCaller"))
            .all(|call| call.parameter("DryRun").as_deref() == Some("true"))
    );
    let quota = quota_of(&account, hardware, "g5.xlarge", Purchase::OnDemand).unwrap();
    assert_eq!((quota.used, quota.limit, quota.blocks()), (Some(0.0), 64.0, false));
}
