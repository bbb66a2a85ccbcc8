//! `StoredObject`: an object that somebody else keeps, as it was when it was listed, and pieces of it that are the same still.

use std::ops::Range;

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::path::Path as Location;
use object_store::{Error, GetOptions, ObjectMeta, ObjectStoreExt};

use crate::store::error::{StoreError, refused};
use crate::store::link::Linker;
use crate::store::objects::Store;

/// An object below an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// Below the address, with `/` between its parts; the name alone where the address is this very object.
    pub path: String,
    pub size: u64,
    /// Changes whenever the object does; `None` where the store does not say.
    pub tag: Option<String>,
    location: Location,
}

impl Store {
    /// Every object below the address, or the one that has this very address, by path. An empty place is an error: whoever
    /// names one means another.
    pub async fn held(&self) -> Result<Vec<StoredObject>, StoreError> {
        let key = self.root.as_ref();
        let above = if key.is_empty() { 0 } else { key.len() + 1 };
        let listed =
            self.objects.list(Some(&self.root)).try_collect::<Vec<_>>().await.map_err(|error| unlisted(key, &error))?;
        let held = |path: String, object: ObjectMeta| StoredObject {
            path,
            size: object.size,
            tag: object.e_tag,
            location: object.location,
        };
        let mut all: Vec<StoredObject> = listed
            .into_iter()
            .map(|object| held(object.location.as_ref().get(above..).unwrap_or_default().to_owned(), object))
            .collect();
        if all.is_empty() && !key.is_empty() {
            match self.objects.head(&self.root).await {
                Ok(object) => all.push(held(self.root.filename().unwrap_or_default().to_owned(), object)),
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(refused(key, &error)),
            }
        }
        all.sort_by(|one, other| one.path.cmp(&other.path));
        // Consoles make an empty object to show a folder; it would stand in the way of the folder.
        let folders: Vec<bool> = all.iter().map(|one| one.size == 0 && is_folder(&all, &one.path)).collect();
        let mut is_folder = folders.into_iter();
        all.retain(|_| !is_folder.next().unwrap_or(false));
        if let (Linker::Folder(_), Some(odd)) = (&self.linker, all.iter().find(|one| one.path.contains('%'))) {
            let detail =
                "a name with other signs than letters, digits and -_.!*'() cannot be kept in every bucket: pack such files".to_owned();
            return Err(StoreError::Address { address: odd.path.clone(), detail });
        }
        if all.is_empty() { Err(StoreError::Missing { key: format!("{key} (nothing lies there)") }) } else { Ok(all) }
    }

    /// A piece of an object that has not changed since it was listed.
    pub async fn piece(&self, of: &StoredObject, range: Range<u64>) -> Result<Bytes, StoreError> {
        let options = GetOptions::new().with_if_match(of.tag.clone()).with_range(Some(range));
        let unavailable = |error: Error| match error {
            Error::Precondition { .. } => StoreError::Changed { key: of.path.clone() },
            error => refused(&of.path, &error),
        };
        let found = self.objects.get_opts(&of.location, options).await.map_err(unavailable)?;
        if found.meta.size != of.size {
            return Err(StoreError::Changed { key: of.path.clone() });
        }
        found.bytes().await.map_err(unavailable)
    }
}

/// Why there is no listing. For that the client keeps the answer of the store in its words alone.
fn unlisted(key: &str, error: &Error) -> StoreError {
    let text = error.to_string();
    let says = |status: &str| text.contains(&format!("status code: {status}"));
    match refused(key, error) {
        StoreError::Unavailable { key, .. } if says("404") => {
            StoreError::Missing { key: format!("{key} (there is no such bucket)") }
        }
        StoreError::Unavailable { key, detail } if says("403") || says("401") => StoreError::Denied { key, detail },
        other => other,
    }
}

/// Of paths in order.
fn is_folder(all: &[StoredObject], path: &str) -> bool {
    let below = format!("{path}/");
    all.get(all.partition_point(|one| one.path < below)).is_some_and(|next| next.path.starts_with(&below))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;

    #[test]
    fn a_listing_that_is_refused_is_told_from_one_that_is_late() {
        let said = |status: &str| {
            let source = format!("Error performing list request: Server returned non-2xx status code: {status}: x");
            unlisted("b", &Error::Generic { store: "S3", source: source.into() })
        };
        assert!(matches!(said("404 Not Found"), StoreError::Missing { .. }));
        assert!(
            matches!(said("403 Forbidden"), StoreError::Denied { .. })
                && matches!(said("401 Unauthorized"), StoreError::Denied { .. })
        );
        assert!(matches!(said("503 Slow Down"), StoreError::Unavailable { .. }));
    }

    #[tokio::test]
    async fn what_lies_below_an_address_is_listed_without_the_folders_of_consoles() {
        let store = Store::new(Arc::new(InMemory::new()));
        for (key, text) in [("d/a", ""), ("d/a/x", "12345"), ("d/a.txt", "1"), ("d/empty", ""), ("other", "1")] {
            store.write(key, text.as_bytes().to_vec()).await.unwrap();
        }
        let data = Store { root: Location::from("d"), ..store.clone() };
        let held = data.held().await.unwrap();
        let shown: Vec<(&str, u64)> = held.iter().map(|one| (one.path.as_str(), one.size)).collect();
        assert_eq!(shown, [("a.txt", 1), ("a/x", 5), ("empty", 0)]);
        assert_eq!(&data.piece(&held[1], 1..3).await.unwrap()[..], b"23");
        store.write("d/a/x", b"54321".to_vec()).await.unwrap();
        assert!(matches!(data.piece(&held[1], 1..3).await, Err(StoreError::Changed { .. })));
        let one = Store { root: Location::from("d/a.txt"), ..store.clone() }.held().await.unwrap();
        assert_eq!((one.len(), one[0].path.as_str()), (1, "a.txt"));
        assert!(matches!(
            Store { root: Location::from("none"), ..store }.held().await,
            Err(StoreError::Missing { .. })
        ));
    }
}
