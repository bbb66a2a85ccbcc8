//! `MeasuredHost`: what the host beside a measured GPU does with samples.

use gpuplan_units::Bytes;
use gpuplan_workload::DataSet;

/// The host of the machine that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredHost {
    pub processor: Option<String>,
    pub cores: u32,
    /// Work that all cores do together over as many times that of one alone: a core is often half of a physical one.
    pub scaling: Option<f64>,
    /// Reading the folder of the data.
    pub read_bytes_per_second: Option<f64>,
}

/// Loaders cannot do better than all cores, and a host that does so much worse was busy with something else.
const SCALING: std::ops::RangeInclusive<f64> = 0.05..=1.1;

impl MeasuredHost {
    /// `None` where nothing was measured that a plan can use.
    pub fn new(
        processor: Option<String>,
        cores: u32,
        (one, all): (Option<f64>, Option<f64>),
        read: Option<f64>,
    ) -> Option<Self> {
        let scaling =
            one.zip(all).map(|(one, all)| all / one / f64::from(cores)).filter(|scaling| SCALING.contains(scaling));
        let read_bytes_per_second = read.filter(|rate| rate.is_finite() && *rate > 0.0);
        let host = Self { processor, cores, scaling: scaling.map(|scaling| scaling.min(1.0)), read_bytes_per_second };
        (host.scaling.is_some() || host.read_bytes_per_second.is_some()).then_some(host)
    }

    /// What was measured, for people.
    pub fn words(&self) -> String {
        let scaling = self
            .scaling
            .map(|scaling| format!("{} cores load as {:.1} do alone", self.cores, scaling * f64::from(self.cores)));
        let read = self.read_bytes_per_second.map(|rate| format!("its data folder is read at {:.0} MB/s", rate / 1e6));
        [scaling, read].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// What is read for one sample; `None` where the workload does not say.
pub fn bytes_of_a_sample(data: &DataSet) -> Option<Bytes> {
    data.samples.filter(|samples| *samples > 0.0 && data.size.0 > 0.0).map(|samples| Bytes(data.size.0 / samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_said() {
        let host = MeasuredHost::new(None, 8, (Some(100e6), Some(400e6)), Some(1e9)).unwrap();
        assert_eq!(host.scaling, Some(0.5));
        assert_eq!(host.words(), "8 cores load as 4.0 do alone, its data folder is read at 1000 MB/s");
    }

    #[test]
    fn what_no_host_does_is_not_used() {
        assert_eq!(MeasuredHost::new(None, 8, (Some(100e6), None), None), None);
        assert_eq!(MeasuredHost::new(None, 8, (Some(100e6), Some(9e9)), Some(f64::NAN)), None);
        assert_eq!(MeasuredHost::new(None, 0, (Some(1.0), Some(1.0)), None), None);
        assert_eq!(MeasuredHost::new(None, 8, (Some(100e6), Some(820e6)), None).unwrap().scaling, Some(1.0));
    }
}
