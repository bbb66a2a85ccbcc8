//! Which plans are shown: the recommended one, those that nothing beats in both cost and time, the best of every other GPU.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::candidate::Plan;
use crate::choice::breadth::Breadth;
use crate::choice::objective::{Aim, by_key};
use crate::choice::refusals::Refusals;
use crate::choice::settling::{Depth, Question, Undecided, settle};
use crate::explanation::Rejection;
use crate::money::pricer::{Pricer, Standing};
use crate::spot::Forecaster;
use gpuplan_hardware::GpuId;
use gpuplan_market::Purchase;

/// A plan is faster than another if it ends sooner by more than this: of the hours, and at least a minute. Hours. Judged.
const FASTER_SHARE: f64 = 0.01;
const FASTER: f64 = 1.0 / 60.0;

/// Positions in the list of plans.
#[derive(Clone, Debug, Default)]
pub struct Shortlist {
    pub recommended: Option<usize>,
    /// Least cost, among plans that can be had as the recommended one can.
    pub cheapest: Option<usize>,
    /// Cheapest first.
    pub frontier: Vec<usize>,
    /// Cheapest first.
    pub alternatives: Vec<usize>,
}

/// Plans that a program can launch go before the others, and of these the ones whose price is known.
pub type Rank = (Standing, (f64, f64, f64));

/// Forecasts plans on spot until nothing that is not forecast could be better than what is chosen, and chooses. Plans that break a limit after
/// all, and those that are beaten by their best case already, are refused. What is left in `plans` is settled.
pub fn shortlist(
    pricer: &Pricer,
    forecaster: &mut Forecaster,
    plans: &mut Vec<Plan>,
    (refused, breadth): (&mut Refusals, Breadth),
    aim: Aim,
) -> Shortlist {
    let mut search = Search::new(pricer, forecaster, refused, std::mem::take(plans));
    search.find(aim, Depth::EveryWay);
    if breadth == Breadth::Everything {
        search.find(Aim::CHEAPEST, Depth::AloneWhereItKeeps);
        search.find_one_of_each_gpu(aim);
        search.find_at_an_old_price(aim);
    }
    *plans = search.finish();
    let ranked = Ranked { pricer, plans: plans.as_slice(), aim };
    ranked.shortlist()
}

/// Plans that are settled, and plans on spot that are not forecast.
struct Search<'a, 'p, 'm> {
    pricer: &'a Pricer<'p>,
    forecaster: &'a mut Forecaster<'m>,
    refused: &'a mut Refusals,
    settled: Vec<Plan>,
    open: Vec<Undecided>,
    /// Undecided plans that were forecast: nothing that is no better needs a forecast of its own.
    done: Vec<Undecided>,
}

impl<'a, 'p, 'm> Search<'a, 'p, 'm> {
    fn new(
        pricer: &'a Pricer<'p>,
        forecaster: &'a mut Forecaster<'m>,
        refused: &'a mut Refusals,
        plans: Vec<Plan>,
    ) -> Self {
        let (open, settled): (Vec<Plan>, Vec<Plan>) = plans.into_iter().partition(Plan::needs_forecast);
        let mut uncountable = Vec::new();
        let open = open.into_iter().filter_map(|plan| match Undecided::new(pricer, plan) {
            Ok(undecided) => Some(undecided),
            Err(plan) => {
                uncountable.push(plan);
                None
            }
        });
        let open = open.collect();
        for plan in uncountable {
            refused.add(plan.instance, Purchase::Spot, plan.nodes, Rejection::Uncountable);
        }
        Self { pricer, forecaster, refused, settled, open, done: Vec::new() }
    }

    fn gpu(&self, plan: &Plan) -> GpuId {
        self.pricer.context.world.hardware.instance(plan.instance).node.gpu
    }

    /// Forecasts whatever could be better than the best that is settled: by best case, until that of the next is no better.
    fn find(&mut self, aim: Aim, depth: Depth) {
        let ranked = self.settled.iter().map(|plan| rank_of(self.pricer, plan, aim));
        let mut best = ranked.min_by(|a, b| by_rank(*a, *b));
        let mut open: Vec<(Rank, Undecided)> =
            std::mem::take(&mut self.open).into_iter().map(|open| (best_case(&open, aim), open)).collect();
        open.sort_by(|(a, _), (b, _)| by_rank(*a, *b));
        let mut open = open.into_iter();
        for (rank, undecided) in open.by_ref() {
            if best.is_some_and(|best| by_rank(best, rank) != Ordering::Greater) {
                self.open.push(undecided);
                break;
            }
            let like = best.filter(|best| best.0 == rank.0).map(|best| best.1.0);
            let from = self.settled.len();
            self.decide(undecided, Question { aim, depth, best: like });
            let found = self.settled[from..].iter().map(|plan| rank_of(self.pricer, plan, aim));
            best = best.into_iter().chain(found).min_by(|a, b| by_rank(*a, *b));
        }
        self.open.extend(open.map(|(_, undecided)| undecided));
    }

