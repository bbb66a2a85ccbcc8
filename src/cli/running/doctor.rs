//! `doctor`: which credentials are found, what they may do, and which quotas would block the plan, with what to type next.

use std::collections::BTreeSet;

use clap::Args;

use crate::arguments::global::OutputFormat;
use crate::arguments::limits::LimitsArguments;
use crate::arguments::measured::MeasuredArguments;
use crate::arguments::prices::PriceArguments;
use crate::arguments::workload::WorkloadArguments;
use crate::question::answer::{self, Answered};
use crate::question::workload;
use crate::runs::clouds::rental_cloud;
use crate::runs::journal::journal_if_any;
use crate::runs::quotas;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_clouds::{Sources, ask, sources};
use gpuplan_hardware::CloudId;
use gpuplan_market::{
    AccountSource, BoxFuture, Identity, Permission, Purchase, Quota, QuotaNeed, SourceError, Verdict,
};
use gpuplan_plan::{Plan, limits};
use gpuplan_report::doctor::{self, AccountRow, Check};

#[derive(Debug, Args)]
pub struct DoctorArguments {
    #[command(flatten)]
    pub workload: WorkloadArguments,
    #[command(flatten)]
    pub limits: LimitsArguments,
    /// Look at the bucket of this store, too: its rules may delete what runs keep [default: those of the runs that are known here]
    #[arg(long, value_name = "URI")]
    pub store: Option<String>,
}

/// Plans whose quotas are looked up: the recommended one and the next ones on the list.
const PLANS_CHECKED: usize = 8;

/// Clouds whose buckets have rules of their own, and how their addresses begin.
const BUCKETS: [(&str, &str); 2] = [("aws", "s3://"), ("gcp", "gs://")];
/// Below the address of a store, runs lie here.
const RUNS: &str = "runs/";

/// Machines of one plan, as a quota counts them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Machines {
    cloud: CloudId,
    region: String,
    instance: gpuplan_hardware::InstanceId,
    purchase: Purchase,
    nodes: u32,
}

pub fn run(arguments: &DoctorArguments, session: &Session) -> Result<Exit, Diagnostic> {
    if session.offline {
        return Err(Diagnostic::usage("doctor asks the clouds, which --offline (or GPUPLAN_OFFLINE) forbids")
            .hint("unset GPUPLAN_OFFLINE and run `gpuplan doctor`"));
    }
    let answered = arguments.workload.is_given().then(|| planned(arguments, session)).transpose()?;
    let hardware = match &answered {
        Some(answered) => answered.catalogs.hardware.clone(),
        None => session.hardware()?,
    };
    let named: Vec<CloudId> =
        arguments.limits.places.clouds.iter().map(|name| limits::cloud(name, &hardware)).collect::<Result<_, _>>()?;
    let clouds: Vec<(CloudId, Sources)> = hardware
        .clouds()
        .into_iter()
        .filter(|cloud| named.is_empty() || named.contains(cloud))
        .filter_map(|cloud| sources(&cloud).map(|sources| (cloud, sources)))
        .collect();
    let wanted = answered.as_ref().map(machines).unwrap_or_default();
    let stores = stores(arguments.store.as_deref(), session)?;
    let checks: Vec<Check> = clouds
        .iter()
        .map(|(cloud, sources)| check(cloud, sources, &wanted, &stores, &hardware))
        .collect::<Result<_, _>>()?;
    quotas::keep(&checks, session);
    let context = doctor::Context { has_plan: answered.is_some(), width: session.width };
    match session.output {
        OutputFormat::Json => session.printer.data(&doctor::json(&checks))?,
        OutputFormat::Csv => {
            return Err(Diagnostic::usage("the findings of doctor cannot be printed as CSV")
                .hint("gpuplan doctor --output json"));
        }
        OutputFormat::Table => session.printer.data(&doctor::text(&checks, &context))?,
    };
    Ok(exit(&checks))
}

/// As if no account had been asked before, so that one which has more today is asked again.
fn planned(arguments: &DoctorArguments, session: &Session) -> Result<Answered, Diagnostic> {
    let file = workload::with_limits(&arguments.workload, &arguments.limits)?;
    answer::compute(&file, &PriceArguments::default(), &MeasuredArguments::default(), &session.knowing(Vec::new()))
}

/// What stands in the way decides the code: a quota, else a permission.
fn exit(checks: &[Check]) -> Exit {
    let denied =
        |check: &Check| check.permissions.iter().any(|permission| matches!(permission.verdict, Verdict::Denied { .. }));
    if checks.iter().any(|check| check.quotas.iter().any(Quota::blocks)) {
        Exit::Quota
    } else if checks.iter().any(denied) {
        Exit::CloudRefused
    } else {
        Exit::Done
    }
}

/// The machines of the plans that a person would look at first.
fn machines(answered: &Answered) -> Vec<Machines> {
    let (set, catalogs) = (&answered.set, &answered.catalogs);
    let of = |plan: &Plan| {
        let offer = catalogs.market.offer(plan.offer);
        Machines {
            cloud: catalogs.hardware.instance(plan.instance).cloud.clone(),
            region: offer.place.region.to_string(),
            instance: plan.instance,
            purchase: offer.purchase,
            nodes: plan.nodes,
        }
    };
    let plans = set.recommendation.iter().chain(&set.frontier).chain(&set.alternatives).take(PLANS_CHECKED);
    let mut seen = BTreeSet::new();
    plans.map(of).filter(|machines| seen.insert(machines.clone())).collect()
}

