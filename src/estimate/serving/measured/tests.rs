//! Published runs of three engines against passes by measured kernels, beside the closed form and a roofline.
#![cfg(test)]

use std::collections::BTreeMap;

use crate::band::{Regime, time_band};
use crate::measurements::correction::Certainty;
use crate::serving::Replica;
use crate::serving::load::tests::{on_replica, resolved};
use crate::serving::load::{Flow, Users};
use crate::serving::round::doubts;
use gpuplan_workload::{Models, Workload};

/// Runs that were published with their layout (`benchmarks/serving/README.md`).
static PUBLISHED: &str = include_str!("../../../../benchmarks/serving/inferencex.csv");

/// Of one run.
#[derive(Clone, Copy)]
struct Run {
    /// Natural logarithms of predicted over measured tokens a second, time to first token and time a token; then of tokens a second
    /// by the closed form and by a roofline.
    errors: [f64; 5],
    /// The measured rate lies inside the band.
    is_inside: bool,
    /// Predicted time a token over what reading weights and cache takes at the bandwidth of the sheet.
    over_memory: f64,
}

const FIGURES: [&str; 5] = ["tokens/s", "first token", "per token", "tokens/s, closed form", "tokens/s, roofline"];

/// By model, GPU and engine.
type Runs = BTreeMap<[String; 3], Vec<Run>>;

fn compared(text: &str) -> Runs {
    let models = Models::embedded().unwrap();
    let mut known: BTreeMap<String, Workload> = BTreeMap::new();
    let mut runs = Runs::new();
    for row in csv::Reader::from_reader(text.as_bytes()).records().map(Result::unwrap) {
        let number = |index: usize| row[index].parse::<f64>().unwrap();
        let (gpus, groups) = (number(6) as u32, number(7) as u32);
        let serving = format!(
            "requests = 1000\nprompt_tokens = {}\nanswer_tokens = {}\nweights = \"{}\"\nkv_cache = \"{}\"\nengine = \"{}\"\n\
             tensor_parallel = {}\nattention_data_parallel = {groups}\nexpert_parallel = {}",
            &row[9],
            &row[10],
            &row[4],
            &row[5],
            &row[2],
            gpus / groups,
            &row[8] == "1"
        );
        let workload =
            known.entry(format!("{} {serving}", &row[0])).or_insert_with(|| resolved(&models, &serving, &row[0]));
        let answer = number(10);
        let users = Users {
            count: number(11),
            requests_each: number(15),
            equally_long: &row[14] == "0",
            held_passes: number(16),
        };
        let rate = |first: f64, each: f64| users.count * answer / (first + answer * each);
        let (first, each) = (number(12) / 1e3, number(13) / 1e3);
        let run = on_replica(&row[1], gpus, workload, |mut replica| {
            let flow = Flow::new(&replica).unwrap();
            let state = flow.closed_loop(&users);
            let bound = memory_seconds(&replica, state.batch.min(f64::from(flow.held.sequences)));
            let half = time_band(Regime::Compute, doubts(&replica), Certainty::default(), None).1;
            replica.measured = None;
            let closed = Flow::new(&replica).unwrap().closed_loop(&users);
            let of_state = |state: &crate::load::State| rate(state.first_token.expected, state.per_token);
            let ratios = [
                of_state(&state) / rate(first, each),
                state.first_token.expected / first,
                state.per_token / each,
                of_state(&closed) / rate(first, each),
                rate(0.0, bound) / rate(first, each),
            ];
            Run {
                errors: ratios.map(f64::ln),
                is_inside: ratios[0].ln().abs() <= half.ln(),
                over_memory: state.per_token / bound,
            }
        });
        runs.entry([0, 1, 2].map(|index| row[index].to_owned())).or_default().push(run);
    }
    runs
}

/// No pass over so many sequences is shorter: weights and cache that it meets are read once at the bandwidth of the sheet. All tokens may
/// choose the same experts, so that only those of one count.
fn memory_seconds(replica: &Replica, sequences: f64) -> f64 {
    let m = replica.model;
    let met = m.experts.map_or(1.0, |experts| {
        f64::from(experts.experts_per_token + experts.shared_experts)
            / f64::from(experts.experts + experts.shared_experts)
    });
    let layer = m.attention_parameters() + m.mlp_parameters() * met;
    let windows = m.deviations.window.map_or(1.0, |window| {
        let share = f64::from(window.layers) / f64::from(m.layers.max(1));
        1.0 - share * (1.0 - (f64::from(window.tokens) / replica.mean_context()).min(1.0))
    });
    let weights = layer * replica.serving.weights.bytes() / replica.gpus();
    let cache = sequences * replica.mean_context() * windows * replica.cache_bytes() / replica.groups();
    f64::from(m.layers) * (weights + cache) / replica.machine.gpu.memory_bandwidth().0 / replica.stages()
}

/// Mean error of a figure in per cent.
fn percent<'a>(runs: impl Iterator<Item = &'a Run>, figure: usize) -> f64 {
    let errors: Vec<f64> = runs.map(|run| (run.errors[figure].exp() - 1.0).abs()).collect();
    100.0 * errors.iter().sum::<f64>() / errors.len() as f64
}

