//! Requests to services of which no SDK is linked, signed as AWS wants it (Signature Version 4).

use std::fmt::Write as _;
use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings, UriPathNormalizationMode,
    sign,
};
use aws_sigv4::sign::v4;

use crate::account::session::Account;
use gpuplan_clouds_http::{Http, Request};
use gpuplan_market::SourceError;

/// What is asked of a service, harmless to ask twice.
pub enum Asked {
    Get,
    /// A document in JSON.
    Post(String),
    /// A document in JSON that takes the place of what stands there.
    Put(String),
    /// Names and values, as the older services take them.
    Form(String),
    Delete,
}

impl Asked {
    pub fn form(words: &[(&str, &str)]) -> Self {
        let pairs: Vec<String> =
            words.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
        Self::Form(pairs.join("&"))
    }
}

/// Every byte but those that stand for themselves everywhere (RFC 3986, "Unreserved Characters").
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut all, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            all.push(char::from(byte));
        } else {
            // A String takes all that is written to it.
            let _ = write!(all, "%{byte:02X}");
        }
        all
    })
}

impl Account {
    /// The answer of a service in a region to a request for this path, which begins with a slash.
    ///
    /// # Errors
    /// As those of other clients: `Refused` with the status as its code.
    pub async fn signed(&self, service: &str, region: &str, path: &str, asked: &Asked) -> Result<String, SourceError> {
        let address = self.address_of(service, region);
        let url = format!("{}{path}", address.trim_end_matches('/'));
        let request = match asked {
            Asked::Get => Request::get(&url),
            Asked::Post(body) => Request::post(&url, JSON, body.clone()),
            Asked::Put(body) => Request::put(&url, JSON, body.clone()),
            Asked::Form(body) => Request::post(&url, FORM, body.clone()),
            Asked::Delete => Request::delete(&url),
        };
        let request = signature(self.credentials(), service, region, &url, asked)?.into_iter().fold(
            request.hide(self.credentials().secret_access_key()),
            |request, (name, value)| match name {
                "x-amz-security-token" => request.secret(name, &value, ""),
                name => request.header(name, value),
            },
        );
        Ok(Http::new()?.text(&request).await?.value)
    }
}

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

/// The headers that say who asks. Only what every HTTP client sends unchanged is signed.
fn signature(
    credentials: &Credentials,
    service: &str,
    region: &str,
    url: &str,
    asked: &Asked,
) -> Result<Vec<(&'static str, String)>, SourceError> {
    let wrong = |error: &dyn std::error::Error| SourceError::Malformed {
        field: format!("request to {service}"),
        detail: error.to_string(),
    };
    let identity = credentials.clone().into();
    let mut settings = SigningSettings::default();
    if service == "s3" {
        // S3 alone wants the hash of the body as a header, and paths as they are (S3 API reference, "Signature Calculations").
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    }
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(service)
        .time(SystemTime::now())
        .settings(settings)
        .build()
        .map_err(|error| wrong(&error))?
        .into();
    let (method, body) = match asked {
        Asked::Get => ("GET", ""),
        Asked::Post(body) | Asked::Form(body) => ("POST", body.as_str()),
        Asked::Put(body) => ("PUT", body.as_str()),
        Asked::Delete => ("DELETE", ""),
    };
    let signable = SignableRequest::new(method, url, std::iter::empty(), SignableBody::Bytes(body.as_bytes()));
    let signed = sign(signable.map_err(|error| wrong(&error))?, &parameters).map_err(|error| wrong(&error))?;
    let (instructions, _) = signed.into_parts();
    let (headers, _) = instructions.into_parts();
    Ok(headers.iter().map(|header| (header.name(), header.value().to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_says_every_sign() {
        let asked = Asked::form(&[("Action", "CreateRole"), ("Tags.member.1.Value", "a/b c&d=ä")]);
        assert!(
            matches!(asked, Asked::Form(text) if text == "Action=CreateRole&Tags.member.1.Value=a%2Fb%20c%26d%3D%C3%A4")
        );
    }

    #[test]
    fn a_request_names_who_asks_for_what_and_no_secret() {
        let credentials = Credentials::new("AKIAEXAMPLE", "the-secret", Some("the-token".to_owned()), None, "given");
        let url = "https://scheduler.us-east-1.amazonaws.com/schedules/a";
        let asked = Asked::Post("{}".to_owned());
        let headers = signature(&credentials, "scheduler", "us-east-1", url, &asked).unwrap();
        let of =
            |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str()).unwrap();
        let authorization = of("authorization");
        assert!(authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/"), "{authorization}");
        assert!(
            authorization.contains("/us-east-1/scheduler/aws4_request, SignedHeaders=host;x-amz-date;"),
            "{authorization}"
        );
        assert_eq!(of("x-amz-security-token"), "the-token");
        assert!(!headers.iter().any(|(_, value)| value.contains("the-secret")));
    }
}
