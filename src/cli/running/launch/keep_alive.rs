//! `--keep-alive`: a group of one at the cloud starts the machines of a run, so that it goes on while nobody leads it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::running::launch::arguments::KeepAlive;
use crate::running::launch::elsewhere::enter;
use crate::running::overdue::{is_past, time_at};
use crate::running::terminate::terminate_run;
use crate::runs::groups;
use crate::runs::journal::{find_run, open_journal};
use crate::runs::launchers::{Launchers, clock, exit_of, launchers_of_run};
use crate::runs::store::store_of_run;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::runtime::runtime;
use gpuplan_clouds::gcp;
use gpuplan_launch::boot::{self, Boot, Source};
use gpuplan_launch::events::Order;
use gpuplan_launch::journal::words as words_of;
use gpuplan_launch::spec::Offered;
use gpuplan_launch::{
    CreateRequest, End, Job, Journal, KeepRequest, LaunchError, Market, Parcel, Rentable, Role, RunSpec, names,
};
use gpuplan_report::text::format::usd;
use gpuplan_runstore::{Lease, Ledger};

/// Between two looks at a run that is kept.
const LOOK: Duration = Duration::from_secs(10);

/// What was made just now may not be listed yet: the minute of the contract, twice.
const LATE: SignedDuration = SignedDuration::from_mins(2);

/// One thing that no line of the launch says: what a yes means then.
const FLEET: &str = "led       by an EC2 Fleet of one: it replaces an interrupted machine, whether this program runs or not. The fleet is \
                     free, its machine costs what is stated above; it ends when the command has ended, at `gpuplan stop`, or at the end \
                     of the life above, whichever is first. It never falls back to on-demand machines, so no deadline is promised";
const GROUP: &str = "led       by a managed instance group of one: it replaces an interrupted machine, whether this program runs or not. \
                     The group is free, its machine costs what is stated above; it ends when the command has ended, at `gpuplan stop`, or \
                     at the end of the life above, whichever is first. It never falls back to on-demand machines, so no deadline is promised";

pub fn words(spec: &RunSpec) -> &'static str {
    if cloud_of(spec) == Some(gcp::CLOUD) { GROUP } else { FLEET }
}

fn cloud_of(spec: &RunSpec) -> Option<&str> {
    spec.spot.first().map(|offered| offered.pool.cloud.as_str())
}

/// The run as a group can keep it: spot places of one region and one machine type, and a life that the budget pays for.
pub fn narrow_to_group(spec: RunSpec, by: Option<KeepAlive>) -> Result<RunSpec, Diagnostic> {
    let Some(by) = by else { return Ok(spec) };
    let refused =
        |why: &str, hint: &str| Err(Diagnostic::usage(format!("--keep-alive {} {why}", by.word())).hint(hint));
    let Some(first) = spec.spot.first().filter(|_| spec.stand_in.is_none()).map(|offered| offered.pool.clone()) else {
        return refused("keeps spot machines, and this plan has none: on-demand machines are not taken away", "--spot");
    };
    if first.cloud != by.cloud() {
        let other = [KeepAlive::Fleet, KeepAlive::Group].into_iter().find(|other| other.cloud() == first.cloud);
        let hint =
            other.map_or_else(|| format!("--cloud {}", by.cloud()), |other| format!("--keep-alive {}", other.word()));
        return refused(&format!("is a service of {}, and this plan is of {}", by.cloud(), first.cloud), &hint);
    }
    if spec.nodes > 1 {
        return refused("keeps one machine, and this plan has several", "--max-nodes 1");
    }
    let is_near =
        |offered: &Offered| offered.pool.region == first.region && offered.pool.instance_type == first.instance_type;
    let spot: Vec<Offered> = spec.spot.iter().filter(|offered| is_near(offered)).cloned().collect();
    // With its disk, in the dearest place, and the minutes in which it ends.
    let paid_in = |offered: &Offered| {
        let Rentable { most, start, .. } = spec.choice(offered);
        spec.budget_usd.map_or(f64::INFINITY, |budget| Lease::seconds(budget, most, start) / 3600.0)
    };
    let lifetime_hours = spot.iter().map(paid_in).fold(spec.lifetime_hours, f64::min);
    if lifetime_hours < spec.changeover_hours {
        return refused("has to live longer than the budget pays for", "--budget USD, more");
    }
    Ok(RunSpec { lifetime_hours, spot, on_demand: Vec::new(), is_kept: true, ..spec })
}

