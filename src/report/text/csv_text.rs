//! A table as CSV in memory.

/// A header and rows as long as it.
pub fn csv_text<R: IntoIterator<Item = String>>(header: &[&str], rows: impl IntoIterator<Item = R>) -> String {
    const TAKES_ALL: &str = "memory takes every row, and all are as long as the header";
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(header).expect(TAKES_ALL);
    rows.into_iter().for_each(|row| writer.write_record(row).expect(TAKES_ALL));
    String::from_utf8(writer.into_inner().expect(TAKES_ALL)).expect("cells are texts")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_have_to_be() {
        let rows = [["a, b".to_owned(), "\"c\"".to_owned()], [String::new(), "\u{e9}".to_owned()]];
        assert_eq!(csv_text(&["x", "y"], rows), "x,y\n\"a, b\",\"\"\"c\"\"\"\n,\u{e9}\n");
        assert_eq!(csv_text(&["x"], Vec::<Vec<String>>::new()), "x\n");
    }
}
