//! No wait without a word: whoever waits hears every few seconds what for.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::cli::printer::Printer;

/// Between two words. People are promised one every five seconds; a busy machine needs some of them.
const WORD: Duration = Duration::from_secs(4);

/// Does the work, and says beside it what is waited for.
pub fn meanwhile<T>(printer: &Printer, what: impl Fn() -> String + Send, work: impl FnOnce() -> T) -> T {
    let (working, has_ended) = channel::<()>();
    let begun = Instant::now();
    thread::scope(|scope| {
        scope.spawn(move || {
            while has_ended.recv_timeout(WORD) == Err(RecvTimeoutError::Timeout) {
                printer.note(&format!("gpuplan: {} ({:.0} s)", what(), begun.elapsed().as_secs_f64()));
            }
        });
        // Dropped at the end, however the work ends.
        let _working = working;
        work()
    })
}
