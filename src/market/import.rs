//! `import`: catalogs that users already have, of SkyPilot (`vms.csv`, version 8) and gpuhunt, read as offers of their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::answer::SourceNote;
use crate::collector::{Collector, Keep};
use crate::offer::{ANYWHERE, Location, Offer, Purchase, Suspicion};
use crate::quote::Origin;

use gpuplan_embedded::{EmbeddedError, Table};
use gpuplan_hardware::{CloudId, Hardware, InstanceId};
use gpuplan_units::{Usd, UsdPerHour};

/// Beginning of the name that an imported file has among the sources: what it says is the user's own word.
pub const IMPORTED: &str = "import:";

/// A file of one cloud. Neither format says when it was written, so the caller does.
#[derive(Clone, Copy, Debug)]
pub struct CatalogFile<'a> {
    pub cloud: &'a CloudId,
    pub text: &'a str,
    /// When its prices were seen, at the latest.
    pub as_of: Timestamp,
    /// What its offers name as their source.
    pub source: &'a str,
}

/// What could be read of a file, and what could not, each cause once with its number of rows.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    pub offers: Vec<Offer>,
    pub notes: Vec<SourceNote>,
}

/// Why nothing of a file can be used.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error(transparent)]
    Table(#[from] EmbeddedError),
    #[error(
        "the file is neither a SkyPilot catalog (column `InstanceType`) nor a gpuhunt one (column `instance_name`)"
    )]
    UnknownFormat,
    /// Adding them up again would be a guess about which host carries which GPU.
    #[error("this SkyPilot catalog prices hosts and GPUs in separate rows, so no row is the price of a machine")]
    SplitRows,
}

/// Catalogs write a sixth of a card as 0.167.
const COUNT_TOLERANCE: f64 = 0.01;

/// Names that gpuhunt gives to clouds that are called otherwise here.
const GPUHUNT_CLOUDS: [(&str, &str); 3] = [("lambdalabs", "lambda"), ("vastai", "vast"), ("datacrunch", "verda")];

/// Reads a file of either format, told by its columns. Order and further columns do not matter.
pub fn read(file: CatalogFile, hardware: &Hardware) -> Result<Imported, ImportError> {
    let table = Table::from_csv(file.text)?;
    let has = |column: &str| table.names().any(|name| name == column);
    if has("InstanceType") {
        skypilot(file, &table, hardware)
    } else if has("instance_name") {
        gpuhunt(file, &table, hardware)
    } else {
        Err(ImportError::UnknownFormat)
    }
}

fn skypilot(file: CatalogFile, table: &Table, hardware: &Hardware) -> Result<Imported, ImportError> {
    let [names, gpus, counts] =
        [column(table, "InstanceType")?, column(table, "AcceleratorName")?, column(table, "AcceleratorCount")?];
    let [regions, lists, spots] = [column(table, "Region")?, column(table, "Price")?, column(table, "SpotPrice")?];
    let zones = column(table, "AvailabilityZone").unwrap_or_else(|_| vec![""; table.rows()]);
    let is_split = (0..table.rows()).any(|row| names[row].is_empty() && !gpus[row].is_empty());
    if is_split || file.cloud.as_str() == "gcp" {
        return Err(ImportError::SplitRows);
    }
    let mut reading = Reading::new(file, hardware);
    // Its fetcher lists every type in every region, sold there or not.
    let is_product_of_all = file.cloud.as_str() == "lambda";
    for row in (0..table.rows()).filter(|row| !gpus[*row].is_empty() && counts[*row].parse() != Ok(0.0)) {
        let Some(instance) = reading.machine(names[row], counts[row]) else { continue };
        for (purchase, price, zone) in [(Purchase::OnDemand, lists[row], ""), (Purchase::Spot, spots[row], zones[row])]
        {
            if price.is_empty() {
                continue;
            }
            // Names of AWS zones are shuffled for each account; ids have the form `use1-az4`.
            if file.cloud.as_str() == "aws" && !zone.is_empty() && !zone.contains("-az") {
                reading.leave_out("name a zone by the name that one account has for it", names[row]);
                continue;
            }
            let place = place(regions[row], zone);
            let Some(offer) = reading.offer(instance, place, purchase, price) else { continue };
            if is_product_of_all {
                offer.suspicions.push(Suspicion::ZoneUnverified);
            }
            // `use1-atl2-az1` lies outside its region's own zones.
            if file.cloud.as_str() == "aws" && zone.matches('-').count() > 1 {
                offer.suspicions.push(Suspicion::LocalZone);
            }
        }
    }
    Ok(reading.finished())
}

