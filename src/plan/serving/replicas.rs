//! Physics of a served model on one shape: how to split it, how many replicas a load needs, what a job's machines do.

use crate::candidate::Candidate;
use crate::explanation::Rejection;
use gpuplan_estimate::{Correction, Flow, Infeasible, Machine, Pools, Replica, StepEstimate, round};
use gpuplan_workload::{Disaggregation, Layout, Load, Serving, ServingLayout, Workers, Workload};

/// Splits that are looked at: of matrices among GPUs of a machine, and of layers among GPUs or machines.
const TENSOR: [u32; 5] = [1, 2, 4, 8, 16];
const PIPELINE: [u32; 4] = [1, 2, 4, 8];

/// One way to split a copy, and its room on machines.
struct Split {
    layout: Layout,
    /// Machines of a copy, and copies of a machine.
    nodes_each: u32,
    on_a_node: u32,
}

/// What the machine can do with the workload: for a service the count that its load needs, for a job every count of `nodes`.
pub fn candidates(
    workload: &Workload,
    serving: &Serving,
    machine: Machine,
    correction: &Correction,
    nodes: &[u32],
) -> (Vec<Candidate>, u64) {
    let most = nodes.iter().copied().max().unwrap_or(1);
    if let (Some(disaggregation), Load::Steady { requests_per_second, .. }) = (serving.disaggregation, serving.load) {
        let question =
            Apart { workload, serving, disaggregation, machine, correction, requests_per_second, most_nodes: most };
        return question.candidates();
    }
    let splits = splits(workload, &machine, serving.layout, most);
    let estimated = splits.len() as u64;
    let mut failed: Option<Rejection> = None;
    let mut found: Vec<(u32, StepEstimate)> = Vec::new();
    for split in &splits {
        // A copy is split over machines only where it fits on none.
        if split.nodes_each > 1 && !found.is_empty() {
            break;
        }
        let replica = Replica::new(workload, serving, machine, correction, split.layout);
        let made = match serving.load {
            Load::Steady { requests_per_second, .. } => {
                service(&replica, split, requests_per_second, most).map(|made| vec![made])
            }
            Load::Job { .. } => job(&replica, split, nodes),
        };
        match made {
            Ok(made) => found.extend(made),
            Err(rejection) => failed = Some(nearer(failed, rejection)),
        }
    }
    if splits.is_empty() {
        let detail = format!("no copy that is split as stated fits on machines of {} GPUs", machine.gpus_per_node);
        failed = Some(Infeasible::Unsupported { detail }.into());
    }
    (best_of_each_count(found, failed, serving), estimated)
}

/// The fewest machines for a service, and among equals the shortest wait; for a job the fastest at every count.
fn best_of_each_count(
    mut found: Vec<(u32, StepEstimate)>,
    failed: Option<Rejection>,
    serving: &Serving,
) -> Vec<Candidate> {
    let rate = |step: &StepEstimate| step.served.map_or(0.0, |served| served.requests_per_second);
    let wait = |step: &StepEstimate| step.served.map_or(f64::INFINITY, |served| served.first_token.expected);
    found.sort_by(|(a_nodes, a), (b_nodes, b)| {
        let better = if serving.is_job() { rate(b).total_cmp(&rate(a)) } else { wait(a).total_cmp(&wait(b)) };
        a_nodes.cmp(b_nodes).then(better)
    });
    found.dedup_by_key(|(nodes, _)| *nodes);
    if !serving.is_job() {
        found.truncate(1);
    }
    match (found.is_empty(), failed) {
        (true, Some(rejection)) => vec![Candidate { nodes: 1, step: Err(rejection) }],
        _ => found.into_iter().map(|(nodes, step)| Candidate { nodes, step: Ok(step) }).collect(),
    }
}

/// Of two reasons the one that came closer: too slow after too small, too few machines last, and of each kind the smaller miss.
fn nearer(held: Option<Rejection>, new: Rejection) -> Rejection {
    let rank = |rejection: &Rejection| (rejection.progress(), -rejection.distance());
    match held {
        Some(held) if rank(&held) >= rank(&new) => held,
        _ => new,
    }
}

