//! Reads a portfolio from TOML. Whatever cannot be meant is refused with its line and what to write instead.

mod keys;
mod money;
mod rules;
mod schedule;
mod values;

use jiff::Timestamp;
use toml::Spanned;

use crate::exchange::Exchange;
use crate::portfolio::calendar::Month;
use crate::portfolio::commitment::{Commitment, CommitmentKind};
use crate::portfolio::file::keys::{CommitmentSection, RunSection, TeamSection};
pub use crate::portfolio::file::keys::{PolicyRules, PortfolioFile};
use crate::portfolio::file::rules::check_scopes;
use crate::portfolio::file::schedule::{DraftPhase, schedule};
use crate::portfolio::file::values::{Read, Reader, Wanted};
use crate::portfolio::rules::{RuleOrigin, SpentSoFar};
use crate::portfolio::{CostSource, Phase, Portfolio, PortfolioError, Rate, Spread, Tax, Team};
use gpuplan_market::Capacity;
use gpuplan_units::names::did_you_mean;
use gpuplan_units::{Hours, Usd};
use gpuplan_workload::file::Scalar;

/// Longest time that a portfolio spans.
const MOST_MONTHS: i64 = 120;
/// More repeats than anybody plans for: a slip of the keyboard.
const MOST_REPEATS: i64 = 10_000;
const MOST_PHASES: usize = 2000;
const MOST_NODES: i64 = 100_000;

/// What a key that says where a figure is from may look like, and one that says when it was seen.
const SOURCE_EXAMPLE: &str = "\"quote 4711 of the vendor\"";
const AS_OF_EXAMPLE: &str = "2026-10-01";

const PURCHASES: [&str; 7] =
    ["on-demand", "spot", "spot-with-fallback", "commitment", "capacity-block", "flex-start", "reserved"];

impl Portfolio {
    pub fn read(text: &str) -> Read<Self> {
        let file: PortfolioFile =
            toml::from_str(text).map_err(|error| PortfolioError::Syntax(error.to_string().trim_end().to_owned()))?;
        let exchange = Reader { text, exchange: None }.exchange(file.currency.as_ref(), file.exchange.as_ref())?;
        let at_its_rate = exchange.as_ref().map(|exchange| (exchange.currency, exchange.usd_per_unit));
        Reader { text, exchange: at_its_rate }.portfolio(file, exchange)
    }
}

/// The team of every run where a portfolio names none.
const EVERYBODY: &str = "all";

