//! The last sample in the text format of Prometheus, as node_exporter's textfile collector takes it up.

use std::fmt::Write as _;

use crate::exports::metrics::metrics;
use crate::samples::Sample;

/// The whole file ("Exposition formats", text-based format, version 0.0.4): help and type before all values of a name.
pub fn text(sample: &Sample) -> String {
    let all = metrics(sample);
    let mut names: Vec<&str> = Vec::new();
    let mut text = String::new();
    for metric in &all {
        if names.contains(&metric.name) {
            continue;
        }
        names.push(metric.name);
        let _ = writeln!(text, "# HELP {} {}", metric.name, metric.help);
        let _ = writeln!(text, "# TYPE {} gauge", metric.name);
        for each in all.iter().filter(|each| each.name == metric.name) {
            let label = each.gpu.map_or(String::new(), |gpu| format!("{{gpu=\"{gpu}\"}}"));
            let _ = writeln!(text, "{}{label} {}", each.name, each.value);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exports::metrics::example;

    #[test]
    fn every_name_is_explained_once() {
        let text = text(&example());
        assert!(text.contains(
            "# TYPE gpuplan_gpu_busy_ratio gauge\ngpuplan_gpu_busy_ratio{gpu=\"0\"} 0.5\ngpuplan_gpu_busy_ratio{gpu=\"1\"} 0.5\n"
        ));
        assert_eq!(text.matches("# HELP gpuplan_step ").count(), 1);
        assert!(text.contains("\ngpuplan_step 7\n") && text.ends_with('\n'));
    }
}
