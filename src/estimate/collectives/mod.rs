//! How long a collective takes, by its message and topology: one function for all of them, in closed form.
//!
//! It follows NCCL, which predicts a latency and a bandwidth for every algorithm and protocol and runs the fastest
//! (NVIDIA/nccl, src/graph/tuning.cc). So a small message costs hops, and a large one bandwidth; an all-reduce over many
//! machines grows with their logarithm as long as it is small, and does not grow at all once it is large. RCCL, which is
//! derived from NCCL, is predicted by the same formulas. `benchmarks/collectives` has the measurements and the errors.

pub mod algorithms;
pub mod constants;
#[cfg(test)]
mod published;
pub mod topology;

use crate::collectives::algorithms::{Group, Way};
use gpuplan_units::{Bytes, Seconds};

pub use topology::{LinkKind, Operation, Topology, Transport};

/// From its start on the GPUs to its end, with nothing beside it on links and network; the time that the host takes to launch
/// it is not in it. Zero for a single rank, infinite over a link or a network without bandwidth.
pub fn seconds(operation: Operation, message: Bytes, topology: &Topology) -> Seconds {
    Seconds(fastest(operation, message, topology).map_or(0.0, |way| way.seconds))
}

/// The algorithm and protocol that take this time; `None` for a single rank.
pub fn fastest(operation: Operation, message: Bytes, topology: &Topology) -> Option<Way> {
    Some(Group::new(topology)?.fastest(operation, message.0.max(0.0)))
}

#[cfg(test)]
mod tests {
    use super::algorithms::{Algorithm, Protocol};
    use super::*;
    use gpuplan_units::BytesPerSecond;
    use proptest::prelude::*;

    const OPERATIONS: [Operation; 4] =
        [Operation::AllReduce, Operation::AllGather, Operation::ReduceScatter, Operation::AllToAll];

    /// Machines of eight H100 with 400 Gb/s a GPU.
    fn h100(ranks: u32, ranks_per_machine: u32) -> Topology {
        Topology {
            ranks,
            ranks_per_machine,
            link: LinkKind::NvLink4,
            link_bandwidth: BytesPerSecond(450e9),
            switch_reduction: true,
            transport: Transport::Rdma,
            network_bandwidth: BytesPerSecond::from_gbit(400.0),
            oversubscription: 1.0,
        }
    }

    fn microseconds(operation: Operation, bytes: f64, topology: &Topology) -> f64 {
        seconds(operation, Bytes(bytes), topology).0 * 1e6
    }

    fn any_topology() -> impl Strategy<Value = Topology> {
        let links = [
            LinkKind::NvLink2,
            LinkKind::NvLink3,
            LinkKind::NvLink4,
            LinkKind::NvLink5,
            LinkKind::InfinityFabric,
            LinkKind::Pcie,
        ];
        let transports = [Transport::Rdma, Transport::Efa, Transport::Tcp];
        let sizes = (2..4096_u32, 1..80_u32, 1e9..1e12_f64, 1e9..1e11_f64, 1.0..4.0_f64);
        (sizes, prop::sample::select(links.to_vec()), prop::sample::select(transports.to_vec()), any::<bool>())
            .prop_map(|((ranks, near, link_rate, network, oversubscription), link, transport, switch_reduction)| {
                Topology {
                    ranks,
                    ranks_per_machine: near,
                    link,
                    link_bandwidth: BytesPerSecond(link_rate),
                    switch_reduction,
                    transport,
                    network_bandwidth: BytesPerSecond(network),
                    oversubscription,
                }
            })
    }

    proptest! {
        #[test]
        fn more_bytes_never_take_less_time(topology in any_topology(), bytes in 0.0..1e11_f64, more in 1.0..10.0_f64) {
            for operation in OPERATIONS {
                let (one, other) = (seconds(operation, Bytes(bytes), &topology), seconds(operation, Bytes(bytes * more), &topology));
                prop_assert!(one.0 > 0.0 && one <= other, "{operation:?} {one:?} {other:?}");
            }
        }

        #[test]
        fn nothing_beats_the_wire(topology in any_topology(), bytes in 1.0..1e11_f64) {
            let ranks = f64::from(topology.ranks);
            let near = f64::from(topology.ranks_per_machine.min(topology.ranks));
            for operation in OPERATIONS {
                // What has to come into a GPU of the only machine, or into a machine of several.
                let least = if near >= ranks {
                    bytes * (ranks - 1.0) / ranks / topology.link_bandwidth.0
                } else {
                    let into_machine = bytes * (ranks - near) / ranks;
                    let from_ranks = if operation == Operation::AllToAll { near } else { 1.0 };
                    into_machine * from_ranks / (topology.network_bandwidth.0 * near)
                };
                let taken = seconds(operation, Bytes(bytes), &topology).0;
                prop_assert!(taken >= least, "{operation:?} {taken} {least}");
            }
        }

        #[test]
        fn better_hardware_is_never_slower(topology in any_topology(), bytes in 1.0..1e11_f64, more in 1.0..4.0_f64) {
            let fast = Topology {
                link_bandwidth: BytesPerSecond(topology.link_bandwidth.0 * more),
                network_bandwidth: BytesPerSecond(topology.network_bandwidth.0 * more),
                oversubscription: 1.0,
                transport: Transport::Rdma,
                ..topology
            };
            for operation in OPERATIONS {
                prop_assert!(seconds(operation, Bytes(bytes), &fast) <= seconds(operation, Bytes(bytes), &topology));
            }
        }
    }

