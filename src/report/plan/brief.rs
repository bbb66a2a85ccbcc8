//! A plan on one screen: what to rent, what it costs today, when it ends, why, the three plans to choose from, and what comes next.

use std::fmt::Write as _;

use jiff::SignedDuration;

use crate::plan::plan_text::short_line;
use crate::plan::serving_text;
use crate::sentences;
use crate::text::fit::shorten;
use crate::text::format;
use crate::text::style::Style;
use crate::text::wrap::wrap;
use gpuplan_market::Offer;
use gpuplan_plan::document::Context;
use gpuplan_plan::explanation::evidence::evidence;
use gpuplan_plan::limits::KnownQuota;
use gpuplan_plan::{Objective, Pick, Plan, PlanSet, Reason, Role, Warning};
use gpuplan_units::Hours;
use gpuplan_units::names::word;
use gpuplan_workload::Assumption;

/// Lines of a terminal: what matters less gives way.
const LINES: usize = 24;
/// Lines that the assumptions of the workload may take.
const ASSUMED_LINES: usize = 2;
/// From here on there is room for whole names.
pub(crate) const WIDE: u16 = 110;
/// Columns from here on are figures.
const FIRST_FIGURE: usize = 4;
/// The name of a cloud and a bit of its region.
const LEAST_PLACE: usize = 7;
/// A count and both ends of the name of a GPU.
const LEAST_GPUS: usize = 11;

/// What the screen says besides the plan.
pub struct Screen<'a> {
    /// Over everything else, such as that prices are very old.
    pub headline: Option<&'a str>,
    /// What launches the recommended plan, or writes what starts its service; `None`: nothing does.
    pub start: Option<&'a str>,
    pub width: u16,
    pub style: Style,
}

/// The first screen. Everything else is in `plan_text`.
pub fn text(set: &PlanSet, context: &Context, screen: &Screen) -> String {
    let Some(best) = &set.recommendation else { return String::new() };
    let Screen { width, style, .. } = *screen;
    let mut out = String::new();
    if let Some(headline) = screen.headline {
        let _ = writeln!(out, "{}", style.warning(&wrap(headline, width, "  ")));
    }
    let _ = writeln!(out, "{}\n", wrap(&short_line(context.workload), width, "  "));
    let _ = writeln!(out, "{}", style.strong(&wrap(&rent(best, context), width, "  ")));
    let mut row = |name: &str, value: &str| {
        let text = wrap(&format!("  {name:<7} {value}"), width, "          ");
        let _ = writeln!(out, "{}", style.label(&text, name));
    };
    row("cost", &cost(best, context));
    if context.workload.is_service() {
        for (name, value) in serving_text::rows(best, context) {
            if ["serve", "prompts", "latency", "money"].contains(&name) {
                row(name, &value);
            }
        }
    } else {
        row("ends", &end(best, context));
        row("work", &work(best));
    }
    row("why", &why(best));
    out.push('\n');
    out.push_str(&choices(set, context, width, style));
    out.push('\n');
    let last = last(set, context, screen);
    let room = LINES.saturating_sub(out.lines().count() + last.lines().count());
    out.push_str(&remarks(set, context, width, room));
    out.push_str(&last);
    out
}

/// What to type next.
fn last(set: &PlanSet, context: &Context, screen: &Screen) -> String {
    let is_service = context.workload.is_service();
    let start = match screen.start {
        Some(export) if is_service => format!("Serve:   {export}\n"),
        Some(launch) => format!("Launch:  {launch}\n"),
        None if is_service => String::new(),
        None => "Launch:  not with gpuplan; `gpuplan export PLAN.json --to skypilot` hands it over\n".to_owned(),
    };
    let is_unknown = set.warnings.iter().any(|warning| matches!(warning, Warning::QuotaUnknown { .. }));
    let more = if is_unknown {
        "--details, `gpuplan explain`; quota not known: `gpuplan doctor` asks"
    } else {
        "--details, or `gpuplan explain` for one plan in full"
    };
    let text = format!("{start}More:    {more}\n");
    text.lines().fold(String::new(), |out, line| out + &wrap(line, screen.width, "  ") + "\n")
}

