//! The recording on top of the README: its first command in a terminal of 80 columns, as SVG that plays without a script (docs/first-plan.svg).
//!
//! `GPUPLAN_RENEW_BOOK=1 cargo test --test tests reach::recording` draws it again from what the program prints.

use std::fs;

use super::book::{Desk, RENEW};
use super::root;

const FILE: &str = "docs/first-plan.svg";
const COMMAND: &str = "gpuplan plan examples/llama-3.1-8b-finetune.toml";
/// Pixels: a letter of 14 px in common fixed-width fonts, a line, the room around all.
const LETTER: f64 = 8.43;
const LINE: f64 = 19.0;
const SIDE: f64 = 18.0;
const COLUMNS: f64 = 80.0;
/// For the eye to find the prompt before anything is typed, and for a letter. Seconds.
const PAUSE: f64 = 0.8;
const KEYSTROKE: f64 = 0.045;

/// The colours of text and ground keep 4.5:1. Where nothing may move, and where style sheets do not move anything, all of it stands there.
const STYLE: &str = "\
rect.ground { fill: #11161c; }
text { fill: #e7ecf2; font: 14px ui-monospace, SFMono-Regular, \"Cascadia Mono\", \"DejaVu Sans Mono\", Menlo, Consolas, monospace; white-space: pre; }
.strong { font-weight: 700; }
.faint { fill: #a3afbc; }
.label { fill: #6fb3f5; }
.warning { fill: #ffb074; font-weight: 700; }
.key { animation: appear 1ms backwards; }
.answer { animation: appear 1ms backwards; }
@keyframes appear { from { visibility: hidden; } }
@media (prefers-reduced-motion: reduce) { .key, .answer { animation: none; } }
";

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// What the program sets in bold and colour (src/report/text/style.rs).
fn class(code: &str) -> Option<&'static str> {
    match code {
        "0" => None,
        "1" => Some("strong"),
        "2" => Some("faint"),
        "36" => Some("label"),
        "1;33" => Some("warning"),
        other => panic!("the recording knows no sequence {other:?}"),
    }
}

/// A line with its sequences as elements.
fn set(line: &str) -> String {
    let mut pieces = line.split("\u{1b}[");
    let mut out = escape(pieces.next().unwrap_or_default());
    for piece in pieces {
        let (code, text) = piece.split_once('m').unwrap();
        match class(code) {
            Some(class) => out.push_str(&format!("<tspan class=\"{class}\">{}</tspan>", escape(text))),
            None => out.push_str(&escape(text)),
        }
    }
    out
}

fn recording(lines: &[String]) -> String {
    let (width, height) = (COLUMNS * LETTER + 2.0 * SIDE, (lines.len() + 1) as f64 * LINE + 2.0 * SIDE);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" \
         aria-labelledby=\"title desc\">\n<title id=\"title\">{COMMAND}</title>\n<desc id=\"desc\">A terminal with the command and its answer.</desc>\n\
         <style>\n{STYLE}</style>\n<rect class=\"ground\" width=\"{width:.0}\" height=\"{height:.0}\" rx=\"8\"/>\n"
    );
    let baseline = |index: usize| SIDE + (index as f64 + 0.75) * LINE;
    let key = |(index, letter): (usize, char)| {
        let at = PAUSE + index as f64 * KEYSTROKE;
        format!("<tspan class=\"key\" style=\"animation-delay:{at:.2}s\">{}</tspan>", escape(&letter.to_string()))
    };
    let typed: String = COMMAND.chars().enumerate().map(key).collect();
    out.push_str(&format!("<text x=\"{SIDE}\" y=\"{:.1}\">$ {typed}</text>\n", baseline(0)));
    let answered = PAUSE + COMMAND.len() as f64 * KEYSTROKE + PAUSE / 2.0;
    out.push_str(&format!("<g class=\"answer\" style=\"animation-delay:{answered:.2}s\">\n"));
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        out.push_str(&format!("<text x=\"{SIDE}\" y=\"{:.1}\">{}</text>\n", baseline(index + 1), set(line)));
    }
    out.push_str("</g>\n</svg>\n");
    out
}

#[test]
fn the_recording_is_what_the_program_prints() {
    let lines = Desk::new().run(&format!("{COMMAND} --color always"));
    assert!(lines.iter().any(|line| line.contains("Rent ")), "{lines:?}");
    let (drawn, path) = (recording(&lines), root().join(FILE));
    if std::env::var_os(RENEW).is_some() {
        fs::write(&path, &drawn).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == drawn,
        "the answer has moved: {RENEW}=1 cargo test --test tests reach::recording draws {FILE} again"
    );
}

#[test]
fn sequences_become_elements_and_letters_stay_letters() {
    assert_eq!(set("a <b> & c"), "a &lt;b&gt; &amp; c");
    assert_eq!(set("  \u{1b}[36mcost\u{1b}[0m  $3"), "  <tspan class=\"label\">cost</tspan>  $3");
    let drawn = recording(&["one".to_owned(), String::new(), "\u{1b}[1mtwo\u{1b}[0m".to_owned()]);
    assert!(drawn.matches("<text").count() == 3 && drawn.contains("<tspan class=\"strong\">two</tspan>"), "{drawn}");
    assert!(!drawn.contains("<script") && !drawn.contains("href"), "{drawn}");
}

/// Rows of a page of this many columns, as a person sees it: a table and a paragraph are as long as their text, and two screens have this many rows.
const PAGE_COLUMNS: usize = 120;
const TWO_SCREENS: usize = 100;

#[test]
fn the_readme_shows_an_answer_first_and_fits_two_screens() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let top = text.split("\n## ").next().unwrap();
    assert!(top.contains(&format!("]({FILE})")), "the recording stands before the first heading");
    let first = text.lines().find(|line| line.contains("gpuplan plan") || line.contains("-- plan")).unwrap();
    assert!(first.contains("plan examples/llama-3.1-8b-finetune.toml") || first.contains(COMMAND), "{first}");
    let rows: usize = text.lines().map(|line| line.chars().count().div_ceil(PAGE_COLUMNS).max(1)).sum();
    assert!(rows <= TWO_SCREENS, "README.md has {rows} rows of {PAGE_COLUMNS} columns");
}
