//! A profile for a person: the step, what the GPU did, what the host did, the operators, and what to mend.

use std::fmt::Write as _;

use crate::sentences;
use crate::text::format;
use crate::text::table::{Column, render};
use crate::text::wrap::wrap;
use gpuplan_plan::training::what_if::PricedFinding;
use gpuplan_units::{Bytes, Hours};
use gpuplan_workload::profile::{
    Cause, Deviation, Finding, GpuUsage, Mended, OperatorClass, Operators, Profile, Rule, StepFigures, Usage,
};

/// Names longer than this are cut: kernels carry their template arguments.
const LONGEST_NAME: usize = 60;

/// Further apart than this a run and its estimate are no more compared (`plan --profile` leaves it out, docs/measure.md).
const ANOTHER_WORKLOAD: f64 = 5.0;
/// Closer than this a term is as it was estimated: whole steps are known no better. Judged.
const AS_ESTIMATED: f64 = 0.03;

pub fn text(profile: &Profile, width: u16) -> String {
    let mut out = format!("{}\n", wrap(&format!("Profile of {}", profile.of), width, "  "));
    if let Some(gpu) = &profile.gpu {
        let _ = writeln!(out, "{} x {}", gpu.count, gpu.name);
    }
    let _ = writeln!(out, "{}", wrap(&step_line(profile), width, "  "));
    if let Some(usage) = &profile.usage {
        let _ = write!(out, "\n{}", usage_text(usage, width));
    }
    if let Some(found) = &profile.operators {
        let _ = write!(out, "\n{}", operators_text(found, width));
    }
    if let Some(found) = &profile.deviation {
        let _ = write!(out, "\n{}", deviation_text(found, width));
    }
    out.push('\n');
    if profile.findings.is_empty() {
        out.push_str("Nothing stands out.\n");
    } else {
        out.push_str(&findings_text(&profile.findings, width));
    }
    for note in &profile.notes {
        let _ = writeln!(out, "{}", wrap(&format!("Note: {note}"), width, "  "));
    }
    out
}

fn step_line(profile: &Profile) -> String {
    let Some(step) = &profile.step else { return "step: none found".to_owned() };
    let mut line = format!(
        "step: {} (+-{:.1} %), median of {} from {}",
        format::step_seconds(step.median_seconds),
        step.spread_seconds / step.median_seconds * 100.0,
        step.count,
        step.found_in
    );
    if let Some(first) = step.first_seconds {
        let _ = write!(line, "; the first took {}", format::step_seconds(first));
    }
    if let Some(share) = profile.model_flops_utilization {
        let _ = write!(line, "; {:.1} % MFU", share * 100.0);
    }
    line
}

fn usage_text(usage: &Usage, width: u16) -> String {
    let mut out = String::new();
    if !usage.gpus.is_empty() {
        let columns = [
            Column::right("GPU", 0),
            Column::right("busy", 0),
            Column::right("memory bus", 80),
            Column::right("memory peak", 0),
            Column::right("free", 0),
            Column::right("power", 70),
            Column::right("clock", 100),
            Column::right("hottest", 110),
            Column::right("held by power", 120),
            Column::right("by heat", 120),
        ];
        out.push_str(&render(&columns, usage.gpus.iter().map(gpu_row), width));
        out.push('\n');
    }
    let host = &usage.host;
    let mut row = |name: &str, value: String| {
        let _ = writeln!(out, "{}", wrap(&format!("  {name:<9} {value}"), width, "            "));
    };
    let busiest = host.processes.iter().take(3).filter(|process| process.cores_used >= 0.05);
    let busiest: Vec<String> = busiest.map(|process| format!("{} {:.1}", process.name, process.cores_used)).collect();
    let by = if busiest.is_empty() { String::new() } else { format!(": {}", busiest.join(", ")) };
    row("cores", format!("{:.1} of {} used{by}", host.cores_used, host.cores));
    row(
        "memory",
        format!(
            "{} at its peak, {:.0} major faults a second",
            Bytes(host.memory_peak_bytes),
            host.major_faults_per_second
        ),
    );
    let rate = |bytes: Option<f64>| bytes.map_or("unknown".to_owned(), |bytes| format!("{}/s", Bytes(bytes)));
    row(
        "disk",
        format!("{} read, {} written", rate(host.disk_read_bytes_per_second), rate(host.disk_write_bytes_per_second)),
    );
    row(
        "network",
        format!(
            "{} received, {} sent",
            rate(host.network_receive_bytes_per_second),
            rate(host.network_send_bytes_per_second)
        ),
    );
    if let Some(links) = links_text(&usage.gpus) {
        row("links", links);
    }
    if !usage.gpus.is_empty() {
        row(
            "loader",
            format!(
                "{:.0} % of the time every GPU idled while the host was at its limit",
                usage.loader_stall_share * 100.0
            ),
        );
    }
    row("samples", format!("{} in {}", usage.samples, Hours(usage.seconds / 3600.0)));
    out
}

