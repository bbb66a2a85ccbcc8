//! Why somebody would take one of the three plans.

use crate::text::format;
use gpuplan_plan::{PickReason, Role};

/// `cheapest, recommended and fastest`.
pub fn roles(roles: &[Role]) -> String {
    let words: Vec<&str> = roles.iter().map(|role| role.word()).collect();
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => words.concat(),
    }
}

/// One reason as a clause.
pub fn sentence(why: &PickReason) -> String {
    match why {
        PickReason::Cheapest => "nothing that keeps the limits costs less".to_owned(),
        PickReason::SoonerThanCheapest { more_usd, sooner_hours } => {
            format!("{sooner_hours} sooner than the cheapest for {} more", format::usd(*more_usd))
        }
        PickReason::Cheaper { less_usd, later_hours, value_of_time_usd_per_hour } => {
            let less = format::usd(*less_usd);
            match value_of_time_usd_per_hour {
                Some(rate) => {
                    format!("saves {less}, {later_hours} later: if an hour is worth under {}", format::usd(*rate))
                }
                None => format!("saves {less}"),
            }
        }
        PickReason::Sooner { more_usd, sooner_hours, value_of_time_usd_per_hour } => {
            let more = format::usd(*more_usd);
            match value_of_time_usd_per_hour {
                Some(rate) => {
                    format!("{sooner_hours} sooner for {more} more: if an hour is worth over {}", format::usd(*rate))
                }
                None => format!("costs {more} more"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_units::{Hours, Usd};

    #[test]
    fn a_row_says_what_it_takes_to_choose_it() {
        let usd = |text: &str| Usd::parse(text).unwrap();
        let cheaper = PickReason::Cheaper {
            less_usd: usd("6.22"),
            later_hours: Hours(32.0),
            value_of_time_usd_per_hour: Some(usd("0.20")),
        };
        assert_eq!(sentence(&cheaper), "saves $6.22, 32 h later: if an hour is worth under $0.20");
        let sooner = PickReason::SoonerThanCheapest { more_usd: usd("6.22"), sooner_hours: Hours(32.0) };
        assert_eq!(sentence(&sooner), "32 h sooner than the cheapest for $6.22 more");
    }
}
