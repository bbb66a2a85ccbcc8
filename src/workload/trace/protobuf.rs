//! Fields of a protobuf message, in the order in which they stand (protobuf.dev, "Encoding").

use crate::trace::scan::TraceError;

/// A part of a file, and where in it it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    pub data: &'a [u8],
    pub at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Of variable length, or of eight or four bytes.
    Number(u64),
    /// Text, bytes or another message.
    Bytes(Part<'a>),
}

impl<'a> Value<'a> {
    pub fn number(self) -> u64 {
        if let Self::Number(number) = self { number } else { 0 }
    }

    /// Of `int64`, whose negative numbers stand as large ones.
    pub fn signed(self) -> i64 {
        self.number().cast_signed()
    }

    pub fn text(self) -> &'a str {
        let Self::Bytes(part) = self else { return "" };
        str::from_utf8(part.data).unwrap_or_default()
    }
}

impl<'a> Part<'a> {
    pub fn whole(data: &'a [u8]) -> Self {
        Self { data, at: 0 }
    }

    /// The next field and its number; `None` at the end.
    pub fn next_field(&mut self) -> Result<Option<(u64, Value<'a>)>, TraceError> {
        if self.data.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Number(self.fixed(8)?),
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Number(self.fixed(4)?),
            _ => return Err(self.damaged("a field of no known kind")),
        };
        Ok(Some((key >> 3, value)))
    }

    fn varint(&mut self) -> Result<u64, TraceError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let Some((byte, rest)) = self.data.split_first() else { break };
            (self.data, self.at) = (rest, self.at + 1);
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.damaged("a number without an end"))
    }

    fn fixed(&mut self, length: u64) -> Result<u64, TraceError> {
        let bytes = self.take(length)?.data;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn take(&mut self, length: u64) -> Result<Self, TraceError> {
        let split = usize::try_from(length).ok().and_then(|length| self.data.split_at_checked(length));
        let Some((data, rest)) = split else {
            return Err(self.damaged(&format!("a field of {length} bytes, of which {} are there", self.data.len())));
        };
        let part = Self { data, at: self.at };
        (self.data, self.at) = (rest, self.at + length);
        Ok(part)
    }

    fn damaged(&self, what: &str) -> TraceError {
        TraceError { at: self.at, detail: format!("the file is cut off or damaged: {what}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_of_every_kind_are_read() {
        // Examples of protobuf.dev: field 1 is 150, field 2 "testing"; then eight and four bytes.
        let data = b"\x08\x96\x01\x12\x07testing\x19\x01\0\0\0\0\0\0\0\x25\x02\x01\0\0";
        let mut message = Part::whole(data);
        let mut next = || message.next_field().unwrap();
        assert_eq!(next(), Some((1, Value::Number(150))));
        let (number, text) = next().unwrap();
        assert_eq!((number, text.text()), (2, "testing"));
        assert_eq!(next(), Some((3, Value::Number(1))));
        assert_eq!(next(), Some((4, Value::Number(258))));
        assert_eq!(next(), None);
        assert_eq!(Value::Number(u64::MAX).signed(), -1);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(data in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut message = Part::whole(&data);
            loop {
                match message.next_field() {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(error) => {
                        prop_assert!(error.at <= data.len() as u64);
                        break;
                    }
                }
            }
        }
    }
}
