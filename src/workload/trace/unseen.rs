//! `Unseen`: what a Chrome trace lacks, and how to record it.

use crate::trace::event::Number;

/// Where `torch.autograd.profiler` says that everything ran (`EventList.export_chrome_trace` in `torch/autograd/profiler_util.py`).
const LEGACY: &[u8] = b"\"CPU functions\"";
/// A driver may be loaded so that only administrators may look at its counters (NVIDIA, "ERR_NVGPUCTRPERM").
const RECORD_A_GPU: &str = "record whole steps with `activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]`; where that was so, \
                            the driver may keep its counters to administrators (`NVreg_RestrictProfilingToAdminUsers=0` opens them)";

#[derive(Debug, Default)]
pub struct Unseen {
    /// Of the runtime or the driver of a GPU.
    pub calls: u64,
    /// Work of the host and of devices on lines that are called the same.
    is_legacy: bool,
}

impl Unseen {
    /// An event without a category, of a process that is no number.
    pub fn uncategorised(&mut self, process: Number, json: &[u8]) {
        self.is_legacy |= process.0.is_none() && json.windows(LEGACY.len()).any(|part| part == LEGACY);
    }

    /// Of a trace without an operator, a kernel and a step.
    pub fn why_nothing(&self, events: u64) -> String {
        if self.is_legacy {
            "`torch.autograd.profiler` wrote it, whose events do not say where they ran: profile with \
             `torch.profiler.profile`, and export with its `export_chrome_trace`"
                .to_owned()
        } else if self.calls > 0 {
            format!("it has calls to a GPU ({}), and neither an operator nor a kernel: {RECORD_A_GPU}", self.calls)
        } else {
            format!(
                "none of its {events} events is an operator, a kernel or a step as the profilers of PyTorch, TensorFlow and JAX write them"
            )
        }
    }

    /// Of a trace of a host alone.
    pub fn device(&self, has_device: bool) -> Option<String> {
        (has_device || self.calls > 0)
            .then(|| format!("the machine has a GPU, and the trace nothing that ran on it: {RECORD_A_GPU}"))
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::read;

    const HEAD: &str = r#"{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100-PCIE-40GB", "totalGlobalMem": 42346610688}], "traceEvents": ["#;
    /// As a public trace of an A100 has it that was recorded around nothing.
    const CALL: &str = r#"{"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 3869528, "tid": 3869528, "ts": 4884379028972.798, "dur": 29.959, "args": {"External id": 18, "cbid": 165, "correlation": 18}}"#;
    const OPERATOR: &str =
        r#"{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": 21, "dur": 9}"#;

    #[test]
    fn a_gpu_of_which_nothing_was_recorded_is_told_how() {
        let error = read(format!("{HEAD}{CALL}]}}").as_bytes()).unwrap_err().detail;
        assert!(error.starts_with("it has calls to a GPU (1)") && error.contains("ProfilerActivity.CUDA"), "{error}");
        let notes = |text: &str| read(text.as_bytes()).unwrap().counted.notes.join("\n");
        let wanted = "the machine has a GPU, and the trace nothing that ran on it";
        assert!(notes(&format!("{HEAD}{OPERATOR}]}}")).contains(wanted));
        assert!(notes(&format!("[{OPERATOR}, {CALL}]")).contains(wanted));
        assert!(!notes(&format!("[{OPERATOR}]")).contains(wanted));
    }

    #[test]
    fn the_older_profiler_of_pytorch_is_named() {
        let text = r#"[{"name": "aten::relu_", "ph": "X", "ts": 3148168.913, "dur": 489.57, "tid": 1, "pid": "CPU functions", "args": {}}]"#;
        let error = read(text.as_bytes()).unwrap_err().detail;
        assert!(error.starts_with("`torch.autograd.profiler` wrote it"), "{error}");
    }
}
