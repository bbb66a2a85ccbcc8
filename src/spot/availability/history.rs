//! What a user's own launches say of a pool: starts, refusals and losses as hours up and down, with forgetting.

use gpuplan_market::own::{LastSeen, Seen};

use crate::availability::evidence::gang_factor;
use crate::availability::watch::{FIRST_PAUSE, LONGEST_PAUSE};

/// In so many hours what was seen counts half as much, and what is assumed counts as so many hours of it. The weight of a day of probes
/// that foretells the next 52 h best is half of theirs beside six hours, on AWS (2022) and H100 zones (2025) alike; it is halved after about a
/// week in the former and after one or two days in the latter (docs/risk.md, "Own launches").
pub const HALF_LIFE_HOURS: f64 = 72.0;
const ASSUMED_HOURS: f64 = 12.0;

/// How a pool was is carried on for so many hours: two days later it takes 6 to 10 % off the loss of the median on H100 and adds 1 to 2 % on AWS
/// (docs/risk.md, "Forecasts"); beyond that nothing was looked at.
const SAYS_SOMETHING_HOURS: f64 = 72.0;

/// What another zone of the same region says of a pool, over what the pool says itself: as the states of two zones of one type correlated on
/// average in October 2022 (0.11, 0.46, 0.51 and 0.56).
const OF_ANOTHER_ZONE: f64 = 0.41;

/// What an availability rests on that own launches have moved.
pub const OWN_LAUNCHES: &str = "your own launches of these machines";

/// What came of an attempt, or of what it gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saw {
    /// All machines were given.
    Gave,
    /// There were none.
    Refused,
    /// They were taken back.
    Lost,
    /// They were given back.
    Left,
}

/// Something that one run saw of a pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sighting {
    pub hours_ago: f64,
    pub saw: Saw,
}

/// What is known of how a pool is, if it is young enough to say something.
pub fn still_says(last: LastSeen) -> Option<LastSeen> {
    Some(last).filter(|last| last.hours_ago < SAYS_SOMETHING_HOURS)
}

/// Sums up what one run saw of one pool, the oldest first.
pub fn seen(sightings: &[Sighting]) -> Seen {
    let mut seen = Seen { age_hours: f64::INFINITY, ..Seen::default() };
    let mut row = sightings.to_vec();
    // Only what was had can be left.
    row.dedup_by(|next, before| next.saw == Saw::Left && before.saw != Saw::Gave);
    for (index, Sighting { hours_ago: ago, saw }) in row.iter().copied().enumerate() {
        let next = row.get(index + 1);
        let span = (ago - next.map_or(0.0, |next| next.hours_ago)).max(0.0);
        let followed_by = |saw: Saw| next.is_some_and(|next| next.saw == saw);
        let pause = LONGEST_PAUSE / 3600.0;
        match saw {
            // Of machines whose end nobody saw, an hour is known.
            Saw::Gave => {
                seen.starts += 1;
                let is_known = followed_by(Saw::Lost) || followed_by(Saw::Left);
                add(&mut seen, true, ago, if is_known { span } else { span.min(pause) });
            }
            Saw::Refused | Saw::Lost => {
                (seen.refusals, seen.losses) = match saw {
                    Saw::Refused => (seen.refusals + 1, seen.losses),
                    _ => (seen.refusals, seen.losses + 1),
                };
                // Until it said something else: if it then had machines, it has come up somewhere between.
                let down = match next {
                    None => span.min(FIRST_PAUSE / 3600.0),
                    Some(Sighting { saw: Saw::Gave, .. }) => span.min(pause) / 2.0,
                    Some(_) => span.min(pause),
                };
                add(&mut seen, false, ago, down);
            }
            Saw::Left => {}
        }
        seen.age_hours = seen.age_hours.min(ago);
    }
    seen.last = last_seen(&row);
    seen
}

/// How the pool was at the last of these: up since it gave the machines that were left, down since the first answer of a row that said so.
fn last_seen(row: &[Sighting]) -> Option<LastSeen> {
    let last = row.last()?;
    let is_up = |sighting: &&Sighting| matches!(sighting.saw, Saw::Gave | Saw::Left);
    let since = if is_up(&last) {
        row.iter().rfind(|sighting| sighting.saw == Saw::Gave)?
    } else {
        row.iter().rev().take_while(|sighting| !is_up(sighting)).last()?
    };
    Some(LastSeen { is_up: is_up(&last), age_hours: since.hours_ago - last.hours_ago, hours_ago: last.hours_ago })
}

/// `hours` of one state that began so many hours ago.
fn add(seen: &mut Seen, up: bool, ago: f64, hours: f64) {
    let left = |ago: f64| 0.5_f64.powf(ago.max(0.0) / HALF_LIFE_HOURS);
    let counted = (left(ago - hours) - left(ago)) * HALF_LIFE_HOURS / std::f64::consts::LN_2;
    seen.hours_counted += counted;
    if up {
        seen.hours_up += hours;
        seen.hours_counted_up += counted;
    } else {
        seen.hours_down += hours;
    }
}