    /// For each GPU the plan with the best case, where it could be better than the best that is settled: its row is a hint and no promise.
    fn find_one_of_each_gpu(&mut self, aim: Aim) {
        let mut settled: BTreeMap<GpuId, Rank> = BTreeMap::new();
        for plan in &self.settled {
            let rank = rank_of(self.pricer, plan, aim);
            let held = settled.entry(self.gpu(plan)).or_insert(rank);
            *held = if by_rank(rank, *held).is_lt() { rank } else { *held };
        }
        let mut first: BTreeMap<GpuId, (Rank, usize)> = BTreeMap::new();
        for (index, open) in self.open.iter().enumerate().filter(|(_, open)| !open.is_kept) {
            let (gpu, rank) = (self.gpu(&open.plan), best_case(open, aim));
            let is_better = |than: Option<Rank>| than.is_none_or(|than| by_rank(rank, than).is_lt());
            if is_better(settled.get(&gpu).copied()) && is_better(first.get(&gpu).map(|(held, _)| *held)) {
                first.insert(gpu, (rank, index));
            }
        }
        let mut indices: Vec<usize> = first.into_values().map(|(_, index)| index).collect();
        // From the back, so that what is taken out moves none of those that are still to come.
        indices.sort_unstable_by(|a, b| b.cmp(a));
        for index in indices {
            let undecided = self.open.swap_remove(index);
            self.decide(undecided, Question { aim, depth: Depth::AloneWhereItKeeps, best: None });
        }
    }

    /// The one of a price that is too old to know which may be the best there, where it could be better than everything that is settled: a note
    /// names it.
    fn find_at_an_old_price(&mut self, aim: Aim) {
        let settled = self.settled.iter().map(|plan| rank_of(self.pricer, plan, aim).1);
        let best = settled.min_by(|a, b| by_key(*a, *b));
        let open = self.open.iter().enumerate().filter(|(_, open)| open.standing.is_price_unknown && !open.is_kept);
        let first = open.map(|(index, open)| (best_case(open, aim), index)).min_by(|a, b| by_rank(a.0, b.0));
        if let Some((rank, index)) = first
            && best.is_none_or(|best| by_key(rank.1, best).is_lt())
        {
            let undecided = self.open.swap_remove(index);
            self.decide(undecided, Question { aim, depth: Depth::EveryWay, best: best.map(|best| best.0) });
        }
    }

    /// Forecasts what could be the best of its ways. It stays open as long as some way is left.
    fn decide(&mut self, mut open: Undecided, question: Question) {
        let mut looked_at = self.done.iter().chain(self.open.iter().filter(|open| open.is_left));
        if let Some(better) = looked_at.find(|better| better.is_no_worse_than(&open)) {
            let why = if better.is_kept || better.is_left { open.dominated() } else { better.why_not() };
            self.refused.add(open.plan.instance, Purchase::Spot, open.plan.nodes, why);
            return;
        }
        let found = settle(self.pricer, self.forecaster, &mut open, question);
        self.settled.extend(found);
        if open.is_left {
            self.open.push(open);
            return;
        }
        if !open.is_kept {
            self.refused.add(open.plan.instance, Purchase::Spot, open.plan.nodes, open.why_not());
        }
        self.done.push(open);
    }

    /// The settled plans; what is beaten by its best case already is refused.
    fn finish(self) -> Vec<Plan> {
        for open in self.open.iter().filter(|open| !open.is_kept) {
            self.refused.add(open.plan.instance, Purchase::Spot, open.plan.nodes, open.dominated());
        }
        self.settled
    }
}

fn best_case(open: &Undecided, aim: Aim) -> Rank {
    (open.standing, aim.key(open.least.cost, open.least.hours))
}

pub fn rank_of(pricer: &Pricer, plan: &Plan, aim: Aim) -> Rank {
    let offer = pricer.context.world.market.offer(plan.offer);
    (pricer.standing(offer, plan.nodes), aim.key(plan.cost.expected, plan.run.hours.expected))
}

fn by_rank(a: Rank, b: Rank) -> Ordering {
    a.0.cmp(&b.0).then(by_key(a.1, b.1))
}