fn gpuhunt(file: CatalogFile, table: &Table, hardware: &Hardware) -> Result<Imported, ImportError> {
    let [names, locations, prices] =
        [column(table, "instance_name")?, column(table, "location")?, column(table, "price")?];
    let [counts, spots] = [column(table, "gpu_count")?, column(table, "spot")?];
    let optional = |name: &str| column(table, name).unwrap_or_else(|_| vec![""; table.rows()]);
    let (providers, flags) = (optional("provider"), optional("flags"));
    let mut reading = Reading::new(file, hardware);
    for row in (0..table.rows()).filter(|row| !counts[*row].is_empty() && counts[*row] != "0") {
        let cloud = GPUHUNT_CLOUDS
            .iter()
            .find(|(theirs, _)| *theirs == providers[row])
            .map_or(providers[row], |(_, ours)| ours);
        if !cloud.is_empty() && cloud != file.cloud.as_str() {
            reading.leave_out("are of another cloud", names[row]);
            continue;
        }
        // A cluster is sold as a whole, at another price than the same machine alone.
        if flags[row].contains("cluster") {
            reading.leave_out("price a machine as a part of a cluster", names[row]);
            continue;
        }
        let purchase = match (spots[row].to_ascii_lowercase().as_str(), flags[row].contains("dws-calendar")) {
            ("true", _) => Purchase::Spot,
            ("false", true) => Purchase::Calendar,
            ("false", false) => Purchase::OnDemand,
            _ => {
                reading.leave_out("do not say whether they are spot", names[row]);
                continue;
            }
        };
        let Some(instance) = reading.machine(names[row], counts[row]) else { continue };
        let (region, zone) = match locations[row].rsplit_once('-') {
            // Google's rows name zones, such as `us-central1-a`.
            Some((region, _)) if file.cloud.as_str() == "gcp" && region.contains('-') => (region, locations[row]),
            _ => (locations[row], ""),
        };
        let place = place(region, if purchase == Purchase::Spot { zone } else { "" });
        reading.offer(instance, place, purchase, prices[row]);
    }
    Ok(reading.finished())
}

fn column<'t>(table: &'t Table, name: &str) -> Result<Vec<&'t str>, EmbeddedError> {
    table.column(name).map(Iterator::collect)
}

fn place(region: &str, zone: &str) -> Location {
    let given = |text: &str| Some(Arc::from(text)).filter(|_| !text.is_empty());
    Location { region: given(region).unwrap_or_else(|| ANYWHERE.into()), zone_id: given(zone) }
}

/// Offers and doubts of a file while its rows are read.
struct Reading<'a> {
    file: CatalogFile<'a>,
    collector: Collector<'a>,
    /// Cause, number of rows, and the machine type of the first.
    left_out: BTreeMap<&'static str, (usize, String)>,
}

impl<'a> Reading<'a> {
    fn new(file: CatalogFile<'a>, hardware: &'a Hardware) -> Self {
        Self { file, collector: Collector::new(hardware, file.cloud.clone(), Keep::Highest), left_out: BTreeMap::new() }
    }

    /// The machine type, if the file and the catalog mean the same one. A row for one of its GPUs is not its price.
    fn machine(&mut self, name: &str, gpus: &str) -> Option<InstanceId> {
        let id = self.collector.instance(name)?;
        let known = self.collector.hardware().instance(id).node.gpus;
        let is_same = gpus.parse::<f64>().is_ok_and(|count| {
            (count - known.as_f64()).abs() < COUNT_TOLERANCE
                || (known.is_slice() && count == f64::from(known.devices()))
        });
        if !is_same {
            self.leave_out("have another number of GPUs than the catalog", name);
            return None;
        }
        Some(id)
    }

