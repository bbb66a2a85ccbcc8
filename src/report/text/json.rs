//! A JSON document as the program prints it.

use std::io;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{Formatter, PrettyFormatter};

/// Version of the JSON outputs. Fields may be added; a name, a unit or a meaning changes only together with it.
pub const VERSION: u32 = 1;

/// Indented, with a line break at its end.
pub fn pretty(document: &impl Serialize) -> String {
    let mut out = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut out, Indented(PrettyFormatter::new()));
    document.serialize(&mut serializer).expect("a document has text keys, and numbers that JSON can say");
    out.push(b'\n');
    String::from_utf8(out).expect("JSON is written as UTF-8")
}

/// Indented as `serde_json` does it, and a zero has no sign: Rust's sum of nothing is -0.0.
struct Indented(PrettyFormatter<'static>);

impl Formatter for Indented {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        self.0.write_f64(writer, value + 0.0)
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_indented_and_nothing_is_minus_zero() {
        let nothing: f64 = [0.0; 0].iter().sum();
        assert!(nothing.is_sign_negative(), "then this formatter can go");
        let document = serde_json::json!({ "sum": nothing, "list": [1.5, -2.0, {}], "none": [] });
        let text = pretty(&document);
        assert_eq!(text, serde_json::to_string_pretty(&document).unwrap().replace("-0.0", "0.0") + "\n");
        assert!(text.contains("\"sum\": 0.0"), "{text}");
    }
}
