//! Titled tables under a few lines of figures, for the terminal and as Markdown.

use crate::text::table::{Column, render};
use crate::text::wrap::wrap;

/// One titled table.
pub struct Section {
    pub title: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<String>>,
    /// Under it.
    pub foot: String,
}

/// For a terminal.
pub fn text(head: &[String], sections: Vec<Section>, assumptions: &[String], last: Option<&str>, width: u16) -> String {
    let mut out = String::new();
    let add = |out: &mut String, line: &str| {
        out.push_str(&wrap(line, width, "  "));
        out.push('\n');
    };
    for line in head {
        add(&mut out, line);
    }
    for section in sections {
        out.push_str(&format!("\n{}\n{}", section.title, render(&section.columns, section.rows, width)));
        for line in section.foot.lines() {
            add(&mut out, line);
        }
    }
    out.push('\n');
    for assumption in assumptions {
        add(&mut out, &format!("Assumed: {assumption}."));
    }
    if let Some(last) = last {
        add(&mut out, last);
    }
    out
}

/// For a page or a comment.
pub fn markdown(head: &[String], sections: Vec<Section>, assumptions: &[String], last: Option<&str>) -> String {
    let mut head = head.iter();
    let mut out = format!("## {}\n\n", head.next().map_or("", String::as_str));
    for line in head {
        out.push_str(&format!("{line}  \n"));
    }
    for section in sections {
        out.push_str(&format!("\n### {}\n\n{}", section.title, markdown_table(&section.columns, &section.rows)));
        if !section.foot.is_empty() {
            out.push_str(&format!("\n{}", section.foot));
        }
    }
    out.push_str("\n### Assumed\n\n");
    for assumption in assumptions {
        out.push_str(&format!("- {assumption}\n"));
    }
    if let Some(last) = last {
        out.push_str(&format!("\n{last}\n"));
    }
    out
}

/// Cells in bars; what would end a cell is escaped.
pub fn markdown_table(columns: &[Column], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = line(columns.iter().map(|column| column.title.to_owned()).collect());
    out.push_str(&line(columns.iter().map(|column| if column.right { "---:" } else { "---" }.to_owned()).collect()));
    for row in rows {
        out.push_str(&line(row.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect()));
    }
    out
}
