//! What one may rely on with much money: refused before anything is rented, told after one machine, seen while it runs, and kept.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::cli::launch::{HOLD, gpuplan, launched, nothing_is_left, run, wait_for};
use gpuplan_testbed::smtp::MailServer;

const TRAINER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/train.py");

fn machines(home: &Path) -> usize {
    let state = std::fs::read_to_string(home.join("fake-cloud/state.json")).unwrap();
    serde_json::from_str::<Value>(&state).unwrap()["machines"].as_array().unwrap().len()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_setup_that_fails_is_told_after_one_machine_with_its_last_words() {
    let home = tempfile::tempdir().unwrap();
    let setup = ["--fake-scenario", "calm", "--setup", "echo resolving; echo no such package >&2; exit 7"];
    let ran = run(home.path(), &launched("s", &setup));
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("exit code 7: resolving | no such package"), "{}", ran.stderr);
    assert_eq!(machines(home.path()), 1, "{}", ran.stderr);
    let log = run(home.path(), &["logs", "s"]).stdout;
    assert!(log.contains("no such package\ngpuplan: the setup command failed with exit code 7"), "{log}");
    nothing_is_left(home.path());
}

#[test]
fn a_program_that_fails_is_quoted_and_a_secret_that_is_empty_fails_the_run() {
    let home = tempfile::tempdir().unwrap();
    let calm = ["--fake-scenario", "calm"];
    let mut words = launched("p", &calm);
    words.truncate(words.len() - 1);
    let failing = "echo 'Traceback (most recent call last):'; echo 'ValueError: no such column' >&2; exit 3";
    let ran = run(home.path(), &[&words[..], &["sh", "-c", failing]].concat());
    assert!(ran.code == 1 && ran.stderr.contains("exit code 3: "), "{}", ran.stderr);
    assert!(ran.stderr.contains("ValueError: no such column") && !ran.stderr.contains("{\"failed\""), "{}", ran.stderr);
    std::fs::create_dir_all(home.path().join("fake-cloud/secrets")).unwrap();
    std::fs::write(home.path().join("fake-cloud/secrets/token"), "").unwrap();
    let ran = run(home.path(), &launched("e", &[&calm[..], &["--secret", "TOKEN=token"]].concat()));
    assert!(ran.code == 1 && ran.stderr.contains("the secret token is empty or cannot be read"), "{}", ran.stderr);
    nothing_is_left(home.path());
}

#[test]
fn mail_is_sent_by_agents_and_by_whoever_leads_and_its_password_is_written_nowhere() {
    const PASSWORD: &str = "correct horse battery";
    let (home, server) = (tempfile::tempdir().unwrap(), MailServer::start(Some(("me@example.com", PASSWORD))));
    let secrets = home.path().join("fake-cloud/secrets");
    std::fs::create_dir_all(&secrets).unwrap();
    std::fs::write(secrets.join("mail"), PASSWORD).unwrap();
    let address = format!("smtp://me%40example.com@127.0.0.1:{}?to=you@example.org", server.port);
    let mail = ["--fake-scenario", "calm", "--notify", &address];
    let lacks = run(home.path(), &launched("m", &mail));
    assert!(lacks.code == 2 && lacks.stderr.contains("--secret GPUPLAN_SMTP_PASSWORD=NAME"), "{}", lacks.stderr);
    let named = [&mail[..], &["--secret", "GPUPLAN_SMTP_PASSWORD=mail"]].concat();
    let mut words = launched("m", &named);
    words.truncate(words.len() - 1);
    let ran = run(home.path(), &[&words[..], &["env"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("GPUPLAN_SMTP_PASSWORD is not set here: agents send mail"), "{}", ran.stderr);
    let texts: Vec<String> = server.letters().into_iter().map(|letter| letter.text).collect();
    assert!(texts.len() == 2 && texts.iter().any(|text| text.contains("start 1 of the program")), "{texts:?}");
    let log = run(home.path(), &["logs", "m"]).stdout;
    assert!(log.contains("GPUPLAN_RUN_ID=m") && !log.contains("GPUPLAN_SMTP_PASSWORD"), "{log}");
    // No agent is there to tell of a run that is refused everywhere.
    let scenario = home.path().join("keys.toml");
    std::fs::write(&scenario, "refuse = [\"UnauthorizedOperation\"]\n").unwrap();
    let named = [&["--fake-scenario", scenario.to_str().unwrap()], &named[2..]].concat();
    let led = gpuplan(home.path(), &launched("k", &named)).env("GPUPLAN_SMTP_PASSWORD", PASSWORD).output().unwrap();
    assert_eq!(led.status.code(), Some(8), "{}", String::from_utf8_lossy(&led.stderr));
    let last = server.letters().pop().unwrap();
    assert!(
        last.text.contains("gpuplan leads no more") && last.head.contains("Subject: gpuplan: k: ended"),
        "{last:?}"
    );
    for file in files(home.path()).iter().filter(|file| !file.starts_with(&secrets)) {
        let text = String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned();
        assert!(!text.contains(PASSWORD), "{}", file.display());
    }
}

/// All files below a folder; no link is followed.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&entry.path()),
            Ok(kind) if kind.is_file() => vec![entry.path()],
            _ => Vec::new(),
        })
        .collect()
}

