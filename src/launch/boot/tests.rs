//! The boot script, run by a shell in folders that stand for a machine.
#![cfg(test)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::*;
use crate::job::{Job, Parcel, Secret};
use crate::ports::machine::{Market, Pool};
use crate::spec::Offered;
use gpuplan_runstore::Ledger;
use gpuplan_units::{GpuCount, Usd, UsdPerHour};
use gpuplan_workload::Sweep;

fn spec() -> RunSpec {
    let parcel = |name: &str| Parcel::Stored { key: name.to_owned(), sha256: "ab".to_owned() };
    RunSpec {
        version: 1,
        run: "r".to_owned(),
        started_at: Timestamp::UNIX_EPOCH,
        stand_in: None,
        nodes: 2,
        spot: Vec::new(),
        on_demand: Vec::new(),
        work_hours: 1.0,
        deadline_hours: None,
        changeover_hours: 0.1,
        worst_changeover_hours: 0.2,
        budget_usd: Usd::parse("40").ok(),
        lifetime_hours: 2.0,
        silence_seconds: 600.0,
        settles_seconds: 120.0,
        expected_cost_usd: Usd::ZERO,
        steps: 1.0,
        store: "s3://b/p".to_owned(),
        image: None,
        disk_gib: 100,
        tags: Vec::new(),
        is_kept: false,
        keep_warm_seconds: None,
        takes: None,
        leads: None,
        block: None,
        expected: None,
        job: Job {
            command: vec!["./train.py".to_owned(), "it's".to_owned()],
            agent: parcel("agent"),
            workdir: Some(parcel("workdir")),
            setup: Some("pip install 'x y'".to_owned()),
            environment: vec![("A".to_owned(), "b $c".to_owned())],
            secrets: vec![Secret { variable: "T".to_owned(), name: "gpuplan/t".to_owned() }],
            data: Some(Data { address: "s3://b/data".to_owned(), files: 1, bytes: 1, is_mounted: false }),
            container: Some("pytorch/pytorch:2".to_owned()),
            container_login: None,
            sweep: Some(Sweep { runs: 64, parallel: 8, gpus_per_run: GpuCount::whole(1) }),
            agent_options: vec!["--checkpoints=a b".to_owned()],
            notify: Some("https://hooks.example/x".to_owned()),
        },
    }
}

fn order(cloud: &str) -> Order {
    let pool = Pool {
        cloud: cloud.to_owned(),
        region: "r".to_owned(),
        zone_id: None,
        instance_type: "t".to_owned(),
        market: Market::Spot,
    };
    Order {
        epoch: 1,
        node: 1,
        choice: Offered::new(pool, UsdPerHour::from_nanos(1)).choice(),
        token: "t".to_owned(),
        name: "n".to_owned(),
        lifetime: 7201.0,
        ledger: Ledger::default(),
    }
}

fn written(cloud: &str) -> String {
    let signed = Link::Signed("https://b.s3.amazonaws.com/agent?X-Amz-Signature=a&b=c".to_owned());
    let source = Source::linked(&signed, "ab");
    let ordered_by = Some(OrderedBy { lead: 2, lead_at: Timestamp::UNIX_EPOCH, epoch: 1, launched_at: None });
    script(&Boot {
        spec: &spec(),
        order: &order(cloud),
        agent: source.clone(),
        workdir: Some(source),
        ordered_by,
        ends_at: Timestamp::MAX,
    })
}

