//! Documents that take a cloud, a card or minutes to write: the clouds' answers as their schemas have them.

use gpuplan_testbed::fake_gce::FakeGce;
use gpuplan_testbed::gcp_project::project;
use serde_json::Value;

use super::{Program, assert_valid};

/// The program on a Google project that runs here. Exits 6 and 7 are no accident: a source that fails, a permission that is missing.
fn answer(program: &Program, google: &FakeGce, arguments: &[&str]) -> Value {
    let mut command = program.command(arguments);
    command.env_remove("GPUPLAN_OFFLINE").env("HOME", program.home.path());
    command.env("GOOGLE_CLOUD_PROJECT", "some-project").env("GPUPLAN_GCP_ENDPOINT", &google.endpoint);
    let ran = command.output().unwrap();
    let code = ran.status.code().unwrap_or(-1);
    assert!([0, 6, 7].contains(&code), "{arguments:?}: {code} {}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

#[test]
fn what_clouds_answer_is_as_its_schemas_say() {
    let (google, program) = (FakeGce::start(project), Program::new());
    for (name, arguments) in [
        ("refresh", &["refresh", "--cloud", "gcp"][..]),
        ("doctor", &["doctor", "examples/llama-3.1-8b-finetune.toml", "--cloud", "gcp", "--gpus", "H100:8", "--spot"]),
        ("prices-changes", &["prices", "--since", "700d"]),
        ("prices-history", &["prices", "H100", "--cloud", "gcp", "--history"]),
    ] {
        let document = answer(&program, &google, arguments);
        assert_valid(name, &arguments.join(" "), &document);
        let rows = document.as_object().unwrap().values().filter_map(Value::as_array);
        assert!(rows.map(Vec::len).sum::<usize>() > 0, "{arguments:?} says nothing: {document}");
    }
}
