//! Holds a row of the catalog against what EC2 says of the same machine type. Names no SDK.

use gpuplan_hardware::InstanceType;
use gpuplan_units::Bytes;

/// EC2 may say so much less than the catalog before somebody must look: what is planned has to fit.
const TOLERANCE: f64 = 0.01;
/// And so much more: it says the label where the catalog has what the driver shows. Beyond this it is another GPU.
const LABEL_TOLERANCE: f64 = 0.12;

/// The cards of a machine type, one entry for each kind of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cards {
    /// Zero where the machine has a share of a card.
    pub count: i32,
    /// Share of a card, where it is one.
    pub partition: Option<f64>,
    /// Of each card or share.
    pub memory_mib: Option<i32>,
}

/// What EC2 says otherwise than the catalog, in words; `None` where both agree or EC2 does not say.
pub fn difference(known: &InstanceType, cards: &[Cards]) -> Option<String> {
    let [first, ..] = cards else { return None };
    let count: f64 = cards.iter().map(Cards::gpus).sum();
    let catalog = known.node.gpus;
    if (count - catalog.as_f64()).abs() > 1e-9 {
        return Some(format!("AWS says {count} GPUs, the catalog of this program {catalog}"));
    }
    let memory = Bytes::from_mib(f64::from(first.memory_mib?)).0;
    let known = known.node.gpu_memory.0;
    let mib = |bytes: f64| (bytes / f64::from(1 << 20)).round();
    let differs = memory < known * (1.0 - TOLERANCE) || memory > known * (1.0 + LABEL_TOLERANCE);
    differs.then(|| {
        format!("AWS says {} MiB of memory for each GPU, the catalog of this program {}", mib(memory), mib(known))
    })
}

impl Cards {
    /// A fraction where the machine has a share of a card.
    pub fn gpus(&self) -> f64 {
        match self.partition {
            Some(share) if self.count == 0 => share,
            _ => f64::from(self.count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::{CloudId, Hardware};
    use proptest::prelude::*;

    fn check(name: &str, count: i32, partition: Option<f64>, memory_mib: Option<i32>) -> Option<String> {
        let hardware = Hardware::embedded().unwrap();
        let id = hardware.find_instance(&CloudId::new("aws"), name).unwrap();
        difference(hardware.instance(id), &[Cards { count, partition, memory_mib }])
    }

    #[test]
    fn shares_of_a_card_count_zero_cards_and_agree() {
        assert_eq!(check("g6f.large", 0, Some(0.125), Some(2861)), None);
        assert_eq!(check("p5.48xlarge", 8, None, Some(81_920)), None);
        assert_eq!(check("p5.48xlarge", 8, None, None), None, "what is not said is no difference");
        assert_eq!(check("g4dn.xlarge", 1, None, Some(16_384)), None, "the driver shows 15,360 of them");
        assert_eq!(
            check("g6f.large", 0, Some(0.5), None).unwrap(),
            "AWS says 0.5 GPUs, the catalog of this program 1/8"
        );
        assert_eq!(check("g6f.large", 0, None, None).unwrap(), "AWS says 0 GPUs, the catalog of this program 1/8");
        assert!(check("p5.48xlarge", 8, None, Some(40_960)).unwrap().contains("40960 MiB"));
    }

    proptest! {
        #[test]
        fn figures_agree_where_count_and_memory_do(count in 0..16, partition in any::<Option<f64>>(), memory in any::<Option<i32>>()) {
            let said = check("p5.48xlarge", count, partition, memory);
            let catalog = 81_559.0;
            let is_close = memory.is_none_or(|mib| (catalog * (1.0 - TOLERANCE)..=catalog * (1.0 + LABEL_TOLERANCE)).contains(&f64::from(mib)));
            prop_assert_eq!(said.is_none(), (count == 8 || count == 0 && partition == Some(8.0)) && is_close, "{:?}", said);
            prop_assert!(said.is_none_or(|said| said.contains("the catalog of this program")));
        }
    }
}
