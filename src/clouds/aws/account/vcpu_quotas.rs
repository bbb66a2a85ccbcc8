//! Which quota of EC2 a machine counts against. Known by code, believed by name: AWS splits families now and then.

use gpuplan_launch::Market;
use gpuplan_market::Purchase;

/// How machines of a quota are bought: each family has one quota for on-demand and one or more for spot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bought {
    OnDemand,
    Spot,
}

impl Bought {
    /// `None` where it is not known which quota counts, such as for a capacity block.
    pub fn for_purchase(purchase: Purchase) -> Option<Self> {
        match purchase {
            Purchase::OnDemand | Purchase::Commitment { .. } | Purchase::Reserved => Some(Self::OnDemand),
            Purchase::Spot => Some(Self::Spot),
            Purchase::CapacityBlock | Purchase::Calendar | Purchase::FlexStart => None,
        }
    }
}

impl From<Market> for Bought {
    fn from(market: Market) -> Self {
        match market {
            Market::Spot => Self::Spot,
            Market::OnDemand | Market::CapacityBlock | Market::FlexStart => Self::OnDemand,
        }
    }
}

/// `p5en` of `p5en.48xlarge`.
fn family(instance_type: &str) -> &str {
    instance_type.split('.').next().unwrap_or_default()
}

/// `p` of `p5en`, `gr` of `gr6f`.
fn letters(family: &str) -> &str {
    &family[..family.find(|character: char| !character.is_ascii_alphabetic()).unwrap_or(family.len())]
}

/// `p5` of `p5en`: letters and generation.
fn generation(family: &str) -> &str {
    let digits = letters(family).len();
    let end = family[digits..]
        .find(|character: char| !character.is_ascii_digit())
        .map_or(family.len(), |length| digits + length);
    &family[..end]
}

/// The code to ask for first (Service Quotas page of EC2). Its name decides whether it is
/// the right one, so a wrong or outdated line costs a second question and never a wrong limit.
pub fn likely_code(instance_type: &str, bought: Bought) -> Option<&'static str> {
    let family = family(instance_type);
    Some(match (letters(family), generation(family), bought) {
        ("g" | "gr" | "vt", _, Bought::Spot) => "L-3819A6DF",
        ("g" | "gr" | "vt", _, Bought::OnDemand) => "L-DB2E81BA",
        ("p", "p5", Bought::Spot) => "L-C4BD4855",
        ("p", _, Bought::Spot) => "L-7212CCBC",
        ("p", _, Bought::OnDemand) => "L-417A185B",
        _ => return None,
    })
}

/// Whether the quota of this name counts machines of this type: `Running On-Demand P instances`, `All G and VT Spot Instance
/// Requests`, `All P4, P3 and P2 Spot Instance Requests`.
pub fn counts(name: &str, instance_type: &str, bought: Bought) -> bool {
    let (start, end) = match bought {
        Bought::OnDemand => ("Running On-Demand ", " instances"),
        Bought::Spot => ("All ", " Spot Instance Requests"),
    };
    let Some(families) = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(end)) else { return false };
    let family = family(instance_type);
    // AWS counts gr6 with the G family it is made of.
    let letters = if letters(family) == "gr" { "g" } else { letters(family) };
    let words = families.split([',', ' ', '(', ')']).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).any(|word| [letters, generation(family), family].contains(&word.as_str()))
}

/// The command that asks for room for this many more. Regions and codes come from AWS, so they need no quoting.
pub fn request(code: &str, region: &str, desired: f64) -> String {
    format!(
        "aws service-quotas request-service-quota-increase --service-code ec2 --quota-code {code} --desired-value {} --region {region}",
        desired.ceil()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_gpu_family_has_its_quota() {
        let on_demand = ["Running On-Demand G and VT instances", "Running On-Demand P instances"];
        let spot = [
            "All G and VT Spot Instance Requests",
            "All P4, P3 and P2 Spot Instance Requests",
            "All P5 Spot Instance Requests",
        ];
        for (machine, on_demand_at, spot_at) in [
            ("g5.xlarge", 0, Some(0)),
            ("gr6f.4xlarge", 0, Some(0)),
            ("p4d.24xlarge", 1, Some(1)),
            ("p5en.48xlarge", 1, Some(2)),
        ] {
            let found = |names: &[&str], bought| names.iter().position(|name| counts(name, machine, bought));
            assert_eq!(found(&on_demand, Bought::OnDemand), Some(on_demand_at), "{machine}");
            assert_eq!(found(&spot, Bought::Spot), spot_at, "{machine}");
            assert_eq!(found(&spot, Bought::OnDemand), None, "{machine}");
        }
        assert!(!spot.iter().any(|name| counts(name, "p6-b200.48xlarge", Bought::Spot)), "no name of these says P6");
        assert!(counts("All P Spot Instance Requests", "p6-b200.48xlarge", Bought::Spot));
        assert!(!counts("Running Dedicated p4d Hosts", "p4d.24xlarge", Bought::OnDemand));
        assert!(counts("All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", "m5.large", Bought::Spot));
    }

    #[test]
    fn families_of_the_catalog_have_a_first_guess() {
        assert_eq!(likely_code("p5en.48xlarge", Bought::Spot), Some("L-C4BD4855"));
        assert_eq!(likely_code("p4de.24xlarge", Bought::Spot), Some("L-7212CCBC"));
        assert_eq!(likely_code("g6e.xlarge", Bought::OnDemand), Some("L-DB2E81BA"));
        assert_eq!(likely_code("m5.large", Bought::Spot), None);
        assert_eq!(Bought::for_purchase(Purchase::CapacityBlock), None);
    }

    #[test]
    fn the_command_asks_for_whole_vcpus() {
        let command = request("L-7212CCBC", "us-east-1", 191.5);
        assert!(command.ends_with("--quota-code L-7212CCBC --desired-value 192 --region us-east-1"), "{command}");
    }

    proptest! {
        #[test]
        fn a_quota_counts_the_families_that_it_names(family in "[a-z]{1,3}[0-9][a-z]{0,2}", name in ".{0,40}", machine in ".{0,12}") {
            let (letters, sold) = (letters(&family).to_uppercase(), format!("{family}.48xlarge"));
            // `gr` counts with `g`.
            prop_assume!(letters != "GR");
            let (spot, on_demand) = (format!("All {letters} Spot Instance Requests"), format!("Running On-Demand {letters} instances"));
            prop_assert!(counts(&spot, &sold, Bought::Spot) && counts(&on_demand, &sold, Bought::OnDemand));
            prop_assert!(!counts(&spot, &sold, Bought::OnDemand) && !counts(&on_demand, &sold, Bought::Spot));
            prop_assert!(!counts(&name, &machine, Bought::Spot) || name.starts_with("All ") && name.ends_with(" Spot Instance Requests"));
            prop_assert_eq!(likely_code(&sold, Bought::OnDemand).is_some(), ["G", "VT", "P"].contains(&letters.as_str()));
        }
    }
}
