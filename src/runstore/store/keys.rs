//! `Keys`: how a store of S3 learns the keys of a person who signed in, and learns them again when they end.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use object_store::aws::AwsCredential;
use object_store::{CredentialProvider, Error};

/// What a request to S3 is signed with.
pub struct Keys {
    pub id: String,
    pub secret: String,
    pub token: Option<String>,
}

/// Whoever knows profiles, single sign-on and roles. A store asks before every request, so an answer should be kept until it ends.
pub trait KeySource: Debug + Send + Sync {
    fn keys(&self) -> BoxFuture<'_, Result<Keys, String>>;
}

/// A source in the words of `object_store`.
#[derive(Debug)]
pub struct Signing(pub Arc<dyn KeySource>);

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Arc<AwsCredential>, Error>> + Send + 'a>>;

impl CredentialProvider for Signing {
    type Credential = AwsCredential;

    fn get_credential<'a, 'b>(&'a self) -> Answer<'b>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let refused =
                |detail: String| Error::Unauthenticated { path: "the keys".to_owned(), source: detail.into() };
            let Keys { id, secret, token } = self.0.keys().await.map_err(refused)?;
            Ok(Arc::new(AwsCredential { key_id: id, secret_key: secret, token }))
        })
    }
}
