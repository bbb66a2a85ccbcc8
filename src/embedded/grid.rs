//! Tables of measured kernels in three quarters of the bytes, of which a part becomes text when it is asked for.
//!
//! The committed text is what people read and what `estimate` reads; this is how it lies in the program. A table has some two
//! hundred parts of which a plan asks for a few. Times grow along a row and from row to row alike, so `left + above - left above`
//! misses by a unit or two, and zstd gives such a byte four bits, where it gives the digits of a difference six.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize};

/// What stands between two parts.
const BEGINNING: &str = "\ntable,";

/// The text of one GPU's table: a head, and parts that begin with a line `table,NAME` each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelText {
    head: String,
    parts: Vec<Part>,
    /// Of all parts; where they are packed, rows have a count of cells in place of these.
    lines: String,
    /// By what each cell of a packed row misses its foretold value. `None`: the rows stand in `lines` as they are.
    #[serde(deserialize_with = "bytes")]
    misses: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    name: String,
    lines: Range<u32>,
    misses: Range<u32>,
}

/// In one piece: a sequence is read byte by byte.
fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
    Ok(Option::<&[u8]>::deserialize(from)?.map(<[u8]>::to_vec))
}

impl KernelText {
    /// Of a table as it is committed, or as somebody measured it.
    pub fn new(text: &str) -> Self {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let mut pieces = text.split(BEGINNING);
        let head = pieces.next().unwrap_or_default().to_owned();
        let mut table = Self { head, parts: Vec::new(), lines: String::new(), misses: None };
        for piece in pieces {
            let (name, lines) = piece.split_once('\n').unwrap_or((piece, ""));
            table.add(name, |text, _| {
                text.push_str(lines);
                Some(())
            });
        }
        table
    }

    /// The same, smaller. `None` for what does not come back to the byte.
    pub fn packed(&self) -> Option<Self> {
        let mut packed =
            Self { head: self.head.clone(), parts: Vec::new(), lines: String::new(), misses: Some(Vec::new()) };
        for (index, part) in self.parts.iter().enumerate() {
            let lines = self.part(index)?;
            packed.add(&part.name, |text, misses| pack(&lines, text, misses))?;
        }
        (0..self.parts.len()).all(|index| packed.part(index) == self.part(index)).then_some(packed)
    }

    fn add(&mut self, name: &str, write: impl FnOnce(&mut String, &mut Vec<u8>) -> Option<()>) -> Option<()> {
        let ends = |table: &Self| {
            let misses = table.misses.as_ref().map_or(0, Vec::len);
            Some((u32::try_from(table.lines.len()).ok()?, u32::try_from(misses).ok()?))
        };
        let from = ends(self)?;
        write(&mut self.lines, self.misses.as_mut().unwrap_or(&mut Vec::new()))?;
        let to = ends(self)?;
        self.parts.push(Part { name: name.to_owned(), lines: from.0..to.0, misses: from.1..to.1 });
        Some(())
    }

    /// The lines before the first part.
    pub fn head(&self) -> &str {
        &self.head
    }

    /// Names of the parts, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|part| part.name.as_str())
    }

    /// The lines of a part, without the one that names it. `None`: there is none, or it is damaged.
    pub fn part(&self, index: usize) -> Option<Cow<'_, str>> {
        let part = self.parts.get(index)?;
        let lines = self.lines.get(part.lines.start as usize..part.lines.end as usize)?;
        let Some(misses) = &self.misses else { return Some(Cow::Borrowed(lines)) };
        let misses = misses.get(part.misses.start as usize..part.misses.end as usize)?;
        unpack(lines, misses).map(Cow::Owned)
    }
}

fn pack(lines: &str, packed: &mut String, misses: &mut Vec<u8>) -> Option<()> {
    let mut above: Vec<i32> = Vec::new();
    for (at, line) in lines.split('\n').enumerate() {
        if at > 0 {
            packed.push('\n');
        }
        if !is_row(line) {
            packed.push_str(line);
            above.clear();
            continue;
        }
        let (places, cells) = line.rsplit_once(',')?;
        let mut row = Vec::new();
        for difference in cells.split(' ') {
            let value = row.last().copied().unwrap_or(0) + difference.parse::<i32>().ok()?;
            put(misses, value - foretold(&row, &above));
            row.push(value);
        }
        packed.push_str(&format!("{places},{}", row.len()));
        above = row;
    }
    Some(())
}

