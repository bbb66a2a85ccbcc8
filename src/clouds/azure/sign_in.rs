//! A token for Azure's management interface, wherever this machine or its user has one: a variable, workload identity, a service
//! principal, a managed identity, Azure's command-line client. Tokens and secrets stand in no error.

use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::process::Command;

use gpuplan_clouds_http::{Http, Request, endpoint, one_line, variable};
use gpuplan_market::{SourceError, Tried};

/// A bearer token, as `az account get-access-token` prints it; it ends within the hour.
const TOKEN: &str = "AZURE_ACCESS_TOKEN";
const AUTHORITY: &str = "https://login.microsoftonline.com";
const RESOURCE: &str = "https://management.azure.com";
/// Address of the metadata service; the Azure libraries take another one from the same variable.
const METADATA: (&str, &str) = ("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://169.254.169.254");
/// Azure's firmware has this asset tag on every machine (learn.microsoft.com, "Azure Instance Metadata Service").
const CHASSIS: (&str, &str) = ("/sys/class/dmi/id/chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77");
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// The client asks the network where its own token has ended.
const CLIENT_TAKES: Duration = Duration::from_secs(15);

/// How to come by a token.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    Given(String),
    /// A file with a token of another issuer: Kubernetes, GitHub.
    Workload {
        authority: String,
        tenant: String,
        client: String,
        file: String,
    },
    Principal {
        authority: String,
        tenant: String,
        client: String,
        secret: String,
    },
    /// App Service, Container Apps: address and key of a service of its own.
    AppService {
        address: String,
        key: String,
    },
    Machine {
        address: String,
    },
    Client,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(alias = "accessToken")]
    access_token: String,
}

/// The first way that is set up, in the order of `DefaultAzureCredential`; the client last, since it may be missing.
fn ways(variable: &dyn Fn(&str) -> Option<String>, is_azure: bool) -> Vec<(&'static str, Option<Way>)> {
    let authority = || {
        let host = variable("AZURE_AUTHORITY_HOST").unwrap_or_else(|| AUTHORITY.to_owned());
        host.trim_end_matches('/').to_owned()
    };
    let client = || Some((variable("AZURE_TENANT_ID")?, variable("AZURE_CLIENT_ID")?));
    let principal = || {
        let ((tenant, client), secret) = (client()?, variable("AZURE_CLIENT_SECRET")?);
        Some(Way::Principal { authority: authority(), tenant, client, secret })
    };
    let workload = || {
        let ((tenant, client), file) = (client()?, variable("AZURE_FEDERATED_TOKEN_FILE")?);
        Some(Way::Workload { authority: authority(), tenant, client, file })
    };
    let app = || Some(Way::AppService { address: variable("IDENTITY_ENDPOINT")?, key: variable("IDENTITY_HEADER")? });
    let named = variable(METADATA.0);
    let machine = (is_azure || named.is_some()).then(|| Way::Machine {
        address: named.unwrap_or_else(|| METADATA.1.to_owned()).trim_end_matches('/').to_owned(),
    });
    vec![
        (TOKEN, variable(TOKEN).map(Way::Given)),
        ("AZURE_CLIENT_SECRET", principal()),
        ("workload identity (AZURE_FEDERATED_TOKEN_FILE)", workload()),
        ("managed identity of a service (IDENTITY_ENDPOINT)", app()),
        ("managed identity of this machine", machine),
        ("az account get-access-token", Some(Way::Client)),
    ]
}

fn is_azure() -> bool {
    std::fs::read_to_string(CHASSIS.0).is_ok_and(|tag| tag.trim() == CHASSIS.1)
}

/// Every place in that order, and what stands there.
pub fn tried() -> Vec<Tried> {
    let words = |way: &Way| match way {
        Way::Client => {
            if has_client() {
                Some("installed".to_owned())
            } else {
                None
            }
        }
        _ => Some("set".to_owned()),
    };
    let found = ways(&variable, is_azure()).into_iter();
    found.map(|(place, way)| Tried { place: place.to_owned(), found: way.as_ref().and_then(words) }).collect()
}

