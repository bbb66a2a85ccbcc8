//! A plan of a served model for a person: what is asked, what it does, and tables by latency instead of hours.

use crate::text::format;
use crate::text::table::{Column, footer, render_folding};
use gpuplan_plan::document::{Context, ServingRecord, per_token_band};
use gpuplan_plan::{Plan, PlanSet, plan_id};
use gpuplan_units::{Bytes, Usd};
use gpuplan_workload::{Load, Serving, Workload};

/// One line that says what is to be served.
pub fn workload_line(workload: &Workload, serving: &Serving) -> String {
    let what = format!("{}: {}, weights {}", workload.name, format::model(&workload.model), serving.weights.word());
    match serving.load {
        Load::Steady { requests_per_second, hours } => {
            format!(
                "{what}, {} {} a second for {} hours",
                rate_figure(requests_per_second),
                lengths(workload, serving, requests_per_second),
                format::three_figures(hours.0)
            )
        }
        Load::Job { requests } => {
            let tokens = if serving.answer_tokens > 0 {
                format!(", {} tokens in all", format::count(serving.requests() * serving.tokens()))
            } else {
                String::new()
            };
            format!("{what}, {} {}{tokens}", format::count(requests), lengths(workload, serving, requests))
        }
    }
}

/// What so many of them are called.
fn lengths(workload: &Workload, serving: &Serving, count: f64) -> String {
    let plural = if count == 1.0 { "" } else { "s" };
    if workload.model.kind.counts_samples() {
        let made = serving.images.map_or(String::new(), |images| {
            let (guided, steps) = (if images.guidance { "guided " } else { "" }, images.steps);
            let many = if steps == 1 { "" } else { "s" };
            format!(" of {side} x {side} in {steps} {guided}step{many}", side = images.side)
        });
        format!("image{plural}{made}")
    } else if let Some(audio) = serving.audio {
        let written = match serving.answer_tokens {
            0 => String::new(),
            tokens => format!(", {tokens} tokens written"),
        };
        format!("request{plural} of {} s of sound{written}", format::three_figures(audio.seconds))
    } else if serving.answer_tokens == 0 {
        format!("request{plural} of {} tokens", serving.prompt_tokens)
    } else {
        format!("request{plural} of {} + {} tokens", serving.prompt_tokens, serving.answer_tokens)
    }
}

/// The rows of a recommendation that a training plan has others for.
pub fn rows(plan: &Plan, context: &Context) -> Vec<(&'static str, String)> {
    let (Some(json), Some(serving)) = (ServingRecord::new(plan, context), context.workload.serving) else {
        return Vec::new();
    };
    let detail = &json.serving;
    let each = detail.gpus_per_replica;
    let cards = if each == 1 { "one GPU".to_owned() } else { format!("{each} GPUs ({})", split(plan)) };
    let copies = if json.replicas == 1 { "1 replica".to_owned() } else { format!("{} replicas", json.replicas) };
    let mut rows =
        vec![("serve", format!("{copies} of {cards} each, at most {} {} at once", detail.batch_limit, unit(&serving)))];
    if let Some(prefill) = &detail.prefill {
        let (gpus, workers) = (prefill.gpus_per_worker, prefill.workers);
        rows.push((
            "prompts",
            format!(
                "{workers} {} of {gpus} GPU{} each, busy {:.0} % of the time; the cache is handed over in {}",
                if workers == 1 { "copy" } else { "copies" },
                if gpus == 1 { "" } else { "s" },
                prefill.load * 100.0,
                format::step_seconds(prefill.handover_seconds.0)
            ),
        ));
    }
    let sound = serving.audio.map_or(String::new(), |audio| {
        format!(" ({} hours of sound an hour)", format::three_figures(detail.requests_per_second * audio.seconds))
    });
    let rate = format!("{} {}{sound}", rate_figure(detail.requests_per_second), per_second(context.workload));
    let busy = detail.load * 100.0;
    rows.push(match serving.load {
        Load::Steady { .. } => (
            "load",
            format!(
                "{rate}, {busy:.0} % of the {} that they can do at most",
                format::three_figures(detail.most_requests_per_second)
            ),
        ),
        Load::Job { .. } => ("rate", rate),
    });
    rows.push(("latency", latency(plan, &serving)));
    rows.push(("memory", memory(plan, context, &serving)));
    rows.push(("money", money(&json, &serving)));
    if let Some(standby) = &detail.standby {
        let places: Vec<String> =
            standby.places.iter().map(|place| format!("{} in {}", place.nodes, place.place)).collect();
        let spare = if standby.spare_nodes == 0 {
            "none spare".to_owned()
        } else {
            format!("{} of them spare", standby.spare_nodes)
        };
        rows.push((
            "spot",
            format!(
                "{}; {spare}; on-demand ones stand in {:.0} % of the time, and for {:.1} % of it too few run",
                places.join(", "),
                standby.on_demand_share * 100.0,
                standby.too_few_replicas_share * 100.0
            ),
        ));
    }
    rows
}

