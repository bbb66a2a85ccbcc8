//! What was spent, added up: by run, team, day or tag, with what of it was wasted, what bills say, and what a million tokens cost.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bill::ImportedBill;
use crate::bill::delivery::current;
use crate::charge::{Charge, Item, UNALLOCATED, Waste, utc_day};
use crate::portfolio::Portfolio;
use crate::portfolio::calendar::Month;
use crate::portfolio::launched::phase_of;
use crate::spending::actual::RunFacts;
use crate::spending::pieces::{by_day, by_month, within};
use gpuplan_runstore::Expected;
use gpuplan_units::Usd;

/// The tag that a phase is kept in, while charges are shown.
const PHASE: &str = "phase";

/// Cloud of rehearsals: nothing of theirs was paid.
pub const REHEARSAL: &str = "fake";

/// What is known of a run besides its charges, as the ledger keeps it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunKnown {
    /// Of `RunFacts`, with the name before it: `NAME@KEY`.
    pub key: String,
    pub run: String,
    /// Who rents its machines; empty: unknown.
    #[serde(default)]
    pub cloud: String,
    /// In the words of `status`; `None`: it still runs, or nobody knows.
    pub outcome: Option<String>,
    #[serde(default)]
    pub team: Option<String>,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    #[serde(default)]
    pub expected: Option<Expected>,
    #[serde(default)]
    pub actual: Option<ActualRun>,
}

/// What became of a run that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActualRun {
    /// From the request to the end.
    pub hours: f64,
    /// Paid hours of all its machines together.
    pub machine_hours: f64,
    /// Of work that counts, on each machine, and as planned.
    pub work_hours: f64,
    pub planned_work_hours: f64,
    pub nodes: u32,
    #[serde(with = "gpuplan_units::money::signed_usd")]
    pub cost_usd: Usd,
    /// Of it, for machines; `None`: all of it, as an older version counted.
    #[serde(default)]
    pub machines_usd: Option<Usd>,
    /// Of one machine, at the place that the plan chose.
    #[serde(with = "gpuplan_units::money::signed_usd")]
    pub planned_rate_usd: Usd,
    pub interruptions: u32,
}

impl RunKnown {
    pub fn new(facts: &RunFacts, actual: Option<ActualRun>) -> Self {
        Self {
            key: format!("{}@{}", facts.run, facts.key),
            run: facts.run.clone(),
            cloud: facts.cloud.clone().unwrap_or_default(),
            outcome: facts.outcome.clone(),
            team: facts.team(),
            tags: facts.tags.clone(),
            expected: facts.expected.clone(),
            actual,
        }
    }

    /// It ended, and not well. What it did is of no use unless it is gone on with.
    fn has_failed(&self) -> bool {
        self.outcome.as_deref().is_some_and(|outcome| outcome != "completed" && outcome != "interrupted")
    }

    /// Tokens that its money bought: those of a completed run.
    fn tokens(&self) -> Option<f64> {
        let is_completed = self.outcome.as_deref() == Some("completed");
        self.expected.as_ref().filter(|_| is_completed).and_then(|expected| expected.tokens)
    }
}

/// A charge as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CostLine {
    #[serde(flatten)]
    pub charge: Charge,
    /// It grows still and is not in the ledger yet.
    pub so_far: bool,
    /// A line of a cloud's bill: its amounts are shown next to those of the runs and never added to them.
    pub of_bill: bool,
}

/// What charges are added up by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CostGrouping {
    Run,
    Team,
    /// The tag `project`.
    Project,
    Day,
    Month,
    Cloud,
    Region,
    Gpu,
    Instance,
    /// Of a portfolio, once it has named them.
    Phase,
    Tag(String),
}

