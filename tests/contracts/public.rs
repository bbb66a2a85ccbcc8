//! Clouds that are asked over plain HTTP, over canned answers: Azure, Lambda, RunPod, Vast, Verda, Oracle, Vultr, Akamai, Scaleway, DigitalOcean, Hyperstack, JarvisLabs.

use std::collections::BTreeMap;

use gpuplan::clouds::akamai::linode::Linode;
use gpuplan::clouds::ask::all;
use gpuplan::clouds::azure::eviction_rates::EvictionRates;
use gpuplan::clouds::azure::retail_prices::RetailPrices;
use gpuplan::clouds::digitalocean::droplet_sizes::DropletSizes;
use gpuplan::clouds::hyperstack::Hyperstack;
use gpuplan::clouds::jarvis_labs::Servers as JarvisLabs;
use gpuplan::clouds::lambda::instance_types::InstanceTypes as Lambda;
use gpuplan::clouds::oci::cost_estimator::CostEstimator;
use gpuplan::clouds::runpod::gpu_types::GpuTypes;
use gpuplan::clouds::scaleway::instances::Instances as Scaleway;
use gpuplan::clouds::vast::machines::Machines as Vast;
use gpuplan::clouds::verda::instance_types::InstanceTypes as Verda;
use gpuplan::clouds::vultr::gpu_plans::GpuPlans;
use gpuplan::clouds::{ask, sources};
use gpuplan::hardware::sheet::DESCRIBED;
use gpuplan::hardware::{CloudId, Hardware};
use gpuplan::market::{
    Availability, MachineList, MachineSource, OfferQuery, PriceAnswer, PriceSource, Purchase, RiskSource, Signal,
    SourceError,
};
use serde_json::{Value, json};

use gpuplan_testbed::server::{Reply, Request, Server};

/// A planted key, which no answer may repeat.
pub const KEY: &str = "planted-key-7f3a";
pub const CLIENT: &str = "planted-client-9b1c";

fn says(status: u16, body: &Value) -> Reply {
    Reply::Text(status, "application/json", body.to_string())
}

/// A server that repeats what it was sent, as careless ones do.
fn refuses(request: &Request) -> Reply {
    says(401, &json!({ "error": format!("bad key {} {}", request.header("authorization"), request.body) }))
}

fn query<'a>(hardware: &'a Hardware, regions: &[&str]) -> OfferQuery<'a> {
    OfferQuery::for_instances(hardware, regions.iter().map(|region| ((*region).into(), Vec::new())).collect())
}

fn answer_of(source: &dyn PriceSource, regions: &[&str]) -> Result<PriceAnswer, SourceError> {
    let hardware = Hardware::embedded().unwrap();
    ask(&[(source, query(&hardware, regions))]).unwrap().remove(0)
}

fn machines_of(source: &dyn MachineSource) -> Result<MachineList, SourceError> {
    let hardware = Hardware::embedded().unwrap();
    let known = query(&hardware, &["eastus"]);
    all(vec![("list", source.machines(&known))], &|_| {}).unwrap().remove(0)
}

fn assert_hides_keys(error: &SourceError) {
    for said in [error.to_string(), format!("{error:?}")] {
        assert!(!said.contains(KEY) && !said.contains(CLIENT), "{said}");
    }
}

fn azure_row(region: &str, price: &Value, name: &str) -> Value {
    json!({
        "currencyCode": "USD", "retailPrice": price, "armRegionName": region, "effectiveStartDate": "2026-01-01T00:00:00Z",
        "meterName": name, "productName": "Virtual Machines NDsrH100v5 Series", "skuName": name,
        "unitOfMeasure": "1 Hour", "type": "Consumption", "armSkuName": "Standard_ND96isr_H100_v5", "someNewField": {}
    })
}

