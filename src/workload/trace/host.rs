//! `HostOperators`: operators of the host, nested as they call each other, for traces that have no device.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

/// Operators held: 32 MiB. A trace with a device needs none of them.
const MOST: usize = 1 << 20;

/// Host operators until a device shows up.
#[derive(Debug, Default)]
pub struct HostOperators {
    names: Vec<Box<str>>,
    index: FxHashMap<Box<str>, u32>,
    /// Thread, start, end (nanoseconds), name.
    spans: Vec<(u64, i64, i64, u32)>,
    is_needless: bool,
}

/// Span and busy time of the busiest thread, and each name's calls and time without that of what it called. Nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelfTimes {
    pub span: i64,
    pub busy: i64,
    pub operators: Vec<(String, u64, i64)>,
}

impl HostOperators {
    pub fn add(&mut self, thread: u64, name: &str, start: i64, end: i64) {
        if self.is_needless || self.spans.len() >= MOST || end < start {
            return;
        }
        let name = match self.index.get(name) {
            Some(at) => *at,
            None => {
                let at = self.names.len() as u32;
                self.names.push(name.into());
                self.index.insert(name.into(), at);
                at
            }
        };
        self.spans.push((thread, start, end, name));
    }

    /// The trace has a device.
    pub fn forget(&mut self) {
        if !self.is_needless {
            *self = Self { is_needless: true, ..Self::default() };
        }
    }

    pub fn self_times(mut self) -> SelfTimes {
        // Of those that start together the longest calls the others.
        self.spans.sort_unstable_by_key(|(thread, start, end, name)| (*thread, *start, -*end, *name));
        let mut times = vec![(0_u64, 0_i64); self.names.len()];
        let mut threads: BTreeMap<u64, (i64, i64, i64)> = BTreeMap::new();
        let mut open: Vec<(u64, i64, u32)> = Vec::new();
        for (thread, start, end, name) in &self.spans {
            while open.last().is_some_and(|(of, until, _)| of != thread || until <= start) {
                open.pop();
            }
            let nanos = end - start;
            let (from, to, busy) = threads.entry(*thread).or_insert((*start, *end, 0));
            (*from, *to) = ((*from).min(*start), (*to).max(*end));
            match open.last() {
                // What sticks out of its caller is counted to it alone.
                Some((_, until, caller)) => times[*caller as usize].1 -= nanos.min(until - start),
                None => *busy += nanos,
            }
            times[*name as usize].0 += 1;
            times[*name as usize].1 += nanos;
            open.push((*thread, *end, *name));
        }
        let busiest =
            threads.into_values().max_by_key(|(_, _, busy)| *busy).map_or((0, 0), |(from, to, busy)| (to - from, busy));
        let named = self.names.iter().zip(times).filter(|(_, (calls, _))| *calls > 0);
        let operators = named.map(|(name, (calls, nanos))| (name.to_string(), calls, nanos.max(0))).collect();
        SelfTimes { span: busiest.0, busy: busiest.1, operators }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_keep_only_their_own_time() {
        let mut host = HostOperators::default();
        host.add(1, "addmm", 10, 40);
        host.add(1, "linear", 0, 50);
        host.add(2, "linear", 0, 7);
        host.add(1, "relu", 60, 70);
        let mut found = host.self_times();
        found.operators.sort();
        assert_eq!((found.span, found.busy), (70, 60));
        assert_eq!(
            found.operators,
            [("addmm".to_owned(), 1, 30), ("linear".to_owned(), 2, 27), ("relu".to_owned(), 1, 10)]
        );
    }

    #[test]
    fn a_device_makes_them_needless() {
        let mut host = HostOperators::default();
        host.add(1, "linear", 0, 50);
        host.forget();
        host.add(1, "linear", 0, 50);
        assert_eq!(host.self_times(), SelfTimes::default());
    }
}
