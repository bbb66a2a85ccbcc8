//! The boot script: the first thing that a rented machine runs. Its first line arms the end of the machine.

pub mod request;

use shlex::Quoter;

use crate::controller::events::Order;
use crate::job::Data;
use crate::spec::RunSpec;
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
        format!("cloud={} store={}", quoted(cloud), quoted(&spec.store)),
        PRELUDE.trim_end().to_owned(),
        written("hand-off.json", &hand_off(spec, order).to_string()),
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
    lines.extend(job.environment.iter().map(|(name, value)| format!("keep {name} {}", quoted(value))));
    for secret in &job.secrets {
        let why = quoted(&format!("the secret {} cannot be read", secret.name));
        lines.push(format!("value=$(secret {}) || fail {why}", quoted(&secret.name)));
        lines.push(format!("keep {} \"$value\"", secret.variable));
    }
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
    let failed = "{ echo 'gpuplan: the setup command failed' >&2; exit 1; }";
    lines.extend(job.setup.iter().map(|setup| format!("sh -c {} || {failed}", quoted(setup))));
    let agent = match &boot.agent {
        Source::Here(path) => quoted(path),
        Source::Fetched { .. } => "../agent".to_owned(),
    };
    let copied = job.data.as_ref().filter(|data| !data.is_mounted);
    let data = copied.map_or_else(String::new, |data| {
        format!(" --data {} --data-folder \"$GPUPLAN_DATA_DIR\"", quoted(&data.address))
    });
    let sweep = job.sweep.map_or_else(String::new, |sweep| {
        format!(" --sweep {} --parallel {} --gpus-per-run {}", sweep.runs, sweep.parallel, sweep.gpus_per_run)
    });
    let command: Vec<String> = job.command.iter().map(|word| quoted(word)).collect();
    lines.push(format!(
        "exec {agent} agent --store {} --hand-off ../hand-off.json{data}{sweep} ${{GPUPLAN_AGENT_OPTIONS:-}} -- {}",
        quoted(&boot.spec.store),
        command.join(" ")
    ));
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

fn hand_off(spec: &RunSpec, order: &Order) -> serde_json::Value {
    serde_json::json!({
        "version": 1,
        "run": spec.run,
        "node": order.node,
        "nodes": spec.nodes,
        "rate_usd_per_hour": order.choice.rate,
        "billing": { "minimum_seconds": order.choice.minimum_seconds },
        "lifetime_seconds": order.lifetime.max(0.0) as u64,
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
    use crate::controller::events::Rentable;
    use crate::job::{Job, Parcel, Secret};
    use crate::ports::machine::{Market, Pool};
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
            budget_usd: None,
            lifetime_hours: 2.0,
            silence_seconds: 600.0,
            expected_cost_usd: Usd::ZERO,
            steps: 1.0,
            store: "s3://b/p".to_owned(),
            image: None,
            disk_gib: 100,
            tags: Vec::new(),
            is_kept: false,
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
            },
        }
    }

    fn written(cloud: &str) -> String {
        let pool = Pool {
            cloud: cloud.to_owned(),
            region: "r".to_owned(),
            zone_id: None,
            instance_type: "t".to_owned(),
            market: Market::Spot,
        };
        let order = Order {
            epoch: 1,
            node: 1,
            choice: Rentable { pool, rate: UsdPerHour::from_nanos(1), minimum_seconds: 60 },
            token: "t".to_owned(),
            name: "n".to_owned(),
            lifetime: 7201.0,
        };
        let signed = Link::Signed("https://b.s3.amazonaws.com/agent?X-Amz-Signature=a&b=c".to_owned());
        let source = Source::linked(&signed, "ab");
        script(&Boot { spec: &spec(), order: &order, agent: source.clone(), workdir: Some(source) })
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
            "secret gpuplan/t",
            "keep T \"$value\"",
            "choose_data_folder",
            "pull pytorch/pytorch:2",
            "cat >start.sh",
            "sh -c \"pip",
            "exec ../agent agent --store",
            "--data s3://b/data --data-folder",
            "--sweep 64 --parallel 8 --gpus-per-run 1 ${GPUPLAN_AGENT_OPTIONS:-} -- ./train.py",
            "run_in pytorch/pytorch:2",
        ];
        let places: Vec<usize> =
            order.iter().map(|part| text.rfind(part).unwrap_or_else(|| panic!("{part}: {text}"))).collect();
        assert!(places.is_sorted(), "{places:?}: {text}");
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
            &format!("mount_data file://{}/set; cat \"$GPUPLAN_DATA_DIR/a\"", here.path().display()),
        );
        assert!(said.ends_with("1\nin /var/lib/gpuplan\n"), "{said}");
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
    fn a_variable_keeps_its_every_sign_in_a_file_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        let value = "it's \\ $HOME `x` \"q\"\nnext";
        let lines = format!(
            "keep ODD {}\nunset ODD\nls -l environment | cut -c 1-10\n. ./environment\nprintf '%s\\n' \"$ODD\"",
            quoted(value)
        );
        fs::create_dir_all(root.path().join("var/lib")).unwrap();
        assert_eq!(begun(root.path(), &[], &lines), format!("-rw-------\n{value}\nin /var/lib/gpuplan\n"));
    }
}
