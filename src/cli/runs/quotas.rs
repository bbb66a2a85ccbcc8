//! What clouds told `doctor` of quotas, kept so that `plan` keeps to it: `quotas.json` beside the price cache.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::session::Session;
use gpuplan_clouds::aws::account::vcpu_quotas::{Bought, counts};
use gpuplan_clouds::gcp::account::quotas::{ALL_REGIONS, FAMILY_QUOTA, Limit, limit_of};
use gpuplan_clouds::{aws, gcp};
use gpuplan_hardware::{CloudId, Hardware, InstanceType};
use gpuplan_market::Purchase;
use gpuplan_plan::limits::{CountedQuota, KnownQuota, Quotas};
use gpuplan_report::doctor::{AccountRow, Check};

/// Name of the file.
const FILE: &str = "quotas.json";
/// Of the file; another one is not read.
const VERSION: u32 = 1;

/// Clouds whose accounts can be asked for their quotas.
const CLOUDS: [&str; 2] = [aws::CLOUD, gcp::CLOUD];

/// Terms that count against a quota.
const PURCHASES: [Purchase; 6] = [
    Purchase::OnDemand,
    Purchase::Spot,
    Purchase::Commitment { years: 1 },
    Purchase::Commitment { years: 3 },
    Purchase::Reserved,
    Purchase::FlexStart,
];

#[derive(Serialize, Deserialize)]
struct Kept {
    version: u32,
    quotas: Vec<KnownQuota>,
}

/// What is known of the accounts. Of several of a cloud the one counts that was asked last.
pub fn known(session: &Session, hardware: &Hardware) -> Arc<Quotas> {
    let mut quotas = session.quotas.clone().unwrap_or_else(|| read(session));
    let mut asked: BTreeMap<String, (jiff::Timestamp, String)> = BTreeMap::new();
    for quota in &quotas {
        let last = asked.entry(quota.cloud.clone()).or_insert_with(|| (quota.asked_at, quota.account.clone()));
        if quota.asked_at > last.0 {
            *last = (quota.asked_at, quota.account.clone());
        }
    }
    quotas.retain(|quota| asked.get(&quota.cloud).is_some_and(|(_, account)| *account == quota.account));
    let counted = |quota| CountedQuota { takes: takes(&quota, hardware), quota };
    let clouds = CLOUDS.iter().map(|cloud| CloudId::new(cloud)).collect();
    Arc::new(Quotas { clouds, known: quotas.into_iter().map(counted).collect() })
}

/// A file that cannot be read is as good as none: what stands there can be asked again.
fn read(session: &Session) -> Vec<KnownQuota> {
    let Some(path) = session.home.cache_file(FILE).filter(|path| path.is_file()) else { return Vec::new() };
    let text = fs::read_to_string(&path).map_err(|error| error.to_string());
    let kept = text.and_then(|text| serde_json::from_str::<Kept>(&text).map_err(|error| error.to_string()));
    match kept {
        Ok(kept) if kept.version == VERSION => kept.quotas,
        Ok(Kept { version, .. }) => {
            session.printer.warning(&format!(
                "{}: version {version} is of another program; quotas are taken as not known",
                path.display()
            ));
            Vec::new()
        }
        Err(error) => {
            let path = path.display();
            session.printer.warning(&format!(
                "{path}: {error}; quotas are taken as not known; `gpuplan doctor FILE` writes it anew"
            ));
            Vec::new()
        }
    }
}

/// Keeps what accounts answered, in place of what they answered before.
pub fn keep(checks: &[Check], session: &Session) {
    let answered: Vec<KnownQuota> = checks.iter().flat_map(|check| answers(check, session)).collect();
    let Some(path) = session.home.cache_file(FILE).filter(|_| !answered.is_empty()) else { return };
    let key =
        |quota: &KnownQuota| (quota.cloud.clone(), quota.account.clone(), quota.region.clone(), quota.code.clone());
    let mut quotas: BTreeMap<_, KnownQuota> = read(session).into_iter().map(|quota| (key(&quota), quota)).collect();
    quotas.extend(answered.into_iter().map(|quota| (key(&quota), quota)));
    let kept = Kept { version: VERSION, quotas: quotas.into_values().collect() };
    let making = path.with_extension("json.part");
    let written = serde_json::to_string_pretty(&kept).map_err(std::io::Error::from).and_then(|text| {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&making, text + "\n")?;
        fs::rename(&making, &path)
    });
    if let Err(error) = written {
        session
            .printer
            .warning(&format!("cannot write {}: {error}; `gpuplan plan` will not know these quotas", path.display()));
    }
}

