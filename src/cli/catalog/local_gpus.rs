//! `catalog gpus --here`: the GPUs of this machine and what the catalog calls them.

use crate::arguments::global::OutputFormat;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_calibration::{DeviceError, LocalGpu, local_gpus, match_catalog};
use gpuplan_hardware::Hardware;
use gpuplan_report::catalog::{self, LocalGpuLine};
use gpuplan_report::text::table::{Column, render};

const COLUMNS: [Column; 5] = [
    Column::right("INDEX", 0),
    Column::left("NAME", 0),
    Column::right("MEMORY", 0),
    Column::left("COMPUTE CAPABILITY", 80),
    Column::left("CATALOG ID", 0),
];

/// Lists this machine's GPUs. A machine without one is an answer of its own: there is nothing to measure on.
pub fn run(hardware: &Hardware, session: &Session) -> Result<Exit, Diagnostic> {
    let gpus = local_gpus().map_err(no_device)?;
    let rows: Vec<LocalGpuLine> = gpus.iter().enumerate().map(|(index, local)| row(index, local, hardware)).collect();
    let text = text(&rows, session)?;
    for row in rows.iter().filter(|row| row.gpu.is_none()) {
        session.printer.warning(&format!("the catalog has no GPU named `{}` with this memory", row.name));
    }
    session.printer.data(&text)
}

fn row(index: usize, local: &LocalGpu, hardware: &Hardware) -> LocalGpuLine {
    let (major, minor) = local.compute_capability;
    LocalGpuLine {
        index,
        name: local.name.clone(),
        memory_bytes: local.memory.0 as u64,
        compute_capability: format!("{major}.{minor}"),
        gpu: match_catalog(local, hardware).map(|id| hardware.gpu(id).id.clone()),
    }
}

fn text(rows: &[LocalGpuLine], session: &Session) -> Result<String, Diagnostic> {
    match session.output {
        OutputFormat::Json => Ok(catalog::json(rows)),
        OutputFormat::Csv => {
            let mut writer = csv::Writer::from_writer(Vec::new());
            rows.iter().try_for_each(|row| writer.serialize(row)).map_err(Diagnostic::unexpected)?;
            let bytes = writer.into_inner().map_err(Diagnostic::unexpected)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
        OutputFormat::Table => Ok(render(&COLUMNS, rows.iter().map(cells), session.width)),
    }
}

fn cells(row: &LocalGpuLine) -> Vec<String> {
    let memory = gpuplan_units::Bytes(row.memory_bytes as f64);
    let gpu = row.gpu.clone().unwrap_or_else(|| "not in the catalog".to_owned());
    vec![row.index.to_string(), row.name.clone(), memory.to_string(), row.compute_capability.clone(), gpu]
}

pub fn no_device(error: DeviceError) -> Diagnostic {
    let diagnostic = Diagnostic::usage(format!("nothing to measure on: {error}"));
    match error {
        DeviceError::NotBuilt { feature } => diagnostic.hint(format!("build with the feature `{feature}`")),
        _ => diagnostic.hint("`gpuplan catalog gpus` lists the GPUs of the catalog"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Arguments;
    use clap::Parser;
    use gpuplan_units::Bytes;

    #[test]
    fn every_format_names_the_catalog_id() {
        let hardware = Hardware::embedded().unwrap();
        let local =
            LocalGpu { name: "NVIDIA L40S".to_owned(), memory: Bytes::from_mib(45_457.0), compute_capability: (8, 9) };
        let rows =
            [row(0, &local, &hardware), row(1, &LocalGpu { name: "Stranger, Inc".to_owned(), ..local }, &hardware)];
        for output in ["table", "json", "csv"] {
            let arguments = Arguments::parse_from(["gpuplan", "--output", output, "catalog", "gpus", "--here"]);
            let text = text(&rows, &Session::new(&arguments.global).unwrap()).unwrap();
            assert!(text.contains("l40s") && text.contains("Stranger"), "{text}");
        }
    }

    #[test]
    fn a_machine_without_a_gpu_ends_with_the_usage_code_and_a_hint() {
        let diagnostic = no_device(DeviceError::NoDriver);
        assert_eq!((diagnostic.exit, diagnostic.hints.len()), (Exit::Usage, 1));
        assert!(diagnostic.message.starts_with("nothing to measure on"));
    }
}
