//! `--any-zone`: spot places that differ by their zone alone are one place, and the cloud chooses among its zones.

use crate::session::diagnostic::Diagnostic;
use gpuplan_launch::RunSpec;
use gpuplan_launch::spec::Offered;

/// Each region and machine type once, at the dearest rate of the zones that the plan named; no other zone may be taken. One whose
/// price nobody knew, since it was planned for the whole region, leaves every zone open, below the same highest price.
pub fn merge_zones(spec: RunSpec, is_wanted: bool) -> Result<RunSpec, Diagnostic> {
    if !is_wanted {
        return Ok(spec);
    }
    if spec.nodes > 1 || spec.spot.is_empty() {
        let why = "--any-zone asks for one spot machine, wherever there is one";
        return Err(Diagnostic::usage(why).hint("--spot --max-nodes 1"));
    }
    let mut spot: Vec<Offered> = Vec::new();
    for mut offered in spec.spot {
        offered.zones = offered.pool.zone_id.take().into_iter().collect();
        match spot.iter_mut().find(|known| known.pool == offered.pool) {
            Some(known) => {
                known.rate_usd_per_hour = known.rate_usd_per_hour.max(offered.rate_usd_per_hour);
                known.most_usd_per_hour = known.most_usd_per_hour.max(offered.most_usd_per_hour);
                let is_open = known.zones.is_empty() || offered.zones.is_empty();
                known.zones.append(&mut offered.zones);
                known.zones.retain(|_| !is_open);
            }
            None => spot.push(offered),
        }
    }
    Ok(RunSpec { spot, ..spec })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::running::launch::keep_alive::tests::spec;
    use gpuplan_units::UsdPerHour;

    #[test]
    fn zones_of_a_region_are_one_place_at_the_dearest_rate() {
        let collapsed = merge_zones(spec(), true).unwrap();
        let places: Vec<_> =
            collapsed.spot.iter().map(|offered| (offered.pool.to_string(), offered.rate_usd_per_hour)).collect();
        let rate = |text| UsdPerHour::parse(text).unwrap();
        let expected = [("aws/us-east-1/g5.xlarge spot", rate("0.50")), ("aws/us-west-2/g5.xlarge spot", rate("0.60"))];
        assert_eq!(places, expected.map(|(place, rate)| (place.to_owned(), rate)));
        assert_eq!(collapsed.spot[0].zones, ["a", "b"], "and no zone whose price nobody knew");
        let mut bids = spec();
        bids.spot[0].most_usd_per_hour = Some(rate("0.44"));
        bids.spot[1].most_usd_per_hour = Some(rate("0.55"));
        assert_eq!(merge_zones(bids, true).unwrap().spot[0].most_usd_per_hour, Some(rate("0.55")));
        let mut open = spec();
        open.spot[1].pool.zone_id = None;
        assert_eq!(merge_zones(open, true).unwrap().spot[0].zones, Vec::<String>::new());
        assert_eq!(merge_zones(spec(), false).unwrap(), spec());
        assert!(merge_zones(RunSpec { nodes: 2, ..spec() }, true).is_err());
    }
}