/// eastus answers in two pages, the second with a price of zero; westus3 is broken.
pub fn azure(request: &Request) -> Reply {
    if request.path.contains("armRegionName%20eq%20%27westus3%27") {
        return says(400, &json!({ "Error": "no such region" }));
    }
    if request.path.ends_with("$skip=1000") {
        let rows = [azure_row("eastus", &json!(29.5), "ND96isr H100 v5 Spot"), json!("no row at all")];
        return says(200, &json!({ "Items": rows, "NextPageLink": null }));
    }
    let link = "https://prices.azure.com:443/api/retail/prices?api-version=2023-01-01-preview&$skip=1000";
    says(200, &json!({ "Items": [azure_row("eastus", &json!(98.32), "ND96isr H100 v5")], "NextPageLink": link }))
}

#[test]
fn azure_follows_pages_on_its_own_host_and_a_broken_region_costs_only_itself() {
    let server = Server::start(azure);
    let answer = answer_of(&RetailPrices::at(&server.endpoint), &["eastus", "westus3"]).unwrap();
    let found: Vec<_> = answer.offers.iter().map(|offer| (offer.purchase, offer.quote.rate.to_string())).collect();
    assert_eq!(found, [(Purchase::OnDemand, "98.32".to_owned()), (Purchase::Spot, "29.50".to_owned())]);
    let notes: Vec<String> = answer.notes.iter().map(ToString::to_string).collect();
    assert!(
        notes[0].starts_with("westus3: refused with 400")
            && notes[1] == "eastus: 1 rows cannot be read; they are left out",
        "{notes:?}"
    );
    assert!(server.asked().iter().all(|request| request.path.starts_with("/api/retail/prices?")));
}

/// Sizes come by family over all regions, in pages; without one family nobody knows what a region lacks.
#[test]
fn azure_lists_its_sizes_before_it_prices_them() {
    let answer = |broken: &'static str| {
        move |request: &Request| {
            if !broken.is_empty() && request.path.contains(broken) {
                return says(503, &json!({ "Error": "busy" }));
            }
            let row = |region: &str, size: &str| {
                let mut row = azure_row(region, &json!(9.0), "x");
                row["armSkuName"] = json!(size);
                row
            };
            let (rows, link) = if request.path.ends_with("$skip=1000") {
                (vec![row("mexicocentral", "Standard_ND96isrf_H200_v5")], Value::Null)
            } else if request.path.contains("Standard_ND") {
                let link = "https://prices.azure.com/api/retail/prices?$skip=1000";
                (vec![row("eastus", "Standard_ND96isr_H100_v5"), row("eastus", "Standard_ND1_Odd_v9")], json!(link))
            } else {
                (Vec::new(), Value::Null)
            };
            says(200, &json!({ "Items": rows, "NextPageLink": link }))
        }
    };
    let server = Server::start(answer(""));
    let list = machines_of(&RetailPrices::at(&server.endpoint)).unwrap();
    let pools: Vec<(&str, usize)> = list.regions.iter().map(|(region, names)| (&**region, names.len())).collect();
    assert_eq!(pools, [("eastus", 2), ("mexicocentral", 1)], "a region that no catalog has a price of");
    assert_eq!(list.sheets[0].name, "Standard_ND96isrf_H200_v5");
    assert!(list.notes[0].detail.contains("Standard_ND1_Odd_v9"), "{:?}", list.notes);
    let mut asked: Vec<String> = server.asked().into_iter().map(|request| request.path).collect();
    asked.sort();
    assert_eq!(asked.len(), 5, "four families and a second page: {asked:?}");
    let server = Server::start(answer("Standard_NV"));
    assert!(machines_of(&RetailPrices::at(&server.endpoint)).is_err());
}

