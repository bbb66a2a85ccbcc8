//! What goes on beside the program: the heartbeat, notices of the machine's end, samples of GPUs and host.

pub mod heartbeat;
pub mod notices;
pub mod renewals;
pub mod sampler;
pub mod saving;
pub mod stops;
