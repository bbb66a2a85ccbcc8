//! A run in MLflow's database, as MLflow 1.1 laid it out (revision 451aebb31d03 of mlflow/store/db_migrations). Every later MLflow finds tables missing
//! in it and brings it up to date by itself when it opens it (mlflow/store/db/utils.py, `_initialize_tables`); a database of its own version it
//! would refuse to migrate unasked. MLflow 3 opens folders of small files no longer without a switch.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, Error, params};

use crate::exports::metrics::metrics;
use crate::samples::Sample;

/// The file that `mlflow ui` opens in the folder where it is started.
pub const FILE: &str = "mlflow.db";

/// How long a server that reads the same file may hold it.
const PATIENCE: Duration = Duration::from_secs(5);

const TABLES: &str = "
CREATE TABLE experiments (
  experiment_id INTEGER NOT NULL, name VARCHAR(256) NOT NULL, artifact_location VARCHAR(256), lifecycle_stage VARCHAR(32),
  CONSTRAINT experiment_pk PRIMARY KEY (experiment_id),
  CONSTRAINT experiments_lifecycle_stage CHECK (lifecycle_stage IN ('active', 'deleted')), UNIQUE (name));
CREATE TABLE runs (
  run_uuid VARCHAR(32) NOT NULL, name VARCHAR(250), source_type VARCHAR(20), source_name VARCHAR(500), entry_point_name VARCHAR(50),
  user_id VARCHAR(256), status VARCHAR(20), start_time BIGINT, end_time BIGINT, source_version VARCHAR(50), lifecycle_stage VARCHAR(20),
  artifact_uri VARCHAR(200), experiment_id INTEGER, CONSTRAINT run_pk PRIMARY KEY (run_uuid),
  CONSTRAINT source_type CHECK (source_type IN ('NOTEBOOK', 'JOB', 'LOCAL', 'UNKNOWN', 'PROJECT')),
  CONSTRAINT status CHECK (status IN ('SCHEDULED', 'FAILED', 'FINISHED', 'RUNNING')),
  CONSTRAINT runs_lifecycle_stage CHECK (lifecycle_stage IN ('active', 'deleted')),
  FOREIGN KEY(experiment_id) REFERENCES experiments (experiment_id));
CREATE TABLE tags (
  key VARCHAR(250) NOT NULL, value VARCHAR(250), run_uuid VARCHAR(32) NOT NULL,
  CONSTRAINT tag_pk PRIMARY KEY (key, run_uuid), FOREIGN KEY(run_uuid) REFERENCES runs (run_uuid));
CREATE TABLE params (
  key VARCHAR(250) NOT NULL, value VARCHAR(250) NOT NULL, run_uuid VARCHAR(32) NOT NULL,
  CONSTRAINT param_pk PRIMARY KEY (key, run_uuid), FOREIGN KEY(run_uuid) REFERENCES runs (run_uuid));
CREATE TABLE metrics (
  key VARCHAR(250) NOT NULL, value FLOAT NOT NULL, timestamp BIGINT NOT NULL, run_uuid VARCHAR(32) NOT NULL, step BIGINT DEFAULT '0' NOT NULL,
  CONSTRAINT metric_pk PRIMARY KEY (key, timestamp, step, run_uuid, value), FOREIGN KEY(run_uuid) REFERENCES runs (run_uuid));
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num));
INSERT INTO alembic_version VALUES ('451aebb31d03');
";

/// A run in the database.
pub struct MlflowRun {
    database: Connection,
    /// 32 hexadecimal digits.
    id: String,
    /// MLflow has brought the database up to date, and reads the last value of each metric from a table of its own.
    has_latest: bool,
}