/// Lists of clouds that name GPUs: what the catalog has is no news, a GPU that nobody knows is.
#[test]
fn clouds_that_name_gpus_are_asked_for_new_ones() {
    let hardware = Hardware::embedded().unwrap();
    let known: Vec<(Box<dyn MachineSource>, Server)> = vec![
        with(runpod, |at| Box::new(GpuTypes::at(at, KEY))),
        with(vast, |at| Box::new(Vast::at(at))),
        with(verda, |at| Box::new(Verda::at(at, CLIENT, KEY))),
        with(oci, |at| Box::new(CostEstimator::at(at))),
    ];
    for (source, _server) in &known {
        let list = machines_of(source.as_ref()).unwrap();
        assert!(list.sheets.is_empty() && list.regions.is_empty(), "{:?}", list.sheets);
    }
    let new = |text: Reply| match text {
        Reply::Text(status, kind, body) => {
            let body = ["NVIDIA H100 80GB HBM3", "H100 SXM5", "H100 SXM"]
                .into_iter()
                .fold(body, |body, name| body.replace(name, "VERA Q7"));
            Reply::Text(status, kind, body.replace("BM.GPU.H100.8", "BM.GPU.VERA.8"))
        }
        other => other,
    };
    let renamed: Vec<(Box<dyn MachineSource>, Server)> = vec![
        with(move |request| new(runpod(request)), |at| Box::new(GpuTypes::at(at, KEY))),
        with(move |request| new(vast(request)), |at| Box::new(Vast::at(at))),
        with(move |request| new(verda(request)), |at| Box::new(Verda::at(at, CLIENT, KEY))),
        with(move |request| new(oci(request)), |at| Box::new(CostEstimator::at(at))),
    ];
    for (source, _server) in &renamed {
        let cloud = CloudId::new(source.about().cloud);
        let mut list = machines_of(source.as_ref()).unwrap();
        let mut taught = hardware.clone();
        list.teach(&cloud, &mut taught);
        let learnt: Vec<_> =
            taught.instances().iter().filter(|it| it.cloud == cloud && it.source == DESCRIBED).collect();
        assert!(!learnt.is_empty(), "{cloud}: {:?}", list.notes);
        assert!(learnt.iter().all(|it| taught.gpu(it.node.gpu).is_assumed()), "{cloud}");
    }
}

fn with<F>(answers: F, source: fn(&str) -> Box<dyn MachineSource>) -> (Box<dyn MachineSource>, Server)
where
    F: Fn(&Request) -> Reply + Send + Sync + 'static,
{
    let server = Server::start(answers);
    (source(&server.endpoint), server)
}

#[test]
fn azure_does_not_follow_a_link_to_another_host() {
    let stranger = Server::start(|_| says(200, &json!({ "Items": [] })));
    let link = format!("{}/api/retail/prices", stranger.endpoint);
    let server = Server::start(move |_| says(200, &json!({ "Items": [], "NextPageLink": link })));
    let error = answer_of(&RetailPrices::at(&server.endpoint), &["eastus"]).unwrap_err();
    assert!(matches!(&error, SourceError::Malformed { field, .. } if field == "NextPageLink"), "{error}");
    assert!(stranger.asked().is_empty());
}

#[test]
fn azure_eviction_bands_come_over_all_pages_with_a_token() {
    let server = Server::start(|request| {
        if request.header("authorization") != format!("Bearer {KEY}") {
            return refuses(request);
        }
        let row = |location: &str, rate: &str| json!({ "sku": "standard_nd96isr_h100_v5", "location": location, "rate": rate, "id": "x" });
        if request.body.contains("\"$skipToken\":\"more\"") {
            return says(200, &json!({ "data": [row("westus3", "20+")] }));
        }
        says(200, &json!({ "data": [row("eastus", "0-5")], "$skipToken": "more", "resultTruncated": "false" }))
    });
    let hardware = Hardware::embedded().unwrap();
    let query = query(&hardware, &["eastus"]);
    let asked = |token: &str| {
        let source = EvictionRates::at(&server.endpoint, token);
        all(vec![("azure", source.risks(&query))], &|_| {}).unwrap().remove(0)
    };
    let answer = asked(KEY).unwrap();
    let found: BTreeMap<_, _> =
        answer.signals.iter().map(|(_, place, signal)| (place.region.to_string(), *signal)).collect();
    assert_eq!(found["eastus"], Signal::HourlyEvictionPercent { low: 0, high: 5 });
    assert_eq!(found["westus3"], Signal::HourlyEvictionPercent { low: 20, high: 100 });
    assert_hides_keys(&asked(CLIENT).unwrap_err());
}

