//! Why a plan lost against the recommended one, and what would make it win.

use gpuplan_plan::explanation::comparison::{WhyNot, WouldChange};

/// Why it is not the recommended plan.
pub fn why_not(reason: &WhyNot) -> String {
    match reason {
        WhyNot::Ratios { cost_ratio, hours_ratio, recommended } => format!(
            "{} and {} than {recommended}",
            compared(*cost_ratio, "dearer", "cheaper"),
            compared(*hours_ratio, "slower", "faster")
        ),
        WhyNot::Dominated => "the recommended plan is no worse in both cost and time".to_owned(),
        WhyNot::GpuHours { gpu_hours, usd_per_gpu_hour, recommended_gpu_hours, recommended_usd_per_gpu_hour } => {
            format!(
                "{gpu_hours:.0} GPU-hours at ${usd_per_gpu_hour:.2} against {recommended_gpu_hours:.0} at ${recommended_usd_per_gpu_hour:.2}"
            )
        }
    }
}

fn compared(ratio: f64, more: &str, less: &str) -> String {
    if ratio >= 1.0 {
        format!("{:.0} % {more}", (ratio - 1.0) * 100.0)
    } else {
        format!("{:.0} % {less}", (1.0 - ratio) * 100.0)
    }
}

/// What would make it win.
pub fn would_change(change: &WouldChange) -> String {
    match change {
        WouldChange::Cheaper { share } => {
            format!("its price, or its step time, would have to be {:.0} % lower", share * 100.0)
        }
        WouldChange::RecommendedDearer { share } => format!("or the recommended one's {:.0} % higher", share * 100.0),
        WouldChange::BandsOverlap => "the bands overlap: a measured step of either could turn the answer".to_owned(),
        WouldChange::Deadline { deadline_hours } => {
            format!("--deadline {:.0}h asks for the faster one", deadline_hours.0)
        }
        WouldChange::HourWorth { usd_per_hour } => {
            format!("it costs less where an hour is worth under ${usd_per_hour:.2} (--value-of-time)")
        }
    }
}
