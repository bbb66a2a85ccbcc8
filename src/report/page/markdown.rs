//! A report as Markdown: the same words and tables, without charts.

use crate::page::document::{Report, Section, Table, day_and_time};

pub fn markdown(report: &Report) -> String {
    let mut out = format!("# {}\n\n{}\n\n", escape(&report.title), escape(&report.lead));
    for figure in &report.key {
        out.push_str(&format!("- **{}**: {} ({})\n", escape(figure.name), escape(&figure.value), escape(&figure.note)));
    }
    for section in &report.sections {
        self::section(&mut out, section);
    }
    out.push_str(&format!("\nMade by gpuplan {} on {}.\n", env!("CARGO_PKG_VERSION"), day_and_time(report.made_at)));
    out
}

fn section(out: &mut String, section: &Section) {
    out.push_str(&format!("\n## {}\n", escape(section.heading)));
    for text in &section.text {
        out.push_str(&format!("\n{}\n", escape(text)));
    }
    if !section.points.is_empty() {
        out.push('\n');
        for point in &section.points {
            out.push_str(&format!("- {}\n", escape(point)));
        }
    }
    for figure in &section.figures {
        table(out, &figure.table);
    }
}

fn table(out: &mut String, table: &Table) {
    let names: Vec<String> = table.seen().map(|column| escape(column.name)).collect();
    let rules: Vec<&str> = table.seen().map(|column| if column.is_number { "---:" } else { "---" }).collect();
    out.push_str(&format!("\n{}:\n\n| {} |\n| {} |\n", escape(&table.caption), names.join(" | "), rules.join(" | ")));
    for row in &table.rows {
        let cells: Vec<String> = table.seen_of(row).map(|(_, cell)| escape(&cell.shown)).collect();
        out.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
}

/// What a reader of Markdown takes for markup is marked as text. Between backquotes, which a pair of makes a thing to type,
/// nothing is markup but the bar of a table.
fn escape(text: &str) -> String {
    let mut pieces = text.split('`');
    let mut out = pieces.next().map(plain).unwrap_or_default();
    while let Some(code) = pieces.next() {
        match pieces.next() {
            Some(after) => out.push_str(&format!("`{}`{}", one_line(code).replace('|', "\\|"), plain(after))),
            None => out.push_str(&format!("\\`{}", plain(code))),
        }
    }
    out
}

fn plain(text: &str) -> String {
    let text = one_line(text);
    let mut out = String::with_capacity(text.len());
    let characters: Vec<char> = text.chars().collect();
    for (index, character) in characters.iter().enumerate() {
        let between_letters = index > 0
            && characters[index - 1].is_alphanumeric()
            && characters.get(index + 1).is_some_and(|next| next.is_alphanumeric());
        let is_markup = match character {
            '\\' | '*' | '<' | '>' | '[' | ']' | '|' | '~' | '&' => true,
            '_' => !between_letters,
            '#' | '-' | '+' | '=' => index == 0,
            _ => false,
        };
        if is_markup {
            out.push('\\');
        }
        out.push(*character);
    }
    out
}

fn one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_become_markup_or_columns() {
        assert_eq!(
            escape("a|b <script> *x* [l](u) Standard_ND96 _i_"),
            "a\\|b \\<script\\> \\*x\\* \\[l\\](u) Standard_ND96 \\_i\\_"
        );
        assert_eq!(escape("# no heading\n- no list"), "\\# no heading - no list");
        assert_eq!(escape("type `a | <b>` now, ` alone"), "type `a \\| <b>` now, \\` alone");
        assert_eq!(escape("-"), "\\-");
    }
}
