//! `Scan`: walks through JSON of any length, one value at a time, and knows at which byte it stands.

use std::io::{BufRead, ErrorKind};

/// Why a trace cannot be read, and where.
#[derive(Debug, thiserror::Error)]
#[error("at byte {at}: {detail}")]
pub struct TraceError {
    /// Bytes before the fault; of a compressed file, of what it unpacks to.
    pub at: u64,
    pub detail: String,
}

/// No event of a profiler is longer; a longer one is no event, and holding it would need the memory of the whole file.
const LARGEST_VALUE: usize = 16 << 20;
/// Deeper nesting is an attack or damage.
const DEEPEST: u32 = 256;

/// A cursor over JSON text.
pub struct Scan<R> {
    reader: R,
    at: u64,
}

impl<R: BufRead> Scan<R> {
    pub fn new(reader: R) -> Self {
        Self { reader, at: 0 }
    }

    pub fn error(&self, detail: impl Into<String>) -> TraceError {
        TraceError { at: self.at, detail: detail.into() }
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The next byte that is no white space, left in place; `None` at the end.
    pub fn peek(&mut self) -> Result<Option<u8>, TraceError> {
        loop {
            let at = self.at;
            let buffer = match self.reader.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(TraceError { at, detail: unreadable(&error) }),
            };
            if buffer.is_empty() {
                return Ok(None);
            }
            let blanks = buffer.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let found = buffer.get(blanks).copied();
            self.reader.consume(blanks);
            self.at += blanks as u64;
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    /// Passes `wanted`, or says what stands in its place.
    pub fn require(&mut self, wanted: u8) -> Result<(), TraceError> {
        match self.peek()? {
            Some(found) if found == wanted => {
                self.reader.consume(1);
                self.at += 1;
                Ok(())
            }
            Some(found) => Err(self.error(format!("`{}` where `{}` belongs", found as char, wanted as char))),
            None => Err(self.error(format!("the file ends where `{}` belongs: it was cut off", wanted as char))),
        }
    }

    /// Passes `wanted` if it is next.
    pub fn pass(&mut self, wanted: u8) -> Result<bool, TraceError> {
        let is_next = self.peek()? == Some(wanted);
        if is_next {
            self.require(wanted)?;
        }
        Ok(is_next)
    }

    /// Takes the next value as it stands into `into`, or passes it by where that is `None`.
    pub fn value(&mut self, mut into: Option<&mut Vec<u8>>) -> Result<(), TraceError> {
        if let Some(into) = into.as_deref_mut() {
            into.clear();
        }
        let Some(first) = self.peek()? else {
            return Err(self.error("the file ends where a value belongs: it was cut off"));
        };
        let mut shape = Shape::new(first);
        loop {
            let at = self.at;
            let buffer = match self.reader.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(TraceError { at, detail: unreadable(&error) }),
            };
            if buffer.is_empty() {
                // A number is the one value that may end with the file.
                return if shape.is_scalar {
                    Ok(())
                } else {
                    Err(self.error("the file ends inside a value: it was cut off"))
                };
            }
            let (taken, done) =
                shape.take(buffer).map_err(|(taken, detail)| TraceError { at: at + taken as u64, detail })?;
            if let Some(into) = into.as_deref_mut() {
                into.extend_from_slice(&buffer[..taken]);
                if into.len() > LARGEST_VALUE {
                    return Err(TraceError {
                        at,
                        detail: format!("a value of more than {LARGEST_VALUE} bytes is not an event of a profiler"),
                    });
                }
            }
            self.reader.consume(taken);
            self.at += taken as u64;
            if done {
                return Ok(());
            }
        }
    }
}

fn unreadable(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "the compressed file ends too early: it was cut off".to_owned(),
        _ => format!("unreadable: {error}"),
    }
}

/// Where in a value the cursor stands.
struct Shape {
    depth: u32,
    in_text: bool,
    escaped: bool,
    is_scalar: bool,
}

