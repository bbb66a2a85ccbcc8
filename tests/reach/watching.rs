//! `report --watch`: static pages of runs that renew themselves, by a run on the fake cloud.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::book::Desk;
use crate::cli::report::fits_in_a_browser;

/// Ended with the test, however it ends.
struct Watching(Child);

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn watch(desk: &Desk, more: &str) -> Watching {
    let mut shell = desk.shell(&format!("exec gpuplan --offline report {more}"));
    Watching(shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

fn page(desk: &Desk, name: &str) -> String {
    fs::read_to_string(desk.path().join(name)).unwrap_or_default()
}

/// Waits for something that comes by itself.
fn until(what: &str, mut is_there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < Duration::from_mins(2), "{what} did not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_pages_of_runs_renew_themselves() {
    let desk = Desk::new();
    let _watching = watch(&desk, "--watch pages --every 1s");
    until("a page without runs", || page(&desk, "pages/index.html").contains("No run was launched from this machine."));
    let launched = desk.run("gpuplan launch examples/llama-3.1-8b-lora.toml --cloud fake --run first --tag team=vision --yes -- examples/train.py");
    assert!(!launched.iter().any(|line| line.starts_with("[exit")), "{launched:#?}");
    until("the end of the run on the page", || {
        page(&desk, "pages/index.html").contains("0 running or waiting, 1 ended.")
    });
    let (all, one) = (page(&desk, "pages/index.html"), page(&desk, "pages/run-first.html"));
    for said in [
        "http-equiv=\"refresh\" content=\"1\"",
        "<a href=\"run-first.html\">first</a>",
        "vision",
        "completed",
        "What is completed (1 run) has cost $",
    ] {
        assert!(all.contains(said), "{said}: {all}");
    }
    assert!(one.contains("<a href=\"index.html\">All runs</a>") && one.contains("http-equiv=\"refresh\""), "{one}");
    for text in [all, one] {
        assert!(
            text.len() < 300_000 && !text.contains("<script") && !text.contains("http://127"),
            "{} bytes",
            text.len()
        );
    }
    let left: Vec<_> =
        fs::read_dir(desk.path().join("pages")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.len() <= 3, "what is being written is beside it for a moment at most: {left:?}");
}

#[test]
fn the_page_of_a_run_goes_on_until_it_has_ended() {
    let desk = Desk::new();
    let launch = "gpuplan launch examples/llama-3.1-8b-lora.toml --cloud fake --run one --yes --detach -- sleep 600";
    let launched = desk.run(launch);
    assert!(!launched.iter().any(|line| line.starts_with("[exit")), "{launched:#?}");
    let mut watching = watch(&desk, "one --watch page --every 1s");
    until("the page of the run", || page(&desk, "page/index.html").contains("may still cost money"));
    assert!(watching.0.try_wait().unwrap().is_none(), "the run goes on, and so does its page");
    desk.run("gpuplan stop one --at-once");
    until("the end of the page", || watching.0.try_wait().unwrap().is_some());
    let last = page(&desk, "page/index.html");
    assert!(last.contains("A run, stopped;") && !last.contains("may still cost money"), "{last}");
}

#[test]
#[ignore = "needs chromium; tests/slow.sh runs it"]
fn the_pages_fit_and_can_be_read_in_a_browser() {
    let desk = Desk::new();
    for (run, command) in [
        ("done", "examples/train.py"),
        ("broken", "false"),
        ("a-name-that-is-as-long-as-people-make-them", "sleep 600"),
    ] {
        let detach = if command.starts_with("sleep") { "--detach" } else { "" };
        desk.run(&format!("gpuplan launch examples/llama-3.1-8b-lora.toml --cloud fake --run {run} --tag team=vision --yes {detach} -- {command}"));
    }
    desk.run("gpuplan --offline report --watch pages --every 1h --once");
    for name in ["index.html", "run-done.html", "run-broken.html"] {
        fits_in_a_browser(&page(&desk, &format!("pages/{name}")));
    }
    desk.run("gpuplan stop a-name-that-is-as-long-as-people-make-them --at-once");
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let desk = Desk::new();
    for (command, said) in [
        ("gpuplan report nothing --watch pages --once", "there is no run `nothing`"),
        ("gpuplan report --watch pages --once --budget 5", "--watch shows runs"),
        ("gpuplan report --watch pages --format md", "cannot be used with"),
        ("gpuplan report --watch pages --every 5 --once", "has no unit"),
        ("gpuplan report --once", "--watch"),
    ] {
        let told = desk.run(command).join("\n");
        assert!(told.contains(said) && told.ends_with("[exit 2]"), "{command}: {told}");
    }
}
