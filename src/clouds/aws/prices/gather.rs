//! `gather`: many parts of one question, of which some may have failed.

use crate::errors::{Reach, reach};
use gpuplan_market::{SourceError, SourceNote};

/// The parts that were answered. A failure is a note and costs only its own part, unless it voids the credentials everywhere;
/// where every part failed, the first failure is that of the whole.
pub fn gather<T>(
    parts: Vec<(String, Result<T, SourceError>)>,
    notes: &mut Vec<SourceNote>,
) -> Result<Vec<T>, SourceError> {
    let mut answered = Vec::new();
    let mut first = None;
    for (place, part) in parts {
        match part {
            Ok(part) => answered.push(part),
            Err(SourceError::Refused { code, detail }) if reach(&code) == Reach::Everywhere => {
                return Err(SourceError::Refused { code, detail });
            }
            Err(error) => {
                notes.push(SourceNote { place, detail: error.to_string() });
                first.get_or_insert(error);
            }
        }
    }
    match first {
        Some(error) if answered.is_empty() => Err(error),
        _ => Ok(answered),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: &str) -> Result<u8, SourceError> {
        Err(SourceError::Refused { code: code.to_owned(), detail: String::new() })
    }

    #[test]
    fn one_failed_part_is_a_note_and_all_failed_parts_are_an_error() {
        let mut notes = Vec::new();
        let parts = |second| vec![("a".to_owned(), refused("AuthFailure")), ("b".to_owned(), second)];
        assert_eq!(gather(parts(Ok(1)), &mut notes).unwrap(), [1]);
        assert_eq!((notes.len(), notes[0].place.as_str()), (1, "a"));
        assert_eq!(gather(parts(refused("SomethingNew")), &mut notes).map(|_| 0), refused("AuthFailure"));
        assert_eq!(gather(parts(refused("ExpiredToken")), &mut notes).map(|_| 0), refused("ExpiredToken"));
        assert!(gather::<u8>(Vec::new(), &mut notes).unwrap().is_empty());
    }
}
