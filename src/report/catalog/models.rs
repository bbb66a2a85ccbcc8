//! The models of the catalog as table, JSON and CSV.

use schemars::JsonSchema;
use serde::Serialize;

use crate::catalog::rows::Listed;
use crate::text::fit::{ALWAYS, FlexibleColumn, fit, shorten};
use crate::text::format::count;
use crate::text::json::VERSION;
use crate::text::table::{Column, render};
use crate::text::wrap::wrap;
use gpuplan_units::names::word;
use gpuplan_workload::catalog::ModelRow;
use gpuplan_workload::model::ModelKind;

/// Longest text of a source in a table.
const SOURCE_LENGTH: usize = 48;

/// `gpuplan catalog models -o json`.
#[derive(Serialize, JsonSchema)]
pub struct ModelList<'a> {
    version: u32,
    models: &'a [ModelLine<'a>],
}

/// A model under the names of the catalog.
#[derive(Serialize, JsonSchema)]
pub struct ModelLine<'a> {
    /// The name to plan with.
    id: &'a str,
    name: &'a str,
    family: &'a str,
    kind: ModelKind,
    parameters: f64,
    /// Parameters that one token uses, for a mixture of experts.
    active_parameters: Option<f64>,
    #[serde(flatten)]
    shape: ModelShape,
    /// Experts of a layer.
    experts: Option<u32>,
    experts_per_token: Option<u32>,
    /// Other names that find it.
    aliases: &'a [String],
    /// Where the figures were read.
    source: &'a str,
    /// When they were read, as a date.
    as_of: &'a str,
    notes: &'a str,
}

/// Sizes of a transformer's layers; `null` where the model has no such thing.
#[derive(Serialize, JsonSchema)]
struct ModelShape {
    layers: Option<u32>,
    hidden: Option<u32>,
    /// Attention heads of queries.
    heads: Option<u32>,
    /// Attention heads of keys and values.
    kv_heads: Option<u32>,
    head_dim: Option<u32>,
    ffn_hidden: Option<u32>,
    vocab: Option<u32>,
    /// Longest sequence, tokens.
    max_context: Option<u32>,
}

pub const MODEL_COLUMNS: [(&str, &str); 20] = [
    ("id", "/id"),
    ("name", "/name"),
    ("family", "/family"),
    ("kind", "/kind"),
    ("parameters", "/parameters"),
    ("active_parameters", "/active_parameters"),
    ("layers", "/layers"),
    ("hidden", "/hidden"),
    ("heads", "/heads"),
    ("kv_heads", "/kv_heads"),
    ("head_dim", "/head_dim"),
    ("ffn_hidden", "/ffn_hidden"),
    ("vocab", "/vocab"),
    ("max_context", "/max_context"),
    ("experts", "/experts"),
    ("experts_per_token", "/experts_per_token"),
    ("aliases", "/aliases"),
    ("source", "/source"),
    ("as_of", "/as_of"),
    ("notes", "/notes"),
];

impl Listed for ModelLine<'_> {
    fn list(rows: &[Self]) -> impl Serialize {
        ModelList { version: VERSION, models: rows }
    }
}

impl<'a> ModelLine<'a> {
    pub fn new(row: &'a ModelRow) -> Self {
        Self {
            id: &row.id,
            name: &row.name,
            family: &row.family,
            kind: row.kind,
            parameters: row.parameters,
            active_parameters: row.active_parameters,
            shape: ModelShape {
                layers: row.layers,
                hidden: row.hidden,
                heads: row.heads,
                kv_heads: row.kv_heads,
                head_dim: row.head_dim,
                ffn_hidden: row.ffn_hidden,
                vocab: row.vocab,
                max_context: row.max_context,
            },
            experts: row.experts,
            experts_per_token: row.experts_per_token,
            aliases: &row.aliases,
            source: &row.source,
            as_of: &row.as_of,
            notes: &row.notes,
        }
    }
}

pub fn models(lines: &[ModelLine], width: u16) -> String {
    let flexible = [
        FlexibleColumn::elastic(Column::left("model", 0), 16),
        FlexibleColumn::needed(Column::left("kind", 0), 1),
        FlexibleColumn::needed(Column::right("size", 0), ALWAYS),
        FlexibleColumn::needed(Column::right("layers", 0), 8),
        FlexibleColumn::needed(Column::right("hidden", 0), 7),
        FlexibleColumn::needed(Column::right("heads", 0), 6),
        FlexibleColumn::needed(Column::right("ffn", 0), 5),
        FlexibleColumn::extra(Column::right("context", 0), 9),
        FlexibleColumn::extra(Column::right("vocab", 0), 8),
        FlexibleColumn::extra(Column::left("source", 0), 1),
    ];
    let number = |value: Option<u32>| value.map_or("-".to_owned(), |value| value.to_string());
    let cells = |line: &ModelLine| {
        let kind = word(line.kind);
        let heads = match (line.shape.heads, line.shape.kv_heads) {
            (Some(heads), Some(kv)) if kv != heads => format!("{heads}/{kv}"),
            (heads, _) => number(heads),
        };
        vec![
            line.id.to_owned(),
            kind,
            count(line.parameters),
            number(line.shape.layers),
            number(line.shape.hidden),
            heads,
            number(line.shape.ffn_hidden),
            number(line.shape.max_context),
            number(line.shape.vocab),
            shorten(line.source, SOURCE_LENGTH),
        ]
    };
    let mut rows: Vec<Vec<String>> = lines.iter().map(cells).collect();
    let columns = fit(&flexible, &mut rows, width);
    let note = format!(
        "{} models; heads: of queries/of keys where they differ; `--output json` has their other names",
        lines.len()
    );
    format!("{}\n{}\n", render(&columns, rows, width), wrap(&note, width, ""))
}
