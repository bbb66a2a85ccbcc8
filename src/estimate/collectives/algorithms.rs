//! Latency and bandwidth of each algorithm that NCCL may choose, for one group of ranks.

use crate::collectives::constants::{self as c, MICROSECOND};
use crate::collectives::topology::{Operation, Topology};

/// How ranks pass a message on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Around all ranks, machine by machine: `ranks - 1` steps, twice for an all-reduce, at full bandwidth.
    Ring,
    /// A chain in each machine and two binary trees between machines (since NCCL 2.4): log2 of the machines.
    Tree,
    /// The NVLink switches sum (NVLS, since NCCL 2.17).
    SwitchReduction,
    /// The same with trees between machines (NVLSTree, since NCCL 2.18).
    SwitchReductionTree,
    /// Parallel aggregated trees for gather and scatter (since NCCL 2.23): log2 of the ranks. NCCL chooses it with one rank
    /// a machine.
    ParallelTrees,
    /// Every rank with every other one.
    PointToPoint,
}

/// How a step is synchronised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// A flag beside every four bytes.
    LowLatency,
    /// A flag in every 128 bytes.
    LowLatency128,
    /// Fences around large chunks.
    Simple,
}

/// One way to run a collective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    pub algorithm: Algorithm,
    pub protocol: Protocol,
    /// Infinite where the topology does not have this way.
    pub seconds: f64,
}

impl Way {
    fn only_if(self, possible: bool) -> Self {
        Self { seconds: if possible { self.seconds } else { f64::INFINITY }, ..self }
    }

    fn or(self, other: Self) -> Self {
        if other.seconds < self.seconds { other } else { self }
    }
}

/// A topology in the terms of the formulas: counts, microseconds, sustained bytes per second.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    ranks: f64,
    /// Ranks of one machine.
    near: f64,
    machines: f64,
    /// Levels of a binary tree over the machines.
    depth: f64,
    hop: f64,
    /// What the transport adds to a hop.
    far: f64,
    /// Of a GPU's link; without limit if it has no neighbour.
    link: f64,
    /// Of a GPU's link by its data sheet.
    sheet: f64,
    /// Of a machine's network; without limit in one machine.
    network: f64,
    has_ll128: bool,
    /// Of a sum in the switches.
    switch: Option<f64>,
}

impl Group {
    /// `None` if there is nobody to talk to.
    pub fn new(topology: &Topology) -> Option<Self> {
        let ranks = topology.ranks;
        let near = topology.ranks_per_machine.clamp(1, ranks.max(1));
        let machines = ranks.div_ceil(near);
        let sheet = topology.link_bandwidth.0;
        let per_rank = topology.network_bandwidth.0 / topology.oversubscription.max(1.0) * c::NETWORK_SHARE;
        let switch = topology.link.switch_share().filter(|_| topology.switch_reduction && near > 2);
        (ranks > 1).then(|| Self {
            ranks: f64::from(ranks),
            near: f64::from(near),
            machines: f64::from(machines),
            depth: f64::from(machines.next_power_of_two().ilog2()),
            hop: topology.link.hop(),
            far: topology.transport.latency(),
            link: if near > 1 { sheet * topology.link.share() } else { f64::INFINITY },
            sheet,
            network: if machines > 1 { per_rank * f64::from(near) } else { f64::INFINITY },
            has_ll128: topology.link.has_ll128(),
            switch: switch.map(|share| sheet * share),
        })
    }

    fn alone(&self) -> bool {
        self.machines <= 1.0
    }

    /// Microseconds of a network step that moves large chunks and confirms them.
    fn step(&self) -> f64 {
        c::NET_SIMPLE + 2.0 * self.far
    }

    fn ceiling(&self) -> f64 {
        if self.alone() { c::LL_CEILING } else { c::LL_CEILING_NETWORK }
    }

    /// Seconds to copy the part of a buffer that stays on its GPU. PCIe is so slow that it does not matter.
    fn own_part(&self, bytes: f64) -> f64 {
        if self.near > 1.0 && self.has_ll128 { bytes / self.ranks / (self.sheet * c::COPY_SHARE) } else { 0.0 }
    }