impl CostGrouping {
    /// Those that are one word, in the order of their help.
    const WORDS: [(&'static str, Self); 10] = [
        ("run", Self::Run),
        ("team", Self::Team),
        ("project", Self::Project),
        ("day", Self::Day),
        ("month", Self::Month),
        ("cloud", Self::Cloud),
        ("region", Self::Region),
        ("gpu", Self::Gpu),
        ("instance", Self::Instance),
        ("phase", Self::Phase),
    ];

    /// A word such as `month`, or `tag:NAME`.
    pub fn parse(text: &str) -> Option<Self> {
        match Self::WORDS.into_iter().find(|(word, _)| *word == text) {
            Some((_, by)) => Some(by),
            None => text.strip_prefix("tag:").filter(|name| !name.is_empty()).map(|name| Self::Tag(name.to_owned())),
        }
    }

    /// Of a tag, its name.
    pub fn title(&self) -> String {
        if let Self::Tag(name) = self { name.clone() } else { self.word().to_owned() }
    }

    /// As `parse` reads it, without the name of a tag.
    pub fn word(&self) -> &'static str {
        Self::WORDS.into_iter().find(|(_, by)| by == self).map_or("tag", |(word, _)| word)
    }

    fn name(&self, charge: &Charge) -> String {
        let found = match self {
            Self::Run => charge.allocation.run.clone(),
            Self::Team => charge.allocation.team.clone(),
            Self::Project => charge.allocation.tags.get("project").cloned(),
            Self::Day => Some(utc_day(charge.start)),
            Self::Month => Some(Month::containing(charge.start).to_string()),
            Self::Cloud => Some(charge.resource.cloud.clone()),
            Self::Region => charge.resource.region.clone(),
            Self::Gpu => charge.resource.gpu.clone(),
            Self::Instance => charge.resource.instance_type.clone(),
            Self::Phase => charge.allocation.tags.get(PHASE).cloned(),
            Self::Tag(name) => charge.allocation.tags.get(name).cloned(),
        };
        found.unwrap_or_else(|| UNALLOCATED.to_owned())
    }
}

/// Sums of some charges. Amounts of runs and of bills stand side by side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CostSum {
    pub name: String,
    pub runs: BTreeSet<String>,
    pub machine_hours: f64,
    pub list: Usd,
    pub contracted: Usd,
    pub effective: Usd,
    /// Of `effective`, what is not machine time.
    pub side_costs: BTreeMap<Item, Usd>,
    /// What of `contracted` can still grow.
    pub so_far: Usd,
    /// On the clouds' bills, credits included; `None`: none was imported.
    pub billed: Option<Usd>,
    /// Of machines, where the bills count in hours.
    pub billed_hours: f64,
    pub credits: Usd,
    /// As the bills have it: commitments that were paid before spread over the hours that they cover.
    pub effective_on_bill: Option<Usd>,
    /// Of `effective`, by why it bought nothing.
    pub wasted: BTreeMap<Waste, Usd>,
    /// That completed runs trained on, and what those runs cost.
    pub tokens: f64,
    pub cost_of_tokens: Usd,
}

impl CostSum {
    pub fn all_side_costs(&self) -> Usd {
        self.side_costs.values().copied().sum()
    }

    pub fn all_wasted(&self) -> Usd {
        self.wasted.values().copied().sum()
    }

    /// Of what was spent; `None` where nothing was.
    pub fn wasted_share(&self) -> Option<f64> {
        (self.effective > Usd::ZERO).then(|| self.all_wasted().dollars() / self.effective.dollars())
    }

    /// Of the list price, what spot, discounts and prepaid machines spared; negative where they cost more. `None`: no other price than what
    /// was paid is known.
    pub fn saved_share(&self) -> Option<f64> {
        let is_known = self.list > Usd::ZERO && self.list != self.contracted;
        is_known.then(|| (self.list - self.contracted).dollars() / self.list.dollars())
    }

    pub fn usd_per_million_tokens(&self) -> Option<f64> {
        (self.tokens > 0.0).then(|| self.cost_of_tokens.dollars() / (self.tokens / 1e6))
    }

