//! How old each kind of evidence is that a plan rests on: as one line, and in full with who said it.

use crate::text::format;
use gpuplan_plan::explanation::evidence::{Evidence, EvidenceKind};

/// In a word or two, for a line that has to hold all kinds.
fn short(kind: EvidenceKind) -> &'static str {
    match kind {
        EvidenceKind::Price => "price",
        EvidenceKind::FallbackPrice => "fallback price",
        EvidenceKind::SideCharges => "disks and storage",
        EvidenceKind::PlaceList => "places",
        EvidenceKind::SpotStatistics => "spot",
        EvidenceKind::PlacementScore => "placement score",
        EvidenceKind::Obtainability => "obtainability",
        EvidenceKind::EstimatedUptime => "uptime",
        EvidenceKind::PreemptionHistory => "preemptions",
        EvidenceKind::EvictionRate => "evictions",
        EvidenceKind::OwnLaunches => "own launches",
        EvidenceKind::Quota => "quota",
    }
}

fn long(kind: EvidenceKind) -> &'static str {
    match kind {
        EvidenceKind::SideCharges => "prices of disks, storage and traffic",
        EvidenceKind::PlaceList => "list of places",
        EvidenceKind::SpotStatistics => "spot statistics",
        EvidenceKind::EstimatedUptime => "estimated uptime",
        EvidenceKind::PreemptionHistory => "preemption history (counts for nothing)",
        EvidenceKind::EvictionRate => "eviction rate",
        other => short(other),
    }
}

/// What to type to hear of today's where nobody has said anything.
fn asking(kind: EvidenceKind) -> &'static str {
    match kind {
        EvidenceKind::Quota => "not asked (`gpuplan doctor`)",
        EvidenceKind::PlaceList => "none says whether the region has the machine",
        _ => "none",
    }
}

/// One line of at most so many columns if that can be: what matters least is left out first. `change`: what a price that is stale counts more than
/// when it was seen; `--live` hears of today's.
pub fn line(evidence: &[Evidence], change: Option<f64>, width: u16) -> String {
    let said = |one: &Evidence| {
        let age = one.age_hours.map(|age| format!("{} {}", short(one.kind), format::duration(age)));
        let counted = change.filter(|_| one.kind == EvidenceKind::Price);
        let counted = counted.map_or_else(String::new, |change| format!(" (counts {:+.0} %)", change * 100.0));
        age.map(|age| age + &counted).or_else(|| {
            let unknown = matches!(one.kind, EvidenceKind::PlaceList | EvidenceKind::SpotStatistics);
            unknown.then(|| format!("{} unknown", short(one.kind)))
        })
    };
    let text = |leaves_out: &[EvidenceKind], hint: &str| {
        let parts: Vec<String> =
            evidence.iter().filter(|one| !leaves_out.contains(&one.kind)).filter_map(said).collect();
        format!("Age:     {}{hint}", parts.join(", "))
    };
    let hint = if change.is_some() { "; --live asks" } else { "" };
    let beside = [EvidenceKind::SideCharges, EvidenceKind::FallbackPrice];
    let texts = [text(&[], hint), text(&beside[..1], hint), text(&beside, hint)];
    let fits = texts.into_iter().find(|text| text.chars().count() <= usize::from(width));
    fits.unwrap_or_else(|| text(&beside, ""))
}

/// Every kind with who said it.
pub fn sentence(evidence: &[Evidence]) -> String {
    let said = |one: &Evidence| {
        let source = one.source.as_ref().map_or_else(String::new, |source| format!(" ({source})"));
        match one.age_hours {
            Some(age) => format!("{} {} old{source}", long(one.kind), format::duration(age)),
            None => format!("{}: {}", long(one.kind), asking(one.kind)),
        }
    };
    evidence.iter().map(said).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_units::Hours;

    fn said(kind: EvidenceKind, hours: Option<f64>) -> Evidence {
        let source = hours.map(|_| "list@1".to_owned());
        Evidence { kind, source, observed_at: None, age_hours: hours.map(Hours) }
    }

    #[test]
    fn a_line_leaves_out_what_matters_least_before_it_is_too_long() {
        use EvidenceKind::{FallbackPrice, PlaceList, PlacementScore, Price, Quota, SideCharges, SpotStatistics};
        let few = [said(Price, Some(2712.0)), said(PlaceList, Some(2856.0)), said(Quota, None)];
        assert_eq!(line(&few, Some(0.004), 80), "Age:     price 113 d (counts +0 %), places 119 d; --live asks");
        let all = [
            said(Price, Some(768.0)),
            said(FallbackPrice, Some(768.0)),
            said(SideCharges, Some(6672.0)),
            said(PlaceList, None),
            said(SpotStatistics, Some(12456.0)),
            said(PlacementScore, Some(2.0)),
            said(Quota, Some(3.0)),
        ];
        let text = "Age:     price 32 d, places unknown, spot 519 d, placement score 2 h, quota 3 h";
        assert_eq!(line(&all, None, 80), text);
        assert!(line(&all, None, 160).contains("fallback price 32 d, disks and storage 278 d"));
        assert_eq!(
            sentence(&all[3..]),
            "list of places: none says whether the region has the machine; spot statistics 519 d old (list@1); \
             placement score 2 h old (list@1); quota 3 h old (list@1)"
        );
        assert_eq!(sentence(&few[2..]), "quota: not asked (`gpuplan doctor`)");
    }
}
