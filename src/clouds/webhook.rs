//! `Webhook`: sends messages of a run as JSON to an address of the user, such as a chat's incoming hook.

use gpuplan_agent::ports::notice::BoxFuture;
use gpuplan_agent::ports::notify::{Message, Notifier};
use gpuplan_clouds_http::{Http, Request};
use gpuplan_market::SourceError;

pub struct Webhook {
    http: Http,
    url: String,
}

impl Webhook {
    /// Plain HTTP only to this machine: a message says what is spent.
    pub fn new(url: &str) -> Result<Self, String> {
        let local = ["http://127.0.0.1:", "http://localhost:", "http://[::1]:"];
        if !url.starts_with("https://") && !local.iter().any(|start| url.starts_with(start)) {
            return Err("an address to notify begins with https:// or smtps://".to_owned());
        }
        let http = Http::new().map_err(|error| error.to_string())?;
        Ok(Self { http, url: url.to_owned() })
    }
}

impl Notifier for Webhook {
    fn notify<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let body = serde_json::to_string(message).map_err(|error| error.to_string())?;
            let request = Request::post(&self.url, "application/json", body).hide(&self.url);
            match self.http.text(&request).await {
                Ok(_) => Ok(()),
                // The path of such an address is its key, and an error would show it.
                Err(SourceError::Refused { code, .. }) => Err(format!("refused with {code}")),
                Err(_) => Err("no answer".to_owned()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_do_not_travel_in_the_clear() {
        for (url, is_fine) in [
            ("https://hooks.example.com/x", true),
            ("http://127.0.0.1:8/x", true),
            ("http://example.com", false),
            ("x", false),
        ] {
            assert_eq!(Webhook::new(url).is_ok(), is_fine, "{url}");
        }
    }
}