/// What else to know, the most important first, as far as there is room; assumptions have what is left.
fn remarks(set: &PlanSet, context: &Context, width: u16, mut room: usize) -> String {
    let mut out = String::new();
    let has_assumed = !context.assumed.is_empty() && room > 0;
    room -= usize::from(has_assumed);
    let apart = context.assumed.iter().find(|assumption| **assumption == Assumption::RolloutsApart);
    let apart = apart.map(|assumption| format!("Note:    {}", sentences::assumption::sentence(assumption)));
    for note in apart.into_iter().chain(notes(set, context, width)) {
        let text = wrap(&note, width, "  ");
        let lines = text.lines().count();
        if lines <= room {
            room -= lines;
            let _ = writeln!(out, "{text}");
        }
    }
    if let Some(assumed) = assumed(context.assumed, width, (room + usize::from(has_assumed)).min(ASSUMED_LINES)) {
        let _ = writeln!(out, "{assumed}");
    }
    out
}

fn rent(plan: &Plan, context: &Context) -> String {
    let world = context.world;
    let offer = world.market.offer(plan.offer);
    let instance = world.hardware.instance(plan.instance);
    let cloud = instance.cloud.label();
    let verb = if offer.owned.is_some() { "Use" } else { "Rent" };
    let place = place(offer);
    let place = if place == "any" { String::new() } else { format!(" {place}") };
    format!(
        "{verb} {} at {cloud}{place} ({} x {}), {}",
        gpus(plan, context),
        plan.nodes,
        instance.name,
        terms(plan, offer)
    )
}

fn gpus(plan: &Plan, context: &Context) -> String {
    let instance = context.world.hardware.instance(plan.instance);
    let gpu = context.world.hardware.gpu(instance.node.gpu);
    let count = match (instance.node.gpus.is_slice(), plan.nodes) {
        (false, _) => plan.gpus().to_string(),
        (true, 1) => instance.node.gpus.to_string(),
        (true, nodes) => format!("{nodes} x {}", instance.node.gpus),
    };
    format!("{count} x {}", gpu.name)
}

fn place(offer: &Offer) -> &str {
    offer.place.zone_id.as_deref().unwrap_or(&offer.place.region)
}

fn terms(plan: &Plan, offer: &Offer) -> String {
    match plan.spot.as_ref().and_then(|spot| spot.finish_by) {
        Some(end) => format!("spot, on-demand to end within {end}"),
        None if plan.standby.is_some() => "spot with on-demand standby".to_owned(),
        None => offer.purchase.to_string(),
    }
}

fn short_terms(plan: &Plan, offer: &Offer) -> String {
    if plan.standby.is_some() || plan.spot.as_ref().is_some_and(|spot| spot.finish_by.is_some()) {
        "spot+od".to_owned()
    } else {
        offer.purchase.to_string()
    }
}

fn cost(plan: &Plan, context: &Context) -> String {
    let offer = context.world.market.offer(plan.offer);
    let each = if plan.nodes == 1 { "" } else { " a machine" };
    format!(
        "{} expected, {} at 90 %; {}/h{each}",
        format::usd(plan.cost.expected),
        format::usd(plan.cost.p90),
        format::rate(offer.quote.rate)
    )
}

/// When, and how certainly. A mean says little of spot: a pool that is up starts at once, one that is down may stay so for a day.
fn end(plan: &Plan, context: &Context) -> String {
    let hours = plan.run.hours;
    let at = SignedDuration::try_from_secs_f64(hours.expected * 3600.0).ok();
    let at = at.and_then(|run| context.now.checked_add(run).ok());
    let at = at.map_or(String::new(), |at| format!(" ({})", at.strftime("%a %d %b %H:%M UTC")));
    let chance = plan
        .chance_by_deadline
        .map_or(String::new(), |chance| format!("; {:.0} % by the deadline", (chance * 100.0).min(99.0)));
    let half = if plan.spot.is_some() { format!("{} at 50 %, ", Hours(hours.p50)) } else { String::new() };
    format!("in {}{at}, {half}{} at 90 %{chance}", plan.hours(), Hours(hours.p90))
}