/// Makes the group, unless an earlier call did: the journal knows one that was answered, its run one that was not, and the token
/// makes a repeated call the same.
pub fn hand_over(
    spec: &RunSpec,
    launchers: &Launchers,
    journal: &mut Journal,
    session: &Session,
    is_detached: bool,
) -> Result<Exit, Diagnostic> {
    let (run, runtime) = (spec.run.as_str(), runtime()?);
    let keeper = keeper(launchers, spec)?;
    let past = find_run(run, session)?.past;
    let is_made = past.orders > 0 && (past.open_since.is_none() || check_on_run(run, session)?.1.is_some());
    let here = if is_made {
        Vec::new()
    } else {
        let mut here = runtime.block_on(keeper.groups(Some(run))).map_err(|error| group_unknown(run, &error))?;
        here.retain(|group| !is_past(launchers, group));
        here
    };
    if !is_made && here.is_empty() {
        let order = order(spec)?;
        // Its end is a moment: by a clock that is a day ahead it would be paid for a day longer than was agreed to.
        let cloud = cloud_of(spec).unwrap_or_default();
        let now = time_at(launchers, cloud).ok_or_else(|| {
            Diagnostic::new(Exit::CloudRefused, format!("{cloud} does not say what time it is, so no group is made"))
        })?;
        let machine = machine(spec, &order, now)?;
        if !journal.intend(run, 1, &order, clock(spec).now())? {
            return session.printer.data(&format!("{run}: stopped\n"));
        }
        let pools = spec.spot.iter().map(|offered| offered.pool.clone()).collect();
        let answer = runtime.block_on(keeper.keep(KeepRequest { machine, pools }));
        let words = answer.as_ref().map_or_else(ToString::to_string, |group| group.id.clone());
        let is_clear = !matches!(answer, Err(LaunchError::Unclear { .. }));
        journal.answer(&order.token, &words, is_clear)?;
        match answer {
            Ok(group) => {
                session.printer.note(&format!("gpuplan: {} keeps {run} alive until {:.0}", group.id, group.expires_at));
            }
            Err(error @ LaunchError::Unclear { .. }) => return Err(group_unknown(run, &error)),
            Err(error) => {
                journal.end(run, &End::Stopped, Timestamp::now())?;
                return Err(Diagnostic::new(exit_of(&error), format!("{run}: {error}")).hint("gpuplan doctor"));
            }
        }
    }
    if is_detached { session.printer.data(&format!("{run}\n")) } else { follow(run, session) }
}

fn group_unknown(run: &str, error: &LaunchError) -> Diagnostic {
    Diagnostic::new(Exit::MayStillCost, format!("{run}: whether a group keeps it alive is unknown: {error}"))
        .hint(format!("gpuplan watch {run}"))
        .hint(format!("gpuplan stop {run}"))
}

fn keeper<'a>(launchers: &'a Launchers, spec: &RunSpec) -> Result<&'a dyn gpuplan_launch::Keeper, Diagnostic> {
    launchers
        .iter()
        .filter(|launcher| cloud_of(spec) == Some(launcher.cloud()))
        .find_map(|launcher| launcher.keeper())
        .ok_or_else(|| Diagnostic::usage("this cloud cannot keep a run alive"))
}

/// At the dearest of the rates, since the group takes any of its places: what was spent is never more than is said.
fn order(spec: &RunSpec) -> Result<Order, Diagnostic> {
    let dearest = spec.spot.iter().max_by_key(|offered| offered.rate_usd_per_hour);
    let dearest = dearest.ok_or_else(|| Diagnostic::usage(format!("{} has no spot place", spec.run)))?;
    Ok(Order {
        epoch: 1,
        node: 0,
        choice: dearest.choice(),
        token: names::token(&spec.launch(), 0, 0, 0),
        name: names::machine(&spec.run, 1, 0),
        lifetime: spec.lifetime_hours * 3600.0,
        // The expiry of the group bounds what it costs.
        ledger: Ledger::default(),
    })
}

