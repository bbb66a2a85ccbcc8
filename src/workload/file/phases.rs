//! `Phase`: one part of a workload that runs on machines of its own, after the one before it.

use crate::file::scalar::{bytes, conflict, invalid, missing, shown};
use crate::file::{PhaseSection, WorkloadFile, WorkloadFileError};
use gpuplan_units::Bytes;

/// More phases than this are a portfolio (`gpuplan budget`).
const MOST_PHASES: usize = 50;

/// A phase as a workload of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    pub name: String,
    pub file: WorkloadFile,
    /// What the next phase reads of this one; `None`: nothing, or nobody said how much.
    pub hands_over: Option<Bytes>,
}

impl WorkloadFile {
    /// In the order of the file. A phase that hands data over is the next one's data, unless that names its own.
    pub fn phases(&self) -> Result<Vec<Phase>, WorkloadFileError> {
        if self.phase.len() > MOST_PHASES {
            return Err(invalid(
                "phase",
                format!("{} phases are more than {MOST_PHASES}; make them runs of a portfolio", self.phase.len()),
            ));
        }
        if self.processing.is_some() && !self.phase.is_empty() {
            return Err(conflict("[processing]", "[[phase]]"));
        }
        let mut phases: Vec<Phase> = Vec::new();
        for (number, section) in (1..).zip(&self.phase) {
            let name = section.name.trim().to_owned();
            let key = format!("phase {number}: name");
            if name.is_empty() {
                return Err(missing(&key, "give each phase a name, such as `train`"));
            }
            if phases.iter().any(|earlier| earlier.name == name) {
                return Err(invalid(&key, format!("`{}` is the name of an earlier phase", shown(&name))));
            }
            let hands_over = section
                .hands_over
                .as_deref()
                .map(|text| bytes(&format!("phase {number}: hands_over"), text))
                .transpose()?;
            if hands_over.is_some() && number == self.phase.len() {
                return Err(invalid(&format!("phase {number}: hands_over"), "no phase comes after this one"));
            }
            let mut file = self.under(section);
            file.name = Some(format!("{} / {name}", self.name.as_deref().unwrap_or("workload")));
            if let Some(handed) = phases.last().and_then(|before| before.hands_over).filter(|_| file.serving.is_empty())
            {
                if section.data.size.is_some() {
                    return Err(conflict(
                        &format!("phase {number}: data.size"),
                        &format!("phase {}: hands_over", number - 1),
                    ));
                }
                file.data.size = Some(format!("{}B", handed.0));
                file.data.place.clone_from(&section.data.place);
            }
            // Those above the phases are for all of them together.
            file.limits.deadline.clone_from(&section.limits.deadline);
            file.limits.budget.clone_from(&section.limits.budget);
            phases.push(Phase { name, file, hands_over });
        }
        Ok(phases)
    }

    /// The one of that name.
    pub fn phase(&self, name: &str) -> Result<Phase, WorkloadFileError> {
        let phases = self.phases()?;
        let names: Vec<String> = phases.iter().map(|phase| phase.name.clone()).collect();
        phases.into_iter().find(|phase| phase.name == name).ok_or_else(|| match names.as_slice() {
            [] => invalid("--phase", "this workload has no phases"),
            names => {
                invalid("--phase", format!("`{}` is not a phase; choose one of {}", shown(name), names.join(", ")))
            }
        })
    }

    /// What stands above the phases, as far as it is for such a phase, and the phase laid over it.
    fn under(&self, section: &PhaseSection) -> Self {
        let mut above = self.alone();
        if !section.serving.is_empty() {
            // What is trained above the phases is not what serves.
            (above.training, above.data, above.sweep) = Default::default();
        }
        if section.processing.is_some() {
            (above.model, above.training, above.serving, above.sweep, above.checkpoint) = Default::default();
        }
        let mut file = above.overlay(section.clone().into());
        if let Some(processing) = file.processing.as_mut().filter(|processing| processing.writes.is_none()) {
            processing.writes.clone_from(&section.hands_over);
        }
        file
    }

    /// What stands above the phases and holds for all.
    fn alone(&self) -> Self {
        Self { phase: Vec::new(), ..self.clone() }
    }
}

