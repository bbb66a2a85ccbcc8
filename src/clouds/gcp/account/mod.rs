//! The project that Google is asked for: whose keys, what they may do, how many GPUs it may start.

#[cfg(feature = "gcp")]
mod bucket;
#[cfg(feature = "gcp")]
mod gcp_account;
pub mod identity;
pub mod permissions;
pub mod project;
mod project_name;
pub mod quotas;
#[cfg(feature = "gcp")]
pub mod service_accounts;

#[cfg(feature = "gcp")]
pub use gcp_account::Account;
