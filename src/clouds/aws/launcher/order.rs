//! From a request for a machine to the one call that creates it. Names the SDK and calls nothing.

use aws_sdk_ec2::operation::run_instances::builders::RunInstancesInputBuilder;
use aws_sdk_ec2::types::{
    BlockDeviceMapping, CapacityReservationSpecification, CapacityReservationTarget, EbsBlockDevice, HttpTokensState,
    IamInstanceProfileSpecification, InstanceInterruptionBehavior, InstanceMarketOptionsRequest,
    InstanceMetadataEndpointState, InstanceMetadataOptionsRequest, InstanceNetworkInterfaceSpecification, InstanceType,
    MarketType, Placement, ResourceType, ShutdownBehavior, SpotInstanceType, SpotMarketOptions, Tag, TagSpecification,
    VolumeType,
};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::launcher::site::{Site, Subnet};
use gpuplan_launch::names;
use gpuplan_launch::{CreateRequest, LaunchError, Market};

/// The zone that was asked for, empty where any would do: a list has to give the pool as it was ordered.
pub const ZONE: &str = "gpuplan:zone";
/// The token of an order, where the machine has another: one that a fleet started.
pub const TOKEN: &str = "gpuplan:token";
const NAME: &str = "Name";
/// User data, before it is encoded (EC2 user guide, "Run commands when you launch an EC2 instance"). Bytes.
const LARGEST_BOOT: usize = 16 << 10;
/// Answers of the metadata service may cross one more host: a container on the machine.
pub const HOPS: i32 = 2;

/// Tags of everything that belongs to a machine.
pub fn tags(request: &CreateRequest, owner: &str) -> Result<Vec<Tag>, LaunchError> {
    let zone = request.pool.zone_id.clone().unwrap_or_default();
    let marks = [
        (NAME, request.name.clone()),
        (names::RUN, request.run.clone()),
        (names::EPOCH, request.epoch.to_string()),
        (names::NODE, request.node.to_string()),
        (names::EXPIRES, request.expires_at.to_string()),
        (names::OWNER, owner.to_owned()),
        (ZONE, zone),
    ];
    let mut all: Vec<(String, String)> = marks.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    for (key, value) in &request.tags {
        match all.iter_mut().find(|(known, _)| known == key) {
            Some(known) if [NAME, names::OWNER].contains(&key.as_str()) => known.1.clone_from(value),
            Some(_) => {
                let detail = format!("the tag `{key}` is a mark of gpuplan's own; give yours another name");
                return Err(LaunchError::Request { code: "reserved tag".to_owned(), detail });
            }
            None => all.push((key.clone(), value.clone())),
        }
    }
    Ok(all.into_iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect())
}

