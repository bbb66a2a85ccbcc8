//! Progress of slow work: a line every few seconds says what is waited for.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::session::printer::Printer;

/// Between two lines. People are promised one every five seconds; a busy machine needs some of them.
const INTERVAL: Duration = Duration::from_secs(4);

/// Before a confirmation, a person wonders sooner whether anything happens.
const FIRST_INTERVAL: Duration = Duration::from_secs(2);

/// Does the work, and prints meanwhile what it is.
pub fn with_progress<T>(printer: &Printer, what: impl Fn() -> String + Send, work: impl FnOnce() -> T) -> T {
    waiting(printer, INTERVAL, what, work)
}

/// The same before a confirmation, with an earlier first line.
pub fn with_early_progress<T>(printer: &Printer, what: &str, work: impl FnOnce() -> T) -> T {
    waiting(printer, FIRST_INTERVAL, || what.to_owned(), work)
}

fn waiting<T>(printer: &Printer, first: Duration, what: impl Fn() -> String + Send, work: impl FnOnce() -> T) -> T {
    let (working, has_ended) = channel::<()>();
    let begun = Instant::now();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut pause = first;
            while has_ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = INTERVAL;
                printer.note(&format!("gpuplan: {} ({:.0} s)", what(), begun.elapsed().as_secs_f64()));
            }
        });
        // Dropped at the end, however the work ends.
        let _working = working;
        work()
    })
}
