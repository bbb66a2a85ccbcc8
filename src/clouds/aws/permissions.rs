//! Tries every action of EC2 that a launch needs as a dry run. Nothing is started or changed.

use std::error::Error;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::types::{
    FleetLaunchTemplateConfigRequest, FleetLaunchTemplateSpecificationRequest, FleetType, InstanceMarketOptionsRequest, InstanceType,
    MarketType, RequestLaunchTemplateData, Tag, TargetCapacitySpecificationRequest,
};

use crate::clouds::aws::dry_run::verdict;
use crate::clouds::aws::session::Account;
use crate::market::{Permission, Verdict};

/// The image that a launch starts, named by its public parameter, so that a dry run needs no lookup of its own.
const IMAGE: &str = "resolve:ssm:/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id";
/// A small type that nearly every region has; permissions seldom differ by type.
const MACHINE: InstanceType = InstanceType::G4dnXlarge;
/// Names nothing that exists. Where AWS looks it up before it looks at the policy, the verdict is unknown.
const NO_MACHINE: &str = "i-00000000000000000";
const NO_TEMPLATE: &str = "gpuplan-dry-run";

/// In the order in which a launch needs them.
pub async fn try_all(account: &Account, region: &str) -> Vec<Permission> {
    let client = &account.ec2(region);
    let say = Tried { account, region };
    let (zones, describe, run, run_spot, fleet, template, group, rules, placement, tags, terminate) = tokio::join!(
        async { say.of(client.describe_availability_zones().dry_run(true).send().await) },
        async { say.of(client.describe_instances().dry_run(true).send().await) },
        async { say.of(run(client).send().await) },
        async { say.of(run(client).instance_market_options(spot()).send().await) },
        async { say.of(fleet(client).send().await) },
        async { say.of(template(client).send().await) },
        async { say.of(client.create_security_group().group_name(NO_TEMPLATE).description(NO_TEMPLATE).dry_run(true).send().await) },
        async { say.of(client.describe_security_groups().dry_run(true).send().await) },
        async { say.of(client.create_placement_group().group_name(NO_TEMPLATE).strategy("cluster".into()).dry_run(true).send().await) },
        async { say.of(tags(client).send().await) },
        async { say.of(client.terminate_instances().instance_ids(NO_MACHINE).dry_run(true).send().await) },
    );
    let permission = |action: &str, needed_for, verdict| Permission { action: action.to_owned(), needed_for, verdict };
    vec![
        permission("ec2:DescribeAvailabilityZones", "finding the zone of an offer", zones),
        permission("ec2:DescribeInstances", "watching what runs", describe),
        permission("ec2:RunInstances", "starting machines on demand", run),
        permission("ec2:RunInstances", "starting spot machines", run_spot),
        permission("ec2:CreateFleet", "starting in whichever zone has capacity", fleet),
        permission("ec2:CreateLaunchTemplate", "starting in whichever zone has capacity", template),
        permission("ec2:CreateSecurityGroup", "keeping machines closed to the internet", group),
        permission("ec2:DescribeSecurityGroups", "keeping machines closed to the internet", rules),
        permission("ec2:CreatePlacementGroup", "machines close together", placement),
        permission("ec2:CreateTags", "finding again what was started", tags),
        permission("ec2:TerminateInstances", "ending what was started", terminate),
    ]
}

struct Tried<'a> {
    account: &'a Account,
    region: &'a str,
}

impl Tried<'_> {
    fn of<T, E: ProvideErrorMetadata + Error + 'static>(&self, outcome: Result<T, SdkError<E, HttpResponse>>) -> Verdict {
        match outcome {
            // A read may be answered where only a dry run was asked for.
            Ok(_) => Verdict::Allowed,
            Err(error) => verdict(&self.account.error(self.region, &error)),
        }
    }
}

fn run(client: &Client) -> aws_sdk_ec2::operation::run_instances::builders::RunInstancesFluentBuilder {
    client.run_instances().image_id(IMAGE).instance_type(MACHINE).min_count(1).max_count(1).dry_run(true)
}

fn spot() -> InstanceMarketOptionsRequest {
    InstanceMarketOptionsRequest::builder().market_type(MarketType::Spot).build()
}

fn fleet(client: &Client) -> aws_sdk_ec2::operation::create_fleet::builders::CreateFleetFluentBuilder {
    let template = FleetLaunchTemplateSpecificationRequest::builder().launch_template_name(NO_TEMPLATE).version("1").build();
    let template = FleetLaunchTemplateConfigRequest::builder().launch_template_specification(template).build();
    let one = TargetCapacitySpecificationRequest::builder().total_target_capacity(1).build();
    client.create_fleet().r#type(FleetType::Instant).launch_template_configs(template).target_capacity_specification(one).dry_run(true)
}

fn template(client: &Client) -> aws_sdk_ec2::operation::create_launch_template::builders::CreateLaunchTemplateFluentBuilder {
    let data = RequestLaunchTemplateData::builder().instance_type(MACHINE).build();
    client.create_launch_template().launch_template_name(NO_TEMPLATE).launch_template_data(data).dry_run(true)
}

fn tags(client: &Client) -> aws_sdk_ec2::operation::create_tags::builders::CreateTagsFluentBuilder {
    client.create_tags().resources(NO_MACHINE).tags(Tag::builder().key("gpuplan:run").value("dry-run").build()).dry_run(true)
}
