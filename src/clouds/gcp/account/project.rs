//! `Project`: which project is asked, and at which address. Names no SDK.

use crate::account::project_name;
use gpuplan_clouds_http::{is_loopback, variable};
use gpuplan_market::SourceError;

/// A project of Google Cloud as the environment names it.
#[derive(Clone, Debug, Default)]
pub struct Project {
    id: Option<String>,
    /// In the place of every address of Google.
    endpoint: Option<String>,
}

impl Project {
    /// Empty variables are the same as none; without one the project is that of the credentials.
    pub fn from_environment() -> Self {
        Self { id: project_name::find(), endpoint: variable("GPUPLAN_GCP_ENDPOINT") }
    }

    /// A given address; no environment is read where it is of this machine.
    pub fn at(endpoint: &str, id: &str) -> Self {
        Self { id: Some(id.to_owned()).filter(|id| !id.is_empty()), endpoint: Some(endpoint.to_owned()) }
    }

    pub fn id(&self) -> Result<&str, SourceError> {
        self.id.as_deref().ok_or(SourceError::MissingCredentials { variable: "GOOGLE_CLOUD_PROJECT" })
    }

    pub fn endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref()
    }

    /// Address of an interface of Google, or of what stands in for it.
    pub fn address<'a>(&'a self, google: &'a str) -> &'a str {
        self.endpoint().map_or(google, |endpoint| endpoint.trim_end_matches('/'))
    }

    /// A stand-in on this machine: no real key may ever be sent to one.
    pub fn is_stand_in(&self) -> bool {
        self.endpoint().is_some_and(is_loopback)
    }

    /// A key is sent over an encrypted connection or not at all.
    pub fn may_have_keys(&self) -> Result<(), SourceError> {
        match self.endpoint() {
            Some(endpoint) if !endpoint.starts_with("https://") && !is_loopback(endpoint) => {
                Err(SourceError::Refused {
                    code: "GPUPLAN_GCP_ENDPOINT".to_owned(),
                    detail: "no key is sent to an address without https that is not of this machine".to_owned(),
                })
            }
            _ => Ok(()),
        }
    }
}

/// Variables by which the program finds the project, and a setup of another name, on another machine.
pub fn settings() -> Vec<(String, String)> {
    let project = project_name::find().map(|id| ("GOOGLE_CLOUD_PROJECT".to_owned(), id));
    let setup = variable("GPUPLAN_GCP_NAME").map(|name| ("GPUPLAN_GCP_NAME".to_owned(), name));
    project.into_iter().chain(setup).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_to_google_and_to_encrypted_addresses_only() {
        assert!(Project::default().may_have_keys().is_ok());
        assert!(Project::at("https://compute.private.example", "p").may_have_keys().is_ok());
        assert!(Project::at("http://compute.private.example", "p").may_have_keys().is_err());
        assert!(Project::at("http://127.0.0.1:1", "p").is_stand_in());
        assert_eq!(Project::at("http://127.0.0.1:1/", "p").address("https://x"), "http://127.0.0.1:1");
        assert_eq!(Project::default().address("https://x"), "https://x");
        assert!(Project::at("http://127.0.0.1:1", "").id().is_err());
    }
}
