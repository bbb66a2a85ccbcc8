//! One look for every table: a quiet rule under the header, numbers to the right, wrapped to the terminal.

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

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

fn align(text: String, column: Column) -> Cell {
    let alignment = if column.right { CellAlignment::Right } else { CellAlignment::Left };
    Cell::new(text).set_alignment(alignment)
}

/// Footer in the words people know: how much is hidden and how to see it.
pub fn footer(shown: usize, all: usize, hint: &str) -> String {
    if shown >= all { String::new() } else { format!("Shown {shown} of {all}; {hint}\n") }
}
