//! `Ring`: an all-reduce over every GPU of the machine through NCCL, from one thread.
//!
//! NCCL is bound by hand: its file name ends in a version of its own, which the bindings do not look for.

use std::ffi::{c_int, c_void};

use libloading::Library;

use crate::cuda::libraries::{COLLECTIVES, load};
use crate::cuda::session::{Memory, Session};
use crate::device::Waived;

/// `ncclBfloat16` and `ncclSum` of `nccl.h`.
const BFLOAT16: c_int = 9;
const SUM: c_int = 0;

type Communicator = *mut c_void;
type AllReduce =
    unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Communicator, *mut c_void) -> c_int;

/// The functions of `nccl.h` that are needed, under their own names.
#[allow(non_snake_case, reason = "names of NVIDIA's header")]
struct Nccl {
    ncclCommInitAll: unsafe extern "C" fn(*mut Communicator, c_int, *const c_int) -> c_int,
    ncclCommDestroy: unsafe extern "C" fn(Communicator) -> c_int,
    ncclAllReduce: AllReduce,
    ncclGroupStart: unsafe extern "C" fn() -> c_int,
    ncclGroupEnd: unsafe extern "C" fn() -> c_int,
}

impl Nccl {
    fn new(library: &'static Library) -> Result<Self, String> {
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the types are those of `nccl.h`, unchanged since NCCL 2.10, which brought bfloat16.
                *unsafe { library.get(concat!($name, "\0").as_bytes()) }.map_err(|error| error.to_string())?
            };
        }
        Ok(Self {
            ncclCommInitAll: function!("ncclCommInitAll"),
            ncclCommDestroy: function!("ncclCommDestroy"),
            ncclAllReduce: function!("ncclAllReduce"),
            ncclGroupStart: function!("ncclGroupStart"),
            ncclGroupEnd: function!("ncclGroupEnd"),
        })
    }
}

fn done(call: &str, status: c_int) -> Result<(), Waived> {
    if status == 0 { Ok(()) } else { Err(Waived(format!("{call}: ncclResult {status}"))) }
}

/// One communicator, stream and buffer a GPU; the first GPU's session keeps the clock and stands apart.
pub struct Ring {
    nccl: Nccl,
    communicators: Vec<Communicator>,
    buffers: Vec<Memory>,
    others: Vec<Session>,
}

impl Ring {
    /// Buffers of `bytes` on `gpus` GPUs. Leaves the first session current.
    pub fn new(first: &Session, gpus: u32, bytes: u64) -> Result<Self, Waived> {
        let nccl = load(COLLECTIVES, &[2]).and_then(Nccl::new).map_err(Waived)?;
        first.enter()?;
        // Dropped last where something fails on the way: buffers lie in the contexts of sessions.
        let mut others = Vec::new();
        let mut buffers = vec![Memory::new(bytes)?];
        for ordinal in 1..gpus {
            others.push(Session::open(ordinal as i32)?);
            buffers.push(Memory::new(bytes)?);
        }
        first.enter()?;
        let ordinals: Vec<c_int> = (0..gpus as c_int).collect();
        let mut communicators: Vec<Communicator> = vec![std::ptr::null_mut(); gpus as usize];
        // SAFETY: both lists have one entry a GPU; the GPUs' primary contexts are alive.
        let status = unsafe { (nccl.ncclCommInitAll)(communicators.as_mut_ptr(), gpus as c_int, ordinals.as_ptr()) };
        done("ncclCommInitAll", status)?;
        first.enter()?;
        Ok(Self { nccl, communicators, buffers, others })
    }

    /// Of one all-reduce. Bytes.
    pub fn largest(&self) -> u64 {
        self.buffers.iter().map(|buffer| buffer.bytes).min().unwrap_or(0)
    }

    /// Puts one sum of `bytes` of bf16 into every GPU's stream.
    pub fn all_reduce(&self, first: &Session, bytes: u64) -> Result<(), Waived> {
        let sessions = std::iter::once(first).chain(&self.others);
        // SAFETY: takes nothing; every group that is begun is ended.
        done("ncclGroupStart", unsafe { (self.nccl.ncclGroupStart)() })?;
        let mut asked = Ok(());
        for ((communicator, session), buffer) in self.communicators.iter().zip(sessions).zip(&self.buffers) {
            let (from, to, stream) = (buffer.at as *const c_void, buffer.at as *mut c_void, session.stream.cast());
            // SAFETY: communicator, stream and buffer belong to one GPU; a sum may be done in place.
            let status = unsafe {
                (self.nccl.ncclAllReduce)(from, to, (bytes / 2) as usize, BFLOAT16, SUM, *communicator, stream)
            };
            asked = asked.and_then(|()| done("ncclAllReduce", status));
        }
        // SAFETY: as above.
        let ended = done("ncclGroupEnd", unsafe { (self.nccl.ncclGroupEnd)() });
        asked.and(ended)
    }

    /// Until every GPU is done.
    pub fn wait(&self) -> Result<(), Waived> {
        self.others.iter().try_for_each(Session::wait)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for communicator in &self.communicators {
            // SAFETY: made by `new`, and every stream was waited for. A failure has nobody to tell.
            let _ = unsafe { (self.nccl.ncclCommDestroy)(*communicator) };
        }
    }
}
