//! Every rule on made figures: it speaks beyond its threshold and is silent just short of it.

#![cfg(test)]

use super::*;
use gpuplan_workload::profile::{
    ClassTime, CopyKind, GpuUsage, HostUsage, Links, OperatorClass, Operators, Products, StepTimes, Usage,
};

const NVIDIA: Facts = Facts { has_tensor_cores: Some(true), has_bf16: Some(true), has_fast_link: Some(true) };

fn rules(profile: &Profile) -> Vec<Rule> {
    find(profile, &NVIDIA).into_iter().map(|finding| finding.rule).collect()
}

/// A run in which nothing is wrong.
fn sound_usage() -> Usage {
    let gpu = GpuUsage {
        busy: Some(0.96),
        memory_peak_bytes: Some(70e9),
        memory_total_bytes: Some(80e9),
        clock_mean_mhz: Some(1900.0),
        clock_max_mhz: Some(1980.0),
        power_limit_watts: Some(700.0),
        ..GpuUsage::default()
    };
    let gpus = vec![gpu.clone(), GpuUsage { index: 1, ..gpu }];
    Usage {
        samples: 60,
        interval_seconds: 1.0,
        seconds: 60.0,
        host: HostUsage { cores: 16, cores_used: 3.0, ..HostUsage::default() },
        gpus,
        ..Usage::default()
    }
}

fn of_samples(change: impl Fn(&mut Usage)) -> Vec<Rule> {
    let mut usage = sound_usage();
    change(&mut usage);
    rules(&Profile { usage: Some(usage), ..Profile::new("test") })
}

/// A trace of ten steps in 100 s, in which nothing is wrong.
fn sound_operators() -> Operators {
    Operators {
        devices: 1,
        span_seconds: 100.0,
        busy_seconds: 97.0,
        gap_seconds: 3.0,
        host_bound_seconds: 2.0,
        classes: vec![ClassTime { class: OperatorClass::Compute, calls: 100, seconds: 60.0 }],
        products: Products { tensor_core_seconds: 60.0, shaped: 100, has_backward: true, ..Products::default() },
        synchronisations: 10,
        ..Operators::default()
    }
}

fn of_trace(change: impl Fn(&mut Operators)) -> Vec<Rule> {
    let mut operators = sound_operators();
    change(&mut operators);
    let step = StepTimes::from_seconds(&[10.0; 10], None, "test");
    rules(&Profile { operators: Some(operators), step, ..Profile::new("test") })
}

fn busy(usage: &mut Usage, share: f64) {
    usage.gpus.iter_mut().for_each(|gpu| gpu.busy = Some(share));
}

#[test]
fn nothing_is_said_of_a_sound_run() {
    assert_eq!(of_samples(|_| {}), []);
    assert_eq!(of_trace(|_| {}), []);
    assert_eq!(rules(&Profile::new("nothing measured")), []);
    // A machine without a GPU has nothing to find.
    assert_eq!(of_samples(|usage| usage.gpus.clear()), []);
    // Nor has a slice of a card, which does not tell how busy it is.
    assert_eq!(of_samples(|usage| usage.gpus.iter_mut().for_each(|gpu| gpu.busy = None)), []);
}

#[test]
fn a_starved_gpu_is_the_loader_s_where_the_host_is_full() {
    let with = |share, cores| of_samples(|usage| (busy(usage, share), usage.host.cores_used = cores).0);
    assert_eq!(with(0.69, 12.8), [Rule::Loader]);
    assert_eq!(with(0.71, 12.8), []);
    assert_eq!(with(0.69, 12.7), [Rule::HostBound]);
    assert_eq!(with(0.71, 2.0), []);
}

#[test]
fn full_memory_and_an_idle_gpu_do_not_go_together() {
    let with = |share, bytes| {
        of_samples(|usage| {
            busy(usage, share);
            usage.gpus[0].memory_peak_bytes = Some(bytes);
            usage.gpus[1].memory_peak_bytes = Some(60e9);
        })
    };
    assert!(with(0.49, 65e9).contains(&Rule::MemoryFullButIdle));
    assert!(!with(0.51, 65e9).contains(&Rule::MemoryFullButIdle));
    assert!(!with(0.49, 64e9).contains(&Rule::MemoryFullButIdle));
}

#[test]
fn memory_to_spare_is_room_for_a_batch() {
    let with = |bytes| of_samples(|usage| usage.gpus.iter_mut().for_each(|gpu| gpu.memory_peak_bytes = Some(bytes)));
    assert_eq!(with(39.9e9), [Rule::RoomForBatch]);
    assert_eq!(with(40.1e9), []);
    assert_eq!(with(0.0), [], "not measured");
}

#[test]
fn clocks_that_are_held_down_are_told_by_cause() {
    let with = |power, heat, clock| {
        of_samples(|usage| {
            for gpu in &mut usage.gpus {
                (gpu.throttled_by_power, gpu.throttled_by_heat, gpu.clock_mean_mhz) =
                    (Some(power), Some(heat), Some(clock));
            }
        })
    };
    assert_eq!(with(0.21, 0.0, 1500.0), [Rule::ThrottledByPower]);
    assert_eq!(with(0.19, 0.0, 1500.0), []);
    assert_eq!(with(0.0, 0.21, 1500.0), [Rule::ThrottledByHeat]);
    assert_eq!(with(0.0, 0.19, 1500.0), []);
    assert_eq!(with(0.9, 0.9, 1900.0), [], "the clock is as high as it gets");
}

