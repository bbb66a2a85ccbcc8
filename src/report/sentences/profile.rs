//! What the comparison of a profile with the estimate found.

use gpuplan_plan::training::profile::ProfileNote;
use gpuplan_units::Seconds;

/// One note as a sentence.
pub fn note(note: &ProfileNote) -> String {
    match note {
        ProfileNote::Step { profile, on, measured, estimated } => format!(
            "profile of `{profile}`: a step took {} on {on}, {} were estimated",
            milliseconds(*measured),
            milliseconds(*estimated)
        ),
        ProfileNote::MachineFault { share } => format!(
            "of that, {:.0} % are the fault of the profiled machine (see the findings) and are not carried over to others",
            share * 100.0
        ),
        ProfileNote::NoTrace { ratio } => {
            format!("no trace tells the classes of work apart: each is taken as x {ratio:.2}")
        }
        ProfileNote::WorkClass { class, measured, estimated } => format!(
            "{}: {} a step measured, {} estimated: x {:.2}",
            class.word(),
            milliseconds(*measured),
            milliseconds(*estimated),
            measured.0 / estimated.0
        ),
        ProfileNote::TooFarOff { class, ratio } => {
            format!("{}: x {ratio:.2} is too far off to be the same work, and is left out", class.word())
        }
    }
}

/// Milliseconds below a second, else seconds.
fn milliseconds(time: Seconds) -> String {
    if time.0 < 1.0 { format!("{:.1} ms", time.0 * 1e3) } else { format!("{:.2} s", time.0) }
}