#[test]
fn what_cannot_work_or_would_show_a_secret_is_refused_before_anything_is_rented() {
    let (home, job) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(job.path().join("train.py"), "").unwrap();
    let folder = job.path().to_str().unwrap();
    let refused = |more: &[&str]| {
        let ran = run(home.path(), &launched("r", more));
        assert_eq!(ran.code, 2, "{more:?}: {}", ran.stderr);
        ran.stderr
    };
    let secret = refused(&["--env", "HF_TOKEN=hf_x"]);
    assert!(secret.contains("--secret HF_TOKEN=gpuplan/hf-token") && !secret.contains("hf_x"), "{secret}");
    assert!(refused(&["--env", "PATH=/x"]).contains("-- env PATH=VALUE COMMAND"));
    assert!(refused(&["--env", "GPUPLAN_RUN_ID=x"]).contains("would change the shell or the agent"));
    assert!(refused(&["--secret", "HF_TOKEN="]).contains("is empty"));
    assert!(refused(&["--workdir", folder]).contains("`./train.py`, which is not executable"));
    std::fs::remove_file(job.path().join("train.py")).unwrap();
    std::fs::write(job.path().join("other.py"), "").unwrap();
    assert!(refused(&["--workdir", folder]).contains("`./train.py`, which is not in it"));
    assert!(refused(&["--stall", "10"]).contains("has no unit"));
    let named =
        run(home.path(), &["launch", "llama-3.1-8b-finetune.toml", "--cloud", "fake", "-y", "--run=-rf", "--", "true"]);
    assert!(named.code == 2 && named.stderr.contains("cannot name a run"), "{}", named.stderr);
    assert!(!home.path().join("launches.sqlite").exists());
}