/// How long the work itself is, and what comes on top.
fn work(plan: &Plan) -> String {
    let (work, wait) = (Hours(plan.run.work.expected), plan.wait_hours());
    match plan.spot.as_ref().and_then(|spot| spot.forecast.as_ref()) {
        None => format!("{work}, after {wait} to start"),
        Some(forecast) => {
            format!("{work}, and {wait} of starts, waiting and {:.1} interruptions", forecast.interruptions)
        }
    }
}

/// The reason in one sentence.
fn why(best: &Plan) -> String {
    let aim = best.reasons.iter().find_map(|reason| match reason {
        Reason::Objective { objective, counts_waiting, plans, .. } => Some((*objective, *counts_waiting, *plans)),
        _ => None,
    });
    aim.map_or_else(String::new, |(objective, counts_waiting, plans)| {
        let least = match objective {
            Objective::CostAndTime if counts_waiting => "least cost of machines and time",
            Objective::CostAndTime | Objective::Cost => "least cost",
            Objective::Time => "least time",
            Objective::Balanced => "least product of cost and time",
        };
        format!("{least}, of {plans} plans that keep every limit")
    })
}

/// The column of the waiting, which is what the result takes beyond the work.
const WAIT: usize = 5;

/// A table whose reasons stand under their rows where there is no room beside them. `*` marks the recommended plan.
fn choices(set: &PlanSet, context: &Context, width: u16, style: Style) -> String {
    let is_service = context.workload.is_service();
    let titles: &[&str] = if is_service {
        &["", "GPUs", "where", "terms", "cost", "90 %"]
    } else {
        &["", "GPUs", "where", "terms", "work", "wait", "ends in", "cost", "90 %"]
    };
    let mut titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
    let mut rows: Vec<Vec<String>> = set.picks.iter().map(|pick| row(pick, context, width)).collect();
    // With the least of a place, `ends in` less `work` says it where the name of a GPU would be cut.
    let full = |index: usize| rows.iter().chain([&titles]).map(|row| row[index].chars().count()).max().unwrap_or(0);
    let needed: usize = (0..titles.len()).map(|index| if index == 2 { LEAST_PLACE } else { full(index) } + 2).sum();
    if !is_service && needed > usize::from(width) + 2 {
        rows.iter_mut().chain([&mut titles]).for_each(|row| drop(row.remove(WAIT)));
    }
    let longest = |index: usize| rows.iter().map(|row| row[index].chars().count()).max().unwrap_or(0);
    let mut lengths: Vec<usize> =
        titles.iter().enumerate().map(|(index, title)| longest(index).max(title.chars().count())).collect();
    // Names give way before figures.
    for (column, least) in [(2, LEAST_PLACE), (1, LEAST_GPUS)] {
        while 2 * lengths.len() + lengths.iter().sum::<usize>() > usize::from(width) + 2 && lengths[column] > least {
            lengths[column] -= 1;
        }
    }
    let line = |cells: &[String]| {
        let mut text = String::new();
        for (index, (cell, length)) in cells.iter().zip(&lengths).enumerate() {
            let cell = shorten(cell, *length);
            let gap = " ".repeat(length - cell.chars().count());
            let (before, after) = if index >= FIRST_FIGURE { (gap.as_str(), "") } else { ("", gap.as_str()) };
            let _ = write!(text, "{before}{cell}{after}  ");
        }
        text.trim_end().to_owned()
    };
    let mut out = format!("{}\n", style.faint(&line(&titles)));
    let reason =
        |pick: &Pick| format!("{}: {}", sentences::pick::roles(&pick.roles), sentences::pick::sentence(&pick.why));
    let lines: Vec<(String, String)> =
        set.picks.iter().zip(&rows).map(|(pick, cells)| (line(cells), reason(pick))).collect();
    // All beside their rows or all under them: a reader's eye goes down one column.
    let has_room = lines.iter().all(|(text, why)| text.chars().count() + 2 + why.chars().count() <= usize::from(width));
    for (pick, (text, why)) in set.picks.iter().zip(lines) {
        out.push_str(&if pick.roles.contains(&Role::Recommended) { style.strong(&text) } else { text });
        if has_room {
            let _ = writeln!(out, "  {}", style.faint(&why));
        } else {
            let _ = writeln!(out, "\n{}", style.faint(&wrap(&format!("   {why}"), width, "   ")));
        }
    }
    out
}

