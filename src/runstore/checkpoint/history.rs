//! Which committed checkpoint comes first when a run is restored, and which may be deleted.

use std::collections::{BTreeMap, BTreeSet};

use crate::layout::ManifestName;

/// What an epoch that committed anything had started from.
pub type Origins = BTreeMap<u64, Option<ManifestName>>;

/// Every manifest in the order in which a restore tries them.
///
/// First the history: of the highest epoch that committed anything, newest step first, then what that epoch had started from
/// and what is older in its epoch, and so on. An owner that was fenced may still have committed afterwards, which would
/// branch the history; such siblings come last, because any complete state is better than to start from nothing.
pub fn restore_order(manifests: &[ManifestName], origins: &Origins) -> Vec<ManifestName> {
    let mut order: Vec<ManifestName> = Vec::new();
    let mut epoch = manifests.iter().map(|name| name.epoch).max();
    let mut newest = u64::MAX;
    while let Some(current) = epoch {
        let mut own: Vec<_> =
            manifests.iter().copied().filter(|name| name.epoch == current && name.step <= newest).collect();
        own.sort_unstable_by(|a, b| b.cmp(a));
        order.extend(own);
        let origin = origins.get(&current).copied().flatten();
        // An origin of a later epoch would be a circle; no agent writes one.
        let earlier = origin.filter(|origin| origin.epoch < current);
        newest = earlier.map_or(0, |origin| origin.step);
        epoch = earlier.map(|origin| origin.epoch);
    }
    let known: BTreeSet<_> = order.iter().copied().collect();
    let mut siblings: Vec<_> = manifests.iter().copied().filter(|name| !known.contains(name)).collect();
    siblings.sort_unstable_by(|a, b| b.cmp(a));
    order.extend(siblings);
    order
}

/// What a user wants kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// So many of the newest.
    pub last: usize,
    /// And every one whose step is a multiple of this; 0: none.
    pub every: u64,
}

/// Manifests that may go, oldest first. Never the newest `last` of the order, never a step that somebody `named`, never `in_use`,
/// which is what this epoch was restored from until it has committed something itself.
pub fn to_prune(
    order: &[ManifestName],
    keep: Keep,
    named: &BTreeSet<u64>,
    in_use: Option<ManifestName>,
) -> Vec<ManifestName> {
    let is_kept =
        |name: &ManifestName| keep.every > 0 && name.step.is_multiple_of(keep.every) || named.contains(&name.step);
    let beyond = order.iter().skip(keep.last.max(1));
    let mut old: Vec<_> = beyond.copied().filter(|name| Some(*name) != in_use && !is_kept(name)).collect();
    old.reverse();
    old
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(step: u64, epoch: u64) -> ManifestName {
        ManifestName { step, epoch }
    }

    #[test]
    fn a_late_commit_of_a_fenced_owner_does_not_branch_the_history() {
        // Epoch 2 restored step 200 of epoch 1 and went on; epoch 1 woke up and committed step 300.
        let manifests = [name(100, 1), name(200, 1), name(300, 1), name(210, 2)];
        let origins = Origins::from([(1, None), (2, Some(name(200, 1)))]);
        assert_eq!(restore_order(&manifests, &origins), [name(210, 2), name(200, 1), name(100, 1), name(300, 1)]);
    }

    #[test]
    fn an_epoch_that_committed_nothing_loses_nothing() {
        let manifests = [name(100, 1), name(300, 1)];
        assert_eq!(restore_order(&manifests, &Origins::from([(1, None)])), [name(300, 1), name(100, 1)]);
        assert!(restore_order(&[], &Origins::new()).is_empty());
    }

    #[test]
    fn pruning_keeps_the_newest_the_multiples_the_named_and_what_is_in_use() {
        let order: Vec<_> = (1..=10).rev().map(|step| name(step * 10, 1)).collect();
        let kept = |keep: Keep, in_use| -> Vec<u64> {
            let gone = to_prune(&order, keep, &BTreeSet::from([20, 15]), in_use);
            order.iter().filter(|name| !gone.contains(name)).map(|name| name.step).collect()
        };
        assert_eq!(kept(Keep { last: 2, every: 0 }, None), [100, 90, 20]);
        assert_eq!(kept(Keep { last: 2, every: 50 }, Some(name(30, 1))), [100, 90, 50, 30, 20]);
        assert_eq!(kept(Keep { last: 0, every: 0 }, None), [100, 20], "the newest always stays");
    }

    proptest! {
        #[test]
        fn the_order_has_every_manifest_once(
            steps in proptest::collection::btree_set((0_u64..20, 1_u64..5), 0..20),
            from in proptest::collection::btree_map(1_u64..5, proptest::option::of((0_u64..20, 1_u64..5)), 0..5),
        ) {
            let manifests: Vec<_> = steps.into_iter().map(|(step, epoch)| name(step, epoch)).collect();
            let origins: Origins = from.into_iter().map(|(epoch, at)| (epoch, at.map(|(step, epoch)| name(step, epoch)))).collect();
            let mut order = restore_order(&manifests, &origins);
            if let Some(first) = order.first() {
                prop_assert_eq!(Some(first.epoch), manifests.iter().map(|name| name.epoch).max());
                let gone = to_prune(&order, Keep { last: 1, every: 0 }, &BTreeSet::new(), None);
                prop_assert!(!gone.contains(first));
            }
            order.sort_unstable();
            let mut all = manifests;
            all.sort_unstable();
            prop_assert_eq!(order, all);
        }
    }
}