/// One machine somewhere, one nowhere, one without a price, one that is not in the catalog.
pub fn lambda(request: &Request) -> Reply {
    if request.path != "/api/v1/instance-types" || request.header("authorization") != format!("Bearer {KEY}") {
        return refuses(request);
    }
    let machine = |cents: Value, gpus: u32, regions: &[&str]| {
        let regions: Vec<Value> =
            regions.iter().map(|name| json!({ "name": name, "description": "Somewhere" })).collect();
        let specs = json!({ "vcpus": 26, "memory_gib": 200, "storage_gib": 512, "gpus": gpus });
        let kind = json!({ "description": format!("{gpus}x H100 (80 GB SXM5)"), "price_cents_per_hour": cents, "specs": specs });
        json!({ "instance_type": kind, "regions_with_capacity_available": regions })
    };
    says(
        200,
        &json!({ "data": {
            "gpu_8x_h100_sxm5": machine(json!(3192), 8, &["us-east-1", "us-west-2"]), "gpu_1x_h100_sxm5": machine(json!(429), 1, &[]),
            "gpu_1x_a10": machine(json!(null), 1, &["us-east-1"]), "gpu_1x_x900": machine(json!(1), 1, &["us-east-1"]),
        } }),
    )
}

#[test]
fn lambda_says_what_is_somewhere_and_what_is_nowhere() {
    let server = Server::start(lambda);
    let answer = answer_of(&Lambda::at(&server.endpoint, KEY), &[]).unwrap();
    let found: Vec<_> = answer.offers.iter().map(|offer| (&*offer.place.region, offer.availability)).collect();
    let expected =
        [("any", Availability::SoldOut), ("us-east-1", Availability::Seen), ("us-west-2", Availability::Seen)];
    assert_eq!(found, expected);
    let notes: Vec<String> = answer.notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        ["us-east-1, gpu_1x_a10: the price is missing", "lambda: 1 machine type is not in the catalog: gpu_1x_x900"]
    );
}

#[test]
fn keys_are_asked_for_and_never_shown() {
    let server = Server::start(refuses);
    for (source, variable) in [
        (Box::new(Lambda::at(&server.endpoint, "")) as Box<dyn PriceSource>, "LAMBDA_API_KEY"),
        (Box::new(Verda::at(&server.endpoint, "", KEY)), "VERDA_CLIENT_ID"),
        (Box::new(Verda::at(&server.endpoint, CLIENT, "")), "VERDA_CLIENT_SECRET"),
    ] {
        assert_eq!(answer_of(&*source, &[]).unwrap_err(), SourceError::MissingCredentials { variable });
    }
    assert!(server.asked().is_empty(), "nothing is asked without a key");
    for source in [
        Box::new(Lambda::at(&server.endpoint, KEY)) as Box<dyn PriceSource>,
        Box::new(Verda::at(&server.endpoint, CLIENT, KEY)),
        Box::new(GpuTypes::at(&server.endpoint, KEY)),
    ] {
        let error = answer_of(&*source, &[]).unwrap_err();
        assert!(matches!(&error, SourceError::Refused { code, .. } if code == "401"), "{error}");
        assert_hides_keys(&error);
    }
    assert_eq!(server.asked().len(), 3);
}

/// Two data centres; one has eight H100, the other is broken.
pub fn runpod(request: &Request) -> Reply {
    let body: Value = serde_json::from_str(&request.body).unwrap();
    if body["query"].as_str().unwrap().contains("dataCenters") {
        let places = json!([{ "id": "EU-RO-1", "listed": true }, { "id": "US-KS-2", "listed": true }, { "id": "XX-OLD", "listed": false }]);
        return says(200, &json!({ "data": { "dataCenters": places } }));
    }
    if body["variables"]["place"] == "US-KS-2" {
        return says(200, &json!({ "data": null, "errors": [{ "message": format!("no such place for {KEY}") }] }));
    }
    let gpu = json!({ "id": "NVIDIA H100 80GB HBM3", "memoryInGb": 80, "secureCloud": true, "securePrice": 3.29, "maxGpuCountSecureCloud": 8,
        "x1": { "minimumBidPrice": 2.69, "stockStatus": "Low" }, "x8": { "minimumBidPrice": null, "stockStatus": "High" } });
    says(200, &json!({ "data": { "gpuTypes": [gpu] } }))
}

