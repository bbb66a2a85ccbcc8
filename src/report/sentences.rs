//! What other stages say in figures, in words for people: one function each.

pub mod advice;
pub mod assumption;
pub mod bill;
pub mod comparison;
pub mod energy;
pub mod evidence;
pub mod finding;
pub mod input;
pub mod pick;
pub mod profile;
pub mod reason;
pub mod rejection;
mod sample_work;
pub mod spot;
pub mod warning;
pub mod words;

use gpuplan_market::Booking;
use gpuplan_units::Seconds;

/// How many machines are sold ahead, and from when to when.
fn span(booking: &Booking) -> String {
    let (machines, plural) = (booking.machines, if booking.machines == 1 { "" } else { "s" });
    let [from, to] = [booking.starts_at, booking.ends_at].map(|at| at.strftime("%Y-%m-%d %H:%M"));
    format!("{machines} machine{plural} from {from} to {to} UTC")
}

/// Milliseconds with one digit after the point below ten, and two below one.
fn milliseconds(time: Seconds) -> String {
    let figure = time.0 * 1e3;
    let digits = if figure >= 10.0 {
        0
    } else if figure >= 1.0 {
        1
    } else {
        2
    };
    format!("{figure:.digits$} ms")
}