/// What went over the links of a GPU on average; `None` where nothing counts that.
fn links_text(gpus: &[GpuUsage]) -> Option<String> {
    let mean = |of: fn(&GpuUsage) -> Option<f64>| {
        let known: Vec<f64> = gpus.iter().filter_map(of).collect();
        (!known.is_empty()).then(|| Bytes(known.iter().sum::<f64>() / known.len() as f64))
    };
    let nvlink = mean(|gpu| gpu.nvlink_bytes_per_second).map(|rate| format!("NVLink {rate}/s both ways together"));
    let receive = mean(|gpu| gpu.pcie_receive_bytes_per_second).map(|rate| format!("PCIe {rate}/s received"));
    let send = mean(|gpu| gpu.pcie_send_bytes_per_second).map(|rate| format!("{rate}/s sent"));
    let all: Vec<String> = [nvlink, receive, send].into_iter().flatten().collect();
    (!all.is_empty()).then(|| format!("{} a GPU", all.join(", ")))
}

fn gpu_row(gpu: &GpuUsage) -> Vec<String> {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let told = |share: Option<f64>| share.map_or("-".to_owned(), percent);
    let bytes = |bytes: Option<f64>| bytes.map_or("-".to_owned(), |bytes| Bytes(bytes).to_string());
    let whole = |value: Option<f64>| value.map_or("?".to_owned(), |value| format!("{value:.0}"));
    vec![
        gpu.index.to_string(),
        told(gpu.busy),
        told(gpu.memory_bus_busy),
        bytes(gpu.memory_peak_bytes),
        bytes(gpu.memory_total_bytes.zip(gpu.memory_peak_bytes).map(|(total, peak)| (total - peak).max(0.0))),
        gpu.power_mean_watts
            .filter(|watts| *watts > 0.0)
            .map_or("-".to_owned(), |watts| format!("{watts:.0} of {} W", whole(gpu.power_limit_watts))),
        // Only the clock at work counts, so that an idle GPU has none.
        gpu.clock_mean_mhz
            .filter(|clock| *clock > 0.0)
            .map_or("idle".to_owned(), |clock| format!("{clock:.0} of {} MHz", whole(gpu.clock_max_mhz))),
        gpu.temperature_peak_celsius.map_or("-".to_owned(), |peak| format!("{peak:.0} C")),
        told(gpu.throttled_by_power),
        told(gpu.throttled_by_heat),
    ]
}

