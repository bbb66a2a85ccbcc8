//! One question for each machine type and region, some at a time, with limits of time. Names no SDK.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream;

use crate::CLOUD;
use crate::prices::attached::Attached;
use gpuplan_hardware::InstanceId;
use gpuplan_market::{Location, OfferQuery, SourceError, SourceNote};

/// Questions under way at a time.
const LANES: usize = 12;
/// One question and its answer. It is not repeated: the next pool is as good a second try.
const ATTEMPT: Duration = Duration::from_secs(15);

/// A machine type in a region.
#[derive(Clone, Debug)]
pub struct Pool {
    pub region: Arc<str>,
    pub instance: InstanceId,
    pub machine_type: String,
}

impl Pool {
    /// The region as a whole, or one of its zones.
    pub fn place(&self, zone: Option<&str>) -> Location {
        Location { region: self.region.clone(), zone_id: zone.map(Arc::from) }
    }
}

/// Why a pool has no answer.
#[derive(Debug)]
pub enum Failure {
    /// It was answered, with nothing usable in it.
    Nothing(String),
    /// This pool only.
    Pool(SourceError),
    /// Any other pool would meet the same.
    Everywhere(SourceError),
}

/// Answers in the order of the query.
#[derive(Debug)]
pub struct Answers<T> {
    pub values: Vec<T>,
    pub notes: Vec<SourceNote>,
}

/// The pools of a query whose machines are sold as spot, those of the candidates first: not all may be reached in time.
pub fn sold_as_spot(query: &OfferQuery) -> Vec<Pool> {
    let mut pools = pools(query);
    pools.retain(|pool| query.hardware.instance(pool.instance).sold_as.spot);
    pools
}

/// The same of all pools. Advice and history know machine types alone (compute `advice.capacity`, `advice.capacityHistory`), so that those
/// with attached cards are not asked for.
pub fn pools(query: &OfferQuery) -> Vec<Pool> {
    let pools =
        query.wanted.iter().flat_map(|(region, instances)| instances.iter().map(move |instance| (region, *instance)));
    let pools = pools.map(|(region, instance)| Pool {
        region: region.clone(),
        instance,
        machine_type: query.hardware.instance(instance).name.clone(),
    });
    let mut pools: Vec<Pool> = pools.filter(|pool| Attached::named(&pool.machine_type).is_none()).collect();
    pools.sort_by_key(|pool| !query.candidates.contains(&pool.instance));
    pools
}

/// Asks for every pool until one failure would meet them all or the time is up; those that were not reached are counted in a note.
pub async fn ask_each<T, F>(
    pools: Vec<Pool>,
    patience: Duration,
    question: impl Fn(Pool) -> F,
) -> Result<Answers<T>, SourceError>
where
    F: Future<Output = Result<T, Failure>>,
{
    let (ended, until) = (&AtomicBool::new(false), Instant::now() + patience);
    let questions = pools.into_iter().map(|pool| {
        let name = format!("{}, {}", pool.region, pool.machine_type);
        let (question, region) = (question(pool.clone()), pool.region);
        async move {
            if ended.load(Ordering::Relaxed) || Instant::now() >= until {
                return (name, None);
            }
            let late = || SourceError::Unreachable {
                place: region.to_string(),
                detail: format!("no answer within {} s", ATTEMPT.as_secs()),
            };
            let left = ATTEMPT.min(until.saturating_duration_since(Instant::now()));
            let outcome = match tokio::time::timeout(left, question).await {
                Ok(outcome) => outcome,
                Err(_) if left < ATTEMPT => return (name, None),
                Err(_) => Err(Failure::Everywhere(late())),
            };
            ended.fetch_or(matches!(outcome, Err(Failure::Everywhere(_))), Ordering::Relaxed);
            (name, Some(outcome))
        }
    });
    let outcomes = stream::iter(questions).buffered(LANES).collect().await;
    sum_up(outcomes)
}

fn sum_up<T>(outcomes: Vec<(String, Option<Result<T, Failure>>)>) -> Result<Answers<T>, SourceError> {
    let (mut values, mut notes, mut unasked) = (Vec::new(), Vec::new(), 0);
    let (mut first, mut end) = (None, None);
    for (place, outcome) in outcomes {
        match outcome {
            None => unasked += 1,
            Some(Ok(value)) => values.push(value),
            Some(Err(Failure::Nothing(detail))) => notes.push(SourceNote { place, detail }),
            Some(Err(Failure::Pool(error))) => {
                notes.push(SourceNote { place, detail: error.to_string() });
                first.get_or_insert(error);
            }
            Some(Err(Failure::Everywhere(error))) => {
                notes.push(SourceNote { place, detail: error.to_string() });
                end.get_or_insert(error);
            }
        }
    }
    if let (true, Some(error)) = (values.is_empty(), end.or(first)) {
        return Err(error);
    }
    if unasked > 0 {
        notes.push(SourceNote {
            place: CLOUD.to_owned(),
            detail: format!("{unasked} machine types were not asked for any more, or did not answer in time"),
        });
    }
    Ok(Answers { values, notes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: &str) -> SourceError {
        SourceError::Refused { code: code.to_owned(), detail: String::new() }
    }

    fn ask(outcomes: Vec<Result<u32, Failure>>) -> Result<Answers<u32>, SourceError> {
        let pools = (0..outcomes.len()).map(|index| Pool {
            region: format!("r{index}").into(),
            instance: InstanceId(index as u32),
            machine_type: "m".to_owned(),
        });
        let outcomes: Vec<_> = outcomes.into_iter().map(|outcome| std::sync::Mutex::new(Some(outcome))).collect();
        let question =
            |pool: Pool| std::future::ready(outcomes[pool.instance.0 as usize].lock().unwrap().take().unwrap());
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(ask_each(
            pools.collect(),
            Duration::from_mins(1),
            question,
        ))
    }

    #[test]
    fn one_pool_without_an_answer_costs_only_itself() {
        let answers =
            ask(vec![Ok(1), Err(Failure::Nothing("none".to_owned())), Err(Failure::Pool(refused("HTTP 404"))), Ok(2)])
                .unwrap();
        assert_eq!(answers.values, [1, 2]);
        assert_eq!(answers.notes.len(), 2);
        assert_eq!(answers.notes[0].to_string(), "r1, m: none");
    }

    #[test]
    fn what_would_meet_every_pool_ends_the_questions() {
        let refusal = || Err(Failure::Everywhere(refused("HTTP 403")));
        let answers = ask([Ok(7), refusal()].into_iter().chain((0..40).map(Ok)).collect()).unwrap();
        assert_eq!(answers.values, [7]);
        assert!(answers.notes.iter().any(|note| note.detail.contains("not asked for any more")), "{:?}", answers.notes);
        assert_eq!(
            ask(vec![Err(Failure::Pool(refused("a"))), Err(Failure::Everywhere(refused("b")))]).unwrap_err(),
            refused("b")
        );
        assert!(ask(Vec::new()).unwrap().values.is_empty());
    }
}