#[test]
fn runpod_asks_every_listed_data_centre_and_claims_nothing_about_a_broken_one() {
    let server = Server::start(runpod);
    let answer = answer_of(&GpuTypes::at(&server.endpoint, KEY), &[]).unwrap();
    let found: Vec<_> =
        answer.offers.iter().map(|offer| (offer.purchase, offer.quote.rate.to_string(), offer.availability)).collect();
    let expected = [
        (Purchase::OnDemand, "3.29".to_owned(), Availability::Seen),
        (Purchase::Spot, "2.69".to_owned(), Availability::Unknown),
        (Purchase::OnDemand, "26.32".to_owned(), Availability::Seen),
    ];
    assert_eq!(found, expected, "nothing is called sold out while a data centre has not answered");
    assert_eq!(answer.notes[0].to_string(), "US-KS-2: refused with GraphQL: no such place for [redacted]");
    assert_eq!(server.asked().len(), 3);
}

pub fn vast(request: &Request) -> Reply {
    let body: Value = serde_json::from_str(&request.body).unwrap();
    assert_eq!(body["verified"], json!({ "eq": true }));
    let machine = |id: u32, price: f64, reliability: f64| {
        json!({ "id": id, "gpu_name": "H100 SXM", "num_gpus": 8, "gpu_ram": 81559, "dph_base": price, "min_bid": 8.0, "storage_cost": 0.1,
                "disk_space": 2000.0, "geolocation": "Iceland, IS", "reliability2": reliability, "rentable": true, "rented": false })
    };
    says(200, &json!({ "offers": [machine(1, 17.5, 0.999), machine(2, 16.0, 0.95), machine(3, 16.5, 0.99), 5] }))
}

/// One machine in one location; the stock of spot is not told.
pub fn verda(request: &Request) -> Reply {
    if request.path == "/v1/oauth2/token" {
        let body: Value = serde_json::from_str(&request.body).unwrap();
        assert_eq!((body["client_id"].as_str(), body["client_secret"].as_str()), (Some(CLIENT), Some(KEY)));
        return says(200, &json!({ "access_token": "planted-token-2d4e", "token_type": "Bearer", "expires_in": 3600 }));
    }
    if request.header("authorization") != "Bearer planted-token-2d4e" {
        return refuses(request);
    }
    match request.path.as_str() {
        "/v1/instance-types?currency=usd" => {
            let machine = json!({ "instance_type": "8H100.80S.176V", "gpu": { "description": "8x H100 SXM5 80GB", "number_of_gpus": 8 },
                "gpu_memory": { "size_in_gigabytes": 640 }, "currency": "usd", "price_per_hour": "18.32", "spot_price": "6.40" });
            says(200, &json!([machine]))
        }
        "/v1/instance-availability?is_spot=false" => {
            says(200, &json!([{ "location_code": "FIN-01", "availabilities": ["8H100.80S.176V"] }]))
        }
        _ => refuses(request),
    }
}

/// Shaped as Hyperstack's published SDK declares its answers.
fn hyperstack(request: &Request) -> Reply {
    if request.header("api_key") != KEY {
        return refuses(request);
    }
    match request.path.as_str() {
        "/v1/core/flavors" => {
            let flavor = |name: &str, gpus: u32| json!({ "name": name, "gpu_count": gpus, "cpu": 24, "ram": 240, "stock_available": true });
            let group = json!({ "gpu": "H100-80G-SXM5", "region_name": "CANADA-1",
                "flavors": [flavor("n3-H100-SXM5x1", 1), flavor("n3-H100-SXM5x8", 8)] });
            says(200, &json!({ "status": true, "message": "ok", "data": [group] }))
        }
        "/v1/pricebook" => {
            says(200, &json!([{ "name": "H100-80G-SXM5", "value": 3.2 }, { "name": "vCPU", "value": 0 }]))
        }
        _ => refuses(request),
    }
}