#[test]
fn the_end_is_armed_first_and_whatever_follows_is_a_script() {
    let text = written("aws");
    let armed = text.lines().nth(2).unwrap();
    assert!(armed.contains("sleep 7201") && armed.contains("shutdown -P +121"), "{armed}");
    let order = [
        "shutdown -P +",
        "cat >hand-off.json",
        "fetch agent",
        "fetch workdir",
        "keep A 'b $c'",
        "take_secret T gpuplan/t",
        "choose_data_folder",
        "pull pytorch/pytorch:2",
        "cat >start.sh",
        "sh -c \"pip",
        "--no-restart -- sh -c",
        "exec ../agent agent --store",
        "--data s3://b/data --data-folder",
        "--sweep 64 --parallel 8 --gpus-per-run 1 '--checkpoints=a b' ${GPUPLAN_AGENT_OPTIONS:-} -- ./train.py",
        "run_in pytorch/pytorch:2",
    ];
    let places: Vec<usize> =
        order.iter().map(|part| text.rfind(part).unwrap_or_else(|| panic!("{part}: {text}"))).collect();
    assert!(places.is_sorted(), "{places:?}: {text}");
    let told = text.split("cat >hand-off.json <<'GPUPLAN_END'\n").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    let hand_off = gpuplan_runstore::HandOff::read(told).unwrap();
    assert_eq!(
        (hand_off.budget_usd, hand_off.notify.as_deref()),
        (Usd::parse("40").ok(), Some("https://hooks.example/x"))
    );
    assert_eq!(hand_off.ordered_by.map(|by| (by.lead, by.epoch)), Some((2, 1)));
    assert!(text.len() < 16 * 1024, "user data of EC2 ends at 16 KiB");
    let mut shell = Command::new("/bin/sh").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
    shell.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(shell.wait().unwrap().success(), "{text}");
}

/// Runs the beginning of every boot script on a machine that is a folder, whose tools only say what they were asked.
fn begun(root: &Path, disks: &[&str], lines: &str) -> String {
    let bin = root.join("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(root.join("dev/disk/by-id")).unwrap();
    for disk in disks {
        fs::write(root.join("dev/disk/by-id").join(disk), "").unwrap();
    }
    // A disk whose name ends in -used has a file system.
    let lsblk = "case $3 in *-used) echo 'disk ext4 /data' ;; *) echo 'disk  ' ;; esac";
    for (name, body) in [("lsblk", lsblk), ("mdadm", SAYS), ("mkfs.ext4", SAYS), ("mount", SAYS)] {
        fs::write(bin.join(name), format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o700)).unwrap();
    }
    let text = format!("cloud=aws store=s3://b\n{PRELUDE}\n{lines}\necho \"in $place\"\n");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &text]).env_clear().env("PATH", path).env("GPUPLAN_MACHINE_ROOT", root);
    let said = shell.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&said.stderr), String::from_utf8_lossy(&said.stdout));
    text.replace(&root.display().to_string(), "")
}

#[test]
fn a_bucket_that_is_mounted_is_read_where_it_lies_and_wants_its_tool() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("var/lib")).unwrap();
    fs::create_dir_all(root.path().join("bin")).unwrap();
    for name in ["mount-s3", "gcsfuse"] {
        fs::write(root.path().join("bin").join(name), "#!/bin/sh\necho \"${0##*/} $*\" >>asked\n").unwrap();
        fs::set_permissions(root.path().join("bin").join(name), fs::Permissions::from_mode(0o700)).unwrap();
    }
    let lines = "for a in s3://b/p/q/ s3://b gs://b/p; do mount_data $a; done; cat asked environment";
    let said = begun(root.path(), &[], lines);
    let place = "/var/lib/gpuplan/data";
    let asked = format!(
        "mount-s3 --read-only --prefix p/q/ b {place}\nmount-s3 --read-only b {place}\ngcsfuse -o ro --implicit-dirs --only-dir p b {place}\n"
    );
    assert!(said.contains(&asked) && said.contains(&format!("GPUPLAN_DATA_DIR='{place}'")), "{said}");
    assert!(said.contains("s3://b/p/q/ is mounted with mount-s3"), "{said}");
    let without = tempfile::tempdir().unwrap();
    fs::create_dir_all(without.path().join("var/lib")).unwrap();
    let said = begun(without.path(), &[], "agent=true store=x; finish() { :; }; mount_data s3://b/p");
    assert!(said.contains("has no mount-s3, which mounts s3://b/p") && said.contains("object-store"), "{said}");
    let here = tempfile::tempdir().unwrap();
    fs::create_dir_all(here.path().join("var/lib")).unwrap();
    fs::create_dir_all(here.path().join("set")).unwrap();
    fs::write(here.path().join("set/a"), "1\n").unwrap();
    let said = begun(
        here.path(),
        &[],
        &format!("mount_data file://{}/set; . ./environment; cat \"$GPUPLAN_DATA_DIR/a\"", here.path().display()),
    );
    assert!(said.ends_with("1\nin /var/lib/gpuplan\n"), "{said}");
}

