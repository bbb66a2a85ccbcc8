//! `Listing`: from the rows of a cloud's answer to offers. Machines by name or by GPU, one note for all that are unknown.

use std::collections::BTreeMap;
use std::future::Future;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::time::Instant;

use gpuplan_hardware::{CloudId, GpuId, Hardware, InstanceId, MachineSheet};
use gpuplan_market::{
    ANYWHERE, Availability, Collector, Keep, Location, MachineList, Offer, OfferQuery, PriceAnswer, Purchase,
    SourceError, SourceNote,
};
use gpuplan_units::{GpuCount, UsdPerHour};

/// A card of another memory size under the same name is another card. Labels differ from visible memory by less than this.
const MEMORY_TOLERANCE: f64 = 0.12;
const MIB_OF_A_GIB: f64 = 1024.0;

/// Rows of an answer that could be read, and how many could not: one odd row costs only itself.
#[derive(Clone, Debug, Default)]
pub struct Rows<T> {
    pub read: Vec<T>,
    pub unreadable: usize,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Rows<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = Vec::<Value>::deserialize(deserializer)?;
        let all = values.len();
        let read: Vec<T> = values.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect();
        let unreadable = all - read.len();
        Ok(Self { read, unreadable })
    }
}

/// Offers of one source as its answers are read. Of several prices for the same machine, place and terms the lowest stays.
pub struct Listing<'a> {
    collector: Collector<'a>,
    source: &'static str,
    /// When the answer was made that is being read.
    pub answered_at: Timestamp,
    notes: Vec<SourceNote>,
}

impl<'a> Listing<'a> {
    pub fn new(hardware: &'a Hardware, cloud: &str, source: &'static str, answered_at: Timestamp) -> Self {
        let collector = Collector::new(hardware, CloudId::new(cloud), Keep::Lowest);
        Self { collector, source, answered_at, notes: Vec::new() }
    }

    pub fn hardware(&self) -> &'a Hardware {
        self.collector.hardware()
    }

    /// The machine type of this name. An unknown one is remembered for the note.
    pub fn named(&mut self, name: &str) -> Option<InstanceId> {
        self.collector.instance(name)
    }

    /// The machine type with so many of these GPUs, for clouds that name GPUs only. An unknown one is remembered.
    pub fn with_gpus(&mut self, gpu: &str, memory_gb: Option<f64>, count: u16) -> Option<InstanceId> {
        let (hardware, cloud) = (self.collector.hardware(), self.collector.cloud());
        let found = match slice_named(hardware, gpu, memory_gb) {
            Some(slice) => hardware.find_instance(cloud, &slice.machine(hardware, count)),
            None => gpu_named(hardware, gpu, memory_gb).and_then(|gpu| machine_with(hardware, cloud, gpu, count)),
        };
        if found.is_none() {
            self.collector.remember_unknown(format!("{count} x {gpu}"));
        }
        found
    }

    /// Adds an offer, or a note where the price cannot be read. `None` also where the same is there for less already.
    pub fn offer(
        &mut self,
        instance: InstanceId,
        region: Option<&str>,
        purchase: Purchase,
        rate: Result<UsdPerHour, String>,
    ) -> Option<&mut Offer> {
        let rate = match rate {
            Ok(rate) if rate > UsdPerHour::default() => rate,
            Ok(_) => {
                return self.refuse(
                    instance,
                    region,
                    "a price of zero is not a valid price; it is left out".to_owned(),
                );
            }
            Err(detail) => return self.refuse(instance, region, detail),
        };
        let place = Location { region: region.unwrap_or(ANYWHERE).into(), zone_id: None };
        self.collector.add(Offer::live(instance, place, purchase, rate, self.source, self.answered_at))
    }

    /// A machine that no place has now: the price is known, the place is not.
    pub fn sold_out(&mut self, instance: InstanceId, purchase: Purchase, rate: Result<UsdPerHour, String>) {
        if let Some(offer) = self.offer(instance, None, purchase, rate) {
            offer.availability = Availability::SoldOut;
        }
    }

    /// Whether any place sells this machine on these terms, as far as has been read.
    pub fn has(&self, instance: InstanceId, purchase: Purchase) -> bool {
        self.collector.offers().any(|offer| (offer.instance, offer.purchase) == (instance, purchase))
    }

    fn refuse(&mut self, instance: InstanceId, region: Option<&str>, detail: String) -> Option<&mut Offer> {
        let name = &self.hardware().instance(instance).name;
        self.note(&region.map_or_else(|| name.clone(), |region| format!("{region}, {name}")), detail);
        None
    }

    /// Says how many rows of an answer were left out, if any.
    pub fn unreadable(&mut self, place: &str, rows: usize) {
        if rows > 0 {
            self.note(place, format!("{rows} rows cannot be read; they are left out"));
        }
    }

    pub fn note(&mut self, place: &str, detail: String) {
        self.notes.push(SourceNote { place: place.to_owned(), detail });
    }

    /// Everything in the order of the catalog; the unknown machine types last, in one note.
    pub fn answer(mut self) -> PriceAnswer {
        let (offers, unknown) = self.collector.finish();
        self.notes.extend(unknown);
        PriceAnswer { offers, history: Vec::new(), notes: self.notes }
    }
}

