//! A fleet of one: EC2 starts a machine from a template whenever there is none, until a time. Names the SDK and calls nothing.

use aws_sdk_ec2::operation::create_fleet::builders::CreateFleetInputBuilder;
use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_ec2::types::{
    DefaultTargetCapacityType, FleetExcessCapacityTerminationPolicy, FleetLaunchTemplateConfigRequest,
    FleetLaunchTemplateOverridesRequest, FleetLaunchTemplateSpecificationRequest, FleetType, InstanceType,
    LaunchTemplateBlockDeviceMappingRequest, LaunchTemplateEbsBlockDeviceRequest, LaunchTemplateHttpTokensState,
    LaunchTemplateIamInstanceProfileSpecificationRequest, LaunchTemplateInstanceMetadataEndpointState,
    LaunchTemplateInstanceMetadataOptionsRequest, LaunchTemplateTagSpecificationRequest, RequestLaunchTemplateData,
    ResourceType, ShutdownBehavior, SpotAllocationStrategy, SpotInstanceInterruptionBehavior, SpotOptionsRequest, Tag,
    TagSpecification, TargetCapacitySpecificationRequest, VolumeType,
};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::launcher::order::{HOPS, TOKEN, ZONE, fitting, root_size, tags};
use crate::launcher::site::{Site, Subnet};
use gpuplan_launch::{CreateRequest, LaunchError, names};

/// How a machine ends the fleet that would start the next one: it finds it by its mark, with the role of machines and the `aws`
/// program of the image.
const END: &str = r#"tries=1
until fleets=$(aws ec2 describe-tags --region "$1" --query 'Tags[].ResourceId' --output text \
    --filters Name=resource-type,Values=fleet Name=key,Values=gpuplan:run "Name=value,Values=$2") &&
  [ -n "$fleets" ] && aws ec2 delete-fleets --region "$1" --terminate-instances --fleet-ids $fleets; do
  [ $tries -lt 6 ] || exit 1
  sleep $((tries * 2))
  tries=$((tries + 1))
done
"#;

/// Of template and fleet: the token tells two groups of one run apart.
pub fn name(request: &CreateRequest) -> String {
    let mark: String = request.token.chars().take(8).collect();
    format!("{}-{mark}", request.name)
}

/// Before the boot script, which calls it once the run is over.
fn boot(request: &CreateRequest) -> String {
    format!(
        "#!/bin/sh\ncat >end-group <<'GPUPLAN_END'\n{END}GPUPLAN_END\nexport GPUPLAN_END_GROUP=\"sh $PWD/end-group {} {}\"\n{}",
        request.pool.region, request.run, request.boot
    )
}

/// Every machine of a fleet that is kept. Where each stands is the fleet's choice.
pub fn kept_template(
    request: &CreateRequest,
    site: &Site,
    profile: &str,
    owner: &str,
) -> Result<RequestLaunchTemplateData, LaunchError> {
    let mut tags = tags(request, owner)?;
    tags.retain(|tag| tag.key() != Some(ZONE));
    template(request, boot(request), &tags, site, profile)
}

/// The one machine of a fleet that is there for it alone. EC2 gives it a token of its own, so that of the order is a mark.
pub fn single_template(
    request: &CreateRequest,
    site: &Site,
    profile: &str,
    owner: &str,
) -> Result<RequestLaunchTemplateData, LaunchError> {
    let mut tags = tags(request, owner)?;
    tags.push(Tag::builder().key(TOKEN).value(&request.token).build());
    template(request, request.boot.clone(), &tags, site, profile)
}

/// Closed, encrypted and marked as a machine that is ordered by itself.
fn template(
    request: &CreateRequest,
    boot: String,
    tags: &[Tag],
    site: &Site,
    profile: &str,
) -> Result<RequestLaunchTemplateData, LaunchError> {
    let boot = fitting(boot)?;
    let tagged = |kind| {
        LaunchTemplateTagSpecificationRequest::builder().resource_type(kind).set_tags(Some(tags.to_vec())).build()
    };
    let metadata = LaunchTemplateInstanceMetadataOptionsRequest::builder()
        .http_endpoint(LaunchTemplateInstanceMetadataEndpointState::Enabled)
        .http_tokens(LaunchTemplateHttpTokensState::Required)
        .http_put_response_hop_limit(HOPS);
    let disk = LaunchTemplateEbsBlockDeviceRequest::builder()
        .volume_type(VolumeType::Gp3)
        .volume_size(root_size(request, site))
        .encrypted(true)
        .delete_on_termination(true);
    let root = LaunchTemplateBlockDeviceMappingRequest::builder().device_name(&site.image.root).ebs(disk.build());
    Ok(RequestLaunchTemplateData::builder()
        .image_id(&site.image.id)
        .user_data(BASE64_STANDARD.encode(boot))
        .iam_instance_profile(LaunchTemplateIamInstanceProfileSpecificationRequest::builder().name(profile).build())
        .metadata_options(metadata.build())
        .block_device_mappings(root.build())
        .instance_initiated_shutdown_behavior(ShutdownBehavior::Terminate)
        .security_group_ids(&site.group)
        .tag_specifications(tagged(ResourceType::Instance))
        .tag_specifications(tagged(ResourceType::Volume))
        .build())
}

