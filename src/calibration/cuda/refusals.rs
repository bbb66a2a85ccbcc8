//! What the driver's errors mean, and what to do about them.

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

use crate::device::Waived;

/// A call that the driver refused.
pub fn refused(call: &str) -> impl Fn(DriverError) -> Waived + '_ {
    move |error| Waived(words(call, error.0))
}

/// In words where they are known, always with the driver's own (`cuda.h`, `CUresult`).
pub fn words(call: &str, code: CUresult) -> String {
    let meaning = match code {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => "the GPU has too little free memory for it",
        CUresult::CUDA_ERROR_ECC_UNCORRECTABLE => {
            "the GPU's memory has an error that cannot be corrected: reset the card, and exchange it if that comes again"
        }
        CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE => {
            "another program has the GPU for itself: wait for it, or allow several with `nvidia-smi -c 0`"
        }
        CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
            "the parts of the driver have different versions: restart the machine"
        }
        CUresult::CUDA_ERROR_LAUNCH_FAILED
        | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
        | CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
        | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR => {
            "a kernel failed, and the GPU runs nothing more for this program: `dmesg` has the driver's Xid"
        }
        CUresult::CUDA_ERROR_UNKNOWN | CUresult::CUDA_ERROR_NOT_INITIALIZED | CUresult::CUDA_ERROR_DEINITIALIZED => {
            "the driver has lost the GPU: `dmesg` has its Xid; restart the machine"
        }
        _ => return format!("{call}: {code:?}"),
    };
    format!("{meaning} ({call}: {code:?})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_its_meaning_and_the_driver_s_word() {
        let why = refused("cuMemAlloc")(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)).0;
        assert_eq!(why, "the GPU has too little free memory for it (cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY)");
        assert_eq!(words("cuX", CUresult::CUDA_ERROR_INVALID_IMAGE), "cuX: CUDA_ERROR_INVALID_IMAGE");
    }
}
