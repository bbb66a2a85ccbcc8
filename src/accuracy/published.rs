//! `Published`: runs that papers and repositories measured, each with the case that describes it, from `benchmarks/published`.

use serde_json::{Map, Number, Value};

use crate::measured::Measured;
use gpuplan_embedded::{Archive, EmbeddedError, Table};
use gpuplan_estimate::case::EstimateCase;

/// Sources that share one code base: what one teaches, the other cannot test.
const GROUPS: [(&str, &str); 4] = [
    ("vtrain-multi", "vtrain"),
    ("vtrain-single", "vtrain"),
    ("lambda", "nvidia-examples"),
    ("nv-dle", "nvidia-examples"),
];

/// Sources of software and chips of 2024 and later, and one of 2021, that were read when the rest of the constants had been fitted. Only the
/// constants of `fit::LATER` see them; to all others they are what a stranger's run is.
const RECENT: [&str; 13] = [
    "bloom-prequel",
    "dgxc-maxtext",
    "dgxc-moe",
    "dgxc-nemo",
    "fms-fsdp",
    "llama3-paper",
    "megatron-h100-2024",
    "mlperf-5.1",
    "nemo-24.07",
    "nemo-automodel",
    "nemo-automodel-moe",
    "nemo-longseq",
    "torchtitan",
];

/// Why a table of runs cannot be used. The row is counted from 1 after the header.
#[derive(Debug, thiserror::Error)]
pub enum PublishedError {
    #[error(transparent)]
    Packed(#[from] EmbeddedError),
    #[error("benchmarks/{file}.csv, row {row}: {detail}")]
    Row { file: String, row: usize, detail: String },
}

#[derive(Clone, Debug, Default)]
pub struct Published {
    /// By source, then in the order of its file.
    pub runs: Vec<Run>,
}

/// How well the source says what was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quality {
    /// An official table or log with a known configuration.
    A,
    /// One field assumed or derived.
    B,
    /// Ambiguous or noisy: kept, never scored.
    C,
}

/// One measurement of one run.
#[derive(Clone, Debug)]
pub struct Run {
    pub id: String,
    pub source: String,
    pub quality: Quality,
    /// File and section, or table of the paper.
    pub locator: String,
    pub measured: Measured,
    /// The stated sequence length is that of the longest example of a varied set: right for memory, useless for time.
    pub longest_example: bool,
    /// As the source names them, finer than the words of the case.
    pub gpu_model: String,
    pub precision_label: String,
    pub shard_label: String,
    pub recompute_label: String,
    pub optimizer_label: String,
    pub gpu_memory_gb: Option<f64>,
    pub notes: String,
    pub case: EstimateCase,
}

impl Published {
    /// The runs inside this binary.
    pub fn embedded() -> Result<Self, PublishedError> {
        Self::from_archive(&Archive::unpack(gpuplan_embedded::PUBLISHED)?)
    }

    pub fn from_archive(archive: &Archive) -> Result<Self, PublishedError> {
        let mut runs = Vec::new();
        for (file, table) in &archive.tables {
            let source = file.rsplit('/').next().unwrap_or(file);
            for row in Rows::new(table)? {
                let number = row.number;
                runs.push(run(source, &row).map_err(|detail| PublishedError::Row {
                    file: file.clone(),
                    row: number,
                    detail,
                })?);
            }
        }
        Ok(Self { runs })
    }
}

impl Run {
    /// Of a source that most constants never see.
    pub fn is_recent(&self) -> bool {
        RECENT.contains(&self.source.as_str())
    }

    pub fn group(&self) -> &str {
        GROUPS.iter().find(|(source, _)| *source == self.source).map_or(self.source.as_str(), |(_, group)| group)
    }
}

/// Iterates over the rows of a table.
struct Rows<'a> {
    names: Vec<&'a str>,
    columns: Vec<Vec<&'a str>>,
    next: usize,
}

/// One row: cells by column name.
struct Row<'a> {
    number: usize,
    cells: Vec<(&'a str, &'a str)>,
}

impl<'a> Rows<'a> {
    fn new(table: &'a Table) -> Result<Self, EmbeddedError> {
        let names: Vec<&str> = table.names().collect();
        let columns =
            names.iter().map(|name| Ok(table.column(name)?.collect())).collect::<Result<_, EmbeddedError>>()?;
        Ok(Self { names, columns, next: 0 })
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        let index = self.next;
        self.next += 1;
        let cells = self
            .names
            .iter()
            .zip(&self.columns)
            .map(|(name, cells)| Some((*name, *cells.get(index)?)))
            .collect::<Option<Vec<_>>>()?;
        (!cells.is_empty()).then_some(Row { number: index + 1, cells })
    }
}

impl Row<'_> {
    fn text_cell(&self, name: &str) -> Result<&str, String> {
        self.cells
            .iter()
            .find(|(column, _)| *column == name)
            .map(|(_, cell)| *cell)
            .ok_or_else(|| format!("no column `{name}`"))
    }

    fn case(&self) -> Result<EstimateCase, String> {
        case(self.cells.iter().copied())
    }
}