fn per_second(workload: &Workload) -> &'static str {
    if workload.model.kind.counts_samples() { "images/s" } else { "requests/s" }
}

/// Three figures, and as many digits as a rare request needs.
fn rate_figure(rate: f64) -> String {
    if rate >= 0.01 { format::three_figures(rate) } else { format!("{rate:.1e}") }
}

/// What runs beside each other.
fn unit(serving: &Serving) -> &'static str {
    match (serving.images, serving.answer_tokens) {
        (Some(_), _) => "images",
        (None, 0) => "requests",
        _ if serving.audio.is_some() => "windows of sound",
        (None, _) => "sequences",
    }
}

/// With three digits after the point below a dollar, and five below a cent.
fn price(amount: Usd) -> String {
    match amount.dollars() {
        dollars if dollars < 0.01 => format!("${dollars:.5}"),
        dollars if dollars < 1.0 => format!("${dollars:.3}"),
        _ => format::usd(amount),
    }
}

fn split(plan: &Plan) -> String {
    let layout = plan.step.setting.layout;
    match (layout.tensor, layout.pipeline) {
        (tensor, 1) => format!("tensor parallel {tensor}"),
        (1, pipeline) => format!("{pipeline} pipeline stages"),
        (tensor, pipeline) => format!("tensor parallel {tensor}, {pipeline} pipeline stages"),
    }
}

fn latency(plan: &Plan, serving: &Serving) -> String {
    let Some(served) = plan.step.served else { return String::new() };
    let first = served.first_token;
    let each = if served.per_token > 0.0 {
        let target = serving
            .time_per_token
            .map_or(String::new(), |target| format!(" of {} asked", format::step_seconds(target.0)));
        let within = per_token_band(plan).map_or(String::new(), |band| {
            format!(" ({} to {})", format::step_seconds(band.low), format::step_seconds(band.high))
        });
        format!("; {} a token{within}{target}", format::step_seconds(served.per_token))
    } else {
        String::new()
    };
    if serving.is_job() {
        return format!("{} for a prompt alone{each}", format::step_seconds(served.prompt_seconds));
    }
    let target = serving
        .time_to_first_token
        .map_or(String::new(), |target| format!(" of {} asked", format::step_seconds(target.0)));
    let what = if served.per_token > 0.0 { "first token" } else { "answer" };
    format!(
        "{what} in {} at 50 %, {} at 90 %{target}{each}",
        format::step_seconds(first.p50),
        format::step_seconds(first.p90)
    )
}

fn memory(plan: &Plan, context: &Context, serving: &Serving) -> String {
    let memory = &plan.step.memory;
    let card = context.world.hardware.instance(plan.instance).node.gpu_memory;
    let cache = if serving.answer_tokens > 0 {
        let token = plan.step.served.map_or(0.0, |served| served.cache_bytes_per_token);
        format!(", {} of keys and values ({} a token)", Bytes(memory.cache), Bytes(token))
    } else {
        String::new()
    };
    format!("{} of {card} a GPU: {} of weights{cache}", Bytes(memory.required), Bytes(memory.weights))
}

