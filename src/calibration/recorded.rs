//! Recorded references: calibrations of known cards in `benchmarks/results`, with machine, driver, clocks and date.
//!
//! `benchmarks/on_gpu.sh` writes one; it counts once it is listed here. A simulated one is none.

use crate::file::Calibration;

/// Texts of `benchmarks/results/<gpu id>.json`. No card has been recorded so far.
const RECORDED: &[&str] = &[];

/// The recorded calibration of a GPU model, if there is one.
pub fn reference(gpu: &str) -> Option<Calibration> {
    let mut all = RECORDED.iter().map(|text| Calibration::read(text).expect("a test reads every recorded card"));
    all.find(|calibration| !calibration.simulated && calibration.gpu.as_deref() == Some(gpu))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn every_recorded_card_is_listed_and_real() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks/results");
        let texts = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let texts = texts
            .filter(|path| path.extension().is_some_and(|end| end == "json"))
            .map(|path| fs::read_to_string(path).unwrap());
        let found: Vec<Calibration> = texts.filter_map(|text| Calibration::read(&text).ok()).collect();
        assert_eq!(found.len(), RECORDED.len(), "list every calibration of benchmarks/results in RECORDED");
        assert!(found.iter().all(|calibration| !calibration.simulated && calibration.gpu.is_some()));
        assert!(RECORDED.iter().all(|text| Calibration::read(text).is_ok()));
        assert_eq!(reference("no-such-gpu"), None);
    }
}
