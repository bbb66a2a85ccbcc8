//! Data that the agent brings before the program starts: there, gone, and from S3.

use std::fs;

use crate::agent::bench::{Bench, TRAINER};
use crate::agent::s3::{environment, make_bucket};
use gpuplan_testbed::moto::Moto;

fn data_of(bench: &Bench) -> String {
    let folder = bench.path("data-set");
    fs::create_dir_all(folder.join("images/a")).unwrap();
    fs::write(folder.join("images/a/1.txt"), "one").unwrap();
    fs::write(folder.join("labels.csv"), "1,one\n").unwrap();
    format!("file://{}", folder.display())
}

#[test]
fn the_program_finds_its_data_and_a_next_agent_what_was_there() {
    let bench = Bench::new();
    let data = data_of(&bench);
    let look = [
        "sh",
        "-c",
        "cat \"$GPUPLAN_DATA_DIR\"/images/a/1.txt \"$GPUPLAN_DATA_DIR\"/labels.csv; ls \"$GPUPLAN_DATA_DIR\"",
    ];
    bench.start("a", &["--data", &data], &look).ends_with(0);
    let said = bench.output(1, 0);
    assert!(said.starts_with("gpuplan: staging 2 files, 0 KiB, at file://"), "{said}");
    assert!(said.ends_with("one1,one\nimages\nlabels.csv\n"), "nothing of ours lies in the folder: {said}");
    assert_eq!(
        (bench.json("status/0.json")["phase"].as_str(), bench.json("dataset.json")["files"].as_u64()),
        (Some("ended"), Some(2))
    );

    fs::write(bench.path("data-set/labels.csv"), "1,two\n").unwrap();
    let mut again = bench.start("a", &["--data", &data], &look);
    again.ends_with(0);
    assert!(again.log().contains("the data is not what this run began with: 2 files"), "{}", again.log());
    assert!(bench.output(2, 0).contains("one1,two\n"));
    assert!(bench.json("status/0.json")["warnings"][0].as_str().unwrap().contains("the data is not what"));
}

#[test]
fn data_that_cannot_be_had_is_said_and_nothing_starts() {
    let bench = Bench::new();
    let nowhere = format!("file://{}", bench.path("nowhere").display());
    let mut agent = bench.start("a", &["--data", &nowhere], &["sh", "-c", "echo started"]);
    agent.ends_with(70);
    assert!(!agent.log().contains("\nstarted"), "{}", agent.log());
    let result = bench.json("result.json");
    assert_eq!((result["outcome"].as_str(), result["exit"].is_null()), (Some("unprepared"), true));
    let why = result["why"].as_str().unwrap();
    assert!(why.starts_with("the data is not at file://") && why.contains("nowhere"), "{why}");
    assert!(bench.output(1, 0).contains(why), "whoever reads the log sees it");
    assert_eq!(bench.json("status/0.json")["is_done"], false);
}

#[test]
fn data_of_a_bucket_is_fetched_once() {
    let Some(moto) = Moto::start("data_of_a_bucket_is_fetched_once") else { return };
    make_bucket(&moto.address, "runs");
    let endpoint = format!("http://{}", moto.address);
    let bench = Bench::at("s3://runs/team/a", &environment(&endpoint));
    // What a first run keeps is the data of the second.
    bench.start("a", &["--keep-last", "1"], &[TRAINER, "--seconds-per-step", "0"]).ends_with(0);
    let data = "s3://runs/team/a/runs/t/manifests";
    let list = ["sh", "-c", "ls \"$GPUPLAN_DATA_DIR\" >listed; exit 0"];
    let mut first = bench.start("b", &["--data", data, "--data-folder", "../deep/data"], &list);
    first.ends_with(0);
    assert!(fs::read_to_string(first.folder.join("listed")).unwrap().starts_with("step-000000000120-e1.json"));
    let sent = fs::read_to_string(bench.path("deep/data/step-000000000120-e1.json")).unwrap();
    assert!(sent.contains("\"step\": 120"), "{sent}");
    let mut second = bench.start("c", &["--data", data, "--data-folder", "../deep/data"], &list);
    second.ends_with(0);
    assert!(second.log().contains("the data is here already"), "{}", second.log());
    let mut nobody = bench.start("d", &["--data", "s3://nobody-has-this/x"], &list);
    nobody.ends_with(70);
    assert!(nobody.log().contains("the data is not at s3://nobody-has-this/x"), "{}", nobody.log());
}
