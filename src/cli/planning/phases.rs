//! `plan` of a workload with phases: each on its own machines, near the data that the one before it leaves, and all of them together.

use rayon::prelude::*;

use crate::arguments::global::OutputFormat;
use crate::planning::arguments::PlanArguments;
use crate::planning::processing;
use crate::question::answer::{Answered, compute_as_far_as, context, gathered, settle_places};
use crate::question::fitting::refused;
use crate::question::measurements::Measurements;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::{Catalogs, Session};
use gpuplan_plan::document::{AnyDocument, PlanDocument, PlanRecord};
use gpuplan_plan::money::phases::{Taken, Total, shares};
use gpuplan_plan::{Breadth, Limits};
use gpuplan_report::plan::phases::{Answer, Whole, document, text};
use gpuplan_report::text::format;
use gpuplan_report::text::json::pretty;
use gpuplan_units::Hours;
use gpuplan_workload::file::{Phase, WorkloadFile};

pub fn run(
    file: &WorkloadFile,
    measured: &Measurements,
    arguments: &PlanArguments,
    session: &Session,
) -> Result<Exit, Diagnostic> {
    let gathered = gathered(&file.limits, &arguments.question.prices, session)?;
    let headline = session.warn_about_age(&gathered.0.market);
    let is_recorded = matches!(session.output, OutputFormat::Json);
    let (answers, question) = answers(file, measured, gathered, session, is_recorded)?;
    let whole = question.whole(file, &answers);
    match session.output {
        OutputFormat::Json => session.printer.data(&pretty(&recorded_whole(&whole)?))?,
        OutputFormat::Table => session.printer.data(&text(&whole, headline.as_deref(), session.width))?,
        OutputFormat::Csv => {
            return Err(Diagnostic::usage("plans of several phases cannot be printed as CSV")
                .hint(format!("--phase {}", answers[0].name)));
        }
    };
    question.within_budget(&whole.total)
}

/// The document of all phases, as `plan --output json` gives it, with nothing said of a budget that it exceeds.
pub fn recorded(
    file: &WorkloadFile,
    measured: &Measurements,
    gathered: (Catalogs, Limits),
    session: &Session,
) -> Result<AnyDocument, Diagnostic> {
    let (answers, question) = answers(file, measured, gathered, session, true)?;
    recorded_whole(&question.whole(file, &answers))
}

fn recorded_whole(whole: &Whole) -> Result<AnyDocument, Diagnostic> {
    document(whole).ok_or_else(|| Diagnostic::unexpected("phases were answered without documents"))
}

/// Each phase at its leisure; where all of them together are later than a deadline, each with its share of that.
fn answers<'a>(
    file: &WorkloadFile,
    measured: &'a Measurements,
    (catalogs, limits): (Catalogs, Limits),
    session: &'a Session,
    is_recorded: bool,
) -> Result<(Vec<Answer>, Question<'a>), Diagnostic> {
    let phases = file.phases()?;
    let question = Question { limits, measured, session, is_recorded };
    let answers = question.answers(&phases, &vec![None; phases.len()], &catalogs)?;
    // A service runs for its hours, whatever the deadline of what comes before it.
    let hours: Vec<f64> =
        answers.iter().map(|answer| if answer.is_service { 0.0 } else { answer.taken.hours.p90 }).collect();
    let Some(deadline) = question.limits.deadline.filter(|deadline| hours.iter().sum::<f64>() > deadline.0) else {
        return Ok((answers, question));
    };
    let shares: Vec<Option<Hours>> =
        shares(deadline, &hours).into_iter().map(|share| (share.0 > 0.0).then_some(share)).collect();
    let answers = question.answers(&phases, &shares, &catalogs)?;
    Ok((answers, question))
}

/// What is the same for all phases.
struct Question<'a> {
    /// Of the whole.
    limits: Limits,
    measured: &'a Measurements,
    session: &'a Session,
    /// Whether each phase is wanted as a document, with all that stands beside its recommended plan: a table shows nothing of it.
    is_recorded: bool,
}

