//! Which project is meant where no variable says it: that of the credentials, of gcloud, of the machine. Reads files, and asks the
//! machine's own metadata service only on a machine of Google.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::account::identity::{credentials_file, gcloud_folder};
use gpuplan_clouds_http::variable;

/// Address of the metadata service where `GCE_METADATA_HOST` names none (cloud.google.com/compute/docs/metadata/overview).
const METADATA_HOST: &str = "metadata.google.internal";
/// What the firmware of Google's machines calls them.
const PRODUCT_FILE: &str = "/sys/class/dmi/id/product_name";
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);
/// An id has at most 30 letters; the rest is headers.
const LONGEST_ANSWER: u64 = 8192;

/// In the order of Google's own libraries.
pub fn find() -> Option<String> {
    let of_variable =
        ["GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT"].into_iter().find_map(variable);
    of_variable
        .or_else(|| of_credentials("project_id"))
        .or_else(of_gcloud)
        .or_else(|| of_credentials("quota_project_id"))
        .or_else(of_machine)
}

fn of_credentials(field: &str) -> Option<String> {
    field_of(&std::fs::read_to_string(credentials_file()?).ok()?, field)
}

fn field_of(credentials: &str, field: &str) -> Option<String> {
    let read: Value = serde_json::from_str(credentials).ok()?;
    read.get(field)?.as_str().filter(|project| !project.is_empty()).map(str::to_owned)
}

/// The project of gcloud's active configuration.
fn of_gcloud() -> Option<String> {
    let folder = gcloud_folder()?;
    let active = variable("CLOUDSDK_ACTIVE_CONFIG_NAME")
        .or_else(|| std::fs::read_to_string(folder.join("active_config")).ok())
        .unwrap_or_else(|| "default".to_owned());
    let file: PathBuf = folder.join("configurations").join(format!("config_{}", active.trim()));
    core_project(&std::fs::read_to_string(file).ok()?)
}

/// `project` in the section `core`.
fn core_project(configuration: &str) -> Option<String> {
    let own = configuration.lines().map(str::trim).skip_while(|line| *line != "[core]").skip(1);
    own.take_while(|line| !line.starts_with('[')).find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "project").then(|| value.trim().to_owned()).filter(|project| !project.is_empty())
    })
}

fn of_machine() -> Option<String> {
    let named = variable("GCE_METADATA_HOST");
    let is_google = || std::fs::read_to_string(PRODUCT_FILE).is_ok_and(|name| name.starts_with("Google"));
    if named.is_none() && !is_google() {
        return None;
    }
    of_metadata(&named.unwrap_or_else(|| METADATA_HOST.to_owned()))
}

/// `host` may have a port.
fn of_metadata(host: &str) -> Option<String> {
    let address = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let mut stream = TcpStream::connect_timeout(&address.to_socket_addrs().ok()?.next()?, ANSWERS_WITHIN).ok()?;
    stream.set_read_timeout(Some(ANSWERS_WITHIN)).ok()?;
    let question = format!(
        "GET /computeMetadata/v1/project/project-id HTTP/1.0\r\nHost: {host}\r\nMetadata-Flavor: Google\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(question.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.take(LONGEST_ANSWER).read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let is_metadata = head.lines().any(|line| line.to_ascii_lowercase().starts_with("metadata-flavor: google"));
    let project = body.trim();
    let is_id =
        !project.is_empty() && project.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.:".contains(&byte));
    (is_metadata && is_id && head.lines().next()?.contains(" 200")).then(|| project.to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn credentials_and_gcloud_name_a_project() {
        assert_eq!(field_of(r#"{"type":"service_account","project_id":"p-1"}"#, "project_id").as_deref(), Some("p-1"));
        assert_eq!(field_of(r#"{"quota_project_id":""}"#, "quota_project_id"), None);
        assert_eq!(field_of("no file", "project_id"), None);
        let configuration =
            "[compute]\nproject = wrong\n[core]\naccount = a@example.com\nproject = p-2\n[other]\nproject=x";
        assert_eq!(core_project(configuration).as_deref(), Some("p-2"));
        assert_eq!(core_project("[core]\n[x]\nproject = y"), None);
    }

    #[test]
    fn a_machine_names_its_project_and_a_stranger_none() {
        for (answer, expected) in [
            ("HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\n\r\nmy-project", Some("my-project")),
            ("HTTP/1.1 200 OK\r\n\r\nmy-project", None),
            ("HTTP/1.1 404 Not Found\r\nMetadata-Flavor: Google\r\n\r\nno", None),
            ("HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\n\r\n<html> sign in", None),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let host = listener.local_addr().unwrap().to_string();
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = [0; 1024];
                let length = stream.read(&mut asked).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
                String::from_utf8_lossy(&asked[..length]).into_owned()
            });
            assert_eq!(of_metadata(&host).as_deref(), expected, "{answer}");
            assert!(server.join().unwrap().contains("Metadata-Flavor: Google"));
        }
    }
}
