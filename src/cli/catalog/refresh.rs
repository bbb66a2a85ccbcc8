//! `refresh`: asks every source at once, caches the answers, and lists them by source.

use clap::Args;

use crate::arguments::global::OutputFormat;
use crate::question::live::{self, Outcome, Request, SourceReport};
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_market::{Access, SourceError};
use gpuplan_plan::limits;
use gpuplan_report::catalog::refresh::{self, SourceOutcome, SourceRow};

#[derive(Debug, Args)]
pub struct RefreshArguments {
    /// Fetch only from this cloud (repeat for several)
    #[arg(long = "cloud", value_name = "CLOUD", value_delimiter = ',')]
    pub clouds: Vec<String>,
    /// Also fetch the prices of the last 90 days where the cloud publishes them, which takes many more requests
    #[arg(long)]
    pub history: bool,
    /// Skip sources that answered less than this ago: 10m, 6h
    #[arg(long, value_name = "TIME")]
    pub max_age: Option<String>,
}

pub fn run(arguments: &RefreshArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let mut catalogs = session.snapshot()?;
    let clouds =
        arguments.clouds.iter().map(|name| limits::cloud(name, &catalogs.hardware)).collect::<Result<_, _>>()?;
    let max_age = live::parse_max_age(arguments.max_age.as_deref())?;
    let lists_again = max_age.is_none();
    let wanted = Request { clouds, history: arguments.history, lists_again, max_age, ..Request::default() };
    let answers = live::ask_clouds(&mut catalogs, session, &wanted)?;
    let rows: Vec<SourceRow> = answers.sources.iter().map(row).collect();
    match session.output {
        OutputFormat::Json => session.printer.data(&refresh::json(&rows))?,
        OutputFormat::Csv => session.printer.data(&refresh::csv(&rows).map_err(Diagnostic::unexpected)?)?,
        OutputFormat::Table => session.printer.data(&refresh::table(&rows, session.width))?,
    };
    let tried = rows.iter().filter(|row| row.outcome != SourceOutcome::NoCredentials).count();
    if tried > 0 && rows.iter().all(|row| matches!(row.outcome, SourceOutcome::Failed | SourceOutcome::NoCredentials)) {
        return Err(Diagnostic::new(Exit::CloudRefused, "no source answered; earlier prices are kept, with their age")
            .hint("`gpuplan doctor` shows which credentials and addresses are used"));
    }
    Ok(Exit::Done)
}

fn row(source: &SourceReport) -> SourceRow {
    let (outcome, rows, details) = match &source.outcome {
        Outcome::Recent(age) => (SourceOutcome::Recent, 0, vec![format!("answered {age} ago")]),
        Outcome::Answered { rows, notes } => {
            (SourceOutcome::Answered, *rows, notes.iter().map(ToString::to_string).collect())
        }
        Outcome::Failed(error @ SourceError::MissingCredentials { .. }) => {
            (SourceOutcome::NoCredentials, 0, vec![error.to_string()])
        }
        Outcome::Failed(error) => (SourceOutcome::Failed, 0, vec![error.to_string()]),
    };
    SourceRow {
        cloud: source.about.cloud.to_owned(),
        source: source.about.id.to_owned(),
        is_public: source.about.access == Access::Public,
        outcome,
        rows,
        details,
    }
}