    fn add(&mut self, line: &CostLine, known: Option<&RunKnown>) {
        let (charge, costs) = (&line.charge, line.charge.costs);
        self.runs.extend(charge.allocation.run.clone());
        if line.of_bill {
            let billed = charge.on_bill();
            self.billed = Some(self.billed.unwrap_or(Usd::ZERO) + billed);
            self.effective_on_bill = Some(self.effective_on_bill.unwrap_or(Usd::ZERO) + costs.effective);
            if charge.is_machine_time() && charge.unit == "hour" {
                self.billed_hours += charge.quantity;
            }
            if charge.item == Item::Credit {
                self.credits = self.credits + billed;
            }
            return;
        }
        if charge.is_machine_time() {
            self.machine_hours += charge.quantity;
        } else {
            let sum = self.side_costs.entry(charge.item).or_default();
            *sum = *sum + costs.effective;
        }
        self.list = self.list + costs.list;
        self.contracted = self.contracted + costs.contracted;
        self.effective = self.effective + costs.effective;
        if line.so_far {
            self.so_far = self.so_far + costs.contracted;
        }
        if let Some(waste) = charge.waste {
            let sum = self.wasted.entry(waste).or_default();
            *sum = *sum + costs.effective;
        }
        if known.and_then(RunKnown::tokens).is_some() {
            self.cost_of_tokens = self.cost_of_tokens + costs.effective;
        }
    }
}

/// Which charges are shown.
#[derive(Clone, Debug, Default)]
pub struct CostFilter {
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    /// Only these; empty: every one but the rehearsal.
    pub clouds: Vec<String>,
    /// Only these runs, by `NAME@KEY`; `None`: all.
    pub runs: Option<BTreeSet<String>>,
    /// Lines of bills that are of no run too.
    pub others: bool,
}

/// Lines in time, with what is known of each run laid over them.
#[derive(Clone, Debug, Default)]
pub struct Spent {
    pub lines: Vec<CostLine>,
    pub known: BTreeMap<String, RunKnown>,
    /// Rehearsals that are left out.
    pub rehearsals: usize,
    pub coverage: Coverage,
}

/// How much of what bills say of machines with GPUs is of runs, at effective cost. The rest is spent by whatever bears no mark of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    pub of_runs: Usd,
    pub all: Usd,
}

impl Coverage {
    /// `None`: no bill has machines with GPUs.
    pub fn share(self) -> Option<f64> {
        (self.all > Usd::ZERO).then(|| self.of_runs.dollars() / self.all.dollars())
    }
}

impl Spent {
    /// `open` are charges that still grow, in the place of none in the ledger.
    pub fn new(
        charges: Vec<Charge>,
        open: Vec<Charge>,
        bills: &[ImportedBill],
        known: BTreeMap<String, RunKnown>,
        asked: &CostFilter,
    ) -> Self {
        let (mut lines, mut rehearsals) = (Vec::new(), BTreeSet::new());
        let entered = charges.into_iter().map(|charge| (charge, false));
        for (mut charge, so_far) in entered.chain(open.into_iter().map(|charge| (charge, true))) {
            let key = run_key(&charge.id).to_owned();
            if asked.runs.as_ref().is_some_and(|runs| !runs.contains(&key)) {
                continue;
            }
            let is_wanted = if asked.clouds.is_empty() {
                charge.resource.cloud != REHEARSAL
            } else {
                asked.clouds.contains(&charge.resource.cloud)
            };
            if !is_wanted {
                rehearsals.extend((charge.resource.cloud == REHEARSAL).then_some(key));
                continue;
            }
            if charge.waste.is_none() && known.get(&key).is_some_and(RunKnown::has_failed) {
                charge.waste = Some(Waste::Failed);
            }
            lines.extend(within(charge, asked.since, asked.until).map(|charge| CostLine {
                charge,
                so_far,
                of_bill: false,
            }));
        }
        let runs: BTreeSet<&str> = known
            .values()
            .filter(|run| asked.runs.as_ref().is_none_or(|runs| runs.contains(&run.key)))
            .map(|run| run.run.as_str())
            .collect();
        let mut coverage = Coverage::default();
        for charge in current(bills).into_iter().flat_map(|bill| bill.charges.iter().chain(&bill.others)) {
            let is_of_cloud = asked.clouds.is_empty() || asked.clouds.contains(&charge.resource.cloud);
            let Some(mut charge) = within(charge.clone(), asked.since, asked.until).filter(|_| is_of_cloud) else {
                continue;
            };
            if charge.is_of_gpus() {
                coverage.all = coverage.all + charge.costs.effective;
            }
            let is_asked = match charge.allocation.run.as_deref() {
                None => asked.others && asked.runs.is_none(),
                Some(_) if charge.is_of_gpus() => {
                    coverage.of_runs = coverage.of_runs + charge.costs.effective;
                    true
                }
                Some(_) => true,
            };
            let run = charge.allocation.run.as_deref();
            if is_asked && run.is_none_or(|run| asked.runs.is_none() || runs.contains(run)) {
                // A bill names the run; whose it was is known here.
                if let Some(run) = known.values().find(|known| Some(known.run.as_str()) == run) {
                    charge.allocation.team = run.team.clone().or(charge.allocation.team);
                    charge.allocation.tags.extend(run.tags.clone());
                }
                lines.push(CostLine { charge, so_far: false, of_bill: true });
            }
        }
        lines.sort_by(|a, b| (a.charge.start, &a.charge.id).cmp(&(b.charge.start, &b.charge.id)));
        Self { lines, known, rehearsals: rehearsals.len(), coverage }
    }

