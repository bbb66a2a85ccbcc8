//! `CudaDevice`: a `Device` made of a real GPU. What a library or chip cannot do is waived, one benchmark at a time.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use cudarc::driver::result::{device, graph, stream};
use cudarc::driver::sys::{self, CUdevice_attribute, CUgraphExec, CUgraphInstantiate_flags, CUstreamCaptureMode};

use crate::benchmark::{Pass, Work, bytes_of};
use crate::cuda::collectives::Ring;
use crate::cuda::compiler::Compiler;
use crate::cuda::copies::{HostMemory, Peers};
use crate::cuda::kernels::{Argument, Kernels, arguments};
use crate::cuda::libraries::{self, load};
use crate::cuda::local::local_gpus;
use crate::cuda::product::{Product, Products, Shape};
use crate::cuda::refusals::refused;
use crate::cuda::session::{Memory, Session, resize};
use crate::cuda::watch::{Watch, of_driver};
use crate::device::{Device, DeviceError, DeviceFacts, LocalGpu, Waived};
use crate::readings::Readings;
use gpuplan_hardware::NumberFormat;

/// Launches of an empty kernel in one graph.
const GRAPH_NODES: u32 = 100;
/// CUDA 13 dropped everything before Turing.
const FIRST_OF_CUDA_13: (u32, u32) = (7, 5);
/// Operands start where every library is content.
const ALIGNMENT: u64 = 256;

/// A piece of work that is ready to be called.
enum Ready {
    Product(Product),
    Attention {
        scores: Product,
        mixing: Product,
    },
    Graph(Graph),
    Host {
        memory: HostMemory,
        to_device: bool,
    },
    /// Kernels and what else needs no plan.
    Plain,
}

/// The parts stand in the order in which they may be dropped: what lies in a context goes before the session.
pub struct CudaDevice {
    ready: HashMap<Work, Ready>,
    ring: Option<Ring>,
    peers: Option<Peers>,
    /// Operands of each format, filled with random numbers.
    operands: HashMap<NumberFormat, Memory>,
    output: Option<Memory>,
    /// What the memory-bound kernels write over, apart from the operands of products.
    scratch: Option<Memory>,
    products: Result<Products, Waived>,
    kernels: Result<Kernels, Waived>,
    session: Session,
    watch: Watch,
    facts: DeviceFacts,
    begun: Instant,
}

impl CudaDevice {
    /// The first GPU that the driver lists.
    pub fn open() -> Result<Self, DeviceError> {
        let gpus = local_gpus()?;
        let first = gpus.first().ok_or(DeviceError::NoDevice)?;
        fenced(|| Self::open_first(first, gpus.len()))
            .map_err(|waived| DeviceError::Failed { call: "opening the GPU", detail: waived.0 })
    }

    fn open_first(gpu: &LocalGpu, gpus: usize) -> Result<Self, Waived> {
        let begun = Instant::now();
        let bus = bus_id()?;
        let watch = Watch::start(&bus);
        let session = Session::open(0)?;
        let driver = driver_version()?;
        let majors: &[u32] =
            if driver >= 13_000 && gpu.compute_capability >= FIRST_OF_CUDA_13 { &[13, 12] } else { &[12] };
        let mut versions = BTreeMap::from([("CUDA driver".to_owned(), version_text(driver))]);
        versions.extend(of_driver(&bus).map(|version| ("driver".to_owned(), version)));
        let kernels = load(libraries::COMPILER, majors).and_then(Compiler::new).map_err(Waived).and_then(|compiler| {
            versions.extend(compiler.version().map(|(major, minor)| ("NVRTC".to_owned(), format!("{major}.{minor}"))));
            Kernels::new(&compiler, gpu.compute_capability)
        });
        let products = load(libraries::PRODUCTS, majors).map_err(Waived).and_then(|_| {
            let products = fenced(Products::new)?;
            // SAFETY: takes nothing and gives a number.
            let version = unsafe { cudarc::cublaslt::sys::cublasLtGetVersion() };
            versions.insert("cuBLASLt".to_owned(), version.to_string());
            Ok(products)
        });
        let facts = DeviceFacts {
            name: gpu.name.clone(),
            memory_bytes: gpu.memory.0 as u64,
            compute_capability: gpu.compute_capability,
            gpus: gpus as u32,
            versions,
        };
        Ok(Self {
            ready: HashMap::new(),
            ring: None,
            peers: None,
            operands: HashMap::new(),
            output: None,
            scratch: None,
            products,
            kernels,
            session,
            watch,
            facts,
            begun,
        })
    }

