//! Nsight Systems' SQLite export: kernels, copies, runtime calls and NVTX ranges, as tables of the database have them.
//!
//! Tables are made only where there is something in them, and columns come and go with versions and options ("SQLite Schema Reference" in
//! NVIDIA's Nsight Systems user guide): a column that is absent is unknown.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, Row};

use crate::profile::ProfiledGpu;
use crate::trace::chrome::ChromeTrace;
use crate::trace::classes::GRAPH;
use crate::trace::tally::{Tally, Work};

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NsightError {
    #[error("at byte {at}: the file is cut off; its header announces {promised} bytes")]
    Cut { at: u64, promised: u64 },
    #[error("not an export of Nsight Systems: {0}")]
    Foreign(String),
    #[error("table {table}: {detail}")]
    Table { table: &'static str, detail: String },
    #[error("table {table} has no column `{column}`; export it again with a current `nsys export --type sqlite`")]
    Column { table: &'static str, column: &'static str },
    #[error("it has no kernel, copy or step: trace with `nsys profile --trace=cuda,nvtx`")]
    Nothing,
}

/// Kinds of copies (CUPTI, `CUpti_ActivityMemcpyKind`), as `ENUM_CUDA_MEMCPY_OPER` of an export has them; arrays lie on the device, and from
/// 11 on they are the driver's own of managed memory.
const COPY_KINDS: [(i64, &str); 12] = [
    (1, "HtoD"),
    (2, "DtoH"),
    (3, "HtoD"),
    (4, "DtoH"),
    (5, "DtoD"),
    (6, "DtoD"),
    (7, "DtoD"),
    (8, "DtoD"),
    (10, "PtoP"),
    (11, "HtoD"),
    (12, "DtoH"),
    (13, "DtoD"),
];
/// Kinds of memory where a file has no `ENUM_CUDA_MEM_KIND` (the user guide's "CUDA Memory Operations Memory Kind"; CUPTI counts
/// otherwise).
const MEMORY_KINDS: [(i64, &str); 7] = [
    (0, "Pageable"),
    (1, "Pinned"),
    (2, "Device"),
    (3, "Array"),
    (4, "Managed"),
    (5, "Device Static"),
    (6, "Managed Static"),
];

/// Opens an export and counts what is in it.
pub fn read(path: &Path) -> Result<ChromeTrace, NsightError> {
    whole(path)?;
    let foreign = |error: rusqlite::Error| NsightError::Foreign(error.to_string());
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(foreign)?;
    let tables = names(&database).map_err(foreign)?;
    let has = |table: &str| tables.iter().any(|name| name == table);
    if !has("StringIds") {
        return Err(NsightError::Foreign(
            "it has no table StringIds; write one with `nsys export --type sqlite`".to_owned(),
        ));
    }
    let mut tally = Tally::default();
    if has("CUPTI_ACTIVITY_KIND_RUNTIME") {
        calls(&database, &mut tally)?;
    }
    if has("CUPTI_ACTIVITY_KIND_KERNEL") {
        kernels(&database, &mut tally)?;
    }
    if has("CUPTI_ACTIVITY_KIND_MEMCPY") {
        let kinds = if has("ENUM_CUDA_MEM_KIND") { memory_kinds(&database)? } else { BTreeMap::new() };
        copies(&database, &kinds, &mut tally)?;
    }
    if has("CUPTI_ACTIVITY_KIND_MEMSET") {
        wholes(&database, "CUPTI_ACTIVITY_KIND_MEMSET", "Memset", &mut tally)?;
    }
    if has("CUPTI_ACTIVITY_KIND_GRAPH_TRACE") {
        wholes(&database, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", GRAPH, &mut tally)?;
    }
    if has("NVTX_EVENTS") {
        ranges(&database, &mut tally)?;
    }
    let name = if has("TARGET_INFO_GPU") { gpu(&database)? } else { None };
    let counted = tally.finish("Nsight Systems");
    if counted.operators.classes.is_empty() && counted.step.is_none() {
        return Err(NsightError::Nothing);
    }
    let gpu =
        name.map(|(name, memory)| ProfiledGpu { name, count: counted.operators.devices.max(1), memory_bytes: memory });
    Ok(ChromeTrace { counted, gpu })
}

/// The head says how many pages there are (SQLite, "Database File Format", section 1.3).
fn whole(path: &Path) -> Result<(), NsightError> {
    let unreadable = |error: std::io::Error| NsightError::Foreign(error.to_string());
    let mut head = [0; 100];
    let mut file = std::fs::File::open(path).map_err(unreadable)?;
    let length = file.metadata().map_err(unreadable)?.len();
    std::io::Read::read_exact(&mut file, &mut head).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => NsightError::Cut { at: length, promised: 100 },
        _ => unreadable(error),
    })?;
    let page = u64::from(u16::from_be_bytes([head[16], head[17]]));
    // 1 stands for the one size that does not fit into 16 bits.
    let page = if page == 1 { 65_536 } else { page };
    let promised = page * u64::from(u32::from_be_bytes([head[28], head[29], head[30], head[31]]));
    if length < promised { Err(NsightError::Cut { at: length, promised }) } else { Ok(()) }
}

