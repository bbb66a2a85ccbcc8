//! Reservations for a date (future reservations in calendar mode) as a `Seller`: where they can be had, booked once under a name of the run, and
//! found again by it.

use std::collections::BTreeMap;

use google_cloud_compute_v1::model::Operation;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::encoded::percent_encoded;
use crate::launcher::body::COMPUTE;
use crate::launcher::refused::{operation_error, source_error, wrong};
use crate::launcher::{GcpLauncher, PAUSE, marked, request_id};
use crate::prices::calendar::bookings;
use crate::prices::pools::Failure;
use crate::prices::spot_prices::client;
use crate::prices::zones::{last_segment, region};
use gpuplan_clouds_http::Request;
use gpuplan_launch::LaunchError;
use gpuplan_launch::block::{BlockOffer, BlockOrder, BlockQuery, Seller};
use gpuplan_market::{Booking, BoxFuture, SourceError, Span};

/// Machines of one request in calendar mode (cloud.google.com/compute/docs/instances/about-reservation-bound-vms, "VM creation prerequisites").
const MOST_MACHINES: u32 = 80;
/// Longest name of a resource (RFC 1035).
const LONGEST_NAME: usize = 63;

/// `futureReservations`, as far as they are read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Booked {
    zone: String,
    #[serde(default)]
    reservation_name: Option<String>,
    time_window: Window,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Window {
    end_time: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    procurement_status: String,
}

/// What became of a request.
#[derive(PartialEq)]
enum Verdict {
    Granted,
    Refused,
    /// Google has not decided yet.
    Open,
}

impl Booked {
    /// States of a request (compute API v1, `FutureReservationStatus`).
    fn verdict(&self) -> Verdict {
        match self.status.procurement_status.as_str() {
            "APPROVED" | "COMMITTED" | "PROCURING" | "PROVISIONING" | "FULFILLED" => Verdict::Granted,
            "DECLINED" | "CANCELLED" | "FAILED" | "FAILED_PARTIALLY_FULFILLED" => Verdict::Refused,
            _ => Verdict::Open,
        }
    }
}

/// `futureReservations.aggregatedList`.
#[derive(Deserialize)]
struct List {
    #[serde(default)]
    items: BTreeMap<String, Scope>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scope {
    #[serde(default)]
    future_reservations: Vec<Booked>,
}

impl GcpLauncher {
    /// Google says when and where; the price is that of the plan, since all of the span is paid for at the list price of these terms.
    async fn openings(&self, wish: &BlockQuery) -> Result<Vec<BlockOffer>, LaunchError> {
        let BlockQuery { region, instance_type, machines, hours, rate_usd_per_hour } = wish;
        if *machines > MOST_MACHINES {
            let detail =
                format!("Google books {MOST_MACHINES} machines for a date at most; --max-nodes {MOST_MACHINES}");
            return Err(wrong(detail));
        }
        let span = Span { machines: *machines, hours: *hours };
        let advice = client(&self.project).await.map_err(|error| source_error(&error))?;
        let found = match bookings(&advice, self.id()?, region, instance_type, span, None).await {
            Ok(found) => found,
            Err(Failure::Nothing(_)) => Vec::new(),
            Err(Failure::Pool(error) | Failure::Everywhere(error)) => return Err(source_error(&error)),
        };
        let upfront_usd = rate_usd_per_hour
            .for_hours(*machines, f64::from(*hours))
            .ok_or_else(|| wrong(format!("nobody can say what {hours} h of {machines} machines cost")))?;
        let offer = |(zone_id, booking): (String, Booking)| BlockOffer {
            id: format!("{zone_id} from {}", booking.starts_at),
            zone_id,
            starts_at: booking.starts_at,
            ends_at: booking.ends_at,
            upfront_usd,
        };
        let mut offers: Vec<BlockOffer> = found.into_iter().map(offer).collect();
        offers.sort_by_key(|offer| offer.starts_at);
        Ok(offers)
    }

