//! `budget`: plans every workload of a portfolio once, then prints what all of it costs.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::arguments::global::OutputFormat;
use crate::arguments::measured::MeasuredArguments;
use crate::arguments::prices::PriceArguments;
use crate::finance::actual::{planned, show_status, spent};
use crate::finance::alert;
use crate::finance::phase_costs::Planner;
use crate::question::measurements::Measurements;
use crate::session::diagnostic::{Diagnostic, Exit, meant_in_toml};
use crate::session::input::read_text;
use crate::session::{Catalogs, Session};
use gpuplan_budget::exchange::Exchange;
use gpuplan_budget::portfolio::budget::months_for;
use gpuplan_budget::portfolio::calendar::Month;
use gpuplan_budget::portfolio::footprint::footprint;
use gpuplan_budget::portfolio::planned::PhaseCost;
use gpuplan_budget::portfolio::rules::BudgetRule;
use gpuplan_budget::portfolio::verdict::{RuleResult, Verdict};
use gpuplan_budget::portfolio::{CostSource, Portfolio, PortfolioError};
use gpuplan_budget::status::status;
use gpuplan_budget::{Budget, Charge, budget, charges};
use gpuplan_plan::document::InputsRecord;
use gpuplan_report::finance::focus::{FocusVersion, write};
use gpuplan_report::finance::money::Money;
use gpuplan_report::finance::rules_text::words;
use gpuplan_report::finance::{budget_json, budget_text};
use gpuplan_runstore::sha256;

#[derive(Debug, Args)]
pub struct BudgetArguments {
    /// Read this portfolio (TOML) of runs, phases, repeats, teams, months and commitments; or a single workload (TOML) or plan (JSON)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub prices: PriceArguments,
    #[command(flatten)]
    pub measured: MeasuredArguments,
    /// Show at most this many rows of each table
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub max_results: usize,
    /// Print the lines as forecast rows of FOCUS 1.2, 1.3 or 1.4 (CSV)
    #[arg(long, value_name = "VERSION")]
    pub focus: Option<FocusVersion>,
    /// Add the electricity of the machines and what it emits, with bands and sources; in no sum of money
    #[arg(long, conflicts_with_all = ["focus", "actual"])]
    pub carbon: bool,
    /// Compare with what was spent, by the ledger and imported bills, and forecast only what is left
    #[arg(long, conflicts_with = "focus")]
    pub actual: bool,
    /// Take what was planned from this budget (JSON, as `--output json` wrote it) [default: today's plans and prices]
    #[arg(long, value_name = "FILE", requires = "actual")]
    pub planned: Option<PathBuf>,
    /// Tell this address of broken rules and of what stands out: https://HOST/PATH, or mailto:NAME@HOST through `sendmail` (repeat for several)
    #[arg(long, value_name = "ADDRESS", requires = "actual")]
    pub notify: Vec<String>,
}

pub fn run(arguments: &BudgetArguments, session: &Session) -> Result<Exit, Diagnostic> {
    alert::check(&arguments.notify, session)?;
    let asked = ask(arguments, session)?;
    let mut answer = asked.answer(session)?;
    if arguments.carbon {
        let names: Vec<&str> = answer.phases.iter().map(|phase| phase.phase.as_str()).collect();
        answer.footprint = Some(footprint(&answer.lines, &names, &asked.catalogs.hardware, &asked.catalogs.market));
    }
    if arguments.actual {
        let (planned, spent) = (planned(arguments.planned.as_deref(), &answer)?, spent(&asked.portfolio, session)?);
        let Asked { portfolio, once, inputs, .. } = &asked;
        let status = status(portfolio, once, &planned, &spent, inputs.clone(), session.now, session.seed)
            .map_err(|error| refused(&arguments.file, error))?;
        show_status(&status, session)?;
        let told = alert::tell(&arguments.notify, &status);
        let kept = keeps_its_rules(&status.rules, status.exchange.as_ref(), arguments, session);
        // A broken rule is what a job has to hear of first.
        return match (kept, told) {
            (Err(broken), Err(silent)) => {
                session.printer.warning(&silent.message);
                Err(broken)
            }
            (kept, told) => told.and(kept),
        };
    }
    show(&answer, arguments, session)?;
    hint_at_unused(&answer, session);
    keeps_its_rules(&answer.rules, answer.exchange.as_ref(), arguments, session)
}