fn unpack(lines: &str, mut misses: &[u8]) -> Option<String> {
    // Three characters a cell, roughly.
    let mut text = Vec::with_capacity(lines.len() + 3 * misses.len());
    let (mut above, mut row): (Vec<i32>, Vec<i32>) = (Vec::new(), Vec::new());
    for (at, line) in lines.split('\n').enumerate() {
        if at > 0 {
            text.push(b'\n');
        }
        if !is_row(line) {
            text.extend_from_slice(line.as_bytes());
            above.clear();
            continue;
        }
        let (places, count) = line.rsplit_once(',')?;
        text.extend_from_slice(places.as_bytes());
        row.clear();
        for column in 0..count.parse::<usize>().ok()? {
            let before = row.last().copied().unwrap_or(0);
            let value = foretold(&row, &above).checked_add(take(&mut misses)?)?;
            text.push(if column == 0 { b',' } else { b' ' });
            write(&mut text, value.checked_sub(before)?);
            row.push(value);
        }
        std::mem::swap(&mut above, &mut row);
    }
    if misses.is_empty() { String::from_utf8(text).ok() } else { None }
}

/// A row begins with its place on the first axis, any other line with a word.
fn is_row(line: &str) -> bool {
    line.starts_with(|first: char| first.is_ascii_digit())
}

/// The next cell, if it grew from the last one as in the row above. Sums that run over are no less good a guess.
fn foretold(row: &[i32], above: &[i32]) -> i32 {
    match (row.last(), above.get(row.len())) {
        (None, above) => above.copied().unwrap_or(0),
        (Some(left), None) => *left,
        (Some(left), Some(up)) => left.wrapping_add(up.wrapping_sub(above[row.len() - 1])),
    }
}

/// Small ones of either sign in a byte, seven bits each (as in Protocol Buffers, `sint32`).
fn put(bytes: &mut Vec<u8>, value: i32) {
    let mut rest = ((value << 1) ^ (value >> 31)) as u32;
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

fn take(bytes: &mut &[u8]) -> Option<i32> {
    // Most are a byte.
    if let [byte @ ..0x80, rest @ ..] = bytes {
        *bytes = rest;
        return Some(i32::from(byte >> 1) ^ -i32::from(byte & 1));
    }
    let mut value = 0_u32;
    for shift in (0..35).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if *byte < 0x80 {
            return Some((value >> 1) as i32 ^ -((value & 1) as i32));
        }
    }
    None
}

/// As `{}` does, in a fraction of the time: a table has four hundred thousand.
fn write(text: &mut Vec<u8>, value: i32) {
    let mut rest = value.unsigned_abs();
    if value < 0 {
        text.push(b'-');
    }
    // Most have one digit or two.
    if rest < 10 {
        text.push(b'0' + rest as u8);
        return;
    }
    if rest < 100 {
        text.extend([b'0' + (rest / 10) as u8, b'0' + (rest % 10) as u8]);
        return;
    }
    let mut digits = [0; 10];
    let mut first = digits.len();
    while rest > 0 {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    text.extend_from_slice(&digits[first..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "gpu,x\nstep,0.02\ntable,a\naxes,n,k,m\nalong,1,2,3\n1,1,-5 50 300\n1,2,-7 51 299\n2,1,100\n2,2,90 1 2\ntable,b\ntable,c\n1,1,7\n";

    #[test]
    fn parts_come_back_to_the_byte() {
        let text = KernelText::new(TEXT);
        assert_eq!(text.head(), "gpu,x\nstep,0.02");
        assert_eq!(text.names().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(text.part(2).as_deref(), Some("1,1,7"));
        let packed = text.packed().unwrap();
        assert!(packed.lines.len() < text.lines.len());
        assert_eq!(packed.head(), text.head());
        assert_eq!(packed.names().collect::<Vec<_>>(), ["a", "b", "c"]);
        for index in 0..4 {
            assert_eq!(packed.part(index), text.part(index), "{index}");
        }
        assert_eq!(packed.part(3), None);
    }

    #[test]
    fn a_number_is_written_as_it_is_by_the_library() {
        for value in [0, 9, 10, -1, -10, 99, 100, 12_345, i32::MAX, i32::MIN] {
            let mut text = Vec::new();
            write(&mut text, value);
            assert_eq!(text, value.to_string().into_bytes());
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            assert_eq!(take(&mut bytes.as_slice()), Some(value));
        }
    }

    #[test]
    fn what_is_written_otherwise_is_not_packed() {
        for row in ["1,1,05 6", "1,1,5  6", "1,1,", "1,1,+5"] {
            assert_eq!(KernelText::new(&format!("gpu,x\ntable,a\n{row}\n")).packed(), None, "{row}");
        }
    }

    #[test]
    fn damage_is_no_part() {
        let packed = KernelText::new(TEXT).packed().unwrap();
        let misses = packed.misses.clone().unwrap();
        for length in 0..misses.len() {
            let torn = KernelText { misses: Some(misses[..length].to_vec()), ..packed.clone() };
            assert!((0..3).any(|index| torn.part(index).is_none()), "{length}");
        }
        let mut longer = packed.clone();
        longer.parts[0].misses.end += 1;
        assert_eq!(longer.part(0), None);
    }
}
