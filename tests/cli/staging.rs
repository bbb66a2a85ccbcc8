//! What a job is given on its machines: data on a disk, a container around it, and words for when either cannot be had.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cli::support::Ran;

const TRAINER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/train.py");

/// Takes the part of Docker: knows one image, refuses options that it does not know, and runs the command with an empty environment
/// in the given folder, as the process that it is itself.
const DOCKER: &str = r#"#!/bin/sh
echo "$@" >>LOG
case $1 in
  pull)
    [ "$3" = good/image:1 ] && exit
    echo "Error response from daemon: manifest for $3 not found: manifest unknown" >&2
    exit 1
    ;;
  run)
    shift
    while :; do
      case $1 in
        --rm) shift ;;
        --workdir) folder=$2; shift 2 ;;
        --entrypoint) program=$2; shift 2 ;;
        --name | --gpus | --network | --ipc | --ulimit | --stop-timeout | --user | --volume | --device) shift 2 ;;
        -*) echo "unknown flag: $1" >&2; exit 125 ;;
        *) break ;;
      esac
    done
    [ "$1" = good/image:1 ] || exit 125
    shift
    cd "$folder" && exec env -i PATH="$PATH" "$program" "$@"
    ;;
esac
"#;

struct Desk {
    home: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("bin")).unwrap();
        Self { home }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// A workload whose data lies in a folder beside it.
    fn workload(&self, size: &str) -> String {
        fs::create_dir_all(self.path("images/a")).unwrap();
        fs::write(self.path("images/a/1.txt"), "one").unwrap();
        fs::write(self.path("images/b.txt"), "b".repeat(2000)).unwrap();
        self.written(&format!("\n[data]\nlocation = \"images\"\nsize = \"{size}\"\n"))
    }

    /// One kind of GPU and no spot, so that the plan is quickly made and nobody waits for better times.
    fn written(&self, more: &str) -> String {
        let example =
            fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/llama-3.1-8b-finetune.toml")).unwrap();
        let file = self.path("job.toml");
        fs::write(
            &file,
            example.replace("[limits]", "[limits]\ngpus = \"h100-sxm5-80:8\"\npurchase = \"on-demand\"") + more,
        )
        .unwrap();
        file.to_string_lossy().into_owned()
    }

    fn docker(&self) {
        let program = self.path("bin/docker");
        fs::write(&program, DOCKER.replace("LOG", &self.path("docker.log").to_string_lossy())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
        command.args(arguments).current_dir(self.home.path()).stdin(Stdio::null());
        command.env("GPUPLAN_HOME", self.home.path()).env("COLUMNS", "140").env("PATH", path);
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran { stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code().unwrap_or(-1) }
    }

    fn launch(&self, workload: &str, run: &str, more: &[&str], command: &[&str]) -> Ran {
        let words = ["launch", workload, "--cloud", "fake", "-y", "--run", run];
        self.run(&[&words[..], more, &["--"], command].concat())
    }

    fn machines(&self) -> Vec<PathBuf> {
        let folders = fs::read_dir(self.path("fake-cloud/machines")).unwrap().flatten();
        folders.map(|folder| folder.path()).collect()
    }

    fn nothing_is_left(&self) {
        let state = fs::read_to_string(self.path("fake-cloud/state.json")).unwrap();
        let state: serde_json::Value = serde_json::from_str(&state).unwrap();
        assert!(
            state["machines"].as_array().unwrap().iter().all(|kept| kept["machine"]["state"] == "gone"),
            "{state:#}"
        );
    }
}

