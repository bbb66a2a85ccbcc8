//! Damaged stores and full disks: the newest checkpoint that verifies is used, and it is said that another was not.

use std::fs;
use std::process::Command;

use crate::agent::bench::{Bench, TRAINER, undisturbed};

/// An interrupted run with at least two checkpoints.
fn interrupted() -> Bench {
    let bench = Bench::new();
    let mut agent = bench.start("a", &[], &[TRAINER, "--seconds-per-step", "0.1", "--hold-at", "110"]);
    // Two of them, however many are overtaken on a busy machine.
    agent.wait_until_safe(1);
    let first = bench.committed().unwrap();
    agent.wait_until_safe(first + 1);
    agent.signal("TERM");
    agent.ends_with(75);
    assert!(bench.objects("manifests").len() >= 2);
    bench
}

fn newest_file(bench: &Bench, name: &str) -> std::path::PathBuf {
    let manifest = bench.objects("manifests").pop().unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&fs::read(manifest).unwrap()).unwrap();
    let file = manifest["files"]
        .as_array()
        .unwrap()
        .iter()
        .find(|file| file["path"].as_str().unwrap().ends_with(name))
        .unwrap();
    bench.path("store/runs/t").join(file["key"].as_str().unwrap())
}

fn falls_back(bench: &Bench, why: &str) {
    let newest = bench.committed().unwrap();
    let mut agent = bench.start("b", &[], &[TRAINER]);
    agent.ends_with(0);
    assert_eq!(agent.result(), undisturbed());
    let log = agent.log();
    assert!(log.contains(&format!("step {newest} (epoch 1) is not used")) && log.contains(why), "{log}");
    assert!(log.contains("restored step"), "an older one was used: {log}");
    assert!(bench.objects("events").iter().any(|path| path.display().to_string().contains("rejected")));
}

#[test]
fn a_corrupted_object_is_passed_over() {
    let bench = interrupted();
    let file = newest_file(&bench, "state.json");
    let mut bytes = fs::read(&file).unwrap();
    bytes[10] ^= 1;
    fs::write(&file, bytes).unwrap();
    falls_back(&bench, "sha256 differs");
}

#[test]
fn a_truncated_object_is_passed_over() {
    let bench = interrupted();
    let file = newest_file(&bench, "state.json");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    falls_back(&bench, "is missing");
}

#[test]
fn a_missing_object_is_passed_over() {
    let bench = interrupted();
    fs::remove_file(newest_file(&bench, "state.json")).unwrap();
    falls_back(&bench, "is missing");
}

#[test]
fn a_torn_manifest_is_passed_over() {
    let bench = interrupted();
    let manifest = bench.objects("manifests").pop().unwrap();
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, &text[..text.len() / 2]).unwrap();
    falls_back(&bench, "it is not a valid manifest");
}

#[test]
fn a_manifest_that_leads_out_of_the_folder_is_passed_over() {
    let bench = interrupted();
    let manifest = bench.objects("manifests").pop().unwrap();
    let text = fs::read_to_string(&manifest)
        .unwrap()
        .replace("/state.json\",\n      \"key\"", "/../../../evil\",\n      \"key\"");
    assert!(text.contains("evil"), "{text}");
    fs::write(&manifest, text).unwrap();
    falls_back(&bench, "outside the checkpoint folder");
}

/// To start from nothing may cost weeks. Who wants it says so.
#[test]
fn a_run_of_which_nothing_verifies_is_not_started_from_nothing() {
    let bench = interrupted();
    for manifest in bench.objects("manifests") {
        fs::write(manifest, "{").unwrap();
    }
    let mut refused = bench.start("b", &[], &[TRAINER]);
    refused.ends_with(70);
    assert!(
        refused.log().contains("none of them verifies") && refused.log().contains("--restart-from-nothing"),
        "{}",
        refused.log()
    );
    assert!(!refused.log().contains("train:"));
    let mut agent = bench.start("c", &["--restart-from-nothing"], &[TRAINER]);
    agent.ends_with(0);
    assert!(agent.log().contains("from step 0 of 120"), "{}", agent.log());
    assert_eq!(agent.result(), undisturbed());
}

#[test]
fn what_nobody_vouches_for_is_never_resumed_from() {
    let bench = interrupted();
    let torn = bench.path("b/checkpoints/step-000900");
    fs::create_dir_all(&torn).unwrap();
    fs::write(torn.join("state.json"), "{").unwrap();
    fs::write(torn.join(".complete"), "").unwrap();
    let mut agent = bench.start("b", &[], &[TRAINER]);
    agent.ends_with(0);
    assert_eq!(agent.result(), undisturbed());
    assert!(!torn.exists() && bench.path("b/checkpoints/.quarantine/e2/step-000900/state.json").exists());
}

#[test]
fn the_users_own_checkpoints_count_where_the_run_is_new() {
    let bench = Bench::new();
    let folder = bench.path("a");
    fs::create_dir_all(&folder).unwrap();
    let stop =
        Command::new(TRAINER).args(["--steps", "60", "--seconds-per-step", "0"]).current_dir(&folder).status().unwrap();
    assert!(stop.success());
    let mut agent = bench.start("a", &[], &[TRAINER]);
    agent.ends_with(0);
    assert!(agent.log().contains("from step 60 of 120"), "{}", agent.log());
    assert_eq!(agent.result(), undisturbed());
}

/// A disk of 6 MiB that two checkpoints of 4 MiB do not fit on. Needs the right to mount one.
#[test]
fn a_full_disk_ends_the_run_and_loses_nothing_that_was_safe() {
    let bench = Bench::new();
    let disk = bench.path("a");
    fs::create_dir_all(&disk).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"]).arg(&disk).output();
    if !mounted.is_ok_and(|done| done.status.success()) {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "\nWAIVED a_full_disk: no right to mount a small disk here");
        return;
    }
    let mut agent = bench.start("a", &[], &[TRAINER, "--ballast", "4"]);
    let status = agent.wait();
    let log = agent.log();
    drop(agent);
    let unmounted = Command::new("umount").arg("-l").arg(&disk).status().unwrap();
    assert!(unmounted.success());
    assert!(!status.success() && log.contains("the disk is full"), "{status:?}\n{log}");
    assert_eq!(bench.committed(), Some(10));
    bench.assert_whole();
    let mut elsewhere = bench.start("b", &[], &[TRAINER]);
    elsewhere.ends_with(0);
    assert_eq!(elsewhere.result(), undisturbed());
}