#[test]
fn a_slow_card_holds_up_the_others() {
    let clock = |slow| {
        of_samples(|usage| {
            usage.gpus.push(GpuUsage { index: 2, clock_mean_mhz: Some(slow), ..usage.gpus[0].clone() });
        })
    };
    assert_eq!(clock(1900.0 / 1.06), [Rule::Straggler]);
    assert_eq!(clock(1900.0 / 1.04), []);
    assert_eq!(of_trace(|operators| operators.slowest_device = Some(1.06)), [Rule::Straggler]);
    assert_eq!(of_trace(|operators| operators.slowest_device = Some(1.04)), []);
}

#[test]
fn pcie_is_told_where_nvlink_is_sold() {
    let links = |nvlink_pairs, pcie_pairs| Some(Links { nvlink_pairs, pcie_pairs });
    assert_eq!(of_samples(|usage| usage.links = links(0, 1)), [Rule::PcieLink]);
    assert_eq!(of_samples(|usage| usage.links = links(1, 0)), []);
    let usage = Usage { links: links(0, 1), ..sound_usage() };
    let without = Facts { has_fast_link: Some(false), ..NVIDIA };
    assert_eq!(find(&Profile { usage: Some(usage), ..Profile::new("test") }, &without), []);
}

#[test]
fn gaps_in_a_trace_are_told_by_cause() {
    let gaps = |input, host| {
        of_trace(|operators| {
            (operators.busy_seconds, operators.gap_seconds) = (69.0, 31.0);
            (operators.input_wait_seconds, operators.host_bound_seconds) = (input, host);
        })
    };
    assert_eq!(gaps(0.0, 0.0), [Rule::Idle]);
    assert_eq!(gaps(5.1, 0.0), [Rule::Loader]);
    assert_eq!(gaps(0.0, 10.1), [Rule::HostBound]);
    assert_eq!(gaps(4.9, 9.9), [Rule::Idle]);
    assert_eq!(of_trace(|operators| operators.busy_seconds = 70.1), []);
    // A loader that works beside the GPU costs nothing.
    assert_eq!(of_trace(|operators| operators.input_wait_seconds = 50.0), []);
}

#[test]
fn shapes_are_told_where_the_trace_has_them() {
    assert_eq!(of_trace(|operators| operators.products.unaligned_seconds = 9.8), [Rule::UnalignedShapes]);
    assert_eq!(of_trace(|operators| operators.products.unaligned_seconds = 9.6), []);
    assert_eq!(of_trace(|operators| operators.products.small_seconds = 9.8), [Rule::SmallShapes]);
    assert_eq!(of_trace(|operators| operators.products.small_seconds = 9.6), []);
    // However many there are: what takes no time is not worth a word.
    assert_eq!(of_trace(|operators| (operators.products.small, operators.products.unaligned) = (100, 100)), []);
}

#[test]
fn plain_fp32_is_told_by_how_much_there_is() {
    let with = |tensor, fp32| {
        of_trace(|operators| (operators.products.tensor_core_seconds, operators.products.fp32_seconds) = (tensor, fp32))
    };
    assert_eq!(with(5.9, 54.1), [Rule::NoTensorCores]);
    assert_eq!(with(6.1, 53.9), [Rule::Fp32]);
    assert_eq!(with(47.9, 12.1), [Rule::Fp32]);
    assert_eq!(with(48.1, 11.9), []);
    assert_eq!(with(0.0, 20.0), [], "too few kernels say what they are");
    let operators = Operators { products: Products { fp32_seconds: 60.0, ..Products::default() }, ..sound_operators() };
    let old = Facts { has_tensor_cores: Some(false), ..NVIDIA };
    assert_eq!(find(&Profile { operators: Some(operators), ..Profile::new("test") }, &old), []);
}

#[test]
fn fp16_wants_a_scaler() {
    assert_eq!(of_trace(|operators| operators.products.in_fp16 = 1), [Rule::NoLossScaler]);
    assert_eq!(of_trace(|operators| (operators.products.in_fp16, operators.products.has_loss_scaler) = (1, true)), []);
    assert_eq!(
        of_trace(|operators| (operators.products.in_fp16, operators.products.has_backward) = (1, false)),
        [],
        "inference"
    );
}

#[test]
fn pageable_copies_are_told_by_their_time() {
    let copies = |kind: &str, seconds| {
        of_trace(|operators| {
            operators.copies = vec![CopyKind { kind: kind.to_owned(), calls: 10, bytes: 1e9, seconds }];
        })
    };
    assert_eq!(copies("HtoD pageable", 1.1), [Rule::PageableCopies]);
    assert_eq!(copies("HtoD pageable", 0.9), []);
    assert_eq!(copies("HtoD pinned", 5.0), []);
}

#[test]
fn waiting_in_every_step_is_told() {
    assert_eq!(of_trace(|operators| operators.synchronisations = 21), [Rule::Synchronisation]);
    assert_eq!(of_trace(|operators| operators.synchronisations = 20), []);
}

#[test]
fn communication_that_nothing_hides_is_told() {
    assert_eq!(of_trace(|operators| operators.exposed_communication_seconds = 10.1), [Rule::ExposedCommunication]);
    assert_eq!(of_trace(|operators| operators.exposed_communication_seconds = 9.9), []);
}

#[test]
fn the_dearest_finding_comes_first_and_no_share_is_absurd() {
    let mut usage = sound_usage();
    busy(&mut usage, 0.30);
    usage.gpus.iter_mut().for_each(|gpu| (gpu.throttled_by_heat, gpu.clock_mean_mhz) = (Some(0.9), Some(1700.0)));
    let found = find(&Profile { usage: Some(usage), ..Profile::new("test") }, &NVIDIA);
    assert_eq!(
        found.iter().map(|finding| finding.rule).collect::<Vec<_>>(),
        [Rule::HostBound, Rule::ThrottledByHeat, Rule::MemoryFullButIdle]
    );
    assert!(matches!(found[0].mended, Mended::Step { left } if (left - 0.30 / 0.95).abs() < 1e-12));
}
