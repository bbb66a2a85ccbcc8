//! No wait without a word: whoever waits hears every few seconds what for.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::session::printer::Printer;

/// Between two words. People are promised one every five seconds; a busy machine needs some of them.
const WORD: Duration = Duration::from_secs(4);

/// Before a question is asked, a person who has just called wonders sooner whether anything happens.
const FIRST_WORD: Duration = Duration::from_secs(2);

/// Does the work, and says beside it what is waited for.
pub fn with_progress<T>(printer: &Printer, what: impl Fn() -> String + Send, work: impl FnOnce() -> T) -> T {
    waiting(printer, WORD, what, work)
}

/// The same while somebody waits to be asked.
pub fn with_early_progress<T>(printer: &Printer, what: &str, work: impl FnOnce() -> T) -> T {
    waiting(printer, FIRST_WORD, || what.to_owned(), work)
}

fn waiting<T>(printer: &Printer, first: Duration, what: impl Fn() -> String + Send, work: impl FnOnce() -> T) -> T {
    let (working, has_ended) = channel::<()>();
    let begun = Instant::now();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut pause = first;
            while has_ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = WORD;
                printer.note(&format!("gpuplan: {} ({:.0} s)", what(), begun.elapsed().as_secs_f64()));
            }
        });
        // Dropped at the end, however the work ends.
        let _working = working;
        work()
    })
}
