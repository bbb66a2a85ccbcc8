//! Signing in to AWS as machines of companies do: a role, a web identity, a container's task, a machine's own role. Each is asked of a
//! stand-in; whatever is not loopback goes to a proxy that is not there.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use gpuplan_testbed::server::{Reply, Request, Server};

const EXPIRES: &str = "2099-01-01T00:00:00Z";

/// Credentials as STS gives them for an action.
fn lent(action: &str, key: &str) -> Reply {
    Reply::Text(
        200,
        "text/xml",
        format!(
            "<{action}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><{action}Result><Credentials><AccessKeyId>{key}</AccessKeyId>\
             <SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>{EXPIRES}</Expiration></Credentials>\
             <AssumedRoleUser><AssumedRoleId>i</AssumedRoleId>\
             <Arn>arn:aws:sts::123456789012:assumed-role/research/s</Arn></AssumedRoleUser></{action}Result></{action}Response>"
        ),
    )
}

/// Credentials as a container's agent and a machine's metadata give them.
fn own(key: &str) -> Reply {
    let text = format!(
        "{{\"Code\":\"Success\",\"LastUpdated\":\"2026-11-01T00:00:00Z\",\"Type\":\"AWS-HMAC\",\"AccessKeyId\":\"{key}\",\"SecretAccessKey\":\"s\",\
         \"Token\":\"t\",\"Expiration\":\"{EXPIRES}\"}}"
    );
    Reply::Text(200, "application/json", text)
}

fn answer(request: &Request) -> Reply {
    let signer = || request.header("authorization").split(['=', '/']).nth(1).unwrap_or_default().to_owned();
    let does = |action: &str| request.body.contains(&format!("Action={action}&"));
    if does("AssumeRoleWithWebIdentity") {
        assert!(request.body.contains("WebIdentityToken=planted.jwt"), "{}", request.body);
        return lent("AssumeRoleWithWebIdentity", "ASIAFROMPOD");
    }
    if does("AssumeRole") {
        assert_eq!(signer(), "AKIASOURCE");
        return lent("AssumeRole", "ASIAFROMROLE");
    }
    if does("GetCallerIdentity") {
        let said = format!(
            "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><GetCallerIdentityResult><Arn>arn:{}</Arn>\
             <UserId>u</UserId><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>",
            signer()
        );
        return Reply::Text(200, "text/xml", said);
    }
    match request.path.as_str() {
        "/task" => own("ASIAFROMTASK"),
        "/latest/api/token" => {
            Reply::Text(200, "text/plain\r\nx-aws-ec2-metadata-token-ttl-seconds: 21600", "token".to_owned())
        }
        "/latest/meta-data/iam/security-credentials/" => Reply::Text(200, "text/plain", "robot".to_owned()),
        "/latest/meta-data/iam/security-credentials/robot" => own("ASIAFROMMACHINE"),
        _ => Reply::Text(404, "text/plain", "nothing here".to_owned()),
    }
}