/// The rank of the best plan where every way of every plan is forecast, as if no bound were known beforehand.
#[cfg(test)]
pub fn best_of_all(pricer: &Pricer, forecaster: &mut Forecaster, plans: Vec<Plan>, aim: Aim) -> Option<Rank> {
    let mut refused = Refusals::default();
    let mut search = Search::new(pricer, forecaster, &mut refused, plans);
    for mut open in std::mem::take(&mut search.open) {
        let question = Question { aim, depth: Depth::EveryWay, best: None };
        search.settled.extend(settle(pricer, search.forecaster, &mut open, question));
    }
    search.settled.iter().map(|plan| rank_of(pricer, plan, aim)).min_by(|a, b| by_rank(*a, *b))
}

/// Settled plans, and what is looked for.
struct Ranked<'a, 'p> {
    pricer: &'a Pricer<'p>,
    plans: &'a [Plan],
    aim: Aim,
}

impl Ranked<'_, '_> {
    fn shortlist(&self) -> Shortlist {
        let all: Vec<usize> = (0..self.plans.len()).collect();
        let Some(recommended) = self.best(&all, self.aim) else { return Shortlist::default() };
        let has_rank = |index: &usize| self.standing(*index) == self.standing(recommended);
        let mut alike: Vec<usize> = all.iter().copied().filter(has_rank).collect();
        alike.sort_by(|a, b| {
            by_key(self.key(*a, Aim::CHEAPEST), self.key(*b, Aim::CHEAPEST)).then(self.by_identity(*a, *b))
        });
        let (mut frontier, mut fastest) = (Vec::new(), f64::INFINITY);
        for index in &alike {
            let hours = self.plans[*index].run.hours.expected;
            let gain = (FASTER_SHARE * hours).max(FASTER);
            if hours < fastest - gain || *index == recommended {
                // A plan that is hardly slower than the recommended one gives way to it.
                if *index == recommended && hours >= fastest {
                    frontier.retain(|other: &usize| self.plans[*other].run.hours.expected > hours);
                }
                fastest = fastest.min(hours);
                frontier.push(*index);
            }
        }
        let cheapest = frontier.first().copied();
        Shortlist {
            recommended: Some(recommended),
            cheapest,
            alternatives: self.alternatives(&all, &frontier),
            frontier,
        }
    }

    /// For every GPU without a plan on the frontier, the plan that the objective would choose; and what capacity that cannot be taken back would
    /// cost, where only spot is on the list.
    fn alternatives(&self, all: &[usize], frontier: &[usize]) -> Vec<usize> {
        let gpu_at = |index: usize| self.pricer.context.world.hardware.instance(self.plans[index].instance).node.gpu;
        let shown: BTreeSet<GpuId> = frontier.iter().map(|index| gpu_at(*index)).collect();
        let mut by_gpu: BTreeMap<GpuId, Vec<usize>> = BTreeMap::new();
        for index in all.iter().copied().filter(|index| !shown.contains(&gpu_at(*index))) {
            by_gpu.entry(gpu_at(index)).or_default().push(index);
        }
        let mut alternatives: Vec<usize> =
            by_gpu.into_values().filter_map(|found| self.best(&found, self.aim)).collect();
        let purchase = |index: &usize| self.pricer.context.world.market.offer(self.plans[*index].offer).purchase;
        let firm: Vec<usize> = all.iter().copied().filter(|index| purchase(index) == Purchase::OnDemand).collect();
        let elsewhere: Vec<usize> = all.iter().copied().filter(|index| self.standing(*index).is_elsewhere).collect();
        let beyond: Vec<usize> = all.iter().copied().filter(|index| self.standing(*index).is_beyond_quota).collect();
        let old: Vec<usize> = all.iter().copied().filter(|index| self.standing(*index).is_price_unknown).collect();
        for found in [&firm, &elsewhere, &beyond, &old].map(|among| self.best(among, self.aim)).into_iter().flatten() {
            if !frontier.contains(&found) && !alternatives.contains(&found) {
                alternatives.push(found);
            }
        }
        alternatives.sort_by_key(|index| (self.plans[*index].cost.expected, *index));
        alternatives
    }

    fn best(&self, among: &[usize], aim: Aim) -> Option<usize> {
        let rank = |index: usize| (self.standing(index), self.key(index, aim));
        among.iter().copied().min_by(|a, b| by_rank(rank(*a), rank(*b)).then(self.by_identity(*a, *b)))
    }

    fn by_identity(&self, a: usize, b: usize) -> Ordering {
        let identity = |index: usize| (self.plans[index].offer, self.plans[index].nodes);
        identity(a).cmp(&identity(b))
    }

    fn key(&self, index: usize, aim: Aim) -> (f64, f64, f64) {
        aim.key(self.plans[index].cost.expected, self.plans[index].run.hours.expected)
    }

    fn standing(&self, index: usize) -> Standing {
        let plan = &self.plans[index];
        self.pricer.standing(self.pricer.context.world.market.offer(plan.offer), plan.nodes)
    }
}
