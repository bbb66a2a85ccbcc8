//! What somebody does with a run on AWS in a box while it runs and after: look into its machine, copy, stop it with what it has done
//! saved, resume it (which waits two minutes for orders that an earlier leader may have left open), read its log, and forget it. What
//! EC2 Instance Connect, Session Manager and OpenSSH do between here and the machine is stood in for: the stand-in asks for the way
//! that the entry for OpenSSH says, and runs the line on the machine.

use std::fs;
use std::path::Path;

use crate::cli::launch::HOLD;
use crate::cli::launch_aws::{QUESTION, comes, gpuplan, run, sha256, undisturbed};
use crate::cli::support::Ran;
use gpuplan_testbed::cloud_box::CloudBox;
use gpuplan_testbed::executable::executable;
use gpuplan_testbed::machines::Seen;

/// `ssh -F CONFIG ALIAS -- LINE` by the entry in CONFIG.
const SSH: &str = r#"#!/bin/sh
[ "$1 $4" = "-F --" ] || exit 255
entry() { sed -n "s/^ *$1 //p" "$config"; }
config=$2
[ "$(entry Host)" = "$3" ] && [ -e "$(entry IdentityFile | tr -d '"')" ] || exit 255
host=$(entry HostName)
way=$(entry ProxyCommand | sed "s/%h/$host/g; s/%r/$(entry User)/g; s/%p/22/g")
sh -c "$way" </dev/null || exit 255
exec sh -c "$(printf %s "$5" | sed "s|/var/lib|$MACHINES/$host/var/lib|")"
"#;
const SUDO: &str = "#!/bin/sh\nexec \"$@\"\n";
/// The ways that AWS makes to a machine, and nothing else.
const AWS: &str = r#"#!/bin/sh
echo "$*" >>"$(dirname "$0")/asked"
case "$1 $2" in
  "ec2-instance-connect send-ssh-public-key") grep -q ^ssh-ed25519 "$(printf %s "${10}" | sed s,^file://,,)" ;;
  "ssm start-session") ;;
  *) exit 252 ;;
esac
"#;

/// With the stand-ins first.
fn on_the_way(cloud: &CloudBox, home: &Path, machine: &Seen, arguments: &[&str]) -> Ran {
    let tools = home.join("tools");
    fs::create_dir_all(&tools).unwrap();
    for (name, text) in [("ssh", SSH), ("sudo", SUDO), ("aws", AWS)] {
        executable(&tools.join(name), text);
    }
    // Where the boot script of a machine that is no folder of a test keeps the job.
    let place = machine.folder.join("var/lib");
    if !place.exists() {
        fs::create_dir_all(&place).unwrap();
        std::os::unix::fs::symlink(machine.folder.join("job"), place.join("gpuplan")).unwrap();
    }
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let mut command = gpuplan(cloud, home, arguments);
    command.env("PATH", path).env("MACHINES", machine.folder.parent().unwrap());
    Ran::of(command.output().unwrap())
}

/// The last step that the program of the run `life` has told.
fn step(cloud: &CloudBox) -> Option<u64> {
    let status: serde_json::Value = serde_json::from_str(&cloud.object("/runs/team/runs/life/status/0.json")?).ok()?;
    status["progress"].as_u64()
}

