//! `Session`: one GPU's context, stream, clock and memory, given back when it ends.

use std::ffi::c_uint;
use std::ptr::null_mut;

use cudarc::driver::result::{self, ctx, device, event, primary_ctx, stream};
use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUevent_flags, CUresult, CUstream,
};
use libloading::Library;

use crate::cuda::refusals::refused;
use crate::device::Waived;

/// Calls in a row of one sample at most: a launch takes some microseconds, and a sample some milliseconds.
const MOST_CALLS: f64 = 20_000.0;

/// Device memory, freed with the value. Its context must outlive it.
pub struct Memory {
    pub at: CUdeviceptr,
    pub bytes: u64,
}

impl Memory {
    /// On the device of the current context.
    pub fn new(bytes: u64) -> Result<Self, Waived> {
        // SAFETY: a context is current; nothing reads the memory before it is written, but as numbers of any value.
        let at = unsafe { result::malloc_sync(bytes.max(256) as usize) };
        Ok(Self { at: at.map_err(refused("cuMemAlloc"))?, bytes })
    }
}

/// Memory of another size in place of what is held, which goes first, since both might not fit. If the new one does not fit, one of the
/// former size takes its place, for what was prepared in it; what it held is lost in either case.
pub fn resize(held: &mut Option<Memory>, bytes: u64) -> Result<(), Waived> {
    let former = held.take().map(|memory| memory.bytes);
    match Memory::new(bytes) {
        Ok(memory) => {
            *held = Some(memory);
            Ok(())
        }
        Err(why) => {
            *held = former.and_then(|bytes| Memory::new(bytes).ok());
            Err(why)
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` and freed once. A failure here has nobody to tell.
        let _ = unsafe { result::free_sync(self.at) };
    }
}

type ElapsedTime = unsafe extern "C" fn(*mut f32, CUevent, CUevent) -> CUresult;

pub struct Session {
    device: CUdevice,
    pub context: CUcontext,
    pub stream: CUstream,
    begin: CUevent,
    end: CUevent,
    /// Bound by hand: its successor in the bindings is missing from drivers before 12.8.
    elapsed: ElapsedTime,
    pub multiprocessors: u32,
}

impl Session {
    /// The driver is present and initialised. `ordinal` counts the GPUs that it lists.
    pub fn open(ordinal: i32) -> Result<Self, Waived> {
        let elapsed = elapsed_time()?;
        let device = device::get(ordinal).map_err(refused("cuDeviceGet"))?;
        // SAFETY: `device` is a device of the driver.
        let count =
            unsafe { device::get_attribute(device, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) };
        let multiprocessors = count.map_err(refused("cuDeviceGetAttribute"))?.unsigned_abs();
        // SAFETY: `device` is a device of the driver; the context is released in `drop`.
        let context = unsafe { primary_ctx::retain(device) }.map_err(refused("cuDevicePrimaryCtxRetain"))?;
        // From here on `drop` gives back what was made, also where the next call is refused.
        let (stream, begin, end) = (null_mut(), null_mut(), null_mut());
        let mut session = Self { device, context, stream, begin, end, elapsed, multiprocessors };
        session.enter()?;
        session.stream = stream::create(stream::StreamKind::NonBlocking).map_err(refused("cuStreamCreate"))?;
        let event = || event::create(CUevent_flags::CU_EVENT_DEFAULT).map_err(refused("cuEventCreate"));
        session.begin = event()?;
        session.end = event()?;
        Ok(session)
    }

    /// Calls of this session go to its GPU from now on.
    pub fn enter(&self) -> Result<(), Waived> {
        // SAFETY: the context is retained for as long as the session lives.
        unsafe { ctx::set_current(self.context) }.map_err(refused("cuCtxSetCurrent"))
    }

    pub fn wait(&self) -> Result<(), Waived> {
        // SAFETY: the stream is the session's own.
        unsafe { stream::synchronize(self.stream) }.map_err(refused("cuStreamSynchronize"))
    }

    /// Mean seconds of a call, over as many in a row as fill `least_seconds`.
    pub fn time(&self, least_seconds: f64, call: &mut dyn FnMut() -> Result<(), Waived>) -> Result<f64, Waived> {
        let one = self.time_of(1, call)?;
        if one >= least_seconds {
            return Ok(one);
        }
        // A single call carries the start of the clock as well, so this fills a little less than asked.
        let calls = (least_seconds / one.max(1e-7)).ceil().clamp(2.0, MOST_CALLS);
        self.time_of(calls as u32, call)
    }

    fn time_of(&self, calls: u32, call: &mut dyn FnMut() -> Result<(), Waived>) -> Result<f64, Waived> {
        // SAFETY: events and stream are the session's own.
        unsafe { event::record(self.begin, self.stream) }.map_err(refused("cuEventRecord"))?;
        for _ in 0..calls {
            call()?;
        }
        // SAFETY: as above; the second call waits until the event has passed, so the time between both is known.
        unsafe {
            event::record(self.end, self.stream).map_err(refused("cuEventRecord"))?;
            event::synchronize(self.end).map_err(refused("cuEventSynchronize"))?;
        }
        let mut milliseconds = 0.0_f32;
        // SAFETY: both events were recorded and have passed.
        let status = unsafe { (self.elapsed)(&raw mut milliseconds, self.begin, self.end) };
        status.result().map_err(refused("cuEventElapsedTime"))?;
        Ok(f64::from(milliseconds) / 1e3 / f64::from(calls))
    }

    /// Blocks of a grid that keep every multiprocessor busy with a loop over its data.
    pub fn blocks(&self) -> c_uint {
        self.multiprocessors * 16
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: all were made by `open` and are used no more; failures at the end have nobody to tell.
        unsafe {
            for made in [self.begin, self.end].into_iter().filter(|made| !made.is_null()) {
                let _ = event::destroy(made);
            }
            if !self.stream.is_null() {
                let _ = stream::destroy(self.stream);
            }
            let _ = primary_ctx::release(self.device);
        }
    }
}

fn elapsed_time() -> Result<ElapsedTime, Waived> {
    // SAFETY: the driver is loaded already; this opens it once more and leaves it open.
    let driver = unsafe { Library::new("libcuda.so.1") }.map_err(|error| Waived(error.to_string()))?;
    let driver: &'static Library = Box::leak(Box::new(driver));
    // SAFETY: the type is that of `cuda.h`, unchanged since CUDA 2.
    let function = unsafe { driver.get::<ElapsedTime>(b"cuEventElapsedTime\0") };
    function.map(|function| *function).map_err(|error| Waived(error.to_string()))
}
