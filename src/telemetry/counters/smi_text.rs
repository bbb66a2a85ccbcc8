//! What `nvidia-smi` prints: a line of counters for a GPU, and the matrix of links.

use crate::samples::GpuSample;
use gpuplan_workload::profile::Links;

/// Asked of `nvidia-smi --query-gpu`, in this order (`nvidia-smi --help-query-gpu`).
const FIELDS: &str = "index,name,utilization.gpu,utilization.memory,memory.used,memory.total,power.draw,power.limit,\
    temperature.gpu,clocks.sm,clocks.max.sm";
/// The last field has a name that drivers before 535 know, and a newer one.
const REASONS: [&str; 2] = ["clocks_throttle_reasons.active", "clocks_event_reasons.active"];
/// Cells of a line.
const CELLS: usize = 12;

/// What to ask for, the way that more drivers understand first.
pub fn queries() -> [String; 2] {
    REASONS.map(|reasons| format!("{FIELDS},{reasons}"))
}

/// How `nvidia-smi` says that its driver does not know a field.
pub fn refuses_a_field(text: &str) -> bool {
    text.contains("is not a valid field to query")
}

const MIB: f64 = 1_048_576.0;

/// A line of `--format=csv,noheader,nounits`; `None` for anything else, such as an error. What a GPU does not tell stands as
/// `[N/A]` or `[Not Supported]`.
pub fn parse_sample(text: &str) -> Option<GpuSample> {
    let cells: Vec<&str> = text.split(',').map(str::trim).collect();
    if cells.len() != CELLS {
        return None;
    }
    let number = |at: usize| cells[at].parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
    let share = |at: usize| number(at).filter(|percent| *percent <= 100.0).map(|percent| percent / 100.0);
    Some(GpuSample {
        index: cells[0].parse().ok()?,
        name: cells[1].to_owned(),
        busy: share(2),
        memory_bus_busy: share(3),
        memory_used_bytes: number(4).map(|mib| mib * MIB),
        memory_total_bytes: number(5).map(|mib| mib * MIB),
        power_watts: number(6),
        power_limit_watts: number(7),
        temperature_celsius: number(8),
        clock_mhz: number(9),
        clock_max_mhz: number(10),
        throttle_reasons: cells[11].strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok()),
        ..GpuSample::default()
    })
}

