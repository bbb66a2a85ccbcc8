//! Whose money it was: charges of the ledger and lines of bills, each counted once, by phase, team, project and month.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::charge::{Charge, Item, UNALLOCATED};
use crate::portfolio::Portfolio;
use crate::portfolio::calendar::Month;
use crate::portfolio::commitment::{Commitment, CommitmentKind};
use crate::portfolio::launched::phase_of;
use crate::portfolio::pool_lines::paid_in;
use crate::portfolio::simulation::groups::SHARED;
use crate::spending::pieces::by_month;
use crate::spending::spent::{RunKnown, Spent};
use gpuplan_units::Usd;

/// One amount that was spent.
#[derive(Clone, Debug)]
pub struct SpentPart {
    /// `None`: the team's, outside any phase.
    pub phase: Option<usize>,
    pub team: String,
    pub project: String,
    pub month: Month,
    pub usd: Usd,
}

/// What was spent of a portfolio.
#[derive(Debug, Default)]
pub struct Attributed {
    pub parts: Vec<SpentPart>,
    /// Runs of each phase, by `NAME@KEY`.
    pub known: BTreeMap<usize, Vec<RunKnown>>,
    /// What runs of each phase recorded themselves, or bills where they recorded nothing.
    pub recorded: BTreeMap<usize, Vec<Charge>>,
    /// What bills say above that.
    pub bill_above: BTreeMap<usize, Usd>,
    /// By name of run.
    pub by_run: BTreeMap<String, Usd>,
    names: BTreeMap<usize, BTreeSet<String>>,
    billed: Usd,
    /// Neither of a phase nor of a team of the portfolio.
    pub other_runs: BTreeSet<String>,
    pub other_usd: Usd,
}

/// What a run cost in a month, as it recorded it itself and as a bill says it.
#[derive(Default)]
struct RunMonth {
    recorded: Vec<Charge>,
    billed: Vec<Charge>,
}

impl Attributed {
    pub fn new(portfolio: &Portfolio, spent: &Spent, now: Timestamp) -> Self {
        let mut months: BTreeMap<(String, Month), RunMonth> = BTreeMap::new();
        // What is of no run has no run to be counted with.
        let (others, of_runs): (Vec<_>, Vec<_>) =
            spent.lines.iter().partition(|line| line.of_bill && line.charge.allocation.run.is_none());
        for line in of_runs {
            let run = line.charge.allocation.run.clone().unwrap_or_else(|| UNALLOCATED.to_owned());
            for charge in by_month(&line.charge) {
                let of_month = months.entry((run.clone(), Month::containing(charge.start))).or_default();
                if line.of_bill { of_month.billed.push(charge) } else { of_month.recorded.push(charge) }
            }
        }
        months.retain(|(_, month), _| *month >= portfolio.start);
        let mut found = Self::default();
        // A run of the same name that was over before the first month did nothing for this portfolio.
        let paid: BTreeSet<&str> = months.keys().map(|(run, _)| run.as_str()).collect();
        for known in spent.known.values().filter(|known| paid.contains(known.run.as_str())) {
            if let Some(phase) = phase_of(portfolio, &known.run, portfolio.start) {
                found.known.entry(phase).or_default().push(known.clone());
                found.names.entry(phase).or_default().insert(known.run.clone());
            }
        }
        let this_month = Month::containing(now);
        let mut covered = Covered::new(portfolio);
        for ((run, month), of_month) in months {
            let is_inside = (0..i64::from(portfolio.months)).contains(&i64::from(month.since(portfolio.start)));
            // Late work is paid after the last month, and is the portfolio's all the same.
            if is_inside || (month > portfolio.start && phase_of(portfolio, &run, month).is_some()) {
                found.add(portfolio, &run, month, of_month, month == this_month, &mut covered);
            }
        }
        for line in others {
            for charge in by_month(&line.charge) {
                found.share(portfolio, &charge);
            }
        }
        for (month, usd) in covered.beyond(this_month) {
            let part = SpentPart { phase: None, team: SHARED.to_owned(), project: SHARED.to_owned(), month, usd };
            found.parts.push(part);
        }
        found
    }

