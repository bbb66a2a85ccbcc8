//! The data of the job, before the program starts: how far it is, what is wrong with it, and what that means for the run.

use std::sync::Arc;
use std::time::Duration;

use crate::event::Event;
use crate::ports::logger::Logger;
use crate::rules::outcome::{Exit, Outcome};
use crate::staging::{Data, stage};
use crate::state::with;
use crate::supervise::supervisor::{AgentError, Supervisor};
use gpuplan_runstore::{Contents, Phase, StoreError};
use gpuplan_units::Bytes;

/// Before a request that was refused is made again, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// A machine that is not the first fetches while the first does, and joins when it has all: who has joined is expected to speak.
pub(super) async fn before_joining(data: Option<&Data>, logger: &Arc<dyn Logger>) -> Result<(), AgentError> {
    if let Some(data) = data {
        stage(data, FIRST_PAUSE, &|line| logger.say(line), |_| ()).await?;
    }
    Ok(())
}

impl Supervisor {
    /// What is wrong with the data for good is told as the end of the run, and the program is not started; `None`: it can start.
    pub(super) async fn stage(&mut self) -> Result<Option<Outcome>, AgentError> {
        let is_first = self.life.rank.is_first();
        let Some(data) = self.settings.data.clone().filter(|_| is_first) else {
            return Ok(None);
        };
        with(&self.life.state, |state| state.phase = Some(Phase::Staging));
        let (logger, logs, state) = (self.logger.clone(), self.logs.clone(), self.life.state.clone());
        let say = move |line: &str| {
            logger.say(line);
            if let Some(logs) = &logs {
                logs.add(&format!("gpuplan: {line}\n"));
            }
        };
        let work = async {
            let show = |staged| with(&state, |state| state.staged = Some(staged));
            stage(&data, FIRST_PAUSE, &say, show).await
        };
        match self.unless_stopping(work).await {
            None => Ok(Some(self.outcome(Exit::Code(0)))),
            Some(Err(error)) => {
                say(&error.to_string());
                let outcome = if error.is_for_now() { Outcome::Interrupted } else { Outcome::Unprepared };
                self.ending.why = Some(error.to_string());
                Ok(Some(outcome))
            }
            Some(Ok(contents)) => {
                with(&self.life.state, |state| state.phase = Some(Phase::Running));
                self.compare(&contents).await?;
                Ok(None)
            }
        }
    }

    /// Data that changed between two machines of a run is told and used: whether it may, only a person knows.
    async fn compare(&mut self, contents: &Contents) -> Result<(), AgentError> {
        let warning = match self.life.run.keep_contents(contents).await {
            Ok(None) => return Ok(()),
            Ok(Some(first)) => {
                let shown = |contents: &Contents| {
                    format!("{} files, {}, at {}", contents.files, Bytes(contents.bytes as f64), contents.address)
                };
                format!("the data is not what this run began with: {} now, {} then", shown(contents), shown(&first))
            }
            Err(error @ StoreError::Unreadable { .. }) => {
                format!("whether the data is what this run began with is not known: {error}")
            }
            Err(error) => return Err(error.into()),
        };
        self.handle(Event::Warning(warning), None);
        Ok(())
    }
}