fn show(answer: &Budget, arguments: &BudgetArguments, session: &Session) -> Result<Exit, Diagnostic> {
    if let Some(version) = arguments.focus {
        return session.printer.data(&focus(version, &charges(answer), answer.exchange.as_ref())?);
    }
    match session.output {
        OutputFormat::Json => session.printer.data(&budget_json::json(answer)),
        OutputFormat::Csv => session.printer.data(&budget_json::csv(answer)),
        OutputFormat::Table if session.markdown => {
            session.printer.data(&budget_text::markdown(answer, arguments.max_results))
        }
        OutputFormat::Table => session.printer.data(&budget_text::text(answer, session.width, arguments.max_results)),
    }
}

/// Share of a reservation under which something else was planned than it is for.
const HARDLY_USED: f64 = 0.05;

/// A `[[commitment]]` only covers what is planned on its machines anyway; `[[committed]]` machines are planned with.
fn hint_at_unused(answer: &Budget, session: &Session) {
    for commitment in &answer.commitments {
        if commitment.kind == "reservation" && commitment.expected_use < HARDLY_USED {
            session.printer.note(&format!(
                "`{}` is paid and hardly used: as [[committed]], with the same keys but `kind`, its hours are given to the runs that save most by them",
                commitment.name
            ));
        }
    }
}

/// Warns of rules that are broken and may be; any other broken rule is exit code 4.
fn keeps_its_rules(
    rules: &[RuleResult],
    exchange: Option<&Exchange>,
    arguments: &BudgetArguments,
    session: &Session,
) -> Result<Exit, Diagnostic> {
    let words = |rule: &RuleResult| words(rule, Money::in_currency(exchange));
    for rule in rules.iter().filter(|rule| rule.verdict == Verdict::Warned) {
        session.printer.warning(&words(rule));
    }
    let broken: Vec<String> = rules.iter().filter(|rule| rule.verdict == Verdict::Broken).map(words).collect();
    if broken.is_empty() {
        return Ok(Exit::Done);
    }
    Err(Diagnostic::new(Exit::OverBudget, format!("{}: {}", arguments.file.display(), broken.join("\n  "))).hint(
        "change the runs or the budget, or have whoever owns the rule add approved_by = \"NAME\" and approved_until = 2026-12-31 to it",
    ))
}

/// Charges as the file that finance loads.
pub fn focus(version: FocusVersion, charges: &[Charge], exchange: Option<&Exchange>) -> Result<String, Diagnostic> {
    write(version, charges, exchange).map_err(Diagnostic::unexpected)
}

/// A portfolio with what doing each of its phases once costs.
struct Asked {
    file: PathBuf,
    portfolio: Portfolio,
    once: Vec<PhaseCost>,
    inputs: InputsRecord,
    catalogs: Catalogs,
}

impl Asked {
    /// The budget of a portfolio, as every output has it.
    fn answer(&self, session: &Session) -> Result<Budget, Diagnostic> {
        budget(&self.portfolio, &self.once, self.inputs.clone(), session.now, session.seed)
            .map_err(|error| refused(&self.file, error))
    }
}

