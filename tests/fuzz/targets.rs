//! One function for each parser of text that others wrote: what it accepts has to make sense, and nothing may panic.
//! `fuzz_targets/` hands them to libFuzzer; `tests/fuzz.rs` replays the corpus through them.

mod money;
mod runs;

use std::fmt::Debug;
use std::sync::LazyLock;

use gpuplan::hardware::Hardware;
use gpuplan::workload::Models;
use jiff::Timestamp;

pub use money::{bill, bill_parquet, capacity, catalog_table, cloud_answer, policy, portfolio, prices, quantities};
pub use runs::{availability_trace, calibration, estimate_case, huggingface_config, manifest, profile, profiler_trace};
pub use runs::{run_document, shell_job, workload, yaml_job};

/// Reads any bytes, and panics where what it read is not true.
type Target = fn(&[u8]);

/// Every target by its name, which is also that of its file in `fuzz_targets/` and of its folder in `corpus/`.
pub const TARGETS: [(&str, Target); 20] = [
    ("availability_trace", availability_trace),
    ("bill", bill),
    ("bill_parquet", bill_parquet),
    ("calibration", calibration),
    ("capacity", capacity),
    ("catalog_table", catalog_table),
    ("cloud_answer", cloud_answer),
    ("estimate_case", estimate_case),
    ("huggingface_config", huggingface_config),
    ("manifest", manifest),
    ("policy", policy),
    ("portfolio", portfolio),
    ("prices", prices),
    ("profile", profile),
    ("profiler_trace", profiler_trace),
    ("quantities", quantities),
    ("run_document", run_document),
    ("shell_job", shell_job),
    ("workload", workload),
    ("yaml_job", yaml_job),
];

static HARDWARE: LazyLock<Hardware> =
    LazyLock::new(|| Hardware::embedded().expect("tests/catalogs.rs reads the embedded catalog"));

static MODELS: LazyLock<Models> =
    LazyLock::new(|| Models::embedded().expect("tests/catalogs.rs reads the embedded catalog"));

fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

fn now() -> Timestamp {
    Timestamp::from_second(1_795_000_000).expect("a second of 2026")
}

/// By what they print: a number that is none is not equal to itself.
fn assert_same(one: &impl Debug, other: &impl Debug, what: &str) {
    assert_eq!(format!("{one:?}"), format!("{other:?}"), "{what}");
}

/// A line of an error lies in the text, or just behind its end.
fn assert_line(line: usize, text: &str) {
    assert!((1..=text.matches('\n').count() + 1).contains(&line), "line {line} of {text:?}");
}