impl MlflowRun {
    /// Begins a run in the database at `path`, which is made where there is none. `artifacts` is where its files would be.
    pub fn begin(path: &Path, id: &str, name: &str, artifacts: &str, start_unix_millis: i64) -> Result<Self, Error> {
        let mut database = Connection::open(path)?;
        database.busy_timeout(PATIENCE)?;
        let begun = database.transaction()?;
        let has = |table: &str| {
            begun.query_row("SELECT count(*) FROM sqlite_master WHERE name = ?1", [table], |row| row.get::<_, i64>(0))
        };
        if has("runs")? == 0 {
            begun.execute_batch(TABLES)?;
        }
        let has_latest = has("latest_metrics")? > 0;
        // The experiment that MLflow itself makes first.
        begun.execute(
            "INSERT OR IGNORE INTO experiments (experiment_id, name, artifact_location, lifecycle_stage) VALUES (0, 'Default', ?1, 'active')",
            [artifacts],
        )?;
        let short: String = name.chars().take(250).collect();
        begun.execute(
            "INSERT INTO runs (run_uuid, name, source_type, source_name, entry_point_name, user_id, status, start_time, source_version, lifecycle_stage, artifact_uri, experiment_id)
             VALUES (?1, ?2, 'UNKNOWN', '', '', '', 'RUNNING', ?3, '', 'active', ?4, 0)",
            params![id, short, start_unix_millis, format!("{artifacts}/{id}/artifacts")],
        )?;
        begun.execute("INSERT INTO tags (key, value, run_uuid) VALUES ('mlflow.runName', ?1, ?2)", [&short, id])?;
        begun.execute("INSERT INTO params (key, value, run_uuid) VALUES ('command', ?1, ?2)", [&short, id])?;
        begun.commit()?;
        Ok(Self { database, id: id.to_owned(), has_latest })
    }

    /// The counters of a sample, as the values of step `number`.
    pub fn add(&mut self, sample: &Sample, number: u64) -> Result<(), Error> {
        let millis = (sample.at_unix_seconds * 1e3) as i64;
        let added = self.database.transaction()?;
        for metric in metrics(sample) {
            let name = metric.gpu.map_or_else(|| metric.name.to_owned(), |gpu| format!("{}.gpu{gpu}", metric.name));
            let row = params![name, metric.value, millis, self.id, number.cast_signed()];
            added.execute(
                "INSERT OR REPLACE INTO metrics (key, value, timestamp, run_uuid, step) VALUES (?1, ?2, ?3, ?4, ?5)",
                row,
            )?;
            if self.has_latest {
                added.execute(
                    "INSERT OR REPLACE INTO latest_metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES (?1, ?2, ?3, ?4, ?5, 0)",
                    row,
                )?;
            }
        }
        added.commit()
    }

    pub fn end(&self, end_unix_millis: i64, succeeded: bool) -> Result<(), Error> {
        let status = if succeeded { "FINISHED" } else { "FAILED" };
        let row = params![status, end_unix_millis, self.id];
        self.database.execute("UPDATE runs SET status = ?1, end_time = ?2 WHERE run_uuid = ?3", row).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exports::metrics::example;

    #[test]
    fn a_run_is_told_with_its_state_and_its_metrics() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        for id in ["a", "b"] {
            let mut run = MlflowRun::begin(&path, &id.repeat(32), "it's\nmine", "file:///store", 5).unwrap();
            run.add(&example(), 4).unwrap();
            run.add(&example(), 5).unwrap();
            run.end(9, id == "b").unwrap();
        }
        let database = Connection::open(&path).unwrap();
        let text = |query: &str| database.query_row(query, [], |row| row.get::<_, String>(0)).unwrap();
        assert_eq!(text("SELECT group_concat(status) FROM runs ORDER BY run_uuid"), "FAILED,FINISHED");
        assert_eq!(
            text(
                "SELECT value || ' ' || timestamp || ' ' || step FROM metrics WHERE key = 'gpuplan_gpu_power_watts.gpu1' AND step = 4 LIMIT 1"
            ),
            "300.25 1790000000500 4"
        );
        assert_eq!(text("SELECT version_num FROM alembic_version"), "451aebb31d03");
    }
}