    /// What no section of the portfolio takes is not counted.
    fn share(&mut self, portfolio: &Portfolio, charge: &Charge) {
        let month = Month::containing(charge.start);
        let is_inside = (0..i64::from(portfolio.months)).contains(&i64::from(month.since(portfolio.start)));
        let section = portfolio.shared.iter().find(|section| is_inside && section.takes(charge));
        let Some(section) = section.filter(|_| charge.item != Item::Tax) else { return };
        let cost = charge.costs.effective;
        let cost = cost + portfolio.tax.on(cost);
        let of_team = |team: &str| -> Usd {
            let parts = self.parts.iter().filter(|part| part.month == month && part.team == team);
            parts.filter(|part| part.project != SHARED).map(|part| part.usd).sum()
        };
        let spent: Vec<(String, Usd)> =
            portfolio.teams.iter().map(|team| (team.name.clone(), of_team(&team.name))).collect();
        self.billed = self.billed + cost;
        for (team, usd) in section.parts(charge, cost, &spent) {
            self.parts.push(SpentPart { phase: None, team, project: SHARED.to_owned(), month, usd });
        }
    }

    fn add(
        &mut self,
        portfolio: &Portfolio,
        run: &str,
        month: Month,
        of_month: RunMonth,
        is_open: bool,
        covered: &mut Covered,
    ) {
        let RunMonth { recorded, billed } = of_month;
        let taxed = |charges: &[Charge]| -> Usd {
            let costs = charges.iter().filter(|charge| charge.item != Item::Tax).map(|charge| charge.costs.effective);
            let sum: Usd = costs.sum();
            sum + portfolio.tax.on(sum)
        };
        let (by_run, by_bill) = (taxed(&recorded), taxed(&billed));
        // A bill of the current month has not everything yet.
        let is_billed = !billed.is_empty() && (!is_open || by_bill >= by_run);
        let usd = if is_billed { by_bill } else { by_run };
        let phase = phase_of(portfolio, run, month);
        let first = recorded.first().or(billed.first());
        let team = match (phase, first.and_then(|charge| charge.allocation.team.as_deref())) {
            (Some(phase), _) => portfolio.phases[phase].team.clone(),
            (None, Some(team)) if portfolio.teams.iter().any(|known| known.name == team) => team.to_owned(),
            _ => {
                self.other_runs.insert(run.to_owned());
                self.other_usd = self.other_usd + usd;
                return;
            }
        };
        let of_phase = phase.and_then(|phase| portfolio.phases[phase].tags.get("project"));
        let of_charge = first.and_then(|charge| charge.allocation.tags.get("project"));
        let project = of_phase.or(of_charge).cloned().unwrap_or_else(|| UNALLOCATED.to_owned());
        covered.take(month, &recorded, if is_billed { Some(&billed) } else { None });
        if let Some(phase) = phase {
            self.names.entry(phase).or_default().insert(run.to_owned());
            // Where nothing was recorded, the bill itself says for how many hours of machines it is.
            if recorded.is_empty() {
                self.recorded.entry(phase).or_default().extend(billed);
            } else {
                let above = self.bill_above.entry(phase).or_default();
                *above = *above + (usd - by_run);
                self.recorded.entry(phase).or_default().extend(recorded);
            }
        }
        if is_billed {
            self.billed = self.billed + usd;
        }
        let of_run = self.by_run.entry(run.to_owned()).or_default();
        *of_run = *of_run + usd;
        self.parts.push(SpentPart { phase, team, project, month, usd });
    }

    pub fn of_phase(&self, phase: usize) -> Usd {
        self.parts.iter().filter(|part| part.phase == Some(phase)).map(|part| part.usd).sum()
    }

    pub fn runs_of(&self, phase: usize) -> BTreeSet<String> {
        self.names.get(&phase).cloned().unwrap_or_default()
    }