fn operators_text(found: &Operators, width: u16) -> String {
    let share = |seconds: f64| format!("{:.1} %", seconds / found.span_seconds.max(f64::MIN_POSITIVE) * 100.0);
    let mut rows: Vec<Vec<String>> = found
        .classes
        .iter()
        .map(|class| {
            vec![
                class.class.word().to_owned(),
                format::thousands(class.calls.into()),
                format::step_seconds(class.seconds),
                share(class.seconds),
            ]
        })
        .collect();
    let mut row = |name: &str, seconds: f64| {
        rows.push(vec![name.to_owned(), String::new(), format::step_seconds(seconds), share(seconds)]);
    };
    if found.devices > 0 {
        row("busy (overlaps once)", found.busy_seconds);
        row("gaps", found.gap_seconds);
        row("  waiting for launches", found.host_bound_seconds);
        row("communication alone", found.exposed_communication_seconds);
    }
    row("input wait (host)", found.input_wait_seconds);
    if found.synchronisations > 0 {
        row("waiting for the GPU (host)", found.synchronisation_seconds);
    }
    let columns = [
        Column::left("work", 0),
        Column::right("calls", 0),
        Column::right("time", 0),
        Column::right("of the trace", 0),
    ];
    let on = match found.devices {
        0 => "the host alone".to_owned(),
        1 => "one device".to_owned(),
        several => format!("{several} devices (seconds are those of the mean one)"),
    };
    let mut out = format!("{}, {on}, {}\n", found.format, format::step_seconds(found.span_seconds));
    out.push_str(&render(&columns, rows, width));
    if !found.copies.is_empty() {
        let _ = write!(out, "\n{}", copies_text(found, width));
    }
    if found.each_step.len() > 1 {
        let _ = write!(out, "\n{}", steps_text(&found.each_step, width));
    }
    let columns = [
        Column::left("longest operators", 0),
        Column::left("work", 90),
        Column::right("calls", 0),
        Column::right("time", 0),
    ];
    let rows = found.top.iter().map(|operator| {
        vec![
            short(&operator.name),
            operator.class.word().to_owned(),
            format::thousands(operator.calls.into()),
            format::step_seconds(operator.seconds),
        ]
    });
    let _ = write!(out, "\n{}", render(&columns, rows, width));
    out
}

/// Steps of a trace that are shown one by one.
const MOST_STEPS: usize = 12;

/// Each step, so that one which warms up is seen as one.
fn steps_text(steps: &[StepFigures], width: u16) -> String {
    let mut columns = vec![Column::right("step", 0), Column::right("time", 0)];
    let has = |class: &OperatorClass| steps.iter().any(|step| step.classes.iter().any(|one| one.class == *class));
    let classes: Vec<OperatorClass> = OperatorClass::ALL.into_iter().filter(has).collect();
    columns.extend(classes.iter().map(|class| Column::right(class.word(), 0)));
    let rows = steps.iter().take(MOST_STEPS).map(|step| {
        let of = |class: &OperatorClass| -> f64 {
            step.classes.iter().filter(|one| one.class == *class).map(|one| one.seconds).sum()
        };
        let seconds = std::iter::once(step.seconds).chain(classes.iter().map(of));
        std::iter::once(step.number.to_string()).chain(seconds.map(format::step_seconds)).collect::<Vec<_>>()
    });
    let mut out = render(&columns, rows, width);
    if let Some(more) = steps.len().checked_sub(MOST_STEPS).filter(|more| *more > 0) {
        let _ = writeln!(out, "  and {more} more; --output json has all");
    }
    out
}