impl Question<'_> {
    fn whole<'a>(&self, file: &'a WorkloadFile, answers: &'a [Answer]) -> Whole<'a> {
        let taken: Vec<Taken> = answers.iter().map(|answer| answer.taken).collect();
        let name = file.name.as_deref().unwrap_or("workload");
        Whole { name, file, answers, total: Total::sum(&taken), deadline: self.limits.deadline }
    }

    /// Each phase by its own limits; deadline and budget that stand above the phases are those of all together. Only what is handed over makes
    /// a phase wait for the one before it: the others are planned beside each other.
    fn answers(
        &self,
        phases: &[Phase],
        deadlines: &[Option<Hours>],
        catalogs: &Catalogs,
    ) -> Result<Vec<Answer>, Diagnostic> {
        let asked: Vec<(&Phase, Option<Hours>)> = phases.iter().zip(deadlines.iter().copied()).collect();
        let rows: Vec<&[(&Phase, Option<Hours>)]> =
            asked.chunk_by(|(before, _), _| before.hands_over.is_some()).collect();
        let answered: Vec<Result<Vec<Answer>, Diagnostic>> =
            rows.into_par_iter().map(|row| self.in_turn(row, catalogs.clone())).collect();
        // Of several that fail the first is told.
        let answers: Vec<Vec<Answer>> = answered.into_iter().collect::<Result<_, _>>()?;
        Ok(answers.into_iter().flatten().collect())
    }

    /// Phases of which each hands its data over to the next.
    fn in_turn(&self, row: &[(&Phase, Option<Hours>)], mut catalogs: Catalogs) -> Result<Vec<Answer>, Diagnostic> {
        let mut answers: Vec<Answer> = Vec::new();
        for (phase, deadline) in row {
            let mut file = phase.file.clone();
            if let Some(before) = answers.last().filter(|_| file.serving.is_empty()) {
                file.data.place.get_or_insert_with(|| before.place.clone());
            }
            let answer;
            (answer, catalogs) = self.answer(phase, &file, *deadline, catalogs)?;
            answers.push(answer);
        }
        Ok(answers)
    }

    fn answer(
        &self,
        phase: &Phase,
        file: &WorkloadFile,
        deadline: Option<Hours>,
        catalogs: Catalogs,
    ) -> Result<(Answer, Catalogs), Diagnostic> {
        let said = |mut diagnostic: Diagnostic| {
            diagnostic.message = format!("phase {}: {}", phase.name, diagnostic.message);
            diagnostic
        };
        let mut own = Limits::read(&file.limits, &catalogs.hardware, self.session.now)?;
        own.offers.accept_stale = self.limits.offers.accept_stale;
        settle_places(&mut own, &catalogs).map_err(said)?;
        own.launchable.clone_from(&self.limits.launchable);
        let limits = Limits {
            deadline: own.deadline.or(deadline),
            policy: self.limits.policy.clone(),
            seed: self.limits.seed,
            ..own
        };
        if file.processing.is_some() {
            let answer =
                processing::answer((phase, file), deadline, &limits, &catalogs, self.session, self.is_recorded);
            let answer = answer.map_err(said)?;
            return Ok((answer, catalogs));
        }
        let breadth = if self.is_recorded { Breadth::Everything } else { Breadth::Recommendation };
        let answered = compute_as_far_as(breadth, (catalogs, limits), file, self.measured, self.session);
        let answered = answered.map_err(said)?;
        let answer = self.read(phase, file, deadline, &answered).map_err(said)?;
        Ok((answer, answered.catalogs))
    }

    fn read(
        &self,
        phase: &Phase,
        file: &WorkloadFile,
        deadline: Option<Hours>,
        answered: &Answered,
    ) -> Result<Answer, Diagnostic> {
        let Some(plan) = &answered.set.recommendation else { return Err(refused(answered, file, self.session)) };
        let context = context(answered, file, self.session)?;
        let document = self.is_recorded.then(|| PlanDocument::new(&answered.set, &context));
        let shown = PlanRecord::new(plan, &context);
        let machines = shown.machines;
        let (hardware, clouds) = (&answered.catalogs.hardware, answered.limits.launchable.as_ref());
        let is_service = answered.resolved.workload.is_service();
        let gpu = hardware.gpu(hardware.instance(plan.instance).node.gpu);
        Ok(Answer {
            name: phase.name.clone(),
            hands_over: phase.hands_over,
            is_served: answered.resolved.workload.serving.is_some(),
            is_service,
            is_launched: !is_service
                && clouds.is_none_or(|clouds| clouds.iter().any(|cloud| cloud.as_str() == machines.cloud)),
            place: format!("{}/{}", machines.cloud, machines.region),
            machines: format!("{} x {}", machines.nodes, machines.instance_type),
            chips: format!("{} x {}", plan.gpus(), gpu.name),
            terms: machines.purchase.word(),
            rate: machines.rate_usd_per_hour,
            seen: format::age(shown.price.observed_at, self.session.now),
            valid_until: plan.valid_until(&answered.catalogs.market),
            deadline,
            taken: Taken { hours: plan.run.hours, cost: plan.cost },
            remark: None,
            document: document.map(|document| AnyDocument::Gpu(Box::new(document))),
        })
    }

    /// After the answer: a total that is likely to cost more than may be spent is no success.
    fn within_budget(&self, total: &Total) -> Result<Exit, Diagnostic> {
        match self.limits.budget.filter(|budget| total.cost_usd.p90 > *budget) {
            None => Ok(Exit::Done),
            Some(budget) => {
                let (p90, budget) = (format::usd(total.cost_usd.p90), format::usd(budget));
                Err(Diagnostic::new(
                    Exit::OverBudget,
                    format!("all phases together cost up to {p90} (90 %), above the budget of {budget}"),
                )
                .hint("give a phase less to do, or phases limits of their own: [phase.limits]"))
            }
        }
    }
}