    fn ring(&self, operation: Operation, bytes: f64) -> Way {
        let reduces = operation == Operation::AllReduce;
        let steps = (self.ranks - 1.0) * if reduces { 2.0 } else { 1.0 };
        let far = match (self.alone(), reduces) {
            (true, _) => 0.0,
            (false, true) => (2.0 * self.machines).min(steps),
            (false, false) => self.machines - 1.0,
        };
        let near = steps - far;
        let (post, post_simple) = if self.alone() { (0.0, 0.0) } else { (c::POST, c::POST_SIMPLE) };
        let bus = self.link.min(self.network);
        let share = if self.alone() && !reduces { c::LL_SHARE_GATHER } else { c::LL_SHARE };
        let moved = bytes * steps / self.ranks;
        let own = if reduces { 0.0 } else { self.own_part(bytes) };
        let way = |protocol, latency: f64, seconds: f64| Way {
            algorithm: Algorithm::Ring,
            protocol,
            seconds: latency * MICROSECOND + seconds,
        };
        let low_latency = way(
            Protocol::LowLatency,
            c::BASE_LL + near * self.hop.max(post) + far * (c::NET_LL + self.far),
            moved / (bus * share).min(self.ceiling()),
        );
        let low_latency_128 = way(
            Protocol::LowLatency128,
            c::BASE_LL128 + near * (self.hop * c::HOP_LL128).max(post) + far * (c::NET_LL128 + self.far),
            moved / (bus * c::LL128_SHARE),
        );
        let simple = way(
            Protocol::Simple,
            c::BASE_SIMPLE + near * (self.hop * c::HOP_SIMPLE).max(post_simple) + far * self.step(),
            moved / bus + own,
        );
        low_latency.or(low_latency_128.only_if(self.has_ll128)).or(simple)
    }

    /// What reaches the root of a tree over the machines: with two machines each is the root of one tree and the leaf of the
    /// other, with more it has two children in one of them.
    fn tree_network(&self) -> f64 {
        if self.machines <= 2.0 { self.network } else { self.network / 2.0 * c::TREE_NETWORK_SHARE }
    }

    fn tree(&self, bytes: f64) -> Way {
        let chain = self.near - 1.0;
        let rate = (self.link / 2.0).min(self.tree_network()) * c::TREE_SHARE;
        // Up and down again.
        let way = |protocol, base: f64, hop: f64, level: f64, rate: f64| {
            let latency = base + 2.0 * (chain * hop + self.depth * level);
            Way { algorithm: Algorithm::Tree, protocol, seconds: latency * MICROSECOND + bytes / rate }
        };
        let low_latency = way(
            Protocol::LowLatency,
            c::BASE_LL,
            self.hop,
            c::NET_LL + self.far,
            (rate * c::LL_SHARE).min(self.ceiling() / 2.0),
        );
        let low_latency_128 = way(
            Protocol::LowLatency128,
            c::BASE_LL128,
            self.hop * c::HOP_LL128,
            c::NET_LL128 + self.far,
            rate * c::LL128_SHARE,
        );
        let simple = way(Protocol::Simple, c::BASE_SIMPLE, self.hop * c::HOP_SIMPLE, c::TREE_FILL * self.step(), rate);
        low_latency.or(low_latency_128.only_if(self.has_ll128)).or(simple)
    }

    fn switch_reduction(&self, bytes: f64) -> Option<Way> {
        let switch = self.switch?;
        let latency = c::SWITCH_RANK * self.near + 2.0 * self.depth * c::TREE_FILL * self.step();
        let (algorithm, rate) = if self.alone() {
            (Algorithm::SwitchReduction, switch)
        } else {
            (Algorithm::SwitchReductionTree, switch.min(self.tree_network()) * c::TREE_SHARE)
        };
        Some(Way { algorithm, protocol: Protocol::Simple, seconds: latency * MICROSECOND + bytes / rate })
    }

    fn parallel_trees(&self, bytes: f64) -> Way {
        let latency = c::BASE_SIMPLE + self.depth * self.step();
        let moved = bytes * (self.ranks - 1.0) / self.ranks;
        let seconds = latency * MICROSECOND + moved / self.network;
        Way { algorithm: Algorithm::ParallelTrees, protocol: Protocol::Simple, seconds }.only_if(self.near <= 1.0)
    }

    /// With LL only in a machine.
    fn point_to_point(&self, bytes: f64) -> Way {
        let inside = bytes * (self.near - 1.0) / self.ranks / self.link;
        let outside = bytes * (self.ranks - self.near) / self.ranks * self.near / self.network;
        let steps = if self.alone() { 0.0 } else { 1.0 + (self.ranks - self.near) * c::PEER };
        let transfer = inside.max(outside) + self.own_part(bytes);
        let way = |protocol, base: f64, seconds: f64| {
            let seconds = (base + steps * self.step()) * MICROSECOND + seconds;
            Way { algorithm: Algorithm::PointToPoint, protocol, seconds }
        };
        let simple = way(Protocol::Simple, c::BASE_PEERS, transfer);
        way(Protocol::LowLatency, c::BASE_LL, transfer / c::LL_SHARE).only_if(self.alone()).or(simple)
    }

    /// The fastest way for a message of so many bytes.
    pub fn fastest(&self, operation: Operation, bytes: f64) -> Way {
        match operation {
            Operation::AllReduce => {
                let without = self.ring(operation, bytes).or(self.tree(bytes));
                self.switch_reduction(bytes).map_or(without, |switches| without.or(switches))
            }
            Operation::AllGather | Operation::ReduceScatter => {
                self.ring(operation, bytes).or(self.parallel_trees(bytes))
            }
            Operation::AllToAll => self.point_to_point(bytes),
        }
    }
}
