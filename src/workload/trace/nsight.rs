//! Nsight Systems' SQLite export: kernels, copies, runtime calls and NVTX ranges, as tables of the database have them.
//!
//! Tables are made only where there is something in them ("SQLite Schema Reference" in NVIDIA's Nsight Systems user guide).

use std::path::Path;

use rusqlite::{Connection, OpenFlags, Row};

use crate::profile::ProfiledGpu;
use crate::trace::chrome::ChromeTrace;
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
}

/// Kinds of copies (CUPTI, `CUpti_ActivityMemcpyKind`).
const COPY_KINDS: [(i64, &str); 4] = [(1, "HtoD"), (2, "DtoH"), (8, "DtoD"), (10, "PtoP")];
/// Kinds of memory (CUPTI, `CUpti_ActivityMemoryKind`).
const MEMORY_KINDS: [(i64, &str); 4] = [(1, "Pageable"), (2, "Pinned"), (3, "Device"), (5, "Managed")];

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
        copies(&database, &mut tally)?;
    }
    if has("NVTX_EVENTS") {
        ranges(&database, &mut tally)?;
    }
    let name = if has("TARGET_INFO_GPU") { gpu(&database)? } else { None };
    let counted = tally.finish("Nsight Systems");
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

fn kernels(database: &Connection, tally: &mut Tally) -> Result<(), NsightError> {
    let sql = "SELECT k.start, k.\"end\", k.deviceId, k.correlationId, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k \
        LEFT JOIN StringIds s ON s.id = k.demangledName ORDER BY k.start";
    rows(database, "CUPTI_ACTIVITY_KIND_KERNEL", sql, |row| {
        let name: Option<String> = row.get(4)?;
        tally.device_work(Work {
            name: name.as_deref().unwrap_or("(no name)"),
            device: row.get(2)?,
            start: row.get(0)?,
            end: row.get(1)?,
            correlation: row.get::<_, Option<u32>>(3)?.unwrap_or(0),
            bytes: 0.0,
        });
        Ok(())
    })
}

fn copies(database: &Connection, tally: &mut Tally) -> Result<(), NsightError> {
    let sql = "SELECT start, \"end\", deviceId, correlationId, bytes, copyKind, srcKind, dstKind FROM CUPTI_ACTIVITY_KIND_MEMCPY ORDER BY start";
    rows(database, "CUPTI_ACTIVITY_KIND_MEMCPY", sql, |row| {
        let word = |kinds: &[(i64, &'static str)], at: usize| -> rusqlite::Result<&'static str> {
            let number: i64 = row.get(at)?;
            Ok(kinds.iter().find(|(known, _)| *known == number).map_or("other", |(_, word)| *word))
        };
        let name =
            format!("Memcpy {} ({} -> {})", word(&COPY_KINDS, 5)?, word(&MEMORY_KINDS, 6)?, word(&MEMORY_KINDS, 7)?);
        tally.device_work(Work {
            name: &name,
            device: row.get(2)?,
            start: row.get(0)?,
            end: row.get(1)?,
            correlation: row.get::<_, Option<u32>>(3)?.unwrap_or(0),
            bytes: row.get::<_, i64>(4)? as f64,
        });
        Ok(())
    })
}

fn calls(database: &Connection, tally: &mut Tally) -> Result<(), NsightError> {
    let sql = "SELECT r.start, r.\"end\", r.correlationId, s.value FROM CUPTI_ACTIVITY_KIND_RUNTIME r LEFT JOIN StringIds s ON s.id = r.nameId";
    rows(database, "CUPTI_ACTIVITY_KIND_RUNTIME", sql, |row| {
        let (start, end): (i64, i64) = (row.get(0)?, row.get(1)?);
        let name: Option<String> = row.get(3)?;
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
    let sql = "SELECT n.start, n.\"end\", COALESCE(n.text, s.value) FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId \
        WHERE n.\"end\" IS NOT NULL AND COALESCE(n.text, s.value) IS NOT NULL";
    rows(database, "NVTX_EVENTS", sql, |row| {
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
