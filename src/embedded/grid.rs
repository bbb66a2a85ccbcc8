//! A table of measured kernels in three quarters of the bytes: cells as what neither the one before nor the row above foretells.
//!
//! The committed text is what people read and what `estimate` reads; this is how it lies in the program. Times grow along a row and
//! from row to row alike, so `left + above - left above` misses by a unit or two, and zstd gives such a byte four bits, where it
//! gives the digits of a difference six.

/// First byte of a packed table. A text begins with `gpu,`.
const PACKED: u8 = 1;

/// The text of one table, smaller. `None` for what does not come back to the byte.
#[allow(dead_code, reason = "the build script packs")]
pub fn pack(text: &str) -> Option<Vec<u8>> {
    let mut frame = String::new();
    let mut misses = Vec::new();
    let mut above: Vec<i32> = Vec::new();
    for line in text.strip_suffix('\n')?.split('\n') {
        if is_row(line) {
            let (places, cells) = line.rsplit_once(',')?;
            let mut row = Vec::new();
            for difference in cells.split(' ') {
                let value = row.last().copied().unwrap_or(0) + difference.parse::<i32>().ok()?;
                put(&mut misses, value - foretold(&row, &above));
                row.push(value);
            }
            frame.push_str(&format!("{places},{}", row.len()));
            above = row;
        } else {
            frame.push_str(line);
            above.clear();
        }
        frame.push('\n');
    }
    let packed =
        [&[PACKED], u32::try_from(frame.len()).ok()?.to_le_bytes().as_slice(), frame.as_bytes(), &misses].concat();
    (unpack(&packed).as_deref() == Some(text)).then_some(packed)
}

/// Back to the text, which stays as it is where it was not packed. `None` for what is damaged.
pub fn unpack(bytes: &[u8]) -> Option<String> {
    let Some((&PACKED, rest)) = bytes.split_first() else {
        return String::from_utf8(bytes.to_vec()).ok();
    };
    let (length, rest) = rest.split_first_chunk()?;
    let (frame, mut misses) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    // Three characters a cell, roughly.
    let mut text = Vec::with_capacity(frame.len() + 3 * misses.len());
    let (mut above, mut row): (Vec<i32>, Vec<i32>) = (Vec::new(), Vec::new());
    for line in std::str::from_utf8(frame).ok()?.lines() {
        if is_row(line) {
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
        } else {
            text.extend_from_slice(line.as_bytes());
            above.clear();
        }
        text.push(b'\n');
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
#[allow(dead_code, reason = "the build script packs")]
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

    const TEXT: &str = "gpu,x\nstep,0.02\ntable,a\naxes,n,k,m\nalong,1,2,3\n1,1,-5 50 300\n1,2,-7 51 299\n2,1,100\n2,2,90 1 2\ntable,b\n";

    #[test]
    fn a_table_comes_back_to_the_byte() {
        let packed = pack(TEXT).unwrap();
        assert_eq!(packed[0], PACKED);
        assert_eq!(unpack(&packed).as_deref(), Some(TEXT));
        assert_eq!(unpack(TEXT.as_bytes()).as_deref(), Some(TEXT));
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
        for text in ["gpu,x\n1,1,05 6\n", "gpu,x\n1,1,5  6\n", "gpu,x\n1,1,\n", "gpu,x\n1,1,+5\n", "gpu,x"] {
            assert_eq!(pack(text), None, "{text}");
        }
    }

    #[test]
    fn damage_is_no_table() {
        let packed = pack(TEXT).unwrap();
        for length in 1..packed.len() {
            assert_eq!(unpack(&packed[..length]), None, "{length}");
        }
        assert_eq!(unpack(&[packed.as_slice(), &[0]].concat()), None);
    }
}
