//! What `plan` shows of an answer: one screen, and everything behind it where that is asked for.

use crate::planning::arguments::PlanArguments;
use crate::question::answer::Answered;
use crate::session::Session;
use crate::session::question::question;
use gpuplan_plan::document::Context;
use gpuplan_plan::{Plan, Warning};
use gpuplan_report::plan::brief::{self, Screen};
use gpuplan_report::plan::plan_text;
use gpuplan_workload::ServingEngine;

/// Where one in ten such prices has risen by more since it was seen, amounts are a rough guide. Judged.
const ROUGH_RISE: f64 = 0.1;

/// The first screen, and everything behind it where that is asked for.
pub fn shown(
    answered: &Answered,
    best: &Plan,
    context: &Context,
    arguments: &PlanArguments,
    session: &Session,
) -> String {
    let offer = answered.catalogs.market.offer(best.offer);
    // A list price that hardly ever moves is no rough guide, however long ago it was seen.
    let can_have_moved = answered
        .set
        .warnings
        .iter()
        .any(|warning| matches!(warning, Warning::OldPrice { p90_change, .. } if *p90_change > ROUGH_RISE));
    let headline = session.very_old_price(offer.quote.observed_at).filter(|_| offer.owned.is_none() && can_have_moved);
    let start = launch_command(answered, best, session).or_else(|| serve_command(answered));
    let start = start.filter(|_| arguments.from.is_none());
    let screen =
        Screen { headline: headline.as_deref(), start: start.as_deref(), width: session.width, style: session.style };
    let mut text = brief::text(&answered.set, context, &screen);
    if arguments.details {
        text.push('\n');
        text.push_str(&plan_text::text(&answered.set, context, None, session.width, arguments.max_results));
    }
    text
}

/// The same question to `launch`; `None` where nothing can be launched.
fn launch_command(answered: &Answered, best: &Plan, session: &Session) -> Option<String> {
    let offer = answered.catalogs.market.offer(best.offer);
    let cloud = answered.catalogs.hardware.instance(best.instance).cloud.as_str();
    if answered.resolved.workload.is_service() || !gpuplan_clouds::LAUNCHERS.contains(&cloud) {
        return None;
    }
    let question = question(std::env::args(), "plan");
    let is_old = offer.is_stale(session.now) && offer.owned.is_none() && !question.contains("--live");
    let live = if is_old { " --live" } else { "" };
    Some(format!("gpuplan launch {question}{live} -- COMMAND"))
}

/// The same question to `export`, which writes what starts the engine; `None` where no target starts such a service.
fn serve_command(answered: &Answered) -> Option<String> {
    let workload = &answered.resolved.workload;
    let serving = workload.serving.filter(|serving| serving.images.is_none() && serving.disaggregation.is_none())?;
    let target = match serving.engine {
        ServingEngine::Vllm => "vllm",
        ServingEngine::Sglang => "sglang",
        ServingEngine::TensorRtLlm | ServingEngine::PyTorch | ServingEngine::FasterWhisper => return None,
    };
    workload.is_service().then(|| format!("gpuplan export {} --to {target}", question(std::env::args(), "plan")))
}