#[test]
fn roles_web_identities_containers_and_machines_sign_in() {
    let (server, home) = (Server::start(answer), tempfile::tempdir().unwrap());
    let file = |name: &str, text: &str| {
        let path = home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    file(
        ".aws/config",
        "[profile base]\naws_access_key_id = AKIASOURCE\naws_secret_access_key = s\n\
         [profile research]\nrole_arn = arn:aws:iam::123456789012:role/research\nsource_profile = base\n",
    );
    let token = file("token", "planted.jwt");
    let (task, metadata) = (format!("{}/task", server.endpoint), server.endpoint.clone());
    let doctor = |more: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
        command.args(["doctor", "--cloud", "aws", "--output", "json"]).env_clear().stdin(Stdio::null());
        command.env("HOME", home.path()).env("GPUPLAN_HOME", home.path()).env("AWS_REGION", "us-east-1");
        command.env("AWS_ENDPOINT_URL", &server.endpoint).env("HTTPS_PROXY", "http://127.0.0.1:9");
        if more.iter().all(|(name, _)| *name != "AWS_EC2_METADATA_SERVICE_ENDPOINT") {
            command.env("AWS_EC2_METADATA_DISABLED", "true");
        }
        let output = command.envs(more.iter().copied()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str::<Value>(&text).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
    };
    let ways: [(&[(&str, &str)], &str); 4] = [
        (&[("AWS_PROFILE", "research")], "ASIAFROMROLE"),
        (
            &[("AWS_WEB_IDENTITY_TOKEN_FILE", &token), ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/pod")],
            "ASIAFROMPOD",
        ),
        (&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &task)], "ASIAFROMTASK"),
        (&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &metadata)], "ASIAFROMMACHINE"),
    ];
    for (variables, key) in ways {
        let found = doctor(variables)["clouds"][0].clone();
        let account = &found["account"]["found"];
        assert_eq!(
            (account["account"].as_str(), account["principal"].as_str()),
            (Some("123456789012"), Some(format!("arn:{key}").as_str())),
            "{found:#}"
        );
    }
}

const ROBOT: &str = "/v1/projects/-/serviceAccounts/robot@p.iam.gserviceaccount.com:generateAccessToken";

/// Google's token services: one that exchanges the token of a workload, one that knows a user, and one that lends the token of a service
/// account to whoever shows the token of either.
fn google(request: &Request) -> Reply {
    let json = |text: &str| Reply::Text(200, "application/json", text.to_owned());
    match request.path.as_str() {
        "/sts" if request.body.contains("planted.jwt") => json(
            r#"{"access_token":"own","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":3600}"#,
        ),
        "/oauth" if request.body.contains("planted-refresh") => {
            json(r#"{"access_token":"own","token_type":"Bearer","expires_in":3600}"#)
        }
        ROBOT if request.header("authorization") == "Bearer own" => {
            json(&format!(r#"{{"accessToken":"lent","expireTime":"{EXPIRES}"}}"#))
        }
        _ => Reply::Text(403, "application/json", r#"{"error":"nobody"}"#.to_owned()),
    }
}

/// Compute Engine itself is never reached here, so that what is asked of it with the lent token is not shown; that the token is lent is.
#[test]
fn workload_identity_and_impersonation_sign_in_to_google() {
    let (server, home) = (Server::start(google), tempfile::tempdir().unwrap());
    let file = |name: &str, text: String| {
        let path = home.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let (at, token) = (&server.endpoint, file("token", "planted.jwt".to_owned()));
    let workload = json!({
        "type": "external_account", "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/k",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "token_url": format!("{at}/sts"),
        "service_account_impersonation_url": format!("{at}{ROBOT}"), "credential_source": {"file": token},
    });
    let user = json!({
        "type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "planted-refresh", "token_uri": format!("{at}/oauth"),
    });
    let impersonated = json!({
        "type": "impersonated_service_account", "service_account_impersonation_url": format!("{at}{ROBOT}"), "source_credentials": user,
    });
    for (credentials, kind, first) in
        [(workload, "external_account", "/sts"), (impersonated, "impersonated_service_account", "/oauth")]
    {
        let before = server.asked().len();
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
        command.args(["doctor", "--cloud", "gcp", "--output", "json"]).env_clear().stdin(Stdio::null());
        command.env("HOME", home.path()).env("GPUPLAN_HOME", home.path()).env("GOOGLE_CLOUD_PROJECT", "some-project");
        command.env("GOOGLE_APPLICATION_CREDENTIALS", file("credentials.json", credentials.to_string()));
        command.env("HTTPS_PROXY", "http://127.0.0.1:9");
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let asked: Vec<String> = server.asked()[before..].iter().map(|request| request.path.clone()).collect();
        assert_eq!(asked.first().map(String::as_str), Some(first), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(asked.iter().any(|path| path == ROBOT), "{asked:?}");
        assert!(said.contains(kind) && !said.contains("planted") && !said.contains("\"own\""), "{said}");
    }
}
