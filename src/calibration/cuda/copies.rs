//! Copies between host and GPU, from pinned and from pageable memory, and from one GPU to the next.

use std::ffi::c_void;

use cudarc::driver::{result, sys};

use crate::cuda::refusals::refused;
use crate::cuda::session::{Memory, Session};
use crate::device::Waived;

/// Memory of the host: locked by the driver, or as any program has it.
pub enum HostMemory {
    Pinned { at: *mut c_void, bytes: usize },
    Pageable(Vec<u8>),
}

impl HostMemory {
    pub fn new(pinned: bool, bytes: u64) -> Result<Self, Waived> {
        let bytes = bytes as usize;
        if !pinned {
            // Written once, so that every page is there.
            return Ok(Self::Pageable(vec![0x3F; bytes]));
        }
        // SAFETY: a context is current; flags of zero ask for plain locked memory, not for write-combined.
        let at = unsafe { result::malloc_host(bytes, 0) }.map_err(refused("cuMemHostAlloc"))?;
        // SAFETY: the driver gave `bytes` bytes there.
        unsafe { at.cast::<u8>().write_bytes(0x3F, bytes) };
        Ok(Self::Pinned { at, bytes })
    }

    fn slice(&mut self) -> &mut [u8] {
        match self {
            // SAFETY: `new` got and wrote as many bytes, and nobody else has the address.
            Self::Pinned { at, bytes } => unsafe { std::slice::from_raw_parts_mut((*at).cast(), *bytes) },
            Self::Pageable(bytes) => bytes,
        }
    }

    /// Puts a copy into the stream; one from pageable memory ends before this returns.
    pub fn copy(&mut self, session: &Session, device: &Memory, to_device: bool) -> Result<(), Waived> {
        // SAFETY: both sides have the size of the host's memory, and both live until the stream was waited for.
        let copied = unsafe {
            if to_device {
                result::memcpy_htod_async(device.at, self.slice(), session.stream)
            } else {
                result::memcpy_dtoh_async(self.slice(), device.at, session.stream)
            }
        };
        copied.map_err(refused("cuMemcpyAsync"))
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let Self::Pinned { at, .. } = self {
            // SAFETY: allocated by `new` and freed once.
            let _ = unsafe { result::free_host(*at) };
        }
    }
}

/// Two GPUs with memory on both.
pub struct Peers {
    pub from: Memory,
    to: Memory,
    other: Session,
}

impl Peers {
    /// Leaves the first session current.
    pub fn new(first: &Session, bytes: u64) -> Result<Self, Waived> {
        first.enter()?;
        let from = Memory::new(bytes)?;
        let other = Session::open(1)?;
        let to = Memory::new(bytes);
        open_way(first);
        first.enter()?;
        open_way(&other);
        Ok(Self { from, to: to?, other })
    }

    pub fn copy(&self, first: &Session, bytes: u64) -> Result<(), Waived> {
        // SAFETY: each address belongs to its context and has at least `bytes` bytes.
        let copied = unsafe {
            result::memcpy_peer_async(
                self.other.context,
                self.to.at,
                first.context,
                self.from.at,
                bytes as usize,
                first.stream,
            )
        };
        copied.map_err(refused("cuMemcpyPeerAsync"))
    }
}

/// Lets the current GPU reach the memory of another one directly. Where that cannot be, copies go through the host, and the
/// figure shows it.
fn open_way(other: &Session) {
    // SAFETY: both contexts are alive. A refusal (no way, or open already) is no failure.
    let _ = unsafe { sys::cuCtxEnablePeerAccess(other.context, 0) };
}
