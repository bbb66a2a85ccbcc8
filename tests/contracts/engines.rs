//! The contract of `Engine`, over clients that behave as the real ones were recorded.

use std::fs;

use gpuplan::launch::{Engine, EngineError, JobId, JobState, Submission};
use jiff::Timestamp;

use gpuplan_testbed::clients::Clients;

/// An engine over these clients, a file that it takes, and its words for running and for being made anew.
pub struct Case {
    pub engine: fn(Option<std::ffi::OsString>) -> Box<dyn Engine>,
    pub name: &'static str,
    pub text: &'static str,
    pub running: &'static str,
    pub interrupted: &'static str,
}

fn work(case: &Case, output: &str) -> Submission {
    Submission {
        run: "r".to_owned(),
        engine: case.name.to_owned(),
        token: "0a1b2c3d4e5f".to_owned(),
        text: case.text.to_owned(),
        options: Vec::new(),
        nodes: 1,
        rate: None,
        expected_cost: None,
        store: "file:///store".to_owned(),
        output: output.to_owned(),
        handed_at: Timestamp::UNIX_EPOCH,
    }
}

/// What the doc comment of `Engine` promises and a client can show.
pub fn keep_the_contract(case: &Case) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        one_life(case).await;
        a_lost_answer(case).await;
        refusals(case).await;
    });
}

async fn one_life(case: &Case) {
    let clients = Clients::of(case.name);
    let engine = (case.engine)(Some(clients.path().into_os_string()));
    let output = clients.path().join("output");
    let work = work(case, &output.to_string_lossy());
    assert_eq!(engine.find(&work).await, Ok(None));
    let job = engine.submit(&work).await.unwrap();
    assert_eq!(engine.submit(&work).await.as_ref(), Ok(&job), "the same token is the same job");
    assert_eq!((engine.find(&work).await, clients.submissions()), (Ok(Some(job.clone())), 1));
    let other = Submission { token: "ffffffffffff".to_owned(), ..work.clone() };
    assert_eq!(engine.find(&other).await, Ok(None), "another token is another job");
    assert_eq!(engine.status(&work, &job).await.unwrap().state, JobState::Waiting);
    clients.is_now(case.running);
    let status = engine.status(&work, &job).await.unwrap();
    assert!(status.state == JobState::Running && !status.words.is_empty(), "{status:?}");
    // Slurm has a file where the others have a client.
    fs::write(&output, "step 1 of 2\n").unwrap();
    assert_eq!(engine.logs(&work, &job, 0).await.unwrap(), b"step 1 of 2\n");
    clients.is_now(case.interrupted);
    assert_eq!(engine.status(&work, &job).await.unwrap().state, JobState::Interrupted);
    engine.stop(&work, &job).await.unwrap();
    let state = engine.status(&work, &job).await.unwrap().state;
    assert!(matches!(state, JobState::Stopped | JobState::Gone), "{state:?}");
    engine.stop(&work, &job).await.unwrap();
    let unknown = JobId("999".to_owned());
    assert_eq!(engine.status(&work, &unknown).await.unwrap().state, JobState::Gone);
    engine.stop(&work, &unknown).await.unwrap();
}

async fn a_lost_answer(case: &Case) {
    let clients = Clients::of(case.name);
    let (engine, work) = ((case.engine)(Some(clients.path().into_os_string())), work(case, "/nowhere"));
    clients.loses_answers();
    let first = engine.submit(&work).await;
    assert!(matches!(first, Ok(_) | Err(EngineError::Unclear { .. })), "{first:?}");
    let job = engine.find(&work).await.unwrap().unwrap();
    assert_eq!((engine.submit(&work).await, clients.submissions()), (Ok(job), 1));
}

async fn refusals(case: &Case) {
    let clients = Clients::of(case.name);
    let engine = (case.engine)(Some(clients.path().into_os_string()));
    let broken = Submission { text: format!("{}# broken\n", case.text), ..work(case, "/nowhere") };
    match engine.submit(&broken).await {
        Err(EngineError::Refused { detail, .. }) => assert!(detail.to_lowercase().contains("error"), "{detail}"),
        other => panic!("{other:?}"),
    }
    let nowhere = (case.engine)(Some(Clients::of("none").path().into_os_string()));
    match nowhere.submit(&broken).await {
        Err(EngineError::Missing { install, .. }) => assert!(!install.is_empty()),
        other => panic!("{other:?}"),
    }
}