#[test]
fn variables_of_a_job_do_not_act_on_the_boot_script_and_an_empty_secret_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("var/lib")).unwrap();
    let variables = "for name in cloud PATH IFS place GPUPLAN_END_MACHINE agent; do keep $name x; done; echo \"$cloud\"; ls environment";
    assert_eq!(begun(root.path(), &[], variables), "aws\nenvironment\nin /var/lib/gpuplan\n");
    let secrets = "sleep() { :; }; finish_for_good() { :; }; agent=true; secret() { [ $1 != full ] || echo s3cret; }; take_secret A full; \
         cat environment; take_secret B empty";
    let said = begun(root.path(), &[], secrets);
    assert!(
        said.contains("export A='s3cret'") && said.contains("the secret empty is empty or cannot be read"),
        "{said}"
    );
    assert!(!said.contains("in /var/lib"), "it goes no further: {said}");
}

/// A setup that fails ends as the program of the run does, once, with its own code and its last words.
#[test]
fn a_setup_that_fails_says_so_in_the_log_of_the_run() {
    let root = tempfile::tempdir().unwrap();
    let agent = root.path().join("agent");
    fs::write(&agent, "#!/bin/sh\nwhile [ $1 != -- ]; do echo \"$1\"; shift; done; shift; exec \"$@\"\n").unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o700)).unwrap();
    let spec = spec();
    let job = Job {
        setup: Some("echo resolving >&2; echo 'no such package'; exit 7".to_owned()),
        container: None,
        ..spec.job.clone()
    };
    let spec = RunSpec { job, ..spec };
    let boot = Boot {
        spec: &spec,
        order: &order("aws"),
        agent: Source::Here(agent.display().to_string()),
        workdir: None,
        ordered_by: None,
        ends_at: Timestamp::MAX,
    };
    fs::create_dir(root.path().join("work")).unwrap();
    fs::write(root.path().join("environment"), "").unwrap();
    fs::write(root.path().join("start.sh"), start(&boot)).unwrap();
    let ran = Command::new("sh").arg("../start.sh").current_dir(root.path().join("work")).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(ran.status.code(), Some(7), "{said}");
    assert!(
        said.contains("--no-restart\nresolving\nno such package\ngpuplan: the setup command failed with exit code 7\n"),
        "{said}"
    );
    assert!(!said.contains("train.py"), "{said}");
}

const SAYS: &str = "echo \"${0##*/} $*\" >&2";

#[test]
fn local_disks_that_nobody_uses_are_joined_and_others_left_alone() {
    let root = || tempfile::tempdir().unwrap();
    let (one, two) = ("nvme-Amazon_EC2_NVMe_Instance_Storage_A", "google-local-nvme-ssd-1");
    let said = begun(root().path(), &[one], "choose_data_folder");
    assert!(
        said.starts_with(&format!("mkfs.ext4 -q -F -m 0 -E nodiscard /dev/disk/by-id/{one}\nmount -o noatime ")),
        "{said}"
    );
    assert!(said.ends_with("in /mnt/disks/ssd/gpuplan\n") && !said.contains("mdadm"), "{said}");
    let said = begun(root().path(), &[one, two, "google-local-ssd-used"], "");
    let both = format!("--raid-devices=2 --run /dev/disk/by-id/{two} /dev/disk/by-id/{one}\n");
    assert!(
        said.contains(&both) && said.contains("nodiscard /dev/md0\n") && said.ends_with("in /mnt/disks/ssd/gpuplan\n"),
        "{said}"
    );
    // AWS's own images have done it.
    let done = root();
    fs::create_dir_all(done.path().join("opt/dlami/nvme")).unwrap();
    assert_eq!(begun(done.path(), &[one], ""), "in /opt/dlami/nvme/gpuplan\n");
    let none = root();
    fs::create_dir_all(none.path().join("var/lib")).unwrap();
    assert_eq!(begun(none.path(), &["google-local-ssd-used"], ""), "in /var/lib/gpuplan\n");
}