    fn plan(&mut self, work: &Work) -> Result<Ready, Waived> {
        self.session.enter()?;
        match *work {
            Work::Matmul { m, n, k, format, pass } => {
                let bytes = operand_bytes(m * k, format) + operand_bytes(k * n, format);
                self.operands(format, bytes)?;
                self.output(m * n * (bytes_of(format) as u64).max(2))?;
                Ok(Ready::Product(Product::new(self.products()?, Shape { m, n, k, format, pass, batch: 1 })?))
            }
            Work::Attention { heads, sequence, head_size, format } => {
                if bytes_of(format) != 2.0 {
                    return Err(Waived("the softmax between the products is written for 16-bit values".to_owned()));
                }
                self.operands(format, 3 * operand_bytes(heads * sequence * head_size, format))?;
                // Scores, their softmax, and the mixed values.
                self.output(2 * heads * sequence * (2 * sequence + head_size) + 2 * ALIGNMENT)?;
                let scores =
                    Shape { m: sequence, n: sequence, k: head_size, format, pass: Pass::Forward, batch: heads };
                let mixing = Shape { n: head_size, k: sequence, pass: Pass::InputGradient, ..scores };
                let products = self.products()?;
                Ok(Ready::Attention {
                    scores: Product::new(products, scores)?,
                    mixing: Product::new(products, mixing)?,
                })
            }
            Work::Kernel { .. } | Work::Stream { .. } => {
                self.scratch(work.footprint() + 8 * ALIGNMENT)?;
                Ok(Ready::Plain)
            }
            Work::Launch { graph: false } => Ok(Ready::Plain),
            Work::Launch { graph: true } => self.graph().map(Ready::Graph),
            Work::HostCopy { to_device, pinned, bytes } => {
                self.output(bytes)?;
                Ok(Ready::Host { memory: HostMemory::new(pinned, bytes)?, to_device })
            }
            Work::PeerCopy { bytes } => {
                self.need_two()?;
                if self.peers.as_ref().is_none_or(|peers| peers.from.bytes < bytes) {
                    self.peers = Some(Peers::new(&self.session, bytes)?);
                }
                Ok(Ready::Plain)
            }
            Work::AllReduce { bytes } => {
                self.need_two()?;
                if self.ring.as_ref().is_none_or(|ring| ring.largest() < bytes) {
                    let held = self.ring.take().map(|ring| ring.largest());
                    let ring = |bytes| Ring::new(&self.session, self.facts.gpus, bytes);
                    match ring(bytes) {
                        Ok(made) => self.ring = Some(made),
                        Err(why) => {
                            self.ring = held.and_then(|bytes| ring(bytes).ok());
                            return Err(why);
                        }
                    }
                }
                Ok(Ready::Plain)
            }
        }
    }

    fn time(&mut self, work: &Work, least_seconds: f64) -> Result<f64, Waived> {
        self.session.enter()?;
        let Some(mut ready) = self.ready.remove(work) else { return Err(Waived("it was not prepared".to_owned())) };
        let seconds = self.time_ready(work, &mut ready, least_seconds);
        self.ready.insert(*work, ready);
        seconds
    }

