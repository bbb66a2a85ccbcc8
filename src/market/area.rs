//! Which regions a name means: one of them, the beginning of several, or an area whose regions begin differently.

/// How names of regions in an area begin besides its own word, as AWS, Azure, DigitalOcean, Nebius, Oracle, Scaleway and Vultr (by airports) write them. `europe` is the
/// continent, and not the Union, which has no United Kingdom, Norway or Switzerland in it; `asia` is without the Middle East and
/// without Australia, which clouds list beside it.
const AREAS: [(&str, &[&str]); 3] = [
    (
        "europe",
        &[
            "ams",
            "cdg",
            "eu-",
            "fr-par-",
            "fra",
            "germany",
            "italy",
            "lhr",
            "lon",
            "mad",
            "man",
            "nl-ams-",
            "northeurope",
            "norway",
            "pl-waw-",
            "poland",
            "spain",
            "sto",
            "sweden",
            "switzerland",
            "uk",
            "waw",
            "westeurope",
        ],
    ),
    (
        "asia",
        &[
            "ap-chuncheon-",
            "ap-east-",
            "ap-hyderabad-",
            "ap-mumbai-",
            "ap-northeast-",
            "ap-osaka-",
            "ap-seoul-",
            "ap-singapore-",
            "ap-south-",
            "ap-southeast-1",
            "ap-southeast-3",
            "ap-southeast-5",
            "ap-southeast-7",
            "ap-tokyo-",
            "blr",
            "bom",
            "centralindia",
            "del",
            "eastasia",
            "icn",
            "indonesia",
            "itm",
            "japan",
            "jioindia",
            "korea",
            "malaysia",
            "nrt",
            "sgp",
            "sin",
            "southeastasia",
            "southindia",
            "taiwan",
            "westindia",
        ],
    ),
    (
        "us",
        &[
            "atl",
            "centralus",
            "dfw",
            "eastus",
            "ewr",
            "hnl",
            "lax",
            "mia",
            "northcentralus",
            "nyc",
            "ord",
            "ric",
            "sea",
            "sfo",
            "sjc",
            "southcentralus",
            "westcentralus",
            "westus",
        ],
    ),
];

/// Whether this name means that region, in letters of either case: `us-east-1`, `us-east`, `East US`, `europe`, `asia`, `us`.
pub fn names_region(name: &str, region: &str) -> bool {
    // Azure shows its regions with blanks: `East US`; and `US East` is written so as well.
    let words: Vec<&str> = name.split_whitespace().collect();
    let (name, hyphenated) = (words.concat(), words.join("-"));
    let begins = |start: &str| region.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start));
    let area = AREAS.iter().find(|(area, _)| name.eq_ignore_ascii_case(area));
    !name.is_empty()
        && (begins(&name)
            || begins(&hyphenated)
            || area.is_some_and(|(_, starts)| starts.iter().any(|start| begins(start))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Grids of the catalog in an area, by the beginning of their names.
    const GRIDS: [(&str, &[&str], usize); 3] = [
        ("Europe", &["AT", "BE", "CH", "DE", "DK", "ES", "FI", "FR", "GB", "IE", "IT-", "NL", "PL", "SE"], 40),
        ("asia", &["HK", "ID", "IN-", "JP-", "KR", "MY", "SG", "TH", "TW"], 35),
        ("US", &["US-"], 30),
    ];

    #[test]
    fn cities_and_airports_lie_in_their_areas() {
        for (area, regions) in
            [("us", ["nyc2", "atl1", "ewr"]), ("europe", ["ams3", "cdg", "fra1"]), ("asia", ["blr1", "nrt", "sgp1"])]
        {
            assert!(regions.iter().all(|region| names_region(area, region)), "{area}");
        }
        for region in ["tor1", "syd", "jnb", "sao", "europe-west4"] {
            assert!(!names_region("us", region) && !names_region("asia", region), "{region}");
        }
    }

    #[test]
    fn an_area_is_the_regions_whose_grids_lie_there() {
        let sites = include_str!("../../catalogs/carbon/sites.csv");
        for (area, grids, least) in GRIDS {
            let mut inside = 0;
            for line in sites.lines().skip(1) {
                let cells: Vec<&str> = line.split(',').collect();
                let (region, grid) = (cells[1], cells[2]);
                if grid.is_empty() {
                    continue;
                }
                let is_there = grids.iter().any(|start| grid.starts_with(start));
                assert_eq!(names_region(area, region), is_there, "{area} {region} {grid}");
                inside += usize::from(is_there);
            }
            assert!(inside >= least, "{area} {inside}");
        }
    }

    #[test]
    fn a_name_is_a_region_or_the_beginning_of_some() {
        assert!(names_region("us-east", "us-east-1") && names_region("US-East-1", "us-east-1"));
        assert!(!names_region("us-east-1", "us-east") && !names_region("europe", "us-east-1"));
        assert!(names_region("europe", "norwayeast") && !names_region("eu", "westeurope"));
        assert!(names_region("East US 2", "eastus2") && !names_region("East US 2", "eastus"));
        assert!(names_region("US East", "us-east-1") && names_region("us east", "us-east4"));
        assert!(names_region("asia", "malaysiawest") && names_region("us", "westcentralus"));
        assert!(!names_region("us-", "eastus"), "a beginning with its hyphen is no area");
    }
}
