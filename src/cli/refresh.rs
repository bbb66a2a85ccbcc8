//! `refresh`: asks every source at once, keeps what they say, and tells what each said.

use crate::args::{OutputFormat, RefreshArguments};
use crate::diagnostic::{Diagnostic, Exit};
use crate::live::{self, Asked, Outcome, Wanted};
use crate::printer::Printer;
use crate::settings::Settings;
use gpuplan_market::{Access, SourceError};
use gpuplan_plan::limits;
use gpuplan_report::refresh::{self, SourceRow, Word};

pub fn run(arguments: &RefreshArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    let catalogs = settings.snapshot()?;
    let clouds =
        arguments.clouds.iter().map(|name| limits::cloud(name, &catalogs.hardware)).collect::<Result<_, _>>()?;
    let wanted = Wanted { clouds, history: arguments.history, max_age: live::age(arguments.max_age.as_deref())? };
    let said = live::ask_clouds(&catalogs.market, &catalogs.hardware, settings, printer, &wanted)?;
    let rows: Vec<SourceRow> = said.asked.iter().map(row).collect();
    match settings.output {
        OutputFormat::Json => printer.data(&refresh::json(&rows).map_err(|error| Diagnostic::unexpected(&error))?)?,
        OutputFormat::Csv => printer.data(&refresh::csv(&rows).map_err(|error| Diagnostic::unexpected(&error))?)?,
        OutputFormat::Table => printer.data(&refresh::table(&rows, settings.width))?,
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