#[test]
fn the_end_of_a_machine_outlives_a_reboot() {
    let root = tempfile::tempdir().unwrap();
    for folder in ["var/lib", "etc/systemd/system", "bin"] {
        fs::create_dir_all(root.path().join(folder)).unwrap();
    }
    let systemctl = root.path().join("bin/systemctl");
    fs::write(&systemctl, "#!/bin/sh\necho \"systemctl $*\"\n").unwrap();
    fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o700)).unwrap();
    let text = format!("ends_at=1790000000 cloud=aws store=s3://b\n{PRELUDE}\n");
    let path = format!("{}:{}", root.path().join("bin").display(), std::env::var("PATH").unwrap());
    let run = |folder: Option<&str>| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &text]).env_clear().env("PATH", &path).env("GPUPLAN_MACHINE_ROOT", root.path());
        let said = shell.envs(folder.map(|folder| ("GPUPLAN_MACHINE_FOLDER", folder))).output().unwrap();
        String::from_utf8_lossy(&said.stderr).into_owned()
    };
    let stand_in = root.path().join("folder").display().to_string();
    assert_eq!(run(Some(&stand_in)), "", "a machine that is a folder has no timer");
    assert_eq!(
        run(None),
        "systemctl daemon-reload\nsystemctl enable gpuplan-end.timer\nsystemctl restart gpuplan-end.timer\n"
    );
    let unit = |name: &str| fs::read_to_string(root.path().join("etc/systemd/system").join(name)).unwrap();
    assert!(unit("gpuplan-end.timer").contains("OnCalendar=2026-09-21 14:13:20 UTC\nPersistent=true\n"));
    assert!(unit("gpuplan-end.service").contains("ExecStart=/bin/sh -c \"shutdown -P now\"\n"));
}

#[test]
fn a_variable_keeps_its_every_sign_in_a_file_of_its_own() {
    let root = tempfile::tempdir().unwrap();
    let value = "it's \\ $HOME `x` \"q\"\nnext";
    let lines = format!(
        "keep ODD {}\nprintf '%s' \"${{ODD:-}}\"\nls -l environment | cut -c 1-10\n. ./environment\nprintf '%s\\n' \"$ODD\"",
        quoted(value)
    );
    fs::create_dir_all(root.path().join("var/lib")).unwrap();
    assert_eq!(begun(root.path(), &[], &lines), format!("-rw-------\n{value}\nin /var/lib/gpuplan\n"));
}

