//! How a table is made to fit a narrow terminal: which columns are dropped, and which names lose their middle.

use crate::text::table::Column;

/// Terminal width from which names and titles are written in full.
pub const WIDE: u16 = 120;
/// A column with this weight is shown at any width.
pub const ALWAYS: u8 = u8::MAX;
/// Weights from here on are worth shortening names for.
const NEEDED: u8 = 100;
/// What `render` puts between two columns.
const GAP: usize = 2;

/// A column, and how much it matters where there is no room for all.
#[derive(Clone, Copy, Debug)]
pub struct FlexibleColumn {
    column: Column,
    weight: u8,
    /// Shortest useful length of its texts; `None`: never shortened.
    least: Option<usize>,
}

impl FlexibleColumn {
    /// Dropped first; those of the highest weight last.
    pub const fn extra(column: Column, weight: u8) -> Self {
        Self { column, weight, least: None }
    }

    /// Dropped only where shortening names does not make enough room.
    pub const fn needed(column: Column, weight: u8) -> Self {
        Self { column, weight: if weight == ALWAYS { ALWAYS } else { NEEDED + weight }, least: None }
    }

    /// Always shown; long texts lose their middle.
    pub const fn elastic(column: Column, least: usize) -> Self {
        Self { column, weight: ALWAYS, least: Some(least) }
    }
}

/// Chooses the columns that a width has room for and shortens elastic ones, so that no cell wraps. Empty columns are left out.
pub fn fit(flexible: &[FlexibleColumn], rows: &mut [Vec<String>], width: u16) -> Vec<Column> {
    let natural: Vec<usize> = flexible
        .iter()
        .enumerate()
        .map(|(index, column)| {
            let longest =
                rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.chars().count()).max().unwrap_or(0);
            if longest == 0 && column.weight != ALWAYS { 0 } else { longest.max(column.column.title.chars().count()) }
        })
        .collect();
    let mut lengths = natural.clone();
    let mut shown: Vec<usize> = (0..flexible.len()).filter(|index| lengths[*index] > 0).collect();
    let excess = |shown: &[usize], lengths: &[usize]| {
        (shown.iter().map(|index| lengths[*index] + GAP).sum::<usize>()).saturating_sub(usize::from(width) + 1)
    };
    // Of equal weights the last goes first.
    let lightest = |shown: &[usize], below: u8| {
        let found = shown.iter().copied().filter(|index| flexible[*index].weight < below);
        found.min_by_key(|index| (flexible[*index].weight, usize::MAX - index))
    };
    while let (true, Some(index)) = (excess(&shown, &lengths) > 0, lightest(&shown, NEEDED)) {
        shown.retain(|other| *other != index);
    }
    loop {
        while excess(&shown, &lengths) > 0 {
            let spare = |index: &usize| flexible[*index].least.is_some_and(|least| lengths[*index] > least);
            let Some(longest) = shown.iter().copied().filter(spare).max_by_key(|index| lengths[*index]) else { break };
            lengths[longest] -= 1;
        }
        let Some(index) = lightest(&shown, ALWAYS).filter(|_| excess(&shown, &lengths) > 0) else { break };
        lengths.clone_from(&natural);
        shown.retain(|other| *other != index);
    }
    for row in rows {
        for (index, cell) in row.iter_mut().enumerate().filter(|(index, _)| flexible[*index].least.is_some()) {
            *cell = shorten(cell, lengths[index]);
        }
    }
    let hidden = |index: usize| if shown.contains(&index) { 0 } else { u16::MAX };
    flexible.iter().enumerate().map(|(index, column)| Column { from_width: hidden(index), ..column.column }).collect()
}

/// Takes the middle out of a long text: the ends of a machine's or a region's name tell it apart.
pub fn shorten(text: &str, length: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= length || length < 2 {
        return text.to_owned();
    }
    let tail = (length - 1) / 2;
    let head = length - 1 - tail;
    letters[..head].iter().chain(&['…']).chain(&letters[letters.len() - tail..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_columns_give_way_before_names_are_shortened() {
        let flexible = [
            FlexibleColumn::elastic(Column::left("a", 0), 6),
            FlexibleColumn::needed(Column::left("b", 0), 1),
            FlexibleColumn::extra(Column::left("c", 0), 1),
            FlexibleColumn::extra(Column::left("d", 0), 9),
        ];
        let shown = |width| {
            let mut rows = vec![vec!["head-middle-tail".to_owned(), "y".repeat(20), "z".repeat(20), String::new()]];
            let columns = fit(&flexible, &mut rows, width);
            (columns.iter().map(|column| column.from_width == 0).collect::<Vec<_>>(), rows[0][0].clone())
        };
        assert_eq!(
            shown(80),
            (vec![true, true, true, false], "head-middle-tail".to_owned()),
            "an empty column is not shown"
        );
        assert_eq!(shown(50), (vec![true, true, false, false], "head-middle-tail".to_owned()));
        assert_eq!(shown(33), (vec![true, true, false, false], "head-…tail".to_owned()));
        assert_eq!(shown(20), (vec![true, false, false, false], "head-middle-tail".to_owned()));
    }
}
