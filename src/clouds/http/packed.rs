//! Answers that come packed although nobody said so.

use std::io::Read;

use flate2::read::GzDecoder;

/// First bytes of a packed file (RFC 1952).
const PACKED: [u8; 2] = [0x1f, 0x8b];

/// Unpacks what a server sends packed without saying so, as AWS's own price documents are by some accounts.
pub fn unpacked(bytes: Vec<u8>, most: usize) -> Result<Vec<u8>, String> {
    if !bytes.starts_with(&PACKED) {
        return Ok(bytes);
    }
    let (mut plain, limit) = (Vec::new(), most as u64 + 1);
    let read = GzDecoder::new(bytes.as_slice()).take(limit).read_to_end(&mut plain);
    match read {
        Err(error) => Err(format!("it is packed and cannot be unpacked: {error}")),
        Ok(_) if plain.len() > most => Err(format!("unpacked it is larger than {most} bytes")),
        Ok(_) => Ok(plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn packed(text: &str) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn what_is_packed_unasked_is_unpacked_within_the_limit() {
        let text = r#"{"a": 1}"#.repeat(1000);
        assert_eq!(unpacked(text.clone().into_bytes(), 10), Ok(text.clone().into_bytes()), "its length was checked");
        assert_eq!(unpacked(packed(&text), text.len()), Ok(text.clone().into_bytes()));
        assert!(unpacked(packed(&text), text.len() - 1).unwrap_err().contains("larger than"));
        let half = &packed(&text)[..30];
        assert!(unpacked(half.to_vec(), 1 << 20).unwrap_err().contains("cannot be unpacked"));
    }
}
