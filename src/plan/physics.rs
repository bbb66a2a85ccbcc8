//! Physics once per distinct machine and count: the fastest setting that fits, before any price is looked at.

use std::collections::HashMap;

use rayon::prelude::*;

use crate::choose::World;
use crate::layouts;
use crate::packing;
use crate::serving;
use gpuplan_estimate::{Machine, Misfit, Products, Setting, StepEstimate, Subject};
use gpuplan_hardware::{InstanceId, NodeShape};
use gpuplan_units::Bytes;
use gpuplan_workload::{Layout, Recompute, Workload};

/// Node counts worth looking at: powers of two and one step between.
pub const NODE_COUNTS: [u32; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];

/// Answer for one shape and node count.
#[derive(Clone, Debug)]
pub struct Best {
    pub nodes: u32,
    pub outcome: Result<StepEstimate, Misfit>,
}

/// Answers for every distinct shape.
pub struct Physics {
    of_instance: HashMap<InstanceId, usize>,
    answers: Vec<Vec<Best>>,
    /// Settings whose memory or time was computed.
    pub estimated: u64,
    pub shapes: usize,
}

impl Physics {
    /// Works out every instance type in `wanted`; equal shapes share one answer.
    pub fn compute(workload: &Workload, world: World, wanted: &[InstanceId], nodes: &[u32]) -> Self {
        let (model, training, sweep) = (&workload.model, &workload.training, workload.sweep.as_ref());
        let global_batch = training.global_batch.unwrap_or(1);
        let mut shapes: Vec<NodeShape> = Vec::new();
        let mut known = HashMap::new();
        let mut of_instance = HashMap::new();
        for id in wanted {
            let shape = world.hardware.instance(*id).node;
            let index = *known.entry(shape.key()).or_insert_with(|| {
                shapes.push(shape);
                shapes.len() - 1
            });
            of_instance.insert(*id, index);
        }
        let jobs: Vec<(usize, u32)> =
            shapes.iter().enumerate().flat_map(|(index, _)| nodes.iter().map(move |nodes| (index, *nodes))).collect();
        if let Some(serving) = &workload.serving {
            let served = |shape: &NodeShape| {
                let machine = Machine::new(world.hardware.gpu(shape.gpu), shape);
                serving::answers(workload, serving, machine, world.correction, nodes)
            };
            let (answers, counts): (Vec<Vec<Best>>, Vec<u64>) = shapes.par_iter().map(served).unzip();
            return Self { of_instance, answers, estimated: counts.iter().sum(), shapes: shapes.len() };
        }
        let done: Vec<(usize, Best, u64)> = jobs
            .into_par_iter()
            .map(|(index, nodes)| {
                let shape = match packing::part(&shapes[index], sweep) {
                    Ok(shape) => shape,
                    Err(misfit) => return (index, Best { nodes, outcome: Err(misfit) }, 0),
                };
                let machine = Machine::new(world.hardware.gpu(shape.gpu), &shape);
                let subject = Subject::new(model, training, machine).corrected(world.correction);
                let (outcome, estimated) = best_setting(&subject, global_batch, nodes);
                (index, Best { nodes, outcome }, estimated)
            })
            .collect();
        let mut answers: Vec<Vec<Best>> = vec![Vec::new(); shapes.len()];
        let mut estimated = 0;
        for (index, best, count) in done {
            answers[index].push(best);
            estimated += count;
        }
        Self { of_instance, answers, estimated, shapes: shapes.len() }
    }

    /// Answers by node count, smallest first.
    pub fn of(&self, instance: InstanceId) -> &[Best] {
        self.of_instance.get(&instance).map_or(&[], |index| &self.answers[*index])
    }
}

/// The fastest setting on `nodes` machines, and how many settings were looked at.
pub fn best_setting(subject: &Subject, global_batch: u64, nodes: u32) -> (Result<StepEstimate, Misfit>, u64) {
    let machine = &subject.machine;
    if nodes > 1 && machine.card_share < 1.0 {
        return (Err(Misfit::Unsupported { detail: "slices of a card have no link to other machines".to_owned() }), 0);
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
    };
    for layout in layouts::layouts(subject.model, subject.training, machine, gpus, global_batch) {
        search.try_layout(&layout);
    }
    let outcome = match (search.best, search.unsupported) {
        (Some(best), _) => Ok(best),
        (None, Some(misfit)) => Err(misfit),
        (None, None) if search.least_memory.is_finite() => {
            Err(Misfit::NeedsMemory { need: Bytes(search.least_memory), have: machine.memory })
        }
        (None, None) => Err(Misfit::Indivisible { what: "the batch or the model", by: gpus }),
    };
    (outcome, search.estimated)
}

struct Search<'a> {
    subject: &'a Subject<'a>,
    global_batch: u64,
    products: Products,
    best: Option<StepEstimate>,
    least_memory: f64,
    estimated: u64,
    unsupported: Option<Misfit>,
}

impl Search<'_> {
    /// Micro batches from the largest down: recomputing is tried only where keeping activations does not fit.
    fn try_layout(&mut self, layout: &Layout) {
        let training = self.subject.training;
        let mut tried = 0;
        for micro_batch in layouts::micro_batches(self.global_batch, layout, training.micro_batch) {
            let steps = self.global_batch / (u64::from(layout.data) * u64::from(micro_batch));
            let mut fitted = None;
            for recompute in layouts::recomputes(training, self.subject.model) {
                let setting =
                    Setting { layout: *layout, micro_batch, global_batch: self.global_batch as f64, recompute };
                if self.fits(&setting) {
                    fitted = Some(recompute);
                    break;
                }
            }
            let Some(recompute) = fitted else { continue };
            let mut really = false;
            for virtual_pipeline in layouts::interleaves(self.subject.model, layout, steps) {
                let layout = Layout { virtual_pipeline, ..*layout };
                really |=
                    self.time(&Setting { layout, micro_batch, global_batch: self.global_batch as f64, recompute });
            }
            if !really {
                continue;
            }
            tried += 1;
            // Without a pipeline a smaller micro batch only adds launches, once activations are kept.
            if layout.pipeline == 1 && (recompute != Recompute::Full || tried >= 3) && training.micro_batch.is_none() {
                break;
            }
        }
    }

    fn fits(&mut self, setting: &Setting) -> bool {
        self.estimated += 1;
        let memory = self.subject.memory(setting);
        self.least_memory = self.least_memory.min(memory.needed);
        // Vision families add their activations in `estimate`, which checks again.
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