impl Reader<'_> {
    fn portfolio(&self, file: PortfolioFile, exchange: Option<Exchange>) -> Read<Portfolio> {
        let tax = self.tax(file.tax.as_ref())?;
        let start =
            file.start.as_ref().ok_or_else(|| PortfolioError::at(1, "`start` is missing", "start = \"2027-01\""))?;
        let start = self.month(start)?;
        let months = file.months.as_ref().ok_or_else(|| PortfolioError::at(1, "`months` is missing", "months = 3"))?;
        let months = self.whole("months", months, 1..=MOST_MONTHS)?;
        let teams = self.teams(&file.team)?;
        let mut drafts = Vec::new();
        for run in &file.run {
            self.run(run, &teams, &mut drafts)?;
        }
        if drafts.is_empty() {
            return Err(PortfolioError::at(1, "the portfolio has no [[run]]", "[[run]]"));
        }
        if drafts.len() > MOST_PHASES {
            return Err(PortfolioError::at(
                1,
                format!("{} phases are more than {MOST_PHASES}", drafts.len()),
                "make them several portfolios, or use `repeats`",
            ));
        }
        let phases = schedule(drafts, start, months)?;
        let mut commitments: Vec<Commitment> = Vec::new();
        for section in &file.commitment {
            let commitment = self.commitment(section, start, months)?;
            if commitments.iter().any(|known| known.name == commitment.name) {
                let detail = format!("two commitments are called `{}`", commitment.name);
                return Err(PortfolioError::at(
                    self.line(section),
                    detail,
                    "rename one, or make `nodes` of the first larger",
                ));
            }
            commitments.push(commitment);
        }
        let budget = file.budget.as_ref().map(|amount| self.money("budget", amount)).transpose()?;
        let rules = self.rules(&file.rule, RuleOrigin::Portfolio)?;
        check_scopes(&rules, budget, &teams, start, months)?;
        let data_spread = match &file.data_spread {
            None => Spread::assumed(),
            Some(stated) => Spread {
                share: self.percent("data_spread", stated)?,
                basis: format!("line {} of the portfolio", self.line(stated)),
            },
        };
        let shared = self.shared(&file.shared, &teams)?;
        Ok(Portfolio {
            name: file.name.unwrap_or_else(|| "portfolio".to_owned()),
            exchange,
            tax,
            budget,
            rules,
            spent: SpentSoFar::default(),
            start,
            months,
            teams,
            phases,
            commitments,
            capacity: Capacity::held(file.own, file.committed),
            pools: Vec::new(),
            shared,
            data_spread,
        })
    }

    fn tax(&self, stated: Option<&Spanned<Scalar>>) -> Read<Tax> {
        let Some(word) = stated else {
            return Err(PortfolioError::at(
                1,
                "`tax` is missing: state it, prices of clouds are without",
                "tax = \"excluded\"",
            ));
        };
        let text = word.get_ref().to_string();
        if text == "excluded" {
            return Ok(Tax::default());
        }
        // A percent is ten thousand parts of a million, and a hundred thousand nano-units of a decimal are one part.
        let number = text.strip_suffix('%').and_then(|number| Usd::parse(number.trim()).ok());
        let exact = number.map(Usd::nanos).filter(|nanos| nanos % 100_000 == 0 && *nanos <= 100_000_000_000);
        let refused = || {
            PortfolioError::at(
                self.line(word),
                format!("tax `{text}` is neither `excluded` nor a percentage"),
                "tax = \"19 %\"",
            )
        };
        exact.map(|nanos| Tax { millionths: nanos / 100_000 }).ok_or_else(refused)
    }

    fn teams(&self, sections: &[Spanned<TeamSection>]) -> Read<Vec<Team>> {
        if sections.is_empty() {
            return Ok(vec![Team { name: EVERYBODY.to_owned(), budget: None }]);
        }
        let mut teams: Vec<Team> = Vec::new();
        for section in sections {
            let team = section.get_ref();
            if teams.iter().any(|known| known.name == team.name) {
                return Err(PortfolioError::at(
                    self.line(section),
                    format!("two teams are called `{}`", team.name),
                    "give each team one [[team]]",
                ));
            }
            let budget = team.budget.as_ref().map(|amount| self.money("budget", amount)).transpose()?;
            teams.push(Team { name: team.name.clone(), budget });
        }
        Ok(teams)
    }

    fn team(&self, section: &Spanned<RunSection>, stated: Option<&Spanned<String>>, teams: &[Team]) -> Read<String> {
        let known = || teams.iter().map(|team| team.name.as_str());
        let Some(stated) = stated else {
            if let [Team { name, .. }] = teams
                && name == EVERYBODY
            {
                return Ok(EVERYBODY.to_owned());
            }
            let hint = format!("team = \"{}\"", known().next().unwrap_or(EVERYBODY));
            return Err(PortfolioError::at(self.line(section), "`team` is missing: every run is somebody's", hint));
        };
        let name = stated.get_ref();
        if known().any(|team| team == name) {
            return Ok(name.clone());
        }
        let hint = match did_you_mean(name, known()) {
            Some(near) => format!("did you mean team = \"{near}\"? Or add [[team]] with name = \"{name}\""),
            None => format!("add [[team]] with name = \"{name}\""),
        };
        Err(PortfolioError::at(self.line(stated), format!("no [[team]] is called `{name}`"), hint))
    }

    /// A run is one phase, or it has some.
    fn run(&self, run: &Spanned<RunSection>, teams: &[Team], drafts: &mut Vec<DraftPhase>) -> Read<()> {
        let section = run.get_ref();
        let Some(name) = &section.name else {
            return Err(PortfolioError::at(self.line(run), "a [[run]] has no name", "name = \"pretrain\""));
        };
        if drafts.iter().any(|draft| draft.phase.run == *name) {
            return Err(PortfolioError::at(
                self.line(run),
                format!("two runs are called `{name}`"),
                "rename one, or make them [[run.phase]] of one run",
            ));
        }
        let team = self.team(run, section.team.as_ref(), teams)?;
        if section.phase.is_empty() {
            drafts.push(self.phase(run, name, name, &team)?);
            return Ok(());
        }
        if section.is_work() {
            let detail = format!("run `{name}` has phases and also work of its own");
            return Err(PortfolioError::at(self.line(run), detail, "move it into a [[run.phase]]"));
        }
        let first = drafts.len();
        for phase in &section.phase {
            let inner = phase.get_ref();
            if !inner.phase.is_empty() {
                return Err(PortfolioError::at(self.line(phase), "a phase has phases", "make it a [[run]]"));
            }
            let Some(called) = &inner.name else {
                return Err(PortfolioError::at(
                    self.line(phase),
                    format!("a phase of `{name}` has no name"),
                    "name = \"fine-tune\"",
                ));
            };
            if drafts[first..].iter().any(|draft| draft.phase.name == *called) {
                return Err(PortfolioError::at(
                    self.line(phase),
                    format!("two phases of `{name}` are called `{called}`"),
                    "rename one",
                ));
            }
            let team = if inner.team.is_some() { self.team(phase, inner.team.as_ref(), teams)? } else { team.clone() };
            let mut draft = self.phase(phase, name, called, &team)?;
            for (key, value) in &section.tags {
                draft.phase.tags.entry(key.clone()).or_insert_with(|| value.clone());
            }
            drafts.push(draft);
        }
        Ok(())
    }

    fn phase(&self, at: &Spanned<RunSection>, run: &str, name: &str, team: &str) -> Read<DraftPhase> {
        let section = at.get_ref();
        let whole = |key, value: &Option<Spanned<i64>>, most, or| {
            value.as_ref().map_or(Ok(or), |value| self.whole(key, value, 1..=most))
        };
        let what = self.what(at)?;
        let start = section.start.as_ref().map(|start| Ok((self.month(start)?, self.line(start)))).transpose()?;
        let after = section.after.iter().map(|word| (word.get_ref().clone(), self.line(word))).collect();
        let phase = Phase {
            run: run.to_owned(),
            name: name.to_owned(),
            team: team.to_owned(),
            tags: section.tags.clone(),
            what,
            repeats: whole("repeats", &section.repeats, MOST_REPEATS, 1)?,
            // Set by `schedule`.
            start: Month::containing(Timestamp::UNIX_EPOCH),
            months: whole("months", &section.months, MOST_MONTHS, 1)?,
            launched_as: section.launched_as.clone(),
            is_ended: section.ended,
            line: self.line(at),
        };
        Ok(DraftPhase { phase, start, after })
    }

    fn what(&self, at: &Spanned<RunSection>) -> Read<CostSource> {
        let section = at.get_ref();
        let prices = [&section.usd_per_hour, &section.price_per_hour].map(Option::is_some);
        let given = [section.workload.is_some(), section.plan.is_some(), prices[0], prices[1]];
        if given.iter().filter(|given| **given).count() != 1 {
            let detail = "exactly one of `workload`, `plan` and `usd_per_hour` with `hours` must say what it costs";
            return Err(PortfolioError::at(self.line(at), detail, "workload = \"llama-3.1-8b-lora.toml\""));
        }
        if let Some(path) = &section.workload {
            return Ok(CostSource::Workload {
                path: path.get_ref().clone(),
                phase: None,
                limits: Box::new(section.limits.clone().unwrap_or_default()),
            });
        }
        if section.limits.is_some() {
            return Err(PortfolioError::at(
                self.line(at),
                "`limits` can only be used with `workload`",
                "workload = \"FILE.toml\"",
            ));
        }
        match &section.plan {
            Some(path) => Ok(CostSource::Plan { path: path.get_ref().clone(), phase: None, id: section.id.clone() }),
            None => self.rate(at).map(|rate| CostSource::Rate(Box::new(rate))),
        }
    }

    fn rate(&self, at: &Spanned<RunSection>) -> Read<Rate> {
        let section = at.get_ref();
        let mut wanted = Wanted::default();
        let price = self.price(section.usd_per_hour.as_ref(), section.price_per_hour.as_ref())?;
        let price = wanted.key("usd_per_hour", "98.32", price);
        let hours = wanted.key("hours", "240", section.hours.as_ref());
        let cloud = wanted.key("cloud", "\"aws\"", section.cloud.clone());
        let source = wanted.key("source", SOURCE_EXAMPLE, section.source.clone());
        let as_of = wanted.key("as_of", AS_OF_EXAMPLE, section.as_of.as_ref());
        let (Some(usd_per_hour), Some(hours), Some(cloud), Some(source), Some(as_of)) =
            (price, hours, cloud, source, as_of)
        else {
            return Err(wanted.error(self.line(at), "`usd_per_hour` needs"));
        };
        let time = |key: &str, value: &Spanned<Scalar>| {
            // The key says hours, so a number alone is one of hours.
            let text = value.get_ref().to_string();
            let read = text.trim().parse().map(Hours).ok().or_else(|| Hours::parse(&text).ok());
            let read = read.filter(|hours| hours.0 > 0.0 && hours.0 < 1e6);
            read.ok_or_else(|| {
                PortfolioError::at(
                    self.line(value),
                    format!("{key} `{}` is not a valid duration; try 240 or 10d", value.get_ref()),
                    "hours = 240",
                )
            })
        };
        let hours = time("hours", hours)?;
        let hours_p90 = section.hours_p90.as_ref().map_or(Ok(hours), |value| time("hours_p90", value))?;
        if hours_p90 < hours {
            return Err(PortfolioError::at(
                self.line(at),
                "`hours_p90` is less than `hours`",
                "hours_p90 is what nine of ten runs stay under",
            ));
        }
        let purchase = section.purchase.as_ref().map_or("on-demand", |word| word.get_ref());
        if let Some(word) = section.purchase.as_ref().filter(|_| !PURCHASES.contains(&purchase)) {
            let detail = format!("purchase `{purchase}` is not among {}", PURCHASES.join(", "));
            return Err(PortfolioError::at(self.line(word), detail, "purchase = \"on-demand\""));
        }
        let whole = |key, value: &Option<Spanned<i64>>| {
            value.as_ref().map_or(Ok(1), |value| self.whole(key, value, 1..=MOST_NODES))
        };
        Ok(Rate {
            usd_per_hour,
            nodes: whole("nodes", &section.nodes)?,
            hours,
            hours_p90,
            cloud,
            region: section.region.clone(),
            instance_type: section.instance_type.clone(),
            gpu: section.gpu.clone(),
            gpus_per_node: whole("gpus_per_node", &section.gpus_per_node)?,
            purchase: purchase.to_owned(),
            source,
            as_of: self.day(as_of)?,
        })
    }

    fn commitment(&self, at: &Spanned<CommitmentSection>, start: Month, months: u32) -> Read<Commitment> {
        let section = at.get_ref();
        let mut wanted = Wanted::default();
        let kind = match section.kind.get_ref().as_str() {
            "reservation" => {
                let instance_type = wanted.key("instance_type", "\"p5.48xlarge\"", section.instance_type.clone());
                let nodes = wanted.key("nodes", "2", section.nodes.as_ref());
                let nodes = nodes.map(|nodes| self.whole("nodes", nodes, 1..=MOST_NODES)).transpose()?;
                instance_type
                    .zip(nodes)
                    .map(|(instance_type, nodes)| CommitmentKind::Reservation { instance_type, nodes })
            }
            "savings-plan" => {
                let discount = wanted.key("percent", "40", section.percent.as_ref());
                let discount = discount.map(|percent| self.percent("percent", percent)).transpose()?;
                discount.map(|discount| CommitmentKind::SavingsPlan { machines: section.machines.clone(), discount })
            }
            other => {
                let detail = format!("kind `{other}` is neither `reservation` nor `savings-plan`");
                let meant = did_you_mean(other, ["reservation", "savings-plan"]).unwrap_or("reservation");
                return Err(PortfolioError::at(self.line(&section.kind), detail, format!("kind = \"{meant}\"")));
            }
        };
        let price = self.price(section.usd_per_hour.as_ref(), section.price_per_hour.as_ref())?;
        let price = wanted.key("usd_per_hour", "4.13", price);
        let source = wanted.key("source", SOURCE_EXAMPLE, section.source.clone());
        let as_of = wanted.key("as_of", AS_OF_EXAMPLE, section.as_of.as_ref());
        let (Some(kind), Some(usd_per_hour), Some(source), Some(as_of)) = (kind, price, source, as_of) else {
            return Err(wanted.error(self.line(at), &format!("commitment `{}` needs", section.name)));
        };
        Ok(Commitment {
            name: section.name.clone(),
            kind,
            cloud: section.cloud.clone(),
            region: section.region.clone(),
            usd_per_hour,
            start: section.start.as_ref().map_or(Ok(start), |month| self.month(month))?,
            months: section.months.as_ref().map_or(Ok(months), |value| self.whole("months", value, 1..=MOST_MONTHS))?,
            source,
            as_of: self.day(as_of)?,
        })
    }
}

#[cfg(test)]
mod tests;