/// What the engine was told and given, and whether anything of it is left.
#[test]
fn a_machine_signs_in_to_the_registry_of_its_image_and_leaves_no_password() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("var/lib")).unwrap();
    let stubs = "sleep() { :; }; secret() { echo 'us:pa:ss w0rd'; }; google() { echo '{\"access_token\": \"of-google\"}'; }; \
         aws() { echo \"aws $*\" >>asked; echo of-aws; }; \
         docker() { [ $1 != login ] || { cat >>given; cat given >$DOCKER_CONFIG/config.json; }; echo \"$*\" >>asked; \
         [ $1 != pull ] || ls registry >>asked 2>/dev/null; true; }";
    let images = [
        ("aws", "1.dkr.ecr.eu-west-1.amazonaws.com/a/b:1", ""),
        ("gcp", "europe-docker.pkg.dev/p/r/i:1", ""),
        ("aws", "us/private", "login"),
        ("fake", "ghcr.io/us/private:1", "login"),
        // Nobody signs in to what lets everybody in, or to what is not of this cloud.
        ("aws", "ubuntu:22.04", ""),
        ("aws", "localhost:5000/i", ""),
        ("aws", "europe-docker.pkg.dev/p/r/i:1", ""),
    ];
    let pulls = images.map(|(cloud, image, login)| format!("cloud={cloud}; pull {image} {login} 2>/dev/null"));
    let lines = format!("{stubs}\n{}\ncat asked given; ls -d registry 2>&1; env", pulls.join("\n"));
    let said = begun(root.path(), &[], &lines);
    let login = |user: &str, at: &str| format!("login --username {user} --password-stdin {at}\n");
    let pull = |index: usize| format!("pull --quiet {}\n", images[index].1);
    let expected = [
        "aws ecr get-login-password --region eu-west-1\n".to_owned(),
        login("AWS", "1.dkr.ecr.eu-west-1.amazonaws.com"),
        pull(0) + "config.json\n",
        login("oauth2accesstoken", "europe-docker.pkg.dev"),
        pull(1) + "config.json\n",
        login("us", "docker.io"),
        pull(2) + "config.json\n",
        login("us", "ghcr.io"),
        pull(3) + "config.json\n",
        pull(4) + &pull(5) + &pull(6),
    ];
    let given = "of-aws\nof-google\npa:ss w0rdpa:ss w0rd";
    assert!(said.starts_with(&(expected.concat() + given)), "{said}");
    assert!(!said.contains("DOCKER_CONFIG") && !said.contains("REGISTRY_AUTH_FILE"), "{said}");
    assert!(!root.path().join("var/lib/gpuplan/registry").exists());
    let wrong = "finish_for_good() { :; }; agent=true; docker() { :; }; secret() { echo nothing; }; sleep() { :; }; pull ghcr.io/us/i login";
    let said = begun(root.path(), &[], wrong);
    let why = "ghcr.io does not let this machine in: the secret login cannot be read, or is not USER:PASSWORD";
    assert!(said.contains(why) && !said.contains("in /var/lib"), "it goes no further: {said}");
}

/// Its agent has the program save before, so it has to know.
#[test]
fn the_agent_is_told_when_its_machine_ends() {
    let spec = spec();
    let told = |ends_at: i64| {
        let root = tempfile::tempdir().unwrap();
        let agent = root.path().join("agent");
        fs::write(&agent, "#!/bin/sh\necho \"$@\"\n").unwrap();
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o700)).unwrap();
        let job = Job { setup: None, container: None, data: None, secrets: Vec::new(), ..spec.job.clone() };
        let boot = Boot {
            spec: &RunSpec { job, ..spec.clone() },
            order: &order("aws"),
            agent: Source::Here(agent.display().to_string()),
            workdir: None,
            ordered_by: None,
            ends_at: Timestamp::from_second(ends_at).unwrap(),
        };
        let ran = Command::new("sh")
            .args(["-c", &script(&boot)])
            .env("GPUPLAN_MACHINE_FOLDER", root.path())
            .env("GPUPLAN_END_MACHINE", "true")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        let words: Vec<&str> = said.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "--ends-at").unwrap_or_else(|| panic!("{said} {ran:?}"));
        words[at + 1].parse::<i64>().unwrap()
    };
    let (life, now) = (order("aws").lifetime as i64, Timestamp::now().as_second());
    assert_eq!(told(now + 100), now + 100, "it took long to boot, or a group started it late");
    // By its own timer, where that goes off first.
    let own = told(now + 100 * life) - now;
    assert!((life..life + 60).contains(&own), "{own}");
}