fn median<'a>(runs: impl Iterator<Item = &'a Run>, figure: usize) -> f64 {
    let mut errors: Vec<f64> = runs.map(|run| (run.errors[figure].exp() - 1.0).abs()).collect();
    errors.sort_by(f64::total_cmp);
    100.0 * errors[errors.len() / 2]
}

fn report(runs: &Runs) {
    for (name, group) in runs {
        let figures: Vec<String> = (0..FIGURES.len()).map(|one| format!("{:.0}", percent(group.iter(), one))).collect();
        println!("{} {}: {}", name.join(" "), group.len(), figures.join(" "));
    }
    let all = || runs.values().flatten();
    for (figure, name) in FIGURES.into_iter().enumerate() {
        let pairs = runs.values().map(|group| percent(group.iter(), figure)).sum::<f64>() / runs.len() as f64;
        let (mean, median) = (percent(all(), figure), median(all(), figure));
        println!("{name}: mean {mean:.1} %, median {median:.1} %, mean of groups {pairs:.1} %");
    }
}

/// In sample: what is left when model and GPU are not in the fit is in `benchmarks/serving/README.md`.
#[test]
fn published_runs_are_met_and_no_answer_beats_the_memory() {
    let runs = compared(PUBLISHED);
    report(&runs);
    let all = || runs.values().flatten();
    let inside = 100.0 * all().filter(|run| run.is_inside).count() as f64 / all().count() as f64;
    let least = all().map(|run| run.over_memory).fold(f64::INFINITY, f64::min);
    println!("{inside:.0} % inside the band; {least:.2} times the memory's time at least");
    assert!(all().count() > 2000 && least >= 1.0, "{least}");
    for (figure, most) in [13.0, 26.0, 10.5].into_iter().enumerate() {
        assert!(percent(all(), figure) <= most, "{}: {:.1}", FIGURES[figure], percent(all(), figure));
    }
    assert!(percent(all(), 3) > percent(all(), 0) && percent(all(), 4) > percent(all(), 3));
}

#[test]
fn a_fixed_layout_changes_what_it_should() {
    let models = Models::embedded().unwrap();
    let state = |keys: &str, gpus: u32, users: f64| {
        let serving = format!("requests = 9\nprompt_tokens = 1024\nanswer_tokens = 1024\nweights = \"nvfp4\"\n{keys}");
        let workload = resolved(&models, &serving, "deepseek-v3");
        on_replica("b200-sxm-180", gpus, &workload, |replica| {
            assert!(replica.measured.is_some());
            (Flow::new(&replica).unwrap().closed_loop(&Users::steady(users)), replica.held())
        })
    };
    let shared = state("tensor_parallel = 8", 8, 512.0);
    let groups = state("tensor_parallel = 1\nattention_data_parallel = 8\nexpert_parallel = true", 8, 512.0);
    // Every group has all latents of its own sequences alone, so that more of them fit; alone in it nobody is faster.
    assert!(groups.1.sequences > 4 * shared.1.sequences && groups.1.weights > shared.1.weights);
    assert!(groups.0.requests_per_second > shared.0.requests_per_second);
    let drafted = state("tensor_parallel = 8\ndraft_tokens = 1\naccepted_tokens = 0.8", 8, 4.0).0;
    let plain = state("tensor_parallel = 8", 8, 4.0).0;
    let gain = plain.per_token / drafted.per_token;
    assert!((1.2..1.8).contains(&gain), "{gain}");
    assert!(state("tensor_parallel = 8", 8, 1.0).0.per_token < plain.per_token);
    // Requests of one length arrive together, as they do at the start; who does not fit waits; a scheduler that holds requests back is late.
    let workload = resolved(&models, "requests = 9\nprompt_tokens = 1024\nanswer_tokens = 1024", "llama-3.1-8b");
    on_replica("h100-sxm5-80", 1, &workload, |replica| {
        let flow = Flow::new(&replica).unwrap();
        let first = |users: Users| flow.closed_loop(&users).first_token.expected;
        let (steady, room) = (Users::steady(32.0), f64::from(flow.held.sequences));
        assert!(first(Users { equally_long: true, ..steady }) > first(steady));
        assert!(first(Users { requests_each: 1.0, ..steady }) > 2.0 * first(Users { requests_each: 10.0, ..steady }));
        assert!(first(Users { held_passes: 20.0, ..steady }) > 2.0 * first(steady));
        let (full, over) = (Users::steady(room), Users::steady(2.0 * room));
        let [all, twice] = [full, over].map(|users| flow.closed_loop(&users).requests_per_second);
        assert!((twice / all - 1.0).abs() < 1e-9 && first(over) > first(full) + 0.9 * room / all, "{all} {twice}");
    });
    // Kernels that nobody measured: the closed form answers.
    let workload =
        resolved(&models, "requests = 9\nprompt_tokens = 10\nanswer_tokens = 10\nweights = \"int8\"", "llama-3.1-8b");
    on_replica("h100-sxm5-80", 1, &workload, |replica| assert!(replica.measured_pass(8.0, 100.0).is_none()));
}

/// Prints the errors on runs of a file with the columns of `inferencex.csv`.
#[test]
#[ignore = "needs a file of runs"]
fn runs_of_a_file() {
    report(&compared(&std::fs::read_to_string(std::env::var("GPUPLAN_SERVING_RUNS").unwrap()).unwrap()));
}
