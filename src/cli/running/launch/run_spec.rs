//! From a plan to the specification of a run: places to rent at, limits, and where the run is kept.

use crate::question::answer::Answered;
use crate::running::launch::arguments::LaunchArguments;
use crate::running::launch::warm;
use crate::runs::clouds::rental_cloud;
use crate::runs::journal::no_state_folder;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_clouds::{aws, fake};
use gpuplan_estimate::constants::Fitted;
use gpuplan_estimate::own_runs::Program;
use gpuplan_hardware::CloudId;
use gpuplan_launch::job::DOCKER;
use gpuplan_launch::spec::{Offered, SETTLES, VERSION};
use gpuplan_launch::{Job, Market, Pool, RunSpec};
use gpuplan_market::{ChargeKind, Offer, OfferId, Purchase};
use gpuplan_plan::filters::refuse_offer;
use gpuplan_plan::{Limits, Plan, World, plan_id};
use gpuplan_runstore::layout::Layout;
use gpuplan_runstore::{Expected, ExpectedPrice, ForecastBasis, Side, SidePrice};
use gpuplan_units::{Hours, Usd, UsdPerHour};
use gpuplan_workload::file::WorkloadFile;
use gpuplan_workload::{DataSet, Sweep};

/// Places that a run fails over to, of each kind.
const MOST_PLACES: usize = 10;

/// Without a stated life, a machine may live for so many times the hours that nine of ten runs take, and an hour at least.
const LIFE: f64 = 2.0;

const SHORTEST_LIFE: f64 = 1.0;

/// Of spot machines at AWS, what may be paid over the price that the plan knew. Prices there move slowly since 2017 (AWS Compute Blog, "New
/// Amazon EC2 Spot pricing model"); a bid at the price itself would refuse every machine after the smallest rise. Judgement. Percent.
pub const BID_ROOM: i64 = 10;

/// The finest price that a bid is written with, in nano-dollars: EC2 writes its own so.
const BID_STEP: i64 = 1000;

/// A machine of a real cloud boots, fetches and restores before its first heartbeat. Judgement. Seconds.
const SILENCE: f64 = 600.0;

/// One question, answered, and the plan of it that is launched.
pub struct Chosen<'a> {
    pub answered: &'a Answered,
    pub plan: &'a Plan,
    pub limits: &'a Limits,
    pub is_fake: bool,
}

