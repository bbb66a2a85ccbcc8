//! Which phase of a portfolio a launched run is of, by its name.

use crate::portfolio::calendar::Month;
use crate::portfolio::{Phase, Portfolio};

/// The phase that a launched run belongs to: by `launched_as`, else by its name. Of several phases of one run, that of the month.
pub fn phase_of(portfolio: &Portfolio, run: &str, month: Month) -> Option<usize> {
    let fits = |phase: &Phase| phase.launched_as.iter().filter_map(|pattern| length_matched(pattern, run)).max();
    let stated = portfolio.phases.iter().enumerate().filter_map(|(at, phase)| Some((fits(phase)?, at)));
    if let Some((_, at)) = stated.max_by_key(|(length, at)| (*length, std::cmp::Reverse(*at))) {
        return Some(at);
    }
    let name = plain(run);
    let by_name = |stated: &str| {
        let stated = plain(stated);
        let is_it = name == stated || name.strip_prefix(stated.as_str()).is_some_and(|rest| rest.starts_with('-'));
        (is_it && !stated.is_empty()).then_some(stated.len())
    };
    let unstated = || portfolio.phases.iter().enumerate().filter(|(_, phase)| phase.launched_as.is_empty());
    let path = unstated().filter_map(|(at, phase)| Some((by_name(&phase.path())?, at)));
    if let Some((_, at)) = path.max_by_key(|(length, at)| (*length, std::cmp::Reverse(*at))) {
        return Some(at);
    }
    let of_run: Vec<usize> = unstated().filter(|(_, phase)| by_name(&phase.run).is_some()).map(|(at, _)| at).collect();
    let in_month = of_run.iter().find(|at| portfolio.phases[**at].in_months().any(|other| other == month));
    in_month.or(of_run.first()).copied()
}

/// Letters of the pattern that fit; `*` at its end stands for anything.
fn length_matched(pattern: &str, run: &str) -> Option<usize> {
    match pattern.strip_suffix('*') {
        Some(start) => run.starts_with(start).then_some(start.len()),
        None => (pattern == run).then_some(pattern.len()),
    }
}

/// Small letters and digits with single dashes, as names of launched runs are.
fn plain(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}