fn names(database: &Connection) -> Result<Vec<String>, rusqlite::Error> {
    let mut statement = database.prepare("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Runs a query over a table and gives each row to `each`.
fn rows(
    database: &Connection,
    table: &'static str,
    sql: &str,
    mut each: impl FnMut(&Row) -> rusqlite::Result<()>,
) -> Result<(), NsightError> {
    let mut run = || -> rusqlite::Result<()> {
        let mut statement = database.prepare(sql)?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            each(row)?;
        }
        Ok(())
    };
    run().map_err(|error| NsightError::Table { table, detail: error.to_string() })
}

/// The columns of a table that a query names. One that the table lacks is NULL, unless nothing can be said without it.
struct Columns {
    table: &'static str,
    names: Vec<String>,
}

impl Columns {
    fn read(database: &Connection, table: &'static str) -> Result<Self, NsightError> {
        let mut names = Vec::new();
        rows(database, table, &format!("PRAGMA table_info({table})"), |row| {
            names.push(row.get(1)?);
            Ok(())
        })?;
        Ok(Self { table, names })
    }

    fn has(&self, column: &str) -> bool {
        self.names.iter().any(|name| name == column)
    }

    /// SQL of these columns, behind `start` and `until`.
    fn spans_and(&self, columns: &[&'static str]) -> Result<String, NsightError> {
        if let Some(column) = ["start", "end"].into_iter().find(|column| !self.has(column)) {
            return Err(NsightError::Column { table: self.table, column });
        }
        let mut sql = "start, \"end\" AS until".to_owned();
        for name in columns {
            sql.push_str(if self.has(name) { ", " } else { ", NULL AS " });
            sql.push_str(name);
        }
        Ok(sql)
    }
}

/// Work of the device in a row that begins with start, end, device and correlation.
fn work<'a>(row: &Row, name: &'a str, bytes: f64) -> rusqlite::Result<Work<'a>> {
    Ok(Work {
        name,
        start: row.get(0)?,
        end: row.get(1)?,
        device: row.get::<_, Option<i64>>(2)?.unwrap_or(0),
        correlation: row.get::<_, Option<u32>>(3)?.unwrap_or(0),
        bytes,
    })
}

fn kernels(database: &Connection, tally: &mut Tally) -> Result<(), NsightError> {
    let table = "CUPTI_ACTIVITY_KIND_KERNEL";
    let columns = Columns::read(database, table)?;
    let name = if columns.has("demangledName") { "demangledName" } else { "shortName" };
    let selected = columns.spans_and(&["deviceId", "correlationId", name])?;
    let sql = format!(
        "SELECT k.*, s.value FROM (SELECT {selected} FROM {table}) k LEFT JOIN StringIds s ON s.id = k.{name} ORDER BY k.start"
    );
    rows(database, table, &sql, |row| {
        let name: Option<String> = row.get(5)?;
        tally.device_work(work(row, name.as_deref().unwrap_or("(no name)"), 0.0)?);
        Ok(())
    })
}

/// Memory kinds by the file's own numbers.
fn memory_kinds(database: &Connection) -> Result<BTreeMap<i64, String>, NsightError> {
    let table = "ENUM_CUDA_MEM_KIND";
    let mut kinds = BTreeMap::new();
    let label = if Columns::read(database, table)?.has("label") { "label" } else { "name" };
    rows(database, table, &format!("SELECT id, {label} FROM {table}"), |row| {
        kinds.insert(row.get(0)?, row.get::<_, Option<String>>(1)?.unwrap_or_default());
        Ok(())
    })?;
    Ok(kinds)
}

