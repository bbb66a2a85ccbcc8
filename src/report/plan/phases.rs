//! Phases one after the other, for people and as a plan document: each one's recommended plan, and the total.

use jiff::Timestamp;

use crate::plan::brief::{WIDE, short_name};
use crate::text::fit::shorten;
use crate::text::format;
use crate::text::table::{Column, render};
use crate::text::wrap::wrap;
use gpuplan_plan::document::{AnyDocument, PhasesRecord, TotalRecord};
use gpuplan_plan::money::phases::{Taken, Total};
use gpuplan_units::{Bytes, Hours, UsdPerHour};
use gpuplan_workload::file::WorkloadFile;

/// The name of a cloud and a bit of its region.
const SHORT_PLACE: usize = 12;

/// What is recommended for one phase.
pub struct Answer {
    pub name: String,
    pub hands_over: Option<Bytes>,
    /// It answers requests, and its bill knows no data.
    pub is_served: bool,
    /// It does so for a time and not until something is done.
    pub is_service: bool,
    /// gpuplan rents these machines and runs a command there to its end.
    pub is_launched: bool,
    /// `cloud/region`.
    pub place: String,
    pub machines: String,
    /// GPUs at work, or vCPUs where there are none.
    pub chips: String,
    pub terms: &'static str,
    pub rate: UsdPerHour,
    /// Age of the price.
    pub seen: String,
    pub valid_until: Timestamp,
    /// Its part of a deadline of all.
    pub deadline: Option<Hours>,
    pub taken: Taken,
    /// What is worth a line below the table.
    pub remark: Option<String>,
    /// As `plan --phase` gives it; for the document of all phases, and for nobody else: a table shows nothing of it.
    pub document: Option<AnyDocument>,
}

pub struct Whole<'a> {
    pub name: &'a str,
    pub file: &'a WorkloadFile,
    pub answers: &'a [Answer],
    pub total: Total,
    pub deadline: Option<Hours>,
}

/// The document of the costliest phase, whose plan is the top recommendation, with all phases and their total beside it. `None`: the phases were
/// answered without documents.
pub fn document(whole: &Whole) -> Option<AnyDocument> {
    let costliest = whole.answers.iter().max_by_key(|answer| answer.taken.cost.expected)?.document.clone()?;
    let valid_until = whole.answers.iter().map(|answer| answer.valid_until).min();
    let phase = |answer: &Answer| {
        let document = answer.document.clone()?;
        Some(document.into_phase(&answer.name, answer.hands_over, answer.deadline))
    };
    let phases = whole.answers.iter().map(phase).collect::<Option<Vec<_>>>()?;
    let total = TotalRecord::new(whole.total, whole.deadline);
    Some(costliest.with_phases(whole.name, whole.file, valid_until, PhasesRecord { phases, total }))
}

pub fn text(whole: &Whole, headline: Option<&str>, width: u16) -> String {
    let columns = [
        Column::left("phase", 0),
        Column::left("GPUs or vCPUs", 0),
        Column::left("machines", WIDE),
        Column::left("where", 0),
        Column::left("terms", 0),
        Column::right("$/h", WIDE),
        Column::right("price seen", 120),
        Column::right("hours", 0),
        Column::right("cost", 0),
        Column::right("90 %", 0),
    ];
    let rows = whole.answers.iter().map(|answer| {
        vec![
            answer.name.clone(),
            if width < WIDE { short_name(&answer.chips) } else { answer.chips.clone() },
            answer.machines.clone(),
            if width < WIDE { shorten(&place(answer), SHORT_PLACE) } else { place(answer) },
            if width < WIDE { answer.terms.replace("spot-with-fallback", "spot+od") } else { answer.terms.to_owned() },
            format::rate(answer.rate),
            format!("{} ago", answer.seen),
            Hours(answer.taken.hours.expected).to_string(),
            format::usd(answer.taken.cost.expected),
            format::usd(answer.taken.cost.p90),
        ]
    });
    let Total { run_hours, cost_usd } = whole.total;
    let mut together = vec![String::new(); columns.len()];
    together[0].push_str("total");
    together[7] = Hours(run_hours.expected).to_string();
    together[8] = format::usd(cost_usd.expected);
    together[9] = format::usd(cost_usd.p90);
    let mut out = headline.map_or_else(String::new, |headline| format!("{headline}\n\n"));
    out.push_str(&format!("{}: {} phases, one after the other\n\n", whole.name, whole.answers.len()));
    out.push_str(&render(&columns, rows.chain([together]), width));
    out.push('\n');
    for line in remarks(whole) {
        out.push_str(&wrap(&line, width, "  "));
        out.push('\n');
    }
    out
}

/// `cloud region`.
fn place(answer: &Answer) -> String {
    answer.place.replacen('/', " ", 1)
}

fn remarks(whole: &Whole) -> Vec<String> {
    let mut lines = Vec::new();
    for pair in whole.answers.windows(2) {
        if let [before, after] = pair
            && let Some(handed) = before.hands_over
        {
            let how = if after.is_served {
                "not priced".to_owned()
            } else if before.place == after.place {
                "in the same region, where moving costs nothing".to_owned()
            } else {
                format!("from {} to {}, priced in its bill where the clouds differ", before.place, after.place)
            };
            lines.push(format!("{} hands {handed} to {}: {how}.", before.name, after.name));
        }
    }
    lines.extend(
        whole.answers.iter().filter_map(|answer| Some(format!("{}: {}.", answer.name, answer.remark.as_ref()?))),
    );
    if let Some(deadline) = whole.deadline {
        let ending = whole.answers.iter().filter(|answer| !answer.is_service);
        let p90 = Hours(ending.map(|answer| answer.taken.hours.p90).sum());
        let verdict = if p90.0 <= deadline.0 { "within" } else { "PAST" };
        let all = if whole.answers.iter().any(|answer| answer.is_service) { "all but the service" } else { "all" };
        lines.push(format!("Nine times of ten {all} is done after {p90}, {verdict} the deadline of {deadline}."));
    }
    lines.push(
        "Percentiles of phases are added: exact where their estimates err together, too wide where they do not."
            .to_owned(),
    );
    if let Some(first) = whole.answers.first() {
        lines.push(format!("More about one: gpuplan plan FILE --phase {}", first.name));
    }
    if let Some(first) = whole.answers.iter().find(|answer| answer.is_launched) {
        lines.push(format!("Launch one: gpuplan launch FILE --phase {} --live -- COMMAND", first.name));
    }
    lines
}