/// Marks of what belongs to no single machine.
pub fn shared_tags(request: &CreateRequest, owner: &str, kind: ResourceType) -> Result<TagSpecification, LaunchError> {
    let mut tags = tags(request, owner)?;
    tags.retain(|tag| tag.key() != Some(names::NODE));
    Ok(TagSpecification::builder().resource_type(kind).set_tags(Some(tags)).build())
}

/// A fleet that always has one spot machine, in whichever of the subnets there is one; at the end of its time EC2 ends both.
pub fn fleet(machine: &CreateRequest, subnets: &[Subnet], owner: &str) -> Result<CreateFleetInputBuilder, LaunchError> {
    Ok(one(machine, subnets)
        .r#type(FleetType::Maintain)
        .excess_capacity_termination_policy(FleetExcessCapacityTerminationPolicy::Termination)
        .valid_until(DateTime::from_secs(machine.expires_at.as_second()))
        .terminate_instances_with_expiration(true)
        .tag_specifications(shared_tags(machine, owner, ResourceType::Fleet)?))
}

/// One spot machine at once or an error, wherever among the subnets EC2 expects it to be cheap and to stay. The call may be repeated,
/// so nothing in it tells the time.
pub fn instant(machine: &CreateRequest, subnets: &[Subnet], owner: &str) -> CreateFleetInputBuilder {
    let marks = [(names::RUN, machine.run.as_str()), (names::OWNER, owner)];
    let tags = marks.into_iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect();
    let tagged = TagSpecification::builder().resource_type(ResourceType::Fleet).set_tags(Some(tags)).build();
    one(machine, subnets).r#type(FleetType::Instant).tag_specifications(tagged)
}

fn one(machine: &CreateRequest, subnets: &[Subnet]) -> CreateFleetInputBuilder {
    let template =
        FleetLaunchTemplateSpecificationRequest::builder().launch_template_name(name(machine)).version("1").build();
    let place = |subnet: &Subnet| {
        let kind = InstanceType::from(machine.pool.instance_type.as_str());
        let most = machine.most.map(|most| most.to_string());
        FleetLaunchTemplateOverridesRequest::builder()
            .instance_type(kind)
            .subnet_id(&subnet.id)
            .set_max_price(most)
            .build()
    };
    let config = FleetLaunchTemplateConfigRequest::builder().launch_template_specification(template);
    let target = TargetCapacitySpecificationRequest::builder()
        .total_target_capacity(1)
        .spot_target_capacity(1)
        .on_demand_target_capacity(0)
        .default_target_capacity_type(DefaultTargetCapacityType::Spot);
    let spot = SpotOptionsRequest::builder()
        .allocation_strategy(SpotAllocationStrategy::PriceCapacityOptimized)
        .instance_interruption_behavior(SpotInstanceInterruptionBehavior::Terminate);
    CreateFleetInputBuilder::default()
        .client_token(&machine.token)
        .launch_template_configs(config.set_overrides(Some(subnets.iter().map(place).collect())).build())
        .target_capacity_specification(target.build())
        .spot_options(spot.build())
}