/// The price in the snapshot is old, there is no bucket, and no second program lies beside this one.
#[test]
fn a_dry_run_needs_no_bucket_no_agent_and_no_fresh_price() {
    let home = tempfile::tempdir().unwrap();
    let words =
        ["launch", "llama-3.1-8b-finetune.toml", "--cloud", "aws", "--dry-run", "--agent", "/nowhere/gpuplan-agent"];
    let ran = run(home.path(), &[&words[..], &["--", "true"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for part in ["at worst $", "a launch needs more: ", "gpuplan refresh", "--store s3://BUCKET/PREFIX", ".ci/agent"] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    assert!(std::fs::read_dir(home.path()).unwrap().next().is_none(), "nothing is written");
}

#[test]
fn a_run_is_seen_into_while_it_runs_and_its_checkpoints_are_verified() {
    let home = tempfile::tempdir().unwrap();
    let more = ["--fake-scenario", "calm", "--detach", "--keep-every", "20", "--env", "COLOUR=sea green"];
    let mut words = launched("a", &more);
    words.truncate(words.len() - 1);
    let command = format!("{HOLD}; echo begun; echo 'loss: 4'; echo 'loss: 3'; exec {TRAINER} $hold");
    assert_eq!(run(home.path(), &[&words[..], &["sh", "-c", &command]].concat()).code, 0);
    wait_for(home.path(), &["verify", "a"], |ran| {
        ran.code == 0 && ran.stdout.contains("every one as it was committed")
    });
    wait_for(home.path(), &["logs", "a", "--grep", "^loss"], |ran| ran.stdout == "loss: 4\nloss: 3\n");
    assert_eq!(run(home.path(), &["logs", "a", "--grep", "loss", "--tail", "1"]).stdout, "loss: 3\n");
    assert_eq!(
        run(home.path(), &["logs", "a", "--since", "2020-01-01T00:00:00Z", "--grep", "begun"]).stdout,
        "begun\n"
    );
    assert_eq!(run(home.path(), &["logs", "a", "--since", "2999-01-01T00:00:00Z"]).stdout, "");
    // Into the machine and out of it.
    let here = home.path().join("here.txt");
    std::fs::write(&here, "carried\n").unwrap();
    assert_eq!(run(home.path(), &["cp", "a", here.to_str().unwrap(), ":there.txt"]).code, 0);
    let said = run(home.path(), &["exec", "a", "--", "cat", "there.txt"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "carried\n"), "{}", said.stderr);
    let back = home.path().join("back.txt");
    assert_eq!(run(home.path(), &["cp", "a", ":there.txt", back.to_str().unwrap()]).code, 0);
    assert_eq!(std::fs::read_to_string(&back).unwrap(), "carried\n");
    assert_eq!(run(home.path(), &["cp", "a", "one", "two"]).code, 2);
    assert_eq!(run(home.path(), &["forward", "a", "6006"]).stdout, "http://127.0.0.1:6006\n");
    // Of this user alone.
    assert_eq!(mode(&home.path().join("launches.sqlite")), 0o600);
    assert_eq!((mode(&home.path().join("fake-cloud")), mode(&home.path().join("leaders"))), (0o700, 0o700));
    assert_eq!(run(home.path(), &["stop", "a"]).code, 0);
    let verified = run(home.path(), &["verify", "a"]);
    assert_eq!(verified.code, 0, "{}{}", verified.stdout, verified.stderr);
    let committed = a_committed_file(&home.path().join("fake-cloud/store/runs/a"));
    let bytes = std::fs::read(&committed).unwrap();
    std::fs::write(&committed, vec![b'x'; bytes.len()]).unwrap();
    let broken = run(home.path(), &["verify", "a"]);
    assert!(
        broken.code == 1 && broken.stdout.contains("its contents are not those that were committed"),
        "{}",
        broken.stdout
    );
    assert!(broken.stderr.contains("checkpoints of a can be restored"), "{}", broken.stderr);
    assert_eq!(run(home.path(), &["verify", "a", "--quick"]).code, 0, "a size tells nothing of the contents");
    // What is forgotten is overwritten.
    assert_eq!(run(home.path(), &["down", "a", "-y"]).code, 0);
    for file in ["launches.sqlite", "launches.sqlite-wal"] {
        let bytes = std::fs::read(home.path().join(file)).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&bytes).contains("sea green"), "{file}");
    }
    nothing_is_left(home.path());
}

/// A machine that does nothing costs money for nothing: one that stalls is not replaced by another that stalls, and one that idles is
/// stopped. Whoever looks on sees it end.
#[test]
fn a_run_that_stalls_ends_after_one_machine_and_one_that_idles_is_stopped() {
    let home = tempfile::tempdir().unwrap();
    let sleeping = |name: &'static str, more: &[&'static str]| {
        let mut words = launched(name, &[&["--fake-scenario", "calm"], more].concat());
        words.truncate(words.len() - 1);
        [&words[..], &["sh", "-c", "echo begun; exec sleep 1000"]].concat()
    };
    let ran = run(home.path(), &sleeping("w", &["--stall", "2s", "--on-stall", "stop"]));
    assert!(ran.code == 1 && ran.stderr.contains("stalled: no step, checkpoint, output or work"), "{}", ran.stderr);
    assert_eq!(machines(home.path()), 1, "{}", ran.stderr);
    assert_eq!(run(home.path(), &sleeping("i", &["--stall", "0", "--detach"])).code, 0);
    wait_for(home.path(), &["logs", "i"], |ran| ran.stdout == "begun\n");
    let watching =
        gpuplan(home.path(), &["status", "i", "--watch", "--output", "json"]).stdout(Stdio::piped()).spawn().unwrap();
    let stopped = run(home.path(), &["stop", "i", "--idle", "3s"]);
    assert_eq!(
        (stopped.code, stopped.stdout.as_str()),
        (0, "i: 1 machines ended, none is left\n"),
        "{}",
        stopped.stderr
    );
    let watched = watching.wait_with_output().unwrap();
    let (shown, last) = (String::from_utf8(watched.stdout).unwrap(), "\"state\": \"stopped\"");
    assert!(watched.status.success() && shown.matches("\"version\"").count() > 1, "{shown}");
    assert!(shown.rsplit("\"version\"").next().is_some_and(|document| document.contains(last)), "{shown}");
    assert_eq!(run(home.path(), &["stop", "i", "--idle", "3s"]).stdout, "i: stopped\n", "it is over already");
    nothing_is_left(home.path());
}

/// A file with contents that a manifest names: what was under way when the run was stopped may be there, too.
fn a_committed_file(run: &Path) -> PathBuf {
    let manifest = std::fs::read_dir(run.join("manifests")).unwrap().flatten().next().unwrap().path();
    let manifest: Value = serde_json::from_str(&std::fs::read_to_string(manifest).unwrap()).unwrap();
    let files = manifest["files"].as_array().unwrap().iter();
    let key = files.filter(|file| file["size"].as_u64() > Some(0)).find_map(|file| file["key"].as_str()).unwrap();
    run.join(key)
}
