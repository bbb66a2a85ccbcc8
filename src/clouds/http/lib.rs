//! What every adapter asks the world with: the one HTTP client, the metadata service of a machine, addresses and the words
//! of errors.

mod client;
mod dates;
mod kept;
pub mod metadata;
mod packed;

pub use client::*;
pub use dates::Dates;
pub use gpuplan_runstore::store::install_tls;

use std::error::Error;

/// A variable of the environment; empty is the same as not set.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Address of an interface: what the variable says, else the cloud's own. Without a slash at the end.
pub fn endpoint(name: &str, base: &str) -> String {
    variable(name).as_deref().unwrap_or(base).trim_end_matches('/').to_owned()
}

/// Host of an address is this machine's own.
pub fn is_loopback(endpoint: &str) -> bool {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Longest text of a cloud's own words that goes into an error.
const LONGEST_DETAIL: usize = 240;

/// The innermost cause, which is what a person can act on: the outer ones say only that a request failed.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    one_line(&innermost.to_string())
}

/// A cloud's words on one line and of bounded length.
pub fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST_DETAIL) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_cloud_stay_short_and_on_one_line() {
        assert_eq!(one_line("a\n  b\tc "), "a b c");
        assert_eq!(one_line(&"ä".repeat(1000)).chars().count(), LONGEST_DETAIL + 1);
        let outer = std::io::Error::other(std::io::Error::other("connection\nrefused"));
        assert_eq!(root_cause(&outer), "connection refused");
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for endpoint in ["http://127.0.0.1:5000", "http://localhost/x", "http://[::1]:80/", "127.1.2.3:9"] {
            assert!(is_loopback(endpoint), "{endpoint}");
        }
        for endpoint in ["https://compute.googleapis.com", "http://localhost.example.com", "http://10.0.0.1", ""] {
            assert!(!is_loopback(endpoint), "{endpoint}");
        }
    }
}
