//! `Sites`: which grid the regions of clouds take their electricity from, what a kilowatt-hour of it emits, and what their buildings add.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::MarketError;
use gpuplan_embedded::{Archive, EmbeddedError, Table};
use gpuplan_hardware::CloudId;
use gpuplan_units::Band;

/// Operational over life-cycle grams, where both are known: 10th percentile, median and 90th percentile of 37 grids of
/// `catalogs/carbon/grids.csv` that lie under a region (a test recomputes them). It stands in for the figure that a grid lacks.
const OPERATIONAL_SHARE: Band = Band { low: 0.49, expected: 0.78, high: 0.90 };

/// What is known of the place of machines.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// `None`: it is not known which, or what its electricity emits.
    pub grid: Option<Arc<Grid>>,
    /// `None`: nobody publishes it.
    pub pue: Option<Pue>,
}

/// Electricity of one grid, as a year's average.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// Zone of Electricity Maps, such as `US-MIDA-PJM`.
    pub zone: String,
    /// What power plants emit, in grams of CO2-equivalents a kWh: scope 2 of the Greenhouse Gas Protocol by location.
    pub operational: Option<Intensity>,
    /// With fuel supply and the building of the plants.
    pub life_cycle: Option<Intensity>,
}

/// A published figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Intensity {
    pub g_per_kwh: f64,
    /// Of the electricity; `None`: its publisher does not say.
    pub year: Option<i16>,
    /// Id in `SNAPSHOT.toml`.
    pub source: String,
}

/// Power usage effectiveness: energy of a building over that of the machines in it, as a year's average.
#[derive(Clone, Debug, PartialEq)]
pub struct Pue {
    pub value: f64,
    /// What it is the average of: `region`, `continent` or `fleet`.
    pub of: String,
    pub year: i16,
    /// Id in `SNAPSHOT.toml`.
    pub source: String,
}

/// Places that the catalog knows; any other is unknown.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    by_region: Arc<HashMap<(CloudId, String), Site>>,
}

impl Grid {
    /// From what plants emit to that with fuel supply and building, in g/kWh, and between them the best guess. Of a grid of which only
    /// one is known the other is as far off as it is elsewhere. `None`: neither is known.
    pub fn g_per_kwh(&self) -> Option<Band> {
        let of = |intensity: &Option<Intensity>| intensity.as_ref().map(|known| known.g_per_kwh);
        let middle = |one: f64, other: f64| f64::midpoint(one, other);
        Some(match (of(&self.operational), of(&self.life_cycle)) {
            (Some(one), Some(other)) => {
                Band { low: one.min(other), expected: middle(one, other), high: one.max(other) }
            }
            (None, Some(whole)) => Band {
                low: whole * OPERATIONAL_SHARE.low,
                expected: middle(whole * OPERATIONAL_SHARE.expected, whole),
                high: whole,
            },
            (Some(plants), None) => Band {
                low: plants,
                expected: middle(plants, plants / OPERATIONAL_SHARE.expected),
                high: plants / OPERATIONAL_SHARE.low,
            },
            (None, None) => return None,
        })
    }

    /// Ids of what it rests on.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.operational.iter().chain(&self.life_cycle).map(|intensity| intensity.source.as_str())
    }
}

impl Sites {
    /// `carbon/grids` and `carbon/sites`; a catalog without them knows no place.
    pub fn read(archive: &Archive) -> Result<Self, MarketError> {
        let table = |name: &'static str| Some((name, archive.tables.get(name)?));
        let grids = table("carbon/grids").map_or_else(|| Ok(HashMap::new()), |(name, table)| grids(name, table))?;
        let mut by_region = HashMap::new();
        if let Some((name, table)) = table("carbon/sites") {
            for (row, cells) in rows(name, table, ["cloud", "region", "grid", "pue", "pue_of", "pue_year", "source"])? {
                let [cloud, region, grid, pue, of, year, source] = cells;
                let broken = |detail: String| MarketError::Row { file: name.to_owned(), row, detail };
                let grid = match grid {
                    "" => None,
                    zone => Some(
                        grids.get(zone).cloned().ok_or_else(|| broken(format!("grids.csv has no grid `{zone}`")))?,
                    ),
                };
                let pue = match (number(pue).map_err(broken)?, number(year).map_err(broken)?) {
                    (Some(value), Some(year)) if value >= 1.0 && ["region", "continent", "fleet"].contains(&of) => {
                        Some(Pue { value, of: of.to_owned(), year: year as i16, source: source.to_owned() })
                    }
                    (None, None) => None,
                    _ => {
                        return Err(broken(
                            "a PUE is 1 or more, of a region, continent or fleet, of a year".to_owned(),
                        ));
                    }
                };
                by_region.insert((CloudId::new(cloud), region.to_owned()), Site { grid, pue });
            }
        }
        Ok(Self { by_region: Arc::new(by_region) })
    }