/// A machine type of the cloud with so many of these GPUs.
fn machine_with(hardware: &Hardware, cloud: &CloudId, gpu: GpuId, count: u16) -> Option<InstanceId> {
    hardware.instance_ids().find(|id| {
        let instance = hardware.instance(*id);
        instance.cloud == *cloud && instance.node.gpu == gpu && instance.node.gpus == GpuCount::whole(count)
    })
}

/// So many GPUs in a machine of a cloud that names GPUs only.
#[derive(Clone, Copy, Debug)]
pub struct Gpus<'a> {
    pub name: &'a str,
    /// Of each.
    pub memory_gb: Option<f64>,
    pub count: u16,
}

/// Machines that the catalog lacks, by their GPUs: hosts differ, so nothing is known of them. Where they are is no part of it.
pub fn machines_with<'a>(
    found: impl Iterator<Item = Gpus<'a>>,
    cloud: &str,
    hardware: &Hardware,
    answered_at: Timestamp,
) -> MachineList {
    let sheets: BTreeMap<String, MachineSheet> =
        found.filter_map(|gpus| sheet(&gpus, &CloudId::new(cloud), hardware, answered_at)).collect();
    MachineList { sheets: sheets.into_values().collect(), ..MachineList::default() }
}

/// A part of a GPU that a cloud rents as a machine's own.
struct NamedSlice {
    gpu: GpuId,
    /// As MIG calls it, such as `1g.24gb`.
    profile: String,
    /// Of the memory that the GPU's label has.
    memory_gb: f64,
}

impl NamedSlice {
    fn machine(&self, hardware: &Hardware, count: u16) -> String {
        format!("{}.mig-{}.{count}x", hardware.gpu(self.gpu).id, self.profile)
    }
}

/// `... MIG 1g.24gb` of a GPU that is known, with the memory that the cloud says: a part of that GPU and no other card.
fn slice_named(hardware: &Hardware, name: &str, memory_gb: Option<f64>) -> Option<NamedSlice> {
    let (card, profile) = name.split_once(" MIG ")?;
    let gpu = gpu_named(hardware, card, None)?;
    let (_, stated) = profile.split_once("g.")?;
    let stated: f64 = stated.strip_suffix("gb")?.parse().ok()?;
    let is_part = stated > 0.0 && stated < hardware.gpu(gpu).memory_label_gb;
    let agrees = memory_gb.is_none_or(|gb| (gb / stated - 1.0).abs() <= MEMORY_TOLERANCE);
    (is_part && agrees).then(|| NamedSlice { gpu, profile: profile.to_owned(), memory_gb: stated })
}

/// `None`: the catalog has it, or it is a card of that name with another memory than it was ever sold with.
fn sheet(gpus: &Gpus, cloud: &CloudId, hardware: &Hardware, at: Timestamp) -> Option<(String, MachineSheet)> {
    if let Some(slice) = slice_named(hardware, gpus.name, gpus.memory_gb) {
        return slice_sheet(&slice, gpus.count, cloud, hardware, at);
    }
    let known = gpu_named(hardware, gpus.name, gpus.memory_gb);
    let is_other_card = known.is_none() && gpu_named(hardware, gpus.name, None).is_some();
    if gpus.count == 0
        || is_other_card
        || known.is_some_and(|id| machine_with(hardware, cloud, id, gpus.count).is_some())
    {
        return None;
    }
    let id = known.map_or_else(|| gpus.name.to_lowercase().replace(' ', "-"), |id| hardware.gpu(id).id.clone());
    let is_amd = ["AMD", "Instinct", "Radeon", "MI"].iter().any(|word| gpus.name.starts_with(word));
    let name = format!("{id}.{}x", gpus.count);
    let gpu = known.map_or_else(|| gpus.name.to_owned(), |id| hardware.gpu(id).id.clone());
    let vendor = if is_amd { "AMD" } else { "NVIDIA" };
    let memory_mib = gpus.memory_gb.map(|gb| gb * MIB_OF_A_GIB);
    Some((name.clone(), sheet_of_gpus(name, gpu, vendor, (gpus.count.to_string(), memory_mib), at)))
}