impl Chosen<'_> {
    /// The cloud that rents.
    pub fn cloud(&self) -> &str {
        if self.is_fake {
            fake::CLOUD
        } else {
            self.answered.catalogs.hardware.instance(self.plan.instance).cloud.as_str()
        }
    }

    pub fn specified(
        &self,
        arguments: &LaunchArguments,
        run: String,
        store: String,
        job: Job,
    ) -> Result<RunSpec, Diagnostic> {
        let (spot, on_demand) = self.places();
        let expected = self.expected(&spot, &on_demand);
        let lifetime = self.lifetime(arguments)?;
        let plan = self.plan;
        Ok(RunSpec {
            version: VERSION,
            run,
            started_at: jiff::Timestamp::now(),
            stand_in: self.is_fake.then(|| fake::CLOUD.to_owned()),
            nodes: plan.nodes,
            spot,
            on_demand,
            work_hours: plan.run.work.expected,
            deadline_hours: self.deadline(),
            changeover_hours: plan.run.changeover.0,
            worst_changeover_hours: plan.run.worst_changeover.0,
            budget_usd: self.limits.budget,
            lifetime_hours: lifetime,
            silence_seconds: SILENCE,
            settles_seconds: SETTLES,
            expected_cost_usd: plan.cost.expected,
            steps: plan.run.steps,
            store,
            image: arguments.delivery.image.clone().filter(|image| !image.starts_with(DOCKER)),
            disk_gib: self.disk_gib(),
            tags: self.tags(arguments)?,
            is_kept: false,
            keep_warm_seconds: warm::keep_seconds(arguments.machines.keep_warm, plan.nodes, self.is_fake)?,
            takes: None,
            leads: None,
            block: None,
            expected: Some(expected),
            job: Job { sweep: self.sweep(), ..job },
        })
    }

    /// Of each machine, within the longest time for which its terms sell one. Hours.
    fn lifetime(&self, arguments: &LaunchArguments) -> Result<f64, Diagnostic> {
        let purchase = self.answered.catalogs.market.offer(self.plan.offer).purchase;
        let longest = purchase.longest_hours().map_or(f64::INFINITY, f64::from);
        let Some(text) = &arguments.machines.lifetime else {
            let shortest = if self.is_fake { fake::SHORTEST_LIFE } else { SHORTEST_LIFE };
            return Ok((LIFE * self.plan.run.hours.p90).max(shortest).min(longest));
        };
        let stated = Hours::parse(text).map_err(|error| Diagnostic::usage(&error).hint("--lifetime 48h"))?.0;
        if stated > longest {
            let why = format!("a machine on {purchase} terms is sold for {} at most", Hours(longest));
            return Err(Diagnostic::usage(why).hint(format!("--lifetime {longest:.0}h")));
        }
        Ok(stated)
    }

    /// What was forecast: by when on-demand machines take over, else the user's own deadline.
    fn deadline(&self) -> Option<f64> {
        let finish_by = self.plan.spot.as_ref().and_then(|spot| spot.finish_by);
        finish_by.or(self.limits.deadline).map(|deadline| deadline.0)
    }

    /// As many runs at a time as the machine has room for.
    fn sweep(&self) -> Option<Sweep> {
        let sweep = self.answered.resolved.workload.sweep?;
        Some(Sweep { parallel: self.plan.run.packing.side_by_side, ..sweep })
    }

    /// Root disk as the bill of the plan has it. GiB.
    fn disk_gib(&self) -> u32 {
        let hardware = &self.answered.catalogs.hardware;
        let bytes = gpuplan_plan::input::disks::network_disk(
            hardware.instance(self.plan.instance),
            self.answered.resolved.workload.data.as_ref(),
        );
        (bytes.0 / f64::from(1 << 30)).ceil() as u32
    }

    fn tags(&self, arguments: &LaunchArguments) -> Result<Vec<(String, String)>, Diagnostic> {
        let read = |text: &String| match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            _ => Err(Diagnostic::usage(format!("--tag `{text}` has no value")).hint("--tag team=research")),
        };
        let tags: Vec<(String, String)> = arguments.machines.tags.iter().map(read).collect::<Result<_, _>>()?;
        let rule = self.limits.policy.as_ref().and_then(|policy| policy.required_tags.as_ref());
        let missing = rule.and_then(|rule| {
            Some((rule, rule.value.iter().find(|name| !tags.iter().any(|(given, _)| given == *name))?))
        });
        match missing {
            Some((rule, name)) => Err(Diagnostic::new(
                Exit::OverBudget,
                format!("policy.toml line {}: everything rented carries the tag `{name}`", rule.line),
            )
            .hint(format!("--tag {name}=VALUE"))),
            None => Ok(tags),
        }
    }

    /// Spot and on-demand places, the best first. A run keeps to one cloud: its machines have the identity that its store wants.
    fn places(&self) -> (Vec<Offered>, Vec<Offered>) {
        let market = &self.answered.catalogs.market;
        let cloud = self.answered.catalogs.hardware.instance(self.plan.instance).cloud.as_str();
        match &self.plan.spot {
            Some(outlook) => {
                let on_demand = if outlook.fallback.is_some() { self.elsewhere(outlook.fallback) } else { Vec::new() };
                let spot = outlook.pools.iter().map(|pool| self.place(market.offer(pool.offer)));
                (spot.filter(|offered| offered.pool.cloud == cloud).collect(), on_demand)
            }
            None => (Vec::new(), self.elsewhere(Some(self.plan.offer))),
        }
    }

    /// On-demand machines of the same type, or those of the same queue, wherever the limits allow them: the plan's own place first, then the
    /// cheapest.
    fn elsewhere(&self, first: Option<OfferId>) -> Vec<Offered> {
        let (market, hardware) = (&self.answered.catalogs.market, &self.answered.catalogs.hardware);
        let is_flexible = first.is_some_and(|id| market.offer(id).purchase == Purchase::FlexStart);
        let terms = if is_flexible { Purchase::FlexStart } else { Purchase::OnDemand };
        let sold = |id: &OfferId| {
            let offer = market.offer(*id);
            let is_same = offer.instance == self.plan.instance && offer.purchase == terms && offer.owned.is_none();
            is_same && refuse_offer(offer, hardware.instance(offer.instance), hardware, self.limits).is_none()
        };
        let mut ids: Vec<OfferId> = market.offer_ids().filter(sold).collect();
        ids.sort_by_key(|id| (Some(*id) != first, market.offer(*id).quote.rate, *id));
        if let Some(first) = first.filter(|first| !ids.contains(first)) {
            ids.insert(0, first);
        }
        ids.truncate(MOST_PLACES);
        ids.into_iter().map(|id| self.place(market.offer(id))).collect()
    }

    /// What the plan expects, for the comparison with what happened.
    fn expected(&self, spot: &[Offered], on_demand: &[Offered]) -> Expected {
        let (plan, answered) = (self.plan, self.answered);
        let (market, hardware) = (&answered.catalogs.market, &answered.catalogs.hardware);
        let world = World { hardware, market, correction: &answered.correction };
        let (workload, setting) = (&answered.resolved.workload, &plan.step.setting);
        let tokens_of_a_step = setting.global_batch * f64::from(workload.training.sequence_length);
        let forecast = plan.spot.as_ref().and_then(|spot| spot.forecast.as_ref());
        let prices = spot.iter().chain(on_demand).filter_map(|offered| {
            let is_there = |id: &OfferId| self.place(market.offer(*id)) == *offered;
            let offer = market.offer_ids().find(is_there).map(|id| market.offer(id))?;
            // A discount keeps the price that it replaced among the flags; the list price of a spot machine is that on demand.
            let on_demand = (offer.purchase == Purchase::Spot)
                .then(|| market.on_demand_rate(offer.instance, &offer.place.region))
                .flatten();
            let list = offer
                .flags
                .strip_prefix("list=")
                .and_then(|text| UsdPerHour::parse(text).ok())
                .or(on_demand)
                .unwrap_or(offer.quote.rate);
            Some(ExpectedPrice {
                place: offered.pool.to_string(),
                list_usd_per_hour: list,
                origin: offer.quote.origin.word().to_owned(),
                source: offer.source.to_string(),
                observed_at: offer.quote.observed_at,
            })
        });
        let mut places: Vec<(&str, &str)> = Vec::new();
        for Offered { pool, .. } in spot.iter().chain(on_demand) {
            let place = (pool.cloud.as_str(), pool.region.as_str());
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let node = &hardware.instance(plan.instance).node;
        Expected {
            plan: plan_id(world, plan),
            gpu: hardware.gpu(node.gpu).id.clone(),
            gpus_per_node: f64::from(node.devices()),
            framework: workload.training.framework.id().to_owned(),
            cost_usd: plan.cost,
            hours: plan.run.hours,
            interruptions: forecast
                .map_or(plan.run.interruptions.per_hour * plan.run.hours.expected, |forecast| forecast.interruptions),
            tokens: (!workload.model.kind.counts_samples()).then_some(plan.run.steps * tokens_of_a_step),
            prices: prices.collect(),
            basis: Some(self.basis()),
            beside: self.side_prices(&places),
            fetched_bytes: self.fetched_from(&places).map(|(data, _)| data.size.0),
        }
    }

    /// Data that a launch brings to some of these places from elsewhere, and where it lies: cloud and region, `*` where that is not stated.
    fn fetched_from<'a>(&'a self, places: &[(&str, &str)]) -> Option<(&'a DataSet, (&'a str, &'a str))> {
        let data = self.answered.resolved.workload.data.as_ref().filter(|data| data.location.is_some())?;
        let place = data.place.as_deref()?;
        let from = place.split_once('/').unwrap_or((place, "*"));
        let is_here = |(cloud, region): &(&str, &str)| from.0 == *cloud && (from.1 == "*" || from.1 == *region);
        (!self.is_fake && !places.iter().all(is_here)).then_some((data, from))
    }

    /// Prices of what is paid in addition to machines in these places. The store is taken to lie in the first. What a stand-in rehearses costs
    /// nothing.
    fn side_prices(&self, places: &[(&str, &str)]) -> Vec<SidePrice> {
        if self.is_fake {
            return Vec::new();
        }
        let disks = places.iter().filter_map(|place| self.side(Side::Disk, ChargeKind::NetworkDisk, *place));
        let storage = places.first().and_then(|place| self.side(Side::Storage, ChargeKind::ObjectStorage, *place));
        let data_out = self.fetched_from(places).and_then(|(_, from)| {
            let price = self.side(Side::DataOut, ChargeKind::EgressInternet, from)?;
            // As in the bill of a plan: rates between regions of a cloud are in no source, and that of the internet is the most that they can be.
            let within = if from.0 == self.cloud() { ", as to the internet" } else { "" };
            Some(SidePrice { source: format!("{}{within}", price.source), ..price })
        });
        disks.chain(storage).chain(data_out).collect()
    }

    fn side(&self, of: Side, kind: ChargeKind, (cloud, region): (&str, &str)) -> Option<SidePrice> {
        let charge = self.answered.catalogs.market.charges.find(kind, &CloudId::new(cloud), region)?;
        let doubt = if charge.is_unverified { ", unverified" } else { "" };
        Some(SidePrice {
            of,
            cloud: cloud.to_owned(),
            region: region.to_owned(),
            usd: charge.rate,
            unit: charge.unit_word().to_owned(),
            unit_bytes: charge.unit_bytes(),
            source: format!("{}{doubt}", charge.source),
            observed_at: charge.observed_at,
        })
    }

    fn basis(&self) -> ForecastBasis {
        let workload = &self.answered.resolved.workload;
        let Program { model, task, .. } = Program::new(&workload.model, &workload.training);
        ForecastBasis {
            model,
            task,
            constants_version: Fitted::embedded().version.clone(),
            measured_sha256: self.answered.measured_sha256.clone(),
            time_factor: self.plan.step.experience.map_or(1.0, |known| known.time),
        }
    }

    fn place(&self, offer: &Offer) -> Offered {
        let instance = self.answered.catalogs.hardware.instance(offer.instance);
        let pool = Pool {
            cloud: instance.cloud.to_string(),
            region: offer.place.region.to_string(),
            zone_id: offer.place.zone_id.as_ref().map(ToString::to_string),
            instance_type: instance.name.clone(),
            market: match offer.purchase {
                Purchase::Spot => Market::Spot,
                Purchase::FlexStart => Market::FlexStart,
                _ => Market::OnDemand,
            },
        };
        let takes_bids = pool.cloud == aws::CLOUD && pool.market == Market::Spot;
        let limit = self.limits.max_price_per_hour;
        let most = takes_bids.then(|| bid(offer.quote.rate, self.plan.nodes, limit));
        Offered { most_usd_per_hour: most, ..Offered::new(pool, offer.quote.rate) }
    }
}