    /// `None`: nothing is known of it.
    pub fn find(&self, cloud: &CloudId, region: &str) -> Option<&Site> {
        self.by_region.get(&(cloud.clone(), region.to_owned()))
    }

    /// Ids of everything that it rests on, in no order and several times.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.by_region.values().flat_map(|site| {
            let of_grid = site.grid.iter().flat_map(|grid| grid.sources());
            of_grid.chain(site.pue.iter().map(|pue| pue.source.as_str()))
        })
    }
}

fn grids(name: &str, table: &Table) -> Result<HashMap<String, Arc<Grid>>, MarketError> {
    const COLUMNS: [&str; 7] = [
        "grid",
        "operational_g_per_kwh",
        "operational_of",
        "operational_source",
        "life_cycle_g_per_kwh",
        "life_cycle_of",
        "life_cycle_source",
    ];
    let mut grids = HashMap::new();
    for (row, [zone, operational, of, source, life_cycle, life_of, life_source]) in rows(name, table, COLUMNS)? {
        let intensity = |grams: &str, year: &str, source: &str| {
            let (grams, year) = (number(grams)?, number(year)?);
            Ok(grams.map(|g_per_kwh| Intensity {
                g_per_kwh,
                year: year.map(|year| year as i16),
                source: source.to_owned(),
            }))
        };
        let broken = |detail: String| MarketError::Row { file: name.to_owned(), row, detail };
        let operational = intensity(operational, of, source).map_err(broken)?;
        let life_cycle = intensity(life_cycle, life_of, life_source).map_err(broken)?;
        grids.insert(zone.to_owned(), Arc::new(Grid { zone: zone.to_owned(), operational, life_cycle }));
    }
    Ok(grids)
}

