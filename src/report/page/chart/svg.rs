//! `Svg`: a drawing as text. Colours and fonts are those of the page, by class.

use std::fmt::Write as _;

use gpuplan_budget::exchange::Currency;

/// Characters of markup, as text has to have them; what no document may hold is replaced.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(' '),
            control if control.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// Pixels of a character of a label, on the wide side for a sans-serif face of 13 pixels.
pub const CHARACTER: f64 = 7.6;

/// As much of a label as fits, with a mark where something was cut.
pub fn fitted(text: &str, room: f64) -> String {
    let most = (room / CHARACTER).max(4.0) as usize;
    if text.chars().count() <= most { text.to_owned() } else { text.chars().take(most - 1).chain(['…']).collect() }
}

#[derive(Clone, Debug, Default)]
pub struct Svg {
    body: String,
    /// Of its amounts.
    pub currency: Currency,
}

impl Svg {
    pub fn in_currency(currency: Currency) -> Self {
        Self { body: String::new(), currency }
    }

    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ = write!(self.body, r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#);
    }

    pub fn bar(&mut self, class: &str, (x, y): (f64, f64), width: f64, height: f64) {
        let width = width.max(1.0);
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}"/>"#
        );
    }

    pub fn circle(&mut self, class: &str, (x, y): (f64, f64), radius: f64) {
        let _ = write!(self.body, r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{radius:.1}"/>"#);
    }

    /// A square on its corner.
    pub fn diamond(&mut self, class: &str, (x, y): (f64, f64), radius: f64) {
        let _ = write!(
            self.body,
            r#"<path class="{class}" d="M{x:.1} {:.1}L{:.1} {y:.1}L{x:.1} {:.1}L{:.1} {y:.1}Z"/>"#,
            y - radius,
            x + radius,
            y + radius,
            x - radius
        );
    }

    pub fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut course = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let _ = write!(course, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
        }
        let _ = write!(self.body, r#"<path class="{class}" d="{course}"/>"#);
    }

    /// The class may end with ` m` or ` e`: the point is then the middle or the end of the text.
    pub fn text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let _ = write!(self.body, r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{}</text>"#, escape(text));
    }

    /// `id` names the title and the description of this drawing, which a screen reader reads in its place.
    pub fn finish(self, class: &str, id: &str, (width, height): (f64, f64), title: &str, description: &str) -> String {
        format!(
            concat!(
                r#"<svg class="{class}" role="img" aria-labelledby="{id}-t {id}-d" viewBox="0 0 {width:.0} {height:.0}" "#,
                r#"width="{width:.0}" height="{height:.0}" xmlns="http://www.w3.org/2000/svg">"#,
                r#"<title id="{id}-t">{title}</title><desc id="{id}-d">{description}</desc>{body}</svg>"#
            ),
            class = class,
            id = id,
            width = width,
            height = height,
            title = escape(title),
            description = escape(description),
            body = self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escape("<script>\"a\" & 'b'\u{0}\n"), "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;\u{fffd} ");
        let mut svg = Svg::default();
        svg.text("t", (1.0, 2.0), "</text><script>");
        let drawn = svg.finish("wide", "x", (10.0, 20.0), "<b>", "a & b");
        assert!(!drawn.contains("<script>") && !drawn.contains("<b>") && drawn.contains("a &amp; b"), "{drawn}");
    }

    #[test]
    fn a_label_is_cut_where_there_is_no_room() {
        assert_eq!(fitted("short", 100.0), "short");
        assert_eq!(fitted("a much longer label", 76.0), "a much lo…");
    }
}
