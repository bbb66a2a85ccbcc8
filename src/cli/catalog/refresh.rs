//! `refresh`: asks every source at once, keeps what they say, and tells what each said.

use clap::Args;

use crate::arguments::global::OutputFormat;
use crate::question::live::{self, Asked, Outcome, Wanted};
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_market::{Access, SourceError};
use gpuplan_plan::limits;
use gpuplan_report::refresh::{self, SourceRow, Word};

#[derive(Debug, Args)]
pub struct RefreshArguments {
    /// Only this cloud (repeat for several)
    #[arg(long = "cloud", value_name = "CLOUD")]
    pub clouds: Vec<String>,
    /// The prices of the last 90 days as well, where the cloud tells them: many questions more
    #[arg(long)]
    pub history: bool,
    /// Do not ask again what answered less than this ago: 10m, 6h
    #[arg(long, value_name = "TIME")]
    pub max_age: Option<String>,
}

pub fn run(arguments: &RefreshArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let catalogs = session.snapshot()?;
    let clouds =
        arguments.clouds.iter().map(|name| limits::cloud(name, &catalogs.hardware)).collect::<Result<_, _>>()?;
    let wanted = Wanted { clouds, history: arguments.history, max_age: live::age(arguments.max_age.as_deref())? };
    let said = live::ask_clouds(&catalogs.market, &catalogs.hardware, session, &wanted)?;
    let rows: Vec<SourceRow> = said.asked.iter().map(row).collect();
    match session.output {
        OutputFormat::Json => {
            session.printer.data(&refresh::json(&rows).map_err(|error| Diagnostic::unexpected(&error))?)?
        }
        OutputFormat::Csv => {
            session.printer.data(&refresh::csv(&rows).map_err(|error| Diagnostic::unexpected(&error))?)?
        }
        OutputFormat::Table => session.printer.data(&refresh::table(&rows, session.width))?,
    };
    let tried = rows.iter().filter(|row| row.word != Word::NoCredentials).count();
    if tried > 0 && rows.iter().all(|row| matches!(row.word, Word::Failed | Word::NoCredentials)) {
        return Err(Diagnostic::new(
            Exit::CloudRefused,
            "no source answered; what was known before stays, with its age",
        )
        .hint("`gpuplan doctor` shows which credentials and addresses are used"));
    }
    Ok(Exit::Done)
}

fn row(asked: &Asked) -> SourceRow {
    let (word, rows, details) = match &asked.outcome {
        Outcome::Recent(age) => (Word::Recent, 0, vec![format!("answered {age} ago")]),
        Outcome::Answered { rows, notes } => (Word::Answered, *rows, notes.iter().map(ToString::to_string).collect()),
        Outcome::Failed(error @ SourceError::MissingCredentials { .. }) => {
            (Word::NoCredentials, 0, vec![error.to_string()])
        }
        Outcome::Failed(error) => (Word::Failed, 0, vec![error.to_string()]),
    };
    SourceRow {
        cloud: asked.about.cloud.to_owned(),
        source: asked.about.id.to_owned(),
        is_public: asked.about.access == Access::Public,
        word,
        rows,
        details,
    }
}
