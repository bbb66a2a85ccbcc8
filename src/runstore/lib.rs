//! One run in a bucket: epochs, manifests, data, status and billed intervals. What was committed is never changed.

pub mod checkpoint;
pub mod costs;
pub mod dataset;
pub mod hand_off;
pub mod layout;
pub mod parcels;
pub mod run;
pub mod spec;
pub mod status;
pub mod store;
pub mod sweep;
pub mod team;

pub use checkpoint::manifest::{Manifest, ManifestError, StoredFile};
pub use checkpoint::{history, manifest};
pub use costs::billed::{Billed, Billing, Spent};
pub use costs::rented::{AllRented, Expected, ExpectedPrice, ForecastBasis, Rented};
pub use costs::side_costs::{Side, SidePrice, Stored};
pub use costs::{billed, rented};
pub use dataset::Contents;
pub use hand_off::HandOff;
pub use layout::ManifestName;
pub use run::Run;
pub use spec::Spec;
pub use status::{Phase, Status};
pub use store::{Store, StoreError, sha256};
pub use sweep::{RunState, SweepStatus, SweptRun};
pub use team::epoch;
pub use team::epoch::{Epoch, Owner, Takeover};
pub use team::{Leaving, Member, Part, Rendezvous, Start, Wanted};
