//! `CalendarAdvice`: when Compute Engine would have as many machines for as long as a plan needs, as a reservation for a date.

use std::collections::HashMap;

use google_cloud_compute_v1::client::Advice;
use google_cloud_compute_v1::model::{
    CalendarModeAdviceRequest, FlexibleTimeRange, FutureResourcesRecommendation, FutureResourcesSpec,
    FutureResourcesSpecSpecificSKUResources, FutureResourcesSpecTargetResources,
};
use google_cloud_wkt::{Duration, Timestamp as Moment};
use jiff::Timestamp;

use crate::CLOUD;
use crate::account::project::Project;
use crate::prices::pools::{Failure, ask_each, pools};
use crate::prices::spot_prices::client;
use crate::prices::zones::last_segment;
use crate::sdk::failure;
use gpuplan_market::{About, Booking, BoxFuture, OfferQuery, Opening, RiskAnswer, RiskSource, SourceError, Span};

/// What the question needs.
const PERMISSION: &str = "compute.advice.calendarMode";
/// Name of what is asked for within a request.
const SPEC: &str = "machines";

/// The advisor of reservations in calendar mode, read with the application default credentials.
pub struct CalendarAdvice {
    pub project: Project,
}

impl CalendarAdvice {
    async fn ask(&self, query: &OfferQuery<'_>) -> Result<RiskAnswer, SourceError> {
        let (project, client) = (self.project.id()?, client(&self.project).await?);
        let answers = ask_each(pools(query), query.patience, |pool| {
            let (client, span) = (client.clone(), query.span(pool.instance));
            async move {
                let found = bookings(&client, project, &pool.region, &pool.machine_type, span, query.until).await?;
                let opening = |(zone, booking): (String, Booking)| Opening {
                    instance: pool.instance,
                    place: pool.place(Some(&zone)),
                    booking,
                };
                Ok(found.into_iter().map(opening).collect::<Vec<_>>())
            }
        });
        let answers = answers.await?;
        let openings = answers.values.into_iter().flatten().collect();
        Ok(RiskAnswer { openings, notes: answers.notes, ..RiskAnswer::default() })
    }
}

impl RiskSource for CalendarAdvice {
    fn about(&self) -> About {
        About::account(CLOUD, "gcp-calendar-advice")
    }

    fn is_about_spans(&self) -> bool {
        true
    }

    fn risks<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<RiskAnswer, SourceError>> {
        Box::pin(self.ask(query))
    }
}

/// Zones of a region in which machines can be reserved for so long, and when.
pub async fn bookings(
    client: &Advice,
    project: &str,
    region: &str,
    machine_type: &str,
    span: Span,
    until: Option<Timestamp>,
) -> Result<Vec<(String, Booking)>, Failure> {
    let length = Duration::clamp(i64::from(span.hours) * 3600, 0);
    let last_start = until.map(|until| Moment::clamp(until.as_second() - i64::from(span.hours) * 3600, 0));
    let range = FlexibleTimeRange::new().set_min_duration(length).set_max_duration(length);
    let machines = FutureResourcesSpecSpecificSKUResources::new()
        .set_machine_type(machine_type)
        .set_instance_count(i64::from(span.machines));
    let spec = FutureResourcesSpec::new()
        .set_target_resources(FutureResourcesSpecTargetResources::new().set_specific_sku_resources(machines))
        .set_time_range_spec(range.set_or_clear_start_time_not_later_than(last_start));
    let request = CalendarModeAdviceRequest::new().set_future_resources_specs([(SPEC, spec)]);
    let call = client.calendar_mode().set_project(project).set_region(region).set_body(request);
    let answer = call.send().await.map_err(|error| failure(region, PERMISSION, &error))?;
    let specs = answer.recommendations.iter().map(|advice| &advice.recommendations_per_spec);
    let found: Vec<_> = specs.flat_map(HashMap::values).filter_map(|said| booking(span, said)).collect();
    if found.is_empty() {
        let detail = format!("nowhere {} for {} h in calendar mode", span.machines, span.hours);
        return Err(Failure::Nothing(detail));
    }
    Ok(found)
}

/// `None`: no place is recommended.
fn booking(span: Span, said: &FutureResourcesRecommendation) -> Option<(String, Booking)> {
    let zone = last_segment(said.location.as_deref().filter(|location| !location.is_empty())?);
    let moment = |time: &Moment| Timestamp::new(time.seconds(), 0).ok();
    let (starts_at, ends_at) = (said.start_time.as_ref().and_then(moment)?, said.end_time.as_ref().and_then(moment)?);
    let booking = Booking { starts_at, ends_at, machines: span.machines, paid_hours: span.hours };
    Some((zone.to_owned(), booking))
}