    fn time_ready(&self, work: &Work, ready: &mut Ready, least_seconds: f64) -> Result<f64, Waived> {
        let session = &self.session;
        let operands = |format| self.operands.get(&format).map_or(0, |memory| memory.at);
        let out = self.output.as_ref().map_or(0, |memory| memory.at);
        let scratch = self.scratch.as_ref().map_or(0, |memory| memory.at);
        match (*work, ready) {
            (Work::Matmul { m, k, format, .. }, Ready::Product(product)) => {
                let first = operands(format);
                let second = first + operand_bytes(m * k, format);
                session.time(least_seconds, &mut || product.launch(self.products()?, session, first, second, out))
            }
            (Work::Attention { heads, sequence, head_size, format }, Ready::Attention { scores, mixing }) => {
                let first = operands(format);
                let each = operand_bytes(heads * sequence * head_size, format);
                let square = operand_bytes(heads * sequence * sequence, format);
                let (softened, mixed) = (out + square, out + 2 * square);
                let softmax = self.kernels()?.function("softmax")?;
                session.time(least_seconds, &mut || {
                    scores.launch(self.products()?, session, first, first + each, out)?;
                    let mut list =
                        [Argument::Pointer(out), Argument::Pointer(softened), Argument::Narrow((sequence / 8) as u32)];
                    Kernels::launch(session, softmax, (heads * sequence) as u32, &mut list)?;
                    mixing.launch(self.products()?, session, softened, first + 2 * each, mixed)
                })
            }
            (Work::Kernel { kernel, rows, columns }, Ready::Plain) => {
                let (name, blocks, mut list) = arguments(kernel, rows, columns, scratch, session);
                let function = self.kernels()?.function(name)?;
                session.time(least_seconds, &mut || Kernels::launch(session, function, blocks, &mut list))
            }
            (Work::Stream { writes, bytes }, Ready::Plain) => {
                let at = scratch;
                let to = if writes { at + bytes.next_multiple_of(ALIGNMENT) } else { at };
                let function = self.kernels()?.function(if writes { "stream_copy" } else { "stream_read" })?;
                let mut list = [Argument::Pointer(at), Argument::Pointer(to), Argument::Wide(bytes / 16)];
                session.time(least_seconds, &mut || Kernels::launch(session, function, session.blocks(), &mut list))
            }
            (Work::Launch { .. }, Ready::Plain) => {
                let function = self.kernels()?.function("empty")?;
                session.time(least_seconds, &mut || Kernels::launch(session, function, 1, &mut []))
            }
            (Work::Launch { .. }, Ready::Graph(whole)) => {
                // SAFETY: the graph was instantiated in this context and lives until the device is dropped.
                let mut call = || unsafe { graph::launch(whole.0, session.stream) }.map_err(refused("cuGraphLaunch"));
                Ok(session.time(least_seconds, &mut call)? / f64::from(GRAPH_NODES))
            }
            (Work::HostCopy { .. }, Ready::Host { memory, to_device }) => {
                let device = self.output.as_ref().ok_or_else(|| Waived("no memory was prepared".to_owned()))?;
                session.time(least_seconds, &mut || memory.copy(session, device, *to_device))
            }
            (Work::PeerCopy { bytes }, Ready::Plain) => {
                let peers = self.peers.as_ref().ok_or_else(|| Waived("no peer was prepared".to_owned()))?;
                session.time(least_seconds, &mut || peers.copy(session, bytes))
            }
            (Work::AllReduce { bytes }, Ready::Plain) => {
                let ring = self.ring.as_ref().ok_or_else(|| Waived("no ring was prepared".to_owned()))?;
                let seconds = session.time(least_seconds, &mut || ring.all_reduce(session, bytes));
                ring.wait()?;
                seconds
            }
            _ => Err(Waived("it was prepared as something else".to_owned())),
        }
    }

    /// Where the operands of a format and the last result lie.
    #[cfg(test)]
    pub fn memory_of(&self, format: NumberFormat) -> (u64, u64) {
        let at = |memory: Option<&Memory>| memory.map_or(0, |memory| memory.at);
        (at(self.operands.get(&format)), at(self.output.as_ref()))
    }

    fn products(&self) -> Result<&Products, Waived> {
        self.products.as_ref().map_err(Clone::clone)
    }

    fn kernels(&self) -> Result<&Kernels, Waived> {
        self.kernels.as_ref().map_err(Clone::clone)
    }

    fn need_two(&self) -> Result<(), Waived> {
        if self.facts.gpus < 2 { Err(Waived("one GPU has no other to talk to".to_owned())) } else { Ok(()) }
    }