/// The case as its dotted columns spell it; an empty cell is an absent key.
pub(crate) fn case<'a>(cells: impl Iterator<Item = (&'a str, &'a str)>) -> Result<EstimateCase, String> {
    let mut parts = Map::new();
    for (name, cell) in cells {
        if let (Some((part, key)), false) = (name.split_once('.'), cell.is_empty()) {
            let part = parts.entry(part).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(keys) = part {
                keys.insert(key.to_owned(), value(cell).map_err(|error| format!("{name}: {error}"))?);
            }
        }
    }
    serde_json::from_value(Value::Object(parts)).map_err(|error| error.to_string())
}

/// Numbers and booleans as themselves, `[` or `"` begins JSON, the rest is text.
fn value(cell: &str) -> Result<Value, serde_json::Error> {
    match cell {
        "true" => Ok(Value::Bool(true)),
        "false" => Ok(Value::Bool(false)),
        _ if cell.starts_with(['[', '"']) => serde_json::from_str(cell),
        _ => Ok(cell.parse::<Number>().map_or_else(|_| Value::String(cell.to_owned()), Value::Number)),
    }
}

fn run(source: &str, row: &Row) -> Result<Run, String> {
    let text = |name: &str| row.text_cell(name).map(str::to_owned);
    let memory = row.text_cell("gpu_mem_gb")?;
    Ok(Run {
        id: text("id")?,
        source: source.to_owned(),
        quality: match row.text_cell("quality")? {
            "A" => Quality::A,
            "B" => Quality::B,
            "C" => Quality::C,
            other => return Err(format!("quality `{other}` is none of A, B and C")),
        },
        locator: text("locator")?,
        measured: Measured::read(
            row.text_cell("metric")?,
            row.text_cell("value")?,
            row.text_cell("unit")?,
            row.text_cell("flops_def")?,
        )?,
        longest_example: match row.text_cell("longest_example")? {
            "true" => true,
            "" | "false" => false,
            other => return Err(format!("longest_example `{other}` is neither true nor empty")),
        },
        gpu_model: text("gpu_model")?,
        precision_label: text("precision_label")?,
        shard_label: text("shard_label")?,
        recompute_label: text("recompute_label")?,
        optimizer_label: text("optimizer_label")?,
        gpu_memory_gb: if memory.is_empty() {
            None
        } else {
            Some(memory.parse().map_err(|_| format!("gpu_mem_gb `{memory}` is not a number"))?)
        },
        notes: text("notes")?,
        case: row.case()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_workload::{FsdpStyle, Measure, ModelKind};

    const HEAD: &str = "id,quality,locator,metric,value,unit,flops_def,longest_example,gpu_model,precision_label,shard_label,recompute_label,\
        optimizer_label,gpu_mem_gb,notes,model.kind,hardware.gpu,hardware.gpus,training.fsdp,training.lora_targets,training.measure";

    fn read(row: &str) -> Result<Published, PublishedError> {
        let mut archive = Archive::default();
        archive.add_table("published/vtrain-multi", &format!("{HEAD}\n{row}\n")).unwrap();
        Published::from_archive(&archive)
    }

    #[test]
    fn dotted_columns_become_the_case() {
        let published =
            read(r#"a-1,B,table 2,peak_mem_GB,4.5,GiB,,true,A100,bf16,,,,40,note,decoder,a100,8,"""1""","[""q"", ""v""]",allocated"#)
                .unwrap();
        let run = &published.runs[0];
        assert_eq!((run.group(), run.quality, run.longest_example), ("vtrain", Quality::B, true));
        assert_eq!(run.case.model.kind, Some(ModelKind::Decoder));
        assert_eq!(run.case.hardware.gpus, Some(8));
        assert_eq!(run.case.training.fsdp, Some(FsdpStyle::One));
        assert!(run.case.training.lora_targets.is_some());
        assert_eq!(run.case.training.measure, Some(Measure::Allocated));
        assert!(run.case.model.layers.is_none() && run.case.layout.data.is_none());
    }

    #[test]
    fn a_wrong_cell_names_its_row() {
        for (row, said) in [
            ("a-1,D,,iter_seconds,1,s,,,,,,,,,,decoder,a100,8,,,", "quality `D`"),
            ("a-1,A,,iter_seconds,fast,s,,,,,,,,,,decoder,a100,8,,,", "value `fast`"),
            ("a-1,A,,iter_seconds,1,s,,,,,,,,,,decoder,a100,many,,,", "many"),
            ("a-1,A,,fortnights,1,s,,,,,,,,,,decoder,a100,8,,,", "metric `fortnights`"),
        ] {
            let error = read(row).unwrap_err().to_string();
            assert!(
                error.starts_with("benchmarks/published/vtrain-multi.csv, row 1: ") && error.contains(said),
                "{error}"
            );
        }
    }

    #[test]
    fn every_embedded_run_reads_and_has_its_own_id() {
        let published = Published::embedded().unwrap();
        let ids: std::collections::BTreeSet<&str> = published.runs.iter().map(|run| run.id.as_str()).collect();
        assert!(ids.len() > 1000);
        assert_eq!(ids.len(), published.runs.len());
    }
}
