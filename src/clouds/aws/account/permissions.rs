//! Tries every action of EC2 that a launch needs as a dry run. Nothing is started or changed.

use std::error::Error;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::types::{
    Filter, FleetLaunchTemplateConfigRequest, FleetLaunchTemplateSpecificationRequest, FleetType,
    IamInstanceProfileSpecification, InstanceMarketOptionsRequest, InstanceType, MarketType, PlacementStrategy,
    RequestLaunchTemplateData, ResourceType, Tag, TagSpecification, TargetCapacitySpecificationRequest,
};

use crate::account::dry_run::verdict;
use crate::account::session::Account;
use crate::launcher::site::MACHINE as ROLE;
use gpuplan_launch::names;
use gpuplan_market::{Permission, Verdict};

/// An image such as a launch starts, named by its public parameter, so that a dry run needs no lookup of its own.
const IMAGE: &str =
    "resolve:ssm:/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id";
/// A small type that nearly every region has; permissions seldom differ by type.
const MACHINE: InstanceType = InstanceType::G4dnXlarge;
/// Names nothing that exists. Where AWS looks it up before it looks at the policy, the verdict is unknown.
const NO_MACHINE: &str = "i-00000000000000000";
const NO_GROUP: &str = "gpuplan-dry-run";
const NO_FLEET: &str = "fleet-00000000-0000-0000-0000-000000000000";
const FLEETS: &str = "--keep-alive and --any-zone";

/// In the order in which a launch needs them.
pub async fn try_all(account: &Account, region: &str) -> Vec<Permission> {
    let client = &account.ec2(region);
    let say = Tried { account, region };
    let machine = Filter::builder().name("instance-type").values(MACHINE.as_str()).build();
    let ours = Filter::builder().name("tag-key").values(names::RUN).build();
    let looks = tokio::join!(
        async { say.verdict_of(client.describe_regions().dry_run(true).send().await) },
        async { say.verdict_of(client.describe_instance_types().filters(machine).dry_run(true).send().await) },
        async { say.verdict_of(client.describe_images().owners("self").dry_run(true).send().await) },
        async { say.verdict_of(client.describe_security_groups().dry_run(true).send().await) },
        async { say.verdict_of(client.describe_subnets().dry_run(true).send().await) },
        async { say.verdict_of(client.describe_instances().filters(ours).dry_run(true).send().await) },
    );
    let acts = tokio::join!(
        async { say.verdict_of(run(client).send().await) },
        async {
            say.verdict_of(
                run(client)
                    .instance_market_options(spot())
                    .tag_specifications(mark(ResourceType::SpotInstancesRequest))
                    .send()
                    .await,
            )
        },
        async { say.verdict_of(run(client).iam_instance_profile(profile()).send().await) },
        async { say.verdict_of(group(client).send().await) },
        async { say.of_marked(client.delete_placement_group().group_name(NO_GROUP).dry_run(true).send().await) },
        async { say.of_marked(client.terminate_instances().instance_ids(NO_MACHINE).dry_run(true).send().await) },
    );
    let fleets = tokio::join!(
        async { say.verdict_of(template(client).send().await) },
        async { say.verdict_of(fleet(client).send().await) },
        async { say.verdict_of(client.describe_fleets().dry_run(true).send().await) },
        async { say.verdict_of(client.describe_launch_templates().dry_run(true).send().await) },
        async {
            say.of_marked(
                client.delete_fleets().fleet_ids(NO_FLEET).terminate_instances(true).dry_run(true).send().await,
            )
        },
        async {
            say.of_marked(client.delete_launch_template().launch_template_name(NO_GROUP).dry_run(true).send().await)
        },
    );
    let permission = |action: &str, needed_for, verdict| Permission { action: action.to_owned(), needed_for, verdict };
    vec![
        permission("ec2:DescribeRegions", "finding machines wherever they are", looks.0),
        permission("ec2:DescribeInstanceTypes", "knowing what a machine can do", looks.1),
        permission("ec2:DescribeImages", "finding the image with drivers", looks.2),
        permission("ec2:DescribeSecurityGroups", "keeping machines closed to the internet", looks.3),
        permission("ec2:DescribeSubnets", "standing in the zone of an offer", looks.4),
        permission("ec2:DescribeInstances", "watching what runs", looks.5),
        permission("ec2:RunInstances", "starting machines on demand", acts.0),
        permission("ec2:RunInstances", "starting spot machines", acts.1),
        permission("iam:PassRole", "letting machines reach the store", acts.2),
        permission("ec2:CreatePlacementGroup", "machines close together", acts.3),
        permission("ec2:DeletePlacementGroup", "machines close together", acts.4),
        permission("ec2:TerminateInstances", "ending what was started", acts.5),
        permission("ec2:CreateLaunchTemplate", FLEETS, fleets.0),
        permission("ec2:CreateFleet", FLEETS, fleets.1),
        permission("ec2:DescribeFleets", FLEETS, fleets.2),
        permission("ec2:DescribeLaunchTemplates", FLEETS, fleets.3),
        permission("ec2:DeleteFleets", FLEETS, fleets.4),
        permission("ec2:DeleteLaunchTemplate", FLEETS, fleets.5),
    ]
}

