//! Questions to sources, asked all at once with a bar on a terminal that names who is still silent.

use std::cell::RefCell;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::session::diagnostic::Diagnostic;
use crate::session::printer::Printer;
use gpuplan_clouds::ask;
use gpuplan_market::{About, BoxFuture, SourceError};

/// One source, and its answer to come.
pub struct Question<'a, T> {
    pub about: About,
    pub address: String,
    pub future: BoxFuture<'a, Result<T, SourceError>>,
}

/// The replies in the order of the questions, each of which was asked with this patience.
pub fn replies<T>(
    questions: Vec<Question<T>>,
    patience: Duration,
    printer: &Printer,
) -> Result<Vec<Result<T, SourceError>>, Diagnostic> {
    if questions.is_empty() {
        return Ok(Vec::new());
    }
    let bar = ProgressBar::with_draw_target(Some(questions.len() as u64), ProgressDrawTarget::hidden());
    if printer.stderr_is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::stderr());
    }
    bar.set_style(
        ProgressStyle::with_template("{bar:20} {pos}/{len} sources, {elapsed}; waiting for {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let waiting: RefCell<Vec<Option<&str>>> =
        RefCell::new(questions.iter().map(|question| Some(question.about.id)).collect());
    let show = || bar.set_message(waiting.borrow().iter().flatten().copied().collect::<Vec<_>>().join(", "));
    show();
    bar.enable_steady_tick(Duration::from_millis(200));
    let ended = |position: usize| {
        waiting.borrow_mut()[position] = None;
        bar.inc(1);
        show();
    };
    let futures = questions.into_iter().map(|question| (question.about.id, question.future)).collect();
    let replies = ask::all_with_patience(futures, patience, &ended).map_err(Diagnostic::unexpected);
    bar.finish_and_clear();
    replies
}
