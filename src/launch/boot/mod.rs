//! The boot script: the first thing that a rented machine runs. Its first line arms the end of the machine.

pub mod request;

use shlex::Quoter;

use crate::controller::events::Order;
use crate::job::Data;
use crate::spec::RunSpec;
use gpuplan_runstore::OrderedBy;
use gpuplan_runstore::store::Link;

/// What every boot script says alike: how to fetch, to fail and to end.
const PRELUDE: &str = include_str!("boot.sh");
const SECONDS_PER_MINUTE: u64 = 60;

/// What one machine of a run is told.
pub struct Boot<'a> {
    pub spec: &'a RunSpec,
    pub order: &'a Order,
    pub agent: Source,
    pub workdir: Option<Source>,
    /// `None`: no leader did, as where a cloud starts machines by itself.
    pub ordered_by: Option<OrderedBy>,
}

/// A file for a machine, as its boot script takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// It is on the machine.
    Here(String),
    Fetched {
        from: String,
        sha256: String,
    },
}

impl Source {
    pub fn linked(link: &Link, sha256: &str) -> Self {
        let from = match link {
            Link::File(path) => path.to_string_lossy().into_owned(),
            Link::Signed(url) => url.clone(),
            Link::Identified(url) => format!("identified:{url}"),
        };
        Self::Fetched { from, sha256: sha256.to_owned() }
    }
}

/// A POSIX shell script. It carries no secret: a boot script can be read by whoever may describe the machine.
pub fn script(boot: &Boot) -> String {
    let (spec, order, job) = (boot.spec, boot.order, &boot.spec.job);
    let life = order.lifetime.max(0.0) as u64;
    let minutes = life.div_ceil(SECONDS_PER_MINUTE);
    let cloud = spec.rented_from(&order.choice.pool.cloud);
    let mut lines = vec![
        "#!/bin/sh".to_owned(),
        format!("# The machine ends itself after {life} s, whatever becomes of the rest."),
        format!(
            "if [ -n \"${{GPUPLAN_END_MACHINE:-}}\" ]; then (sleep {life}; $GPUPLAN_END_MACHINE) >/dev/null 2>&1 & \
             else shutdown -P +{minutes}; fi"
        ),
        format!("ends_at=$(($(date +%s) + {life})) cloud={} store={}", quoted(cloud), quoted(&spec.store)),
        PRELUDE.trim_end().to_owned(),
        written("hand-off.json", &hand_off(boot).to_string()),
    ];
    lines.push(match &boot.agent {
        Source::Here(path) => format!("agent={}", quoted(path)),
        Source::Fetched { from, sha256 } => {
            format!("fetch agent {sha256} {}\nchmod 700 agent\nagent=$place/agent", quoted(from))
        }
    });
    if let Some(Source::Fetched { from, sha256 }) = &boot.workdir {
        lines.push(format!("fetch workdir.tar.gz {sha256} {}", quoted(from)));
        lines.push("tar -xzf workdir.tar.gz -C work || fail 'the folder of the job cannot be unpacked'".to_owned());
    }
    // The first is the region of the run's store, which the tools of this script ask for, too. No other variable of the job acts here.
    let region = job.environment.iter().find(|(name, _)| cloud == "aws" && name == "AWS_REGION");
    lines.extend(region.map(|(name, value)| format!("export {name}={}", quoted(value))));
    lines.extend(job.environment.iter().map(|(name, value)| format!("keep {name} {}", quoted(value))));
    let secrets = job.secrets.iter();
    lines.extend(secrets.map(|secret| format!("take_secret {} {}", secret.variable, quoted(&secret.name))));
    let placed = |data: &Data| {
        if data.is_mounted { format!("mount_data {}", quoted(&data.address)) } else { "choose_data_folder".to_owned() }
    };
    lines.extend(job.data.iter().map(placed));
    lines.extend(job.container.iter().map(|image| format!("pull {}", quoted(image))));
    lines.push(written("start.sh", &start(boot)));
    lines.push("cd work".to_owned());
    lines.push(match &job.container {
        Some(image) => format!("name_of_container={}\nrun_in {} &", quoted(&order.name), quoted(image)),
        None => "sh ../start.sh &".to_owned(),
    });
    lines.push(LAST.to_owned());
    if job.container.is_some() {
        lines.push(
            "[ -e ../started ] || { cd ..; reject \"the container does not start (exit code $code): it needs a shell, and the \
                    machine NVIDIA's container toolkit\"; }"
                .to_owned(),
        );
    }
    lines.extend(spec.keep_warm_seconds.map(|seconds| {
        let (store, run) = (quoted(&spec.store), quoted(&spec.run));
        format!("[ $code != 0 ] || await_next {} {seconds:.0} {store} {run}", quoted(&order.token))
    }));
    lines.push(END.to_owned());
    lines.join("\n") + "\n"
}

