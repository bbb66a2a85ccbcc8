//! `PlacementScores`: asks EC2 how likely a spot machine of each kind is had in each zone, kinds that can stand in for each other together.

use std::collections::BTreeSet;
use std::sync::Arc;

use aws_sdk_ec2::Client;
use futures_util::StreamExt;
use futures_util::stream;

use crate::CLOUD;
use crate::account::session::{Account, Session};
use crate::prices::gather::gather;
use gpuplan_hardware::InstanceId;
use gpuplan_market::{About, BoxFuture, Location, OfferQuery, RiskAnswer, RiskSource, Signal, SourceError, SourceNote};

const SOURCE: &str = "aws-placement-scores";
/// Regions of one question (documentation of GetSpotPlacementScores: at most ten).
const REGIONS: usize = 10;
/// Questions at the same time.
const LANES: usize = 4;
/// Every different question counts against a daily limit of the account, whose size the documentation does not say.
const MOST_QUESTIONS: usize = 40;
/// Fewer machine types in a question and the score reads low (documentation of GetSpotPlacementScores, "specify at least three").
const FAIR_TYPES: usize = 3;

/// Spot placement scores, for one machine of any of a few types that can stand in for each other.
pub struct PlacementScores {
    session: Session,
}

/// Machine types with as many GPUs of one generation, and some of the regions that have any of them.
#[derive(Debug, PartialEq)]
struct Question {
    instances: Vec<InstanceId>,
    regions: Vec<Arc<str>>,
}

impl PlacementScores {
    pub fn new(session: Session) -> Self {
        Self { session }
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<RiskAnswer, SourceError> {
        let account = &self.session.sign_in_for(query.patience).await?;
        let mut answer = RiskAnswer::default();
        let questions = questions(query, &mut answer.notes);
        let Some(first) = questions.first() else { return Ok(answer) };
        let client = &account.ec2(account.home_region().unwrap_or(&first.regions[0]));
        let name = |id: &InstanceId| query.hardware.instance(*id).name.clone();
        let few: Vec<String> = questions
            .iter()
            .filter(|it| it.instances.len() < FAIR_TYPES)
            .flat_map(|it| it.instances.iter().map(name))
            .collect();
        let lanes = questions.into_iter().map(|question| async move {
            let names: Vec<String> = question.instances.iter().map(name).collect();
            let place = names.join(", ");
            let scores = account.in_time(&place, scores(account, client, &place, names, &question.regions)).await;
            (place, scores.map(|scores| (question.instances, scores)))
        });
        let outcomes: Vec<_> = stream::iter(lanes).buffered(LANES).collect().await;
        for (instances, scores) in gather(outcomes, &mut answer.notes)? {
            for (place, score) in scores {
                let here = query.wanted.get(&place.region).into_iter().flatten().filter(|id| instances.contains(id));
                answer.signals.extend(here.map(|id| (*id, place.clone(), Signal::PlacementScore(score))));
            }
        }
        if !few.is_empty() && !answer.signals.is_empty() {
            let few: Vec<String> = few.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
            let detail = format!(
                "AWS scores a request for at least {FAIR_TYPES} machine types fairly; the scores of {}, which have fewer alike, read low",
                few.join(", ")
            );
            answer.notes.push(SourceNote { place: "placement scores".to_owned(), detail });
        }
        Ok(answer)
    }
}

/// Machine types that can stand in for each other with the regions that want any, as many questions as an account may ask a day: those
/// of the candidates first, then the most capable. What is left out is a note.
fn questions(query: &OfferQuery, notes: &mut Vec<SourceNote>) -> Vec<Question> {
    let hardware = query.hardware;
    let kind = |id: InstanceId| {
        let node = hardware.instance(id).node;
        (hardware.gpu(node.gpu).architecture, node.gpus)
    };
    let power = |id: InstanceId| {
        let node = hardware.instance(id).node;
        let peaks = hardware.gpu(node.gpu).peak_tflops;
        peaks.bf16.or(peaks.fp16).unwrap_or(0.0) * node.gpus.as_f64()
    };
    let mut groups: Vec<(BTreeSet<InstanceId>, BTreeSet<&Arc<str>>)> = Vec::new();
    for (region, instances) in &query.wanted {
        for id in instances.iter().copied().filter(|id| hardware.instance(*id).sold_as.spot) {
            let position =
                groups.iter().position(|(known, _)| known.first().is_some_and(|first| kind(*first) == kind(id)));
            let position = position.unwrap_or_else(|| {
                groups.push((BTreeSet::new(), BTreeSet::new()));
                groups.len() - 1
            });
            groups[position].0.insert(id);
            groups[position].1.insert(region);
        }
    }
    groups.sort_by(|(one, _), (other, _)| {
        let is_wanted = |ids: &BTreeSet<InstanceId>| !ids.is_disjoint(&query.candidates);
        let best = |ids: &BTreeSet<InstanceId>| ids.iter().map(|id| power(*id)).fold(0.0, f64::max);
        is_wanted(other).cmp(&is_wanted(one)).then(best(other).total_cmp(&best(one)))
    });
    let split = |(instances, regions): (BTreeSet<InstanceId>, BTreeSet<&Arc<str>>)| {
        let regions: Vec<Arc<str>> = regions.into_iter().cloned().collect();
        let instances: Vec<InstanceId> = instances.into_iter().collect();
        let some = |regions: &[Arc<str>]| Question { instances: instances.clone(), regions: regions.to_vec() };
        regions.chunks(REGIONS).map(some).collect::<Vec<_>>()
    };
    let mut questions: Vec<Question> = groups.into_iter().flat_map(split).collect();
    if questions.len() > MOST_QUESTIONS {
        let detail = format!(
            "{} questions are more than an account may ask a day; only {MOST_QUESTIONS} were asked",
            questions.len()
        );
        notes.push(SourceNote { place: "placement scores".to_owned(), detail });
        questions.truncate(MOST_QUESTIONS);
    }
    questions
}

async fn scores(
    account: &Account,
    client: &Client,
    place: &str,
    names: Vec<String>,
    regions: &[Arc<str>],
) -> Result<Vec<(Location, u8)>, SourceError> {
    let question = client.get_spot_placement_scores().target_capacity(1).single_availability_zone(true);
    let question = question.set_instance_types(Some(names));
    let question = question.set_region_names(Some(regions.iter().map(ToString::to_string).collect()));
    let mut pages = question.into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| account.error(place, &error))?;
        found.extend(page.spot_placement_scores().iter().filter_map(|score| {
            let place =
                Location { region: score.region()?.into(), zone_id: Some(score.availability_zone_id()?.into()) };
            let points =
                score.score().and_then(|score| u8::try_from(score).ok()).filter(|score| (1..=10).contains(score))?;
            Some((place, points))
        }));
    }
    Ok(found)
}

