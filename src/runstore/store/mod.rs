//! Objects in a bucket or a folder, the only place that knows `object_store`. Bounded memory, hashed while it flows.

mod disk;
mod error;
mod hash;
mod held;
mod keys;
mod link;
mod objects;
mod room;
mod send;
mod tls;

pub use error::StoreError;
pub use hash::{Hash, Sent, hash_file, sha256};
pub use held::StoredObject;
pub use keys::{KeySource, Keys};
pub use link::Link;
pub use objects::{Listed, Store};
pub use room::{PART, PARTS_AT_ONCE};
pub use send::MOST_PARTS;
pub use tls::install_tls;
