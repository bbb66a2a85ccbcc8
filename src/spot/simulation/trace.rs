//! Traces of availability: how many machines of a pool could be had at every tick. Reads JSON lines and the public spot-traces form.

use serde::Deserialize;

/// More ticks than this in one trace are no measurement: four years of 32-second probes. A few bytes of a line can ask for any
/// number of them.
const MOST_TICKS: usize = 1 << 22;
/// The same of all traces of a file.
const MOST_TICKS_OF_A_FILE: usize = 1 << 26;

/// One pool over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Name by which cases refer to it.
    pub source: String,
    /// Seconds from one probe to the next.
    pub gap: f64,
    /// Machines obtainable at each tick; where only yes and no were recorded, 1 and 0.
    pub obtainable: Vec<u32>,
}

/// Why text is no trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    #[error("line {line}: {detail}")]
    Unreadable { line: usize, detail: String },
    /// Neither form. A list of events or of prices says nothing of machines by time.
    #[error(
        "line {line} is no trace: write one line a pool, such as {{\"source\": \"us-west-2a\", \"gap_seconds\": 600, \"rle\": [[1, 12], [0, 3]]}}, \
         where [1, 12] is one machine for 12 ticks of 600 s; or one file {{\"metadata\": {{\"gap_seconds\": 600}}, \"data\": [1, 1, 0]}}; \
         what spot cost stands in a case, as `spot_usd_per_hour_path` of a pool"
    )]
    NeitherForm { line: usize },
    #[error("no trace in it")]
    Empty,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TraceDocument {
    /// `null`: nobody looked, which counts as none.
    Runs {
        source: String,
        gap_seconds: f64,
        ticks: Option<usize>,
        rle: Vec<(Option<u32>, usize)>,
    },
    Public {
        metadata: Metadata,
        data: Vec<u32>,
    },
}

#[derive(Deserialize)]
struct Metadata {
    gap_seconds: f64,
}

impl Trace {
    /// Reads a whole file: one document in the public form, called `name`, or one document a line.
    pub fn parse_all(text: &str, name: &str) -> Result<Vec<Self>, TraceError> {
        if let Ok(document) = serde_json::from_str::<TraceDocument>(text) {
            return Ok(vec![Self::new(document, name).map_err(|detail| TraceError::Unreadable { line: 1, detail })?]);
        }
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let mut ticks = 0;
        let traces: Vec<Self> = lines
            .map(|(index, line)| {
                let unreadable = |detail| TraceError::Unreadable { line: index + 1, detail };
                let document = serde_json::from_str(line).map_err(|_| TraceError::NeitherForm { line: index + 1 })?;
                let trace = Self::new(document, name).map_err(unreadable)?;
                ticks += trace.obtainable.len();
                if ticks > MOST_TICKS_OF_A_FILE {
                    return Err(unreadable(format!("more than {MOST_TICKS_OF_A_FILE} ticks in one file")));
                }
                Ok(trace)
            })
            .collect::<Result<_, _>>()?;
        if traces.is_empty() { Err(TraceError::Empty) } else { Ok(traces) }
    }

    fn new(document: TraceDocument, name: &str) -> Result<Self, String> {
        let (source, gap, obtainable) = match document {
            TraceDocument::Public { metadata, data } => (name.to_owned(), metadata.gap_seconds, data),
            TraceDocument::Runs { source, gap_seconds, ticks, rle } => {
                let total = rle.iter().try_fold(0_usize, |sum, (_, run)| sum.checked_add(*run));
                let total = total
                    .filter(|total| *total <= MOST_TICKS)
                    .ok_or_else(|| format!("more than {MOST_TICKS} ticks in one trace"))?;
                if ticks.is_some_and(|ticks| ticks != total) {
                    return Err(format!("the runs have {total} ticks, not the number that `ticks` says"));
                }
                (
                    source,
                    gap_seconds,
                    rle.into_iter().flat_map(|(value, run)| std::iter::repeat_n(value.unwrap_or(0), run)).collect(),
                )
            }
        };
        if !(gap.is_finite() && gap >= 1.0) {
            return Err(format!("a gap of {gap} seconds"));
        }
        if obtainable.is_empty() { Err("no ticks".to_owned()) } else { Ok(Self { source, gap, obtainable }) }
    }