    #[test]
    fn nobody_to_talk_to_takes_no_time() {
        for ranks in [0, 1] {
            assert_eq!(seconds(Operation::AllReduce, Bytes(1e9), &h100(ranks, 8)), Seconds(0.0));
        }
        let cut = Topology { network_bandwidth: BytesPerSecond(0.0), ..h100(16, 8) };
        assert_eq!(seconds(Operation::AllReduce, Bytes(1e9), &cut).0, f64::INFINITY);
        assert!(microseconds(Operation::AllReduce, f64::NAN, &h100(16, 8)) > 0.0);
    }

    #[test]
    fn small_messages_grow_with_the_logarithm_of_the_machines() {
        let largest = |operation, near: u32| {
            let time = |power: u32| microseconds(operation, 1024.0, &h100(1 << power, near));
            let times: Vec<f64> = (4..=11).map(time).collect();
            let steps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
            // Every doubling from 32 to 2,048 ranks adds the same. Sixteen alone in their machines still form a ring.
            assert!(steps[1..].iter().all(|step| (step - steps[1]).abs() < 0.5), "{operation:?} {times:?}");
            assert!(steps.iter().all(|step| *step < 32.0), "{operation:?} {times:?}");
            times[7]
        };
        assert!(largest(Operation::AllReduce, 8) < 160.0);
        assert!(largest(Operation::AllGather, 1) < 170.0);
        assert!(largest(Operation::ReduceScatter, 1) < 170.0);
    }

    #[test]
    fn large_messages_hardly_grow_at_all() {
        let time = |ranks| seconds(Operation::AllReduce, Bytes::from_gib(8.0), &h100(ranks, 8)).0;
        assert!(time(2048) / time(64) < 1.6, "{} {}", time(2048), time(64));
        // A bucket of Megatron-Core on 2,048 ranks, 1 M parameters a rank in 16 bits, gathered.
        let bucket = seconds(Operation::AllGather, Bytes(2.0 * 2048e6), &h100(2048, 8)).0;
        let wire = 2.0 * 2048e6 / 400e9;
        assert!(bucket / wire < 2.5, "{bucket} {wire}");
    }

    #[test]
    fn a_step_of_2048_gpus_waits_as_much_longer_as_was_measured() {
        // Nemotron-4 15B in bf16, two GPUs a replica: 2.66 s a step on 16 H100 and 2.78 s on 2,048, with the same work for each
        // (NVIDIA/dgxc-benchmarking v25.04.02, nemotron/README.md). Bytes are hidden behind the backward pass; hops are not
        // bytes. Gradients are scattered in 32 bits, weights gathered in 16.
        let hops = |gpus: u32| {
            let topology = h100(gpus / 2, 4);
            let wait = |operation, width: f64| {
                // Buckets of Megatron-Core.
                let count = (7.5e9 / f64::from(gpus / 2 * 1_000_000).max(40e6)).ceil();
                let bytes = 7.5e9 * width / count;
                let endless = seconds(operation, Bytes(1e15), &topology).0 / 1e15;
                count * (seconds(operation, Bytes(bytes), &topology).0 - endless * bytes)
            };
            wait(Operation::ReduceScatter, 4.0) + wait(Operation::AllGather, 2.0)
        };
        let growth = hops(2048) - hops(16);
        assert!((0.06..0.18).contains(&growth), "{} {}", hops(16), hops(2048));
    }

    #[test]
    fn the_algorithms_are_those_that_nccl_logs() {
        // NVIDIA/nccl-tests issue 309: on eight H100 rings with LL to 1 MB and NVLS from 2 MB; on more machines trees, NVLS
        // trees between two of them, and rings for the largest messages of many.
        let way = |operation, bytes, topology: &Topology| {
            let way = fastest(operation, Bytes(bytes), topology).unwrap();
            (way.algorithm, way.protocol)
        };
        let reduce = |bytes, ranks| way(Operation::AllReduce, bytes, &h100(ranks, 8));
        assert_eq!(reduce(64e3, 8), (Algorithm::Ring, Protocol::LowLatency));
        assert_eq!(reduce(64e6, 8), (Algorithm::SwitchReduction, Protocol::Simple));
        assert_eq!(reduce(8e3, 32), (Algorithm::Tree, Protocol::LowLatency));
        assert_eq!(reduce(8e9, 16), (Algorithm::SwitchReductionTree, Protocol::Simple));
        assert_eq!(reduce(8e9, 128), (Algorithm::Ring, Protocol::Simple));
        assert_eq!(way(Operation::AllGather, 1e6, &h100(64, 1)).0, Algorithm::ParallelTrees);
        assert_eq!(way(Operation::AllGather, 1e6, &h100(64, 8)).0, Algorithm::Ring);
        assert_eq!(way(Operation::AllToAll, 1e6, &h100(64, 8)).0, Algorithm::PointToPoint);
        let without = Topology { switch_reduction: false, ..h100(8, 8) };
        assert_eq!(way(Operation::AllReduce, 64e6, &without).0, Algorithm::Ring);
    }

    #[test]
    fn a_rack_sized_domain_is_one_machine() {
        let rack = |near| Topology { link: LinkKind::NvLink5, link_bandwidth: BytesPerSecond(900e9), ..h100(64, near) };
        let (one, trays) = (rack(64), rack(4));
        for operation in OPERATIONS {
            let bytes = Bytes::from_gib(1.0);
            assert!(seconds(operation, bytes, &one).0 * 1.5 < seconds(operation, bytes, &trays).0, "{operation:?}");
        }
    }

    #[test]
    fn a_thin_spine_costs_what_crosses_it() {
        let thin = Topology { oversubscription: 2.0, ..h100(256, 8) };
        for operation in OPERATIONS {
            let ratio = seconds(operation, Bytes(32e9), &thin).0 / seconds(operation, Bytes(32e9), &h100(256, 8)).0;
            assert!((1.8..=2.0).contains(&ratio), "{operation:?} {ratio}");
        }
    }
}
