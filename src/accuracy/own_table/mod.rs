//! A user's own table of runs, to be scored like the published ones: CSV, or cases one JSON object a line with what was measured.

mod words;

use serde_json::Value;

use crate::measured::{CountedFlops, Measured};
use crate::own_table::words::{READ_AS, dotted, is_label};
use crate::published::{Published, Quality, Run, case};
use gpuplan_embedded::{EmbeddedError, Table};
use gpuplan_estimate::case::EstimateCase;
use gpuplan_units::Bytes;
use gpuplan_units::names::did_you_mean;

/// Rows that an error names; the rest it counts.
const NAMED_ROWS: usize = 10;

/// Keys of a line of JSON that say what was measured.
const MEASURED: [&str; 7] = [
    "measured_step_seconds",
    "measured_tokens_per_second_per_gpu",
    "measured_samples_per_second",
    "measured_tflops_per_gpu",
    "measured_peak_memory_bytes",
    "measured_peak_memory_gb",
    "measured_fits",
];

/// Why a table cannot be scored.
#[derive(Debug, thiserror::Error)]
pub enum OwnTableError {
    #[error("no run in it")]
    Empty,
    #[error(transparent)]
    Csv(#[from] EmbeddedError),
    #[error("no column `{0}`")]
    NoColumn(&'static str),
    #[error("{}", lines(.0))]
    Rows(Vec<BadRow>),
}

/// One row that cannot be read, counted from 1; the header is no row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    pub row: usize,
    pub detail: String,
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct OwnTable {
    pub runs: Published,
    /// Columns that nothing was made of.
    pub ignored: Vec<String>,
}

fn lines(rows: &[BadRow]) -> String {
    let mut lines: Vec<String> =
        rows.iter().take(NAMED_ROWS).map(|bad| format!("row {}: {}", bad.row, bad.detail)).collect();
    if rows.len() > NAMED_ROWS {
        lines.push(format!("and {} more rows", rows.len() - NAMED_ROWS));
    }
    lines.join("\n")
}

/// Reads CSV, or JSON lines where the text begins with `{`. Every row that is wrong is named, not the first alone.
pub fn read(text: &str) -> Result<OwnTable, OwnTableError> {
    let text = text.trim_start_matches('\u{feff}');
    let read = if text.trim_start().starts_with('{') { json_lines(text)? } else { csv(text)? };
    if read.runs.runs.is_empty() { Err(OwnTableError::Empty) } else { Ok(read) }
}

fn json_lines(text: &str) -> Result<OwnTable, OwnTableError> {
    let (mut runs, mut bad) = (Vec::new(), Vec::new());
    for (at, line) in text.lines().filter(|line| !line.trim().is_empty()).enumerate() {
        match json_runs(line, at + 1) {
            Ok(read) => runs.extend(read),
            Err(detail) => bad.push(BadRow { row: at + 1, detail }),
        }
    }
    done(runs, bad, Vec::new())
}

fn done(runs: Vec<Run>, bad: Vec<BadRow>, ignored: Vec<String>) -> Result<OwnTable, OwnTableError> {
    if bad.is_empty() { Ok(OwnTable { runs: Published { runs }, ignored }) } else { Err(OwnTableError::Rows(bad)) }
}

/// One run for each figure that was measured.
fn json_runs(line: &str, row: usize) -> Result<Vec<Run>, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| format!("not JSON: {error}"))?;
    let keys = value.as_object().ok_or("not a JSON object")?;
    let text = |key: &str| match keys.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    let case: EstimateCase = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
    let mut runs = Vec::new();
    for (key, figure) in keys.iter().filter(|(key, figure)| key.starts_with("measured") && !figure.is_null()) {
        if !MEASURED.contains(&key.as_str()) {
            let near = did_you_mean(key, MEASURED).unwrap_or(MEASURED[0]);
            return Err(format!("`{key}` is not known; did you mean `{near}`?"));
        }
        runs.push(Run {
            id: if keys.contains_key("id") { text("id") } else { format!("row {row}") },
            source: source(&text("source")),
            quality: Quality::A,
            locator: String::new(),
            measured: json_measured(key, figure)?,
            longest_example: false,
            gpu_model: case.hardware.gpu.clone().unwrap_or_default(),
            precision_label: case.training.precision.map(gpuplan_units::names::word).unwrap_or_default(),
            shard_label: case.layout.shard.map(gpuplan_units::names::word).unwrap_or_default(),
            recompute_label: case.training.recompute.map(gpuplan_units::names::word).unwrap_or_default(),
            optimizer_label: case.training.optimizer.clone().unwrap_or_default(),
            gpu_memory_gb: case.hardware.gpu_memory_gb,
            notes: text("notes"),
            case: case.clone(),
        });
    }
    if runs.is_empty() {
        return Err(format!("nothing was measured; add one of {}", MEASURED.join(", ")));
    }
    Ok(runs)
}

