//! Collectives inside one machine or NVLink domain.

use gpuplan_units::{Bytes, Seconds};

use crate::kernels::names::{Collective, Library, Part};
use crate::kernels::table::KernelTable;

impl KernelTable {
    /// Of a message as nccl-tests counts it: the buffer that is reduced, the whole that is gathered, what is scattered before it
    /// is, and all that one GPU sends. `None` for more GPUs than were measured: they may stand in two machines.
    pub fn collective_seconds(
        &self,
        library: Library,
        operation: Collective,
        gpus: u32,
        message: Bytes,
    ) -> Option<Seconds> {
        let surface = self.packed.surface(Part::Collective(library, operation))?;
        let gpus = f64::from(gpus);
        (gpus <= surface.last_middle() * 1.001).then(|| Seconds(surface.seconds(0.0, gpus, message.0)))
    }
}
