//! The program as processes of this machine: started, signalled, read and ended with all that descends from it.

pub mod control_group;
pub mod group;
pub mod output;
pub mod program;
pub mod shell;
pub mod signals;
pub mod tree;
