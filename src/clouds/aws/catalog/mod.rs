//! What EC2 says of machine types and zones: where they are, held against the catalog, and what it lacks.

#[cfg(feature = "aws")]
pub mod machine_list;
pub mod machine_types;
#[cfg(feature = "aws")]
pub mod offerings;
pub mod sheets;
#[cfg(feature = "aws")]
pub mod zones;
