//! Physics once per distinct machine and count: the fastest setting that fits, before any price is looked at.

use std::collections::HashMap;

use rayon::prelude::*;

use crate::candidate::Candidate;
use crate::context::Context;
use crate::serving::replicas;
use crate::training::packing;
use crate::training::search::best_stated;
use gpuplan_estimate::{Machine, Subject};
use gpuplan_hardware::{InstanceId, NodeShape};

/// Answers for every distinct shape.
pub struct Shapes {
    of_instance: HashMap<InstanceId, usize>,
    answers: Vec<Vec<Candidate>>,
    /// Settings whose memory or time was computed.
    pub estimated: u64,
    pub shapes: usize,
}

impl Shapes {
    /// Works out every instance type in `wanted`; equal shapes share one answer.
    pub fn estimate(context: Context, wanted: &[InstanceId], nodes: &[u32]) -> Self {
        let Context { world, workload, limits, .. } = context;
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
                replicas::candidates(workload, serving, machine, world.correction, nodes)
            };
            let (answers, counts): (Vec<Vec<Candidate>>, Vec<u64>) = shapes.par_iter().map(served).unzip();
            return Self { of_instance, answers, estimated: counts.iter().sum(), shapes: shapes.len() };
        }
        let done: Vec<(usize, Candidate, u64)> = jobs
            .into_par_iter()
            .map(|(index, nodes)| {
                let shape = match packing::part(&shapes[index], sweep) {
                    Ok(shape) => shape,
                    Err(rejection) => return (index, Candidate { nodes, step: Err(rejection) }, 0),
                };
                let machine = Machine::new(world.hardware.gpu(shape.gpu), &shape);
                let subject = Subject::new(model, training, machine).corrected(world.correction);
                let (outcome, estimated) = best_stated(&subject, global_batch, nodes, &limits.layout);
                (index, Candidate { nodes, step: outcome.map_err(Into::into) }, estimated)
            })
            .collect();
        let mut answers: Vec<Vec<Candidate>> = vec![Vec::new(); shapes.len()];
        let mut estimated = 0;
        for (index, candidate, count) in done {
            answers[index].push(candidate);
            estimated += count;
        }
        Self { of_instance, answers, estimated, shapes: shapes.len() }
    }

    /// Answers by node count, smallest first.
    pub fn candidates(&self, instance: InstanceId) -> &[Candidate] {
        self.of_instance.get(&instance).map_or(&[], |index| &self.answers[*index])
    }
}
