//! `Parts`: the pieces of a billing period that its cloud never changes, so that what two deliveries have in common counts once.
//!
//! What a piece is follows from how a cloud delivers:
//! - Google appends to a table, and every append has its `export_time`, which "will always increase with each new export"
//!   (cloud.google.com/billing/docs, "Structure of Standard data export"; `x_ExportTime` in its FOCUS table): a piece is an append.
//! - Oracle writes a file every six hours, with late lines and corrections as new rows (docs.oracle.com, "Cost Reports"): a piece is
//!   a line, by its `oci_ReferenceNumber`.
//! - AWS and Azure write the whole period again, and the `identity/LineItemId` of AWS "can't be used to identify the same line item
//!   across different reports" (docs.aws.amazon.com/cur, "Identity details"). Extracts of such a table are cut by time: a piece is
//!   an hour of usage, and it is the same piece only where all of its lines are the same.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use gpuplan_units::Usd;

/// Source, account and billing period.
pub type Period = (String, String, String);

/// What is remembered of a part: enough to tell whether another one of its name is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The hashes of its lines, added up: the order in which they come says nothing.
    pub content: u64,
    /// Negative where it takes back what was billed.
    pub billed_usd: Usd,
}

/// What tells a line apart from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The part that it belongs to, where the export names one; `None`: the hour in which its usage began.
    name: Option<String>,
    /// A hash of its cells.
    pub content: u64,
}

impl Identity {
    /// Of the cells of a line. `mark` is that of runs: by another one the same line is of another run.
    pub fn new<'a>(name: Option<&str>, mark: &str, cells: impl Iterator<Item = &'a str>) -> Self {
        let content = cells.fold(hash(FNV_BASIS, mark), hash);
        Self { name: name.filter(|name| !name.is_empty()).map(str::to_owned), content: mixed(content) }
    }

    /// The name of its part.
    pub fn part(&self, start: Timestamp) -> String {
        let hour = || start.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H").to_string();
        self.name.clone().unwrap_or_else(hour)
    }
}

/// FNV-1a (Fowler, Noll, Vo; RFC 9923), which stays the same from version to version, as what the ledger keeps has to.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// With an end that no text has, so that cells do not run into each other.
fn hash(before: u64, text: &str) -> u64 {
    text.bytes().chain([0xff]).fold(before, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME))
}

/// The last step of SplitMix64 (Steele, Lea, Flood 2014): sums of hashes that differ in their last digits alone would meet.
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: Option<&str>, cells: &[&str]) -> Identity {
        Identity::new(name, "gpuplanrun", cells.iter().copied())
    }

    #[test]
    fn a_line_is_of_the_part_that_its_cloud_names_or_of_its_hour_and_another_one_where_cells_change_places() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let (one, two) = (identity(None, &["a", "1"]), identity(None, &["a", "1", ""]));
        assert_eq!(
            [0, 3599, 3600].map(|second| one.part(at(second))),
            ["1970-01-01T00", "1970-01-01T00", "1970-01-01T01"]
        );
        assert_eq!(identity(Some("R1"), &["x"]).part(at(0)), "R1");
        assert_eq!(identity(Some(""), &["x"]).part(at(0)), "1970-01-01T00");
        assert_eq!(one, identity(None, &["a", "1"]));
        assert_ne!(one, two);
        // Hashes are added up: two lines are not the same as two others with their cells exchanged.
        let sum = |cells: [[&str; 2]; 2]| {
            cells.iter().fold(0_u64, |sum, cells| sum.wrapping_add(identity(None, cells).content))
        };
        assert_ne!(sum([["a", "1"], ["b", "2"]]), sum([["a", "2"], ["b", "1"]]));
        assert_ne!(identity(None, &["a", "b"]), identity(None, &["ab", ""]));
        assert_ne!(one, Identity::new(None, "cluster", ["a", "1"].into_iter()));
    }

    /// What the ledger keeps is compared with what later versions of this program read.
    #[test]
    fn hashes_are_those_of_fnv() {
        // "foobar" by the test vectors of draft-eastlake-fnv, before the end of the cell.
        let bytes = "foobar".bytes().fold(FNV_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
        assert_eq!(bytes, 0x8594_4171_f739_67e8);
        assert_eq!(hash(FNV_BASIS, "foobar"), (bytes ^ 0xff).wrapping_mul(FNV_PRIME));
        // The first output of SplitMix64 with the seed 0 is the mix of its increment.
        assert_eq!(mixed(0x9e37_79b9_7f4a_7c15), 0xe220_a839_7b1d_cdaf);
    }
}
