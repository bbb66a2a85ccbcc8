//! Asks the clouds which machines they have where, before anybody asks for prices; what no catalog has becomes a row of this run's.

use std::time::Duration;

use crate::question::asking::{Question, replies};
use crate::session::diagnostic::Diagnostic;
use crate::session::{Catalogs, Session};
use gpuplan_clouds::Sources;
use gpuplan_hardware::CloudId;
use gpuplan_market::{About, MachineList, OfferQuery, SourceError};
use gpuplan_units::Hours;

/// Lists of machines change by the month; one that is younger is used again where nobody asks for a new one.
const LIST_FRESH: Hours = Hours(24.0);
/// How long the lists may take. `live.rs` adds that of prices.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What one source of lists answered.
pub struct ListReport {
    pub about: About,
    pub address: String,
    pub answer: Result<MachineList, SourceError>,
}

/// What is known of the machines of each cloud, and what its sources answered just now.
pub struct Listed {
    pub lists: Vec<(CloudId, MachineList)>,
    pub reports: Vec<ListReport>,
}

/// Which machines each cloud has where, as it says now or said within the day, and the rows of what is new laid into the catalog.
pub fn list_machines(
    clouds: &[(CloudId, Sources)],
    catalogs: &mut Catalogs,
    session: &Session,
    ask_again: bool,
) -> Result<Listed, Diagnostic> {
    let mut cache = session.cache();
    let (mut lists, mut unlisted) = (Vec::new(), Vec::new());
    for (cloud, sources) in clouds.iter().filter(|(_, sources)| !sources.machines.is_empty()) {
        let kept = cache.as_ref().and_then(|cache| cache.machines(cloud).ok().flatten());
        match kept.filter(|(listed_at, _)| !ask_again && is_fresh(session, *listed_at)) {
            Some((_, mut list)) => {
                list.teach(cloud, &mut catalogs.hardware);
                lists.push((cloud.clone(), list));
            }
            None => unlisted.push((cloud, sources)),
        }
    }
    let known = |cloud: &CloudId| OfferQuery::known(&catalogs.market, &catalogs.hardware, cloud).within(PATIENCE);
    let asked: Vec<_> = unlisted.into_iter().map(|(cloud, sources)| (sources, known(cloud))).collect();
    let mut questions = Vec::new();
    for (sources, known) in &asked {
        questions.extend(sources.machines.iter().map(|source| Question {
            about: source.about(),
            address: source.address(),
            future: source.machines(known),
        }));
    }
    let named: Vec<_> = questions.iter().map(|question| (question.about, question.address.clone())).collect();
    let answers = replies(questions, PATIENCE, &session.printer)?;
    let mut reports = Vec::new();
    for ((about, address), answer) in named.into_iter().zip(answers) {
        let cloud = CloudId::new(about.cloud);
        let answer = answer.map(|list| {
            let mut list = list.said(session.now);
            list.teach(&cloud, &mut catalogs.hardware);
            list
        });
        if let Ok(list) = &answer {
            let kept = cache.as_mut().map_or(Ok(()), |cache| cache.store_machines(&cloud, list, session.now));
            if let Err(error) = kept {
                session.printer.warning(&format!("{}: its answer could not be kept: {error}", about.id));
            }
            lists.push((cloud, list.clone()));
        }
        reports.push(ListReport { about, address, answer });
    }
    Ok(Listed { lists, reports })
}

fn is_fresh(session: &Session, listed_at: jiff::Timestamp) -> bool {
    let age = Hours(session.now.duration_since(listed_at).as_secs_f64() / 3600.0);
    age.0 >= 0.0 && age <= LIST_FRESH
}