fn answers(check: &Check, session: &Session) -> Vec<KnownQuota> {
    let AccountRow::Found { account, .. } = &check.account else { return Vec::new() };
    let known = |quota: &gpuplan_market::Quota| KnownQuota {
        cloud: check.cloud.clone(),
        account: account.clone(),
        region: quota.region.clone(),
        code: quota.code.clone(),
        name: quota.name.clone(),
        unit: quota.unit.to_owned(),
        // JSON has no infinity.
        limit: Some(quota.limit).filter(|limit| limit.is_finite()),
        used: quota.used,
        asked_at: session.now,
    };
    check.quotas.iter().map(known).collect()
}

/// What one machine takes of a quota, by machine and terms.
fn takes(quota: &KnownQuota, hardware: &Hardware) -> BTreeMap<(gpuplan_hardware::InstanceId, Purchase), f64> {
    let mut takes = BTreeMap::new();
    for id in hardware.instance_ids() {
        let instance = hardware.instance(id);
        if instance.cloud.as_str() != quota.cloud {
            continue;
        }
        for purchase in PURCHASES {
            if let Some(each) = taken(quota, instance, purchase) {
                takes.insert((id, purchase), each);
            }
        }
    }
    takes
}

/// As the account itself counts; `None`: not against this quota.
fn taken(quota: &KnownQuota, instance: &InstanceType, purchase: Purchase) -> Option<f64> {
    let gpus = instance.node.gpus.as_f64().ceil();
    match quota.cloud.as_str() {
        aws::CLOUD => {
            let counts = counts(&quota.name, &instance.name, Bought::for_purchase(purchase)?);
            (counts && instance.vcpus > 0).then(|| f64::from(instance.vcpus))
        }
        gcp::CLOUD if quota.code == ALL_REGIONS => Some(gpus),
        gcp::CLOUD => match limit_of(&instance.name, purchase).ok()? {
            Limit::Regional(metric) => (metric == quota.code).then_some(gpus),
            Limit::Family(family) => (format!("{FAMILY_QUOTA}/{family}") == quota.code).then_some(gpus),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_of_the_family_counts_against_a_quota_that_was_asked_for_one() {
        let hardware = Hardware::embedded().unwrap();
        let quota = |cloud: &str, code: &str, name: &str| KnownQuota {
            cloud: cloud.to_owned(),
            account: "one".to_owned(),
            region: "here".to_owned(),
            code: code.to_owned(),
            name: name.to_owned(),
            unit: String::new(),
            limit: Some(0.0),
            used: None,
            asked_at: jiff::Timestamp::UNIX_EPOCH,
        };
        let takes = |quota: KnownQuota, machine: &str, purchase| {
            let id = hardware.find_instance(&CloudId::new(&quota.cloud), machine).unwrap();
            takes(&quota, &hardware).get(&(id, purchase)).copied()
        };
        let aws = || quota("aws", "L-3819A6DF", "All G and VT Spot Instance Requests");
        assert_eq!(takes(aws(), "g6.xlarge", Purchase::Spot), Some(4.0));
        assert_eq!(takes(aws(), "g6e.48xlarge", Purchase::Spot), Some(192.0));
        assert_eq!(takes(aws(), "g6.xlarge", Purchase::OnDemand), None);
        assert_eq!(takes(aws(), "p5.48xlarge", Purchase::Spot), None);
        let regional = || quota("gcp", "PREEMPTIBLE_NVIDIA_H100_GPUS", "");
        assert_eq!(takes(regional(), "a3-highgpu-8g", Purchase::Spot), Some(8.0));
        assert_eq!(takes(regional(), "a3-highgpu-8g", Purchase::OnDemand), None);
        let family = || quota("gcp", "GPUS-PER-GPU-FAMILY-per-project-region/NVIDIA_H100", "");
        assert_eq!(takes(family(), "a3-highgpu-8g", Purchase::OnDemand), Some(8.0));
        assert_eq!(takes(quota("gcp", ALL_REGIONS, ""), "g2-standard-4", Purchase::Spot), Some(1.0));
    }
}