/// Such as `matrix products 22 % slower than estimated (310 ms a step, 254 ms), because of no-tensor-cores`.
fn deviation_text(found: &Deviation, width: u16) -> String {
    let of = |measured: f64, estimated: f64| match measured / estimated - 1.0 {
        off if !off.is_finite() => "not in the estimate".to_owned(),
        off if off.abs() < AS_ESTIMATED => "as estimated".to_owned(),
        off if off > 1.0 => format!("{:.1} times as long as estimated", off + 1.0),
        off if off > 0.0 => format!("{:.0} % slower than estimated", off * 100.0),
        off => format!("{:.0} % faster than estimated", -off * 100.0),
    };
    let times = |measured: f64, estimated: f64| {
        format!("({} a step, {} estimated)", format::step_seconds(measured), format::step_seconds(estimated))
    };
    let (measured, estimated) = (found.measured_seconds, found.estimated_seconds);
    let head =
        format!("Against the estimate for {}: {} {}", found.on, of(measured, estimated), times(measured, estimated));
    let is_another = !(1.0 / ANOTHER_WORKLOAD..=ANOTHER_WORKLOAD).contains(&(measured / estimated));
    let another = if is_another { "; another workload was measured" } else { "" };
    let mut out = format!("{}\n", wrap(&format!("{head}{another}"), width, "  "));
    for term in &found.terms {
        let (measured, estimated) = (term.measured_seconds, term.estimated_seconds);
        let is_slower = measured > estimated * (1.0 + AS_ESTIMATED);
        let because = match term.because.as_slice() {
            _ if !is_slower => String::new(),
            [] => ", and no finding says why".to_owned(),
            rules => format!(", because of {}", rules.join(" and ")),
        };
        let line =
            format!("  {} {} {}{because}", term.term.words(), of(measured, estimated), times(measured, estimated));
        let _ = writeln!(out, "{}", wrap(&line, width, "    "));
    }
    if let Some(published) = &found.published {
        let _ = writeln!(out, "{}", wrap(published, width, "  "));
    }
    out
}

fn copies_text(found: &Operators, width: u16) -> String {
    let columns = [
        Column::left("copies", 0),
        Column::right("calls", 0),
        Column::right("bytes", 0),
        Column::right("time", 0),
        Column::right("rate", 0),
    ];
    let rows = found.copies.iter().map(|copy| {
        let rate = if copy.seconds > 0.0 {
            format!("{}/s", Bytes(copy.bytes / copy.seconds / f64::from(found.devices.max(1))))
        } else {
            String::new()
        };
        vec![
            copy.kind.clone(),
            format::thousands(copy.calls.into()),
            Bytes(copy.bytes).to_string(),
            format::step_seconds(copy.seconds),
            rate,
        ]
    });
    render(&columns, rows, width)
}

fn short(name: &str) -> String {
    if name.chars().count() <= LONGEST_NAME {
        name.to_owned()
    } else {
        name.chars().take(LONGEST_NAME - 1).chain(['…']).collect()
    }
}

fn findings_text(findings: &[Finding], width: u16) -> String {
    let mut out = "Findings\n".to_owned();
    for finding in findings {
        let gain = match finding.mended {
            Mended::Step { left } => format!(" Fixing it would save at most {:.0} % of a step.", (1.0 - left) * 100.0),
            _ => String::new(),
        };
        out.push_str(&paragraph(finding, &gain, width));
    }
    out
}

/// The findings of a profile with what fixing each would save of the planned run.
pub fn priced(findings: &[PricedFinding], width: u16) -> String {
    let mut out = "What the profile found (savings at best, each by itself)\n".to_owned();
    for priced in findings {
        let gain = match priced.savings {
            Ok(savings) => {
                format!(" Fixing this saves about {} and {} of this run.", format::usd(savings.cost), savings.hours)
            }
            Err(why) => format!(" Not priced: {}.", sentences::finding::unpriced(why)),
        };
        out.push_str(&paragraph(&priced.finding, &gain, width));
    }
    out
}

fn paragraph(finding: &Finding, gain: &str, width: u16) -> String {
    let whose = if finding.cause == Cause::Machine { " (the machine's fault)" } else { "" };
    let first =
        format!("  {}{whose}: {}; the line is at {}.{gain}", finding.rule.word(), finding.evidence, line_of(finding));
    format!("{}\n{}\n", wrap(&first, width, "    "), wrap(&format!("    do: {}", finding.advice), width, "        "))
}

/// The threshold in the unit of its rule.
fn line_of(finding: &Finding) -> String {
    match finding.rule {
        Rule::NoLossScaler | Rule::PcieLink => "none".to_owned(),
        Rule::Synchronisation => format!("{:.0} a step", finding.threshold),
        Rule::Straggler => format!("{:.0} %", (finding.threshold - 1.0) * 100.0),
        _ => format!("{:.0} %", finding.threshold * 100.0),
    }
}

