//! Traces of profilers: PyTorch, TensorFlow, JAX (Chrome JSON, plain or gzip; xplane.pb) and Nsight Systems (SQLite), as figures.

mod chrome;
mod classes;
mod device_steps;
mod event;
mod host;
pub mod nsight;
mod protobuf;
mod scan;
mod shapes;
mod step_work;
mod tally;
mod timeline;
mod unseen;
mod xplane;

use std::io::{BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

pub use chrome::ChromeTrace;
pub use scan::TraceError;
pub use tally::Counted;

/// First bytes of a gzip file (RFC 1952, section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// First bytes of an SQLite database ("Database File Format", section 1.3).
pub const SQLITE: &[u8] = b"SQLite format 3\0";
/// A byte order mark in UTF-8, which some editors and PowerShell put before text.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];
/// Enough to keep the decompressor and the scanner busy.
const BUFFER: usize = 1 << 18;

/// Reads a trace of PyTorch, JAX or TensorFlow by its first bytes, unpacking it if need be.
pub fn read(mut reader: impl BufRead) -> Result<ChromeTrace, TraceError> {
    let unreadable = |error: std::io::Error| TraceError { at: 0, detail: format!("unreadable: {error}") };
    if xplane::is_xplane(reader.fill_buf().map_err(unreadable)?) {
        return xplane::read(reader);
    }
    let mut head = Vec::with_capacity(3);
    reader.by_ref().take(3).read_to_end(&mut head).map_err(unreadable)?;
    if head == BYTE_ORDER_MARK {
        return chrome::read(reader);
    }
    let is_packed = head.starts_with(&GZIP);
    let whole = BufReader::with_capacity(BUFFER, std::io::Cursor::new(head).chain(reader));
    if !is_packed {
        return chrome::read(whole);
    }
    chrome::read(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(whole)))
        .map_err(|error| TraceError { detail: format!("{} (bytes of the unpacked text)", error.detail), ..error })
}
