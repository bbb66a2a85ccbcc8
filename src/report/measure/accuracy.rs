//! How wrong the estimate is, as tables for people and CSV, with what other public estimators reach beside it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::text::table::{Column, render};
use crate::text::wrap::wrap;
use gpuplan_accuracy::held_out::{GroupError, HeldOut};
use gpuplan_accuracy::{ErrorGroup, GroupErrors, Scores, peers};
use gpuplan_estimate::band::{FittedBands, HalfWidth, SourceCoverage};
use gpuplan_estimate::constants::{Fitted, HeldOutError, HeldOutInference};
use gpuplan_estimate::memory_constants::{FittedMemory, HeldOutSource};

/// Every grouping with its word.
const GROUPINGS: [(&str, ErrorGroup); 6] = [
    ("table", ErrorGroup::Table),
    ("source", ErrorGroup::Source),
    ("group", ErrorGroup::Group),
    ("family", ErrorGroup::Family),
    ("gpu", ErrorGroup::Gpu),
    ("regime", ErrorGroup::Regime),
];

/// Tables and the lines under them.
pub fn text(scores: &Scores, by: ErrorGroup, time: &Fitted, memory_fit: &FittedMemory, width: u16) -> String {
    let constants = &time.version;
    let mut out = format!("Step time or throughput by {}, error = predicted / measured - 1\n\n", word(by));
    out.push_str(&table(&scores.time(by), &scores.time_of_all(), by, width));
    let memory = table(&scores.memory(by), &scores.memory_of_all(), by, width);
    let _ = write!(out, "\nPeak memory of a GPU by {}\n\n{memory}", word(by));
    let _ = write!(out, "\n{}", summary(scores, width));
    let _ = write!(out, "\n{}", held_out(time, memory_fit, width));
    let _ = write!(out, "\n{}", bands(FittedBands::embedded(), width));
    let _ = write!(out, "\nOther estimators on the same runs, MAPE of step time\n\n{}", peer_table(scores, width));
    out.push_str(&wrap(&peer_note(), width, ""));
    out.push_str("\n\n");
    let note = format!(
        "Most constants ({constants}) were fitted on the earlier of these runs, a few on all (--by table tells them apart), and the other estimators on \
         none; a source never seen errs as the held-out tables and the bands say. MAPE: mean absolute error; median: of the absolute error; bias: median signed error; inside: runs that the 10 to 90 % band \
         holds."
    );
    out.push_str(&wrap(&note, width, ""));
    out.push('\n');
    out
}

/// Every held-out run with its error, one a row.
pub fn residuals(held: &[(&str, &[HeldOut])]) -> String {
    let mut out = "held_out_by,id,group,source,family,gpu,gpus,regime,error_percent\n".to_owned();
    for (by, run) in held.iter().flat_map(|(by, runs)| runs.iter().map(move |run| (by, run))) {
        let case = &run.run.run.case;
        let family = case.model.kind.map(|kind| format!("{kind:?}").to_lowercase()).unwrap_or_default();
        let (gpu, gpus) = (case.hardware.gpu.as_deref().unwrap_or_default(), case.hardware.gpus.unwrap_or(1));
        let error = run.log_error.exp_m1() * 100.0;
        let (id, group, source) = (&run.run.run.id, run.run.run.group(), &run.run.run.source);
        let _ = writeln!(out, "{by},{id},{group},{source},{family},{gpu},{gpus},{},{error:.2}", run.regime.word());
    }
    out
}

/// Errors of what the constants never saw: groups, GPU models of the families that are no decoders, and peaks by source.
pub fn held_out(time: &Fitted, memory: &FittedMemory, width: u16) -> String {
    let row = |one: &HeldOutError| vec![one.name.clone(), one.runs.to_string(), percent(one.mape_percent)];
    let table = |title: &'static str, rows: Vec<Vec<String>>| held_out_table(title, rows, width);
    let mut out = "Held out: constants fitted without the runs that they predict\n\n".to_owned();
    out += &table("group", time.held_out_groups.iter().map(row).collect());
    let _ = writeln!(out, "Macro   MAPE {} over groups of 8 runs and more\n", percent(time.held_out_macro_percent));
    out += &table("GPU, no decoders", time.held_out_gpus.iter().map(row).collect());
    let _ = writeln!(out, "All     MAPE {}\n", percent(time.held_out_gpu_percent));
    out += &generations(&time.held_out_generations, width);
    out.push('\n');
    out += &inference(&time.held_out_inference, width);
    out.push('\n');
    out += &self::memory(memory, width);
    out
}

/// Errors on generations of GPUs that the constants never saw, and their mean over runs and over generations.
pub fn generations(held: &[HeldOutError], width: u16) -> String {
    let row = |one: &HeldOutError| vec![one.name.clone(), one.runs.to_string(), percent(one.mape_percent)];
    let mut out = held_out_table("GPU generation", held.iter().map(row).collect(), width);
    let runs: usize = held.iter().map(|one| one.runs).sum();
    let sum: f64 = held.iter().map(|one| one.runs as f64 * one.mape_percent).sum();
    let of_runs = percent(sum / runs.max(1) as f64);
    let of_each = percent(held.iter().map(|one| one.mape_percent).sum::<f64>() / held.len().max(1) as f64);
    let _ = writeln!(out, "All     MAPE {of_runs}, {of_each} over generations");
    out
}