/// The whole order. `profile`: as which the machine acts. `subnet`: `None` leaves the zone to EC2. `group`: a placement group that is there.
pub fn order(
    request: &CreateRequest,
    site: &Site,
    profile: &str,
    subnet: Option<&Subnet>,
    group: Option<&str>,
    owner: &str,
) -> Result<RunInstancesInputBuilder, LaunchError> {
    let boot = fitting(request.boot.clone())?;
    let tags = tags(request, owner)?;
    let tagged = |kind| TagSpecification::builder().resource_type(kind).set_tags(Some(tags.clone())).build();
    let metadata = InstanceMetadataOptionsRequest::builder()
        .http_endpoint(InstanceMetadataEndpointState::Enabled)
        .http_tokens(HttpTokensState::Required)
        .http_put_response_hop_limit(HOPS);
    let order = RunInstancesInputBuilder::default()
        .min_count(1)
        .max_count(1)
        .client_token(&request.token)
        .image_id(&site.image.id)
        .instance_type(InstanceType::from(request.pool.instance_type.as_str()))
        .user_data(BASE64_STANDARD.encode(boot))
        .iam_instance_profile(IamInstanceProfileSpecification::builder().name(profile).build())
        .metadata_options(metadata.build())
        .block_device_mappings(root_disk(request, site))
        // A machine that shuts itself down is gone, and not merely stopped.
        .instance_initiated_shutdown_behavior(ShutdownBehavior::Terminate)
        .tag_specifications(tagged(ResourceType::Instance))
        .tag_specifications(tagged(ResourceType::Volume))
        .set_placement(group.map(|group| Placement::builder().group_name(group).build()));
    let order = match request.pool.market {
        Market::Spot => {
            order.instance_market_options(spot(request)).tag_specifications(tagged(ResourceType::SpotInstancesRequest))
        }
        Market::OnDemand => order,
        Market::FlexStart => {
            let detail = "EC2 sells no machines on flex-start terms; --purchase on-demand".to_owned();
            return Err(LaunchError::Request { code: "flex-start".to_owned(), detail });
        }
        Market::CapacityBlock => {
            order.instance_market_options(in_block()).capacity_reservation_specification(stands_on(request)?)
        }
    };
    let interfaces = subnet.map(|subnet| fabric(request, site, subnet)).unwrap_or_default();
    Ok(if interfaces.is_empty() {
        order.security_group_ids(&site.group).set_subnet_id(subnet.map(|subnet| subnet.id.clone()))
    } else {
        order.set_network_interfaces(Some(interfaces))
    })
}

pub fn fitting(boot: String) -> Result<String, LaunchError> {
    if boot.len() > LARGEST_BOOT {
        let detail =
            format!("the boot script has {} bytes, EC2 takes {LARGEST_BOOT}; make the command shorter", boot.len());
        return Err(LaunchError::Request { code: "large boot script".to_owned(), detail });
    }
    Ok(boot)
}

/// As asked, or as the image needs. GiB.
pub fn root_size(request: &CreateRequest, site: &Site) -> i32 {
    i32::try_from(request.disk_gib).unwrap_or(i32::MAX).max(site.image.disk_gib)
}

/// The same order for an account that may not tag disks: AWS refuses it as a whole otherwise.
pub fn without_tags_of_disks(order: RunInstancesInputBuilder) -> RunInstancesInputBuilder {
    let mut tags = order.get_tag_specifications().clone().unwrap_or_default();
    tags.retain(|tags| tags.resource_type() != Some(&ResourceType::Volume));
    order.set_tag_specifications(Some(tags))
}

/// One time, and ended rather than stopped, at the planned price with some room at most. AWS advises against a highest price, since a
/// price that rises over it is an interruption (EC2 user guide, "Best practices for Spot"): one that is planned for, unlike a bill.
fn spot(request: &CreateRequest) -> InstanceMarketOptionsRequest {
    let options = SpotMarketOptions::builder()
        .spot_instance_type(SpotInstanceType::OneTime)
        .set_max_price(request.most.map(|most| most.to_string()))
        .instance_interruption_behavior(InstanceInterruptionBehavior::Terminate);
    InstanceMarketOptionsRequest::builder().market_type(MarketType::Spot).spot_options(options.build()).build()
}

fn in_block() -> InstanceMarketOptionsRequest {
    InstanceMarketOptionsRequest::builder().market_type(MarketType::CapacityBlock).build()
}

fn stands_on(request: &CreateRequest) -> Result<CapacityReservationSpecification, LaunchError> {
    let missing = || LaunchError::Request {
        code: "no block".to_owned(),
        detail: "no capacity block was bought for it".to_owned(),
    };
    let target =
        CapacityReservationTarget::builder().capacity_reservation_id(request.reservation.as_ref().ok_or_else(missing)?);
    Ok(CapacityReservationSpecification::builder().capacity_reservation_target(target.build()).build())
}

fn root_disk(request: &CreateRequest, site: &Site) -> BlockDeviceMapping {
    let disk = EbsBlockDevice::builder()
        .volume_type(VolumeType::Gp3)
        .volume_size(root_size(request, site))
        .encrypted(true)
        .delete_on_termination(true);
    BlockDeviceMapping::builder().device_name(&site.image.root).ebs(disk.build()).build()
}

