//! Several machines on one run: who owns it, who takes part, and what they tell each other through the store.

pub mod claim;
pub mod mandate;
pub mod members;
pub mod rank;
pub mod rendezvous;
pub mod sharing;
