//! The embedded catalogs are claims: each is checked against rules, against anchors, and against prices known to be wrong.

use std::collections::{BTreeSet, HashMap};

use gpuplan::embedded::Table;
use gpuplan::hardware::rules::{self, Severity};
use gpuplan::hardware::{CloudId, Hardware};
use gpuplan::market::snapshot::read_prices;
use gpuplan::market::{Market, Offer, Purchase, Suspicion, check};
use gpuplan::units::UsdPerHour;
use gpuplan::workload::Models;

const GPUS: [&str; 50] = [
    "p100-sxm2-16",
    "p100-pcie-16",
    "p40",
    "v100-sxm2-16",
    "v100-sxm2-32",
    "v100-pcie-16",
    "t4",
    "t4g",
    "a10",
    "a10g",
    "a30",
    "a40",
    "a100-sxm4-40",
    "a100-sxm4-80",
    "a100-pcie-40",
    "a100-pcie-80",
    "l4",
    "l40",
    "l40s",
    "rtx-a6000",
    "rtx-a4500",
    "rtx-a5000",
    "rtx-6000-ada",
    "rtx-2000-ada",
    "rtx-pro-6000-blackwell-se",
    "rtx-pro-4500-blackwell-se",
    "rtx-3090",
    "rtx-3070",
    "rtx-3080",
    "rtx-3080-ti",
    "rtx-4090",
    "rtx-5090",
    "h100-sxm5-80",
    "h100-pcie-80",
    "h100-nvl-94",
    "h20-sxm-96",
    "h200-sxm-141",
    "h200-nvl-141",
    "gh200-96",
    "gh200-144",
    "b200-sxm-180",
    "b300-sxm-288",
    "gb200-186",
    "gb300-279",
    "mi250x",
    "mi210",
    "mi300x",
    "mi325x",
    "mi350x",
    "mi355x",
];

fn hardware() -> Hardware {
    Hardware::embedded().unwrap()
}

/// Region-wide on-demand and spot rows of a machine in a region.
fn offers<'a>(
    market: &'a Market,
    hardware: &Hardware,
    cloud: &str,
    instance: &str,
    region: &str,
    purchase: Purchase,
) -> Vec<&'a Offer> {
    let id = hardware.find_instance(&CloudId::new(cloud), instance).unwrap_or_else(|| panic!("{cloud}/{instance}"));
    let found = market
        .offers()
        .iter()
        .filter(|offer| offer.instance == id && &*offer.place.region == region && offer.purchase == purchase);
    found.collect()
}

#[test]
fn every_gpu_is_known_and_found_by_its_aliases() {
    let hardware = hardware();
    for id in GPUS {
        let gpu = hardware.gpu(hardware.find_gpu(id).unwrap_or_else(|| panic!("{id}")));
        assert_eq!(gpu.id, id);
        for alias in &gpu.aliases {
            assert_eq!(hardware.gpu(hardware.find_gpu(alias).unwrap()).id, id, "{alias}");
        }
    }
}

#[test]
fn models_are_many_and_found_by_their_aliases() {
    let models = Models::embedded().unwrap();
    let families: BTreeSet<&str> = models.rows().iter().map(|row| row.family.as_str()).collect();
    assert!(
        models.rows().len() >= 40 && families.len() >= 15,
        "{} models of {} families",
        models.rows().len(),
        families.len()
    );
    for row in models.rows() {
        assert!(!row.source.is_empty() && !row.as_of.is_empty(), "{}", row.id);
        assert!(row.parameters > 1e6, "{}", row.id);
        for name in std::iter::once(&row.id).chain(&row.aliases) {
            assert_eq!(models.find(name).map(|found| found.id.as_str()), Some(row.id.as_str()), "{name}");
        }
    }
}

