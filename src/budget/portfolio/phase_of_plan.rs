//! What one phase of a recorded plan of several costs, with GPUs or without, and what data processing costs that is planned alone.

use crate::portfolio::planned::{Asked, OtherCloud, PhaseCost, PlannedError};
use crate::portfolio::unit_costs::Work;
use gpuplan_plan::document::{AnyDocument, ProcessingDocument, RecordedPlan, stated};

impl PhaseCost {
    /// Of the phase of this name.
    ///
    /// # Errors
    ///
    /// Where the document has no such phase or recommends nothing for it, or its bill does not add up.
    pub fn of_phase(document: &AnyDocument, name: &str) -> Result<Self, PlannedError> {
        let no_phase = || PlannedError::NoPhase(name.to_owned());
        let phases = document.phases().map(|all| all.phases.as_slice()).unwrap_or_default();
        let phase = phases.iter().find(|phase| phase.name == name).ok_or_else(no_phase)?;
        let file = document.workload_file()?.phase(name).map_err(|_| no_phase())?.file;
        let asked = Asked { work: Work::of_file(&file, None), file: stated(&file) };
        let elsewhere = phase.alternatives.iter().map(|plan| OtherCloud::from_plan(&plan.view())).collect();
        Ok(Self { elsewhere, ..Self::of_view(&phase.recommended()?.plan, asked)? })
    }

    /// Of data processing on machines without GPU.
    ///
    /// # Errors
    ///
    /// Where the document recommends nothing, or its bill does not add up.
    pub fn of_processing(document: &ProcessingDocument) -> Result<Self, PlannedError> {
        let asked = Asked { file: document.workload.file.clone(), work: Work::default() };
        let plan = document.plans.pick(None)?;
        let elsewhere = document.plans.on_other_clouds(plan);
        let elsewhere = elsewhere.into_iter().map(|plan| OtherCloud::from_plan(&plan.view())).collect();
        Ok(Self { elsewhere, ..Self::of_view(&plan.view(), asked)? })
    }
}
