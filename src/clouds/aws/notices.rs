//! Spot interruption and rebalance notices of an EC2 machine, from the instance metadata service, version 2.
//!
//! Addresses, token and answers as in AWS's user guide (spot-instance-termination-notices, instancedata-data-retrieval).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::Deserialize;

use gpuplan_agent::ports::notice::LONGEST;
use gpuplan_agent::{BoxFuture, Notice, NoticeError, NoticeSource, Urgency};
use gpuplan_clouds_http::endpoint;
use gpuplan_clouds_http::metadata::{Metadata, Said, Way};

pub const ENDPOINT: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
const BASE: &str = "http://169.254.169.254";
/// AWS recommends to look every 5 s; a shorter pace finds it sooner and costs nothing on the host.
const PACE: Duration = Duration::from_secs(3);
const TOKEN_SECONDS: u64 = 3600;
/// A token is made anew so long before it ends.
const TOKEN_MARGIN: u64 = 900;

pub struct SpotNotices {
    metadata: Metadata,
    token: Mutex<Option<(String, Instant)>>,
}

impl SpotNotices {
    pub fn from_environment() -> Result<Self, NoticeError> {
        Ok(Self { metadata: Metadata::new(endpoint(ENDPOINT, BASE))?, token: Mutex::new(None) })
    }

    async fn token(&self) -> Result<String, NoticeError> {
        let kept = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((token, until)) = kept
            && Instant::now() < until
        {
            return Ok(token);
        }
        let life = TOKEN_SECONDS.to_string();
        let headers = [("x-aws-ec2-metadata-token-ttl-seconds", life.as_str())];
        let said = self.metadata.ask(Way::Put, "/latest/api/token", &headers, Duration::ZERO).await?;
        if said.status != 200 {
            return Err(NoticeError(format!("no token: status {}", said.status)));
        }
        let until = Instant::now() + Duration::from_secs(TOKEN_SECONDS - TOKEN_MARGIN);
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some((said.body.clone(), until));
        Ok(said.body)
    }

    /// A token that is refused is dropped, and one new one is tried.
    async fn get(&self, path: &str) -> Result<Said, NoticeError> {
        for _ in 0..2 {
            let token = self.token().await?;
            let said =
                self.metadata.ask(Way::Get, path, &[("x-aws-ec2-metadata-token", &token)], Duration::ZERO).await?;
            if said.status != 401 {
                return Ok(said);
            }
            *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        Err(NoticeError("every token is refused".to_owned()))
    }
}

impl NoticeSource for SpotNotices {
    fn name(&self) -> &'static str {
        "aws instance metadata"
    }

    fn pace(&self) -> Duration {
        PACE
    }

    fn poll(&self) -> BoxFuture<'_, Result<Option<Notice>, NoticeError>> {
        Box::pin(async {
            if let Some(notice) = action(&self.get("/latest/meta-data/spot/instance-action").await?)? {
                return Ok(Some(notice));
            }
            let advice = self.get("/latest/meta-data/events/recommendations/rebalance").await?;
            rebalance(&advice)
        })
    }
}

#[derive(Deserialize)]
struct Action {
    action: String,
    time: Timestamp,
}

/// 404 until AWS decides, then `{"action": "terminate", "time": "..."}`.
fn action(said: &Said) -> Result<Option<Notice>, NoticeError> {
    match said.status {
        404 => Ok(None),
        200 => {
            let action: Action = serde_json::from_str(&said.body).map_err(|error| NoticeError(error.to_string()))?;
            Ok(Some(Notice {
                urgency: Urgency::Leave,
                from: format!("aws spot {}", action.action),
                left: left(action.time, said.at),
            }))
        }
        status => Err(NoticeError(format!("status {status}"))),
    }
}

fn rebalance(said: &Said) -> Result<Option<Notice>, NoticeError> {
    match said.status {
        404 => Ok(None),
        200 => {
            Ok(Some(Notice { urgency: Urgency::Advice, from: "aws rebalance recommendation".to_owned(), left: None }))
        }
        status => Err(NoticeError(format!("status {status}"))),
    }
}

/// Between two times of the service, so that a wrong clock of this machine changes nothing.
pub fn left(time: Timestamp, answered: Option<Timestamp>) -> Option<Duration> {
    let left = time.duration_since(answered?);
    Some(Duration::try_from(left).unwrap_or_default().min(LONGEST))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(status: u16, body: &str) -> Said {
        Said { status, body: body.to_owned(), at: "2026-01-01T00:00:00Z".parse().ok() }
    }

    #[test]
    fn the_time_left_is_the_services_own() {
        let notice = action(&said(200, r#"{"action":"terminate","time":"2026-01-01T00:01:30Z"}"#)).unwrap().unwrap();
        assert_eq!((notice.left, notice.from.as_str()), (Some(Duration::from_secs(90)), "aws spot terminate"));
        assert_eq!(action(&said(404, "")), Ok(None));
        let far = action(&said(200, r#"{"action":"stop","time":"2027-01-01T00:00:00Z"}"#)).unwrap().unwrap();
        assert_eq!(far.left, Some(LONGEST));
        let past = action(&said(200, r#"{"action":"hibernate","time":"2025-01-01T00:00:00Z"}"#)).unwrap().unwrap();
        assert_eq!(past.left, Some(Duration::ZERO));
        assert_eq!(rebalance(&said(200, "{}")).unwrap().unwrap().urgency, Urgency::Advice);
    }

    proptest! {
        #[test]
        fn any_answer_is_a_notice_none_or_an_error(status: u16, body in ".{0,60}") {
            prop_assert!(!matches!(action(&said(status, &body)), Ok(Some(_))));
        }
    }
}