fn json_measured(key: &str, figure: &Value) -> Result<Measured, String> {
    if key == "measured_fits" {
        return figure
            .as_bool()
            .map(Measured::Fits)
            .ok_or_else(|| format!("{key}: {figure} is neither true nor false"));
    }
    let number = figure.as_f64().filter(|number| number.is_finite() && *number > 0.0);
    let number = number.ok_or_else(|| format!("{key}: {figure} is not a positive number"))?;
    Ok(match key {
        "measured_step_seconds" => Measured::StepSeconds(number),
        "measured_tokens_per_second_per_gpu" => Measured::TokensPerSecondPerGpu(number),
        "measured_samples_per_second" => Measured::SamplesPerSecond(number),
        "measured_tflops_per_gpu" => Measured::TeraflopsPerGpu { rate: number, counted: CountedFlops::Model },
        "measured_peak_memory_gb" => Measured::PeakMemory { bytes: Bytes::from_gb(number), summed: false },
        _ => Measured::PeakMemory { bytes: Bytes(number), summed: false },
    })
}

/// Runs of no named source are one.
fn source(named: &str) -> String {
    if named.is_empty() { "own".to_owned() } else { named.to_owned() }
}

fn csv(text: &str) -> Result<OwnTable, OwnTableError> {
    let table = Table::from_csv(text)?;
    let names: Vec<&str> = table.names().collect();
    for needed in ["metric", "value"] {
        if !names.contains(&needed) {
            return Err(OwnTableError::NoColumn(needed));
        }
    }
    let ignored = names.iter().filter(|name| !is_read(name)).map(|name| (*name).to_owned()).collect();
    let columns: Vec<Vec<&str>> =
        names.iter().map(|name| Ok(table.column(name)?.collect())).collect::<Result<_, EmbeddedError>>()?;
    let (mut runs, mut bad) = (Vec::new(), Vec::new());
    for row in 0..table.rows() {
        let cells: Vec<(&str, &str)> = names.iter().zip(&columns).map(|(name, cells)| (*name, cells[row])).collect();
        match csv_run(&cells, row + 1) {
            Ok(run) => runs.push(run),
            Err(detail) => bad.push(BadRow { row: row + 1, detail }),
        }
    }
    done(runs, bad, ignored)
}

fn is_read(name: &str) -> bool {
    name.contains('.') || is_label(name) || READ_AS.iter().any(|(column, _)| *column == name)
}

