//! From the servers of a zone of Scaleway to machines and offers. Pure.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::euro::EuroRate;
use crate::listing::Listing;
use crate::scaleway::CLOUD;
use gpuplan_hardware::{CloudId, Hardware, MachineSheet};
use gpuplan_market::{Availability, MachineList, Purchase};

/// Id of this source in an offer.
pub const SOURCE: &str = "scaleway-servers";

const BYTES_OF_A_MIB: f64 = 1_048_576.0;

/// One page.
#[derive(Debug, Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
pub struct Answer<T> {
    pub servers: BTreeMap<String, T>,
}

/// A server type. Unknown fields are ignored, every field may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Server {
    arch: Value,
    ncpus: Value,
    /// Bytes.
    ram: Value,
    gpu: Value,
    gpu_info: Option<GpuInfo>,
    /// Bytes of a local disk that is emptied when the server stops.
    scratch_storage_max_size: Value,
    /// Euros.
    hourly_price: Value,
    network: Network,
    end_of_service: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GpuInfo {
    #[serde(rename = "gpu_manufacturer")]
    vendor: String,
    /// Such as `H100-PCIe`.
    #[serde(rename = "gpu_name")]
    name: String,
    /// Bytes of each, as its label has them.
    #[serde(rename = "gpu_memory")]
    memory: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Network {
    /// Bits a second.
    sum_internal_bandwidth: Value,
}

/// Whether there is one now.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Room {
    /// `available`, `scarce` or `shortage`.
    availability: String,
}

impl Room {
    fn word(&self) -> Availability {
        match self.availability.as_str() {
            "available" | "scarce" => Availability::Seen,
            "shortage" => Availability::SoldOut,
            _ => Availability::Unknown,
        }
    }
}

impl Server {
    fn gpus(&self) -> Option<(u64, &GpuInfo)> {
        let count = self.gpu.as_u64().filter(|count| *count > 0 && !self.end_of_service)?;
        Some((count, self.gpu_info.as_ref()?))
    }

    fn sheet(&self, name: &str, as_of: &str) -> Option<MachineSheet> {
        let (count, info) = self.gpus()?;
        let positive = |value: &Value| value.as_f64().filter(|number| *number > 0.0);
        Some(MachineSheet {
            name: name.to_owned(),
            gpu: info.name.replace('-', " "),
            vendor: info.vendor.clone(),
            gpus: count.to_string(),
            gpu_memory_mib: positive(&info.memory).map(|bytes| bytes / BYTES_OF_A_MIB),
            vcpus: self.ncpus.as_u64().and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or_default(),
            memory_mib: self.ram.as_f64().unwrap_or_default() / BYTES_OF_A_MIB,
            local_nvme_gb: positive(&self.scratch_storage_max_size).map(|bytes| bytes / 1e9),
            network_gbit_per_s: positive(&self.network.sum_internal_bandwidth).map(|bits| bits / 1e9),
            cpu_architecture: self.arch.as_str().unwrap_or("x86_64").to_owned(),
            sold_as: "on-demand".to_owned(),
            as_of: as_of.to_owned(),
        })
    }
}

/// Offers of a zone. `room`: `None` where it does not say what is there now.
pub fn list(
    zone: &str,
    servers: &BTreeMap<String, Server>,
    room: Option<&BTreeMap<String, Room>>,
    euro: &EuroRate,
    listing: &mut Listing,
) {
    for (name, server) in servers.iter().filter(|(_, server)| server.gpus().is_some()) {
        let Some(instance) = listing.named(name) else { continue };
        let rate = euro.rate(&server.hourly_price);
        if let Some(offer) = listing.offer(instance, Some(zone), Purchase::OnDemand, rate) {
            // A zone says of what it has whether there is one now; of the rest it says nothing.
            offer.availability = room.and_then(|room| room.get(name)).map_or(Availability::Listed, Room::word);
            offer.flags = euro.flag().into();
        }
    }
}