/// Value of a mark.
pub fn mark<'a>(tags: &'a [Tag], key: &str) -> Option<&'a str> {
    tags.iter().find(|tag| tag.key() == Some(key)).and_then(Tag::value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launcher::site::{Image, MachineType};
    use gpuplan_launch::{Access, Market, Pool, Role};
    use gpuplan_units::UsdPerHour;

    fn request() -> CreateRequest {
        CreateRequest {
            run: "r".to_owned(),
            epoch: 1,
            node: 0,
            nodes: 1,
            pool: Pool {
                cloud: "aws".to_owned(),
                region: "us-east-1".to_owned(),
                zone_id: None,
                instance_type: "g5.xlarge".to_owned(),
                market: Market::Spot,
            },
            token: "0123456789abcdef".to_owned(),
            name: "gpuplan-r-e1-n0".to_owned(),
            expires_at: "2026-11-22T00:00:00Z".parse().unwrap(),
            boot: "#!/bin/sh\necho trains\n".to_owned(),
            image: None,
            disk_gib: 100,
            tags: vec![("team".to_owned(), "vision".to_owned())],
            most: UsdPerHour::parse("0.55").ok(),
            zones: Vec::new(),
            reservation: None,
            role: Role::Work,
            access: Access::default(),
        }
    }

    fn site() -> Site {
        Site {
            group: "sg-1".to_owned(),
            subnets: Vec::new(),
            machine: MachineType { vcpus: Some(4), is_arm: false, fabric_cards: 0, stands_close: true },
            image: Image { id: "ami-1".to_owned(), root: "/dev/sda1".to_owned(), disk_gib: 75 },
        }
    }

    #[test]
    fn a_machine_of_a_fleet_is_closed_encrypted_marked_and_can_end_the_fleet() {
        let made = kept_template(&request(), &site(), "gpuplan-machine", "me").unwrap();
        let metadata = made.metadata_options().unwrap();
        assert_eq!(metadata.http_tokens(), Some(&LaunchTemplateHttpTokensState::Required));
        let disk = made.block_device_mappings()[0].ebs().unwrap();
        assert_eq!(
            (disk.encrypted(), disk.volume_size(), disk.delete_on_termination()),
            (Some(true), Some(100), Some(true))
        );
        assert_eq!(made.instance_initiated_shutdown_behavior(), Some(&ShutdownBehavior::Terminate));
        for tagged in made.tag_specifications() {
            assert_eq!((mark(tagged.tags(), names::RUN), mark(tagged.tags(), "team")), (Some("r"), Some("vision")));
            assert_eq!(mark(tagged.tags(), ZONE), None);
        }
        let boot = String::from_utf8(BASE64_STANDARD.decode(made.user_data().unwrap()).unwrap()).unwrap();
        assert!(
            boot.contains("export GPUPLAN_END_GROUP=\"sh $PWD/end-group us-east-1 r\"")
                && boot.ends_with("echo trains\n"),
            "{boot}"
        );
        let large = CreateRequest { boot: "x".repeat(16 << 10), ..request() };
        assert!(kept_template(&large, &site(), "gpuplan-machine", "me").is_err(), "what goes before counts too");
    }

    #[test]
    fn a_repeated_call_for_one_machine_says_the_same_in_every_word() {
        let later = CreateRequest {
            expires_at: "2026-11-23T00:00:00Z".parse().unwrap(),
            boot: "other links".to_owned(),
            ..request()
        };
        let said = |request: &CreateRequest| format!("{:?}", instant(request, &[], "me"));
        assert_eq!(said(&request()), said(&later));
        let made = single_template(&request(), &site(), "gpuplan-machine", "me").unwrap();
        assert_eq!(mark(made.tag_specifications()[0].tags(), TOKEN), Some(request().token.as_str()));
    }

    #[test]
    fn a_fleet_has_one_machine_and_an_end() {
        let subnet = |id: &str| Subnet { id: id.to_owned(), zone_id: id.to_owned(), is_default: true };
        let order = fleet(&request(), &[subnet("a"), subnet("b")], "me").unwrap();
        assert_eq!(
            (order.get_type(), order.get_terminate_instances_with_expiration()),
            (&Some(FleetType::Maintain), &Some(true))
        );
        assert_eq!(order.get_valid_until().map(|until| until.secs()), Some(request().expires_at.as_second()));
        assert_eq!(order.get_target_capacity_specification().as_ref().unwrap().total_target_capacity(), Some(1));
        let configs = order.get_launch_template_configs().clone().unwrap();
        assert_eq!(configs[0].overrides().len(), 2);
        assert!(configs[0].overrides().iter().all(|place| place.max_price() == Some("0.55")));
        let tags = order.get_tag_specifications().clone().unwrap();
        assert_eq!(
            (tags.len(), mark(tags[0].tags(), names::RUN), mark(tags[0].tags(), names::NODE)),
            (1, Some("r"), None)
        );
    }
}