/// Of one slice: a machine of several is a way to split work that the estimate does not know.
fn slice_sheet(
    slice: &NamedSlice,
    count: u16,
    cloud: &CloudId,
    hardware: &Hardware,
    at: Timestamp,
) -> Option<(String, MachineSheet)> {
    let (name, gpu) = (slice.machine(hardware, count), hardware.gpu(slice.gpu));
    if count != 1 || hardware.find_instance(cloud, &name).is_some() {
        return None;
    }
    let share = format!("{}/{}", slice.memory_gb, gpu.memory_label_gb);
    let memory = (share, Some(slice.memory_gb * MIB_OF_A_GIB));
    Some((name.clone(), sheet_of_gpus(name, gpu.id.clone(), "NVIDIA", memory, at)))
}

/// `gpus`: how many, or which part of one, with the memory of each, MiB.
fn sheet_of_gpus(
    name: String,
    gpu: String,
    vendor: &str,
    (gpus, gpu_memory_mib): (String, Option<f64>),
    at: Timestamp,
) -> MachineSheet {
    MachineSheet {
        name,
        gpu,
        vendor: vendor.to_owned(),
        gpus,
        gpu_memory_mib,
        vcpus: 0,
        memory_mib: 0.0,
        local_nvme_gb: None,
        network_gbit_per_s: None,
        cpu_architecture: "x86_64".to_owned(),
        sold_as: "on-demand spot".to_owned(),
        as_of: at.strftime("%Y-%m-%d").to_string(),
    }
}

/// The chip that a cloud means, if its name says it without a doubt and its memory agrees. A name without a size means the size that is nearest: a
/// driver may show 39 of 40 GB.
fn gpu_named(hardware: &Hardware, name: &str, memory_gb: Option<f64>) -> Option<GpuId> {
    let bare = match name.rsplit_once(' ') {
        Some((bare, last)) if last.strip_suffix("GB").is_some_and(|number| number.parse::<u32>().is_ok()) => bare,
        _ => name,
    };
    let is_near = |label: f64| memory_gb.is_none_or(|gb| (gb / label - 1.0).abs() <= MEMORY_TOLERANCE);
    let sizes = memory_gb.into_iter().flat_map(|gb| {
        let labels = hardware.gpus().iter().map(|gpu| gpu.memory_label_gb).filter(|label| is_near(*label));
        let mut sizes: Vec<f64> = labels.chain([gb]).collect();
        sizes.sort_by(|one, other| (one - gb).abs().total_cmp(&(other - gb).abs()));
        sizes.dedup();
        sizes
    });
    let with_a_size = sizes.map(|gb| format!("{bare} {gb:.0}GB"));
    let names = [name.to_owned()].into_iter().chain(with_a_size).chain([bare.to_owned(), format!("NVIDIA {bare}")]);
    let found = |name: String| hardware.find_gpu(&name).filter(|id| is_near(hardware.gpu(*id).memory_label_gb));
    names.into_iter().find_map(found)
}

/// When a source that begins now has to end. What it has heard by then is its answer.
pub fn deadline(query: &OfferQuery) -> Instant {
    Instant::now() + query.patience
}

/// Gives a question up when its source has to end, so that it costs no other question its answer.
pub async fn within<T>(
    place: &str,
    until: Instant,
    question: impl Future<Output = Result<T, SourceError>>,
) -> Result<T, SourceError> {
    let late = || SourceError::Unreachable { place: place.to_owned(), detail: "no answer in time".to_owned() };
    tokio::time::timeout_at(until, question).await.unwrap_or_else(|_| Err(late()))
}

