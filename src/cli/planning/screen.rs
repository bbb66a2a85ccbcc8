//! What `plan` shows of an answer: one screen, and everything behind it where that is asked for.

use crate::planning::arguments::PlanArguments;
use crate::question::answer::Answered;
use crate::session::Session;
use crate::session::question::question;
use gpuplan_plan::document::Context;
use gpuplan_plan::{Plan, Warning};
use gpuplan_report::plan::brief::{self, Screen};
use gpuplan_report::plan::plan_text;

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
    let launch = launch_command(answered, best, session).filter(|_| arguments.from.is_none());
    let screen =
        Screen { headline: headline.as_deref(), launch: launch.as_deref(), width: session.width, style: session.style };
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
