//! Asks the clouds for live prices: every source at once, with progress, cached. A source that fails costs only its own prices.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::question::asking::{Question, replies};
use crate::question::machines::{self, ListReport, Listed, list_machines};
use crate::session::diagnostic::Diagnostic;
use crate::session::printer::Printer;
use crate::session::{Catalogs, Session};
use gpuplan_clouds::{Sources, ask, sources};
use gpuplan_hardware::{CloudId, GpuSelector, Hardware, InstanceId};
use gpuplan_market::cache::CachedRisks;
use gpuplan_market::{
    About, Cache, CacheError, MachineList, Market, OfferQuery, Opening, PriceAnswer, RiskAnswer, SourceError,
    SourceNote, Span,
};
use gpuplan_units::Hours;

/// How long prices and risks may take, after the lists of machines.
const PATIENCE: Duration = Duration::from_secs(34);
const _: () = {
    let most = machines::PATIENCE.as_secs() + PATIENCE.as_secs() + 2 * ask::GRACE.as_secs();
    assert!(most < 60, "asking every cloud takes no longer than a minute");
};
/// The prices of ninety days are many more questions.
const PATIENCE_WITH_HISTORY: Duration = Duration::from_secs(75);

/// What to ask the clouds for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// None: every cloud that can be asked.
    pub clouds: Vec<CloudId>,
    /// Earlier prices too.
    pub history: bool,
    /// A source that answered less than this ago is not asked again.
    pub max_age: Option<Hours>,
    /// Which machines there are is asked even where a list of today is here.
    pub lists_again: bool,
    /// GPUs that the answer is wanted for; none: all alike.
    pub gpus: Vec<GpuSelector>,
    /// What is wished of machine types that are sold ahead. Where there is any, only those who sell ahead are asked, and for these.
    pub spans: BTreeMap<InstanceId, Span>,
    /// By when such a span has to end.
    pub until: Option<Timestamp>,
}

impl Request {
    /// Machines of a cloud that the answer is wanted for first.
    fn candidates(&self, cloud: &CloudId, hardware: &Hardware) -> BTreeSet<InstanceId> {
        let is_wanted = |id: &InstanceId| {
            let (instance, gpu) = (hardware.instance(*id), hardware.instance(*id).node.gpu);
            instance.cloud == *cloud && self.gpus.iter().any(|gpus| gpus.matches_gpu(gpu, hardware.gpu(gpu)))
        };
        hardware.instance_ids().filter(is_wanted).collect()
    }
}

/// `--max-age`, read.
pub fn parse_max_age(text: Option<&str>) -> Result<Option<Hours>, Diagnostic> {
    let read = |text: &str| {
        Hours::parse(text).map_err(|error| {
            Diagnostic::usage(format!("--max-age: {error}")).hint("write it as `--max-age 30m` or `--max-age 6h`")
        })
    };
    text.map(read).transpose()
}

/// What one source answered.
pub struct SourceReport {
    pub about: About,
    pub address: String,
    pub outcome: Outcome,
}

pub enum Outcome {
    /// It answered so long ago.
    Recent(Hours),
    Answered {
        rows: usize,
        notes: Vec<SourceNote>,
    },
    Failed(SourceError),
}

impl From<ListReport> for SourceReport {
    fn from(report: ListReport) -> Self {
        let outcome = match report.answer {
            Ok(list) => Outcome::Answered { rows: list.pools(), notes: list.notes },
            Err(error) => Outcome::Failed(error),
        };
        Self { about: report.about, address: report.address, outcome }
    }
}

/// What all sources answered.
#[derive(Default)]
pub struct Answers {
    pub sources: Vec<SourceReport>,
    /// Which machines the clouds have where.
    pub lists: Vec<(CloudId, MachineList)>,
    pub answer: PriceAnswer,
    pub risks: CachedRisks,
    /// When spans that were wished can be had.
    pub openings: Vec<Opening>,
}

enum Reply {
    Prices(PriceAnswer),
    Risks(RiskAnswer),
}

