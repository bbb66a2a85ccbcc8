//! Whose the application default credentials are, read from their file without keeping a secret of it. Pure but for `find`.

use std::path::PathBuf;

use serde::Deserialize;

use gpuplan_clouds_http::variable;
use gpuplan_market::Tried;

/// Who is named by a file of credentials, and where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub principal: String,
    pub found_in: String,
}

/// The fields of a file that are no secret.
#[derive(Deserialize)]
struct Named {
    r#type: String,
    client_email: Option<String>,
    account: Option<String>,
    service_account_impersonation_url: Option<String>,
}

/// As Google's libraries look for them: the variable, the file of gcloud, the metadata service of a machine
/// (cloud.google.com/docs/authentication/application-default-credentials).
pub fn find() -> Found {
    let from_variable =
        variable("GOOGLE_APPLICATION_CREDENTIALS").map(|path| (PathBuf::from(path), "GOOGLE_APPLICATION_CREDENTIALS"));
    let candidates = from_variable.or_else(|| Some((gcloud_file()?, "gcloud")));
    match candidates.filter(|(path, _)| path.exists()) {
        Some((path, found_in)) => {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            Found { principal: principal(&text), found_in: found_in.to_owned() }
        }
        None => {
            Found { principal: "service account of this machine".to_owned(), found_in: "metadata service".to_owned() }
        }
    }
}

/// Whether somebody signed in here.
pub fn is_in_sight() -> bool {
    variable("GOOGLE_APPLICATION_CREDENTIALS").is_some() || gcloud_file().is_some_and(|file| file.exists())
}

fn gcloud_file() -> Option<PathBuf> {
    Some(gcloud_folder()?.join("application_default_credentials.json"))
}

/// Where gcloud keeps its settings.
pub fn gcloud_folder() -> Option<PathBuf> {
    match variable("CLOUDSDK_CONFIG") {
        Some(folder) => Some(PathBuf::from(folder)),
        None => Some(PathBuf::from(variable("HOME")?).join(".config/gcloud")),
    }
}

/// The file of credentials that Google's libraries would read.
pub fn credentials_file() -> Option<PathBuf> {
    variable("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from).or_else(gcloud_file).filter(|file| file.exists())
}

/// Every place in the order of Google's libraries, and what stands there.
pub fn tried() -> Vec<Tried> {
    let kind = |path: PathBuf| {
        let text = std::fs::read_to_string(path).ok()?;
        Some(
            serde_json::from_str::<Named>(&text)
                .map_or_else(|_| "a file that cannot be read".to_owned(), |named| named.r#type),
        )
    };
    let file = |path: Option<PathBuf>| path.and_then(kind);
    let place = |place: &str, found: Option<String>| Tried { place: place.to_owned(), found };
    vec![
        place("GPUPLAN_GCP_API_KEY, for prices", variable("GPUPLAN_GCP_API_KEY").map(|_| "set".to_owned())),
        place(
            "GOOGLE_APPLICATION_CREDENTIALS",
            variable("GOOGLE_APPLICATION_CREDENTIALS")
                .map(|path| file(Some(path.into())).unwrap_or_else(|| "no such file".to_owned())),
        ),
        place("gcloud auth application-default login", file(gcloud_file())),
        place("metadata of this machine", Some("asked last".to_owned())),
    ]
}

/// The service account or user of a file of credentials, as far as the file says it.
fn principal(text: &str) -> String {
    let Ok(named) = serde_json::from_str::<Named>(text) else { return "unknown".to_owned() };
    let impersonated =
        named.service_account_impersonation_url.as_deref().and_then(|url| url.rsplit('/').next()?.split(':').next());
    let known = named
        .client_email
        .or_else(|| impersonated.map(str::to_owned))
        .or(named.account)
        .filter(|name| !name.is_empty());
    known.unwrap_or_else(|| match named.r#type.as_str() {
        "authorized_user" => "a user, not named in the file".to_owned(),
        kind => format!("{kind}, not named in the file"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_file_says_who_and_no_secret() {
        let service =
            r#"{"type":"service_account","client_email":"robot@p.iam.gserviceaccount.com","private_key":"SECRET"}"#;
        assert_eq!(principal(service), "robot@p.iam.gserviceaccount.com");
        let user = r#"{"type":"authorized_user","client_id":"x","client_secret":"SECRET","refresh_token":"SECRET","account":""}"#;
        assert_eq!(principal(user), "a user, not named in the file");
        let other = r#"{"type":"external_account","service_account_impersonation_url":"https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/robot@p.iam.gserviceaccount.com:generateAccessToken"}"#;
        assert_eq!(principal(other), "robot@p.iam.gserviceaccount.com");
        assert_eq!(principal("{}"), "unknown");
    }

    proptest! {
        #[test]
        fn text_that_is_no_file_of_credentials_names_nobody(text in ".{0,100}") {
            prop_assert_eq!(principal(&text), "unknown");
        }

        #[test]
        fn a_file_names_its_account_and_never_its_key(name in ".{0,30}", key in "[A-Z]{8}") {
            let file = serde_json::json!({"type": "service_account", "client_email": name, "private_key": key}).to_string();
            let expected = if name.is_empty() { "service_account, not named in the file".to_owned() } else { name };
            prop_assert_eq!(principal(&file), expected);
        }
    }
}