/// Interfaces of a machine of a gang, one for each card: the first carries IP as well, the others nothing but the fabric, which
/// saves addresses and the trouble of several routes (EC2 user guide, "Maximize network bandwidth on instances with multiple
/// network cards", use case 1). Empty for a machine alone or without a fabric.
fn fabric(request: &CreateRequest, site: &Site, subnet: &Subnet) -> Vec<InstanceNetworkInterfaceSpecification> {
    let cards = if request.nodes > 1 { site.machine.fabric_cards } else { 0 };
    let interface = |card| {
        InstanceNetworkInterfaceSpecification::builder()
            .network_card_index(card)
            .device_index(i32::from(card > 0))
            .interface_type(if card == 0 { "efa" } else { "efa-only" })
            .subnet_id(&subnet.id)
            .groups(&site.group)
            .delete_on_termination(true)
            .build()
    };
    (0..cards).map(interface).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launcher::site::{Image, MachineType};
    use gpuplan_launch::{Access, Pool, Role};
    use gpuplan_units::UsdPerHour;

    fn request() -> CreateRequest {
        CreateRequest {
            run: "r".to_owned(),
            epoch: 3,
            node: 1,
            nodes: 1,
            pool: Pool {
                cloud: "aws".to_owned(),
                region: "us-east-1".to_owned(),
                zone_id: Some("use1-az1".to_owned()),
                instance_type: "p5.48xlarge".to_owned(),
                market: Market::Spot,
            },
            token: "t".repeat(64),
            name: "gpuplan-r-e3-n1".to_owned(),
            expires_at: "2026-11-22T00:00:00Z".parse().unwrap(),
            boot: "#!/bin/sh\n".to_owned(),
            image: None,
            disk_gib: 100,
            tags: Vec::new(),
            most: UsdPerHour::parse("33.55").ok(),
            zones: Vec::new(),
            reservation: None,
            role: Role::Work,
            access: Access::default(),
        }
    }

    fn site() -> Site {
        Site {
            group: "sg-1".to_owned(),
            subnets: vec![subnet()],
            machine: MachineType { vcpus: Some(192), is_arm: false, fabric_cards: 32, stands_close: true },
            image: Image { id: "ami-1".to_owned(), root: "/dev/sda1".to_owned(), disk_gib: 75 },
        }
    }

    fn subnet() -> Subnet {
        Subnet { id: "subnet-1".to_owned(), zone_id: "use1-az1".to_owned(), is_default: true }
    }

    fn ordered(request: &CreateRequest) -> RunInstancesInputBuilder {
        order(request, &site(), "gpuplan-machine", Some(&subnet()), None, "me").unwrap()
    }

    #[test]
    fn a_machine_is_marked_closed_encrypted_and_ends_as_it_shuts_down() {
        let order = ordered(&request());
        assert_eq!(order.get_client_token().as_ref().unwrap().len(), 64);
        assert_eq!(order.get_instance_initiated_shutdown_behavior(), &Some(ShutdownBehavior::Terminate));
        let metadata = order.get_metadata_options().clone().unwrap();
        assert_eq!(
            (metadata.http_tokens(), metadata.http_put_response_hop_limit()),
            (Some(&HttpTokensState::Required), Some(2))
        );
        let disk = order.get_block_device_mappings().as_ref().unwrap()[0].clone();
        let ebs = disk.ebs().unwrap();
        assert_eq!(
            (disk.device_name(), ebs.volume_size(), ebs.encrypted()),
            (Some("/dev/sda1"), Some(100), Some(true))
        );
        assert_eq!(ebs.delete_on_termination(), Some(true));
        let spot = order.get_instance_market_options().as_ref().unwrap().spot_options().unwrap().clone();
        assert_eq!((spot.max_price(), spot.spot_instance_type()), (Some("33.55"), Some(&SpotInstanceType::OneTime)));
        let tags = order.get_tag_specifications().clone().unwrap();
        let kinds: Vec<_> = tags.iter().filter_map(|tags| tags.resource_type().map(ResourceType::as_str)).collect();
        assert_eq!(kinds, ["instance", "volume", "spot-instances-request"]);
        for tags in tags {
            let value = |key: &str| tags.tags().iter().find(|tag| tag.key() == Some(key)).and_then(Tag::value).unwrap();
            assert_eq!(
                [value(names::RUN), value(names::EPOCH), value(names::NODE), value(names::OWNER)],
                ["r", "3", "1", "me"]
            );
            assert_eq!((value(names::EXPIRES), value(ZONE)), ("2026-11-22T00:00:00Z", "use1-az1"));
        }
        assert_eq!((order.get_subnet_id().as_deref(), order.get_network_interfaces()), (Some("subnet-1"), &None));
        let bare = without_tags_of_disks(order);
        assert_eq!(bare.get_tag_specifications().as_ref().unwrap().len(), 2);
    }

    #[test]
    fn an_image_that_needs_more_disk_gets_it() {
        let order = ordered(&CreateRequest { disk_gib: 20, ..request() });
        assert_eq!(order.get_block_device_mappings().as_ref().unwrap()[0].ebs().unwrap().volume_size(), Some(75));
        let dear = CreateRequest { pool: Pool { market: Market::OnDemand, ..request().pool }, ..request() };
        let order = ordered(&dear);
        assert_eq!(order.get_instance_market_options(), &None);
        assert_eq!(order.get_tag_specifications().as_ref().unwrap().len(), 2, "nothing of spot is tagged");
    }

    #[test]
    fn a_gang_has_its_fabric_on_every_card() {
        let order = ordered(&CreateRequest { nodes: 2, ..request() });
        let interfaces = order.get_network_interfaces().clone().unwrap();
        assert_eq!((interfaces.len(), order.get_subnet_id(), order.get_security_group_ids()), (32, &None, &None));
        let kinds: Vec<_> =
            interfaces.iter().filter_map(InstanceNetworkInterfaceSpecification::interface_type).collect();
        assert!(kinds[0] == "efa" && kinds[1..].iter().all(|kind| *kind == "efa-only"), "{kinds:?}");
        let devices: Vec<_> =
            interfaces.iter().filter_map(InstanceNetworkInterfaceSpecification::device_index).collect();
        assert!(devices[0] == 0 && devices[1..].iter().all(|device| *device == 1), "{devices:?}");
        assert!(interfaces.iter().all(|one| one.groups() == ["sg-1"] && one.subnet_id() == Some("subnet-1")));
    }

    #[test]
    fn what_cannot_be_ordered_is_refused_before_it_is() {
        let refused = |request: &CreateRequest| {
            order(request, &site(), "p", None, None, "me").map(|_| ()).unwrap_err().to_string()
        };
        let large = CreateRequest { boot: "x".repeat(LARGEST_BOOT + 1), ..request() };
        assert!(refused(&large).contains("16385 bytes"), "{}", refused(&large));
        assert!(
            order(&CreateRequest { boot: "x".repeat(LARGEST_BOOT), ..request() }, &site(), "p", None, None, "me")
                .is_ok()
        );
        let marked = CreateRequest { tags: vec![(names::RUN.to_owned(), "another".to_owned())], ..request() };
        assert!(refused(&marked).contains("`gpuplan:run`"));
        let owned = CreateRequest { tags: vec![(names::OWNER.to_owned(), "team".to_owned())], ..request() };
        let tags = tags(&owned, "me").unwrap();
        assert_eq!(
            tags.iter()
                .filter(|tag| tag.key() == Some(names::OWNER))
                .map(|tag| tag.value().unwrap())
                .collect::<Vec<_>>(),
            ["team"]
        );
    }
}