/// Asks every source, and caches the answers where there is a cache: first which machines there are and where, then what they cost.
/// Machines that no catalog has are rows of `catalogs` afterwards.
pub fn ask_clouds(catalogs: &mut Catalogs, session: &Session, wanted: &Request) -> Result<Answers, Diagnostic> {
    if session.offline {
        return Err(Diagnostic::usage("asking the clouds is forbidden by --offline (or GPUPLAN_OFFLINE)")
            .hint("`gpuplan prices --offline` shows the prices that are here already"));
    }
    let clouds = clouds_to_ask(&catalogs.hardware, &session.printer, &wanted.clouds);
    let Listed { lists, reports } = list_machines(&clouds, catalogs, session, wanted.lists_again)?;
    let mut answers =
        Answers { lists, sources: reports.into_iter().map(SourceReport::from).collect(), ..Answers::default() };
    let mut cache = session.cache();
    let (market, hardware) = (&catalogs.market, &catalogs.hardware);
    let patience = if wanted.history { PATIENCE_WITH_HISTORY } else { PATIENCE };
    let query = |cloud: &CloudId| {
        let candidates = wanted.candidates(cloud, hardware);
        let (spans, until) = (wanted.spans.clone(), wanted.until);
        let known = OfferQuery::known(market, hardware, cloud).within(patience);
        let documents = session.home.cache_file("documents");
        let known = OfferQuery { history: wanted.history, candidates, spans, until, documents, ..known };
        let mut lists = answers.lists.iter().filter(|(listed, _)| listed == cloud).map(|(_, list)| list).peekable();
        // Where nobody says what there is today, what there was.
        let earlier = market.offered.get(cloud).filter(|_| lists.peek().is_none());
        let mut query = lists.chain(earlier).fold(known, |known, list| known.listed(cloud, list));
        if !wanted.spans.is_empty() {
            query.wanted.values_mut().for_each(|ids| ids.retain(|id| wanted.spans.contains_key(id)));
        }
        query
    };
    let queries: Vec<OfferQuery> = clouds.iter().map(|(cloud, _)| query(cloud)).collect();
    let mut questions = Vec::new();
    for ((_, sources), query) in clouds.iter().zip(&queries) {
        for question in questions_of(sources, query, !wanted.spans.is_empty()) {
            match wanted.max_age.and_then(|limit| recent(cache.as_ref(), question.about.id, session, limit)) {
                Some(age) => answers.sources.push(SourceReport {
                    about: question.about,
                    address: question.address,
                    outcome: Outcome::Recent(age),
                }),
                None => questions.push(question),
            }
        }
    }
    let asked: Vec<_> = questions.iter().map(|question| (question.about, question.address.clone())).collect();
    for ((about, address), reply) in asked.into_iter().zip(replies(questions, patience, &session.printer)?) {
        // The cache keeps what is sold to everybody, not what one plan asked for.
        if let Err(error) = keep(cache.as_mut().filter(|_| wanted.spans.is_empty()), about, &reply, hardware, session) {
            session.printer.warning(&format!("{}: its answer could not be kept: {error}", about.id));
        }
        let outcome = answers.add(reply, session.now);
        answers.sources.push(SourceReport { about, address, outcome });
    }
    Ok(answers)
}

fn clouds_to_ask(hardware: &Hardware, printer: &Printer, named: &[CloudId]) -> Vec<(CloudId, Sources)> {
    let all = if named.is_empty() { hardware.clouds() } else { named.to_vec() };
    let mut found = Vec::new();
    for cloud in all {
        match sources(&cloud) {
            Some(sources) => {
                if let Some(feature) = sources.needs_feature {
                    printer.warning(&format!(
                        "{cloud}: this build cannot query an account; build with the feature `{feature}`"
                    ));
                }
                found.push((cloud, sources));
            }
            None if !named.is_empty() => {
                printer.warning(&format!("{cloud}: gpuplan cannot fetch its prices; those of the snapshot are shown"));
            }
            None => {}
        }
    }
    found
}

fn questions_of<'a>(sources: &'a Sources, query: &'a OfferQuery<'a>, of_spans: bool) -> Vec<Question<'a, Reply>> {
    let prices = sources.prices.iter().filter(|source| !of_spans || source.sells_ahead()).map(|source| Question {
        about: source.about(),
        address: source.address(),
        future: Box::pin(async move { source.offers(query).await.map(Reply::Prices) }),
    });
    let risks = sources.risks.iter().filter(|source| of_spans == source.is_about_spans()).map(|source| Question {
        about: source.about(),
        address: source.about().id.to_owned(),
        future: Box::pin(async move { source.risks(query).await.map(Reply::Risks) }),
    });
    prices.chain(risks).collect()
}

