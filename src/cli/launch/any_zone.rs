//! `--any-zone`: spot places that differ by their zone alone are one place, and the cloud chooses among its zones.

use crate::cli::diagnostic::{Diagnostic, Exit};
use crate::launch::RunSpec;
use crate::launch::spec::Offered;

/// Each region and machine type once, at the dearest rate of the zones that the plan named. The cloud may take another zone, which may
/// be dearer: the call sets no highest price yet.
pub fn collapsed(spec: RunSpec, is_wanted: bool) -> Result<RunSpec, Diagnostic> {
    if !is_wanted {
        return Ok(spec);
    }
    if spec.nodes > 1 || spec.spot.is_empty() {
        let why = "--any-zone asks for one spot machine, wherever there is one";
        return Err(Diagnostic::new(Exit::Usage, why).hint("--spot --max-nodes 1"));
    }
    let mut spot: Vec<Offered> = Vec::new();
    for mut offered in spec.spot {
        offered.pool.zone_id = None;
        match spot.iter_mut().find(|known| known.pool == offered.pool) {
            Some(known) => known.rate_usd_per_hour = known.rate_usd_per_hour.max(offered.rate_usd_per_hour),
            None => spot.push(offered),
        }
    }
    Ok(RunSpec { spot, ..spec })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::launch::keep_alive::tests::spec;
    use crate::units::UsdPerHour;

    #[test]
    fn zones_of_a_region_are_one_place_at_the_dearest_rate() {
        let collapsed = collapsed(spec(), true).unwrap();
        let places: Vec<_> = collapsed.spot.iter().map(|offered| (offered.pool.to_string(), offered.rate_usd_per_hour)).collect();
        let rate = |text| UsdPerHour::parse(text).unwrap();
        let expected = [("aws/us-east-1/g5.xlarge spot", rate("0.50")), ("aws/us-west-2/g5.xlarge spot", rate("0.60"))];
        assert_eq!(places, expected.map(|(place, rate)| (place.to_owned(), rate)));
        assert_eq!(super::collapsed(spec(), false).unwrap(), spec());
        assert!(super::collapsed(RunSpec { nodes: 2, ..spec() }, true).is_err());
    }
}