fn undisturbed() -> String {
    let folder = tempfile::tempdir().unwrap();
    let ended = Command::new(TRAINER)
        .args(["--seconds-per-step", "0"])
        .current_dir(folder.path())
        .stderr(Stdio::null())
        .status();
    assert!(ended.unwrap().success());
    fs::read_to_string(folder.path().join("result.json")).unwrap()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_job_in_a_container_has_its_data_and_secrets_and_hears_the_notice() {
    let desk = Desk::new();
    desk.docker();
    fs::create_dir_all(desk.path("fake-cloud/secrets")).unwrap();
    fs::write(desk.path("fake-cloud/secrets/token"), "it's s3cret").unwrap();
    let workload = desk.workload("1GB");
    let setup = "printf '%s|%s' \"$COLOUR\" \"$TOKEN\" >seen; test ! -e ../environment";
    let job = format!(
        "cmp \"$GPUPLAN_DATA_DIR\"/a/1.txt {0}/a/1.txt && exec {TRAINER} --seconds-per-step 0.15",
        desk.path("images").display()
    );
    let scenario = desk.path("scenario.toml");
    fs::write(&scenario, "interrupt_after_seconds = [6.0]\nnotice_seconds = 5.0\n").unwrap();
    let played = scenario.to_string_lossy();
    let options = [
        "--fake-scenario",
        &played,
        "--image",
        "docker://good/image:1",
        "--env",
        "COLOUR=deep\n'blue' $x",
        "--secret",
        "TOKEN=token",
        "--setup",
        setup,
    ];
    let ran = desk.launch(&workload, "box", &options, &["sh", "-c", &job]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "box: completed\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("data      2 files, 2 KiB, from file://"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("container good/image:1") && ran.stderr.contains("interrupted, its work is saved"),
        "{}",
        ran.stderr
    );
    let machines = desk.machines();
    assert_eq!(machines.len(), 2, "the notice reached the program, and another machine went on");
    let results: Vec<String> =
        machines.iter().filter_map(|machine| fs::read_to_string(machine.join("work/result.json")).ok()).collect();
    assert_eq!(results, [undisturbed()]);
    for machine in &machines {
        assert_eq!(read(&machine.join("work/seen")), "deep\n'blue' $x|it's s3cret");
        assert!(!read(&machine.join("boot.sh")).contains("s3cret"), "a boot script has no secret");
        assert!(!machine.join("environment").exists(), "read once");
    }
    let said = desk.run(&["logs", "box"]).stdout;
    assert_eq!(said.matches("gpuplan: staging 2 files, 2 KiB, at file://").count(), 2, "on each machine: {said}");
    let asked = read(&desk.path("docker.log"));
    assert_eq!(asked.matches("pull --quiet good/image:1\n").count(), 2, "{asked}");
    assert!(!asked.contains("s3cret") && !asked.contains("blue"), "arguments can be read by everybody: {asked}");
    for machine in machines.iter().map(|machine| machine.display()) {
        let agent = env!("CARGO_BIN_EXE_gpuplan");
        for part in
            ["--gpus all", "--network host", "--ipc host", "--user 0:0", &format!("--volume {agent}:{agent}:ro")]
        {
            assert_eq!(asked.matches(part).count(), 2, "{part}: {asked}");
        }
        assert!(asked.contains(&format!("--volume {machine}:{machine} --workdir {machine}/work")), "{asked}");
    }
    desk.nothing_is_left();
}

/// Files below the folder in which the text stands.
fn holding(folder: &Path, text: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            holding(&path, text, found);
        } else if fs::read(&path).is_ok_and(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes())) {
            found.push(path);
        }
    }
}

#[test]
fn a_machine_signs_in_to_a_private_registry_and_the_password_stands_nowhere() {
    let desk = Desk::new();
    let signs_in = "  login) cat >\"$DOCKER_CONFIG/config.json\"; exec grep -q 'pa:ss w0rd' \"$DOCKER_CONFIG/config.json\" ;;\n  pull)\n    \
         grep -qs 'pa:ss w0rd' \"$DOCKER_CONFIG/config.json\" || { echo unauthorized >&2; exit 1; }\n";
    let private = DOCKER.replace("good/image:1", "ghcr.io/us/private:1").replace("  pull)\n", signs_in);
    fs::write(desk.path("bin/docker"), private.replace("LOG", &desk.path("docker.log").to_string_lossy())).unwrap();
    fs::set_permissions(desk.path("bin/docker"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::create_dir_all(desk.path("fake-cloud/secrets")).unwrap();
    fs::write(desk.path("fake-cloud/secrets/registry"), "us:pa:ss w0rd\n").unwrap();
    let workload = desk.written("");
    let image = ["--fake-scenario", "calm", "--container", "ghcr.io/us/private:1"];
    let login = [&image[..], &["--container-login", "registry"]].concat();
    let job = ["sh", "-c", "! env | grep -q 'pa:ss' && test ! -e ../registry"];
    let ran = desk.launch(&workload, "box", &login, &job);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "box: completed\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("signed in with the secret registry"), "{}", ran.stderr);
    let asked = read(&desk.path("docker.log"));
    assert!(
        asked.starts_with("login --username us --password-stdin ghcr.io\npull --quiet ghcr.io/us/private:1\n"),
        "{asked}"
    );
    let mut found = Vec::new();
    holding(desk.home.path(), "pa:ss w0rd", &mut found);
    // The stand-in for the engine knows it, too.
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|path| path.ends_with("secrets/registry") || path.ends_with("bin/docker")), "{found:?}");
    let without = desk.launch(&workload, "shut", &image, &["true"]);
    assert!(without.code == 1 && without.stderr.contains("the command failed"), "{}", without.stderr);
    let said = desk.run(&["logs", "shut"]).stdout;
    assert!(said.contains("the image ghcr.io/us/private:1 cannot be pulled: unauthorized"), "{said}");
    let none = desk.launch(&workload, "none", &["--container-login", "registry"], &["true"]);
    assert!(none.code == 2 && none.stderr.contains("none is named"), "{}", none.stderr);
    desk.nothing_is_left();
}

