//! Models that answer: replicas for a load, the price of a service, spare machines on spot, and what to say of it.

pub mod explanation;
pub mod replicas;
pub mod service;
pub mod standby;