/// The embedded catalog, read once for the tests of all readers.
#[cfg(test)]
pub static HARDWARE: std::sync::LazyLock<Hardware> =
    std::sync::LazyLock::new(|| Hardware::embedded().unwrap_or_default());

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_market::Suspicion;

    fn gpu(name: &str, memory_gb: f64) -> Option<String> {
        let hardware = Hardware::embedded().unwrap();
        gpu_named(&hardware, name, Some(memory_gb)).map(|id| hardware.gpu(id).id.clone())
    }

    #[test]
    fn names_of_the_clouds_mean_one_chip_or_none() {
        for (name, memory_gb, id) in [
            ("NVIDIA A100 80GB PCIe", 80.0, "a100-pcie-80"),
            ("NVIDIA A100-SXM4-80GB", 80.0, "a100-sxm4-80"),
            ("NVIDIA H100 80GB HBM3", 80.0, "h100-sxm5-80"),
            ("NVIDIA H200", 141.0, "h200-sxm-141"),
            ("NVIDIA GeForce RTX 4090", 24.0, "rtx-4090"),
            ("A100 SXM4", 40.0, "a100-sxm4-40"),
            ("A100 SXM4", 80.0, "a100-sxm4-80"),
            ("A100 PCIE", 80.0, "a100-pcie-80"),
            ("H100 SXM", 79.6, "h100-sxm5-80"),
            ("H200", 140.4, "h200-sxm-141"),
            ("B200", 179.1, "b200-sxm-180"),
            ("RTX 6000Ada", 48.0, "rtx-6000-ada"),
            ("H100 SXM5 80GB", 80.0, "h100-sxm5-80"),
            ("RTX A6000 48GB", 48.0, "rtx-a6000"),
            ("L40S 48GB", 48.0, "l40s"),
            ("B300 SXM6 262GB", 262.0, "b300-sxm-288"),
            ("A100 SXM4", 39.0, "a100-sxm4-40"),
            ("H200 NVL", 143.0, "h200-nvl-141"),
        ] {
            assert_eq!(gpu(name, memory_gb).as_deref(), Some(id), "{name} {memory_gb}");
        }
        for (name, memory_gb) in
            [("RTX 4090", 48.0), ("RTX 9999", 16.0), ("", 80.0), (" 80GB", 80.0), ("H100 NVL", 80.0)]
        {
            assert_eq!(gpu(name, memory_gb), None, "{name} {memory_gb}");
        }
        assert_eq!(gpu("L4", f64::NAN), None);
    }

    #[test]
    fn a_gpu_that_no_catalog_has_is_a_machine_and_a_modified_card_is_none() {
        let mut hardware = Hardware::embedded().unwrap();
        let gpus = |name, memory_gb, count| Gpus { name, memory_gb: Some(memory_gb), count };
        let found = [
            gpus("RTX 9999", 48.0, 2),
            gpus("RTX 9999", 48.0, 2),
            gpus("H100 SXM", 80.0, 3),
            gpus("H100 SXM", 80.0, 8),
            gpus("RTX 4090", 48.0, 1),
        ];
        let mut list = machines_with(found.into_iter(), "vast", &hardware, Timestamp::UNIX_EPOCH);
        let names: Vec<&str> = list.sheets.iter().map(|sheet| sheet.name.as_str()).collect();
        assert_eq!(
            names,
            ["h100-sxm5-80.3x", "rtx-9999.2x"],
            "eight H100 are known, and a 4090 was never sold with 48 GB"
        );
        assert!(list.regions.is_empty());
        list.teach(&CloudId::new("vast"), &mut hardware);
        assert_eq!(list.notes.len(), 1, "{:?}", list.notes);
        let mut listing = Listing::new(&hardware, "vast", "test", Timestamp::UNIX_EPOCH);
        let learnt = listing.with_gpus("RTX 9999", Some(48.0), 2).unwrap();
        assert!(hardware.gpu(hardware.instance(learnt).node.gpu).is_assumed());
        assert!(listing.with_gpus("H100 SXM", Some(80.0), 3).is_some());
    }

    /// A machine that shows less of a card than others, or more, hides none of them.
    #[test]
    fn one_odd_size_hides_no_other_machine() {
        let mut hardware = Hardware::embedded().unwrap();
        let gpus = |memory_gb, count| Gpus { name: "A100 SXM4", memory_gb: Some(memory_gb), count };
        let found = [gpus(30.0, 1), gpus(39.0, 1), gpus(80.0, 1), gpus(80.0, 8)];
        let mut list = machines_with(found.into_iter(), "vast", &hardware, Timestamp::UNIX_EPOCH);
        list.teach(&CloudId::new("vast"), &mut hardware);
        let mut listing = Listing::new(&hardware, "vast", "test", Timestamp::UNIX_EPOCH);
        for (memory_gb, count, id) in [(39.0, 1, "a100-sxm4-40"), (80.0, 1, "a100-sxm4-80"), (80.0, 8, "a100-sxm4-80")]
        {
            let found = listing.with_gpus("A100 SXM4", Some(memory_gb), count).unwrap();
            assert_eq!(hardware.gpu(hardware.instance(found).node.gpu).id, id, "{memory_gb}");
        }
    }

    #[test]
    fn a_slice_is_a_part_of_its_card_and_no_other_card() {
        let mut hardware = Hardware::embedded().unwrap();
        let name = "NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb";
        let gpus = |memory_gb, count| Gpus { name, memory_gb: Some(memory_gb), count };
        let mut list =
            machines_with([gpus(24.0, 1), gpus(24.0, 2)].into_iter(), "runpod", &hardware, Timestamp::UNIX_EPOCH);
        list.teach(&CloudId::new("runpod"), &mut hardware);
        let mut listing = Listing::new(&hardware, "runpod", "test", Timestamp::UNIX_EPOCH);
        let found = hardware.instance(listing.with_gpus(name, Some(24.0), 1).unwrap());
        let gpu = hardware.gpu(found.node.gpu);
        assert_eq!((gpu.id.as_str(), found.node.gpus.to_string()), ("rtx-pro-6000-blackwell-se", "1/4".to_owned()));
        assert!((found.node.gpu_memory.gib() - 24.0).abs() < 0.5, "{}", found.node.gpu_memory);
        assert_eq!(
            (found.name.as_str(), listing.with_gpus(name, Some(24.0), 2)),
            ("rtx-pro-6000-blackwell-se.mig-1g.24gb.1x", None)
        );
        assert!(slice_named(&hardware, name, Some(48.0)).is_none(), "the cloud contradicts itself");
        assert!(slice_named(&hardware, "RTX 9999 MIG 1g.24gb", None).is_none());
        assert!(slice_named(&hardware, "NVIDIA H100 PCIe MIG 7g.80gb", None).is_none(), "all of it is no part");
    }

    #[test]
    fn a_question_without_an_answer_ends_with_its_source() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let silent =
            async { within("a place", Instant::now(), std::future::pending::<Result<(), SourceError>>()).await };
        assert_eq!(runtime.block_on(silent).unwrap_err().to_string(), "cannot reach a place: no answer in time");
    }

    #[test]
    fn the_lowest_price_stays_and_the_unknown_are_one_note() {
        let hardware = Hardware::embedded().unwrap();
        let mut listing = Listing::new(&hardware, "lambda", "test", Timestamp::UNIX_EPOCH);
        let instance = listing.named("gpu_1x_a10").unwrap();
        for cents in [129, 99, 130] {
            listing.offer(instance, Some("r"), Purchase::OnDemand, Ok(UsdPerHour::from_nanos(cents * 10_000_000)));
        }
        listing.sold_out(instance, Purchase::OnDemand, Ok(UsdPerHour::from_nanos(1)));
        listing.offer(instance, Some("s"), Purchase::OnDemand, Ok(UsdPerHour::default()));
        for name in ["f", "e", "d", "c", "b", "a", "a"] {
            listing.named(name);
        }
        let answer = listing.answer();
        let found: Vec<_> =
            answer.offers.iter().map(|offer| (&*offer.place.region, offer.quote.rate.to_string())).collect();
        assert_eq!(found, [("any", "0.000000001".to_owned()), ("r", "0.99".to_owned())]);
        assert_eq!(answer.offers[0].availability, Availability::SoldOut);
        assert_eq!(answer.offers[0].suspicions, [Suspicion::PlaceUnknown]);
        let notes: Vec<String> = answer.notes.iter().map(ToString::to_string).collect();
        let zero = "s, gpu_1x_a10: a price of zero is not a valid price; it is left out";
        assert_eq!(notes, [zero, "lambda: 6 machine types are not in the catalog: a, b, c, d, e, …"]);
    }
}
