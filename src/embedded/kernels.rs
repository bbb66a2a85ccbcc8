//! Measured times of kernels, a packed table for each GPU that has one: `benchmarks/kernels/`.

use crate::archive::{EmbeddedError, unpacked};
use crate::grid::KernelText;

/// The id of `catalogs/gpus.toml` and the packed table. Apart and not one archive: a plan reads those that it asks for.
pub static KERNELS: [(&str, &[u8]); 9] = [
    ("a100-sxm4-80", include_bytes!(concat!(env!("OUT_DIR"), "/a100-sxm4-80.bin"))),
    ("b200-sxm-180", include_bytes!(concat!(env!("OUT_DIR"), "/b200-sxm-180.bin"))),
    ("b300-sxm-288", include_bytes!(concat!(env!("OUT_DIR"), "/b300-sxm-288.bin"))),
    ("gb200-186", include_bytes!(concat!(env!("OUT_DIR"), "/gb200-186.bin"))),
    ("gb300-279", include_bytes!(concat!(env!("OUT_DIR"), "/gb300-279.bin"))),
    ("h100-sxm5-80", include_bytes!(concat!(env!("OUT_DIR"), "/h100-sxm5-80.bin"))),
    ("h200-sxm-141", include_bytes!(concat!(env!("OUT_DIR"), "/h200-sxm-141.bin"))),
    ("l40s", include_bytes!(concat!(env!("OUT_DIR"), "/l40s.bin"))),
    ("rtx-pro-6000-blackwell-se", include_bytes!(concat!(env!("OUT_DIR"), "/rtx-pro-6000-blackwell-se.bin"))),
];

/// The table of one of them.
pub fn kernel_text(packed: &[u8]) -> Result<KernelText, EmbeddedError> {
    postcard::from_bytes(&unpacked(packed)?)
        .map_err(|error| EmbeddedError::Damaged(format!("a table of kernels: {error}")))
}