#[test]
fn hardware_rules_find_no_error() {
    let errors: Vec<_> =
        rules::check(&hardware()).into_iter().filter(|finding| finding.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn memory_is_the_smaller_of_what_api_and_driver_report() {
    let hardware = hardware();
    let mib = |id: &str| hardware.gpu(hardware.find_gpu(id).unwrap()).memory_visible_mib;
    let drivers = [("t4", 15_360.0), ("h100-sxm5-80", 81_559.0), ("h200-sxm-141", 143_771.0), ("gb300-279", 284_672.0)];
    for (id, reported) in drivers.into_iter().chain([("rtx-pro-6000-blackwell-se", 97_887.0), ("l4", 22_888.0)]) {
        assert_eq!(mib(id), reported, "{id}");
    }
    for instance in hardware.instances().iter().filter(|instance| !instance.node.gpus.is_slice()) {
        let gpu = hardware.gpu(instance.node.gpu);
        assert!(instance.node.gpu_memory.0 <= gpu.memory().0, "{}/{}", instance.cloud, instance.name);
    }
}

#[test]
fn blackwell_peaks_are_those_of_the_vendor() {
    let hardware = hardware();
    let gpu = |id: &str| hardware.gpu(hardware.find_gpu(id).unwrap());
    let b300 = gpu("b300-sxm-288");
    assert_eq!((b300.peak_tflops.fp4, b300.matmul_ceiling_tflops.fp8), (Some(13_500.0), Some(3353.0)));
    assert!(!b300.is_unverified("peak_tflops.fp4"));
    assert_eq!(gpu("gb200-186").matmul_ceiling_tflops.fp8, Some(3616.0));
}

#[test]
fn copies_are_those_that_were_measured_on_the_machine() {
    let hardware = hardware();
    let links = |cloud: &str, name: &str| {
        let measured = hardware.instance(hardware.find_instance(&CloudId::new(cloud), name).unwrap()).node.measured;
        [measured.host_to_gpu, measured.host_to_each_gpu, measured.gpu_to_gpu].map(|rate| rate.map(|rate| rate.0 / 1e9))
    };
    assert_eq!(links("aws", "g5.xlarge"), [Some(13.47), None, None]);
    assert_eq!(links("gcp", "g2-standard-24"), [Some(12.35), Some(6.2), Some(9.88)]);
    assert_eq!(links("aws", "g7e.48xlarge"), [Some(55.54), Some(27.83), Some(54.02)]);
    // A pair of V100s has one or two links of six, so its copies say nothing of the whole.
    assert_eq!(links("aws", "p3.16xlarge")[2], None);
    assert_eq!(links("aws", "p5.48xlarge"), [None; 3]);
    for instance in hardware.instances() {
        let measured = instance.node.measured;
        let (one, each) = (measured.host_to_gpu, measured.host_to_each_gpu);
        assert!(each.is_none_or(|each| one.is_some_and(|one| each.0 <= one.0)), "{}", instance.name);
    }
}

#[test]
fn oracle_s_bare_metal_is_no_spot_and_has_prices_and_a_network() {
    let hardware = hardware();
    let market = Market::embedded(&hardware).unwrap();
    let oracle = CloudId::new("oci");
    for id in hardware.instance_ids().filter(|id| hardware.instance(*id).cloud == oracle) {
        let instance = hardware.instance(id);
        let is_bare_metal = instance.name.starts_with("BM.");
        assert_eq!(instance.sold_as.spot, !is_bare_metal, "{}", instance.name);
        let priced: Vec<&Offer> = market.offers().iter().filter(|offer| offer.instance == id).collect();
        assert!(priced.iter().any(|offer| offer.purchase == Purchase::OnDemand), "{}", instance.name);
        assert!(!is_bare_metal || priced.iter().all(|offer| offer.purchase != Purchase::Spot), "{}", instance.name);
    }
    let h100 = hardware.instance(hardware.find_instance(&oracle, "BM.GPU.H100.8").unwrap());
    let fabric = h100.node.fabric.unwrap();
    assert!(fabric.rdma && (fabric.bandwidth.0 * 8.0 / 1e9 - 3200.0).abs() < 1e-6);
}

/// Google lists a machine type only in the regions that have it, so an embedded price of another region is of no use.
#[test]
fn google_s_prices_are_of_places_that_have_the_machine() {
    let market = Market::embedded(&hardware()).unwrap();
    assert!(!market.offers().iter().any(|offer| offer.suspicions.contains(&Suspicion::ZoneUnverified)));
}

#[test]
fn the_market_has_no_error_and_tells_rows_from_the_future() {
    let hardware = hardware();
    let market = Market::embedded(&hardware).unwrap();
    let errors = |now: &str| {
        let findings = check::check(&market, &hardware, now.parse().unwrap());
        findings.into_iter().filter(|finding| finding.severity == Severity::Error).collect::<Vec<_>>()
    };
    assert_eq!(errors("2026-12-01T00:00:00Z"), []);
    assert!(errors("2026-10-01T00:00:00Z").iter().any(|finding| finding.rule == "date not to come"));
}

#[test]
fn prices_hold_their_anchors_to_the_cent() {
    let hardware = hardware();
    let market = Market::embedded(&hardware).unwrap();
    let anchors = [
        ("aws", "p5.48xlarge", "us-east-1", "55.04"),
        ("aws", "g6e.xlarge", "us-east-1", "1.861"),
        ("gcp", "a3-highgpu-8g", "us-central1", "88.49"),
        ("gcp", "g4-standard-48", "us-central1", "4.49993"),
        ("gcp", "n1-standard-4-t4x1", "us-central1", "0.539999"),
        ("gcp", "n1-standard-32-v100x8", "us-central1", "21.359992"),
        ("azure", "Standard_NC24ads_A100_v4", "eastus", "3.673"),
    ];
    let cents = |rate: UsdPerHour| (rate.nanos() + 5_000_000) / 10_000_000;
    for (cloud, instance, region, rate) in anchors {
        let found = offers(&market, &hardware, cloud, instance, region, Purchase::OnDemand);
        let [offer] = found.as_slice() else { panic!("{instance} {region}: {} rows", found.len()) };
        let wanted = UsdPerHour::parse(rate).unwrap();
        assert_eq!(cents(offer.quote.rate), cents(wanted), "{instance}");
        // Google's rates are sums of parts with nine decimals.
        if cloud != "gcp" {
            assert_eq!(offer.quote.rate, wanted, "{instance}");
        }
        assert!(!offer.is_suspect(), "{instance} {:?}", offer.suspicions);
    }
}

/// Clouds that price by the GPU: their list of one day names every size, and none of it is of the spring.
#[test]
fn neoclouds_ask_what_they_asked_in_october() {
    let hardware = hardware();
    let market = Market::embedded(&hardware).unwrap();
    let since = "2026-10-01T00:00:00Z".parse().unwrap();
    for cloud in ["runpod", "scaleway", "verda"] {
        let mut of_one = HashMap::new();
        let is_here = |offer: &&Offer| hardware.instance(offer.instance).cloud.as_str() == cloud;
        let mut offers: Vec<&Offer> = market.offers().iter().filter(is_here).collect();
        offers.sort_by(|a, b| {
            let gpus = |offer: &Offer| hardware.instance(offer.instance).node.gpus.as_f64();
            gpus(a).total_cmp(&gpus(b))
        });
        for offer in offers {
            let machine = hardware.instance(offer.instance);
            assert!(offer.quote.observed_at >= since, "{cloud}/{}", machine.name);
            assert!(cloud == "runpod" || machine.vcpus > 0 && machine.memory.0 > 0.0, "{cloud}/{}", machine.name);
            let per_gpu = offer.quote.rate.dollars() / machine.node.gpus.as_f64();
            let kind = (machine.node.gpu, offer.purchase, offer.place.region.clone());
            let least = *of_one.entry(kind).or_insert(per_gpu);
            // Scaleway's four H100 cost less each than its two.
            let tolerance = if cloud == "scaleway" { 0.04 } else { 0.002 };
            assert!((per_gpu / least - 1.0).abs() < tolerance, "{cloud}/{}: {per_gpu} and {least}", machine.name);
        }
    }
    let anchors = [
        ("verda", "h100-sxm.8x", "any", "35.8944"),
        ("verda", "l40s.1x", "any", "1.558"),
        ("runpod", "rtx-a5000.1x", "any", "0.27"),
        ("runpod", "h100-sxm.8x", "any", "31.92"),
        ("lambda", "gpu_8x_h100_sxm5", "any", "31.92"),
        ("scaleway", "L4-1-24G", "fr-par-1", "0.88396875"),
        ("akamai", "g2-gpu-rtx4000a1-s", "any", "0.52"),
    ];
    for (cloud, instance, region, rate) in anchors {
        let found = offers(&market, &hardware, cloud, instance, region, Purchase::OnDemand);
        let [offer] = found.as_slice() else { panic!("{instance} {region}: {} rows", found.len()) };
        assert_eq!(offer.quote.rate, UsdPerHour::parse(rate).unwrap(), "{instance}");
    }
}

/// One more card, or a larger host, costs as much in every region of a kind of card that it is sold in: the parts are added up.
#[test]
fn google_s_n1_costs_its_host_and_its_cards() {
    let hardware = hardware();
    let market = Market::embedded(&hardware).unwrap();
    let rate = |name: &str, region: &str, purchase: Purchase| {
        let found = offers(&market, &hardware, "gcp", name, region, purchase);
        let [offer] = found.as_slice() else { panic!("{name} {region}: {} rows", found.len()) };
        offer.quote.rate.nanos()
    };
    let terms = [Purchase::OnDemand, Purchase::Spot];
    for (card, regions) in [("t4", 23), ("v100", 5), ("p100", 7)] {
        let id = hardware.find_instance(&CloudId::new("gcp"), &format!("n1-standard-8-{card}x1")).unwrap();
        let sold: BTreeSet<&str> =
            market.offers().iter().filter(|offer| offer.instance == id).map(|offer| &*offer.place.region).collect();
        assert_eq!(sold.len(), regions, "{card}");
        for (region, purchase) in sold.into_iter().flat_map(|region| terms.map(|purchase| (region, purchase))) {
            let of = |vcpus: u32, cards: u32| rate(&format!("n1-standard-{vcpus}-{card}x{cards}"), region, purchase);
            let (card_more, host_more) = (of(8, 2) - of(8, 1), of(8, 1) - of(4, 1));
            assert!(card_more > 0 && host_more > 0, "{card} {region}");
            // Four more vCPUs are all that four vCPUs have beside the card.
            assert!((of(4, 1) - host_more - card_more).abs() <= 2, "{card} {region} {purchase:?}");
        }
    }
}

#[test]
fn every_source_is_in_the_manifest() {
    let hardware = hardware();
    let market = Market::embedded(&hardware).unwrap();
    for offer in market.offers() {
        assert!(market.source(&offer.source).is_some(), "{}", offer.source);
        assert!(offer.risk.as_ref().is_none_or(|risk| market.source(&risk.source).is_some()));
    }
    for instance in hardware.instances() {
        assert!(market.source(&instance.source).is_some(), "{}", instance.source);
    }
}

#[test]
fn spot_is_at_most_on_demand_or_marked() {
    let hardware = hardware();
    let market = Market::embedded(&hardware).unwrap();
    let mut lists = HashMap::new();
    for offer in market.offers().iter().filter(|offer| offer.purchase == Purchase::OnDemand) {
        lists.insert((offer.instance, offer.place.region.clone()), offer.quote.rate);
    }
    for spot in market.offers().iter().filter(|offer| offer.purchase == Purchase::Spot) {
        let Some(list) = lists.get(&(spot.instance, spot.place.region.clone())) else { continue };
        let is_above = spot.quote.rate.dollars() > list.dollars() * 1.0005;
        assert_eq!(is_above, spot.suspicions.contains(&Suspicion::SpotAboveOnDemand), "{spot:?}");
    }
}

#[test]
fn few_embedded_prices_are_doubted_for_more_than_their_place() {
    let hardware = hardware();
    let market = Market::embedded(&hardware).unwrap();
    let doubted = market.offers().iter().filter(|offer| {
        offer
            .suspicions
            .iter()
            .any(|suspicion| !matches!(suspicion, Suspicion::ZoneUnverified | Suspicion::PlaceUnknown))
    });
    let share = doubted.count() as f64 / market.offers().len() as f64;
    assert!(share < 0.01, "{share}");
}

/// The figures of a published catalog that had Google's calendar-mode prices in its on-demand column.
#[test]
fn known_wrong_prices_are_all_suspect_and_the_true_ones_are_not() {
    let hardware = hardware();
    let table = Table::from_csv(include_str!("fixtures/catalog/gcp_wrong_prices.csv")).unwrap();
    let mut wrong = Vec::new();
    read_prices(&CloudId::new("gcp"), "gcp_wrong_prices", &table, &hardware, &HashMap::new(), &mut wrong).unwrap();
    assert!(wrong.len() >= 38, "{}", wrong.len());
    let embedded = Market::embedded(&hardware).unwrap();
    let market = embedded.clone().with_offers(wrong, &hardware);
    let (before, after) = market.offers().split_at(embedded.offers().len());
    let mut caught = 0;
    for offer in after {
        let instance = &hardware.instance(offer.instance).name;
        let is_caught = offer.suspicions.iter().any(|suspicion| {
            matches!(suspicion, Suspicion::SpotAboveOnDemand | Suspicion::FarFromMedian | Suspicion::SourcesDisagree)
        });
        // Google has no such machine there, so there is nothing to compare with; an import or a live answer is marked for its place.
        let is_known_place =
            before.iter().any(|known| (known.instance, &known.place.region) == (offer.instance, &offer.place.region));
        assert!(is_caught || !is_known_place, "{instance} {:?} {} {}", offer.place, offer.purchase, offer.quote.rate);
        caught += usize::from(is_caught);
    }
    assert!(caught >= 36, "{caught} of {}", after.len());
    for (old, new) in embedded.offers().iter().zip(before) {
        assert_eq!(
            old.suspicions,
            new.suspicions,
            "a wrong row throws no doubt on {} {:?}",
            hardware.instance(new.instance).name,
            new.place
        );
    }
    for (instance, rate) in [("a3-highgpu-8g", "88.49"), ("a2-ultragpu-8g", "40.55")] {
        let found = offers(&market, &hardware, "gcp", instance, "us-central1", Purchase::OnDemand);
        let cheapest = found.iter().filter(|offer| !offer.is_suspect()).min_by_key(|offer| offer.quote.rate).unwrap();
        assert!(
            found.len() >= 3 && (cheapest.quote.rate.dollars() - rate.parse::<f64>().unwrap()).abs() < 0.005,
            "{instance}"
        );
    }
}

#[test]
fn every_suspicion_has_a_word_and_an_explanation_of_its_own() {
    let words: BTreeSet<&str> = Suspicion::ALL.iter().map(|suspicion| suspicion.word()).collect();
    let explanations: BTreeSet<&str> = Suspicion::ALL.iter().map(|suspicion| suspicion.explanation()).collect();
    assert_eq!((words.len(), explanations.len()), (Suspicion::ALL.len(), Suspicion::ALL.len()));
    for suspicion in Suspicion::ALL {
        assert_eq!(serde_json::to_value(suspicion).unwrap(), suspicion.word());
        assert!(suspicion.explanation().len() > 20);
    }
}
