//! Where the AWS tools look for credentials, in their order, and what stands there. Never a secret; names no SDK.

use std::path::PathBuf;

use gpuplan_clouds_http::variable;
use gpuplan_market::Tried;

/// Ways to sign in that a profile may name, by the first key that it has.
const WAYS: [(&str, &str); 7] = [
    ("sso_session", "single sign-on"),
    ("sso_start_url", "single sign-on"),
    ("credential_process", "a program that prints credentials"),
    ("web_identity_token_file", "a web identity token"),
    ("role_arn", "a role to assume"),
    (
        "login_session",
        "`aws login`, which is not built in; use `credential_process = aws configure export-credentials --profile NAME --format process`",
    ),
    ("aws_access_key_id", "keys"),
];

/// Every place in the order of the chain of the AWS tools (AWS SDKs reference guide, "Standardized credential providers").
pub fn tried() -> Vec<Tried> {
    let named = |name: &str| variable(name).map(|_| "set".to_owned());
    let profile = variable("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
    let files = [("AWS_CONFIG_FILE", ".aws/config"), ("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials")];
    let texts = files.map(|(name, usual)| {
        let path = variable(name).map(PathBuf::from).or_else(|| Some(PathBuf::from(variable("HOME")?).join(usual)));
        path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
    });
    let container =
        named("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").or_else(|| named("AWS_CONTAINER_CREDENTIALS_FULL_URI"));
    let is_off = variable("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let machine = (!is_off).then(|| "asked last".to_owned());
    let place = |place: &str, found: Option<String>| Tried { place: place.to_owned(), found };
    vec![
        place("AWS_ACCESS_KEY_ID", named("AWS_ACCESS_KEY_ID")),
        place(&format!("profile {profile}"), way_of_profile(&profile, &texts[0], &texts[1])),
        place("AWS_WEB_IDENTITY_TOKEN_FILE", named("AWS_WEB_IDENTITY_TOKEN_FILE")),
        place("container credentials", container),
        place("metadata of this machine", machine),
    ]
}

/// How a profile signs in. `None`: neither file has it.
fn way_of_profile(profile: &str, config: &str, credentials: &str) -> Option<String> {
    let in_config = if profile == "default" { "default".to_owned() } else { format!("profile {profile}") };
    let keys: Vec<String> =
        [section(config, &in_config), section(config, profile), section(credentials, profile)].concat();
    if keys.is_empty() {
        return None;
    }
    let way = WAYS.iter().find(|(key, _)| keys.iter().any(|known| known == key)).map(|(_, way)| *way);
    Some(way.unwrap_or("settings without credentials").to_owned())
}

/// Keys of a section of a file of the AWS tools.
fn section(text: &str, name: &str) -> Vec<String> {
    let head = |line: &str| {
        let inner = line.trim().strip_prefix('[')?.split(']').next()?;
        Some(inner.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let mut lines = text.lines().skip_while(|line| head(line).as_deref() != Some(name));
    lines.next();
    let own = lines.take_while(|line| head(line).is_none());
    own.filter_map(|line| Some(line.split_once('=')?.0.trim().to_ascii_lowercase())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "[default]\nregion = eu-west-1\n\n[profile work]\nsso_session = corp\nsso_account_id = 1\n\
        [ profile   ci ]\ncredential_process = /opt/keys\n[sso-session corp]\nsso_start_url = https://example.awsapps.com/start\n";

    #[test]
    fn a_profile_says_how_it_signs_in() {
        let way = |profile: &str, credentials: &str| way_of_profile(profile, CONFIG, credentials);
        assert_eq!(way("work", "").as_deref(), Some("single sign-on"));
        assert_eq!(way("ci", "").as_deref(), Some("a program that prints credentials"));
        assert_eq!(way("default", "").as_deref(), Some("settings without credentials"));
        let keys = "[default]\naws_access_key_id = AKIA\naws_secret_access_key = secret\n";
        assert_eq!(way("default", keys).as_deref(), Some("keys"));
        assert_eq!(way("nobody", keys), None);
        assert_eq!(way_of_profile("x", "", ""), None);
    }
}
