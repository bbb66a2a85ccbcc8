//! One run in a bucket: epochs, manifests, data, status and billed intervals. What was committed is never changed.

pub mod beside;
pub mod billed;
pub mod dataset;
pub mod epoch;
pub mod exchange;
pub mod hand_off;
pub mod history;
pub mod layout;
pub mod manifest;
pub mod parcels;
pub mod rented;
pub mod run;
pub mod spec;
pub mod status;
pub mod store;
pub mod sweep;
pub mod team;

pub use beside::{Side, SidePrice, Stored};
pub use billed::{Billed, Billing, Spent};
pub use dataset::Contents;
pub use epoch::{Epoch, Owner, Takeover};
pub use hand_off::HandOff;
pub use layout::ManifestName;
pub use manifest::{Manifest, ManifestError, StoredFile};
pub use rented::{AllRented, Expected, ExpectedPrice, ForecastBasis, Rented};
pub use run::Run;
pub use spec::Spec;
pub use status::{Phase, Status};
pub use store::{Store, StoreError, sha256};
pub use sweep::{RunState, SweepStatus, SweptRun};
pub use team::{Leaving, Member, Part, Rendezvous, Start, Wanted};