#[test]
fn a_run_on_aws_is_seen_into_stopped_resumed_and_forgotten() {
    let Some(cloud) = CloudBox::start("a_run_on_aws_is_seen_into_stopped_resumed_and_forgotten", Vec::new()) else {
        return;
    };
    cloud.make_bucket("runs");
    let (home, job) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let home = home.path();
    let program = env!("CARGO_BIN_EXE_gpuplan");
    let agent = format!("{program}#sha256={}", sha256(program));
    let trainer = job.path().join("train.py");
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/train.py"), &trainer).unwrap();
    let sent = ["--store", "s3://runs/team", "--agent", &agent, "--workdir", job.path().to_str().unwrap()];
    let named = ["--accept-stale-prices", "-y", "--detach", "--run", "life"];
    // It saves only when it is told to end.
    let command = format!("{HOLD}; exec ./train.py --every 1000 $hold");
    let launched =
        run(&cloud, home, &[&["launch"], &QUESTION[..], &named, &sent, &["--", "sh", "-c", &command]].concat());
    assert_eq!((launched.code, launched.stdout.as_str()), (0, "life\n"), "{}", launched.stderr);
    let machine = comes(&cloud, "a machine", || cloud.world.up().into_iter().next());
    comes(&cloud, "a step that it stays at", || (step(&cloud) == Some(60)).then_some(()));

    let here = home.join("notes");
    fs::create_dir(&here).unwrap();
    fs::write(here.join("a b.txt"), "carried\n").unwrap();
    let by = |arguments: &[&str]| on_the_way(&cloud, home, &machine, arguments);
    let copied = by(&["cp", "life", here.to_str().unwrap(), ":sent"]);
    assert_eq!(copied.code, 0, "{}", copied.stderr);
    let said = by(&["exec", "life", "--", "cat", "sent/a b.txt"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "carried\n"), "{}", said.stderr);
    let back = home.join("back.txt");
    let copied = by(&["cp", "life", ":sent/a b.txt", back.to_str().unwrap()]);
    assert_eq!((copied.code, fs::read_to_string(&back).unwrap().as_str()), (0, "carried\n"), "{}", copied.stderr);
    let missing = by(&["cp", "life", ":nothing.txt", back.to_str().unwrap()]);
    assert!(missing.code != 0 && missing.stderr.contains("nothing.txt"), "{}", missing.stderr);
    assert_eq!(by(&["exec", "life", "--", "sh", "-c", "exit 3"]).code, 1);
    let asked = fs::read_to_string(home.join("tools/asked")).unwrap();
    let session = format!(
        "ssm start-session --region us-east-1 --target {} --document-name AWS-StartSSHSession --parameters portNumber=22",
        machine.id
    );
    assert!(asked.lines().filter(|line| **line == session).count() >= 5, "{asked}");

    let stopped = run(&cloud, home, &["stop", "life"]);
    assert_eq!(stopped.code, 0, "{}", stopped.stderr);
    assert!(stopped.stderr.contains("life has saved and ended: step 60 is safe"), "{}", stopped.stderr);
    assert!(cloud.world.up().is_empty(), "{:?}", cloud.world.up());
    let watched = run(&cloud, home, &["watch", "life"]);
    assert!(watched.stderr.contains("the run `life` has already ended: stopped"), "{}", watched.stderr);
    let gone = by(&["exec", "life", "--", "true"]);
    assert!(gone.code == 2 && gone.stderr.contains("life has no machine 0 now"), "{}", gone.stderr);

    let resumed = run(&cloud, home, &["resume", "life"]);
    assert_eq!((resumed.code, resumed.stdout.as_str()), (0, "life: completed\n"), "{}", resumed.stderr);
    let second = cloud.world.machines().into_iter().find(|seen| seen.id != machine.id).unwrap();
    let result = fs::read_to_string(second.folder.join("job/work/result.json")).unwrap();
    assert_eq!(result, undisturbed(&trainer), "to be stopped and resumed changes nothing");
    let logs = run(&cloud, home, &["logs", "life"]).stdout;
    assert!(logs.starts_with("train: from step 0 of ") && logs.contains("train: from step 60 of 120"), "{logs}");

    let down = run(&cloud, home, &["down", "life", "-y"]);
    assert_eq!(down.code, 0, "{}", down.stderr);
    let none = run(&cloud, home, &["status", "--output", "json"]).json();
    assert_eq!(none["runs"], serde_json::json!([]), "{none:#}");
    let found = run(&cloud, home, &["gc", "--cloud", "aws", "--output", "json"]).json();
    assert_eq!(found["found"], serde_json::json!([]), "{found:#}");
    assert!(cloud.world.up().is_empty());
}