/// Errors of peaks of sources that the constants never saw.
pub fn memory(memory: &FittedMemory, width: u16) -> String {
    let row = |one: &HeldOutSource| vec![one.name.clone(), one.runs.to_string(), percent(one.mape_percent)];
    let mut out = held_out_table("peak memory, source", memory.held_out_sources.iter().map(row).collect(), width);
    let _ = writeln!(out, "All     MAPE {}", percent(memory.held_out_error_percent));
    out
}

/// Share of the runs of each source inside bands that never saw its code base, and what the bands are made of.
pub fn bands(bands: &FittedBands, width: u16) -> String {
    let table = |title, widths: &[HalfWidth]| {
        let columns = [Column::left(title, 0), Column::right("half-width", 0), Column::right("code bases", 0)];
        let row = |one: &HalfWidth| vec![one.name.clone(), format!("{:.3}", one.half_width), one.groups.to_string()];
        render(&columns, widths.iter().map(row), width)
    };
    let columns = [Column::left("band, source left out", 0), Column::right("runs", 0), Column::right("inside", 0)];
    let row = |one: &SourceCoverage| vec![one.name.clone(), one.runs.to_string(), whole(one.inside_percent)];
    let mut out = render(&columns, bands.sources.iter().map(row), width);
    let _ = writeln!(
        out,
        "All     {:.0} % of {} runs inside; high / low {:.2} for dense, known programs\n",
        bands.inside_percent, bands.runs, bands.median_high_over_low
    );
    out += &table("regime", &bands.regimes);
    out.push('\n');
    out += &table("doubt", &bands.doubts);
    let _ = writeln!(out, "Every half-width times {:.2} for a code base that nobody has seen", bands.new_source);
    out
}

/// Errors of inference on GPUs that no constant was fitted on, with the mean over runs of each kind.
pub fn inference(held: &[HeldOutInference], width: u16) -> String {
    let columns = [
        Column::left("inference", 0),
        Column::left("GPU", 0),
        Column::right("runs", 0),
        Column::right("MAPE", 0),
        Column::right("without its family", 0),
    ];
    let row = |what: &str, gpu: &str, runs: usize, gpu_only: f64, family: f64| {
        vec![what.to_owned(), gpu.to_owned(), runs.to_string(), percent(gpu_only), percent(family)]
    };
    let each = held.iter().map(|one| row(&one.what, &one.gpu, one.runs, one.mape_percent, one.family_mape_percent));
    let all = inference_means(held)
        .into_iter()
        .map(|(what, mean)| row(what, "all", mean.runs, mean.mape_percent, mean.family_mape_percent));
    render(&columns, each.chain(all), width)
}

/// Over all runs of each kind.
pub fn inference_means(held: &[HeldOutInference]) -> BTreeMap<&str, HeldOutInference> {
    let mut means: BTreeMap<&str, HeldOutInference> = BTreeMap::new();
    for one in held {
        let mean = means.entry(&one.what).or_insert_with(|| HeldOutInference {
            gpu: "all".to_owned(),
            runs: 0,
            mape_percent: 0.0,
            family_mape_percent: 0.0,
            ..one.clone()
        });
        let (before, own) = (mean.runs as f64, one.runs as f64);
        let joined = |mean: f64, one: f64| (before * mean + own * one) / (before + own);
        mean.mape_percent = joined(mean.mape_percent, one.mape_percent);
        mean.family_mape_percent = joined(mean.family_mape_percent, one.family_mape_percent);
        mean.runs += one.runs;
    }
    for mean in means.values_mut() {
        mean.mape_percent = (mean.mape_percent * 100.0).round() / 100.0;
        mean.family_mape_percent = (mean.family_mape_percent * 100.0).round() / 100.0;
    }
    means
}

/// Errors of one group under constants fitted without it.
pub fn errors_without(groups: &[GroupError], width: u16) -> String {
    let row = |one: &GroupError| vec![one.group.clone(), one.runs.to_string(), percent(one.mape_percent)];
    held_out_table("held out", groups.iter().map(row).collect(), width)
}

fn held_out_table(title: &'static str, rows: Vec<Vec<String>>, width: u16) -> String {
    render(&[Column::left(title, 0), Column::right("runs", 0), Column::right("MAPE", 0)], rows, width)
}

pub(crate) fn word(by: ErrorGroup) -> &'static str {
    GROUPINGS.iter().find(|(_, grouping)| *grouping == by).map_or("source", |(word, _)| word)
}

