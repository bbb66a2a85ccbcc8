//! What EC2 says of machine types and zones, held against the catalog.

pub mod machine_types;
#[cfg(feature = "aws")]
pub mod offerings;
#[cfg(feature = "aws")]
pub mod zones;