/// Which servers with GPUs a zone has, and those that the catalog lacks.
pub fn machines(
    zone: &str,
    servers: &BTreeMap<String, Server>,
    hardware: &Hardware,
    as_of: &str,
    list: &mut MachineList,
) {
    let cloud = CloudId::new(CLOUD);
    let with_gpus: Vec<_> = servers.iter().filter(|(_, server)| server.gpus().is_some()).collect();
    list.regions.insert(zone.into(), with_gpus.iter().map(|(name, _)| (*name).clone()).collect());
    for (name, server) in with_gpus {
        let is_known = hardware.find_instance(&cloud, name).is_some() || list.sheets.iter().any(|it| it.name == *name);
        list.sheets.extend(server.sheet(name, as_of).filter(|_| !is_known));
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::listing::HARDWARE;
    use gpuplan_market::PriceAnswer;

    fn recorded(part: &str) -> Value {
        let all: Value = serde_json::from_str(include_str!("../../../tests/fixtures/scaleway/servers.json")).unwrap();
        all[part].clone()
    }

    /// Machines learnt first, as the program does.
    fn read(servers: Value, room: Option<Value>) -> (Hardware, MachineList, PriceAnswer) {
        let servers: Answer<Server> = serde_json::from_value(servers).unwrap();
        let room = room.map(|room| serde_json::from_value::<Answer<Room>>(room).unwrap().servers);
        let euro = EuroRate::read("<Cube time='2026-10-02'><Cube currency='USD' rate='1.1225'/>").unwrap();
        let (mut hardware, mut machines_there) = (HARDWARE.clone(), MachineList::default());
        machines("fr-par-2", &servers.servers, &hardware, "2026-11-29", &mut machines_there);
        machines_there.teach(&CloudId::new(CLOUD), &mut hardware);
        let mut listing = Listing::new(&hardware, CLOUD, SOURCE, Timestamp::UNIX_EPOCH);
        list("fr-par-2", &servers.servers, room.as_ref(), &euro, &mut listing);
        let answer = listing.answer();
        (hardware, machines_there, answer)
    }

    #[test]
    fn servers_of_a_zone_are_machines_in_dollars() {
        let (hardware, there, answer) = read(recorded("servers"), Some(recorded("availability")));
        let names: Vec<&str> = there.regions["fr-par-2"].iter().map(String::as_str).collect();
        assert_eq!(names, ["B300-SXM-2-288G", "H100-1-80G", "H100-SXM-8-80G", "L40S-8-48G"]);
        assert!(there.notes.len() <= 1, "{:?}", there.notes);
        let found = |name: &str| {
            let id = hardware.find_instance(&CloudId::new(CLOUD), name).unwrap();
            let it = hardware.instance(id);
            let offer = answer.offers.iter().find(|offer| offer.instance == id).unwrap();
            let gpu = format!("{} {}", it.node.gpus, hardware.gpu(it.node.gpu).id);
            (gpu, offer.quote.rate.to_string(), offer.availability)
        };
        assert_eq!(found("H100-1-80G"), ("1 h100-pcie-80".to_owned(), "3.21764625".to_owned(), Availability::Seen));
        assert_eq!(found("H100-SXM-8-80G"), ("8 h100-sxm5-80".to_owned(), "28.433823".to_owned(), Availability::Seen));
        assert_eq!(
            found("B300-SXM-2-288G"),
            ("2 b300-sxm-288".to_owned(), "21.2826".to_owned(), Availability::SoldOut)
        );
        assert_eq!(found("L40S-8-48G").2, Availability::Listed, "the zone does not say whether there is one");
        assert_eq!(&*answer.offers[0].flags, "euro=1.1225@2026-10-02");
    }

    #[test]
    fn without_what_is_there_now_the_zone_has_its_machines_all_the_same() {
        let (_, _, answer) = read(recorded("servers"), None);
        assert!(answer.offers.iter().all(|offer| offer.availability == Availability::Listed));
    }

    proptest! {
        #[test]
        fn any_server_is_read_or_refused(name in ".{0,30}", gpu in ".{0,20}", price in any::<f64>(), count in any::<u64>()) {
            let server = json!({"gpu": count, "gpu_info": {"gpu_name": gpu, "gpu_memory": price}, "hourly_price": price, "ram": price});
            let (_, _, answer) = read(json!({"servers": {name: server}}), None);
            prop_assert!(answer.offers.iter().all(|offer| offer.quote.rate.nanos() > 0));
        }
    }
}
