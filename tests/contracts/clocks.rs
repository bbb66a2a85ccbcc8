//! This computer's clock is a day ahead of the cloud's, which judges what is past its time.

use gpuplan::clouds::aws::account::session::Session;
use gpuplan::clouds::aws::launcher::AwsLauncher;
use gpuplan::launch::Launcher;
use jiff::{SignedDuration, Timestamp};

use crate::contracts::aws::patient;
use gpuplan_testbed::answers::ec2;
use gpuplan_testbed::cloud_box::KEYS;
use gpuplan_testbed::server::{Reply, Request, Server};

/// `gc -y` took every machine of an account for overdue, and swept what the machines of a fleet start from.
#[test]
fn aws_a_machine_is_overdue_by_the_clock_of_ec2() {
    const DAY: SignedDuration = SignedDuration::from_hours(24);
    let expires = Timestamp::now() - SignedDuration::from_hours(12);
    let server = Server::start(move |request: &Request| {
        let tags = format!(
            "<item><key>gpuplan:run</key><value>r</value></item><item><key>gpuplan:expires</key><value>{expires}</value></item>"
        );
        let machine = format!(
            "<reservationSet><item><instancesSet><item><instanceId>i-1</instanceId><instanceState><name>running</name>\
             </instanceState><tagSet>{tags}</tagSet></item></instancesSet></item></reservationSet>"
        );
        let (action, content) = if request.body.contains("Action=DescribeRegions") {
            ("DescribeRegions", "<regionInfo><item><regionName>us-east-1</regionName></item></regionInfo>".to_owned())
        } else if request.body.contains("Action=DescribeInstances") {
            ("DescribeInstances", machine)
        } else if request.body.contains("Action=DescribeLaunchTemplates") {
            let template = format!(
                "<launchTemplates><item><launchTemplateId>lt-1</launchTemplateId><tagSet>{tags}</tagSet></item></launchTemplates>"
            );
            ("DescribeLaunchTemplates", template)
        } else {
            (
                "DescribePlacementGroups",
                format!(
                    "<placementGroupSet><item><groupName>g</groupName><tagSet>{tags}</tagSet></item></placementGroupSet>"
                ),
            )
        };
        Reply::Skewed(-DAY.as_secs(), "text/xml", ec2(action, &content))
    });
    let launcher = AwsLauncher::new(Session::at(&server.endpoint, KEYS[0], KEYS[1], patient()));
    assert_eq!(launcher.time(), None, "nothing was asked yet");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listed = runtime.block_on(launcher.list(None)).unwrap();
    let there = launcher.time().unwrap();
    let ahead = Timestamp::now().duration_since(there);
    assert!((ahead - DAY).abs() < SignedDuration::from_mins(10), "{ahead:?}");
    assert_eq!(listed.len(), 1);
    assert!(listed[0].is_overdue(Timestamp::now()) && !listed[0].is_overdue(there));
    let asked: Vec<String> = server.asked().into_iter().map(|request| request.body).collect();
    assert!(asked.iter().any(|body| body.contains("Action=DescribeLaunchTemplates")), "{asked:?}");
    assert!(!asked.iter().any(|body| body.contains("Action=Delete")), "by that clock nothing is past: {asked:?}");
}
