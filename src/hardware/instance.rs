//! `InstanceType`: what is sold, as one row of `catalogs/instances/<cloud>.csv`.

use crate::cloud::CloudId;
use crate::disk_link::DiskLink;
use crate::node::NodeShape;
use gpuplan_units::Bytes;

/// Position of an instance type in the catalog it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceId(pub u32);

/// How an instance type can be had at all, whatever prices say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoldAs {
    pub on_demand: bool,
    pub spot: bool,
    pub commitment: bool,
    pub capacity_block: bool,
    pub calendar: bool,
    pub reserved: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct InstanceType {
    pub cloud: CloudId,
    pub name: String,
    pub node: NodeShape,
    /// Id of the GPU link, for people.
    pub link_id: String,
    /// Id of the network between machines, empty where none is known.
    pub fabric_id: String,
    /// 0: nobody says.
    pub vcpus: u32,
    /// Zero: nobody says.
    pub memory: Bytes,
    /// `None`: unknown; zero: none.
    pub local_nvme: Option<Bytes>,
    /// All network cards together, as the sheet has it.
    pub host_network_gbit_per_s: Option<f64>,
    /// What of it reaches a store or the internet: not what joins GPUs alone, and one card of several.
    pub front_network_gbit_per_s: Option<f64>,
    /// To network disks; `None`: nobody says.
    pub disk_link: Option<DiskLink>,
    pub cpu_architecture: String,
    pub sold_as: SoldAs,
    pub notes: String,
    pub source: String,
    pub as_of: String,
}

impl SoldAs {
    /// Reads the space-separated words of the catalog.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut sold = Self {
            on_demand: false,
            spot: false,
            commitment: false,
            capacity_block: false,
            calendar: false,
            reserved: false,
        };
        for word in text.split_whitespace() {
            match word {
                "on-demand" => sold.on_demand = true,
                "spot" => sold.spot = true,
                "commitment" => sold.commitment = true,
                "capacity-block" => sold.capacity_block = true,
                "calendar" => sold.calendar = true,
                "reserved" => sold.reserved = true,
                other => return Err(format!("`{other}` is not a valid purchase option")),
            }
        }
        Ok(sold)
    }

    /// The words of the catalog again, in its order.
    pub fn words(self) -> Vec<&'static str> {
        let all = [
            (self.on_demand, "on-demand"),
            (self.spot, "spot"),
            (self.commitment, "commitment"),
            (self.capacity_block, "capacity-block"),
            (self.calendar, "calendar"),
            (self.reserved, "reserved"),
        ];
        all.into_iter().filter(|(is_sold, _)| *is_sold).map(|(_, word)| word).collect()
    }
}