pub(crate) fn table(lines: &[GroupErrors], all: &GroupErrors, by: ErrorGroup, width: u16) -> String {
    let columns = [
        Column::left(word(by), 0),
        Column::right("runs", 0),
        Column::right("MAPE", 0),
        Column::right("median", 0),
        Column::right("bias", 0),
        Column::right("≤20 %", 0),
        Column::right("inside", 0),
    ];
    let row = |line: &GroupErrors| {
        let mut cells = vec![line.name.clone(), runs(line)];
        match line.errors {
            Some(errors) => cells.extend([
                percent(errors.mape_percent),
                percent(errors.median_percent),
                signed(errors.bias_percent),
                whole(errors.within_20_percent),
                whole(errors.in_band_percent),
            ]),
            None => cells.extend(vec!["-".to_owned(); 5]),
        }
        cells
    };
    render(&columns, lines.iter().chain([all]).map(row), width)
}

/// Answered of asked, in one number where that says it.
fn runs(line: &GroupErrors) -> String {
    if line.answered == line.cases { line.cases.to_string() } else { format!("{}/{}", line.answered, line.cases) }
}

fn percent(value: f64) -> String {
    format!("{value:.1} %")
}

fn signed(value: f64) -> String {
    format!("{value:+.1} %")
}

fn whole(value: f64) -> String {
    format!("{value:.0} %")
}

pub(crate) fn summary(scores: &Scores, width: u16) -> String {
    let mut lines = Vec::new();
    if let Some((macro_mape, groups)) = scores.macro_mape_percent() {
        lines.push(format!(
            "{:8}MAPE {} as the mean over {groups} code bases of 8 runs and more",
            "Macro",
            percent(macro_mape)
        ));
    }
    if let Some(width) = scores.median_high_over_low() {
        lines.push(format!("{:8}median high / low of the step time {width:.2}", "Bands"));
    }
    let fits = scores.fits;
    lines.push(format!(
        "{:8}false fit {} of {}, false out of memory {} of {}",
        "Fits", fits.false_fit, fits.out_of_memory_facts, fits.false_out_of_memory, fits.fits_facts
    ));
    if let Some(regret) = scores.regret {
        lines.push(format!(
            "{:8}mean {}, worst {} of time lost by the layout predicted fastest ({} sweeps)",
            "Regret",
            percent(regret.mean_percent),
            percent(regret.worst_percent),
            regret.groups
        ));
    }
    lines.iter().map(|line| wrap(line, width, "        ") + "\n").collect()
}

/// gpuplan on the runs that the peers were asked for, by source and over all.
pub(crate) fn against_peers(scores: &Scores) -> Vec<(GroupErrors, peers::PeerErrors)> {
    let one = |peer: &peers::PeerErrors| {
        (scores.time_where(peer.source, |run| peers::asked(run) && run.source == peer.source), *peer)
    };
    let mut rows: Vec<_> = peers::BY_SOURCE.iter().map(one).collect();
    rows.push((scores.time_where("all", peers::asked), peers::ALL));
    rows
}

fn peer_table(scores: &Scores, width: u16) -> String {
    let columns = [
        Column::left("source", 0),
        Column::right("runs", 0),
        Column::right("gpuplan", 0),
        Column::right("constant 50 %", 0),
        Column::right("llm-analysis", 0),
        Column::right("calculon", 0),
    ];
    let row = |(line, peer): (GroupErrors, peers::PeerErrors)| {
        vec![
            line.name.clone(),
            runs(&line),
            line.errors.map_or("-".to_owned(), |errors| percent(errors.mape_percent)),
            percent(peer.constant_hfu_50_mape_percent),
            percent(peer.llm_analysis_mape_percent),
            peer.calculon_mape_percent
                .map_or("-".to_owned(), |mape| format!("{} ({})", percent(mape), peer.calculon_runs)),
        ]
    };
    render(&columns, against_peers(scores).into_iter().map(row), width)
}

fn peer_note() -> String {
    let (constant, calculon) = (peers::CONSTANT_AND_LLM_ANALYSIS_REGRET, peers::CALCULON_REGRET);
    format!(
        "Decoder pre-training in 16 bit on A100 and H100. constant 50 %: operations with recompute at half of the peak. llm-analysis 0.2.2 \
         (github.com/cli99/llm-analysis): flops_efficiency 0.5 as its README suggests. calculon caa4b11 (github.com/calculon-ai/calculon): \
         its own A100 and H100 systems, on the runs (in brackets) that it can express; korthikanti22 is its own validation set. Their regret, mean and worst: \
         constant and llm-analysis {:.1} % and {:.0} %, calculon {:.1} % and {:.0} %.",
        constant.0, constant.1, calculon.0, calculon.1
    )
}

/// The two tables of one grouping.
pub fn csv(scores: &Scores, by: ErrorGroup) -> String {
    let mut out = format!(
        "what,{},cases,answered,mape_percent,median_percent,bias_percent,within_20_percent,in_band_percent\n",
        word(by)
    );
    for (what, lines) in [("time", scores.time(by)), ("memory", scores.memory(by))] {
        for line in lines {
            let _ = write!(out, "{what},{},{},{}", line.name, line.cases, line.answered);
            match line.errors {
                Some(e) => {
                    let _ = write!(
                        out,
                        ",{},{},{},{},{}",
                        e.mape_percent, e.median_percent, e.bias_percent, e.within_20_percent, e.in_band_percent
                    );
                }
                None => out.push_str(",,,,,"),
            }
            out.push('\n');
        }
    }
    out
}