#[test]
fn hyperstack_prices_keep_the_contract() {
    let source = |endpoint: &str| Box::new(Hyperstack::at(endpoint, KEY)) as _;
    super::keeps_the_contract(hyperstack, source, &["h100-sxm.1x"], &["CANADA-1"]);
    let server = Server::start(hyperstack);
    let found = machines_of(&Hyperstack::at(&server.endpoint, KEY)).unwrap().sheets;
    assert_eq!(found.iter().map(|sheet| (&*sheet.gpu, &*sheet.gpus)).collect::<Vec<_>>(), [("h100-sxm5-80", "8")]);
    for key in ["", "another"] {
        assert_hides_keys(&answer_of(&Hyperstack::at(&server.endpoint, key), &[]).unwrap_err());
    }
}

fn jarvis_labs(request: &Request) -> Reply {
    let is_asked = request.path == "/misc/server_meta" && request.header("authorization") == format!("Bearer {KEY}");
    if is_asked {
        let recorded = include_str!("../fixtures/jarvis_labs/server_meta.json");
        return Reply::Text(200, "application/json", recorded.to_owned());
    }
    refuses(request)
}

#[test]
fn jarvis_labs_prices_keep_the_contract() {
    let source = |endpoint: &str| Box::new(JarvisLabs::at(endpoint, KEY)) as _;
    let regions = ["india-noida-01", "india-chennai-01", "europe-01", "unknown-region"];
    super::keeps_the_contract(jarvis_labs, source, &["l4.1x", "h100-sxm.1x"], &regions);
    let server = Server::start(jarvis_labs);
    let found = machines_of(&JarvisLabs::at(&server.endpoint, KEY)).unwrap().sheets;
    let new = |gpu: &str, gpus: &str| found.iter().any(|sheet| &*sheet.gpu == gpu && &*sheet.gpus == gpus);
    assert!(new("rtx-pro-6000-blackwell-se", "8") && new("l4", "4"), "{found:?}");
    for key in ["", "another"] {
        assert_hides_keys(&answer_of(&JarvisLabs::at(&server.endpoint, key), &[]).unwrap_err());
    }
}

#[test]
fn verda_signs_in_and_an_unknown_stock_is_said_to_be_unknown() {
    let server = Server::start(verda);
    let answer = answer_of(&Verda::at(&server.endpoint, CLIENT, KEY), &[]).unwrap();
    let found: Vec<_> =
        answer.offers.iter().map(|offer| (&*offer.place.region, offer.purchase, offer.availability)).collect();
    assert_eq!(
        found,
        [("FIN-01", Purchase::OnDemand, Availability::Seen), ("any", Purchase::Spot, Availability::Unknown)]
    );
    assert!(answer.notes[0].to_string().starts_with("spot stock: refused with 401"), "{:?}", answer.notes);
    assert!(!format!("{answer:?}").contains("planted"));
}

pub fn oci(request: &Request) -> Reply {
    let part = |number: &str| json!([{ "partNumber": number, "qty": 112, "type": { "value": "ocpu" } }]);
    let shape = |name: &str, number: &str| json!({ "name": name, "hidden": false, "status": "ACTIVE", "allowPreemptible": true, "gpuQty": 8, "gpuMemoryQty": 640, "products": part(number) });
    let price = |number: &str, value: Value| {
        let dollars = json!([{ "currencyCode": "USD", "prices": [{ "model": "PAY_AS_YOU_GO", "value": value }] }]);
        json!({ "partNumber": number, "billingModel": "UCM", "pricetype": "HOUR", "currencyCodeLocalizations": dollars })
    };
    match request.path.as_str() {
        "/a/ocom/docs/cloudestimator2/data/shapes.json" => {
            says(200, &json!({ "items": [shape("BM.GPU.H100.8", "B98415"), shape("BM.GPU.H200.8", "B110519")] }))
        }
        "/a/ocom/docs/cloudestimator2/data/products.json" => {
            says(200, &json!({ "items": [price("B98415", json!(10)), price("B110519", json!(0))] }))
        }
        _ => says(404, &json!({})),
    }
}

/// Why these two have none stands in their folders.
pub fn has_no_price_source(cloud: &str) -> bool {
    sources(&CloudId::new(cloud)).is_some_and(|sources| sources.prices.is_empty() && sources.risks.is_empty())
}

