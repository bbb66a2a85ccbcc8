//! Measured times of kernels, a packed table for each GPU that has one: `benchmarks/kernels/`.

use crate::archive::{EmbeddedError, unpacked};

/// The id of `catalogs/gpus.toml` and the table as it was committed. Apart and not one archive: a plan reads those that it asks for.
pub static KERNELS: [(&str, &[u8]); 9] = [
    ("a100-sxm4-80", include_bytes!("../../benchmarks/kernels/a100-sxm4-80.txt.zst")),
    ("b200-sxm-180", include_bytes!("../../benchmarks/kernels/b200-sxm-180.txt.zst")),
    ("b300-sxm-288", include_bytes!("../../benchmarks/kernels/b300-sxm-288.txt.zst")),
    ("gb200-186", include_bytes!("../../benchmarks/kernels/gb200-186.txt.zst")),
    ("gb300-279", include_bytes!("../../benchmarks/kernels/gb300-279.txt.zst")),
    ("h100-sxm5-80", include_bytes!("../../benchmarks/kernels/h100-sxm5-80.txt.zst")),
    ("h200-sxm-141", include_bytes!("../../benchmarks/kernels/h200-sxm-141.txt.zst")),
    ("l40s", include_bytes!("../../benchmarks/kernels/l40s.txt.zst")),
    ("rtx-pro-6000-blackwell-se", include_bytes!("../../benchmarks/kernels/rtx-pro-6000-blackwell-se.txt.zst")),
];

/// The text of a packed table.
pub fn kernels_text(packed: &[u8]) -> Result<String, EmbeddedError> {
    String::from_utf8(unpacked(packed)?).map_err(|error| EmbeddedError::Damaged(error.to_string()))
}