impl RiskSource for PlacementScores {
    fn about(&self) -> About {
        About::account(CLOUD, SOURCE)
    }

    fn risks<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<RiskAnswer, SourceError>> {
        Box::pin(self.ask(query))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::{CloudId, Hardware};

    fn hopper_and_others(hardware: &Hardware) -> OfferQuery<'_> {
        let all = hardware.instance_ids().filter(|id| hardware.instance(*id).cloud == CloudId::new(CLOUD));
        let all: Vec<InstanceId> = all.collect();
        let regions = (0..12).map(|number| (format!("region-{number:02}").into(), all.clone()));
        OfferQuery::for_instances(hardware, regions.collect())
    }

    #[test]
    fn the_most_capable_come_first_and_types_that_are_alike_together() {
        let hardware = Hardware::embedded().unwrap();
        let query = hopper_and_others(&hardware);
        let mut notes = Vec::new();
        let questions = questions(&query, &mut notes);
        let names = |question: &Question| -> Vec<&str> {
            question.instances.iter().map(|id| hardware.instance(*id).name.as_str()).collect()
        };
        assert!(questions.len() <= MOST_QUESTIONS && questions[0].regions.len() == REGIONS);
        assert_eq!(
            (names(&questions[0]), questions[1].regions.len()),
            (vec!["p6-b200.48xlarge", "p6-b300.48xlarge"], 2)
        );
        assert!(
            questions.iter().any(|it| names(it) == ["p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge"]),
            "{questions:?}"
        );
        assert!(questions.iter().any(|it| names(it).contains(&"g5.xlarge") && names(it).len() >= FAIR_TYPES));
    }

    #[test]
    fn what_a_plan_chooses_among_is_asked_before_all_else() {
        let hardware = Hardware::embedded().unwrap();
        let id = hardware.find_instance(&CloudId::new(CLOUD), "g6.xlarge").unwrap();
        let query = OfferQuery { candidates: BTreeSet::from([id]), ..hopper_and_others(&hardware) };
        assert!(questions(&query, &mut Vec::new())[0].instances.contains(&id));
    }
}