fn has_client() -> bool {
    variable("PATH").is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join("az").is_file()))
}

/// A token by the first way that is set up. Without any it is the variable that is missing.
pub async fn token() -> Result<String, SourceError> {
    let way = ways(&variable, is_azure()).into_iter().find_map(|(_, way)| way);
    by(way.unwrap_or(Way::Client)).await
}

async fn by(way: Way) -> Result<String, SourceError> {
    let request = match way {
        Way::Given(token) => return Ok(token),
        Way::Client => return of_client().await,
        Way::Workload { authority, tenant, client, file } => {
            let assertion = std::fs::read_to_string(&file)
                .map_err(|error| refused("AZURE_FEDERATED_TOKEN_FILE", format!("{file}: {error}")))?;
            let form = [("client_assertion_type", ASSERTION), ("client_assertion", assertion.trim())];
            exchange(&authority, &tenant, &client, &form).hide(assertion.trim())
        }
        Way::Principal { authority, tenant, client, secret } => {
            exchange(&authority, &tenant, &client, &[("client_secret", &secret)]).hide(&secret)
        }
        Way::AppService { address, key } => {
            let url = format!("{address}?api-version=2019-08-01&resource={}", encoded(RESOURCE));
            Request::get(url).secret("x-identity-header", &key, "")
        }
        Way::Machine { address } => {
            let path = "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=";
            Request::get(format!("{address}{path}{}", encoded(RESOURCE))).header("metadata", "true")
        }
    };
    Ok(Http::new()?.json::<Answer>(&request).await?.value.access_token)
}

/// A token of ours for one of theirs (OAuth 2.0, client credentials).
fn exchange(authority: &str, tenant: &str, client: &str, proof: &[(&str, &str)]) -> Request {
    let scope = format!("{RESOURCE}/.default");
    let fields = [("grant_type", "client_credentials"), ("client_id", client), ("scope", &scope)];
    let form: Vec<String> =
        fields.iter().chain(proof).map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    let url = format!("{authority}/{}/oauth2/v2.0/token", encoded(tenant));
    Request::post(url, "application/x-www-form-urlencoded", form.join("&"))
}

/// Of who is signed in with Azure's command-line client.
async fn of_client() -> Result<String, SourceError> {
    let mut command = Command::new("az");
    command.args(["account", "get-access-token", "--resource", RESOURCE, "--output", "json"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = match tokio::time::timeout(CLIENT_TAKES, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(_)) => return Err(SourceError::MissingCredentials { variable: TOKEN }),
        Err(_) => {
            let detail = format!("no answer within {} s", CLIENT_TAKES.as_secs());
            return Err(SourceError::Unreachable { place: "az".to_owned(), detail });
        }
    };
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(refused("az", format!("{} (sign in with `az login`)", one_line(&words))));
    }
    let answer: Result<Answer, _> = serde_json::from_slice(&output.stdout);
    answer.map(|answer| answer.access_token).map_err(|_| SourceError::Malformed {
        field: "accessToken".to_owned(),
        detail: "`az account get-access-token` printed no token".to_owned(),
    })
}

fn refused(code: &str, detail: String) -> SourceError {
    SourceError::Refused { code: code.to_owned(), detail }
}

/// Percent-encodes what may not stand in a field of a form.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(byte).collect()
}