/// The matrix of `nvidia-smi topo -m`: `NV18` is eighteen NVLinks, the others (`PIX`, `PXB`, `PHB`, `NODE`, `SYS`) are ways
/// over PCIe. `None` where no pair of GPUs is in it.
pub fn parse_links(text: &str) -> Option<Links> {
    let mut links = Links::default();
    let mut gpus = 0;
    for row in text.lines() {
        let mut cells = row.split_whitespace();
        let Some(index) =
            cells.next().and_then(|name| name.strip_prefix("GPU")).and_then(|digits| digits.parse::<usize>().ok())
        else {
            continue;
        };
        // The heading begins with the name of the first GPU, too, but goes on with the second.
        let cells: Vec<&str> = cells.collect();
        if cells.get(index).copied() != Some("X") {
            continue;
        }
        gpus += 1;
        // Each pair once: what stands left of the diagonal.
        for cell in &cells[..index] {
            if cell.starts_with("NV") { links.nvlink_pairs += 1 } else { links.pcie_pairs += 1 }
        }
    }
    (gpus > 1).then_some(links)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_of_counters_is_read() {
        let gpu = parse_sample(
            "0, NVIDIA H100 80GB HBM3, 97, 61, 71234, 81559, 689.12, 700.00, 66, 1755, 1980, 0x0000000000000004",
        )
        .unwrap();
        assert_eq!(
            (gpu.index, gpu.busy, gpu.memory_bus_busy, gpu.power_watts),
            (0, Some(0.97), Some(0.61), Some(689.12))
        );
        assert_eq!((gpu.memory_total_bytes, gpu.throttle_reasons), (Some(81_559.0 * MIB), Some(4)));
        let gpu =
            parse_sample("1, Tesla M60, [N/A], [N/A], 0, 7613, [Not Supported], [N/A], 31, 405, 1177, [N/A]").unwrap();
        assert_eq!((gpu.busy, gpu.power_watts, gpu.throttle_reasons), (None, None, None));
        for text in [
            "",
            "No devices were found",
            "NVIDIA-SMI has failed, because, it, could, not, communicate, a, b, c, d, e, f",
        ] {
            assert_eq!(parse_sample(text), None, "{text}");
        }
    }

    #[test]
    fn as_many_fields_are_asked_as_are_read() {
        assert!(queries().iter().all(|query| query.split(',').count() == CELLS && !query.contains(' ')));
        assert!(refuses_a_field("Field \"clocks_throttle_reasons.active\" is not a valid field to query."));
    }

    #[test]
    fn the_matrix_of_links_is_read() {
        let text = "\tGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\nGPU0\t X \tNV18\tPHB\tPIX\t0-51\nGPU1\tNV18\t X \tSYS\tPXB\t0-51\n\
            GPU2\tPHB\tSYS\t X \tSYS\t52-103\nNIC0\tPIX\tPXB\tSYS\t X\n\nLegend:\n\n  X    = Self\n";
        assert_eq!(parse_links(text), Some(Links { nvlink_pairs: 1, pcie_pairs: 2 }));
        assert_eq!(parse_links("\tGPU0\tCPU Affinity\nGPU0\t X \t0-15\n"), None);
    }

    proptest! {
        #[test]
        fn a_line_of_any_cells_has_only_what_can_be(cells in proptest::collection::vec("[0-9]{1,4}|-?[0-9.]{1,8}|[^,]{0,10}", 10..14)) {
            let text = cells.join(",");
            let index = cells[0].trim().parse::<u32>().ok().filter(|_| cells.len() == CELLS);
            let read = parse_sample(&text);
            prop_assert_eq!(read.as_ref().map(|gpu| gpu.index), index, "{}", text);
            if let Some(gpu) = read {
                prop_assert!([gpu.busy, gpu.memory_bus_busy].into_iter().flatten().all(|share| (0.0..=1.0).contains(&share)), "{gpu:?}");
                let amounts = [gpu.memory_used_bytes, gpu.memory_total_bytes, gpu.power_watts, gpu.temperature_celsius, gpu.clock_mhz];
                prop_assert!(amounts.into_iter().flatten().all(|amount| amount.is_finite() && amount >= 0.0), "{gpu:?}");
            }
        }

        #[test]
        fn every_pair_of_a_matrix_counts_once(gpus in 0_usize..6, ways in proptest::collection::vec("NV[0-9]{1,2}|PIX|PXB|PHB|NODE|SYS", 36)) {
            let way = |one: usize, other: usize| if one == other { "X" } else { &ways[one.max(other) * 6 + one.min(other)] };
            let row = |one: usize| format!("GPU{one}\t{}\t0-51", (0..gpus).map(|other| way(one, other)).collect::<Vec<_>>().join("\t"));
            let heading = (0..gpus).map(|gpu| format!("\tGPU{gpu}")).collect::<Vec<_>>().concat();
            let text = (0..gpus).fold(heading, |text, gpu| text + "\n" + &row(gpu));
            let pairs = (0..gpus).flat_map(|one| (0..one).map(move |other| (one, other)));
            let nvlink_pairs = pairs.clone().filter(|(one, other)| way(*one, *other).starts_with("NV")).count() as u32;
            let pcie_pairs = pairs.count() as u32 - nvlink_pairs;
            prop_assert_eq!(parse_links(&text), (gpus > 1).then_some(Links { nvlink_pairs, pcie_pairs }), "{}", text);
        }

        #[test]
        fn text_without_two_rows_has_no_links(text in "\\PC*") {
            prop_assert_eq!(parse_links(&text), None);
        }
    }
}