struct Tried<'a> {
    account: &'a Account,
    region: &'a str,
}

impl Tried<'_> {
    fn verdict_of<T, E: ProvideErrorMetadata + Error + 'static>(
        &self,
        outcome: Result<T, SdkError<E, HttpResponse>>,
    ) -> Verdict {
        match outcome {
            // A read may be answered where only a dry run was asked for.
            Ok(_) => Verdict::Allowed,
            Err(error) => verdict(&self.account.error(self.region, &error)),
        }
    }

    /// Of an action that a good policy allows only on what bears our mark, which nothing does before the first launch.
    fn of_marked<T, E: ProvideErrorMetadata + Error + 'static>(
        &self,
        outcome: Result<T, SdkError<E, HttpResponse>>,
    ) -> Verdict {
        match self.verdict_of(outcome) {
            Verdict::Denied { .. } => Verdict::Unknown {
                detail: format!("not allowed on what has no tag `{}`; it may be on what has", names::RUN),
            },
            verdict => verdict,
        }
    }
}

/// With our mark, without which a good policy allows nothing to be created.
fn mark(kind: ResourceType) -> TagSpecification {
    let run = Tag::builder().key(names::RUN).value(NO_GROUP).build();
    TagSpecification::builder().resource_type(kind).tags(run).build()
}

fn run(client: &Client) -> aws_sdk_ec2::operation::run_instances::builders::RunInstancesFluentBuilder {
    let one = client.run_instances().image_id(IMAGE).instance_type(MACHINE).min_count(1).max_count(1);
    one.tag_specifications(mark(ResourceType::Instance)).dry_run(true)
}

fn group(
    client: &Client,
) -> aws_sdk_ec2::operation::create_placement_group::builders::CreatePlacementGroupFluentBuilder {
    let group = client.create_placement_group().group_name(NO_GROUP).strategy(PlacementStrategy::Cluster);
    group.tag_specifications(mark(ResourceType::PlacementGroup)).dry_run(true)
}

fn template(
    client: &Client,
) -> aws_sdk_ec2::operation::create_launch_template::builders::CreateLaunchTemplateFluentBuilder {
    let data = RequestLaunchTemplateData::builder().instance_type(MACHINE).build();
    let template = client.create_launch_template().launch_template_name(NO_GROUP).launch_template_data(data);
    template.tag_specifications(mark(ResourceType::LaunchTemplate)).dry_run(true)
}

/// Of a template that is not there: where AWS looks for it first, the verdict is unknown.
fn fleet(client: &Client) -> aws_sdk_ec2::operation::create_fleet::builders::CreateFleetFluentBuilder {
    let template =
        FleetLaunchTemplateSpecificationRequest::builder().launch_template_name(NO_GROUP).version("1").build();
    let config = FleetLaunchTemplateConfigRequest::builder().launch_template_specification(template).build();
    let target = TargetCapacitySpecificationRequest::builder().total_target_capacity(1).build();
    let fleet = client
        .create_fleet()
        .r#type(FleetType::Instant)
        .launch_template_configs(config)
        .target_capacity_specification(target);
    fleet.tag_specifications(mark(ResourceType::Fleet)).dry_run(true)
}

fn spot() -> InstanceMarketOptionsRequest {
    InstanceMarketOptionsRequest::builder().market_type(MarketType::Spot).build()
}

/// The role of machines, which whoever starts one has to be allowed to give away.
fn profile() -> IamInstanceProfileSpecification {
    IamInstanceProfileSpecification::builder().name(ROLE).build()
}