fn row(pick: &Pick, context: &Context, width: u16) -> Vec<String> {
    let plan = &pick.plan;
    let world = context.world;
    let (offer, instance) = (world.market.offer(plan.offer), world.hardware.instance(plan.instance));
    let mark = if pick.roles.contains(&Role::Recommended) { "*" } else { "" };
    let mut gpus = gpus(plan, context);
    if width < WIDE {
        gpus = short_name(&gpus);
    }
    let mut cells =
        vec![mark.to_owned(), gpus, format!("{} {}", instance.cloud, place(offer)), short_terms(plan, offer)];
    if !context.workload.is_service() {
        cells.extend([
            Hours(plan.run.work.expected).to_string(),
            plan.wait_hours().to_string(),
            plan.hours().to_string(),
        ]);
    }
    cells.extend([format::usd(plan.cost.expected), format::usd(plan.cost.p90)]);
    cells
}

/// `8 x H100` of `8 x H100 SXM5 80GB`: up to the first word after the counts that has a figure in it. `3072 vCPUs` have no shorter name.
pub(crate) fn short_name(gpus: &str) -> String {
    let words: Vec<&str> = gpus.split(' ').collect();
    let has_figure = |word: &&str| word.chars().any(|c| c.is_ascii_digit());
    let Some(name) = words.iter().rposition(|word| *word == "x").map(|sign| sign + 1) else {
        return gpus.to_owned();
    };
    let end = words.iter().skip(name).position(has_figure).map_or(words.len(), |index| name + index + 1);
    words[..end].join(" ")
}

/// How old what the recommended plan rests on is.
fn ages(best: &Plan, set: &PlanSet, context: &Context, width: u16) -> String {
    let change = set.warnings.iter().find_map(|warning| match warning {
        Warning::OldPrice { expected_change, .. } => Some(*expected_change),
        _ => None,
    });
    sentences::evidence::line(&evidence(best, context.world, context.now), change, width)
}