    /// Adds an offer; of two prices for one machine, place and terms the higher one stays, and is counted.
    fn offer(&mut self, instance: InstanceId, place: Location, purchase: Purchase, price: &str) -> Option<&mut Offer> {
        let name = self.collector.hardware().instance(instance).name.as_str();
        let rate = match Usd::parse_up(price).ok().and_then(|price| i64::try_from(price.nanos()).ok()) {
            Some(0) => return self.leave_out("have a price of zero", name),
            Some(nanos) => UsdPerHour::from_nanos(nanos),
            None => return self.leave_out("have a price that cannot be read", name),
        };
        if self.collector.rate(instance, &place, purchase).is_some_and(|known| known != rate) {
            self.leave_out("contradict a higher price for the same machine and place", name);
        }
        let mut offer = Offer::live(instance, place, purchase, rate, self.file.source, self.file.as_of);
        offer.quote.origin = Origin::User;
        offer.flags = "single_source".into();
        self.collector.add(offer)
    }

    fn leave_out(&mut self, cause: &'static str, name: &str) -> Option<&mut Offer> {
        self.left_out.entry(cause).or_insert_with(|| (0, name.to_owned())).0 += 1;
        None
    }

    /// Offers in the order of the catalog. Spot at the list price is no discount, which is worth a flag.
    fn finished(self) -> Imported {
        let (mut offers, unknown) = self.collector.finish();
        let of_region = |offer: &Offer| (offer.instance, offer.place.region.clone());
        let lists: BTreeMap<(InstanceId, Arc<str>), UsdPerHour> = offers
            .iter()
            .filter(|offer| offer.purchase == Purchase::OnDemand)
            .map(|offer| (of_region(offer), offer.quote.rate))
            .collect();
        for offer in &mut offers {
            if offer.purchase == Purchase::Spot && lists.get(&of_region(offer)) == Some(&offer.quote.rate) {
                offer.flags = "single_source spot_eq_od".into();
            }
        }
        let place = self.file.cloud.to_string();
        let left_out = self.left_out.iter().map(|(cause, (rows, name))| SourceNote {
            place: place.clone(),
            detail: format!("{rows} rows {cause}, such as of {name}; they are left out"),
        });
        Imported { offers, notes: left_out.chain(unknown).collect() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    static HARDWARE: LazyLock<Hardware> = LazyLock::new(|| Hardware::embedded().unwrap());
    const SKYPILOT: &str =
        "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,AvailabilityZone,Price,SpotPrice";
    const GPUHUNT: &str = "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,flags";

    fn import(cloud: &str, header: &str, rows: &[&str]) -> Result<Imported, ImportError> {
        let text = std::iter::once(header).chain(rows.iter().copied()).collect::<Vec<_>>().join("\n");
        let file = CatalogFile {
            cloud: &CloudId::new(cloud),
            text: &text,
            as_of: "2026-05-01T00:00:00Z".parse().unwrap(),
            source: "mine.csv",
        };
        read(file, &HARDWARE)
    }

    fn shown(imported: &Imported) -> Vec<(String, String, Purchase, String)> {
        let shown = imported.offers.iter().map(|offer| {
            let place = offer.place.zone_id.as_ref().unwrap_or(&offer.place.region).to_string();
            (HARDWARE.instance(offer.instance).name.clone(), place, offer.purchase, offer.quote.rate.to_string())
        });
        shown.collect()
    }

    fn notes(imported: &Imported) -> Vec<String> {
        imported.notes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_skypilot_file_keeps_zones_for_spot_and_one_list_price_a_region() {
        let info = "\"{'Gpus': [{'Name': 'A100', 'Count': 8, 'MemoryInfo': {'SizeInMiB': 40960}}], 'TotalGpuMemoryInMiB': 327680}\"";
        let row =
            |zone: &str, spot: &str| format!("p4d.24xlarge,96,1152,A100,8.0,{info},us-east-1,{zone},21.957642,{spot}");
        let rows = [
            row("use1-az1", "2.4655"),
            row("use1-az2", ""),
            row("use1-az4", "21.957642"),
            "m5.large,2,8,,,,us-east-1,use1-az1,0.096,0.03".to_owned(),
        ];
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let imported = import("aws", SKYPILOT, &rows).unwrap();
        let of = |place: &str, purchase, rate: &str| {
            ("p4d.24xlarge".to_owned(), place.to_owned(), purchase, rate.to_owned())
        };
        let expected = [
            of("us-east-1", Purchase::OnDemand, "21.957642"),
            of("use1-az1", Purchase::Spot, "2.4655"),
            of("use1-az4", Purchase::Spot, "21.957642"),
        ];
        assert_eq!(shown(&imported), expected);
        assert!(imported.notes.is_empty(), "{:?}", imported.notes);
        assert_eq!(&*imported.offers[2].flags, "single_source spot_eq_od");
        let offer = &imported.offers[0];
        assert_eq!(
            (offer.quote.origin, offer.quote.observed_at),
            (Origin::User, "2026-05-01T00:00:00Z".parse().unwrap())
        );
        assert_eq!(&*offer.source, "mine.csv");
    }

    #[test]
    fn a_file_with_hosts_and_gpus_apart_is_refused_by_name() {
        let rows = [",,,A100,1.0,,us-central1,us-central1-a,1.8462,1.964"];
        assert!(matches!(import("other", SKYPILOT, &rows), Err(ImportError::SplitRows)));
        assert!(matches!(import("gcp", SKYPILOT, &[]), Err(ImportError::SplitRows)));
        assert!(matches!(import("aws", "a,b", &["1,2"]), Err(ImportError::UnknownFormat)));
        assert!(matches!(import("aws", "InstanceType,Region", &["1,2"]), Err(ImportError::Table(_))));
    }

    #[test]
    fn what_is_doubtful_is_left_out_and_counted() {
        let rows = [
            "g5.xlarge,4,16,A10G,4,,us-east-1,use1-az1,1.006,0.4",
            "g5.xlarge,4,16,A10G,1,,us-east-1,us-east-1a,1.006,0.4",
            "g5.xlarge,4,16,A10G,1,,us-west-2,usw2-az1,0,N/A*",
            "g5.xlarge,4,16,A10G,1,,eu-west-1,euw1-az1,1.1,",
            "g5.xlarge,4,16,A10G,1,,eu-west-1,euw1-az2,1.2,9.0E-4",
            "x9.large,4,16,H900,1,,us-east-1,use1-az1,1,1",
        ];
        let imported = import("aws", SKYPILOT, &rows).unwrap();
        let of =
            |place: &str, purchase, rate: &str| ("g5.xlarge".to_owned(), place.to_owned(), purchase, rate.to_owned());
        let expected = [
            of("eu-west-1", Purchase::OnDemand, "1.20"),
            of("euw1-az2", Purchase::Spot, "0.0009"),
            of("us-east-1", Purchase::OnDemand, "1.006"),
        ];
        assert_eq!(shown(&imported), expected);
        let expected = [
            "aws: 1 rows contradict a higher price for the same machine and place, such as of g5.xlarge; they are left out",
            "aws: 1 rows have a price of zero, such as of g5.xlarge; they are left out",
            "aws: 1 rows have a price that cannot be read, such as of g5.xlarge; they are left out",
            "aws: 1 rows have another number of GPUs than the catalog, such as of g5.xlarge; they are left out",
            "aws: 1 rows name a zone by the name that one account has for it, such as of g5.xlarge; they are left out",
            "aws: 1 machine type is not in the catalog: x9.large",
        ];
        assert_eq!(notes(&imported), expected);
    }

    #[test]
    fn lambda_of_skypilot_is_every_type_in_every_region() {
        let rows = ["gpu_8x_h100_sxm5,208,1800,H100,8.0,,us-east-1,,31.92,"];
        assert_eq!(import("lambda", SKYPILOT, &rows).unwrap().offers[0].suspicions, [Suspicion::ZoneUnverified]);
    }

    #[test]
    fn slices_are_told_by_their_share() {
        for count in ["0.167", "1"] {
            let row = format!("Standard_NV6ads_A10_v5,6,55,A10,{count},,eastus,,0.454,");
            assert_eq!(import("azure", SKYPILOT, &[&row]).unwrap().offers.len(), 1, "{count}");
        }
    }

    #[test]
    fn a_gpuhunt_file_has_zones_of_google_and_marks_calendar_prices() {
        let rows = [
            "a3-highgpu-8g,us-central1-a,88.49,208,1872.0,8,H100,80.0,False,6000,[]",
            "a3-highgpu-8g,us-central1-b,88.49,208,1872.0,8,H100,80.0,False,6000,",
            "a3-highgpu-8g,us-central1-a,50.61,208,1872.0,8,H100,80.0,True,6000,",
            "a3-highgpu-8g,us-central1-a,43.07,208,1872.0,8,H100,80.0,False,6000,['gcp-dws-calendar-mode']",
            "n2-standard-2,us-central1-a,0.1,2,8.0,0,,,False,,",
        ];
        let imported = import("gcp", GPUHUNT, &rows).unwrap();
        let of = |place: &str, purchase, rate: &str| {
            ("a3-highgpu-8g".to_owned(), place.to_owned(), purchase, rate.to_owned())
        };
        let expected = [
            of("us-central1", Purchase::OnDemand, "88.49"),
            of("us-central1", Purchase::Calendar, "43.07"),
            of("us-central1-a", Purchase::Spot, "50.61"),
        ];
        assert_eq!(shown(&imported), expected);
        assert!(imported.notes.is_empty(), "{:?}", imported.notes);
    }

    #[test]
    fn other_clouds_and_clusters_of_a_gpuhunt_file_are_left_out() {
        let header = format!("provider,{GPUHUNT}");
        let rows = [
            "lambdalabs,gpu_1x_a10,us-east-1,1.29,30,226,1,A10,24,False,,",
            "aws,g5.xlarge,us-east-1,1.006,4,16,1,A10G,24,False,,",
            "lambdalabs,gpu_1x_a10,us-east-1,0.9,30,226,1,A10,24,False,,runpod-cluster",
            "lambdalabs,gpu_1x_a10,us-east-1,0.9,30,226,1,A10,24,maybe,,",
        ];
        let imported = import("lambda", &header, &rows).unwrap();
        assert_eq!(imported.offers.len(), 1);
        assert_eq!(imported.notes.len(), 3);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(cell in "[^\"\n]{0,20}", price in prop_oneof![".{0,12}", "[0-9]{1,3}[.][0-9]{1,12}"], text in ".{0,200}") {
            let (cell, price) = (format!("\"{cell}\""), price.replace(['"', '\n'], ""));
            let row = format!("g5.xlarge,4,16,A10G,1,{cell},{cell},{cell},\"{price}\",{cell}");
            for (cloud, header, row) in [("aws", SKYPILOT, row.as_str()), ("aws", GPUHUNT, row.as_str()), ("aws", text.as_str(), row.as_str())] {
                match import(cloud, header, &[row]) {
                    Ok(imported) => {
                        prop_assert!(imported.offers.iter().all(|offer| offer.quote.rate.nanos() > 0 && offer.quote.origin == Origin::User));
                        let lists = imported.offers.iter().filter(|offer| header == SKYPILOT && offer.purchase == Purchase::OnDemand);
                        for offer in lists {
                            prop_assert_eq!(Usd::parse_up(&price).map(Usd::nanos), Ok(offer.quote.rate.nanos().into()));
                        }
                        // A row is an offer or two, or somebody hears why it is none.
                        prop_assert!(imported.offers.len() <= 2 && imported.notes.iter().all(|note| !note.detail.is_empty()));
                    }
                    Err(error) => prop_assert!(!error.to_string().is_empty()),
                }
            }
        }
    }
}
