//! `Compiler`: NVRTC, bound by hand so that a library of CUDA 12 and one of CUDA 13 can serve in one process. Needs no GPU.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;

use libloading::Library;

/// Sources that this program brings.
pub const SOURCES: [(&str, &str); 2] =
    [("basic.cu", include_str!("kernels/basic.cu")), ("training.cu", include_str!("kernels/training.cu"))];

/// What `nvrtc.h` calls `NVRTC_SUCCESS`.
const SUCCESS: c_int = 0;

type Program = *mut c_void;
type Texts = *const *const c_char;

/// The functions of `nvrtc.h` that are needed, under their own names.
#[allow(non_snake_case, reason = "names of NVIDIA's header")]
pub struct Compiler {
    nvrtcVersion: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int,
    nvrtcCreateProgram: unsafe extern "C" fn(*mut Program, *const c_char, *const c_char, c_int, Texts, Texts) -> c_int,
    nvrtcCompileProgram: unsafe extern "C" fn(Program, c_int, Texts) -> c_int,
    nvrtcGetCUBINSize: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    nvrtcGetCUBIN: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    nvrtcGetProgramLogSize: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    nvrtcGetProgramLog: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    nvrtcDestroyProgram: unsafe extern "C" fn(*mut Program) -> c_int,
}

impl Compiler {
    /// The library must stay loaded, which `libraries::load` takes care of.
    pub fn new(library: &'static Library) -> Result<Self, String> {
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the types are those of `nvrtc.h`, unchanged since CUDA 11.1.
                *unsafe { library.get(concat!($name, "\0").as_bytes()) }.map_err(|error| error.to_string())?
            };
        }
        Ok(Self {
            nvrtcVersion: function!("nvrtcVersion"),
            nvrtcCreateProgram: function!("nvrtcCreateProgram"),
            nvrtcCompileProgram: function!("nvrtcCompileProgram"),
            nvrtcGetCUBINSize: function!("nvrtcGetCUBINSize"),
            nvrtcGetCUBIN: function!("nvrtcGetCUBIN"),
            nvrtcGetProgramLogSize: function!("nvrtcGetProgramLogSize"),
            nvrtcGetProgramLog: function!("nvrtcGetProgramLog"),
            nvrtcDestroyProgram: function!("nvrtcDestroyProgram"),
        })
    }

    /// Major and minor, if it says them.
    pub fn version(&self) -> Option<(i32, i32)> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both point to integers of this frame.
        let status = unsafe { (self.nvrtcVersion)(&raw mut major, &raw mut minor) };
        (status == SUCCESS).then_some((major, minor))
    }

    /// Machine code for a compute capability such as (9, 0); the error has the compiler's own words.
    pub fn compile(&self, source: &str, capability: (u32, u32)) -> Result<Vec<u8>, String> {
        let text = CString::new(source).map_err(|error| error.to_string())?;
        let options = [format!("--gpu-architecture=sm_{}{}", capability.0, capability.1), "--fmad=true".to_owned()];
        let options: Vec<CString> =
            options.into_iter().map(CString::new).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program: Program = ptr::null_mut();
        // SAFETY: the text outlives the call; without headers both lists may be null.
        let made = unsafe {
            (self.nvrtcCreateProgram)(&raw mut program, text.as_ptr(), ptr::null(), 0, ptr::null(), ptr::null())
        };
        if made != SUCCESS {
            return Err(format!("nvrtcCreateProgram gave {made}"));
        }
        // SAFETY: `program` was made above, and the options outlive the call.
        let compiled = unsafe { (self.nvrtcCompileProgram)(program, pointers.len() as c_int, pointers.as_ptr()) };
        let result = if compiled == SUCCESS {
            bytes(program, self.nvrtcGetCUBINSize, self.nvrtcGetCUBIN)
        } else {
            let log = bytes(program, self.nvrtcGetProgramLogSize, self.nvrtcGetProgramLog);
            let log = log.map_or_else(|why| format!("no log: {why}"), |log| String::from_utf8_lossy(&log).into_owned());
            Err(format!("NVRTC gave {compiled}: {}", log.trim_end_matches(['\0', '\n'])))
        };
        // SAFETY: `program` was made above and is used no more.
        unsafe { (self.nvrtcDestroyProgram)(&raw mut program) };
        result
    }
}

/// What NVRTC tells in two calls: the size, then so many bytes.
fn bytes(
    program: Program,
    size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    read: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
) -> Result<Vec<u8>, String> {
    let mut length = 0;
    // SAFETY: `program` is alive, `length` is of this frame.
    let sized = unsafe { size(program, &raw mut length) };
    if sized != SUCCESS {
        return Err(format!("NVRTC gave {sized}"));
    }
    let mut bytes = vec![0_u8; length];
    // SAFETY: the library writes the `length` bytes that it asked for.
    let written = unsafe { read(program, bytes.as_mut_ptr().cast()) };
    if written == SUCCESS { Ok(bytes) } else { Err(format!("NVRTC gave {written}")) }
}