    /// Runs by the phase of a portfolio that they belong to; its team counts where a line has none.
    pub fn name_phases(&mut self, portfolio: &Portfolio) {
        for line in &mut self.lines {
            let Charge { allocation, start, .. } = &mut line.charge;
            let run = allocation.run.as_deref();
            if let Some(at) = run.and_then(|run| phase_of(portfolio, run, Month::containing(*start))) {
                let phase = &portfolio.phases[at];
                allocation.tags.insert(PHASE.to_owned(), phase.path());
                allocation.team.get_or_insert_with(|| phase.team.clone());
            }
        }
    }

    /// Every charge once, for those who pay invoices: the lines of a bill in the place of what a run recorded itself in the months and
    /// on the clouds in which the bill has that run; without what still grows.
    pub fn closed_once(&self) -> Vec<Charge> {
        let key = |charge: &Charge| {
            (charge.allocation.run.clone(), charge.resource.cloud.clone(), Month::containing(charge.start))
        };
        let on_bills: BTreeSet<_> =
            self.lines.iter().filter(|line| line.of_bill).map(|line| key(&line.charge)).collect();
        let mut once = Vec::new();
        for line in &self.lines {
            if line.of_bill {
                once.push(line.charge.clone());
            } else if !line.so_far {
                let parts = by_month(&line.charge);
                let kept: Vec<Charge> = parts.iter().filter(|part| !on_bills.contains(&key(part))).cloned().collect();
                // Whole where nothing of it is on a bill.
                if kept.len() == parts.len() { once.push(line.charge.clone()) } else { once.extend(kept) }
            }
        }
        once
    }

    /// Sums by name, and their sum, which is exact.
    pub fn sums(&self, by: &CostGrouping) -> (Vec<CostSum>, CostSum) {
        let (mut sums, mut total): (BTreeMap<String, CostSum>, CostSum) = (BTreeMap::new(), CostSum::default());
        let mut counted: BTreeSet<(String, &str)> = BTreeSet::new();
        for line in &self.lines {
            let pieces = match by {
                CostGrouping::Day => by_day(&line.charge),
                CostGrouping::Month => by_month(&line.charge),
                _ => vec![line.charge.clone()],
            };
            for charge in pieces {
                let (name, key) = (by.name(&charge), run_key(&line.charge.id));
                let known = self.known.get(key);
                let sum =
                    sums.entry(name.clone()).or_insert_with(|| CostSum { name: name.clone(), ..CostSum::default() });
                let piece = CostLine { charge, ..line.clone() };
                sum.add(&piece, known);
                total.add(&piece, known);
                // The tokens of a run count once, and not for a day or month of it.
                let is_part = matches!(by, CostGrouping::Day | CostGrouping::Month);
                let tokens = known.and_then(RunKnown::tokens).filter(|_| !is_part && !line.of_bill);
                if let Some((tokens, key)) = tokens.zip(self.known.get_key_value(key).map(|(key, _)| key.as_str()))
                    && counted.insert((name, key))
                {
                    sum.tokens += tokens;
                    total.tokens += tokens;
                }
            }
        }
        (sums.into_values().collect(), total)
    }
}

/// `NAME@KEY` of a charge of a run.
fn run_key(id: &str) -> &str {
    id.strip_prefix("run/").and_then(|rest| rest.split('/').next()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
