//! A difference for the terminal, for a comment on a pull request, and as JSON. `~` changed, `+` added, `-` removed.

use schemars::JsonSchema;
use serde::Serialize;

use crate::finance::money::Money;
use crate::finance::sections::markdown_table;
use crate::text::format;
use crate::text::json::{VERSION, pretty};
use crate::text::table::{Column, footer, render};
use crate::text::wrap::wrap;
use gpuplan_budget::diff::{Change, ChangedLine, Diff, Figure, FigureChange};
use gpuplan_budget::guardrail::Broken;
use gpuplan_units::{Hours, Usd};

/// What is compared, and the rules that the second breaks.
pub struct Context<'a> {
    pub before: &'a str,
    pub after: &'a str,
    pub broken: &'a [Broken],
    /// The name of their file.
    pub policy: &'a str,
}

/// What `diff --output json` writes: two plans, budgets or price lists, and what differs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DiffDocument<'a> {
    pub version: u32,
    /// Of every amount: `USD`; `exchange` has the currency of the budgets.
    pub currency: &'static str,
    /// The first file.
    pub before: &'a str,
    /// The second file.
    pub after: &'a str,
    #[serde(flatten)]
    pub diff: &'a Diff,
    /// Rules of the policy that the second breaks.
    pub guardrails_broken: Vec<BrokenRule>,
}

/// A rule of the policy that is broken.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BrokenRule {
    /// Of the policy file.
    pub line: usize,
    pub detail: String,
}

pub fn json(diff: &Diff, context: &Context) -> String {
    let broken = context.broken.iter().map(|broken| BrokenRule { line: broken.line, detail: broken.detail.clone() });
    pretty(&DiffDocument {
        version: VERSION,
        currency: "USD",
        before: context.before,
        after: context.after,
        diff,
        guardrails_broken: broken.collect(),
    })
}

pub fn text(diff: &Diff, context: &Context, width: u16, most: usize) -> String {
    let mut out = wrap(&format!("{} -> {}", context.before, context.after), width, "  ");
    out.push('\n');
    out.push_str(&wrap(&summary(diff), width, "  "));
    out.push('\n');
    for (name, before, after) in figure_words(diff) {
        out.push_str(&wrap(&format!("  {name}: {before} -> {after}"), width, "    "));
        out.push('\n');
    }
    for reason in &diff.reasons {
        out.push_str(&wrap(&format!("  {:<9} {}", reason.cause.word(), reason.detail), width, "            "));
        out.push('\n');
    }
    if !diff.lines.is_empty() {
        out.push_str(&format!("\n{}", render(&columns(), rows(diff, most), width)));
        out.push_str(&foot(diff, most));
        out.push_str("~ changed  + added  - removed\n");
    }
    if !context.broken.is_empty() {
        out.push('\n');
    }
    for broken in context.broken {
        out.push_str(&wrap(&broken_rule(broken, context.policy), width, "  "));
        out.push('\n');
    }
    out
}

/// Fit for a comment: the sum and what is broken in the open, the lines folded away.
pub fn markdown(diff: &Diff, context: &Context, most: usize) -> String {
    let mut out = format!("### Cost of `{}` -> `{}`\n\n**{}**\n", context.before, context.after, summary(diff));
    let figures = figure_words(diff);
    if !figures.is_empty() {
        let columns = [Column::left("", 0), Column::right("before", 0), Column::right("after", 0)];
        let rows: Vec<Vec<String>> =
            figures.into_iter().map(|(name, before, after)| vec![name.to_owned(), before, after]).collect();
        out.push_str(&format!("\n{}", markdown_table(&columns, &rows)));
    }
    if !context.broken.is_empty() {
        out.push_str("\nBroken rules:\n\n");
        for broken in context.broken {
            out.push_str(&format!("- {}\n", broken_rule(broken, context.policy)));
        }
    }
    if !diff.reasons.is_empty() {
        out.push_str("\nWhy:\n\n");
        for reason in &diff.reasons {
            out.push_str(&format!("- {}: {}\n", reason.cause.word(), reason.detail));
        }
    }
    if !diff.lines.is_empty() {
        let table = markdown_table(&columns(), &rows(diff, most));
        let shown = foot(diff, most);
        out.push_str(&format!(
            "\n<details><summary>{} lines: ~ changed, + added, - removed</summary>\n\n{table}\n{shown}\n</details>\n",
            diff.lines.len()
        ));
    }
    out
}