    /// One name is one reservation: a request that is repeated finds the first.
    async fn book(&self, run: &str, order: &BlockOrder) -> Result<String, LaunchError> {
        let (project, name, zone) = (self.id()?, name_of(run), &order.offer.zone_id);
        let body = json!({
            "name": name,
            "description": format!("gpuplan run {run} of {}", self.owner),
            "planningStatus": "SUBMITTED",
            "reservationMode": "CALENDAR",
            "reservationName": name,
            "autoDeleteAutoCreatedReservations": true,
            "specificReservationRequired": true,
            "deploymentType": "DENSE",
            "specificSkuProperties": {
                "instanceProperties": {"machineType": order.instance_type},
                "totalCount": order.machines.to_string(),
            },
            "timeWindow": {"startTime": order.offer.starts_at.to_string(), "endTime": order.offer.ends_at.to_string()},
            "shareSettings": {"shareType": "LOCAL"},
        });
        let all =
            format!("{}/compute/v1/projects/{project}/zones/{zone}/futureReservations", self.project.address(COMPUTE));
        let url = format!("{all}?requestId={}", request_id(&name, zone));
        let request = Request::post(url, "application/json", body.to_string());
        match self.ask::<Operation>(request).await {
            Ok(begun) => {
                let ended = self.ended(zone, begun).await?;
                if let Some(error) = operation_error(&ended, |_| "gpuplan doctor".to_owned()) {
                    return Err(error);
                }
            }
            Err(SourceError::Refused { code, .. }) if code == "409" => {}
            Err(SourceError::Refused { code, detail }) if code.starts_with("400") => {
                return Err(LaunchError::Request { code, detail });
            }
            Err(error) => return Err(source_error(&error)),
        }
        let until = Instant::now() + self.patience;
        loop {
            let booked: Booked =
                self.ask(Request::get(format!("{all}/{name}"))).await.map_err(|error| source_error(&error))?;
            match booked.verdict() {
                Verdict::Granted => return Ok(name),
                Verdict::Refused => return Err(LaunchError::Capacity { code: booked.status.procurement_status }),
                Verdict::Open if Instant::now() >= until => {
                    return Err(LaunchError::Unclear { code: format!("Google has not decided on {name} yet") });
                }
                Verdict::Open => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    async fn booked(&self, run: &str, in_region: &str) -> Result<Option<String>, LaunchError> {
        let filter = percent_encoded(&format!("name eq \"{}\"", name_of(run)));
        let url = format!(
            "{}/compute/v1/projects/{}/aggregated/futureReservations?filter={filter}",
            self.project.address(COMPUTE),
            self.id()?
        );
        let list: List = self.ask(Request::get(url)).await.map_err(|error| source_error(&error))?;
        let now = self.now();
        let is_alive = |booked: &Booked| {
            region(last_segment(&booked.zone)) == Some(in_region)
                && booked.verdict() == Verdict::Granted
                && booked.time_window.end_time.is_none_or(|end| end > now)
        };
        let mut all = list.items.into_values().flat_map(|scope| scope.future_reservations);
        Ok(all.find(is_alive).map(|booked| booked.reservation_name.unwrap_or_else(|| name_of(run))))
    }
}

/// Of the reservation and of what asks for it.
fn name_of(run: &str) -> String {
    let plain = run.to_ascii_lowercase();
    let plain: String = plain.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    marked(&format!("gpuplan-{}", plain.trim_matches('-')), run, LONGEST_NAME)
}

impl Seller for GcpLauncher {
    fn offered<'a>(&'a self, wish: &'a BlockQuery) -> BoxFuture<'a, Result<Vec<BlockOffer>, LaunchError>> {
        Box::pin(self.openings(wish))
    }

    fn buy<'a>(&'a self, run: &'a str, order: &'a BlockOrder) -> BoxFuture<'a, Result<String, LaunchError>> {
        Box::pin(self.book(run, order))
    }

    fn bought<'a>(&'a self, run: &'a str, region: &'a str) -> BoxFuture<'a, Result<Option<String>, LaunchError>> {
        Box::pin(self.booked(run, region))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_a_name_of_its_own_that_google_takes() {
        let name = name_of("Llama_3.1");
        assert!(name.starts_with("gpuplan-llama-3-1-") && name != name_of("llama-3.1"), "{name}");
        assert!(name_of(&"x".repeat(90)).len() <= LONGEST_NAME);
    }

    #[test]
    fn what_google_has_not_decided_is_neither_paid_nor_refused() {
        let of = |status: &str| {
            let json = format!(
                r#"{{"zone": "z/us-central1-b", "timeWindow": {{}}, "status": {{"procurementStatus": "{status}"}}}}"#
            );
            serde_json::from_str::<Booked>(&json).unwrap().verdict()
        };
        assert!(of("APPROVED") == Verdict::Granted && of("DECLINED") == Verdict::Refused);
        assert!(of("PENDING_APPROVAL") == Verdict::Open && of("A_WORD_OF_TOMORROW") == Verdict::Open);
    }
}