fn csv_run(cells: &[(&str, &str)], row: usize) -> Result<Run, String> {
    let text = |name: &str| cells.iter().find(|(column, _)| *column == name).map_or("", |(_, cell)| *cell);
    let label = |name: &str, plain: &str| (if text(name).is_empty() { text(plain) } else { text(name) }).to_owned();
    let written = dotted(cells)?;
    let value = text("value");
    if text("metric") == "fits" && !matches!(value.to_uppercase().as_str(), "OOM" | "NO" | "FITS" | "YES") {
        return Err(format!("value `{value}` of fits is none of FITS and OOM"));
    }
    let memory = text("gpu_mem_gb");
    Ok(Run {
        id: if text("id").is_empty() { format!("row {row}") } else { text("id").to_owned() },
        source: source(text("source")),
        quality: match text("quality") {
            "A" | "" => Quality::A,
            "B" => Quality::B,
            "C" => Quality::C,
            other => return Err(format!("quality `{other}` is none of A, B and C")),
        },
        locator: text("locator").to_owned(),
        measured: Measured::read(text("metric"), value, text("unit"), text("flops_def"))?,
        longest_example: text("longest_example") == "true" || text("notes").contains("LONGEST"),
        gpu_model: label("gpu_model", "hardware.gpu"),
        precision_label: label("precision_label", "precision"),
        shard_label: label("shard_label", "shard"),
        recompute_label: label("recompute_label", "activation_checkpointing"),
        optimizer_label: label("optimizer_label", "optimizer"),
        gpu_memory_gb: memory.parse().ok(),
        notes: text("notes").to_owned(),
        case: case(written.iter().map(|(name, cell)| (*name, cell.as_str())))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_workload::{Precision, Recompute, Shard};

    const HEAD: &str = "id,source,task,kind,model,seq_len,gpu_model,gpu_count,interconnect,precision,dp,tp,shard,micro_batch,\
        activation_checkpointing,flash_attention,framework,metric,value,unit,colour";
    const ROW: &str = "1,mine,pretrain,decoder,llama-2-7b,4096,H100-SXM5-80GB,16,NVLink4 + 8x400Gbps,bf16,8,2,FSDP(zero3),1,\
        selective(op),y(sdpa),torchtitan,iter_seconds,0.5,s,red";

    fn rows(rows: &[&str]) -> Result<OwnTable, OwnTableError> {
        read(&format!("{HEAD}\n{}\n", rows.join("\n")))
    }

    #[test]
    fn a_plain_table_becomes_cases() {
        let read = rows(&[ROW]).unwrap();
        assert_eq!(read.ignored, ["colour"]);
        let run = &read.runs.runs[0];
        assert_eq!((run.source.as_str(), run.measured), ("mine", Measured::StepSeconds(0.5)));
        let case = &run.case;
        assert_eq!(case.hardware.gpu.as_deref(), Some("H100-SXM5-80"));
        assert_eq!(case.hardware.node_network_gbit_per_s, Some(3200.0));
        assert_eq!((case.layout.tensor, case.layout.shard), (Some(2), Some(Shard::Zero3)));
        assert_eq!(
            (case.training.precision, case.training.recompute),
            (Some(Precision::Bf16), Some(Recompute::Selective))
        );
    }

    #[test]
    fn a_dotted_column_is_the_case_itself() {
        let read = read("metric,value,model.name,hardware.gpu,layout.tensor\niter_seconds,1,gpt2-xl,a100,2\n").unwrap();
        assert_eq!(read.runs.runs[0].case.layout.tensor, Some(2));
        assert_eq!((read.runs.runs[0].id.as_str(), read.runs.runs[0].source.as_str()), ("row 1", "own"));
    }

    #[test]
    fn a_line_of_json_may_have_several_figures() {
        let line = r#"{"id":7,"model":{"name":"llama-2-7b"},"hardware":{"gpu":"h100","gpus":8},"measured_step_seconds":0.5,"measured_peak_memory_gb":60}"#;
        let read = read(line).unwrap();
        assert_eq!(read.runs.runs.len(), 2);
        assert!(read.runs.runs.iter().all(|run| run.id == "7" && run.source == "own"));
    }

    #[test]
    fn every_bad_row_is_named_with_what_is_wrong() {
        let replaced = |from: &str, to: &str| ROW.replacen(from, to, 1);
        let said = rows(&[
            ROW,
            &replaced(",0.5,", ",fast,"),
            &replaced(",bf16,", ",bf15,"),
            &replaced(",16,", ",many,"),
            &replaced("FSDP(zero3)", "zigzag"),
            &replaced("iter_seconds", "fortnights"),
        ])
        .unwrap_err()
        .to_string();
        for part in [
            "row 2: value `fast`",
            "row 3: precision `bf15`",
            "row 4:",
            "row 5: shard `zigzag`",
            "row 6: metric `fortnights`",
        ] {
            assert!(said.contains(part), "{part} is not in\n{said}");
        }
        assert!(!said.contains("row 1"), "{said}");
        let said = read(r#"{"model":{"name":"gpt2-xl"},"measured_step_second":1}"#).unwrap_err().to_string();
        assert!(said.contains("did you mean `measured_step_seconds`"), "{said}");
        assert!(read(r#"{"model":{"name":"gpt2-xl"}}"#).unwrap_err().to_string().contains("nothing was measured"));
        assert!(read(r#"{"measured_step_seconds":-1}"#).is_err() && read("").is_err());
        assert!(matches!(read("model,value\na,1\n"), Err(OwnTableError::NoColumn("metric"))));
    }
}
