//! Whether a file of weights is whole by its own format, so that nobody has to wait until it stands still.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// The end of a zip archive without a comment, as `torch.save` and `numpy.savez` write it last (APPNOTE.TXT 4.3.16).
const ZIP_END: &[u8] = b"PK\x05\x06";
const ZIP_START: &[u8] = b"PK\x03\x04";
const ZIP_END_BYTES: u64 = 22;
/// Headers of safetensors are at most so long, by its own reader. Bytes.
const LONGEST_HEADER: u64 = 100_000_000;

/// False where nobody can tell, as of a pickle.
pub fn is_whole(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut start = [0; 8];
    if size < ZIP_END_BYTES {
        return Ok(false);
    }
    file.read_exact(&mut start)?;
    if start.starts_with(ZIP_START) {
        file.seek(SeekFrom::Start(size - ZIP_END_BYTES))?;
        let mut end = [0; 4];
        file.read_exact(&mut end)?;
        return Ok(end == ZIP_END);
    }
    let is_safetensors = path.extension().is_some_and(|end| end == "safetensors");
    if is_safetensors { is_whole_safetensors(file, u64::from_le_bytes(start), size) } else { Ok(false) }
}

/// The header is JSON of that length and says of each tensor where its bytes end.
fn is_whole_safetensors(mut file: File, length: u64, size: u64) -> io::Result<bool> {
    if length > LONGEST_HEADER || length + 8 > size {
        return Ok(false);
    }
    let mut header = Vec::new();
    file.by_ref().take(length).read_to_end(&mut header)?;
    let Ok(serde_json::Value::Object(tensors)) = serde_json::from_slice(&header) else { return Ok(false) };
    let ends = tensors.values().filter_map(|tensor| tensor.get("data_offsets")?.get(1)?.as_u64());
    Ok(ends.max().is_some_and(|end| end.checked_add(8 + length) == Some(size)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_part_of_a_file_is_not_whole_and_what_has_no_end_is_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let header = br#"{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#;
        let tensors = [&(header.len() as u64).to_le_bytes()[..], header, b"data"].concat();
        let zip = [ZIP_START, &[0; 30], ZIP_END, &[0; 18]].concat();
        for (name, bytes) in [("a.safetensors", tensors), ("a.pt", zip)] {
            let path = folder.path().join(name);
            fs::write(&path, &bytes).unwrap();
            assert!(is_whole(&path).unwrap(), "{name}");
            for cut in 0..bytes.len() {
                fs::write(&path, &bytes[..cut]).unwrap();
                assert!(!is_whole(&path).unwrap(), "{name} {cut}");
            }
        }
        fs::write(folder.path().join("old.pt"), vec![0x80; 4000]).unwrap();
        assert!(!is_whole(&folder.path().join("old.pt")).unwrap());
    }
}