    /// Random numbers of a format, at least so many bytes of them.
    fn operands(&mut self, format: NumberFormat, bytes: u64) -> Result<(), Waived> {
        if self.operands.get(&format).is_some_and(|memory| memory.bytes >= bytes) {
            return Ok(());
        }
        self.session.wait()?;
        let mut held = self.operands.remove(&format);
        let resized = resize(&mut held, bytes);
        if let Some(memory) = held {
            self.kernels()?.fill(&self.session, memory.at, memory.bytes, format)?;
            self.operands.insert(format, memory);
        }
        resized
    }

    fn scratch(&mut self, bytes: u64) -> Result<(), Waived> {
        if self.scratch.as_ref().is_none_or(|memory| memory.bytes < bytes) {
            self.session.wait()?;
            let resized = resize(&mut self.scratch, bytes);
            if let Some(memory) = &self.scratch {
                self.kernels()?.fill(&self.session, memory.at, memory.bytes, NumberFormat::Bf16)?;
            }
            return resized;
        }
        Ok(())
    }

    fn output(&mut self, bytes: u64) -> Result<(), Waived> {
        if self.output.as_ref().is_none_or(|memory| memory.bytes < bytes) {
            self.session.wait()?;
            return resize(&mut self.output, bytes);
        }
        Ok(())
    }

    /// Empty kernels, captured once.
    fn graph(&self) -> Result<Graph, Waived> {
        let function = self.kernels()?.function("empty")?;
        let stream = self.session.stream;
        // SAFETY: the stream is the session's own and idle; every capture that is begun is ended; the graph may go once it is
        // instantiated.
        unsafe {
            let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            stream::begin_capture(stream, mode).map_err(refused("cuStreamBeginCapture"))?;
            let launched = (0..GRAPH_NODES).try_for_each(|_| Kernels::launch(&self.session, function, 1, &mut []));
            let captured = stream::end_capture(stream).map_err(refused("cuStreamEndCapture"))?;
            let whole = launched.and_then(|()| {
                graph::instantiate(captured, CUgraphInstantiate_flags(0)).map_err(refused("cuGraphInstantiate"))
            });
            let _ = graph::destroy(captured);
            whole.map(Graph)
        }
    }
}

impl Device for CudaDevice {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn prepare(&mut self, work: &Work) -> Result<(), Waived> {
        let ready = fenced(|| self.plan(work))?;
        self.ready.insert(*work, ready);
        // Once to load the code, once more to see that it works warm.
        fenced(|| self.time(work, 0.0))?;
        fenced(|| self.time(work, 0.0)).map(|_| ())
    }

    fn sample(&mut self, work: &Work, least_seconds: f64) -> Result<f64, Waived> {
        fenced(|| self.time(work, least_seconds))
    }

    fn elapsed(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn readings(&mut self) -> Readings {
        self.watch.readings()
    }
}

impl Drop for CudaDevice {
    /// Nothing may run any more when the parts go.
    fn drop(&mut self) {
        let _ = self.session.wait();
    }
}

/// An instantiated graph.
struct Graph(CUgraphExec);

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: instantiated by `CudaDevice::graph`, and its stream was waited for.
        let _ = unsafe { graph::exec_destroy(self.0) };
    }
}

fn operand_bytes(elements: u64, format: NumberFormat) -> u64 {
    ((elements as f64 * bytes_of(format)) as u64).next_multiple_of(ALIGNMENT)
}

/// The bindings panic where a library lacks a function; here that waives one benchmark.
fn fenced<T>(call: impl FnOnce() -> Result<T, Waived>) -> Result<T, Waived> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err(Waived("a library lacks a function that this build needs".to_owned())))
}

fn driver_version() -> Result<i32, Waived> {
    let mut version = 0;
    // SAFETY: writes one integer of this frame.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().map_err(refused("cuDriverGetVersion"))?;
    Ok(version)
}

/// 12040 is 12.4.
fn version_text(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// PCI address of the first GPU, as `nvidia-smi -i` takes it.
fn bus_id() -> Result<String, Waived> {
    let first = device::get(0).map_err(refused("cuDeviceGet"))?;
    // SAFETY: `first` is a device of the driver.
    let number =
        |attribute| unsafe { device::get_attribute(first, attribute) }.map_err(refused("cuDeviceGetAttribute"));
    let domain = number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?;
    let bus = number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?;
    let slot = number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?;
    Ok(format!("{domain:08x}:{bus:02x}:{slot:02x}.0"))
}