    /// At which ticks `nodes` machines could be had together.
    pub fn up(&self, nodes: u32) -> Vec<bool> {
        self.obtainable.iter().map(|count| *count >= nodes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_forms_read_alike() {
        let runs =
            "{\"source\":\"a\",\"gap_seconds\":600,\"ticks\":4,\"capacity\":1,\"rle\":[[1,2],[null,1],[3,1]]}\n\n";
        let public = "{\n\"metadata\": {\"gap_seconds\": 600},\n\"data\": [1, 1, 0, 3], \"prices\": [1.0]}";
        assert_eq!(Trace::parse_all(runs, "x").unwrap(), Trace::parse_all(public, "a").unwrap());
        assert_eq!(Trace::parse_all(runs, "x").unwrap()[0].up(2), [false, false, false, true]);
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        assert_eq!(Trace::parse_all(" \n", "x"), Err(TraceError::Empty));
        for text in [
            "{\"source\":\"a\",\"gap_seconds\":600,\"ticks\":5,\"rle\":[[1,2]]}",
            "{\"source\":\"a\",\"gap_seconds\":0,\"rle\":[[1,2]]}",
            "{\"source\":\"a\",\"gap_seconds\":600,\"rle\":[]}",
            "{\"source\":\"a\",\"gap_seconds\":600,\"rle\":[[1,18446744073709551615],[1,2]]}",
            "{\"source\":\"a\",\"gap_seconds\":600,\"rle\":[[1,4194304],[0,1]]}",
        ] {
            assert!(matches!(Trace::parse_all(text, "x"), Err(TraceError::Unreadable { line: 1, .. })), "{text}");
        }
    }

    /// Spot histories as others publish them (Bamboo, Oobleck, Parcae, SpotServe, "Analysis and Exploitation of Dynamic Pricing" of Stanford, Google's audit log,
    /// the AWS command line): they were refused with the name of a type.
    #[test]
    fn what_has_neither_form_is_told_both() {
        for text in [
            "{}",
            "0,10\n41093,10\n41093,9\n",
            "480000,add,node1\n540000,remove,node9\n",
            "[0, \"add\", {\"nodes\": [\"node-0\"], \"duration\": 60000}]\n",
            "[120000, \"remove\", {\"nodes\": [\"node-4\"]}]\n[720000, \"DONE\", {\"nodes\": []}]\n",
            "[2020-03-03T22:01:57.000Z] Instance instance3 not running in zone us-east1-c\n",
            "{\"protoPayload\": {\"methodName\": \"compute.instances.preempted\"}, \"timestamp\": \"2023-08-31T09:30:00Z\"}",
            "AvailabilityZone,InstanceType,SpotPrice,Timestamp\nus-east-1a,p3.2xlarge,0.918,2023-01-01T00:00:00Z\n",
            "{\"SpotPriceHistory\":[{\"AvailabilityZone\":\"us-east-1a\",\"SpotPrice\":\"0.918\"}]}",
            "{\"source\":\"a\",\"gap_seconds\":600,\"rle\":[[-1,3]]}",
        ] {
            let refused = Trace::parse_all(text, "x").unwrap_err();
            assert_eq!(refused, TraceError::NeitherForm { line: 1 }, "{text}");
            let told = refused.to_string();
            assert!(told.contains("spot_usd_per_hour_path"), "a list of prices is told where they belong: {told}");
            let example = told.split_once("such as ").unwrap().1.split_once(", where").unwrap().0;
            assert!(Trace::parse_all(example, "x").is_ok(), "what it tells to write is read: {example}");
        }
    }

    proptest! {
        /// Refused, its line is told; read, there are ticks a second apart at least, and the same ticks written out read alike.
        #[test]
        fn any_text_is_read_or_refused(text in prop_oneof![".{0,120}", "\n?[{]\"source\":\"a\",\"gap_seconds\":[0-9]{1,3},\"rle\":\\[\\[[0-9],[0-9]{1,3}\\](,\\[1,2\\])?\\][}]\n?"]) {
            match Trace::parse_all(&text, "x") {
                Ok(traces) => {
                    prop_assert!(!traces.is_empty());
                    for trace in traces {
                        prop_assert!(trace.gap >= 1.0 && !trace.obtainable.is_empty(), "{trace:?}");
                        let written = serde_json::json!({ "metadata": { "gap_seconds": trace.gap }, "data": trace.obtainable }).to_string();
                        prop_assert_eq!(Trace::parse_all(&written, &trace.source), Ok(vec![trace]));
                    }
                }
                Err(TraceError::Unreadable { line, detail }) => {
                    prop_assert!((1..=text.lines().count()).contains(&line) && !detail.is_empty(), "line {line}: {detail}");
                }
                Err(TraceError::NeitherForm { line }) => prop_assert!((1..=text.lines().count()).contains(&line)),
                Err(TraceError::Empty) => prop_assert!(text.trim().is_empty()),
            }
        }
    }
}
