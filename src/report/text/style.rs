//! Bold and colour for a terminal, as ANSI sequences (ECMA-48, SGR); plain text elsewhere.

/// Whether text may be set in bold and colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// For pipes, files, and terminals of people who want none.
    #[default]
    Plain,
    Ansi,
}

impl Style {
    /// The answer itself.
    pub fn strong(self, text: &str) -> String {
        self.set(text, "1")
    }

    /// What explains it.
    pub fn faint(self, text: &str) -> String {
        self.set(text, "2")
    }

    /// What should make somebody stop.
    pub fn warning(self, text: &str) -> String {
        self.set(text, "1;33")
    }

    /// The name at the beginning of a row, after its indent.
    pub fn label(self, row: &str, name: &str) -> String {
        match row.split_once(name) {
            Some((indent, rest)) if self == Self::Ansi => format!("{indent}{}{rest}", self.set(name, "36")),
            _ => row.to_owned(),
        }
    }

    /// Line by line, so that a pager may cut anywhere.
    fn set(self, text: &str, code: &str) -> String {
        if self == Self::Plain {
            return text.to_owned();
        }
        let lines: Vec<String> = text.lines().map(|line| format!("\u{1b}[{code}m{line}\u{1b}[0m")).collect();
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_has_no_escapes_and_others_end_with_every_line() {
        assert_eq!(Style::Plain.strong("a\nb"), "a\nb");
        assert_eq!(Style::Ansi.strong("a\nb"), "\u{1b}[1ma\u{1b}[0m\n\u{1b}[1mb\u{1b}[0m");
        assert_eq!(Style::Ansi.label("  cost    $3", "cost"), "  \u{1b}[36mcost\u{1b}[0m    $3");
    }
}