/// What runs in the folder of the job, in its container if it has one, and becomes the agent.
fn start(boot: &Boot) -> String {
    let job = &boot.spec.job;
    let mut lines = vec![": >../started".to_owned(), ". ../environment".to_owned(), "rm -f ../environment".to_owned()];
    if job.container.is_some() {
        lines.push(CERTIFICATES.to_owned());
    }
    let agent = match &boot.agent {
        Source::Here(path) => quoted(path),
        Source::Fetched { .. } => "../agent".to_owned(),
    };
    let called = format!("exec {agent} agent --store {} --hand-off ../hand-off.json", quoted(&boot.spec.store));
    // What fails here fails on every machine: the agent says so in the log of the run, which has failed by that.
    lines.extend(job.setup.iter().map(|setup| {
        format!(
            "sh -c {} >../setup.log 2>&1\ncode=$?\ncat ../setup.log >&2\n[ $code = 0 ] || {called} ${{GPUPLAN_AGENT_OPTIONS:-}} --no-restart -- sh -c {} sh $code",
            quoted(setup),
            quoted(SETUP_FAILED)
        )
    }));
    let copied = job.data.as_ref().filter(|data| !data.is_mounted);
    let data = copied.map_or_else(String::new, |data| {
        format!(" --data {} --data-folder \"$GPUPLAN_DATA_DIR\"", quoted(&data.address))
    });
    let sweep = job.sweep.map_or_else(String::new, |sweep| {
        format!(" --sweep {} --parallel {} --gpus-per-run {}", sweep.runs, sweep.parallel, sweep.gpus_per_run)
    });
    let options = job.agent_options.iter().fold(String::new(), |words, word| words + " " + &quoted(word));
    let command: Vec<String> = job.command.iter().map(|word| quoted(word)).collect();
    lines.push(format!("{called}{data}{sweep}{options} ${{GPUPLAN_AGENT_OPTIONS:-}} -- {}", command.join(" ")));
    lines.join("\n")
}

/// The lines that write a text into a file. The end is no line of the text.
fn written(file: &str, text: &str) -> String {
    let mut end = "GPUPLAN_END".to_owned();
    while text.contains(&end) {
        end.push('_');
    }
    format!("cat >{file} <<'{end}'\n{text}\n{end}")
}

/// Images without certificates of their own trust those of the machine.
const CERTIFICATES: &str = "[ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] || \
     [ ! -e ../certificates.crt ] || export SSL_CERT_FILE=\"$(cd .. && pwd)/certificates.crt\"";

/// In place of the command, with the exit code of the setup.
const SETUP_FAILED: &str =
    "tail -n 40 ../setup.log; echo \"gpuplan: the setup command failed with exit code $1\"; exit $1";

/// A shell hands no signal on by itself; a wait that a signal ends is no end of the agent.
const LAST: &str = "running=$!
trap 'kill -TERM $running' TERM INT HUP
code=0
wait $running || code=$?
while kill -0 $running 2>/dev/null; do
  code=0
  wait $running || code=$?
done
echo \"gpuplan: the agent ended with exit code $code\" >&2";

/// Interrupted, or followed by another machine, the run goes on.
const END: &str = "case $code in 75 | 76) finish ;; *) finish_for_good ;; esac";

fn hand_off(boot: &Boot) -> serde_json::Value {
    let (spec, order) = (boot.spec, boot.order);
    serde_json::json!({
        "version": 1,
        "run": spec.run,
        "node": order.node,
        "nodes": spec.nodes,
        "rate_usd_per_hour": order.choice.rate,
        "billing": { "minimum_seconds": order.choice.minimum_seconds },
        // With it people are told at 50, 80 and 100 %; and nobody has to lead the run for it to end there.
        "budget_usd": spec.budget_usd,
        "notify": spec.job.notify,
        "lifetime_seconds": order.lifetime.max(0.0) as u64,
        "ordered_by": boot.ordered_by,
    })
}

/// One word for a POSIX shell.
fn quoted(word: &str) -> String {
    Quoter::new().allow_nul(true).quote(word).expect("only a NUL is refused, and it is allowed").into_owned()
}

#[cfg(test)]
mod tests {
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
            started_at: jiff::Timestamp::UNIX_EPOCH,
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
        let ordered_by = Some(OrderedBy { lead: 2, lead_at: jiff::Timestamp::UNIX_EPOCH, epoch: 1 });
        script(&Boot { spec: &spec(), order: &order(cloud), agent: source.clone(), workdir: Some(source), ordered_by })
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
        let told =
            text.split("cat >hand-off.json <<'GPUPLAN_END'\n").nth(1).and_then(|rest| rest.lines().next()).unwrap();
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
        };
        fs::create_dir(root.path().join("work")).unwrap();
        fs::write(root.path().join("environment"), "").unwrap();
        fs::write(root.path().join("start.sh"), start(&boot)).unwrap();
        let ran = Command::new("sh").arg("../start.sh").current_dir(root.path().join("work")).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert_eq!(ran.status.code(), Some(7), "{said}");
        assert!(
            said.contains(
                "--no-restart\nresolving\nno such package\ngpuplan: the setup command failed with exit code 7\n"
            ),
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
            said.contains(&both)
                && said.contains("nodiscard /dev/md0\n")
                && said.ends_with("in /mnt/disks/ssd/gpuplan\n"),
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
}