/// A machine of the group starts whenever one is taken, so nothing in it may grow old: files are fetched by its own identity.
fn machine(spec: &RunSpec, order: &Order, now: Timestamp) -> Result<CreateRequest, Diagnostic> {
    let Job { agent, workdir, .. } = &spec.job;
    let workdir = workdir.as_ref().map(|parcel| source(spec, parcel)).transpose()?;
    let life = SignedDuration::try_from_secs_f64(order.lifetime);
    let life = life.map_err(|error| Diagnostic::usage(&error).hint("--lifetime 48h"))?;
    let expires_at = now + life;
    let agent = source(spec, agent)?;
    let boot = boot::script(&Boot { spec, order, agent, workdir, ordered_by: None, ends_at: expires_at });
    let most = spec.spot.iter().filter_map(|offered| offered.most_usd_per_hour).max();
    Ok(CreateRequest {
        run: spec.run.clone(),
        epoch: order.epoch,
        node: order.node,
        nodes: 1,
        // The group goes where there is one: no zone of its own.
        pool: gpuplan_launch::Pool { zone_id: None, market: Market::Spot, ..order.choice.pool.clone() },
        token: order.token.clone(),
        name: order.name.clone(),
        expires_at,
        boot,
        image: spec.image.clone(),
        disk_gib: spec.disk_gib,
        tags: spec.tags.clone(),
        most,
        zones: Vec::new(),
        reservation: None,
        role: Role::Work,
        access: spec.access(),
    })
}

fn source(spec: &RunSpec, parcel: &Parcel) -> Result<Source, Diagnostic> {
    Ok(match parcel {
        Parcel::Here(path) => Source::Here(path.clone()),
        Parcel::Address { url, sha256 } => Source::Fetched { from: url.clone(), sha256: sha256.clone() },
        // Such a link wants the identity of the machine, and has no time.
        Parcel::Stored { key, sha256 } if spec.store.starts_with("gs://") => {
            let link = runtime()?.block_on(store_of_run(spec)?.link(key, Duration::ZERO))?;
            Source::linked(&link, sha256)
        }
        Parcel::Stored { key, sha256 } => {
            Source::Fetched { from: format!("{}/{key}", spec.store.trim_end_matches('/')), sha256: sha256.clone() }
        }
    })
}

/// Before anybody reads the journal of a run that is kept: what became of it since. A cloud that does not answer is said.
pub fn update_journal(run: &str, journal: &Journal, session: &Session) -> Result<(), Diagnostic> {
    let Some(kept) = journal.run(run)? else { return Ok(()) };
    if groups::is_kept(&kept, journal)?
        && let Err(error) = check_on_run(run, session)
    {
        session.printer.note(&format!("warning: {run} is shown as it was last seen: {}", error.message));
    }
    Ok(())
}

/// Looks at the run until it has ended. Who stops looking changes nothing.
pub fn follow(run: &str, session: &Session) -> Result<Exit, Diagnostic> {
    let mut said = String::new();
    loop {
        let (standing, end) = check_on_run(run, session)?;
        match end {
            Some(End::Completed) => return session.printer.data(&format!("{run}: completed\n")),
            Some(End::Failed(why)) => {
                return Err(Diagnostic::unexpected(format!("{run}: {why}")).hint(format!("gpuplan logs {run}")));
            }
            Some(_) => return session.printer.data(&format!("{run}: stopped\n")),
            None if standing != said => session.printer.note(&format!("gpuplan: {run}: {standing}")),
            None => {}
        }
        said = standing;
        std::thread::sleep(LOOK);
    }
}