fn ask(arguments: &BudgetArguments, session: &Session) -> Result<Asked, Diagnostic> {
    let text = read_text(&arguments.file)?;
    let mut portfolio = portfolio(&arguments.file, &text, session)?;
    let capacity = session.capacity(arguments.prices.capacity.as_deref())?.and(portfolio.capacity.clone());
    portfolio.pools = capacity.pools().map_err(|error| {
        Diagnostic::usage(error).hint("[[own]] and [[committed]] may stand in the portfolio or in capacity.toml")
    })?;
    let catalogs = session.catalogs()?;
    if let Some(headline) = session.warn_about_age(&catalogs.market) {
        session.printer.warning(&headline);
    }
    let (catalog_sha256, offers_sha256) = session.catalog_sha256(&catalogs)?;
    let policy = session.policy(arguments.prices.policy.as_deref(), &catalogs.hardware)?;
    if let Some(text) = session.policy_text(arguments.prices.policy.as_deref())? {
        let rules = BudgetRule::of_policy(&text, portfolio.exchange.as_ref())
            .map_err(|error| refused(Path::new("policy.toml"), error))?;
        portfolio.rules.extend(rules);
    }
    let measured = Measurements::find(&arguments.measured, session)?;
    let inputs = InputsRecord {
        catalog_sha256,
        offers_sha256,
        constants_version: gpuplan_estimate::constants::Fitted::embedded().version.clone(),
        measured_sha256: measured.sha256(),
        own_runs: measured.own_runs(&session.printer).map(|own| own.runs().to_vec()).unwrap_or_default(),
        own_pools: measured.own_pools(&session.printer),
        quotas: Vec::new(),
        policy_sha256: policy.map(|policy| sha256(format!("{policy:?}").as_bytes())),
        seed: session.seed,
    };
    let pools = portfolio.pools.clone();
    let mut planner = Planner {
        file: &arguments.file,
        prices: &arguments.prices,
        measured: &arguments.measured,
        session,
        capacity: &capacity,
        pools: &pools,
        catalogs: &catalogs,
        documents: BTreeMap::new(),
    };
    portfolio.split_into_phases(|phase| planner.phases_of(phase))?;
    let once = portfolio.phases.iter().map(|phase| planner.once(phase)).collect::<Result<Vec<PhaseCost>, _>>()?;
    if !is_portfolio(&text) {
        // A single run has the months that it takes, one of its phases after the other.
        portfolio.months = months_for(portfolio.start, once.iter().map(|once| once.hours.expected).sum());
        for phase in &mut portfolio.phases {
            phase.months = portfolio.months;
        }
    }
    Ok(Asked { file: arguments.file.clone(), portfolio, once, inputs, catalogs })
}

/// A file that is a portfolio.
pub fn read_portfolio(path: &Path) -> Result<Portfolio, Diagnostic> {
    Portfolio::read(&read_text(path)?).map_err(|error| refused(path, error))
}

/// A portfolio, or a single workload (it has `[model]`) or plan (JSON) in the month of today.
fn portfolio(path: &Path, text: &str, session: &Session) -> Result<Portfolio, Diagnostic> {
    if is_portfolio(text) {
        return Portfolio::read(text).map_err(|error| refused(path, error));
    }
    let is_plan = is_plan(text);
    let part = |part: Option<&OsStr>| part.unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let (file, name) = (part(path.file_name()), part(path.file_stem()));
    let what = if is_plan {
        CostSource::Plan { path: file, phase: None, id: None }
    } else {
        CostSource::Workload { path: file, phase: None, limits: Box::default() }
    };
    Ok(Portfolio::of_single_phase(&name, what, Month::containing(session.now)))
}

fn is_plan(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// Not a single plan or workload.
fn is_portfolio(text: &str) -> bool {
    let is_workload = |table: toml::Table| ["model", "phase", "processing"].iter().any(|key| table.contains_key(*key));
    !is_plan(text) && !text.parse().is_ok_and(is_workload)
}

/// What people write into a `[[run]]`, and what belongs into its workload.
const WORKLOAD_KEYS: [&str; 6] = ["model", "task", "tokens", "samples", "epochs", "training"];
const WORKLOAD_FILE: &str = "what is trained stands in a file of its own: `gpuplan init sft.toml --model llama-3.1-8b \
                             --task lora --tokens 50M`, and here workload = \"sft.toml\"";

fn refused(path: &Path, error: PortfolioError) -> Diagnostic {
    let diagnostic = Diagnostic::usage(format!("{}: {error}", path.display()));
    match error {
        PortfolioError::Invalid { hint, .. } => hint.lines().fold(diagnostic, Diagnostic::hint),
        PortfolioError::Syntax(text) => {
            let full = "full_usd_per_hour = \"14\": an hour of an own machine with what it loses in value";
            let full = text.contains("missing field `full_usd_per_hour`").then(|| full.to_owned());
            let work = WORKLOAD_KEYS.iter().any(|key| text.contains(&format!("unknown field `{key}`")));
            let work = work.then(|| WORKLOAD_FILE.to_owned());
            let meant = meant_in_toml(&text).into_iter().chain(full).chain(work);
            meant.chain(["examples/portfolio.toml shows every key".to_owned()]).fold(diagnostic, Diagnostic::hint)
        }
    }
}
