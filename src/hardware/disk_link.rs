//! `DiskLink`: how fast a machine reaches its network disks.

/// What the link of a machine to its network disks sustains, whatever the disks reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskLink {
    pub bytes_per_second: f64,
    pub reads_per_second: f64,
}

impl DiskLink {
    /// The two columns of the catalog, decimal MB and reads of a second; what is not said limits nothing.
    pub(super) fn new(megabytes: Option<f64>, reads: Option<f64>) -> Option<Self> {
        let link = Self {
            bytes_per_second: megabytes.map_or(f64::INFINITY, |mb| mb * 1e6),
            reads_per_second: reads.unwrap_or(f64::INFINITY),
        };
        (megabytes.is_some() || reads.is_some()).then_some(link)
    }
}
