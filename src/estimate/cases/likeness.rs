//! `Likeness`: what of a run says how like another it is.

use crate::cases::case::Prepared;
use crate::setting::Setting;
use gpuplan_hardware::{Architecture, Gpu};
use gpuplan_workload::{Layout, Model, ModelKind, Precision, Recompute, Task, Training};

/// One run as far as its error follows from what it is. Two of them have a distance (`accuracy::nearest`).
#[derive(Clone, Debug, PartialEq)]
pub struct Likeness {
    /// Id of the catalog.
    pub gpu: String,
    pub architecture: Architecture,
    pub framework: String,
    pub kind: ModelKind,
    pub task: Task,
    pub precision: Precision,
    pub parameters: f64,
    pub sequence: f64,
    pub layout: Layout,
}

impl Likeness {
    pub fn new(model: &Model, training: &Training, gpu: &Gpu, setting: &Setting) -> Self {
        Self {
            gpu: gpu.id.clone(),
            architecture: gpu.architecture,
            framework: training.framework.id().to_owned(),
            kind: model.kind,
            task: training.task,
            precision: training.precision,
            parameters: model.parameters,
            sequence: f64::from(training.sequence_length),
            layout: setting.layout,
        }
    }

    /// As far as a case states it: degrees that are left open count as data parallel.
    pub fn of_case(case: &Prepared) -> Self {
        let layout = case.request.layout.unwrap_or(Layout { data: case.request.gpus, ..Layout::default() });
        let setting = Setting { layout, micro_batch: 1, global_batch: 1.0, recompute: Recompute::None };
        Self::new(&case.model, &case.training, &case.gpu, &setting)
    }
}
