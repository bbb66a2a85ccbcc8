//! `Kernels`: this program's own kernels on the GPU: random fill, streams, the memory-bound kernels of training.

use std::ffi::{CString, c_uint, c_void};

use cudarc::driver::result::{self, module};
use cudarc::driver::sys::{CUfunction, CUmodule};

use crate::benchmark::Kernel;
use crate::cuda::compiler::{Compiler, SOURCES};
use crate::cuda::refusals::refused;
use crate::cuda::session::Session;
use crate::device::Waived;
use gpuplan_hardware::NumberFormat;

/// Threads of a block; `training.cu` has the same number.
const THREADS: c_uint = 256;

pub struct Kernels {
    modules: Vec<CUmodule>,
}

/// One argument of a kernel, kept alive while its address is passed.
pub enum Argument {
    Pointer(u64),
    Wide(u64),
    Narrow(u32),
}

impl Argument {
    fn address(&mut self) -> *mut c_void {
        match self {
            Self::Pointer(value) | Self::Wide(value) => (&raw mut *value).cast(),
            Self::Narrow(value) => (&raw mut *value).cast(),
        }
    }
}

impl Kernels {
    /// Compiles for the GPU of the current context.
    pub fn new(compiler: &Compiler, capability: (u32, u32)) -> Result<Self, Waived> {
        // A module that was loaded goes with it where the next one is refused.
        let mut kernels = Self { modules: Vec::new() };
        for (_, source) in SOURCES {
            let code = compiler.compile(source, capability).map_err(Waived)?;
            // SAFETY: `code` is a whole image that the driver copies.
            let loaded = unsafe { module::load_data(code.as_ptr().cast()) };
            kernels.modules.push(loaded.map_err(refused("cuModuleLoadData"))?);
        }
        Ok(kernels)
    }

    pub fn function(&self, name: &str) -> Result<CUfunction, Waived> {
        let name = CString::new(name).map_err(|error| Waived(error.to_string()))?;
        // SAFETY: the modules live as long as `self`.
        let found = self.modules.iter().find_map(|module| unsafe { module::get_function(*module, name.clone()) }.ok());
        found.ok_or_else(|| Waived(format!("no kernel is called {}", name.to_string_lossy())))
    }

    /// Puts one launch into the stream.
    pub fn launch(
        session: &Session,
        function: CUfunction,
        blocks: c_uint,
        arguments: &mut [Argument],
    ) -> Result<(), Waived> {
        let mut addresses: Vec<*mut c_void> = arguments.iter_mut().map(Argument::address).collect();
        let (grid, block) = ((blocks.max(1), 1, 1), (THREADS, 1, 1));
        // SAFETY: the driver copies the arguments during the call; each kernel gets those of its source, in `arguments` order,
        // and memory of at least the size that it is told.
        unsafe { result::launch_kernel(function, grid, block, 0, session.stream, &mut addresses) }
            .map_err(refused("cuLaunchKernel"))
    }

    /// Random numbers of a format.
    pub fn fill(&self, session: &Session, at: u64, bytes: u64, format: NumberFormat) -> Result<(), Waived> {
        let kind = match format {
            NumberFormat::Fp32 | NumberFormat::Tf32 => 0,
            NumberFormat::Bf16 => 1,
            NumberFormat::Fp16 => 2,
            NumberFormat::Fp8 => 3,
            NumberFormat::Fp4 | NumberFormat::Int8 => {
                return Err(Waived("four-bit and integer products are not measured".to_owned()));
            }
        };
        let mut arguments =
            [Argument::Pointer(at), Argument::Wide(bytes / 4), Argument::Narrow(0x5EED), Argument::Narrow(kind)];
        Self::launch(session, self.function("fill")?, session.blocks(), &mut arguments)?;
        session.wait()
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        for module in &self.modules {
            // SAFETY: loaded by `new`, and no kernel of it runs any more. A failure has nobody to tell.
            let _ = unsafe { module::unload(*module) };
        }
    }
}

/// A training kernel with its launch: name, blocks and arguments over one stretch of memory that starts at `at`.
pub fn arguments(
    kernel: Kernel,
    rows: u64,
    columns: u64,
    at: u64,
    session: &Session,
) -> (&'static str, c_uint, Vec<Argument>) {
    let (pointer, wide, narrow) = (Argument::Pointer, Argument::Wide, Argument::Narrow);
    let values = rows * columns;
    // Every part starts where a group of eight 16-bit values may.
    let after = |bytes: u64| at + bytes.next_multiple_of(256);
    let groups = (columns / 8) as u32;
    match kernel {
        Kernel::Norm => ("rms_norm", rows as c_uint, vec![pointer(at), pointer(after(2 * values)), narrow(groups)]),
        Kernel::Activation | Kernel::Add => {
            let name = if kernel == Kernel::Add { "residual_add" } else { "swiglu" };
            let list =
                vec![pointer(at), pointer(after(2 * values)), pointer(after(4 * values) + 256), wide(values / 8)];
            (name, session.blocks(), list)
        }
        Kernel::CrossEntropy => {
            let list = vec![pointer(at), pointer(after(2 * values)), pointer(after(4 * values) + 256), narrow(groups)];
            ("cross_entropy", rows as c_uint, list)
        }
        Kernel::Optimizer => {
            let [first, second, gradient, weight] = [4, 8, 12, 14].map(|bytes| after(bytes * values));
            let list =
                vec![pointer(at), pointer(first), pointer(second), pointer(gradient), pointer(weight), wide(values)];
            ("adamw", session.blocks(), list)
        }
        Kernel::Reduction => ("row_sum", rows as c_uint, vec![pointer(at), pointer(after(2 * values)), narrow(groups)]),
    }
}
