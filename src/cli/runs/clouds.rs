//! Clouds that machines are rented from: how each names its buckets, sets up an account and opens a shell.

use std::path::{Path, PathBuf};
use std::process::Command;

use gpuplan_clouds::{aws, gcp};
use gpuplan_launch::Pool;

/// What `launch` and the commands after it need to know of a cloud.
pub struct RentalCloud {
    pub name: &'static str,
    /// Scheme of the addresses of its buckets.
    pub bucket_scheme: &'static str,
    /// Where permissions are checked when no plan names a region.
    pub default_region: &'static str,
    /// What a launch needs in an account, as Terraform.
    pub setup: &'static str,
    /// Goes to the machine with this id by the cloud's own tool, which needs no open port.
    pub go: fn(&Pool, &str, &Errand) -> Command,
    /// Lines for `ssh_config` that make `ssh ALIAS` go there, with this key.
    pub ssh_entry: fn(&Pool, &str, &SshAccess) -> String,
}

/// What somebody wants on a machine.
#[derive(Clone, Copy, Debug)]
pub enum Errand<'a> {
    Shell,
    /// A line for the shell of the machine.
    Run(&'a str),
    /// Ports of the machine, each under the same number here.
    Forward(&'a [u16]),
}

/// How `ssh` is called where the cloud's tool only makes the way.
#[derive(Clone, Debug)]
pub struct SshAccess {
    /// Of this machine in `ssh_config`.
    pub alias: String,
    /// Account on the machine.
    pub user: String,
    pub key: PathBuf,
    pub known_hosts: PathBuf,
}

impl Errand<'_> {
    /// By OpenSSH, with a configuration that knows the machine.
    pub fn by_ssh(&self, config: &Path, alias: &str) -> Command {
        let mut command = Command::new("ssh");
        command.arg("-F").arg(config);
        match self {
            Self::Shell => command.arg(alias),
            Self::Run(line) => command.args([alias, "--", line]),
            Self::Forward(ports) => command.args(forwards(ports)).args(["-N", alias]),
        };
        command
    }
}

fn forwards(ports: &[u16]) -> Vec<String> {
    ports.iter().flat_map(|port| ["-L".to_owned(), format!("127.0.0.1:{port}:127.0.0.1:{port}")]).collect()
}

/// With a configuration of OpenSSH's that one of these clouds wrote.
fn entry(access: &SshAccess, host: &str, way: &str) -> String {
    let SshAccess { alias, user, key, known_hosts } = access;
    format!(
        "Host {alias}\n  HostName {host}\n  User {user}\n  IdentityFile \"{}\"\n  IdentitiesOnly yes\n  StrictHostKeyChecking accept-new\n  \
         UserKnownHostsFile \"{}\"\n  ProxyCommand {way}\n",
        key.display(),
        known_hosts.display()
    )
}

/// One entry a cloud.
static CLOUDS: [RentalCloud; 2] = [
    RentalCloud {
        name: aws::CLOUD,
        bucket_scheme: "s3",
        default_region: "us-east-1",
        setup: aws::SETUP,
        // Everything but a shell goes by OpenSSH through a session.
        go: |pool, id, _| {
            let mut session = Command::new("aws");
            session.args(["ssm", "start-session", "--region", &pool.region, "--target", id]);
            session
        },
        // The key is there for a minute, and for this account alone: no other machine gets in.
        ssh_entry: |pool, id, access| {
            let (region, key) = (&pool.region, access.key.display());
            let way = format!(
                "sh -c \"aws ec2-instance-connect send-ssh-public-key --region {region} --instance-id %h --instance-os-user %r \
                 --ssh-public-key 'file://{key}.pub' >/dev/null && exec aws ssm start-session --region {region} --target %h \
                 --document-name AWS-StartSSHSession --parameters portNumber=%p\""
            );
            entry(access, id, &way)
        },
    },
    RentalCloud {
        name: gcp::CLOUD,
        bucket_scheme: "gs",
        default_region: "us-central1",
        setup: gcp::SETUP,
        go: |pool, id, errand| {
            let (zone, name) = google_place(pool, id);
            let mut session = Command::new("gcloud");
            session.args(["compute", "ssh", "--zone", zone, "--tunnel-through-iap"]);
            match errand {
                Errand::Shell => session.arg(name),
                Errand::Run(line) => session.args([name, "--command", line]),
                Errand::Forward(ports) => session.args([name, "--"]).args(forwards(ports)).arg("-N"),
            };
            session
        },
        ssh_entry: |pool, id, access| {
            let (zone, name) = google_place(pool, id);
            entry(access, name, &format!("gcloud compute start-iap-tunnel %h %p --listen-on-stdin --zone {zone}"))
        },
    },
];