impl Shape {
    fn new(first: u8) -> Self {
        Self { depth: 0, in_text: false, escaped: false, is_scalar: !matches!(first, b'{' | b'[' | b'"') }
    }

    /// How many bytes belong to the value, and whether it ends there.
    fn take(&mut self, bytes: &[u8]) -> Result<(usize, bool), (usize, String)> {
        if self.is_scalar {
            let end =
                bytes.iter().position(|byte| matches!(byte, b',' | b'}' | b']' | b':') || byte.is_ascii_whitespace());
            return Ok((end.unwrap_or(bytes.len()), end.is_some()));
        }
        for (index, byte) in bytes.iter().enumerate() {
            if self.in_text {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => {
                        self.in_text = false;
                        if self.depth == 0 {
                            return Ok((index + 1, true));
                        }
                    }
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_text = true,
                b'{' | b'[' => {
                    self.depth += 1;
                    if self.depth > DEEPEST {
                        return Err((index, format!("nested more than {DEEPEST} deep")));
                    }
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Ok((index + 1, true));
                    }
                }
                _ => {}
            }
        }
        Ok((bytes.len(), false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::BufReader;

    fn values(text: &str, buffer: usize) -> Result<Vec<String>, TraceError> {
        let mut scan = Scan::new(BufReader::with_capacity(buffer, text.as_bytes()));
        let mut found = Vec::new();
        let mut value = Vec::new();
        while scan.peek()?.is_some() {
            scan.value(Some(&mut value))?;
            found.push(String::from_utf8(value.clone()).unwrap());
            scan.pass(b',')?;
        }
        Ok(found)
    }

    #[test]
    fn values_are_taken_whole_however_small_the_buffer() {
        let text = r#" {"a": "}\"", "b": [1, {"c": 2}]} , "x\\" , 12.5, [] "#;
        for buffer in [1, 2, 7, 64] {
            assert_eq!(
                values(text, buffer).unwrap(),
                [r#"{"a": "}\"", "b": [1, {"c": 2}]}"#, r#""x\\""#, "12.5", "[]"]
            );
        }
    }

    #[test]
    fn faults_are_told_with_their_byte() {
        assert_eq!(values(r#"{"a": 1"#, 4).unwrap_err().at, 7);
        let mut scan = Scan::new("  [".as_bytes());
        let error = scan.require(b'{').unwrap_err();
        assert_eq!((error.at, error.detail.as_str()), (2, "`[` where `{` belongs"));
        assert!(values(&"[".repeat(1000), 64).unwrap_err().detail.starts_with("nested"));
    }

    proptest! {
        /// Values stand in the text as they are given, a fault is told inside it, and no buffer is too small for that.
        #[test]
        fn any_text_is_taken_value_by_value(text in "([]\\[{}\",: 1\\\\]|\\PC){0,120}") {
            let taken = |buffer: usize| {
                let mut scan = Scan::new(BufReader::with_capacity(buffer, text.as_bytes()));
                let (mut value, mut all) = (Vec::new(), Vec::new());
                for _ in 0..=text.len() {
                    if let Err(error) = scan.value(Some(&mut value)) {
                        return (all, Some((error.at, error.detail)));
                    }
                    all.push((scan.position(), value.clone()));
                    if let Err(error) = scan.pass(b',') {
                        return (all, Some((error.at, error.detail)));
                    }
                }
                (all, None)
            };
            let (values, fault) = taken(4096);
            for (end, value) in &values {
                prop_assert!(text.as_bytes()[..*end as usize].ends_with(value), "{value:?} before {end}");
            }
            prop_assert!(fault.as_ref().is_none_or(|(at, detail)| *at <= text.len() as u64 && !detail.is_empty()), "{fault:?}");
            prop_assert_eq!(taken(1), (values.clone(), fault.clone()));
            prop_assert_eq!(taken(7), (values, fault));
        }
    }
}
