//! Places that said no: for how long they are not asked again.

use crate::controller::events::Rentable;
use crate::ports::launch_error::{LaunchError, Reach};
use crate::ports::machine::Pool;

/// A pool without capacity is asked again after ten minutes, and after twice as long each time it says no again (reference of
/// EC2's capacity errors; the length is judgement). Seconds.
const CAPACITY: f64 = 600.0;
const LONGEST_CAPACITY: f64 = 4.0 * 3600.0;
/// Quotas, permissions and offerings do not change by themselves. Seconds.
const LONG: f64 = 30.0 * 24.0 * 3600.0;

/// What an error speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    Pool(Pool),
    /// Family and market in a region of a cloud.
    Family(Pool),
    /// Region of a cloud.
    Region(Pool),
    Cloud(String),
}

#[derive(Clone, Debug, PartialEq)]
struct Refusal {
    scope: Scope,
    until: f64,
    times: u32,
}

/// All refusals of a run. Times in seconds of the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Refusals(Vec<Refusal>);

impl Refusals {
    /// Remembers a refusal. What is unclear or wrong with the request says nothing of a place.
    pub fn refused(&mut self, pool: &Pool, error: &LaunchError, now: f64) {
        let (scope, first) = match error {
            LaunchError::Capacity { .. } => (Scope::Pool(pool.clone()), CAPACITY),
            LaunchError::NotSold { .. } => (Scope::Pool(pool.clone()), LONG),
            LaunchError::Quota { .. } => (Scope::Family(pool.clone()), LONG),
            LaunchError::NotSetUp { reach: Reach::Region, .. } => (Scope::Region(pool.clone()), LONG),
            LaunchError::CloudQuota { .. }
            | LaunchError::Credentials { .. }
            | LaunchError::NotSetUp { reach: Reach::Cloud, .. } => (Scope::Cloud(pool.cloud.clone()), LONG),
            LaunchError::Request { .. } | LaunchError::Unclear { .. } => return,
        };
        match self.0.iter_mut().find(|block| block.scope == scope) {
            Some(block) => {
                let longer = first * 2_f64.powi(block.times.min(16) as i32);
                (block.until, block.times) = (now + longer.min(LONGEST_CAPACITY.max(first)), block.times + 1);
            }
            None => self.0.push(Refusal { scope, until: now + first, times: 1 }),
        }
    }

    /// The pool gave a machine: its next refusal counts as the first.
    pub fn gave(&mut self, pool: &Pool) {
        self.0.retain(|block| block.scope != Scope::Pool(pool.clone()));
    }

    /// All of these places are blocked for so long that nobody waits for them: by quota, permission or offering.
    pub fn are_for_good(&self, choices: &[Rentable], now: f64) -> bool {
        choices.iter().all(|choice| self.until(&choice.pool, now).is_some_and(|until| until > now + LONGEST_CAPACITY))
    }

    /// When the pool may be asked again, if not now.
    pub fn until(&self, pool: &Pool, now: f64) -> Option<f64> {
        let speaks_of = |block: &&Refusal| match &block.scope {
            Scope::Pool(other) => other == pool,
            Scope::Family(other) => {
                (&other.cloud, &other.region, other.family(), other.market)
                    == (&pool.cloud, &pool.region, pool.family(), pool.market)
            }
            Scope::Region(other) => (&other.cloud, &other.region) == (&pool.cloud, &pool.region),
            Scope::Cloud(cloud) => *cloud == pool.cloud,
        };
        self.0.iter().filter(speaks_of).map(|block| block.until).filter(|until| *until > now).max_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::machine::Market;

    fn pool(cloud: &str, zone: &str, name: &str, market: Market) -> Pool {
        Pool {
            cloud: cloud.to_owned(),
            region: "r".to_owned(),
            zone_id: Some(zone.to_owned()),
            instance_type: name.to_owned(),
            market,
        }
    }

    #[test]
    fn each_error_blocks_what_it_speaks_of() {
        let (a, b) = (pool("aws", "a", "p5.48xlarge", Market::Spot), pool("aws", "b", "p5.48xlarge", Market::Spot));
        let (firm, other) =
            (pool("aws", "a", "p5.48xlarge", Market::OnDemand), pool("gcp", "a", "a3-highgpu-8g", Market::Spot));
        let far = Pool { region: "s".to_owned(), ..a.clone() };
        let blocked = |error: LaunchError| {
            let mut refusals = Refusals::default();
            refusals.refused(&a, &error, 0.0);
            [&a, &b, &firm, &far, &other].map(|pool| refusals.until(pool, 1.0).is_some())
        };
        let code = || "X".to_owned();
        assert_eq!(blocked(LaunchError::Capacity { code: code() }), [true, false, false, false, false]);
        assert_eq!(blocked(LaunchError::NotSold { code: code() }), [true, false, false, false, false]);
        assert_eq!(blocked(LaunchError::Quota { code: code(), request: code() }), [true, true, false, false, false]);
        let missing = |reach| LaunchError::NotSetUp { missing: code(), command: code(), reach };
        assert_eq!(blocked(missing(Reach::Region)), [true, true, true, false, false]);
        assert_eq!(blocked(missing(Reach::Cloud)), [true, true, true, true, false]);
        assert_eq!(blocked(LaunchError::CloudQuota { code: code(), request: code() }), [true, true, true, true, false]);
        assert_eq!(blocked(LaunchError::Credentials { code: code(), detail: code() }), [true, true, true, true, false]);
        assert_eq!(blocked(LaunchError::Unclear { code: code() }), [false; 5]);
    }

    #[test]
    fn capacity_is_asked_again_later_and_later() {
        let (pool, mut refusals) = (pool("aws", "a", "p5.48xlarge", Market::Spot), Refusals::default());
        let error = LaunchError::Capacity { code: "InsufficientInstanceCapacity".to_owned() };
        refusals.refused(&pool, &error, 0.0);
        assert_eq!((refusals.until(&pool, 0.0), refusals.until(&pool, 600.0)), (Some(600.0), None));
        refusals.refused(&pool, &error, 600.0);
        assert_eq!(refusals.until(&pool, 600.0), Some(1800.0));
        refusals.gave(&pool);
        assert_eq!(refusals.until(&pool, 600.0), None);
        for _ in 0..40 {
            refusals.refused(&pool, &error, 0.0);
        }
        assert_eq!(refusals.until(&pool, 0.0), Some(LONGEST_CAPACITY));
    }
}
