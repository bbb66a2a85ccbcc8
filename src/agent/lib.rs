//! Runs beside the training program: restore, supervise, send checkpoints away, answer notices, decide the outcome.
//!
//! fence -> stage -> restore -> run -> drain -> final sync -> record -> exit. What is decided stands in the pure files of `rules`, what
//! is asked of others in `ports`; everything else may touch the world.

pub mod checkpoint;
pub mod event;
pub mod life;
pub mod ports;
pub mod process;
mod retry;
pub mod rules;
pub mod staging;
pub mod state;
pub mod supervise;
pub mod sweep;
pub mod team;
pub mod watch;

pub use ports::logger::{Logger, Stream};
pub use ports::notice::{BoxFuture, Notice, NoticeError, NoticeSource, Urgency};
pub use ports::notify::{Message, Notifier, Occasion};
pub use process::program::Signal;
pub use rules::caps::Caps;
pub use rules::framework::Framework;
pub use rules::improvement::MetricQuestion;
pub use rules::outcome::Outcome;
pub use rules::stall::OnStall;
pub use staging::Data;
pub use supervise::{Settings, supervise};
pub use team::claim::ClaimError;
pub use team::rank::Rank;