/// Zone and name. Behind them a machine of a group has a number.
fn google_place<'a>(pool: &'a Pool, id: &'a str) -> (&'a str, &'a str) {
    let (zone, rest) = id.split_once('/').unwrap_or((pool.place(), id));
    (zone, rest.split('/').next().unwrap_or(rest))
}

/// `None` for a cloud that is only planned for, and for the stand-in on this machine.
pub fn rental_cloud(name: &str) -> Option<&'static RentalCloud> {
    CLOUDS.iter().find(|cloud| cloud.name == name)
}

/// Names of the clouds that `setup` takes.
pub fn rental_clouds() -> impl Iterator<Item = &'static str> {
    CLOUDS.iter().map(|cloud| cloud.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_launch::Market;

    fn words(command: &Command) -> Vec<String> {
        let arguments = command.get_args().map(|word| word.to_string_lossy().into_owned());
        std::iter::once(command.get_program().to_string_lossy().into_owned()).chain(arguments).collect()
    }

    fn pool(region: &str) -> Pool {
        let (cloud, zone_id) = ("aws".to_owned(), None);
        Pool { cloud, region: region.to_owned(), zone_id, instance_type: "t".to_owned(), market: Market::Spot }
    }

    #[test]
    fn errands_are_words_of_openssh_and_of_gcloud() {
        let by_ssh = |errand: Errand| words(&errand.by_ssh(Path::new("/s/config"), "r")).join("|");
        assert_eq!(by_ssh(Errand::Run("nvidia-smi -L")), "ssh|-F|/s/config|r|--|nvidia-smi -L");
        assert_eq!(by_ssh(Errand::Forward(&[6006])), "ssh|-F|/s/config|-L|127.0.0.1:6006:127.0.0.1:6006|-N|r");
        let google = rental_cloud(gcp::CLOUD).unwrap();
        let gcloud = |errand: Errand| words(&(google.go)(&pool("us-central1"), "us-central1-a/m", &errand)).join("|");
        let way = "--zone|us-central1-a|--tunnel-through-iap";
        assert_eq!(gcloud(Errand::Shell), format!("gcloud|compute|ssh|{way}|m"));
        assert_eq!(gcloud(Errand::Run("ls")), format!("gcloud|compute|ssh|{way}|m|--command|ls"));
        let of_group = (google.go)(&pool("us-central1"), "us-central1-a/m/77", &Errand::Shell);
        assert_eq!(
            words(&of_group).join("|"),
            format!("gcloud|compute|ssh|{way}|m"),
            "its number is no part of its name"
        );
    }

    /// What OpenSSH itself reads in an entry.
    #[test]
    fn openssh_reads_the_entries() {
        let folder = tempfile::tempdir().unwrap();
        let access = SshAccess {
            alias: "gpuplan-r".to_owned(),
            user: "ubuntu".to_owned(),
            key: folder.path().join("id"),
            known_hosts: folder.path().join("known_hosts"),
        };
        let aws = rental_cloud(aws::CLOUD).unwrap();
        let text = (aws.ssh_entry)(&pool("us-east-2"), "i-0ab", &access);
        let config = folder.path().join("config");
        std::fs::write(&config, &text).unwrap();
        assert!(
            text.contains(
                "--region us-east-2 --target %h --document-name AWS-StartSSHSession --parameters portNumber=%p"
            ),
            "{text}"
        );
        let Ok(read) = Command::new("ssh").arg("-F").arg(&config).args(["-G", "gpuplan-r"]).output() else {
            // Nothing is to be read where there is no OpenSSH.
            return;
        };
        let said = String::from_utf8_lossy(&read.stdout).into_owned();
        assert!(read.status.success() && said.contains("hostname i-0ab\n") && said.contains("user ubuntu\n"), "{said}");
        let google = rental_cloud(gcp::CLOUD).unwrap();
        let text = (google.ssh_entry)(&pool("us-central1"), "us-central1-a/m", &access);
        assert!(
            text.contains("HostName m\n")
                && text.contains("start-iap-tunnel %h %p --listen-on-stdin --zone us-central1-a"),
            "{text}"
        );
    }
}