/// The most that is paid for one machine an hour: the planned price and some room, within `--max-price`, which is of all machines.
fn bid(planned: UsdPerHour, nodes: u32, limit: Option<Usd>) -> UsdPerHour {
    let with_room = planned.nanos().saturating_add(planned.nanos().saturating_mul(BID_ROOM) / 100);
    let rounded = with_room.saturating_add(BID_STEP - 1) / BID_STEP * BID_STEP;
    let of_one = limit.map_or(i128::MAX, |limit| limit.nanos() / i128::from(nodes.max(1)));
    UsdPerHour::from_nanos(i64::try_from(of_one).map_or(rounded, |of_one| rounded.min(of_one / BID_STEP * BID_STEP)))
}

/// The name that was given, else of the workload and the time.
pub fn run_name(
    arguments: &LaunchArguments,
    answered: &Answered,
    file: &WorkloadFile,
    session: &Session,
) -> Result<String, Diagnostic> {
    let name = file.name.clone().unwrap_or_else(|| answered.resolved.workload.model.name.clone());
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' }).collect();
    let run = arguments.run.clone().unwrap_or_else(|| format!("{plain}-{}", session.now.strftime("%Y%m%d-%H%M%S")));
    Layout::new(&run).map_err(|error| Diagnostic::usage(&error).hint("gpuplan launch --run NAME ..."))?;
    Ok(run)
}

