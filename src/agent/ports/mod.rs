//! What the agent needs of others: who says that the machine goes, who tells people, where output is shown. Pure.

pub mod logger;
pub mod notice;
pub mod notify;
