//! What a launch needs of clouds and engines: the traits that they implement, and the words of those traits. Pure.

pub mod block;
pub mod engine;
pub mod keeper;
pub mod launch_error;
pub mod launcher;
pub mod machine;