/// Where checkpoints go: a bucket that the machines may write to with the identity that they have.
pub fn store_address(arguments: &LaunchArguments, cloud: &str, session: &Session) -> Result<String, Diagnostic> {
    let Some(rental) = rental_cloud(cloud) else {
        let local = session.home.state_file("fake-cloud").ok_or_else(no_state_folder)?.join("store");
        let local = std::path::absolute(&local).map_err(|error| Diagnostic::file(&local, &error))?;
        return Ok(arguments.store.clone().unwrap_or_else(|| format!("file://{}", local.display())));
    };
    let scheme = rental.bucket_scheme;
    match &arguments.store {
        Some(store) if store.starts_with(&format!("{scheme}://")) => Ok(store.clone()),
        given => {
            let what = if given.is_some() { "cannot write there" } else { "need a bucket for their checkpoints" };
            Err(Diagnostic::usage(format!("machines of {cloud} {what}; nothing was rented"))
                .hint(format!("--store {scheme}://BUCKET/PREFIX"))
                .hint(format!("gpuplan setup {cloud} creates a bucket")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bid_is_the_planned_price_with_a_tenth_and_never_over_the_limit_of_all_machines() {
        let rate = |text| UsdPerHour::parse(text).unwrap();
        assert_eq!(bid(rate("0.4004"), 1, None), rate("0.44044"));
        assert_eq!(bid(rate("1.0000001"), 1, None), rate("1.100001"), "rounded up to a price that EC2 writes");
        let limit = |text| Some(Usd::parse(text).unwrap());
        assert_eq!(bid(rate("10"), 2, limit("21")), rate("10.5"), "each of two machines may cost half of it");
        assert_eq!(bid(rate("10"), 2, limit("30")), rate("11"));
        assert_eq!(bid(rate("1"), 3, limit("3.1")), rate("1.033333"), "three times this is not over the limit");
    }
}