/// Virtual machines in two pages, bare metal in one; one plan costs nothing.
pub fn vultr(request: &Request) -> Reply {
    let mut recorded: Value = serde_json::from_str(include_str!("../fixtures/vultr/plans.json")).unwrap();
    if request.path.starts_with("/v2/plans-metal?") {
        return says(
            200,
            &json!({ "plans_metal": recorded["plans_metal"].take(), "meta": { "links": { "next": "" } } }),
        );
    }
    let mut plans = recorded["plans"].take();
    let rest = plans.as_array_mut().unwrap().split_off(3);
    if request.path.ends_with("&cursor=bmV4dF9fMw==") {
        return says(200, &json!({ "plans": rest }));
    }
    plans[0]["hourly_cost"] = json!(0);
    says(200, &json!({ "plans": plans, "meta": { "total": 6, "links": { "next": "bmV4dF9fMw==", "prev": "" } } }))
}

#[test]
fn vultr_is_read_to_its_last_page_and_only_there() {
    let server = Server::start(vultr);
    let list = machines_of(&GpuPlans::at(&server.endpoint)).unwrap();
    let names: Vec<&str> = list.sheets.iter().map(|sheet| sheet.name.as_str()).collect();
    assert_eq!(names, ["vcg-a100-1c-6g-4vram", "vcg-a100-6c-60g-40vram", "vbm-256c-2048gb-8-mi300x-gpu"]);
    let mut asked: Vec<String> = server.asked().into_iter().map(|request| request.path).collect();
    asked.sort();
    assert_eq!(asked.len(), 3, "{asked:?}");
    let astray = Server::start(|_| says(200, &json!({ "plans": [], "meta": { "links": { "next": "x&type=../.." } } })));
    let error = answer_of(&GpuPlans::at(&astray.endpoint), &["ewr"]).unwrap_err();
    assert!(matches!(&error, SourceError::Malformed { field, .. } if field == "meta.links.next"), "{error}");
}

/// Plans in two pages, and where they can be had in one.
pub fn akamai(request: &Request) -> Reply {
    let mut recorded: Value = serde_json::from_str(include_str!("../fixtures/akamai/linode.json")).unwrap();
    if request.path.starts_with("/v4/regions/availability?") {
        return says(200, &recorded["availability"]);
    }
    let mut types = recorded["types"]["data"].take();
    let rest = types.as_array_mut().unwrap().split_off(2);
    let page = if request.path.contains("?page=2&") { json!(rest) } else { types };
    says(200, &json!({ "data": page, "page": 1, "pages": 2, "results": 5 }))
}

#[test]
fn akamai_is_read_to_its_last_page_and_does_without_its_regions() {
    let server = Server::start(akamai);
    assert_eq!(answer_of(&Linode::at(&server.endpoint), &["us-ord"]).unwrap().offers.len(), 3);
    assert_eq!(server.asked().len(), 3);
    let names: Vec<String> =
        machines_of(&Linode::at(&server.endpoint)).unwrap().sheets.into_iter().map(|sheet| sheet.name).collect();
    assert_eq!(names, ["g3-gpu-rtxpro6000-blackwell-1"]);
    let silent = |request: &Request| {
        if request.path.contains("availability") { says(503, &json!({})) } else { akamai(request) }
    };
    let server = Server::start(silent);
    let answer = answer_of(&Linode::at(&server.endpoint), &["us-ord"]).unwrap();
    assert!(answer.offers.iter().all(|offer| &*offer.place.region == "any"));
    assert!(answer.notes.iter().any(|note| note.place == "regions"), "{:?}", answer.notes);
}