fn money(json: &ServingRecord, serving: &Serving) -> String {
    let said = |amount: Option<Usd>| amount.map_or("-".to_owned(), price);
    if serving.audio.is_some() {
        return format!("{} an hour of sound", said(json.usd_per_audio_hour));
    }
    match (json.usd_per_million_images, serving.answer_tokens) {
        (Some(images), _) => format!("{} a million images", price(images)),
        (None, 0) => format!("{} a million tokens", said(json.usd_per_million_tokens)),
        (None, _) => format!(
            "{} a million tokens of prompts and answers, {} a million of answers alone",
            said(json.usd_per_million_tokens),
            said(json.usd_per_million_answer_tokens)
        ),
    }
}

/// Plans one a row; `*` marks the recommended one.
pub fn plans_table(title: &str, plans: &[Plan], set: &PlanSet, context: &Context, width: u16, most: usize) -> String {
    let is_job = context.workload.serving.is_some_and(|serving| serving.is_job());
    let hears = context.workload.serving.is_some_and(|serving| serving.audio.is_some());
    let columns = [
        Column::left("", 0),
        Column::left("GPUs", 0),
        Column::left("machines", 130),
        Column::left("where", 0),
        Column::left("terms", 0),
        Column::right("$/h", 100),
        Column::right("price seen", 150),
        Column::right("copies", 100),
        Column::right(if is_job { "batch" } else { "load" }, 120),
        if is_job { Column::right("hours", 0) } else { Column::right("first 90 %", 0) },
        Column::right("a token", 90),
        Column::right(if hears { "$ an hour of sound" } else { "$ a million" }, 100),
        Column::right("cost", 0),
        Column::right("90 %", 140),
    ];
    let best = set.recommendation.as_ref().map(|plan| plan_id(context.world, plan));
    let rows = plans.iter().take(most).filter_map(|plan| plan_row(plan, best.as_deref(), is_job, context));
    let table = render_folding(&columns, rows, width);
    format!("{title}\n{table}{}", footer(plans.len().min(most), plans.len(), "--max-results shows more"))
}

fn plan_row(plan: &Plan, best: Option<&str>, is_job: bool, context: &Context) -> Option<Vec<String>> {
    let json = ServingRecord::new(plan, context)?;
    let world = context.world;
    let offer = world.market.offer(plan.offer);
    let instance = world.hardware.instance(plan.instance);
    let gpu = world.hardware.gpu(instance.node.gpu);
    let mark = if best == Some(plan_id(world, plan).as_str()) { "*" } else { "" };
    let count = if instance.node.gpus.is_slice() { instance.node.gpus.to_string() } else { plan.gpus().to_string() };
    let detail = &json.serving;
    let each = if json.latency_seconds.per_token.p50 > 0.0 {
        format::step_seconds(json.latency_seconds.per_token.p50)
    } else {
        String::new()
    };
    Some(vec![
        mark.to_owned(),
        format!("{count} x {}", gpu.name),
        format!("{} x {}", plan.nodes, instance.name),
        format!("{} {}", instance.cloud, offer.place.zone_id.as_deref().unwrap_or(&offer.place.region)),
        plan.terms(offer.purchase).replace("spot-with-fallback", "spot+fallback"),
        format::usd(offer.quote.rate.times(plan.nodes)),
        format::seen(&offer.quote, context.now),
        json.replicas.to_string(),
        if is_job { detail.batch_limit.to_string() } else { format!("{:.0} %", detail.load * 100.0) },
        if is_job { plan.hours().to_string() } else { format::step_seconds(json.latency_seconds.ttft.p90) },
        each,
        json.usd_per_audio_hour
            .or(json.usd_per_million_tokens)
            .or(json.usd_per_million_images)
            .map_or(String::new(), price),
        format::usd(plan.cost.expected),
        format::usd(plan.cost.p90),
    ])
}
