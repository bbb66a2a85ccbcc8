//! Runs that were handed to an engine, in the same journal: what was handed over, the engine's name for it, and how it ended.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, params};

use crate::journal::{Journal, JournalError, time};
use crate::ports::engine::{JobId, Submission};

/// A run on an engine as the journal knows it.
#[derive(Clone, Debug)]
pub struct SubmissionRecord {
    pub work: Submission,
    /// `None`: the engine has not answered yet.
    pub job: Option<JobId>,
    /// How it ended, in the words of `status`.
    pub end: Option<String>,
    pub ended_at: Option<Timestamp>,
    pub relaunches: Option<u32>,
}

impl Journal {
    /// Before the engine is called. False if there is a run of this name already.
    pub fn hand(&mut self, work: &Submission) -> Result<bool, JournalError> {
        let text = serde_json::to_string(work).map_err(|error| JournalError::Row(error.to_string()))?;
        let rows = self.write(
            "INSERT OR IGNORE INTO handed (run, work, handed_at) SELECT ?1, ?2, ?3 WHERE NOT EXISTS (SELECT 1 FROM runs WHERE run = ?1)",
            params![work.run, text, work.handed_at.as_second()],
        )?;
        Ok(rows == 1)
    }

    /// After it.
    pub fn submitted_as(&mut self, run: &str, job: &JobId) -> Result<(), JournalError> {
        self.write("UPDATE handed SET job = ?2 WHERE run = ?1", params![run, job.0])?;
        Ok(())
    }

    pub fn end_submission(
        &mut self,
        run: &str,
        end: &str,
        relaunches: Option<u32>,
        at: Timestamp,
    ) -> Result<(), JournalError> {
        self.write(
            "UPDATE handed SET end = ?2, relaunches = ?3, ended_at = ?4 WHERE run = ?1 AND end IS NULL",
            params![run, end, relaunches, at.as_second()],
        )?;
        Ok(())
    }

    pub fn forget_submission(&mut self, run: &str) -> Result<(), JournalError> {
        self.write("DELETE FROM handed WHERE run = ?1", [run])?;
        Ok(())
    }

    pub fn handed(&self, run: &str) -> Result<Option<SubmissionRecord>, JournalError> {
        let mut found =
            self.database.prepare("SELECT work, job, end, ended_at, relaunches FROM handed WHERE run = ?1")?;
        found.query_row([run], |row| Ok(kept(row))).optional()?.transpose()
    }

    /// The newest first.
    pub fn submissions(&self) -> Result<Vec<SubmissionRecord>, JournalError> {
        let mut rows = self
            .database
            .prepare("SELECT work, job, end, ended_at, relaunches FROM handed ORDER BY handed_at DESC, run")?;
        let mut found = rows.query([])?;
        let mut all = Vec::new();
        while let Some(row) = found.next()? {
            all.push(kept(row)?);
        }
        Ok(all)
    }
}

fn kept(row: &Row) -> Result<SubmissionRecord, JournalError> {
    let work = serde_json::from_str(&row.get::<_, String>(0)?).map_err(|error| JournalError::Row(error.to_string()))?;
    let ended_at = row.get::<_, Option<i64>>(3)?.map(time).transpose()?;
    Ok(SubmissionRecord {
        work,
        job: row.get::<_, Option<String>>(1)?.map(JobId),
        end: row.get(2)?,
        ended_at,
        relaunches: row.get(4)?,
    })
}
