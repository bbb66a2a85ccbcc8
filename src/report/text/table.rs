//! One look for every table: a quiet rule under the header, numbers to the right, wrapped to the terminal.

use crate::text::wrap::wrap;
use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

/// Of what is folded under its row.
const INDENT: &str = "      ";

/// A column: title, alignment, and the narrowest terminal that shows it.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub title: &'static str,
    pub right: bool,
    /// Terminal width from which the column is shown.
    pub from_width: u16,
}

impl Column {
    pub const fn left(title: &'static str, from_width: u16) -> Self {
        Self { title, right: false, from_width }
    }

    pub const fn right(title: &'static str, from_width: u16) -> Self {
        Self { title, right: true, from_width }
    }
}

/// Rows must have a cell for every column; those that do not fit the width are left out together with their column.
pub fn render(columns: &[Column], rows: impl IntoIterator<Item = Vec<String>>, width: u16) -> String {
    let shown: Vec<usize> = (0..columns.len()).filter(|index| columns[*index].from_width <= width).collect();
    let mut table = Table::new();
    // Only the rule under the header and two spaces between columns.
    let quiet = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));
    table.load_style(quiet).set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table.set_header(shown.iter().map(|index| align(columns[*index].title.to_owned(), columns[*index])));
    for row in rows {
        table.add_row(shown.iter().map(|index| align(row.get(*index).cloned().unwrap_or_default(), columns[*index])));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    let text = table.to_string();
    let mut out = String::with_capacity(text.len() + 1);
    for line in text.lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Width of nothing: marks where a row begins.
const ROW: char = '\u{2060}';

/// The same, but what does not fit stands under its row, each cell after the title of its column: nothing is lost on a narrow terminal.
pub fn render_folding(columns: &[Column], rows: impl IntoIterator<Item = Vec<String>>, width: u16) -> String {
    let is_folded = |column: &Column| column.from_width > width;
    let Some(first) = columns.iter().position(|column| !is_folded(column)) else {
        return render(columns, rows, width);
    };
    let mut notes = Vec::new();
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|mut row| {
            let folded = columns.iter().zip(&row).filter(|(column, cell)| is_folded(column) && !cell.is_empty());
            let cells: Vec<String> = folded.map(|(column, cell)| format!("{}: {cell}", column.title)).collect();
            notes.push(wrap(&format!("{INDENT}{}", cells.join("; ")), width, INDENT));
            row[first].insert(0, ROW);
            row
        })
        .collect();
    let text = render(columns, rows, width);
    let (mut out, mut notes, mut before) = (String::with_capacity(text.len()), notes.into_iter(), None);
    let fold = |out: &mut String, note: Option<String>| {
        if let Some(note) = note.filter(|note| !note.trim().is_empty()) {
            out.push_str(&note);
            out.push('\n');
        }
    };
    for line in text.lines() {
        if line.contains(ROW) {
            fold(&mut out, before.take());
            before = notes.next();
        }
        out.push_str(line.replace(ROW, "").trim_end());
        out.push('\n');
    }
    fold(&mut out, before);
    out
}

fn align(text: String, column: Column) -> Cell {
    let alignment = if column.right { CellAlignment::Right } else { CellAlignment::Left };
    Cell::new(text).set_alignment(alignment)
}

/// Footer in the words people know: how much is hidden and how to see it.
pub fn footer(shown: usize, all: usize, hint: &str) -> String {
    if shown >= all { String::new() } else { format!("Shown {shown} of {all}; {hint}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_stands_under_its_row() {
        let columns = [Column::left("what", 0), Column::right("$/h", 100), Column::left("why", 120)];
        let rows = || {
            let row = |what: &str, rate: &str, why: &str| [what, rate, why].map(str::to_owned).to_vec();
            [row("a", "$1", "too slow"), row("b", "", "")]
        };
        assert_eq!(render_folding(&columns, rows(), 120), render(&columns, rows(), 120));
        let narrow = render_folding(&columns, rows(), 80);
        let lines: Vec<&str> = narrow.lines().skip(2).collect();
        assert_eq!(lines, ["a", "      $/h: $1; why: too slow", "b"]);
    }
}
