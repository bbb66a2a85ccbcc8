//! Which regions a name means: one of them, the beginning of several, or a continent whose regions begin differently.

/// How names of regions in Europe begin besides `europe`, as AWS, Azure, Nebius and Oracle write them: the continent, and not the
/// Union, which has no United Kingdom, Norway or Switzerland in it. Other continents have no such word yet: `us` begins names
/// of one cloud and no names of another.
const IN_EUROPE: [&str; 12] = [
    "eu-",
    "france",
    "germany",
    "italy",
    "northeurope",
    "norway",
    "poland",
    "spain",
    "sweden",
    "switzerland",
    "uk",
    "westeurope",
];

/// Whether this name means that region, in letters of either case: `us-east-1`, `us-east`, `europe`.
pub fn names_region(name: &str, region: &str) -> bool {
    let begins = |start: &str| region.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start));
    begins(name) || (name.eq_ignore_ascii_case("europe") && IN_EUROPE.iter().any(|start| begins(start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Countries of Europe among the grids of the catalog.
    const GRIDS: [&str; 14] = ["AT", "BE", "CH", "DE", "DK", "ES", "FI", "FR", "GB", "IE", "IT-NO", "NL", "PL", "SE"];

    #[test]
    fn europe_is_the_regions_whose_grids_lie_there() {
        let sites = include_str!("../../catalogs/carbon/sites.csv");
        let mut in_europe = 0;
        for line in sites.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            let (region, grid) = (cells[1], cells[2]);
            if grid.is_empty() {
                continue;
            }
            let is_there = GRIDS.contains(&grid);
            assert_eq!(names_region("Europe", region), is_there, "{region} {grid}");
            in_europe += usize::from(is_there);
        }
        assert!(in_europe > 40, "{in_europe}");
        assert!(names_region("us-east", "us-east-1") && names_region("US-East-1", "us-east-1"));
        assert!(!names_region("us-east-1", "us-east") && !names_region("europe", "us-east-1"));
        assert!(names_region("europe", "norwayeast") && !names_region("eu", "westeurope"));
    }
}