#[test]
fn a_machine_whose_lease_nobody_renews_ends() {
    let of = |lines: &str| {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("var/lib")).unwrap();
        let stubs = "finish() { echo finished >>told; }; sleep() { command sleep 0.01; }";
        let left = "echo $(($(cat lease-ends) - $(cut -d . -f 1 /proc/uptime) - 3500 > 0))";
        begun(root.path(), &[], &format!("{stubs}\n{}", lines.replace("LEFT", left)))
    };
    let over = of("hold_lease 0\nwait $lease_timer\ncat told");
    assert!(over.starts_with("finished\n"), "{over}");
    let moved = of("hold_lease 3600\nLEFT\nkill $lease_timer\ncat told 2>/dev/null");
    assert!(moved.starts_with("1\n") && !moved.contains("finished"), "{moved}");
    // Whoever deletes the file gains nothing.
    let deleted = of("hold_lease 3600\nrm lease-ends\nwait $lease_timer\ncat told");
    assert!(deleted.starts_with("finished\n"), "{deleted}");
    // The agent that waits for a next run may hang, too.
    let waits = of(
        "hold_lease 9000\nends_at=$(($(date +%s) + 9000)) agent=waits\nwaits() { LEFT; kill -0 $lease_timer && echo watched; false; }\n\
         await_next t 4000 s r 2>/dev/null\nawait_next t 3000 s r 2>/dev/null\nkill $lease_timer",
    );
    assert!(waits.starts_with("1\nwatched\n0\nwatched\n"), "3,500 s lie between: {waits}");
    // And whoever takes the machine over has a timer of its own.
    let next = "lives() { grep -q 'State:.[RSD]' /proc/TIMER/status 2>/dev/null; }\n\
         for _ in 1 2 3 4 5 6 7 8 9; do lives || break; command sleep 0.1; done; lives || echo unwatched; ls";
    let writes = format!("echo \"{next}\" | sed \"s/TIMER/$lease_timer/g\" >next.sh");
    let taken = of(&format!(
        "hold_lease 9000\nends_at=$(($(date +%s) + 9000)) agent=waits GPUPLAN_MACHINE_FOLDER=$place\nwaits() {{ {writes}; }}\nawait_next t 4000 s r 2>/dev/null"
    ));
    assert_eq!(taken, "unwatched\nnext.sh\nown-files\n");
    // Where a group of the cloud's starts machines nobody granted a share.
    let (spec, order) = (spec(), order("aws"));
    let boot = |ordered_by| Boot {
        spec: &spec,
        order: &order,
        agent: Source::Here("a".to_owned()),
        workdir: None,
        ordered_by,
        ends_at: Timestamp::MAX,
    };
    let by = OrderedBy { lead: 1, lead_at: Timestamp::UNIX_EPOCH, epoch: 1, launched_at: None };
    let (led, kept) = (script(&boot(Some(by.clone()))), script(&boot(None)));
    assert!(led.contains(&format!("\nhold_lease {TERM}\n")) && !kept.contains("\nhold_lease "));
    let lease = &hand_off(&boot(Some(by)))["lease"];
    assert_eq!((lease["order"].as_str(), lease["term_seconds"].as_u64()), (Some(order.token.as_str()), Some(TERM)));
    assert!(hand_off(&boot(None))["lease"].is_null());
    let slow = RunSpec { worst_changeover_hours: 5.0, ..spec.clone() };
    assert_eq!(first_term(&slow), 10 * 3600, "a start that takes that long is no hang");
}

/// EC2 takes 16 KiB. A link that was signed with the keys of a session is nearly two of them.
#[test]
fn a_boot_script_with_long_links_fits() {
    let link = || Source::Fetched { from: format!("https://{}", "x".repeat(1900)), sha256: "a".repeat(64) };
    let spec = spec();
    let boot = Boot {
        spec: &spec,
        order: &order("aws"),
        agent: link(),
        workdir: Some(link()),
        ordered_by: Some(OrderedBy { lead: 1, lead_at: Timestamp::UNIX_EPOCH, epoch: 1, launched_at: None }),
        ends_at: Timestamp::MAX,
    };
    let text = script(&boot);
    assert!(text.len() < (16 << 10) - 512, "{} bytes", text.len());
    assert!(!text.contains("\n# Ends") && text.contains("finish()"), "without the comments of what is alike in all");
}