/// What else changes the answer: the value of time, and what is old.
fn notes(set: &PlanSet, context: &Context, width: u16) -> Vec<String> {
    let is_service = context.workload.is_service();
    // The hours of a service are given.
    let within = |hours: &Hours| if is_service { String::new() } else { format!(" in {hours}") };
    let mut notes = Vec::new();
    let aim = set.recommendation.iter().flat_map(|best| &best.reasons).find_map(|reason| match reason {
        Reason::Objective { objective, value_of_time_usd_per_hour, .. } => {
            Some((*objective, *value_of_time_usd_per_hour))
        }
        _ => None,
    });
    if let Some((Objective::CostAndTime, Some(value))) = aim {
        let basis = match set.value_of_time {
            value if value.is_stated => "as stated",
            value if value.is_least() => "the least that is assumed",
            _ => "by the work",
        };
        notes.push(format!(
            "Time:    an hour counts {} ({basis}); --value-of-time 20/h changes that",
            format::usd(value)
        ));
    }
    notes.extend(set.recommendation.iter().map(|best| ages(best, set, context, width)));
    for warning in &set.warnings {
        match warning {
            // Which they are stands in `--details`.
            Warning::BetterWherePricedOnly { cloud, cost_usd, run_hours, .. } => notes.push(format!(
                "Note:    better, but gpuplan cannot launch at {cloud}: {}{}",
                format::usd(*cost_usd),
                within(run_hours)
            )),
            Warning::BetterAtOldPrice { age_hours, cost_usd, run_hours, .. } => notes.push(format!(
                "Note:    better if a price of {} ago still holds: {}{}; --live",
                format::duration(*age_hours),
                format::usd(*cost_usd),
                within(run_hours)
            )),
            Warning::OverQuota { needed, quota, age_hours } => {
                notes.push(format!("Quota:   OVER IT: {}", short_of(*needed, quota, *age_hours)));
            }
            Warning::QuotaWasTaken { needed, quota, age_hours } => notes.push(format!(
                "Quota:   {}, and {} of it in use then",
                short_of(*needed, quota, *age_hours),
                quota.used.unwrap_or(0.0)
            )),
            Warning::BetterBeyondQuota { needed, quota, age_hours, cost_usd, run_hours, .. } => notes.push(format!(
                "Quota:   better with more: {}{}, but that is {}",
                format::usd(*cost_usd),
                within(run_hours),
                short_of(*needed, quota, *age_hours)
            )),
            Warning::RecomputesUnasked { stack, recompute, step_ratio, .. } => notes.push(format!(
                "Setting: {stack} recomputes by default: {step_ratio:.2}x the work; --recompute {}",
                word(*recompute)
            )),
            Warning::Booked { .. } => notes.push(format!("Booked:  {}", sentences::warning::sentence(warning))),
            Warning::NotLaunchable { .. }
            | Warning::MostMachines { .. }
            | Warning::MostlyIdle { .. }
            | Warning::CountedAsFp16 { .. } => {
                notes.push(format!("Note:    {}", sentences::warning::sentence(warning)));
            }
            _ => {}
        }
    }
    notes
}

/// What a plan takes of a quota, and when its cloud said it.
fn short_of(needed: f64, quota: &KnownQuota, age: Hours) -> String {
    let KnownQuota { unit, code, region, account, .. } = quota;
    let limit = quota.limit.map_or_else(|| "any".to_owned(), |limit| limit.to_string());
    let ago = format::duration(age);
    format!(
        "{needed} of {limit} {unit} ({code}) in {region} of account {account}, {ago} ago; `gpuplan doctor` asks again"
    )
}

/// What changes the answer most comes first.
fn weight(assumption: &Assumption) -> u8 {
    match assumption {
        Assumption::RolloutsApart
        | Assumption::ModelShape { .. }
        | Assumption::ModelTraffic { .. }
        | Assumption::ModelUnverified { .. }
        | Assumption::ModelOfName { .. } => 0,
        Assumption::SequenceLength { .. } | Assumption::ServingHours { .. } | Assumption::Simplified { .. } => 1,
        Assumption::GlobalBatch { .. } | Assumption::GlobalBatchOfGpt3 { .. } | Assumption::ServingWeights { .. } => 2,
        _ => 3,
    }
}

/// As many assumptions as so many lines hold, and how many more there are.
pub(crate) fn assumed(assumptions: &[Assumption], width: u16, lines: usize) -> Option<String> {
    let mut ordered = assumptions.to_vec();
    ordered.sort_by_key(weight);
    let all = sentences::assumption::sentences(&ordered);
    let text = |shown: usize| {
        let more = if shown < all.len() { format!("{} more", all.len() - shown) } else { String::new() };
        let parts: Vec<&str> =
            all[..shown].iter().map(String::as_str).chain((!more.is_empty()).then_some(more.as_str())).collect();
        wrap(&format!("Assumed: {}", parts.join("; ")), width, "  ")
    };
    let fits = |shown: &usize| text(*shown).lines().count() <= lines;
    let shown = (1..=all.len()).rev().find(fits);
    // Where not even the first has room, that there are some.
    let bare = || format!("Assumed: {} values that nobody stated; --details", all.len());
    (!all.is_empty() && lines > 0).then(|| shown.map_or_else(bare, text))
}
