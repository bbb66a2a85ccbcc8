//! Every source at once, each with a time limit, from code that is not asynchronous. The one place that starts a runtime.

use std::io;
use std::time::Duration;

use futures_util::future::join_all;

use gpuplan_market::{BoxFuture, OfferQuery, PriceAnswer, PriceSource, SourceError};

/// The longest that a single question may take where nobody says.
const LONGEST: Duration = Duration::from_secs(75);
/// What a source may take beyond the patience that it was asked for; what it had not said by then is lost.
pub const GRACE: Duration = Duration::from_secs(2);

/// The prices in the order of the questions. One source that fails costs the others nothing.
pub fn ask(questions: &[(&dyn PriceSource, OfferQuery)]) -> io::Result<Vec<Result<PriceAnswer, SourceError>>> {
    let patience = questions.iter().map(|(_, query)| query.patience).max().unwrap_or_default();
    let questions = questions.iter().map(|(source, query)| (source.about().id, source.offers(query))).collect();
    all_with_patience(questions, patience, &|_| {})
}

/// Waits for every question, named for its error; `ended` is told the position of each as it ends.
pub fn all<T>(
    questions: Vec<(&str, BoxFuture<'_, Result<T, SourceError>>)>,
    ended: &dyn Fn(usize),
) -> io::Result<Vec<Result<T, SourceError>>> {
    all_within(questions, LONGEST, ended)
}

/// The same of questions that were asked with this patience.
pub fn all_with_patience<T>(
    questions: Vec<(&str, BoxFuture<'_, Result<T, SourceError>>)>,
    patience: Duration,
    ended: &dyn Fn(usize),
) -> io::Result<Vec<Result<T, SourceError>>> {
    all_within(questions, patience + GRACE, ended)
}

fn all_within<T>(
    questions: Vec<(&str, BoxFuture<'_, Result<T, SourceError>>)>,
    longest: Duration,
    ended: &dyn Fn(usize),
) -> io::Result<Vec<Result<T, SourceError>>> {
    let limited = questions.into_iter().enumerate().map(|(position, (name, question))| async move {
        let answer = tokio::time::timeout(longest, question).await.unwrap_or_else(|_| {
            Err(SourceError::Unreachable {
                place: name.to_owned(),
                detail: format!("no answer within {} s", longest.as_secs()),
            })
        });
        ended(position);
        answer
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    Ok(runtime.block_on(join_all(limited)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use gpuplan_hardware::Hardware;
    use gpuplan_market::{About, SourceNote};

    struct Canned(Result<PriceAnswer, SourceError>);

    impl PriceSource for Canned {
        fn about(&self) -> About {
            About::public("canned", "canned")
        }

        fn address(&self) -> String {
            "http://127.0.0.1/canned".to_owned()
        }

        fn offers<'a>(&'a self, _query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
            Box::pin(async { self.0.clone() })
        }
    }

    #[test]
    fn one_failing_source_costs_the_others_nothing() {
        let hardware = Hardware::default();
        let query = OfferQuery::for_instances(&hardware, std::collections::BTreeMap::default());
        let note = SourceNote { place: "here".to_owned(), detail: "nothing".to_owned() };
        let good = Canned(Ok(PriceAnswer { notes: vec![note.clone()], ..PriceAnswer::default() }));
        let bad = Canned(Err(SourceError::MissingCredentials { variable: "KEY" }));
        let answers = ask(&[(&bad, query.clone()), (&good, query)]).unwrap();
        assert!(answers[0].is_err());
        assert_eq!(answers[1].as_ref().unwrap().notes, [note]);
        assert!(ask(&[]).unwrap().is_empty());
    }

    #[test]
    fn each_end_is_told_once() {
        let ended = Cell::new(0);
        let questions: Vec<(&str, BoxFuture<'_, _>)> =
            (0..3).map(|_| ("a", Box::pin(async { Ok(()) }) as BoxFuture<'_, _>)).collect();
        assert_eq!(
            all(questions, &|position| ended.set(ended.get() + 10_usize.pow(position as u32))).unwrap().len(),
            3
        );
        assert_eq!(ended.get(), 111);
    }
}
