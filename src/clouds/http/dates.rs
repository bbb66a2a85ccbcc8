//! `Dates`: what a cloud says the time is, whatever the clock of this machine says.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use jiff::fmt::rfc2822;
use jiff::{SignedDuration, Timestamp};

/// The moment that the last answer of a cloud named, and when it came. Clones hear for each other.
#[derive(Clone, Debug, Default)]
pub struct Dates(Arc<Mutex<Option<(Timestamp, Instant)>>>);

impl Dates {
    /// The header `Date` of an answer (RFC 9110, 6.6.1), where there is one.
    pub fn hear(&self, date: Option<&str>) {
        if let Some(at) = date.and_then(http_date) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((at, Instant::now()));
        }
    }

    /// Counted on from the last answer. `None`: no answer named the time.
    pub fn now(&self) -> Option<Timestamp> {
        let (at, since) = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        at.checked_add(SignedDuration::try_from(since.elapsed()).ok()?).ok()
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, which mail dates are nearly.
pub fn http_date(text: &str) -> Option<Timestamp> {
    rfc2822::parse(text).ok().map(|zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_headers_are_read() {
        assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), "1994-11-06T08:49:37Z".parse().ok());
        assert_eq!(http_date("yesterday"), None);
    }

    #[test]
    fn the_time_is_what_was_heard_last_and_unknown_before() {
        let dates = Dates::default();
        dates.hear(None);
        dates.hear(Some("now"));
        assert_eq!(dates.now(), None);
        dates.clone().hear(Some("Sun, 06 Nov 1994 08:49:37 GMT"));
        let heard: Timestamp = "1994-11-06T08:49:37Z".parse().unwrap();
        assert!(dates.now().is_some_and(|now| now >= heard && now < heard + SignedDuration::from_mins(10)));
        dates.hear(Some("not now"));
        assert!(dates.now().is_some(), "an answer without a date says nothing");
    }
}
