//! Which phase comes when: months of their own, or those after what they wait for. Circles and overlaps are refused.

use crate::portfolio::calendar::Month;
use crate::portfolio::{Phase, PortfolioError};
use gpuplan_units::names::did_you_mean;

/// A phase before its months are known.
pub struct Draft {
    pub phase: Phase,
    /// As stated, with its line.
    pub start: Option<(Month, usize)>,
    /// What must have ended, each with its line: a phase of the same run, `run/phase` or a run.
    pub after: Vec<(String, usize)>,
}

/// How far a phase is on the way to its months.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Unknown,
    Asked,
    Known,
}

/// Every phase in its months, in the order of the file.
pub fn order(drafts: Vec<Draft>, first: Month, months: u32) -> Result<Vec<Phase>, PortfolioError> {
    let mut before = Vec::with_capacity(drafts.len());
    for draft in &drafts {
        let mut found = Vec::new();
        for (name, line) in &draft.after {
            found.extend(named(&drafts, draft, name, *line)?.into_iter().map(|index| (index, *line)));
        }
        before.push(found);
    }
    let mut order =
        Order { places: vec![Place::Unknown; drafts.len()], drafts, before, first, end: first.ahead(months) };
    for index in 0..order.drafts.len() {
        order.place(index)?;
    }
    Ok(order.drafts.into_iter().map(|draft| draft.phase).collect())
}

/// The phases that a name means.
fn named(drafts: &[Draft], of: &Draft, name: &str, line: usize) -> Result<Vec<usize>, PortfolioError> {
    let all = |matches: &dyn Fn(&Phase) -> bool| -> Vec<usize> {
        drafts.iter().enumerate().filter(|(_, draft)| matches(&draft.phase)).map(|(index, _)| index).collect()
    };
    let beside = all(&|phase| phase.run == of.phase.run && phase.name == name);
    let path = all(&|phase| phase.path() == name);
    let run = all(&|phase| phase.run == name);
    if let Some(found) = [beside, path, run].into_iter().find(|found| !found.is_empty()) {
        return Ok(found);
    }
    let known: Vec<String> = drafts.iter().map(|draft| draft.phase.path()).collect();
    let near = did_you_mean(name, known.iter().map(String::as_str));
    let hint = format!("after = [\"{}\"]", near.or(known.first().map(String::as_str)).unwrap_or_default());
    Err(PortfolioError::at(line, format!("no run or phase is called `{name}`"), hint))
}

struct Order {
    drafts: Vec<Draft>,
    /// What each waits for, with the line that says so.
    before: Vec<Vec<(usize, usize)>>,
    places: Vec<Place>,
    first: Month,
    /// The month after the last one.
    end: Month,
}

impl Order {
    fn place(&mut self, index: usize) -> Result<Month, PortfolioError> {
        let path = self.drafts[index].phase.path();
        match self.places[index] {
            Place::Known => return Ok(self.end_of(index)),
            Place::Asked => {
                let line = self.before[index].first().map_or(self.drafts[index].phase.line, |(_, line)| *line);
                let detail = format!("the phases are circular: `{path}` waits for itself");
                return Err(PortfolioError::at(line, detail, "take one `after` of the circle out"));
            }
            Place::Unknown => self.places[index] = Place::Asked,
        }
        let mut free = self.first;
        let stated = self.drafts[index].start;
        for (other, _) in self.before[index].clone() {
            let end = self.place(other)?;
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
        self.places[index] = Place::Known;
        Ok(end)
    }

    fn end_of(&self, index: usize) -> Month {
        let phase = &self.drafts[index].phase;
        phase.start.ahead(phase.months)
    }
}