/// What was seen of a pool in which a forecast is interested, or of one like it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alike<'a> {
    pub seen: &'a Seen,
    /// That were asked for at once.
    pub machines: u32,
    /// The same zone; else another one of its region.
    pub is_same: bool,
}

/// Share of time that a gang of so many machines is up: `assumed` counts as `ASSUMED_HOURS`, and what was seen as its hours. Of a gang of another
/// size it says as much, by what gangs of both sizes have of one machine.
pub fn learned_availability(assumed: f64, machines: u32, alike: &[Alike]) -> f64 {
    let (mut up, mut all) = (assumed * ASSUMED_HOURS, ASSUMED_HOURS);
    for Alike { seen, machines: of, is_same } in alike {
        let kin = if *is_same { 1.0 } else { OF_ANOTHER_ZONE };
        let share = seen.hours_counted_up / seen.hours_counted.max(f64::MIN_POSITIVE);
        let share = (share * gang_factor(machines) / gang_factor(*of)).clamp(0.0, 1.0);
        (up, all) = (up + kin * seen.hours_counted * share, all + kin * seen.hours_counted);
    }
    up / all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(of: &[(f64, Saw)]) -> Seen {
        seen(&of.iter().map(|(hours_ago, saw)| Sighting { hours_ago: *hours_ago, saw: *saw }).collect::<Vec<_>>())
    }

    #[test]
    fn hours_are_those_between_the_answers() {
        let seen =
            row(&[(10.0, Saw::Refused), (9.5, Saw::Gave), (4.0, Saw::Lost), (4.0, Saw::Left), (3.5, Saw::Refused)]);
        assert_eq!((seen.starts, seen.refusals, seen.losses), (1, 2, 1));
        assert_eq!((seen.hours_up, seen.age_hours), (5.5, 3.5));
        assert!((seen.hours_down - (0.25 + 0.5 + 1.0 / 6.0)).abs() < 1e-9, "{seen:?}");
        assert!(seen.hours_counted < 6.5 && seen.hours_counted > 6.0);
    }

    #[test]
    fn the_last_answer_says_how_the_pool_was() {
        let last = |of: &[(f64, Saw)]| row(of).last.map(|last| (last.is_up, last.age_hours, last.hours_ago));
        assert_eq!(last(&[(10.0, Saw::Refused), (9.5, Saw::Gave), (4.0, Saw::Left)]), Some((true, 5.5, 4.0)));
        assert_eq!(last(&[(9.5, Saw::Gave), (4.0, Saw::Lost), (3.5, Saw::Refused)]), Some((false, 0.5, 3.5)));
        assert_eq!(last(&[(9.5, Saw::Gave), (4.0, Saw::Lost), (4.0, Saw::Left)]), Some((false, 0.0, 4.0)));
        assert_eq!(last(&[(2.0, Saw::Gave)]), Some((true, 0.0, 2.0)));
        assert_eq!(last(&[]), None);
        let of = |hours: f64| row(&[(hours, Saw::Gave)]).last.and_then(still_says);
        assert!(of(48.0).is_some() && of(100.0).is_none());
    }

    #[test]
    fn machines_whose_end_nobody_saw_are_known_for_an_hour() {
        assert_eq!(row(&[(500.0, Saw::Gave)]).hours_up, 1.0);
        assert_eq!(row(&[(500.0, Saw::Gave), (300.0, Saw::Gave), (290.0, Saw::Left)]).hours_up, 11.0);
        assert_eq!(row(&[]).hours_counted, 0.0);
    }

    #[test]
    fn what_was_seen_moves_the_share_and_is_forgotten() {
        let learned =
            |seen: Seen, is_same: bool| learned_availability(0.6, 1, &[Alike { seen: &seen, machines: 1, is_same }]);
        let (lately, long_ago) =
            (row(&[(24.0, Saw::Gave), (0.0, Saw::Left)]), row(&[(3024.0, Saw::Gave), (3000.0, Saw::Left)]));
        assert!(learned(lately, true) > 0.8 && learned(lately, false) < learned(lately, true));
        assert!((learned(long_ago, true) - 0.6).abs() < 0.01);
        assert!(learned(row(&[(24.0, Saw::Refused), (23.5, Saw::Refused), (23.0, Saw::Refused)]), true) < 0.6);
        assert_eq!(learned_availability(0.6, 1, &[]), 0.6);
    }

    #[test]
    fn a_gang_is_up_less_often_than_the_machine_that_was_seen() {
        let seen = row(&[(48.0, Saw::Gave), (0.0, Saw::Left)]);
        let of =
            |machines: u32| learned_availability(0.6, machines, &[Alike { seen: &seen, machines: 1, is_same: true }]);
        assert!(of(16) < of(8) && of(8) < of(1));
    }
}