    pub fn billed_share(&self) -> f64 {
        let all: Usd = self.parts.iter().map(|part| part.usd).sum();
        if all > Usd::ZERO { (self.billed.dollars() / all.dollars()).clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// What prepaid machines cost in the months that are over beside what runs on them are counted with.
struct Covered<'a> {
    portfolio: &'a Portfolio,
    /// By commitment or pool and month: what can still be covered, and what charges it took the place of.
    left: BTreeMap<(usize, Month), (f64, f64)>,
}

impl<'a> Covered<'a> {
    fn new(portfolio: &'a Portfolio) -> Self {
        let mut left = BTreeMap::new();
        for (at, commitment) in portfolio.commitments.iter().enumerate() {
            for month in portfolio.months_of(commitment) {
                let capacity = match commitment.kind {
                    CommitmentKind::Reservation { nodes, .. } => f64::from(nodes) * month.hours(),
                    CommitmentKind::SavingsPlan { .. } => commitment.in_month(month).dollars(),
                };
                left.insert((at, month), (capacity, 0.0));
            }
        }
        Self { portfolio, left }
    }

    /// `billed` are the amounts that count, where a bill has them; its lines name no machines, those of the run do.
    fn take(&mut self, month: Month, recorded: &[Charge], billed: Option<&Vec<Charge>>) {
        let machines = |charges: &[Charge]| -> f64 {
            charges
                .iter()
                .filter(|charge| charge.is_machine_time())
                .map(|charge| charge.costs.effective.dollars())
                .sum()
        };
        let by_run = machines(recorded);
        let scale = billed.filter(|_| by_run > 0.0).map_or(1.0, |billed| machines(billed) / by_run);
        for charge in recorded.iter().filter(|charge| charge.is_machine_time()) {
            let Some(at) = self.portfolio.commitments.iter().position(|commitment| is_for(commitment, charge)) else {
                continue;
            };
            let Some((left, replaced)) = self.left.get_mut(&(at, month)) else { continue };
            let cost = charge.costs.effective.dollars();
            let wanted = match self.portfolio.commitments[at].kind {
                CommitmentKind::Reservation { .. } => charge.quantity,
                CommitmentKind::SavingsPlan { discount, .. } => cost * (1.0 - discount),
            };
            let used = wanted.min(*left).max(0.0);
            *left -= used;
            *replaced += if wanted > 0.0 { cost * scale * used / wanted } else { 0.0 };
        }
    }

    /// By month before this one: what was paid in advance, less the charges that it took the place of.
    fn beyond(self, this_month: Month) -> Vec<(Month, Usd)> {
        let mut found = Vec::new();
        for ((at, month), (_, replaced)) in self.left.into_iter().filter(|((_, month), _)| *month < this_month) {
            let paid = self.portfolio.commitments[at].in_month(month);
            let replaced = Usd::from_dollars(replaced).unwrap_or(Usd::ZERO);
            found.push((month, paid - replaced));
        }
        for pool in &self.portfolio.pools {
            let months = self.portfolio.all_months().filter(|month| *month < this_month);
            // Runs on machines that are held are charged nothing for their hours.
            found.extend(months.map(|month| (month, paid_in(pool, month))));
        }
        found.retain(|(_, usd)| *usd != Usd::ZERO);
        found.into_iter().map(|(month, usd)| (month, usd + self.portfolio.tax.on(usd))).collect()
    }
}

fn is_for(commitment: &Commitment, charge: &Charge) -> bool {
    let resource = &charge.resource;
    let Some(instance) = resource.instance_type.as_deref() else { return false };
    let is_here = commitment.region.is_none() || commitment.region == resource.region;
    let is_same = match &commitment.kind {
        CommitmentKind::Reservation { instance_type, .. } => instance_type == instance,
        CommitmentKind::SavingsPlan { machines, .. } => {
            machines.is_empty() || machines.iter().any(|start| instance.starts_with(start.trim_end_matches('*')))
        }
    };
    is_same && is_here && resource.cloud == commitment.cloud && resource.purchase.as_deref() == Some("on-demand")
}
