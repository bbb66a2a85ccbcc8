//! Runs beside the training program: restore, supervise, send checkpoints away, answer notices, decide the outcome.
//!
//! fence -> stage -> restore -> run -> drain -> final sync -> record -> exit. What is decided stands in pure files (`checkpoint`,
//! `notice`, `outcome`, `restart`, `caps`); what is done stands in the files that may touch the world.

pub mod caps;
pub mod checkpoint;
pub mod claim;
pub mod control_group;
pub mod event;
pub mod heart;
pub mod hold;
pub mod logs;
pub mod notice;
pub mod notify;
pub mod outcome;
pub mod place;
pub mod program;
pub mod pulse;
pub mod rendezvous;
pub mod restart;
pub mod restore;
pub mod sample;
pub mod scan;
pub mod shares;
pub mod signals;
pub mod slots;
pub mod staging;
pub mod stall;
pub mod supervise;
pub mod sweep;
pub mod talk;
pub mod team;
pub mod tree;
pub mod upload;
pub mod window;
pub mod worth;

pub use caps::Caps;
pub use checkpoint::Framework;
pub use notice::{BoxFuture, Notice, NoticeError, NoticeSource, Urgency};
pub use notify::{Message, Notifier, Occasion};
pub use outcome::Outcome;
pub use place::Place;
pub use program::Signal;
pub use staging::Data;
pub use stall::OnStall;
pub use supervise::{Settings, supervise};
pub use talk::{Stream, Talk};
pub use worth::Question;