fn service(
    replica: &Replica,
    split: &Split,
    requests_per_second: f64,
    most_nodes: u32,
) -> Result<(u32, StepEstimate), Rejection> {
    let flow = Flow::new(replica)?;
    let (most, full) = (flow.most()?, flow.full()?);
    let needed = (requests_per_second / most.requests_per_second - 1e-9).ceil().max(1.0);
    let nodes = (needed / f64::from(split.on_a_node)).ceil() * f64::from(split.nodes_each);
    if nodes > f64::from(most_nodes) {
        let copies = f64::from(most_nodes / split.nodes_each * split.on_a_node);
        return Err(Rejection::Overloaded {
            replicas: needed,
            requests_per_second_each: most.requests_per_second,
            nodes,
            most_nodes,
            most_requests_per_second: copies * most.requests_per_second,
        });
    }
    // Machines are rented whole, so every copy that they have room for runs.
    let nodes = nodes as u32;
    let replicas = nodes / split.nodes_each * split.on_a_node;
    let state = flow.under(requests_per_second / f64::from(replicas))?;
    let limit = flow.batch_limit(&most);
    let served = flow.served(&state, full.requests_per_second, replicas, limit, (split.nodes_each, split.on_a_node));
    Ok((nodes, round::step(replica, &flow, &state, served)?))
}

fn job(replica: &Replica, split: &Split, nodes: &[u32]) -> Result<Vec<(u32, StepEstimate)>, Rejection> {
    let flow = Flow::new(replica)?;
    let full = flow.full()?;
    let counts = nodes.iter().copied().filter(|count| count.is_multiple_of(split.nodes_each));
    let on_each = |count: u32| count / split.nodes_each * split.on_a_node;
    let made = counts.map(|count| {
        let limit = full.batch as u32;
        let served =
            flow.served(&full, full.requests_per_second, on_each(count), limit, (split.nodes_each, split.on_a_node));
        Ok((count, round::step(replica, &flow, &full, served)?))
    });
    made.collect()
}

/// A service whose prompts are read by copies of their own, on one shape.
struct Apart<'a> {
    workload: &'a Workload,
    serving: &'a Serving,
    disaggregation: Disaggregation,
    machine: Machine<'a>,
    correction: &'a Correction,
    requests_per_second: f64,
    most_nodes: u32,
}

impl Apart<'_> {
    /// The fewest machines over all pairs of splits. A copy lies inside one machine.
    fn candidates(&self) -> (Vec<Candidate>, u64) {
        let inside = |layout| {
            let all = splits(self.workload, &self.machine, layout, 1);
            all.into_iter().filter(|split| split.nodes_each == 1 && split.layout.pipeline == 1).collect::<Vec<Split>>()
        };
        let (readers, writers) = (inside(self.disaggregation.prefill), inside(self.serving.layout));
        let mut failed = None;
        let mut found = Vec::new();
        for writer in &writers {
            for reader in &readers {
                match self.pair(reader, writer) {
                    Ok(made) => found.push(made),
                    Err(rejection) => failed = Some(nearer(failed, rejection)),
                }
            }
        }
        if readers.is_empty() || writers.is_empty() {
            let detail =
                format!("no copy that is split as stated fits on a machine of {} GPUs", self.machine.gpus_per_node);
            failed = Some(Infeasible::Unsupported { detail }.into());
        }
        (best_of_each_count(found, failed, self.serving), (readers.len() * writers.len()) as u64)
    }

    fn pair(&self, reader: &Split, writer: &Split) -> Result<(u32, StepEstimate), Rejection> {
        let reading = Serving { layout: self.disaggregation.prefill, ..*self.serving };
        let replica = |serving, layout| Replica::new(self.workload, serving, self.machine, self.correction, layout);
        let (prefill, decode) = (replica(&reading, reader.layout).reading(), replica(self.serving, writer.layout));
        let flow = Flow::writing(&decode)?;
        let pools = Pools::new(&prefill, &flow)?;
        let mut workers = pools.fewest(self.requests_per_second, self.disaggregation.workers)?;
        let nodes = self.nodes(workers, reader, writer);
        if nodes > self.most_nodes {
            let (each, most) = (pools.most(workers)?, f64::from(self.most_nodes) / f64::from(nodes));
            let copies = f64::from(workers.prefill + workers.decode);
            return Err(Rejection::Overloaded {
                replicas: copies,
                requests_per_second_each: self.requests_per_second / copies,
                nodes: f64::from(nodes),
                most_nodes: self.most_nodes,
                most_requests_per_second: each * most,
            });
        }
        // Machines are rented whole, so writers run in what is left of them, unless the counts are stated.
        while self.disaggregation.workers.is_none() {
            let more = Workers { decode: workers.decode + 1, ..workers };
            if self.nodes(more, reader, writer) > nodes {
                break;
            }
            workers = more;
        }
        let state = pools.state(workers, self.requests_per_second)?;
        let limit = flow.batch_limit(&state);
        let most = pools.most(workers)? / f64::from(workers.decode);
        let mut served = flow.served(&state, most, workers.decode, limit, (1, writer.on_a_node));
        served.prompt_seconds = pools.prompt_seconds();
        served.prefill = Some(pools.prefill(workers, self.requests_per_second));
        Ok((nodes, round::step(&decode, &flow, &state, served)?))
    }

    /// Machines of both pools. Copies whose sizes divide each other and the machine share one; others have machines of their own.
    fn nodes(&self, workers: Workers, reader: &Split, writer: &Split) -> u32 {
        let gpus = |split: &Split| split.layout.model_parallel();
        let (small, large) = (gpus(reader).min(gpus(writer)), gpus(reader).max(gpus(writer)));
        let devices = self.machine.gpus_per_node;
        if large.is_multiple_of(small) && devices.is_multiple_of(large) {
            let all = u64::from(workers.prefill) * u64::from(gpus(reader))
                + u64::from(workers.decode) * u64::from(gpus(writer));
            return u32::try_from(all.div_ceil(u64::from(devices))).unwrap_or(u32::MAX);
        }
        workers.prefill.div_ceil(reader.on_a_node) + workers.decode.div_ceil(writer.on_a_node)
    }
}

