//! A report as CSV: one fact a line, exact figures, the unit at the end of the field's name.

use crate::page::document::Report;
use crate::text::csv_text::csv_text;

pub const COLUMNS: [&str; 5] = ["section", "part", "row", "field", "value"];

pub fn csv(report: &Report) -> String {
    let mut lines: Vec<[String; 5]> = Vec::new();
    let mut say = |section: &str, part: &str, row: usize, field: &str, value: &str| {
        lines.push([section.to_owned(), part.to_owned(), row.to_string(), field.to_owned(), harmless(value)]);
    };
    say("report", "", 1, "title", &report.title);
    say("report", "", 1, "lead", &report.lead);
    say("report", "", 1, "made_at", &report.made_at.to_string());
    for (index, figure) in report.key.iter().enumerate() {
        say("report", "key", index + 1, figure.name, &format!("{} ({})", figure.value, figure.note));
    }
    for section in &report.sections {
        for (index, text) in section.text.iter().enumerate() {
            say(section.id, "text", index + 1, "text", text);
        }
        for (index, point) in section.points.iter().enumerate() {
            say(section.id, "point", index + 1, "text", point);
        }
        for figure in &section.figures {
            for (index, row) in figure.table.rows.iter().enumerate() {
                for (column, cell) in figure.table.columns.iter().zip(row).filter(|(_, cell)| !cell.exact.is_empty()) {
                    say(section.id, figure.table.id, index + 1, column.key, &cell.exact);
                }
            }
        }
    }
    csv_text(&COLUMNS, lines)
}

/// Text that a spreadsheet would run as a formula begins with an apostrophe instead (OWASP, "CSV Injection").
fn harmless(value: &str) -> String {
    let is_number = value.parse::<f64>().is_ok();
    if !is_number && value.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{value}")
    } else {
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_runs_in_a_spreadsheet() {
        assert_eq!(harmless("=HYPERLINK(1)"), "'=HYPERLINK(1)");
        assert_eq!(harmless("-0.25"), "-0.25");
        assert_eq!(harmless("-- gpus"), "'-- gpus");
    }
}