fn copies(database: &Connection, kinds: &BTreeMap<i64, String>, tally: &mut Tally) -> Result<(), NsightError> {
    let table = "CUPTI_ACTIVITY_KIND_MEMCPY";
    let selected = Columns::read(database, table)?.spans_and(&[
        "deviceId",
        "correlationId",
        "bytes",
        "copyKind",
        "srcKind",
        "dstKind",
    ])?;
    let known = |numbers: &[(i64, &'static str)], number: i64| {
        numbers.iter().find(|(known, _)| *known == number).map(|(_, word)| (*word).to_owned())
    };
    let memory = |number: Option<i64>| {
        let word = number.and_then(|number| kinds.get(&number).cloned().or_else(|| known(&MEMORY_KINDS, number)));
        word.unwrap_or_else(|| "unknown".to_owned())
    };
    rows(database, table, &format!("SELECT {selected} FROM {table} ORDER BY start"), |row| {
        let direction = row.get::<_, Option<i64>>(5)?.and_then(|number| known(&COPY_KINDS, number));
        let direction = direction.as_deref().unwrap_or("other");
        let name = format!("Memcpy {direction} ({} -> {})", memory(row.get(6)?), memory(row.get(7)?));
        tally.device_work(work(row, &name, row.get::<_, Option<i64>>(4)?.unwrap_or(0) as f64)?);
        Ok(())
    })
}

/// Rows that are work of one name each.
fn wholes(database: &Connection, table: &'static str, name: &str, tally: &mut Tally) -> Result<(), NsightError> {
    let selected = Columns::read(database, table)?.spans_and(&["deviceId", "correlationId"])?;
    rows(database, table, &format!("SELECT {selected} FROM {table} ORDER BY start"), |row| {
        tally.device_work(work(row, name, 0.0)?);
        Ok(())
    })
}

fn calls(database: &Connection, tally: &mut Tally) -> Result<(), NsightError> {
    let table = "CUPTI_ACTIVITY_KIND_RUNTIME";
    let selected = Columns::read(database, table)?.spans_and(&["correlationId", "nameId"])?;
    let sql =
        format!("SELECT r.*, s.value FROM (SELECT {selected} FROM {table}) r LEFT JOIN StringIds s ON s.id = r.nameId");
    rows(database, table, &sql, |row| {
        let (start, end): (i64, i64) = (row.get(0)?, row.get(1)?);
        let name: Option<String> = row.get(4)?;
        if name.is_some_and(|name| name.contains("Synchronize")) {
            tally.synchronisation(end.saturating_sub(start));
        }
        if let Some(correlation) = row.get::<_, Option<u32>>(2)? {
            tally.launch(correlation, end);
        }
        Ok(())
    })
}

/// Ranges that programs mark: steps by a number, waiting by the name of a loader.
fn ranges(database: &Connection, tally: &mut Tally) -> Result<(), NsightError> {
    let table = "NVTX_EVENTS";
    let selected = Columns::read(database, table)?.spans_and(&["text", "textId"])?;
    let sql = format!(
        "SELECT n.start, n.until, COALESCE(n.text, s.value) FROM (SELECT {selected} FROM {table}) n LEFT JOIN StringIds s ON s.id = n.textId \
        WHERE n.until IS NOT NULL AND COALESCE(n.text, s.value) IS NOT NULL"
    );
    rows(database, table, &sql, |row| {
        let (start, end, name): (i64, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let low = name.to_ascii_lowercase();
        let word = low.trim_end_matches(|letter: char| letter.is_ascii_digit() || " #:_-=".contains(letter));
        if word.len() < low.len()
            && ["step", "iteration", "iter", "profilerstep", "train_step", "batch"].contains(&word)
        {
            tally.step(&format!("NVTX ranges named `{word}`"), end.saturating_sub(start));
        } else if low.contains("dataloader") {
            tally.input_wait(end.saturating_sub(start));
        }
        Ok(())
    })
}

fn gpu(database: &Connection) -> Result<Option<(String, Option<f64>)>, NsightError> {
    let mut found = None;
    rows(database, "TARGET_INFO_GPU", "SELECT name, totalMemory FROM TARGET_INFO_GPU ORDER BY id LIMIT 1", |row| {
        found = Some((row.get(0)?, row.get::<_, Option<i64>>(1)?.map(|bytes| bytes as f64)));
        Ok(())
    })?;
    Ok(found)
}