/// One look at a run that is kept, as a leader takes it: machines and what they cost into the journal, and the end of the run where
/// its store says so or where nothing of it is left.
pub fn check_on_run(run: &str, session: &Session) -> Result<(String, Option<End>), Diagnostic> {
    let before = find_run(run, session)?;
    let mut journal = open_journal(session)?;
    if let Some(end) = &before.end {
        let end = if end == words_of(&End::Completed) { End::Completed } else { End::Stopped };
        return Ok(("ended".to_owned(), Some(end)));
    }
    let clouds = launchers_of_run(&before.spec, session)?;
    let seen = enter(&before, &clouds, &mut journal, session).map_err(|error| unknown_state(run, &error))?;
    let is_young = Timestamp::now().duration_since(before.spec.started_at) < LATE;
    let groups = if seen.up.is_empty() && !is_young {
        let listed =
            runtime()?.block_on(groups::all(&clouds, Some(run))).map_err(|error| group_unknown(run, &error))?;
        listed.iter().filter(|group| !is_past(&clouds, group)).count()
    } else {
        1
    };
    let lost = || {
        End::Failed("its group and its machine have ended, and its store does not say that it is completed".to_owned())
    };
    let end = seen.outcome.or_else(|| (groups == 0).then(lost));
    if let Some(end) = &end {
        terminate_run(&find_run(run, session)?, end, session)?;
    }
    let place =
        seen.up.first().map_or_else(|| "waiting for a machine".to_owned(), |machine| format!("on {}", machine.pool));
    Ok((format!("{:.0} % safe, {} spent: {place}", seen.done * 100.0, usd(seen.spent)), end))
}