impl PhaseSection {
    /// Whether this phase has a value of its own for a key such as `training.task`, which nothing above it changes.
    pub fn states(&self, key: &str) -> bool {
        let own = serde_json::to_value(self).unwrap_or_default();
        own.pointer(&format!("/{}", key.replace('.', "/"))).is_some_and(|value| !value.is_null())
    }
}

impl From<PhaseSection> for WorkloadFile {
    fn from(section: PhaseSection) -> Self {
        let PhaseSection { model, training, serving, processing, data, checkpoint, sweep, limits, .. } = section;
        Self { model, training, serving, processing, data, checkpoint, sweep, limits, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::ModelSection;

    const TWO: &str = r#"
name = "assistant"
[model]
preset = "llama-3.1-8b"
[limits]
clouds = ["aws"]
budget = 5000
deadline = "9d"
[[phase]]
name = "explore"
hands_over = "2TB"
[phase.training]
task = "lora"
tokens = "1B"
[[phase]]
name = "train"
[phase.training]
task = "pretrain"
tokens = "20B"
[phase.limits]
clouds = ["gcp"]
"#;

    #[test]
    fn a_phase_says_what_is_different_and_reads_what_the_one_before_gives() {
        let file = WorkloadFile::parse(TWO).unwrap();
        let phases = file.phases().unwrap();
        let shown =
            |phase: &Phase| (phase.name.clone(), phase.file.training.task.clone(), phase.file.limits.clouds.clone());
        let text = |text: &str| text.to_owned();
        assert_eq!(shown(&phases[0]), (text("explore"), Some(text("lora")), vec![text("aws")]));
        assert_eq!(shown(&phases[1]), (text("train"), Some(text("pretrain")), vec![text("gcp")]));
        assert_eq!(
            (&phases[0].file.data.size, &phases[0].file.limits.budget, &phases[0].file.limits.deadline),
            (&None, &None, &None)
        );
        assert_eq!(phases[1].file.data.size.as_deref(), Some("2000000000000B"));
        assert_eq!(phases[1].file.model.preset.as_deref(), Some("llama-3.1-8b"));
        assert_eq!(phases[1].file.name.as_deref(), Some("assistant / train"));
        assert!(phases.iter().all(|phase| phase.file.phase.is_empty()));
        assert_eq!(file.phase("train").unwrap(), phases[1]);
        assert!(file.phase("x").unwrap_err().to_string().contains("choose one of explore, train"));
        let written = toml::to_string(&file).unwrap();
        assert_eq!(WorkloadFile::parse(&written).unwrap(), file, "{written}");
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_number() {
        let refused = |from: &str, to: &str| {
            WorkloadFile::parse(&TWO.replace(from, to)).unwrap().phases().unwrap_err().to_string()
        };
        assert!(refused("name = \"train\"", "").contains("phase 2: name"));
        assert!(refused("\"train\"", "\"explore\"").contains("name of an earlier phase"));
        assert!(refused("name = \"train\"", "name = \"train\"\nhands_over = \"1GB\"").contains("no phase comes after"));
        assert!(
            refused("[phase.limits]", "[phase.data]\nsize = \"1GB\"\n[phase.limits]").contains("exclude each other")
        );
        assert!(refused("2TB", "two").contains("phase 1: hands_over"));
        assert!(refused("[limits]", "[processing]\nsamples = 1\n[limits]").contains("[[phase]]"));
    }

    #[test]
    fn a_phase_for_processors_takes_nothing_of_the_model_and_writes_what_it_hands_over() {
        let text =
            TWO.replace("[phase.training]\ntask = \"lora\"\ntokens = \"1B\"", "[phase.processing]\nsamples = 10");
        let phases = WorkloadFile::parse(&text).unwrap().phases().unwrap();
        let file = &phases[0].file;
        assert_eq!(
            (&file.model, file.processing.as_ref().and_then(|work| work.writes.as_deref())),
            (&ModelSection::default(), Some("2TB"))
        );
        assert!(phases[1].file.processing.is_none() && phases[1].file.model.preset.is_some());
    }
}
