//! Integrity rules over the hardware catalog: what must hold in every row, checked by a command and by the tests.

use crate::catalog::Hardware;
use crate::gpu::Gpu;

/// A row that breaks a rule. `Error` must be mended; `Note` is true, odd and worth knowing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    pub row: String,
    pub rule: &'static str,
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Error,
    Note,
}

/// Every finding, in catalog order.
pub fn check(hardware: &Hardware) -> Vec<Finding> {
    let mut findings = Vec::new();
    for gpu in hardware.gpus() {
        check_gpu(gpu, hardware, &mut findings);
    }
    check_instances(hardware, &mut findings);
    findings
}

fn check_gpu(gpu: &Gpu, hardware: &Hardware, findings: &mut Vec<Finding>) {
    let mut report = |severity, rule, detail| findings.push(Finding { severity, row: gpu.id.clone(), rule, detail });
    let peaks = &gpu.peak_tflops;
    let near = |value: f64, wanted: f64, tolerance: f64| (value / wanted - 1.0).abs() <= tolerance;
    if let (Some(bf16), Some(tf32)) = (peaks.bf16, peaks.tf32)
        && !near(bf16, 2.0 * tf32, 0.03)
    {
        report(Severity::Note, "bf16 = 2 x tf32", format!("{bf16} against 2 x {tf32}"));
    }
    if let (Some(fp8), Some(bf16)) = (peaks.fp8, peaks.bf16)
        && !near(fp8, 2.0 * bf16, 0.02)
    {
        report(Severity::Note, "fp8 = 2 x bf16", format!("{fp8} against 2 x {bf16}"));
    }
    for (ceiling, peak) in [(gpu.matmul_ceiling_tflops.bf16, peaks.bf16), (gpu.matmul_ceiling_tflops.fp8, peaks.fp8)] {
        if let (Some(ceiling), Some(peak)) = (ceiling, peak)
            && ceiling > peak
        {
            report(Severity::Error, "measured <= peak", format!("{ceiling} TFLOP/s measured over a peak of {peak}"));
        }
    }
    // 1 GB on the box is 10^9 or 2^30 bytes, less what the driver keeps: between 0.90 and 1.08 of 10^9.
    let label_ratio = gpu.memory().gb() / gpu.memory_label_gb;
    if !(0.90..=1.08).contains(&label_ratio) {
        report(
            Severity::Error,
            "visible memory near the label",
            format!("{} MiB against {} GB", gpu.memory_visible_mib, gpu.memory_label_gb),
        );
    }
    if gpu.link != "none" && hardware.find_link(&gpu.link).is_none() {
        report(Severity::Error, "link exists", format!("`{}` is not in links.toml", gpu.link));
    }
    if gpu.evidence.is_empty() || gpu.as_of.is_empty() {
        report(Severity::Error, "source and date", "a row without a source or a date".to_owned());
    }
    if !gpu.unverified.is_empty() {
        report(Severity::Note, "unverified figures", gpu.unverified.join(", "));
    }
}

fn check_instances(hardware: &Hardware, findings: &mut Vec<Finding>) {
    for instance in hardware.instances() {
        let mut report = |severity, rule, detail| {
            findings.push(Finding { severity, row: format!("{}/{}", instance.cloud, instance.name), rule, detail });
        };
        let gpu = hardware.gpu(instance.node.gpu);
        // Count x memory each = total: a device's memory is the card's, or the slice's share of it.
        let expected = gpu.memory().0 * instance.node.card_share();
        let ratio = instance.node.gpu_memory.0 / expected;
        if !(0.93..=1.07).contains(&ratio) {
            let detail = format!(
                "{} a device against {:.1} GiB of {} x {}",
                instance.node.gpu_memory,
                expected / f64::from(1 << 30),
                instance.node.gpus,
                gpu.id
            );
            report(Severity::Error, "count x memory = total", detail);
        }
        if instance.vcpus == 0 {
            report(Severity::Note, "vCPUs not known", "the number of vCPUs is not known".to_owned());
        }
        if instance.source.is_empty() || instance.as_of.is_empty() {
            report(Severity::Error, "source and date", "a row without a source or a date".to_owned());
        }
    }
}
