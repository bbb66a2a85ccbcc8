//! `simulate` from files: plain and packed traces, one answer a case, refusals.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::cli::support::gpuplan;

const TRACE: &str = "{\"source\":\"zone-a_gpu\",\"gap_seconds\":600,\"ticks\":400,\"rle\":[[1,100],[0,10],[1,290]]}\n";
const CASE: &str = "{\"id\":\"x\",\"trace\":\"zone-a_gpu\",\"work_hours\":24,\"deadline_hours\":30,\"changeover_hours\":0.2,\
    \"on_demand_usd_per_hour\":\"3\",\"spot_usd_per_hour\":\"1\",\"policy\":\"greedy\",\"decisions\":true}\nnonsense\n";

#[test]
fn plain_and_packed_traces_give_the_same_answers() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("traces.jsonl"), TRACE).unwrap();
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(TRACE.as_bytes()).unwrap();
    std::fs::write(at("traces.jsonl.gz"), packed.finish().unwrap()).unwrap();
    std::fs::write(at("cases.jsonl"), CASE).unwrap();
    let run = |traces: &str| {
        gpuplan(&["simulate", "--traces", &at(traces), "--cases", &at("cases.jsonl"), "--output", "json"])
    };
    let (plain, packed) = (run("traces.jsonl"), run("traces.jsonl.gz"));
    assert_eq!((plain.code, &plain.stdout), (0, &packed.stdout), "{}", plain.stderr);
    let answers: Vec<Value> = plain.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers[0]["decisions"], "s100i10s47", "{}", answers[0]);
    assert!(answers[1]["unsupported"].is_string() && answers.len() == 2);
}

#[test]
fn traces_that_are_none_are_refused_with_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("traces.jsonl");
    std::fs::write(&path, format!("{TRACE}{{\"source\":1}}\n")).unwrap();
    let ran = gpuplan(&["simulate", "--traces", path.to_str().unwrap(), "--evaluate"]);
    assert!(ran.code == 2 && ran.stdout.is_empty() && ran.stderr.contains("line 2"), "{}", ran.stderr);
}
