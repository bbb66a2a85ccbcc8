//! `Timeline`: when a device worked, waited and communicated, from spans that arrive roughly in order, in bounded memory.
//!
//! Spans are collected until there are too many; then the older part is sorted, counted and forgotten. A span that starts
//! before what is forgotten comes too late for the timeline, and is counted as such.

use rustc_hash::FxHashMap;

/// Spans held before the older ones are counted: 6 MiB a device.
const MOST_SPANS: usize = 1 << 18;
/// Launches remembered until their kernel comes: 64 MiB. Kineto writes all calls of the host before the kernels.
const MOST_LAUNCHES: usize = 1 << 22;

/// Work of a device. Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: i64,
    pub end: i64,
    /// Joins it to the call of the host that launched it; 0: unknown.
    pub correlation: u32,
    pub is_communication: bool,
}

/// When the host had launched what.
#[derive(Debug, Default)]
pub struct Launches {
    ends: FxHashMap<u32, i64>,
    /// Calls that were not remembered.
    pub forgotten: u64,
}

impl Launches {
    pub fn add(&mut self, correlation: u32, end: i64) {
        if self.ends.len() < MOST_LAUNCHES {
            self.ends.insert(correlation, end);
        } else {
            self.forgotten += 1;
        }
    }
}

/// Sums over the life of a device. Nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub start: Option<i64>,
    pub end: i64,
    pub busy: i64,
    /// Gaps in which the next work had not been launched yet.
    pub host_bound: i64,
    pub communication: i64,
    /// Communication beside which nothing else ran.
    pub exposed: i64,
    /// Spans that came after their time was counted.
    pub late: u64,
}

impl Totals {
    pub fn span(&self) -> i64 {
        self.start.map_or(0, |start| self.end - start)
    }
}

#[derive(Debug, Default)]
pub struct Timeline {
    spans: Vec<Span>,
    counted_to: Option<i64>,
    totals: Totals,
}

impl Timeline {
    pub fn add(&mut self, span: Span, launches: &mut Launches) {
        if span.end <= span.start {
            return;
        }
        if self.counted_to.is_some_and(|counted| span.start < counted) {
            self.totals.late += 1;
            return;
        }
        self.spans.push(span);
        if self.spans.len() >= MOST_SPANS {
            self.spans.sort_unstable_by_key(|span| span.start);
            let until = self.spans[MOST_SPANS / 4 * 3].start;
            self.count(until, launches);
        }
    }

    pub fn finish(mut self, launches: &mut Launches) -> Totals {
        self.spans.sort_unstable_by_key(|span| span.start);
        self.count(i64::MAX, launches);
        self.totals
    }

    /// Counts all before `until` and keeps the rest; a span across it is cut in two.
    fn count(&mut self, until: i64, launches: &mut Launches) {
        let mut work = Union::default();
        let mut communication = Union::default();
        let mut other = Union::default();
        let mut kept = Vec::new();
        // `spans` is sorted by start.
        for span in std::mem::take(&mut self.spans) {
            if span.start >= until {
                kept.push(span);
                continue;
            }
            if span.end > until {
                kept.push(Span { start: until, correlation: 0, ..span });
            }
            let launch_end = launches.ends.remove(&span.correlation).filter(|_| span.correlation != 0);
            self.gap_before(&span, launch_end);
            let (start, end) = (span.start, span.end.min(until));
            work.add(start, end);
            let kind = if span.is_communication { &mut communication } else { &mut other };
            kind.add(start, end);
            self.totals.end = self.totals.end.max(end);
        }
        self.totals.busy += work.total();
        self.totals.communication += communication.total();
        self.totals.exposed += communication.total() - communication.overlap(&other);
        self.counted_to = Some(until);
        self.spans = kept;
    }

    /// The time since all earlier work ended, as far as nothing had been launched in it.
    fn gap_before(&mut self, span: &Span, launched: Option<i64>) {
        let Some(_) = self.totals.start else {
            self.totals.start = Some(span.start);
            self.totals.end = span.start;
            return;
        };
        let idle_since = self.totals.end;
        if let Some(launched) = launched.filter(|_| span.start > idle_since) {
            self.totals.host_bound += launched.clamp(idle_since, span.start) - idle_since;
        }
    }
}

/// Disjoint intervals in order.
#[derive(Default)]
struct Union {
    intervals: Vec<(i64, i64)>,
}

impl Union {
    /// Starts must not fall.
    fn add(&mut self, start: i64, end: i64) {
        match self.intervals.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => self.intervals.push((start, end)),
        }
    }

    fn total(&self) -> i64 {
        self.intervals.iter().map(|(start, end)| end - start).sum()
    }

    fn overlap(&self, other: &Self) -> i64 {
        let (mut mine, mut theirs, mut shared) = (0, 0, 0);
        while let (Some(a), Some(b)) = (self.intervals.get(mine), other.intervals.get(theirs)) {
            shared += (a.1.min(b.1) - a.0.max(b.0)).max(0);
            if a.1 <= b.1 { mine += 1 } else { theirs += 1 }
        }
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(start: i64, end: i64, correlation: u32, is_communication: bool) -> Span {
        Span { start, end, correlation, is_communication }
    }

    fn totals(spans: &[Span], calls: &[(u32, i64)]) -> Totals {
        let (mut timeline, mut launches) = (Timeline::default(), Launches::default());
        for (correlation, end) in calls {
            launches.add(*correlation, *end);
        }
        for span in spans {
            timeline.add(*span, &mut launches);
        }
        timeline.finish(&mut launches)
    }

    #[test]
    fn gaps_are_the_host_s_where_nothing_was_launched() {
        // Idle from 10 to 20, launched at 17: seven of the host. Idle from 30 to 40, launched at 25 already: none.
        let found = totals(
            &[span(0, 10, 1, false), span(20, 30, 2, false), span(40, 50, 3, false)],
            &[(1, 0), (2, 17), (3, 25)],
        );
        assert_eq!((found.busy, found.span(), found.host_bound), (30, 50, 7));
    }

    #[test]
    fn communication_beside_work_is_hidden() {
        let found = totals(&[span(0, 100, 0, false), span(50, 150, 0, true), span(140, 160, 0, false)], &[]);
        assert_eq!((found.communication, found.exposed, found.busy), (100, 40, 160));
    }

    #[test]
    fn counting_in_parts_gives_the_same() {
        let many: Vec<Span> =
            (0..MOST_SPANS as i64 * 2).map(|at| span(at * 10, at * 10 + 12, 0, at % 5 == 0)).collect();
        let found = totals(&many, &[]);
        assert_eq!(found.late, 0);
        assert_eq!(found.busy, found.span());
        // Of each communication of 12, the next two spans cover all but 8 of it, the one before 2 more at its beginning.
        assert_eq!(found.communication, MOST_SPANS as i64 * 2 / 5 * 12 + 12);
    }

    proptest! {
        #[test]
        fn parts_never_exceed_the_whole(raw in prop::collection::vec((0_i64..1000, 0_i64..100, 0_u32..20, any::<bool>()), 0..60),
                                        calls in prop::collection::vec((0_u32..20, 0_i64..1000), 0..20)) {
            let spans: Vec<Span> = raw.iter().map(|(start, length, id, talk)| span(*start, start + length, *id, *talk)).collect();
            let found = totals(&spans, &calls);
            prop_assert!(found.busy <= found.span());
            prop_assert!(found.host_bound <= found.span() - found.busy);
            prop_assert!(found.exposed <= found.communication && found.communication <= found.busy);
        }
    }
}