/// Seconds by class of work, then of the other rows of the table.
pub fn csv(profile: &Profile) -> String {
    let mut out = "work,calls,seconds\n".to_owned();
    let Some(found) = &profile.operators else { return out };
    for class in &found.classes {
        let _ = writeln!(out, "{},{},{}", class.class.word(), class.calls, class.seconds);
    }
    let rows = [
        ("span", found.span_seconds),
        ("busy", found.busy_seconds),
        ("gaps", found.gap_seconds),
        ("host-bound", found.host_bound_seconds),
        ("exposed-communication", found.exposed_communication_seconds),
        ("input-wait", found.input_wait_seconds),
        ("synchronisation", found.synchronisation_seconds),
    ];
    for (name, seconds) in rows {
        let _ = writeln!(out, "{name},,{seconds}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_workload::profile::{StepTimes, Term, TermDeviation};

    #[test]
    fn a_profile_fits_its_terminal_and_says_what_was_not_found() {
        let finding = Finding {
            rule: Rule::HostBound,
            evidence: "in 31 % of the trace the GPU idles because nothing is launched".to_owned(),
            measured: 0.31,
            threshold: 0.1,
            advice: "compile the model, use CUDA graphs, fuse small kernels or raise the micro batch".to_owned(),
            cause: Cause::Program,
            mended: Mended::Step { left: 0.69 },
        };
        let profile = Profile {
            step: StepTimes::from_seconds(&[0.5, 0.52, 0.51], Some(9.0), "torchtitan"),
            usage: Some(Usage { gpus: vec![GpuUsage::default()], ..Usage::default() }),
            operators: Some(Operators { devices: 1, span_seconds: 1.0, ..Operators::default() }),
            findings: vec![finding],
            ..Profile::new("python train.py")
        };
        for width in [60, 80, 160] {
            let text = text(&profile, width);
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{width}\n{text}");
            assert!(text.contains("at most 31 %") || width == 60, "{text}");
        }
        let empty = text(&Profile::new("x"), 80);
        assert!(empty.contains("none found") && empty.contains("Nothing stands out"));
        assert!(csv(&profile).contains("gaps,,0"));
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(short(&"k".repeat(100)).chars().count(), LONGEST_NAME);
        assert_eq!(short("aten::mm"), "aten::mm");
    }

    #[test]
    fn a_deviation_says_which_term_and_why() {
        let term = |term, measured_seconds, because: &[&str]| TermDeviation {
            term,
            measured_seconds,
            estimated_seconds: 0.1,
            because: because.iter().map(|rule| (*rule).to_owned()).collect(),
        };
        let mut found = Deviation {
            on: "8 x H100".to_owned(),
            measured_seconds: 0.5,
            estimated_seconds: 0.5,
            terms: vec![
                term(Term::Products, 0.122, &["no-tensor-cores", "small-shapes"]),
                term(Term::Memory, 0.15, &[]),
                term(Term::Launches, 0.02, &["host-bound"]),
                term(Term::Communication, 0.101, &[]),
            ],
            published: None,
        };
        assert_eq!(
            deviation_text(&found, 200),
            "Against the estimate for 8 x H100: as estimated (500 ms a step, 500 ms estimated)\n  \
             matrix products 22 % slower than estimated (122 ms a step, 100 ms estimated), because of no-tensor-cores and small-shapes\n  \
             memory kernels 50 % slower than estimated (150 ms a step, 100 ms estimated), and no finding says why\n  \
             launches 80 % faster than estimated (20 ms a step, 100 ms estimated)\n  \
             communication alone as estimated (101 ms a step, 100 ms estimated)\n"
        );
        found.measured_seconds = 5.0;
        assert!(deviation_text(&found, 200).contains("another workload was measured"));
    }
}