fn unknown_state(run: &str, error: &Diagnostic) -> Diagnostic {
    Diagnostic::new(Exit::MayStillCost, format!("{run}: whether a group keeps it alive is unknown: {}", error.message))
        .hint(format!("gpuplan watch {run}"))
        .hint(format!("gpuplan stop {run}"))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use gpuplan_launch::Pool;
    use gpuplan_runstore::{Expected, Side, SidePrice};
    use gpuplan_units::{Usd, UsdPerHour};

    fn offered(region: &str, zone: &str, rate: &str) -> Offered {
        let pool = Pool {
            cloud: "aws".to_owned(),
            region: region.to_owned(),
            zone_id: Some(zone.to_owned()),
            instance_type: "g5.xlarge".to_owned(),
            market: Market::Spot,
        };
        Offered::new(pool, UsdPerHour::parse(rate).unwrap_or_default())
    }

    pub fn spec() -> RunSpec {
        let job = Job {
            command: vec!["./train.py".to_owned()],
            agent: Parcel::Stored { key: "_bin/ab/gpuplan".to_owned(), sha256: "ab".to_owned() },
            workdir: None,
            setup: None,
            environment: Vec::new(),
            secrets: Vec::new(),
            data: None,
            container: None,
            container_login: None,
            sweep: None,
            agent_options: Vec::new(),
            notify: None,
        };
        RunSpec {
            version: gpuplan_launch::spec::VERSION,
            run: "r".to_owned(),
            started_at: Timestamp::UNIX_EPOCH,
            stand_in: None,
            nodes: 1,
            spot: vec![
                offered("us-east-1", "a", "0.40"),
                offered("us-east-1", "b", "0.50"),
                offered("us-west-2", "c", "0.60"),
            ],
            on_demand: vec![offered("us-east-1", "a", "1.00")],
            work_hours: 1.0,
            deadline_hours: None,
            changeover_hours: 0.1,
            worst_changeover_hours: 0.2,
            budget_usd: Usd::from_dollars(5.0),
            lifetime_hours: 48.0,
            silence_seconds: 600.0,
            settles_seconds: gpuplan_launch::spec::SETTLES,
            expected_cost_usd: Usd::ZERO,
            steps: 1.0,
            store: "s3://b/p/".to_owned(),
            image: None,
            disk_gib: 100,
            tags: Vec::new(),
            is_kept: false,
            keep_warm_seconds: None,
            takes: None,
            leads: None,
            block: None,
            expected: None,
            job,
        }
    }

    #[test]
    fn a_group_keeps_to_one_region_and_lives_as_long_as_the_money() {
        let kept = narrow_to_group(spec(), Some(KeepAlive::Fleet)).unwrap();
        assert_eq!((kept.spot.len(), kept.on_demand.len(), kept.is_kept), (2, 0, true));
        assert!((kept.lifetime_hours - 9.95).abs() < 1e-3, "five dollars at the dearest rate: {}", kept.lifetime_hours);
        assert_eq!(narrow_to_group(spec(), None).unwrap(), spec());
        // A dollar a GB and month for its disk of 100 GiB is 15 cents an hour.
        let disk = SidePrice {
            of: Side::Disk,
            cloud: "aws".to_owned(),
            region: "us-east-1".to_owned(),
            usd: Usd::from_dollars(1.0).unwrap(),
            unit: "GB-month".to_owned(),
            unit_bytes: 1e9,
            source: "a test".to_owned(),
            observed_at: Timestamp::UNIX_EPOCH,
        };
        let all = serde_json::json!({
            "plan": "p", "gpu": "a10g", "gpus_per_node": 1.0, "framework": "pytorch", "interruptions": 0.0, "prices": [],
            "cost_usd": {"expected": "1", "p50": "1", "p90": "1"}, "hours": {"expected": 1.0, "p50": 1.0, "p90": 1.0},
        });
        let expected = Expected { beside: vec![disk], ..serde_json::from_value(all).unwrap() };
        let spec = RunSpec { expected: Some(expected), ..spec() };
        let kept = narrow_to_group(spec, Some(KeepAlive::Fleet)).unwrap();
        let Rentable { most, minimum_seconds, start, .. } = kept.choice(&kept.spot[1]);
        let cost = Lease::cost(kept.lifetime_hours * 3600.0, most, minimum_seconds, start);
        assert!(most.dollars() > 0.6 && cost <= Usd::from_dollars(5.0).unwrap(), "{cost} with its disk at {most}");
        let poor = RunSpec { budget_usd: Usd::from_dollars(0.01), ..self::spec() };
        assert!(narrow_to_group(poor, Some(KeepAlive::Fleet)).is_err(), "no machine would come to work");
    }

    #[test]
    fn what_no_fleet_keeps_is_refused_with_what_to_type() {
        let hint = |spec: RunSpec| narrow_to_group(spec, Some(KeepAlive::Fleet)).unwrap_err().hints.concat();
        assert_eq!(hint(RunSpec { spot: Vec::new(), ..spec() }), "--spot");
        assert_eq!(hint(RunSpec { nodes: 2, ..spec() }), "--max-nodes 1");
        let mut elsewhere = spec();
        elsewhere.spot[0].pool.cloud = "gcp".to_owned();
        assert_eq!(hint(elsewhere.clone()), "--keep-alive group");
        assert!(narrow_to_group(elsewhere.clone(), Some(KeepAlive::Group)).unwrap().is_kept);
        elsewhere.spot[0].pool.cloud = "azure".to_owned();
        assert_eq!(hint(elsewhere), "--cloud aws");
        let refused = narrow_to_group(spec(), Some(KeepAlive::Group)).unwrap_err();
        assert_eq!(refused.hints.concat(), "--keep-alive fleet");
    }

    #[test]
    fn nothing_in_a_kept_machine_grows_old() {
        let kept = narrow_to_group(spec(), Some(KeepAlive::Fleet)).unwrap();
        let order = order(&kept).unwrap();
        assert_eq!(order.choice.pool.zone_id.as_deref(), Some("b"), "what it costs is said by the dearest");
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let machine = machine(&kept, &order, now).unwrap();
        assert!((machine.expires_at.duration_since(now).as_secs_f64() / 3600.0 - kept.lifetime_hours).abs() < 1e-3);
        // One that is started late ends with the others.
        assert!(machine.boot.contains(&format!("end={};", machine.expires_at.as_second())), "{}", machine.boot);
        assert!(machine.boot.contains("fetch agent ab s3://b/p/_bin/ab/gpuplan"), "{}", machine.boot);
        assert_eq!(machine.pool.zone_id, None);
    }
}
