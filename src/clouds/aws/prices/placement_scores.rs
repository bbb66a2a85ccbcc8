//! `PlacementScores`: asks EC2 how likely one spot machine of each type is had in each zone.

use std::collections::{BTreeMap, BTreeSet};
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
const SINGLE_TYPE: &str = "AWS scores a request for at least three machine types fairly; the scores of a single type, which these are, read low";

/// Spot placement scores, for one machine of one type each.
pub struct PlacementScores {
    session: Session,
}

impl PlacementScores {
    pub fn new(session: Session) -> Self {
        Self { session }
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<RiskAnswer, SourceError> {
        let account = &self.session.sign_in().await?;
        let mut answer = RiskAnswer::default();
        let questions = questions(query, &mut answer.notes);
        let Some((_, first_regions)) = questions.first() else { return Ok(answer) };
        let client = &account.ec2(account.home_region().unwrap_or(&first_regions[0]));
        let lanes = questions.into_iter().map(|(instance, regions)| async move {
            let name = &query.hardware.instance(instance).name;
            let scores = account.in_time(name, scores(account, client, name, &regions)).await;
            (name.clone(), scores.map(|scores| (instance, scores)))
        });
        let outcomes: Vec<_> = stream::iter(lanes).buffered(LANES).collect().await;
        for (instance, scores) in gather(outcomes, &mut answer.notes)? {
            let signals = scores.into_iter().map(|(place, score)| (instance, place, Signal::PlacementScore(score)));
            answer.signals.extend(signals);
        }
        if !answer.signals.is_empty() {
            answer.notes.push(SourceNote { place: "placement scores".to_owned(), detail: SINGLE_TYPE.to_owned() });
        }
        Ok(answer)
    }
}

/// Machine types with the regions that want them, as many as an account may ask a day. What is left out is a note.
fn questions(query: &OfferQuery, notes: &mut Vec<SourceNote>) -> Vec<(InstanceId, Vec<Arc<str>>)> {
    let mut regions: BTreeMap<InstanceId, BTreeSet<&Arc<str>>> = BTreeMap::new();
    for (region, instances) in &query.wanted {
        for instance in instances.iter().filter(|id| query.hardware.instance(**id).sold_as.spot) {
            regions.entry(*instance).or_default().insert(region);
        }
    }
    let split = |(instance, regions): (InstanceId, BTreeSet<&Arc<str>>)| {
        let regions: Vec<Arc<str>> = regions.into_iter().cloned().collect();
        regions.chunks(REGIONS).map(|chunk| (instance, chunk.to_vec())).collect::<Vec<_>>()
    };
    let mut questions: Vec<_> = regions.into_iter().flat_map(split).collect();
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
    name: &str,
    regions: &[Arc<str>],
) -> Result<Vec<(Location, u8)>, SourceError> {
    let question =
        client.get_spot_placement_scores().instance_types(name).target_capacity(1).single_availability_zone(true);
    let question = question.set_region_names(Some(regions.iter().map(ToString::to_string).collect()));
    let mut pages = question.into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| account.error(name, &error))?;
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
