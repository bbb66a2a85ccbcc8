//! Which phase comes when: in the months that it states, or in those after what it waits for. Circles and overlaps are refused.

use crate::portfolio::calendar::Month;
use crate::portfolio::{Phase, PortfolioError};
use gpuplan_units::names::did_you_mean;

/// A phase before its months are known.
pub struct DraftPhase {
    pub phase: Phase,
    /// As stated, with its line.
    pub start: Option<(Month, usize)>,
    /// What must have ended, each with its line: a phase of the same run, `run/phase` or a run.
    pub after: Vec<(String, usize)>,
}

/// How far a phase is on the way to its months.
#[derive(Clone, Copy, PartialEq)]
enum Progress {
    Unvisited,
    /// What it waits for is being scheduled.
    Visiting,
    Scheduled,
}

/// Every phase in its months, in the order of the file.
pub fn schedule(drafts: Vec<DraftPhase>, first: Month, months: u32) -> Result<Vec<Phase>, PortfolioError> {
    let mut before = Vec::with_capacity(drafts.len());
    for draft in &drafts {
        let mut found = Vec::new();
        for (name, line) in &draft.after {
            found.extend(phases_named(&drafts, draft, name, *line)?.into_iter().map(|index| (index, *line)));
        }
        before.push(found);
    }
    let progress = vec![Progress::Unvisited; drafts.len()];
    let mut schedule = Schedule { progress, drafts, before, first, end: first.ahead(months) };
    for index in 0..schedule.drafts.len() {
        schedule.visit(index)?;
    }
    Ok(schedule.drafts.into_iter().map(|draft| draft.phase).collect())
}

/// The phases that a name means.
fn phases_named(
    drafts: &[DraftPhase],
    waiting: &DraftPhase,
    name: &str,
    line: usize,
) -> Result<Vec<usize>, PortfolioError> {
    let all = |matches: &dyn Fn(&Phase) -> bool| -> Vec<usize> {
        drafts.iter().enumerate().filter(|(_, draft)| matches(&draft.phase)).map(|(index, _)| index).collect()
    };
    let in_same_run = all(&|phase| phase.run == waiting.phase.run && phase.name == name);
    let path = all(&|phase| phase.path() == name);
    let run = all(&|phase| phase.run == name);
    if let Some(found) = [in_same_run, path, run].into_iter().find(|found| !found.is_empty()) {
        return Ok(found);
    }
    let known: Vec<String> = drafts.iter().map(|draft| draft.phase.path()).collect();
    let near = did_you_mean(name, known.iter().map(String::as_str));
    let hint = format!("after = [\"{}\"]", near.or(known.first().map(String::as_str)).unwrap_or_default());
    Err(PortfolioError::at(line, format!("no run or phase is called `{name}`"), hint))
}

struct Schedule {
    drafts: Vec<DraftPhase>,
    /// What each waits for, with the line that says so.
    before: Vec<Vec<(usize, usize)>>,
    progress: Vec<Progress>,
    first: Month,
    /// The month after the last one.
    end: Month,
}

impl Schedule {
    /// The month after the last one of a phase.
    fn visit(&mut self, index: usize) -> Result<Month, PortfolioError> {
        let path = self.drafts[index].phase.path();
        match self.progress[index] {
            Progress::Scheduled => return Ok(self.end_of(index)),
            Progress::Visiting => {
                let line = self.before[index].first().map_or(self.drafts[index].phase.line, |(_, line)| *line);
                let detail = format!("the phases are circular: `{path}` waits for itself");
                return Err(PortfolioError::at(line, detail, "take one `after` of the circle out"));
            }
            Progress::Unvisited => self.progress[index] = Progress::Visiting,
        }
        let mut free = self.first;
        let stated = self.drafts[index].start;
        for (other, _) in self.before[index].clone() {
            let end = self.visit(other)?;
            if let Some((start, line)) = stated.filter(|(start, _)| *start < end) {
                let detail = format!(
                    "the months overlap: `{path}` begins in {start}, and `{}`, which it is after, lasts until {}",
                    self.drafts[other].phase.path(),
                    end.back()
                );
                return Err(PortfolioError::at(line, detail, format!("start = \"{end}\"")));
            }
            free = free.max(end);
        }
        let phase = &mut self.drafts[index].phase;
        phase.start = stated.map_or(free, |(start, _)| start);
        let end = phase.start.ahead(phase.months);
        if phase.start < self.first || end > self.end {
            let line = stated.map_or(phase.line, |(_, line)| line);
            let detail = format!(
                "`{path}` takes {} to {}, outside {} to {} of the portfolio",
                phase.start,
                end.back(),
                self.first,
                self.end.back()
            );
            return Err(PortfolioError::at(
                line,
                detail,
                "set `start` and `months` of the portfolio so that every phase lies within",
            ));
        }
        self.progress[index] = Progress::Scheduled;
        Ok(end)
    }

    fn end_of(&self, index: usize) -> Month {
        let phase = &self.drafts[index].phase;
        phase.start.ahead(phase.months)
    }
}
