//! One run in a bucket: epochs, manifests, data, status and billed intervals. What was committed is never changed.

pub mod billed;
pub mod epoch;
pub mod history;
pub mod layout;
pub mod manifest;
pub mod run;
pub mod status;
pub mod store;

pub use billed::Billed;
pub use epoch::{Epoch, Owner, Takeover};
pub use layout::ManifestName;
pub use manifest::{Manifest, ManifestError, StoredFile};
pub use run::Run;
pub use status::{Phase, Status};
pub use store::{Store, StoreError};
