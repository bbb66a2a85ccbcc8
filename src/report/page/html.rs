//! A report as one HTML page: no network, no script, and everything that was read escaped.

use jiff::Timestamp;

use crate::page::chart::svg::escape;
use crate::page::document::{Cell, Column, Figure, KeyFigure, Report, Section, Table, day_and_time};

const STYLE: &str = include_str!("style.css");

/// Nothing may be fetched and nothing may run, whatever a name in the report says.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

pub fn html(report: &Report) -> String {
    page(report, None)
}

/// A page that is written again and again.
#[derive(Clone, Copy, Debug)]
pub struct Living<'a> {
    /// Between two times; a browser loads it again as often.
    pub seconds: u64,
    /// The page above it, as a relative address.
    pub up: Option<&'a str>,
}

pub fn living(report: &Report, living: Living) -> String {
    page(report, Some(living))
}

fn page(report: &Report, living: Option<Living>) -> String {
    let refresh = living
        .map_or_else(String::new, |living| format!("<meta http-equiv=\"refresh\" content=\"{}\">\n", living.seconds));
    let up = living
        .and_then(|living| living.up)
        .map_or_else(String::new, |up| format!("<p><a href=\"{}\">All runs</a></p>\n", escape(up)));
    let title = escape(&report.title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n{refresh}<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}: gpuplan report</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the report</a>\n"
    );
    out.push_str(&format!(
        "<header>\n{up}<h1>{title}</h1>\n<p>{}</p>\n{}</header>\n",
        escape(&report.lead),
        key(&report.key)
    ));
    out.push_str(&contents(&report.sections));
    out.push_str("<main id=\"main\">\n");
    for part in &report.sections {
        section(&mut out, part);
    }
    out.push_str("</main>\n");
    let made = day_and_time(report.made_at);
    let more = match living {
        Some(Living { seconds, .. }) => {
            format!("It is written again every {seconds} s; a page that is older is no longer watched.")
        }
        None => {
            "The same facts: <code>gpuplan report FILE --format md</code> and <code>--format csv</code>.".to_owned()
        }
    };
    let version = env!("CARGO_PKG_VERSION");
    out.push_str(&format!("<footer><p>Made by gpuplan {version} on {made}. {more}</p></footer>\n"));
    out.push_str("</body>\n</html>\n");
    out
}

fn key(figures: &[KeyFigure]) -> String {
    let each = figures.iter().map(|figure| {
        let (name, value, note) = (escape(figure.name), escape(&figure.value), escape(&figure.note));
        format!("<div><dt>{name}</dt><dd><b>{value}</b> <span>{note}</span></dd></div>\n")
    });
    format!("<dl class=\"key\">\n{}</dl>\n", each.collect::<String>())
}

fn contents(sections: &[Section]) -> String {
    let each = sections
        .iter()
        .map(|section| format!("<li><a href=\"#{}\">{}</a></li>\n", section.id, escape(section.heading)));
    format!("<nav aria-label=\"Sections\">\n<ul>\n{}</ul>\n</nav>\n", each.collect::<String>())
}

fn section(out: &mut String, section: &Section) {
    let id = section.id;
    out.push_str(&format!(
        "<section id=\"{id}\" aria-labelledby=\"{id}-h\">\n<h2 id=\"{id}-h\">{}</h2>\n",
        escape(section.heading)
    ));
    for text in &section.text {
        out.push_str(&format!("<p>{}</p>\n", with_commands(text)));
    }
    if !section.points.is_empty() {
        let points = section.points.iter().map(|point| format!("<li>{}</li>\n", with_commands(point)));
        out.push_str(&format!("<ul>\n{}</ul>\n", points.collect::<String>()));
    }
    for figure in &section.figures {
        self::figure(out, figure);
    }
    out.push_str("</section>\n");
}

fn figure(out: &mut String, figure: &Figure) {
    if let Some(chart) = &figure.chart {
        let caption = escape(&chart.title);
        out.push_str(&format!(
            "<figure>\n{}\n<figcaption>{caption}</figcaption>\n</figure>\n",
            chart.drawn(figure.table.id)
        ));
    }
    table(out, &figure.table);
}

/// In a frame of its own that a keyboard can reach and scroll: a wide table never widens the page.
fn table(out: &mut String, table: &Table) {
    let (id, caption) = (table.id, escape(&table.caption));
    let frame = if table.seen().count() >= MANY { "table many" } else { "table" };
    out.push_str(&format!(
        "<p class=\"caption\" id=\"{id}-c\">{caption}</p>\n\
         <div class=\"{frame}\" role=\"region\" tabindex=\"0\" aria-labelledby=\"{id}-c\">\n<table aria-labelledby=\"{id}-c\">\n<thead><tr>"
    ));
    for column in table.seen() {
        out.push_str(&format!("<th scope=\"col\"{}>{}</th>", class(column), escape(column.name)));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        let cells =
            table.seen_of(row).map(|(column, cell)| format!("<td{}>{}</td>", class_of(column, cell), shown(cell)));
        out.push_str(&format!("<tr>{}</tr>\n", cells.collect::<String>()));
    }
    out.push_str("</tbody>\n</table>\n</div>\n");
}

fn class(column: &Column) -> &'static str {
    if column.is_number { " class=\"n\"" } else { "" }
}

/// Columns from which a table is set closely, and printed across.
const MANY: usize = 8;
/// Letters from which a cell has a width of its own: in a narrow one a sentence would make its row a tower.
const LONG: usize = 48;
/// Letters up to which it is not broken.
const SHORT: usize = 8;

fn class_of(column: &Column, cell: &Cell) -> &'static str {
    match column.is_number {
        false if cell.shown.chars().count() >= LONG => " class=\"long\"",
        // A time is one word, and so is a month.
        false if cell.shown.len() <= SHORT || cell.exact.parse::<Timestamp>().is_ok() => " class=\"flag\"",
        _ => class(column),
    }
}

/// A source may be broken behind its name, before its version.
fn shown(cell: &Cell) -> String {
    let text = with_commands(&cell.shown).replace('@', "@<wbr>");
    match &cell.link {
        Some(page) => format!("<a href=\"{}\">{text}</a>", escape(page)),
        None => text,
    }
}

/// What stands between backquotes is a thing to type, and so is a word that begins like a flag.
fn with_commands(text: &str) -> String {
    let mut pieces = text.split('`');
    let mut out = pieces.next().map(with_flags).unwrap_or_default();
    while let Some(code) = pieces.next() {
        match pieces.next() {
            Some(after) => out.push_str(&format!("<code>{}</code>{}", escape(code), with_flags(after))),
            None => out.push_str(&format!("`{}", with_flags(code))),
        }
    }
    out
}

/// A flag is not broken at its hyphens.
fn with_flags(text: &str) -> String {
    let word = |word: &str| {
        let end = word.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(word.len());
        if word.starts_with("--") && end > 2 {
            format!("<code class=\"flag\">{}</code>{}", &word[..end], escape(&word[end..]))
        } else {
            escape(word)
        }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_a_name_between_backquotes_too() {
        assert_eq!(with_commands("a `b <i>` c"), "a <code>b &lt;i&gt;</code> c");
        assert_eq!(with_commands("one ` alone <b>"), "one ` alone &lt;b&gt;");
        assert_eq!(with_commands("with --gpus, <i>"), "with <code class=\"flag\">--gpus</code>, &lt;i&gt;");
    }
}
