//! From a plan on spot machines whose use is open to plans that are forecast: waiting for spot alone, or falling back by some hour.

use crate::candidate::Plan;
use crate::choice::objective::Aim;
use crate::explanation::Rejection;
use crate::money::pricer::{Pricer, Standing};
use crate::money::run_price::{self, Least, least, spot_job, ways};
use crate::spot::{Forecaster, Job, Way};
use gpuplan_market::own::LastSeen;
use gpuplan_units::{Hours, UsdPerHour};

/// A plan on spot machines that is not forecast, and what no forecast of it undercuts.
#[derive(Clone, Debug)]
pub struct Undecided {
    /// In a box, since thousands of these are sorted anew for every aim.
    pub plan: Box<Plan>,
    pub least: Least,
    pub standing: Standing,
    /// Of the ways that break a limit the one that comes closest, once they are forecast.
    pub refused: Option<Rejection>,
    /// One of its ways keeps the limits.
    pub is_kept: bool,
    /// Some way is not forecast, since it could not be the best.
    pub is_left: bool,
    /// It need not fall back to keep them.
    keeps_alone: bool,
    /// Ways that are forecast.
    settled: Vec<Way>,
    availability: f64,
    /// How its pool was when own launches last saw it.
    last_seen: Option<LastSeen>,
    spot: UsdPerHour,
    /// Of the on-demand machines beside it; `None`: there are none.
    on_demand: Option<UsdPerHour>,
}

impl Undecided {
    /// Or the plan itself, where its cost is beyond counting.
    pub fn new(pricer: &Pricer, plan: Plan) -> Result<Self, Box<Plan>> {
        let offer = pricer.context.world.market.offer(plan.offer);
        let spot = pricer.rate_today(plan.offer, plan.nodes);
        let found = spot.and_then(|spot| Some((least(spot, &plan)?, spot)));
        let Some((least, spot)) = found else { return Err(Box::new(plan)) };
        let on_demand = pricer.on_demand_like(offer).and_then(|id| pricer.rate_today(id, plan.nodes));
        let availability = plan.spot.as_ref().map_or(0.0, |spot| spot.availability);
        let last_seen = plan.spot.as_ref().and_then(|spot| spot.last_seen);
        let standing = pricer.standing(offer, plan.nodes);
        Ok(Self {
            plan: Box::new(plan),
            least,
            standing,
            refused: None,
            is_kept: false,
            is_left: false,
            keeps_alone: false,
            settled: Vec::new(),
            availability,
            last_seen,
            spot,
            on_demand,
        })
    }

    fn refuse(&mut self, why: Rejection) {
        if self.refused.as_ref().is_none_or(|held| why.is_nearer_than(held)) {
            self.refused = Some(why);
        }
    }

    /// Why it is in no list, where none of its ways is.
    pub fn why_not(&self) -> Rejection {
        if self.is_left { self.dominated() } else { self.refused.clone().unwrap_or(Rejection::Uncountable) }
    }

    /// The same machines, for no more money, in a pool that is up no less often and was last seen alike: whatever the other can do, this can.
    pub fn is_no_worse_than(&self, other: &Self) -> bool {
        let falls_back_as_well = match (self.on_demand, other.on_demand) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(own), Some(others)) => own <= others,
        };
        (self.plan.instance, self.plan.nodes) == (other.plan.instance, other.plan.nodes)
            && self.standing <= other.standing
            && self.availability >= other.availability
            && self.last_seen == other.last_seen
            && self.spot <= other.spot
            && self.plan.cost.expected <= other.plan.cost.expected
            && falls_back_as_well
    }

    /// Its best case, as the reason why it is not looked at any closer.
    pub fn dominated(&self) -> Rejection {
        Rejection::Dominated { cost_usd: self.least.cost, run_hours: Hours(self.least.hours) }
    }
}

/// How closely the ways to use some spot machines are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// For the recommendation.
    EveryWay,
    /// For rows beside it: falling back is only looked at where waiting for spot alone breaks a limit, since it costs more.
    AloneWhereItKeeps,
}

/// What is asked of every way to use some spot machines.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub aim: Aim,
    pub depth: Depth,
    /// The score to beat, of a plan that can be had as these can: ways that cannot, whatever their policy does, are left for later. `None`: none.
    pub best: Option<f64>,
}

/// Settles the ways to use these machines that could beat the best, and gives those that keep the limits. Of the ends that a fallback keeps,
/// later ones are tried as long as they are better than the one before: a later deadline only adds to what is tried.
pub fn settle(pricer: &Pricer, forecaster: &mut Forecaster, open: &mut Undecided, question: Question) -> Vec<Plan> {
    let Question { aim, depth, mut best } = question;
    let ways = match ways(pricer, &open.plan) {
        Ok(ways) => ways,
        Err(why) => {
            open.refuse(why);
            return Vec::new();
        }
    };
    let mut kept: Vec<Plan> = Vec::new();
    let mut before = f64::INFINITY;
    open.is_left = false;
    for (at, way) in ways.iter().copied().enumerate() {
        if depth == Depth::AloneWhereItKeeps && open.keeps_alone {
            break;
        }
        if open.settled.contains(&way) {
            continue;
        }
        let Some(job) = spot_job(pricer, &open.plan, way) else { continue };
        if is_beaten(forecaster, &job, aim, best) {
            open.is_left = true;
            continue;
        }
        // After one end the next is mostly tried, too: another table is solved beside one that must be.
        let next = ways.get(at + 1).filter(|_| forecaster.lacks_table(&job));
        let next = next.and_then(|next| spot_job(pricer, &open.plan, *next));
        forecaster.solve(&std::iter::once(job.clone()).chain(next).collect::<Vec<Job>>());
        let forecast = forecaster.forecast(&job);
        let mut is_worse = false;
        if let (Way::Until { .. }, Ok(forecast)) = (way, &forecast) {
            let score = aim.score(forecast.cost_usd.expected, forecast.finish_hours.expected);
            is_worse = score >= before;
            before = score;
        }
        let settled = match forecast {
            Ok(forecast) => run_price::settle(pricer, &open.plan, way, forecast),
            Err(error) => Err(Rejection::NoForecast { detail: error.to_string() }),
        };
        open.settled.push(way);
        open.keeps_alone |= way == Way::Alone && settled.is_ok();
        let score = settled.as_ref().ok().map(|plan| key(plan, aim).0);
        best = best.into_iter().chain(score).reduce(f64::min);
        match settled {
            // A plan is known by its terms: of several ends the best.
            Ok(plan) => match kept.last_mut().filter(|held| has_fallback(held) && has_fallback(&plan)) {
                Some(held) if key(&plan, aim) < key(held, aim) => *held = plan,
                Some(_) => {}
                None => kept.push(plan),
            },
            Err(why) => open.refuse(why),
        }
        if is_worse {
            break;
        }
    }
    open.is_kept |= !kept.is_empty();
    kept
}

/// Whatever its policy does, the job does not beat the best.
fn is_beaten(forecaster: &mut Forecaster, job: &Job, aim: Aim, best: Option<f64>) -> bool {
    let Some((best, price_of_an_hour)) = best.zip(aim.price_of_an_hour()) else { return false };
    let least = forecaster.least(job, price_of_an_hour);
    least.is_ok_and(|least| least.dollars + price_of_an_hour * least.hours >= best)
}

fn has_fallback(plan: &Plan) -> bool {
    plan.spot.as_ref().is_some_and(|spot| spot.finish_by.is_some())
}

fn key(plan: &Plan, aim: Aim) -> (f64, f64, f64) {
    aim.key(plan.cost.expected, plan.run.hours.expected)
}
