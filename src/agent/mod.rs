//! Runs beside the training program: restore, supervise, send checkpoints away, answer notices, decide the outcome.
//!
//! fence -> restore -> run -> drain -> final sync -> record -> exit. What is decided stands in pure files (`checkpoint`,
//! `notice`, `outcome`, `restart`, `caps`); what is done stands in the files that may touch the world.

pub mod caps;
pub mod checkpoint;
pub mod claim;
pub mod heart;
pub mod notice;
pub mod outcome;
pub mod program;
pub mod restart;
pub mod restore;
pub mod scan;
pub mod signals;
pub mod supervise;
pub mod tree;
pub mod upload;

pub use caps::Caps;
pub use checkpoint::Framework;
pub use notice::{BoxFuture, Notice, NoticeError, NoticeSource, Urgency};
pub use outcome::Outcome;
pub use supervise::{Settings, Talk, supervise};