#[test]
fn data_that_is_mounted_is_read_where_it_lies() {
    let desk = Desk::new();
    let workload = desk.workload("1GB");
    let text = read(Path::new(&workload)) + "storage = \"object-store\"\n";
    fs::write(&workload, text).unwrap();
    let job = format!(
        "test -L \"$GPUPLAN_DATA_DIR\" && cmp \"$GPUPLAN_DATA_DIR\"/a/1.txt {}/a/1.txt",
        desk.path("images").display()
    );
    let ran = desk.launch(&workload, "mounted", &["--fake-scenario", "calm"], &["sh", "-c", &job]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "mounted: completed\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("2 files, 2 KiB, mounted from file://"), "{}", ran.stderr);
    assert!(!desk.run(&["logs", "mounted"]).stdout.contains("staging"), "nothing is copied");
    let planned = desk.run(&["plan", &workload, "--output", "json"]).json();
    assert_eq!(planned["recommendation"]["staging"], serde_json::Value::Null);
    desk.nothing_is_left();
}

#[test]
fn what_is_wrong_with_an_image_ends_the_run_with_its_reason() {
    let desk = Desk::new();
    desk.docker();
    let example = &desk.written("");
    let calm = ["--fake-scenario", "calm", "--container"];
    let gone = desk.launch(example, "gone", &[&calm[..], &["bad/image:2"]].concat(), &["true"]);
    assert_eq!(gone.code, 1, "{}", gone.stderr);
    assert_eq!(desk.machines().len(), 1, "another machine would not find it either: {}", gone.stderr);
    let said = desk.run(&["logs", "gone"]).stdout;
    assert!(
        said.contains(
            "gpuplan: the image bad/image:2 cannot be pulled: Error response from daemon: manifest for bad/image:2"
        ),
        "{said}"
    );
    // It is there, and what runs it refuses to: a machine without NVIDIA's toolkit does.
    let refusing = DOCKER.replace("LOG", "/dev/null").replace("exec env -i", "exit 125; exec env -i");
    fs::write(desk.path("bin/docker"), refusing).unwrap();
    let stuck = desk.launch(example, "stuck", &[&calm[..], &["good/image:1"]].concat(), &["true"]);
    assert_eq!(stuck.code, 1, "{}", stuck.stderr);
    let said = desk.run(&["logs", "stuck"]).stdout;
    assert!(said.contains("gpuplan: the container does not start (exit code 125)"), "{said}");
    let both = desk.launch(example, "no", &["--image", "docker://a", "--container", "b"], &["true"]);
    assert!(both.code == 2 && both.stderr.contains("both name a container"), "{}", both.stderr);
    desk.nothing_is_left();
}

#[test]
fn data_that_is_missing_or_too_large_is_said_before_anything_is_rented_and_later_by_the_run() {
    let desk = Desk::new();
    let workload = desk.workload("1kB");
    let large = desk.launch(&workload, "large", &[], &["true"]);
    assert_eq!(large.code, 2, "{}", large.stderr);
    assert!(
        large.stderr.contains("2 KiB are stored at file://") && large.stderr.contains("size = \"1GB\""),
        "{}",
        large.stderr
    );
    let workload = desk.workload("1GB");
    let planned = desk.run(&["plan", &workload, "--output", "json"]).json();
    let staging = &planned["recommendation"]["staging"];
    let (bytes, rate, seconds) =
        (&staging["bytes"], &staging["bytes_per_second"], staging["seconds"].as_f64().unwrap());
    assert!((bytes.as_f64().unwrap() / rate.as_f64().unwrap() - seconds).abs() < 1e-9 && seconds > 0.0, "{staging}");
    // A command that cannot be run ends the run at once.
    let failed = desk.launch(&workload, "late", &["--fake-scenario", "calm"], &["no-such-command"]);
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    fs::remove_dir_all(desk.path("images")).unwrap();
    let gone = desk.launch(&workload, "gone", &[], &["true"]);
    assert!(gone.code == 2 && gone.stderr.contains("there is nothing at file://"), "{}", gone.stderr);
    assert!(gone.stderr.contains("nothing was rented"), "{}", gone.stderr);
    let resumed = desk.run(&["resume", "late"]);
    assert_eq!(resumed.code, 1, "{}", resumed.stderr);
    assert!(resumed.stderr.contains("the command failed: the data is not at file://"), "{}", resumed.stderr);
    desk.nothing_is_left();
}