fn check(
    cloud: &CloudId,
    sources: &Sources,
    wanted: &[Machines],
    stores: &BTreeSet<String>,
    hardware: &gpuplan_hardware::Hardware,
) -> Result<Check, Diagnostic> {
    let public = sources.prices.iter().filter(|source| source.about().access == gpuplan_market::Access::Public).count();
    let row = |account: AccountRow| Check {
        cloud: cloud.to_string(),
        public_sources: public,
        account,
        tried: sources.tried.clone(),
        permissions: Vec::new(),
        quotas: Vec::new(),
        buckets: Vec::new(),
        problems: Vec::new(),
    };
    let Some(account) = sources.account.as_deref() else {
        let keyed = sources.prices.len() - public;
        return Ok(row(match sources.needs_feature {
            Some(feature) => AccountRow::NotBuilt(feature),
            None if keyed > 0 => AccountRow::PricesOnly,
            None => AccountRow::NotNeeded,
        }));
    };
    let identity = one(cloud, account.identity())?;
    let Identity { account: id, principal, found_in } = match identity {
        Ok(identity) => identity,
        Err(error) => return Ok(row(AccountRow::Missing(error.to_string()))),
    };
    let mut check = row(AccountRow::Found { account: id, principal, found_in });
    let mine: Vec<&Machines> = wanted.iter().filter(|machines| machines.cloud == *cloud).collect();
    let region = mine
        .first()
        .map_or(rental_cloud(cloud.as_str()).map_or("us-east-1", |cloud| cloud.default_region), |machines| {
            machines.region.as_str()
        });
    match one(cloud, account.permissions(region))? {
        Ok(permissions) => check.permissions = permissions,
        Err(error) => check.problems.push(format!("permissions in {region}: {error}")),
    }
    ask_for_quotas(account, &mine, hardware, &mut check)?;
    buckets(account, stores, &mut check)?;
    check.permissions.sort_by_key(|permission: &Permission| !matches!(permission.verdict, Verdict::Denied { .. }));
    Ok(check)
}

/// Where runs keep what they save: as was asked, or as the journal on this machine knows.
fn stores(named: Option<&str>, session: &Session) -> Result<BTreeSet<String>, Diagnostic> {
    let mut stores: BTreeSet<String> = named.map(str::to_owned).into_iter().collect();
    if named.is_none()
        && let Some(journal) = journal_if_any(session)?
    {
        for run in journal.runs()? {
            stores.extend(journal.run(&run)?.map(|kept| kept.spec.store));
        }
    }
    Ok(stores)
}

/// What the buckets of stores do by themselves to what lies there.
fn buckets(account: &dyn AccountSource, stores: &BTreeSet<String>, check: &mut Check) -> Result<(), Diagnostic> {
    let cloud = account.cloud();
    let Some(scheme) = BUCKETS.iter().find(|(of, _)| *of == cloud.as_str()).map(|(_, scheme)| *scheme) else {
        return Ok(());
    };
    for (store, place) in stores.iter().filter_map(|store| Some((store, store.strip_prefix(scheme)?))) {
        let (bucket, prefix) = place.trim_end_matches('/').split_once('/').unwrap_or((place.trim_end_matches('/'), ""));
        let prefix = if prefix.is_empty() { RUNS.to_owned() } else { format!("{prefix}/{RUNS}") };
        match one(&cloud, account.bucket(bucket, &prefix))? {
            Ok(rules) => check.buckets.push(rules),
            Err(error) => check.problems.push(format!("the rules of the bucket of {store}: {error}")),
        }
    }
    Ok(())
}

/// Every quota once, counted against the plan that needs most of it.
fn ask_for_quotas(
    account: &dyn AccountSource,
    mine: &[&Machines],
    hardware: &gpuplan_hardware::Hardware,
    check: &mut Check,
) -> Result<(), Diagnostic> {
    for machines in mine {
        let instance = hardware.instance(machines.instance);
        let need = QuotaNeed {
            region: &machines.region,
            instance,
            gpus_per_node: instance.node.gpus.as_f64(),
            gpu: &hardware.gpu(instance.node.gpu).id,
            purchase: machines.purchase,
            nodes: machines.nodes,
        };
        match one(&machines.cloud, account.quotas(need))? {
            Ok(found) => {
                for quota in found {
                    match check.quotas.iter_mut().find(|known| known.code == quota.code && known.region == quota.region)
                    {
                        Some(known) if known.needed >= quota.needed => {}
                        Some(known) => *known = quota,
                        None => check.quotas.push(quota),
                    }
                }
            }
            Err(error) => {
                let problem = format!("quotas in {}: {error}", machines.region);
                if !check.problems.contains(&problem) {
                    check.problems.push(problem);
                }
            }
        }
    }
    Ok(())
}

fn one<T>(
    cloud: &CloudId,
    question: BoxFuture<'_, Result<T, SourceError>>,
) -> Result<Result<T, SourceError>, Diagnostic> {
    let mut answers = ask::all(vec![(cloud.as_str(), question)], &|_| {}).map_err(Diagnostic::unexpected)?;
    Ok(answers.pop().expect("every question has an answer"))
}