/// Where the management interface answers.
pub fn management() -> String {
    endpoint("GPUPLAN_AZURE_ENDPOINT", RESOURCE)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    fn first(set: &[(&str, &str)], is_azure: bool) -> Way {
        let variable = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        ways(&variable, is_azure).into_iter().find_map(|(_, way)| way).unwrap()
    }

    #[test]
    fn the_first_way_that_is_set_up_is_taken() {
        let ids = [("AZURE_TENANT_ID", "t"), ("AZURE_CLIENT_ID", "c")];
        assert_eq!(first(&[], false), Way::Client);
        assert_eq!(first(&ids, false), Way::Client);
        assert!(matches!(first(&[], true), Way::Machine { address } if address == METADATA.1));
        assert!(
            matches!(first(&[(METADATA.0, "http://127.0.0.1:9/")], false), Way::Machine { address } if address == "http://127.0.0.1:9")
        );
        let with = |more: &[(&'static str, &'static str)]| first(&[&ids, more].concat(), true);
        assert!(matches!(with(&[("AZURE_FEDERATED_TOKEN_FILE", "/f")]), Way::Workload { .. }));
        assert!(matches!(with(&[("AZURE_CLIENT_SECRET", "s")]), Way::Principal { .. }));
        assert!(matches!(with(&[("IDENTITY_ENDPOINT", "e"), ("IDENTITY_HEADER", "h")]), Way::AppService { .. }));
        assert_eq!(with(&[(TOKEN, "k")]), Way::Given("k".to_owned()));
    }

    /// Says this once, and hands back what was asked.
    fn ask(status: &str, body: &str, way: impl FnOnce(String) -> Way) -> (Result<String, SourceError>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut asked, mut piece) = (String::new(), [0; 4096]);
            let is_whole = |asked: &str| {
                let Some((head, body)) = asked.split_once("\r\n\r\n") else { return false };
                let length = head
                    .lines()
                    .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
                body.len() >= length.unwrap_or(0)
            };
            while !is_whole(&asked) {
                let length = stream.read(&mut piece).unwrap();
                asked.push_str(&String::from_utf8_lossy(&piece[..length]));
            }
            stream.write_all(answer.as_bytes()).unwrap();
            asked
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let token = runtime.block_on(by(way(address)));
        (token, server.join().unwrap())
    }

    #[test]
    fn workload_identity_exchanges_the_token_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token").display().to_string();
        std::fs::write(&file, "planted.jwt.token\n").unwrap();
        let way = |authority| Way::Workload { authority, tenant: "t-1".to_owned(), client: "c-1".to_owned(), file };
        let (token, asked) = ask("200 OK", r#"{"access_token":"abc","expires_in":3599}"#, way);
        assert_eq!(token.unwrap(), "abc");
        assert!(
            asked.starts_with("POST /t-1/oauth2/v2.0/token ") && asked.contains("client_assertion=planted.jwt.token"),
            "{asked}"
        );
        assert!(asked.contains("scope=https%3A%2F%2Fmanagement.azure.com%2F.default"), "{asked}");
    }

    #[test]
    fn a_managed_identity_is_asked_as_its_host_wants_it() {
        let (token, asked) = ask("200 OK", r#"{"access_token":"abc"}"#, |address| Way::Machine { address });
        assert_eq!(token.unwrap(), "abc");
        assert!(
            asked.starts_with("GET /metadata/identity/oauth2/token?")
                && asked.to_ascii_lowercase().contains("metadata: true"),
            "{asked}"
        );
        let way = |address: String| Way::AppService {
            address: format!("{address}/msi/token"),
            key: "planted-key".to_owned(),
        };
        let (token, asked) = ask("200 OK", r#"{"access_token":"abc"}"#, way);
        assert_eq!(token.unwrap(), "abc");
        assert!(asked.to_ascii_lowercase().contains("x-identity-header: planted-key"), "{asked}");
    }

    #[test]
    fn a_refusal_repeats_no_secret() {
        let way = |authority| Way::Principal {
            authority,
            tenant: "t".to_owned(),
            client: "c".to_owned(),
            secret: "planted-secret".to_owned(),
        };
        let (token, _) = ask("401 Unauthorized", "planted-secret is not valid", way);
        let said = token.unwrap_err().to_string();
        assert!(said.contains("[redacted]") && !said.contains("planted-secret"), "{said}");
    }
}