/// Two zones with servers and one that is out of order; the European Central Bank at the same address.
pub fn scaleway(request: &Request) -> Reply {
    let mut recorded: Value = serde_json::from_str(include_str!("../fixtures/scaleway/servers.json")).unwrap();
    if request.path == "/stats/eurofxref/eurofxref-daily.xml" {
        let document = "<Cube><Cube time='2026-10-02'><Cube currency='USD' rate='1.1225'/></Cube></Cube>";
        return Reply::Text(200, "text/xml", document.to_owned());
    }
    let zone = request.path.split('/').nth(4).unwrap_or_default();
    match (zone, request.path.contains("/availability?")) {
        ("fr-par-2", true) => says(200, &recorded["availability"]),
        ("fr-par-2", false) => {
            recorded["servers"]["servers"]["L40S-8-48G"]["hourly_price"] = json!(0);
            says(200, &recorded["servers"])
        }
        ("pl-waw-2", true) => says(500, &json!({})),
        ("pl-waw-2", false) => {
            says(200, &json!({ "servers": { "H100-1-80G": recorded["servers"]["servers"]["H100-1-80G"] } }))
        }
        ("nl-ams-2", _) => says(503, &json!({})),
        _ => says(200, &json!({ "servers": {} })),
    }
}

#[test]
fn scaleway_says_which_zone_has_what_and_a_zone_costs_itself() {
    let server = Server::start(scaleway);
    let source = Scaleway::at(&server.endpoint).with_euro(&server.endpoint);
    let list = machines_of(&source).unwrap();
    assert_eq!((list.regions.len(), list.regions["fr-par-2"].len(), list.regions["pl-waw-2"].len()), (8, 4, 1));
    assert!(list.regions["fr-par-1"].is_empty() && !list.regions.contains_key("nl-ams-2"));
    assert!(list.notes.iter().any(|note| note.place == "nl-ams-2"), "{:?}", list.notes);
    let answer = answer_of(&source, &["fr-par-2", "pl-waw-2"]).unwrap();
    let rate = |zone: &str| answer.offers.iter().find(|it| &*it.place.region == zone).unwrap().quote.rate.to_string();
    assert_eq!((rate("fr-par-2"), rate("pl-waw-2")), ("3.21764625".to_owned(), "3.21764625".to_owned()));
    let without_bank = Scaleway::at(&server.endpoint).with_euro(&format!("{}/nothing", server.endpoint));
    assert!(answer_of(&without_bank, &["fr-par-2"]).is_err(), "euros are no dollars");
}

/// Two pages of sizes for who has the token.
pub fn digitalocean(request: &Request) -> Reply {
    if request.header("authorization") != format!("Bearer {KEY}") {
        return refuses(request);
    }
    let size = |slug: &str, model: &str, gib: u32, price: Value, regions: &[&str]| {
        json!({ "slug": slug, "memory": 245_760, "vcpus": 20, "price_hourly": price, "regions": regions, "available": true,
            "gpu_info": { "count": 1, "vram": { "amount": gib, "unit": "gib" }, "model": model } })
    };
    if request.path.ends_with("&page=2") {
        return says(200, &json!({ "sizes": [size("gpu-mi300x1-192gb", "amd_mi300x", 192, json!(1.99), &["tor1"])] }));
    }
    let sizes = [
        size("gpu-h100x1-80gb", "nvidia_h100", 80, json!(3.39), &["nyc1"]),
        size("gpu-h200x1-141gb", "nvidia_h200", 141, json!(0), &["nyc1"]),
        json!("no row at all"),
    ];
    let next = "https://api.digitalocean.com/v2/sizes?page=2&per_page=200";
    says(200, &json!({ "sizes": sizes, "links": { "pages": { "next": next } } }))
}

#[test]
fn digitalocean_is_read_to_its_last_page_and_hides_the_token() {
    let server = Server::start(digitalocean);
    let answer = answer_of(&DropletSizes::at(&server.endpoint, KEY), &["nyc1"]).unwrap();
    let found: Vec<_> = answer.offers.iter().map(|it| (&*it.place.region, it.quote.rate.to_string())).collect();
    assert_eq!(found, [("nyc1", "3.39".to_owned()), ("tor1", "1.99".to_owned())]);
    assert_eq!(server.asked().len(), 2);
    assert_hides_keys(&answer_of(&DropletSizes::at(&server.endpoint, CLIENT), &["nyc1"]).unwrap_err());
    let error = answer_of(&DropletSizes::at(&server.endpoint, ""), &["nyc1"]).unwrap_err();
    assert!(matches!(error, SourceError::MissingCredentials { .. }), "{error}");
}
