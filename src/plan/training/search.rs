//! The fastest setting of a training run on some machines: every layout that is worth a look, before any price.

use crate::training::layouts;
use gpuplan_estimate::{Infeasible, Products, Setting, StepEstimate, Subject};
use gpuplan_import::{StatedLayout, VirtualStages};
use gpuplan_units::Bytes;
use gpuplan_workload::{Layout, Recompute};

/// The fastest setting on `nodes` machines, and how many settings were looked at.
pub fn best_setting(subject: &Subject, global_batch: u64, nodes: u32) -> (Result<StepEstimate, Infeasible>, u64) {
    best_stated(subject, global_batch, nodes, &StatedLayout::default())
}

/// The same among the layouts that have what is stated of them.
pub fn best_stated(
    subject: &Subject,
    global_batch: u64,
    nodes: u32,
    stated: &StatedLayout,
) -> (Result<StepEstimate, Infeasible>, u64) {
    let machine = &subject.machine;
    if nodes > 1 && machine.card_share < 1.0 {
        return (
            Err(Infeasible::Unsupported { detail: "slices of a card have no link to other machines".to_owned() }),
            0,
        );
    }
    if let Err(misfit) = subject.has_units() {
        return (Err(misfit), 0);
    }
    let gpus = machine.gpus_per_node * nodes;
    let mut search = Search {
        subject,
        global_batch,
        products: Products::default(),
        best: None,
        least_memory: f64::INFINITY,
        estimated: 0,
        unsupported: None,
        virtual_stages: stated.virtual_stages,
    };
    let all = layouts::layouts((subject.model, subject.training), machine, gpus, global_batch, stated);
    let is_usual = |layout: &Layout| stated.shard.is_some() || layouts::is_usual(layout, subject.training);
    let (usual, others): (Vec<Layout>, Vec<Layout>) = all.into_iter().partition(is_usual);
    for layout in &usual {
        search.try_layout(layout);
    }
    if search.best.is_none() {
        for layout in &others {
            search.try_layout(layout);
        }
    }
    let outcome = match (search.best, search.unsupported) {
        (Some(best), _) => Ok(best),
        (None, Some(misfit)) => Err(misfit),
        (None, None) if search.least_memory.is_finite() => {
            Err(Infeasible::NeedsMemory { need: Bytes(search.least_memory), have: machine.memory })
        }
        (None, None) => Err(Infeasible::Indivisible { what: "the batch or the model", by: gpus }),
    };
    (outcome, search.estimated)
}

/// Micro batches of a layout without a pipeline that are timed with recomputed activations. Judged.
const MOST_RECOMPUTING: u32 = 3;

struct Search<'a> {
    subject: &'a Subject<'a>,
    global_batch: u64,
    products: Products,
    best: Option<StepEstimate>,
    least_memory: f64,
    estimated: u64,
    unsupported: Option<Infeasible>,
    virtual_stages: Option<VirtualStages>,
}

impl Search<'_> {
    /// Micro batches from the largest down: recomputing is tried only where keeping activations does not fit, and of one stage with the three largest alone,
    /// since smaller ones only add launches. Until one fits that keeps them, which saves one of four passes.
    fn try_layout(&mut self, layout: &Layout) {
        let training = self.subject.training;
        let adds_launches = layout.pipeline == 1 && training.micro_batch.is_none();
        let mut tried = 0;
        for micro_batch in layouts::micro_batches(self.global_batch, layout, training.micro_batch) {
            let steps = self.global_batch / (u64::from(layout.data) * u64::from(micro_batch));
            let mut fitted = None;
            for recompute in layouts::recomputes(training, self.subject.model) {
                if recompute == Recompute::Full && adds_launches && tried >= MOST_RECOMPUTING {
                    continue;
                }
                let setting =
                    Setting { layout: *layout, micro_batch, global_batch: self.global_batch as f64, recompute };
                if self.fits(&setting) {
                    fitted = Some(recompute);
                    break;
                }
            }
            let Some(recompute) = fitted else { continue };
            let mut really = false;
            for virtual_pipeline in layouts::interleaves(self.subject.model, layout, steps, self.virtual_stages) {
                let layout = Layout { virtual_pipeline, ..*layout };
                really |=
                    self.time(&Setting { layout, micro_batch, global_batch: self.global_batch as f64, recompute });
            }
            if !really {
                continue;
            }
            tried += 1;
            if adds_launches && recompute != Recompute::Full {
                break;
            }
        }
    }

    fn fits(&mut self, setting: &Setting) -> bool {
        self.estimated += 1;
        let memory = self.subject.memory(setting);
        self.least_memory = self.least_memory.min(memory.needed);
        memory.fits(&self.subject.machine)
    }

    /// Whether the setting fits after all.
    fn time(&mut self, setting: &Setting) -> bool {
        match self.subject.estimate_among(setting, &self.products) {
            Ok(made) if !made.fits => {
                self.least_memory = self.least_memory.min(made.memory.needed);
                false
            }
            Ok(made) => {
                if self.best.as_ref().is_none_or(|best| made.time.total < best.time.total) {
                    self.best = Some(made);
                }
                true
            }
            Err(misfit) => {
                self.unsupported = Some(misfit);
                false
            }
        }
    }
}
