//! `Link`: how a machine that has nothing of this program yet fetches one object of the store.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::Error;
use object_store::path::Path as Location;
use object_store::signer::{Method, Signer};

/// Where Google Cloud Storage answers.
const GOOGLE: &str = "https://storage.googleapis.com";

/// Where one object can be fetched from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// A file of this machine, or of a disk that machines share.
    File(PathBuf),
    /// An address that carries its own permission, for a while.
    Signed(String),
    /// An address that wants the identity that machines of Google Cloud have. Who signed in as a person cannot sign there.
    Identified(String),
}

/// What a store makes links with.
#[derive(Clone, Debug)]
pub enum Linker {
    Folder(PathBuf),
    Signer(Arc<dyn Signer>),
    Google {
        base: Option<String>,
        bucket: String,
    },
    /// Objects that no other machine can reach, such as those in memory.
    None,
}

impl Linker {
    pub async fn link(&self, at: &Location, valid: Duration) -> Result<Link, Error> {
        Ok(match self {
            Self::Folder(folder) => Link::File(at.parts().fold(folder.clone(), |path, part| path.join(part.as_ref()))),
            Self::Signer(signer) => Link::Signed(signer.signed_url(Method::GET, at, valid).await?.to_string()),
            Self::Google { base, bucket } => {
                let base = base.as_deref().unwrap_or(GOOGLE).trim_end_matches('/');
                // Google's JSON interface takes the whole name as one part of the path.
                Link::Identified(format!(
                    "{base}/storage/v1/b/{bucket}/o/{}?alt=media",
                    at.as_ref().replace('/', "%2F")
                ))
            }
            Self::None => {
                let (operation, implementer) = ("link".to_owned(), "a store that only this program reaches".to_owned());
                return Err(Error::NotImplemented { operation, implementer });
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_folder_and_a_bucket_of_google_name_the_object_each_in_its_way() {
        let at = Location::from("runs/_bin/ab/gpuplan");
        let link = async |linker: Linker| linker.link(&at, Duration::from_mins(1)).await.unwrap();
        assert_eq!(link(Linker::Folder("/store".into())).await, Link::File("/store/runs/_bin/ab/gpuplan".into()));
        let google = link(Linker::Google { base: None, bucket: "b".to_owned() }).await;
        assert_eq!(
            google,
            Link::Identified(
                "https://storage.googleapis.com/storage/v1/b/b/o/runs%2F_bin%2Fab%2Fgpuplan?alt=media".to_owned()
            )
        );
    }
}