fn money_of(diff: &Diff) -> Money<'_> {
    Money::in_currency(diff.exchange.as_ref())
}

/// Name, before and after.
fn figure_words(diff: &Diff) -> Vec<(&'static str, String, String)> {
    let money = |usd: f64| Usd::from_dollars(usd).map_or_else(|| format!("${usd}"), |usd| money_of(diff).usd(usd));
    let words = |change: &FigureChange| {
        let of: (&str, &dyn Fn(f64) -> String) = match change.figure {
            Figure::P90Usd => ("nine of ten cases", &money),
            Figure::RunHours => ("time", &|hours| Hours(hours).to_string()),
            Figure::GpuHours => ("GPU-hours", &format::count),
            Figure::PriceAgeDays => ("age of the price", &|days| format::duration(Hours(days * 24.0))),
            Figure::OldPriceShare => ("on old prices", &|share| format!("{:.0} % of the money", share * 100.0)),
        };
        let side = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), of.1);
        (of.0, side(change.before), side(change.after))
    };
    diff.figures.iter().map(words).collect()
}

fn broken_rule(broken: &Broken, policy: &str) -> String {
    format!("{policy} line {}: {}", broken.line, broken.detail)
}

/// `$8,123 -> $9,525: +$1,402 (+17 %)`.
fn summary(diff: &Diff) -> String {
    let count = |number: usize| {
        if number == 1 { "1 line".to_owned() } else { format!("{} lines", format::thousands(number as i128)) }
    };
    let verb = if diff.lines.len() == 1 { "differs" } else { "differ" };
    let lines = format!("{} {verb}, {} alike", count(diff.lines.len()), count(diff.unchanged));
    let money = money_of(diff);
    match &diff.total {
        Some(total) if total.change_usd == Usd::ZERO => {
            format!("{} before and after; {lines}{}", money.usd(total.after_usd), money.aside())
        }
        Some(total) => {
            let (before, after) = (money.usd(total.before_usd), money.usd(total.after_usd));
            format!("{before} -> {after}: {}; {lines}{}", change_text(total, money), money.aside())
        }
        None => lines,
    }
}

fn change_text(total: &Change, money: Money) -> String {
    let share = total.share.map_or(String::new(), |share| format!(" ({})", percent(share)));
    format!("{}{share}", money.change(total.change_usd))
}

/// Whole percents where that says enough.
fn percent(share: f64) -> String {
    let digits = usize::from(share.abs() < 0.1);
    format!("{:+.digits$} %", share * 100.0)
}

fn columns() -> Vec<Column> {
    vec![
        Column::left("", 0),
        Column::left("line", 0),
        Column::right("before", 100),
        Column::right("after", 100),
        Column::right("change", 0),
        Column::left("from", 0),
        Column::left("how", 120),
    ]
}

/// Changes of less than half a cent are counted and in the JSON.
const LEAST: i128 = 5_000_000;

fn visible(diff: &Diff) -> impl Iterator<Item = &ChangedLine> {
    diff.lines.iter().filter(|line| line.change_usd.nanos().abs() >= LEAST)
}

fn rows(diff: &Diff, most: usize) -> Vec<Vec<String>> {
    visible(diff).take(most).map(|line| line_cells(line, money_of(diff))).collect()
}

/// What the table leaves out.
fn foot(diff: &Diff, most: usize) -> String {
    let seen = visible(diff).count();
    let tiny = diff.lines.len() - seen;
    let tiny = if tiny > 0 { format!("{tiny} more by less than a cent\n") } else { String::new() };
    format!("{}{tiny}", footer(most.min(seen), seen, "--max-results shows more"))
}

fn line_cells(line: &ChangedLine, money: Money) -> Vec<String> {
    let amount = |amount: Option<Usd>| amount.map_or_else(|| "-".to_owned(), |amount| money.usd(amount));
    let change = match (line.before_usd, line.after_usd) {
        (Some(before), Some(after)) => change_text(&Change::new(before, after), money),
        _ => money.change(line.change_usd),
    };
    let parts = match line.parts.as_slice() {
        [part] => part.cause.word().to_owned(),
        parts => parts
            .iter()
            .map(|part| format!("{} {}", part.cause.word(), money.change(part.change_usd)))
            .collect::<Vec<_>>()
            .join(", "),
    };
    vec![
        line.mark.sign().to_string(),
        line.what.clone(),
        amount(line.before_usd),
        amount(line.after_usd),
        change,
        parts,
        line.detail.clone(),
    ]
}