/// The cells of these columns with the number of their row, from 1.
fn rows<'a, const N: usize>(
    name: &str,
    table: &'a Table,
    columns: [&str; N],
) -> Result<Vec<(usize, [&'a str; N])>, MarketError> {
    let broken = |error: EmbeddedError| MarketError::Row { file: name.to_owned(), row: 0, detail: error.to_string() };
    let mut rows: Vec<(usize, [&str; N])> = (1..=table.rows()).map(|row| (row, [""; N])).collect();
    for (at, column) in columns.into_iter().enumerate() {
        for ((_, cells), cell) in rows.iter_mut().zip(table.column(column).map_err(broken)?) {
            cells[at] = cell;
        }
    }
    Ok(rows)
}

/// `None`: the cell is empty.
fn number(cell: &str) -> Result<Option<f64>, String> {
    match cell {
        "" => Ok(None),
        _ => match cell.parse::<f64>() {
            Ok(number) if number.is_finite() && number > 0.0 => Ok(Some(number)),
            _ => Err(format!("`{cell}` is not a number above zero")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::snapshot::Market;
    use gpuplan_hardware::Hardware;

    fn embedded() -> (Market, Sites) {
        let market = Market::embedded(&Hardware::embedded().unwrap()).unwrap();
        let sites = market.sites.clone();
        (market, sites)
    }

    #[test]
    fn places_are_known_by_what_clouds_publish_and_others_are_unknown() {
        let (market, sites) = embedded();
        let site = |cloud: &str, region: &str| sites.find(&CloudId::new(cloud), region);
        let virginia = site("aws", "us-east-1").unwrap();
        assert_eq!(virginia.grid.as_ref().unwrap().zone, "US-MIDA-PJM");
        assert_eq!(virginia.pue.as_ref().map(|pue| (pue.value, pue.of.as_str())), Some((1.15, "region")));
        // Figures as Google has them for 2025 and the Green Software Foundation for 2023.
        let grams = virginia.grid.as_ref().unwrap().g_per_kwh().unwrap();
        assert_eq!((grams.low, grams.high), (343.48, 396.25));
        assert!(site("crusoe", "any").is_none() && site("aws", "mars-north-1").is_none());
        assert!(site("azure", "norwayeast").unwrap().grid.is_none(), "a grid of which nothing is known");
        let unknown: Vec<&str> = sites.sources().filter(|source| market.source(source).is_none()).collect();
        assert!(unknown.is_empty(), "{unknown:?} stand not in SNAPSHOT.toml");
    }

    #[test]
    fn the_figure_that_a_grid_lacks_is_as_far_off_as_elsewhere() {
        let (_, sites) = embedded();
        let mut zones: HashMap<&str, f64> = HashMap::new();
        for grid in sites.by_region.values().filter_map(|site| site.grid.as_ref()) {
            if let (Some(operational), Some(whole)) = (&grid.operational, &grid.life_cycle) {
                zones.insert(&grid.zone, operational.g_per_kwh / whole.g_per_kwh);
            }
        }
        let mut shares: Vec<f64> = zones.into_values().collect();
        shares.sort_by(f64::total_cmp);
        // One grid of 38 is of no region.
        assert_eq!(shares.len(), 37);
        let at = |share: f64| {
            let position = share * (shares.len() - 1) as f64;
            let (below, above) = (shares[position.floor() as usize], shares[position.ceil() as usize]);
            below + position.fract() * (above - below)
        };
        let near = |found: f64, stated: f64| assert!((found - stated).abs() <= 0.005, "{found} for {stated}");
        near(at(0.1), OPERATIONAL_SHARE.low);
        near(at(0.5), OPERATIONAL_SHARE.expected);
        near(at(0.9), OPERATIONAL_SHARE.high);
    }

    #[test]
    fn every_grid_has_a_band_in_order_and_one_figure_makes_a_wider_one() {
        let (_, sites) = embedded();
        for grid in sites.by_region.values().filter_map(|site| site.grid.as_ref()) {
            let band = grid.g_per_kwh().unwrap();
            assert!(0.0 < band.low && band.low <= band.expected && band.expected <= band.high, "{grid:?}: {band:?}");
        }
        let intensity = |g_per_kwh| Some(Intensity { g_per_kwh, year: Some(2025), source: "x".to_owned() });
        let grid = |operational, life_cycle| Grid { zone: "X".to_owned(), operational, life_cycle }.g_per_kwh();
        let both = grid(intensity(80.0), intensity(100.0)).unwrap();
        assert_eq!((both.low, both.expected, both.high), (80.0, 90.0, 100.0));
        let one = grid(None, intensity(100.0)).unwrap();
        assert!(one.low < both.low && (one.expected - both.expected).abs() < 2.0 && one.high == both.high);
        assert_eq!(grid(None, None), None, "unknown is not zero");
    }

    #[test]
    fn what_is_no_figure_is_an_error_with_its_row() {
        let read = |grids: &str, sites: &str| {
            let mut archive = Archive::default();
            let head = "grid,operational_g_per_kwh,operational_of,operational_source,life_cycle_g_per_kwh,life_cycle_of,life_cycle_source\n";
            archive.add_table("carbon/grids", &format!("{head}{grids}")).unwrap();
            let head = "cloud,region,grid,pue,pue_of,pue_year,source\n";
            archive.add_table("carbon/sites", &format!("{head}{sites}")).unwrap();
            Sites::read(&archive).map_err(|error| error.to_string())
        };
        assert!(read("DE,300,2025,s,,,\n", "aws,x,DE,1.1,region,2025,s\n").is_ok());
        let refused = |grids: &str, sites: &str| read(grids, sites).unwrap_err();
        assert!(refused("DE,-3,2025,s,,,\n", "").contains("carbon/grids.csv, row 1: `-3` is not a number above zero"));
        assert!(refused("DE,300,2025,s,,,\n", "aws,x,FR,1.1,region,2025,s\n").contains("no grid `FR`"));
        assert!(refused("DE,300,2025,s,,,\n", "aws,x,DE,0.9,region,2025,s\n").contains("a PUE is 1 or more"));
        assert!(Sites::read(&Archive::default()).unwrap().by_region.is_empty(), "an older catalog knows no place");
    }
}