/// Age of a source's last answer, if that is within the limit. Where the cache does not say, nobody knows: it is asked again.
fn recent(cache: Option<&Cache>, source: &str, session: &Session, limit: Hours) -> Option<Hours> {
    let answered = cache?.answered_at(source).unwrap_or_else(|error| {
        session.printer.warning(&format!("{source}: {error}; when it answered last is unknown, so it is asked again"));
        None
    })?;
    let age = Hours(session.now.duration_since(answered).as_secs_f64() / 3600.0);
    (age.0 >= 0.0 && age <= limit).then_some(age)
}

/// Puts an answer into the cache, where there is one.
fn keep(
    cache: Option<&mut Cache>,
    about: About,
    reply: &Result<Reply, SourceError>,
    hardware: &Hardware,
    session: &Session,
) -> Result<(), CacheError> {
    let (Some(cache), cloud) = (cache, CloudId::new(about.cloud)) else { return Ok(()) };
    match reply {
        Err(_) => Ok(()),
        Ok(Reply::Prices(answer)) => cache.store(about.id, &cloud, answer, hardware, session.now),
        Ok(Reply::Risks(answer)) => cache.store_risks(about.id, &cloud, answer, hardware, session.now),
    }
}

impl Answers {
    fn add(&mut self, reply: Result<Reply, SourceError>, now: Timestamp) -> Outcome {
        match reply {
            Err(error) => Outcome::Failed(error),
            Ok(Reply::Prices(answer)) => {
                let rows = answer.offers.len();
                self.answer.offers.extend(answer.offers);
                self.answer.history.extend(answer.history);
                Outcome::Answered { rows, notes: answer.notes }
            }
            Ok(Reply::Risks(answer)) => {
                let rows = answer.risks.len() + answer.signals.len() + answer.openings.len();
                self.openings.extend(answer.openings.iter().cloned());
                self.risks.signals.extend(answer.signals_at(now));
                self.risks.risks.extend(answer.risks);
                Outcome::Answered { rows, notes: answer.notes }
            }
        }
    }

    /// The market with every answer laid over it, without places that do not have the machine.
    pub fn merge_into(self, market: Market, hardware: &Hardware) -> Market {
        let lists = self.lists.iter();
        let market = lists.fold(market, |market, (cloud, list)| market.where_listed(cloud, list, hardware));
        let market = market.merged(self.answer.offers, hardware).with_openings(&self.openings);
        market.informed(&self.risks.risks, &self.risks.signals)
    }

    /// Warnings about sources that failed or left something out, one a source.
    pub fn warn(&self, printer: &Printer) {
        for source in &self.sources {
            match &source.outcome {
                // Most people have an account with one cloud: the others are told by `refresh` and `doctor`.
                Outcome::Failed(SourceError::MissingCredentials { .. }) | Outcome::Recent(_) => {}
                Outcome::Failed(error) => {
                    printer.warning(&format!("{}: {error}; earlier prices are kept, with their age", source.about.id));
                }
                Outcome::Answered { notes, .. } => match notes.as_slice() {
                    [] => {}
                    [note] => printer.warning(&format!("{}: {note}", source.about.id)),
                    [note, rest @ ..] => {
                        printer.warning(&format!(
                            "{}: {note}; and {} more (`gpuplan refresh` lists all)",
                            source.about.id,
                            rest.len()
                        ));
                    }
                },
            }
        }
        if !self.sources.is_empty() && self.sources.iter().all(|source| matches!(source.outcome, Outcome::Failed(_))) {
            printer.warning("no cloud answered: every price is from the cache or the snapshot, with its age; `gpuplan doctor` says why");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Arguments;
    use crate::session::diagnostic::Exit;
    use clap::Parser;

    #[test]
    fn the_network_is_not_touched_where_that_is_forbidden() {
        let session =
            Session::new(&Arguments::parse_from(["gpuplan", "--offline", "prices", "--live"]).global).unwrap();
        let mut catalogs = session.snapshot().unwrap();
        let Err(diagnostic) = ask_clouds(&mut catalogs, &session, &Request::default()) else { panic!("it asked") };
        assert_eq!(diagnostic.exit, Exit::Usage);
        assert_eq!(diagnostic.hints.len(), 1);
    }
}