/// Every split that divides the model and the machine: inside one machine first.
fn splits(workload: &Workload, machine: &Machine, fixed: ServingLayout, most_nodes: u32) -> Vec<Split> {
    let model = &workload.model;
    let devices = machine.gpus_per_node;
    let layout = |tensor, pipeline| Layout { tensor, pipeline, ..Layout::default() };
    if !model.kind.is_transformer()
        || model.kind.counts_samples()
        || workload.serving.is_some_and(|serving| serving.answer_tokens == 0)
        || model.encoder_layers > 0
    {
        return vec![Split { layout: layout(1, 1), nodes_each: 1, on_a_node: devices }];
    }
    let divides = |tensor: &u32| {
        *tensor <= devices
            && model.heads.is_multiple_of(*tensor)
            && (model.kv_heads.is_multiple_of(*tensor) || tensor.is_multiple_of(model.kv_heads))
    };
    let tensors: Vec<u32> = match fixed.tensor {
        Some(tensor) => vec![tensor * fixed.groups()],
        None => TENSOR.into_iter().filter(divides).collect(),
    };
    let is_asked = |pipeline: &u32| fixed.pipeline.is_none_or(|stated| stated == *pipeline);
    let mut splits = Vec::new();
    let pipelines = fixed.pipeline.map_or(PIPELINE.to_vec(), |stated| vec![stated]);
    let inside = |pipeline: &u32| fixed.pipeline.is_some() || *pipeline == 1 || !machine.link.is_fast();
    for pipeline in pipelines.iter().copied().filter(inside) {
        for tensor in tensors.iter().copied().filter(|tensor| tensor * pipeline <= devices && pipeline <= model.layers)
        {
            splits.push(Split {
                layout: layout(tensor, pipeline),
                nodes_each: 1,
                on_a_node: devices / (tensor * pipeline),
            });
        }
    }
    let widest = tensors.iter().copied().filter(|tensor| *tensor == devices && machine.card_share >= 1.0).max();
    for (tensor, machines) in
        widest.into_iter().flat_map(|tensor| PIPELINE[1..].iter().map(move |machines| (tensor, *machines)))
    {
        if is_asked(&machines) && machines <= most_nodes && machines <= model.layers {
            splits.push(Split { layout: layout(tensor, machines), nodes_each: machines, on_a_node: 1 });
        }
    }
    splits
}
