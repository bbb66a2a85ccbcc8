//! `costs import --incremental` in words: what of the files counted already, and why they do not add to what counts.

use crate::session::Session;
use crate::session::diagnostic::Diagnostic;
use gpuplan_budget::Ledger;
use gpuplan_budget::bill::ImportedBill;
use gpuplan_budget::bill::delivery::counted;
use gpuplan_budget::bill::increment::{Conflict, Increment};
use gpuplan_report::text::format::usd;

/// All that counts now of the periods of the delivery: a run is compared with the whole of its bill.
pub fn counting(increment: &Increment, ledger: &Ledger) -> Result<Vec<ImportedBill>, Diagnostic> {
    let bills = ledger.bills()?;
    let periods = increment.new.keys();
    let of = periods.flat_map(|(source, account, month)| counted(&bills, (source, account, month)));
    Ok(of.cloned().collect())
}

/// Says what was not counted again.
pub fn left_out(increment: &Increment, session: &Session) {
    let known = increment.known;
    if known > 0 {
        let all = known as u64 + increment.new.values().sum::<u64>();
        session.printer.note(&format!(
            "{known} of {all} parts of these files ({}) count already and were left out",
            usd(increment.known_usd)
        ));
    }
}

/// Nothing is added where it is not known what it would add to.
pub fn differs(conflicts: &[Conflict]) -> Diagnostic {
    let words = conflicts.iter().map(|conflict| match conflict {
        Conflict::Whole { period: (cloud, _, month) } => {
            format!(
                "the bill of {cloud} {month} that counts was imported as a whole, and nothing is known of its parts"
            )
        }
        Conflict::Differs { period: (cloud, _, month), parts, first, kept_usd, usd: here } => {
            let more = if *parts > 1 { format!(" and {} more parts", parts - 1) } else { String::new() };
            let (kept, here) = (usd(*kept_usd), usd(*here));
            let kept = if kept == here {
                format!("other lines of the same sum, {kept}")
            } else {
                format!("{kept} counted and {here} here")
            };
            format!("the bill of {cloud} {month} has other lines in {first}{more} than those that count: {kept}")
        }
    });
    let words: Vec<String> = words.collect();
    let diagnostic = Diagnostic::usage(format!("{}; nothing was kept", words.join("\n  ")));
    if conflicts.iter().any(|conflict| matches!(conflict, Conflict::Differs { .. })) {
        diagnostic
            .hint("import the period as a whole, without --incremental: all files of the newest export, or all that were appended, in one command")
            .hint("to begin the period anew with these files: gpuplan costs import --incremental --replace FILE")
    } else {
        diagnostic.hint(
            "import the files of the period so far once more with --incremental --replace; later ones then add to them",
        )
    }
}
