//! From a recommendation of capacity to signals of a pool. Names no SDK.

use crate::prices::pools::Pool;
use crate::prices::zones::last_segment;
use gpuplan_hardware::InstanceId;
use gpuplan_market::{Location, Signal};

/// A recommendation as the interface words it; every field may be missing.
#[derive(Clone, Debug, Default)]
pub struct Recommendation {
    pub obtainability: Option<f64>,
    /// How long most machines of the request are expected to run before they are preempted.
    pub uptime_seconds: Option<f64>,
    /// Where the machines would stand, as addresses or names.
    pub zones: Vec<String>,
}

/// What is said of the pool: of its zone where all machines would stand in one, else of its region.
pub fn signals(pool: &Pool, recommendations: &[Recommendation]) -> Result<Vec<(InstanceId, Location, Signal)>, String> {
    let mut found = Vec::new();
    for recommendation in recommendations {
        let mut zones: Vec<&str> =
            recommendation.zones.iter().map(|zone| last_segment(zone)).filter(|zone| !zone.is_empty()).collect();
        zones.dedup();
        let place = pool.place(if let [zone] = zones.as_slice() { Some(zone) } else { None });
        if let Some(score) = recommendation.obtainability {
            if !(0.0..=1.0).contains(&score) {
                return Err(format!("{score} is not a valid obtainability score; it is left out"));
            }
            found.push((pool.instance, place.clone(), Signal::Obtainability(score)));
        }
        if let Some(seconds) = recommendation.uptime_seconds {
            if !seconds.is_finite() || seconds < 0.0 {
                return Err(format!("{seconds} s is not a valid uptime; it is left out"));
            }
            found.push((pool.instance, place, Signal::UptimeHours(seconds / 3600.0)));
        }
    }
    if found.is_empty() { Err("no score came back".to_owned()) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Pool {
        Pool { region: "us-central1".into(), instance: InstanceId(3), machine_type: "a3-highgpu-8g".to_owned() }
    }

    fn advice(obtainability: Option<f64>, uptime_seconds: Option<f64>, zones: &[&str]) -> Recommendation {
        Recommendation { obtainability, uptime_seconds, zones: zones.iter().map(|zone| (*zone).to_owned()).collect() }
    }

    #[test]
    fn a_score_belongs_to_the_zone_that_it_was_given_for() {
        let zone = "https://www.googleapis.com/compute/v1/projects/p/zones/us-central1-a";
        let found = signals(&pool(), &[advice(Some(0.7), Some(5400.0), &[zone, zone])]).unwrap();
        let place = Location { region: "us-central1".into(), zone_id: Some("us-central1-a".into()) };
        assert_eq!(
            found,
            [
                (InstanceId(3), place.clone(), Signal::Obtainability(0.7)),
                (InstanceId(3), place, Signal::UptimeHours(1.5))
            ]
        );
        let spread = signals(&pool(), &[advice(Some(0.7), None, &["us-central1-a", "us-central1-b"])]).unwrap();
        assert_eq!(spread[0].1.zone_id, None);
    }

    #[test]
    fn no_score_and_a_strange_score_are_refused() {
        for strange in [
            advice(None, None, &[]),
            advice(Some(1.1), None, &[]),
            advice(Some(f64::NAN), None, &[]),
            advice(None, Some(-1.0), &[]),
            advice(None, Some(f64::INFINITY), &[]),
        ] {
            assert!(signals(&pool(), &[strange]).is_err());
        }
        assert!(signals(&pool(), &[]).is_err());
    }
}
