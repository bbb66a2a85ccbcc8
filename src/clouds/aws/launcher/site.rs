//! What an order needs to know of a region: its image, the network and security group of the machines, what the type can do.

use aws_sdk_ec2::Client;
use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::types::{
    ArchitectureType, BlockDeviceMapping, EfaInfo, InstanceType, InstanceTypeInfo, PlacementGroupInfo,
    PlacementGroupStrategy, ProcessorInfo,
};

use crate::account::session::Account;
use crate::errors::{launch_error, not_set_up};
use crate::launcher::filter::filter;
use gpuplan_launch::{LaunchError, Reach};

/// As `setup.tf` names the security group and the role of machines.
pub const MACHINE: &str = "gpuplan-machine";
/// Role of machines that lead a run.
pub const LEADER: &str = "gpuplan-leader";
const OWNER_OF_IMAGES: &str = "amazon";
/// Deep-learning images of AWS with driver and container toolkit ("AWS Deep Learning AMIs", release notes): the date follows. They
/// are listed rather than read from their public parameter, since the size and name of the root disk are needed as well.
const IMAGE: &str = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) *";
const ARM_IMAGE: &str = "Deep Learning ARM64 Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) *";
/// GPUs before Turing, which the open kernel modules in these images do not drive (NVIDIA, open-gpu-kernel-modules, README).
const TOO_OLD_FOR_IMAGE: [&str; 5] = ["p2", "p3", "p3dn", "g3", "g3s"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Id of the security group.
    pub group: String,
    /// Of the network that the group belongs to, in the order in which they are preferred within a zone.
    pub subnets: Vec<Subnet>,
    pub machine: MachineType,
    pub image: Image,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subnet {
    pub id: String,
    pub zone_id: String,
    pub is_default: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineType {
    /// `None`: EC2 does not say.
    pub vcpus: Option<i32>,
    pub is_arm: bool,
    /// Cards that can carry an Elastic Fabric Adapter; 0: none can.
    pub fabric_cards: i32,
    /// It may stand in a cluster placement group.
    pub stands_close: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub id: String,
    /// Name of the root disk, such as `/dev/sda1`.
    pub root: String,
    /// What the image needs. GiB.
    pub disk_gib: i32,
}

/// Asks EC2; `image` is the user's own.
pub async fn find(
    account: &Account,
    region: &str,
    instance_type: &str,
    image: Option<&str>,
) -> Result<Site, LaunchError> {
    let ask = Ask { account, client: &account.ec2(region), region };
    let hardware = async {
        let machine = ask.machine_type(instance_type).await?;
        let image = match image {
            Some(id) => ask.image(id).await?,
            None => ask.newest_image(instance_type, machine.is_arm).await?,
        };
        Ok((machine, image))
    };
    let ((group, subnets), (machine, image)) = tokio::try_join!(ask.network(), hardware)?;
    Ok(Site { group, subnets, machine, image })
}

struct Ask<'a> {
    account: &'a Account,
    client: &'a Client,
    region: &'a str,
}

impl Ask<'_> {
    fn refused<E: ProvideErrorMetadata + std::error::Error + 'static>(
        &self,
        error: SdkError<E, HttpResponse>,
    ) -> LaunchError {
        launch_error(self.account.error(self.region, &error))
    }

    /// The security group, and the subnets of its network.
    async fn network(&self) -> Result<(String, Vec<Subnet>), LaunchError> {
        let answer = self.client.describe_security_groups().filters(filter("group-name", MACHINE)).send().await;
        let answer = answer.map_err(|error| self.refused(error))?;
        let (group, network) = match answer.security_groups() {
            [one] => {
                let unnamed = || LaunchError::Unclear {
                    code: format!("{} does not name the network of `{MACHINE}`", self.region),
                };
                one.group_id().zip(one.vpc_id()).ok_or_else(unnamed)?
            }
            // Another region may have one, so only this one is out.
            [] => {
                return Err(not_set_up(
                    format!("{} has no security group `{MACHINE}`", self.region),
                    Some(self.region),
                    Reach::Region,
                ));
            }
            more => {
                let detail = format!("{} has {} security groups `{MACHINE}`; keep one", self.region, more.len());
                return Err(LaunchError::Request { code: "ambiguous network".to_owned(), detail });
            }
        };
        let question =
            self.client.describe_subnets().filters(filter("vpc-id", network)).filters(filter("state", "available"));
        let mut pages = question.into_paginator().send();
        let mut found = Vec::new();
        while let Some(page) = pages.next().await {
            found.extend(page.map_err(|error| self.refused(error))?.subnets().iter().filter_map(subnet));
        }
        if found.is_empty() {
            return Err(not_set_up(
                format!("the network {network} of `{MACHINE}` has no subnet"),
                Some(self.region),
                Reach::Region,
            ));
        }
        found.sort();
        Ok((group.to_owned(), found.into_iter().map(|(_, _, _, subnet)| subnet).collect()))
    }

    async fn machine_type(&self, name: &str) -> Result<MachineType, LaunchError> {
        // A filter, unlike a name, is no error where the region does not know it.
        let answer = self.client.describe_instance_types().filters(filter("instance-type", name)).send().await;
        let answer = answer.map_err(|error| self.refused(error))?;
        let known =
            answer.instance_types().iter().find(|known| known.instance_type().map(InstanceType::as_str) == Some(name));
        known
            .map(machine_type)
            .ok_or_else(|| LaunchError::NotSold { code: format!("{} does not know {name}", self.region) })
    }

    async fn image(&self, id: &str) -> Result<Image, LaunchError> {
        let answer = self.client.describe_images().image_ids(id).send().await.map_err(|error| self.refused(error))?;
        let missing = || LaunchError::Request {
            code: "InvalidAMIID.NotFound".to_owned(),
            detail: format!("{} has no image {id}; images are named anew in every region", self.region),
        };
        answer.images().first().and_then(image).ok_or_else(missing)
    }

    async fn newest_image(&self, instance_type: &str, is_arm: bool) -> Result<Image, LaunchError> {
        let family = instance_type.split('.').next().unwrap_or_default();
        if TOO_OLD_FOR_IMAGE.contains(&family) {
            let detail = format!(
                "the images of AWS do not drive the GPUs of {family} any more; name one that does with --image"
            );
            return Err(LaunchError::Request { code: "no image".to_owned(), detail });
        }
        let name = if is_arm { ARM_IMAGE } else { IMAGE };
        let question = self.client.describe_images().owners(OWNER_OF_IMAGES).filters(filter("name", name));
        let mut pages = question.filters(filter("state", "available")).into_paginator().send();
        let mut newest: Option<(String, Image)> = None;
        while let Some(page) = pages.next().await {
            for found in page.map_err(|error| self.refused(error))?.images() {
                // A date in text, the year first, so that the newest is the greatest.
                let made_at = found.creation_date().unwrap_or_default();
                if newest.as_ref().is_none_or(|(newest, _)| made_at > newest.as_str()) {
                    newest = image(found).map(|image| (made_at.to_owned(), image)).or(newest);
                }
            }
        }
        let missing = || LaunchError::NotSold { code: format!("{} has no image `{name}`", self.region) };
        newest.map(|(_, image)| image).ok_or_else(missing)
    }
}

/// Those that the setup tagged first, then those that AWS made, then those that give a machine an address of its own.
fn subnet(found: &aws_sdk_ec2::types::Subnet) -> Option<(bool, bool, bool, Subnet)> {
    let is_default = found.default_for_az().unwrap_or_default();
    let is_tagged = found.tags().iter().any(|tag| tag.key() == Some(gpuplan_launch::names::OWNER));
    let subnet =
        Subnet { id: found.subnet_id()?.to_owned(), zone_id: found.availability_zone_id()?.to_owned(), is_default };
    Some((!is_tagged, !is_default, !found.map_public_ip_on_launch().unwrap_or_default(), subnet))
}

fn machine_type(known: &InstanceTypeInfo) -> MachineType {
    let network = known.network_info();
    let fabric_cards = network.filter(|network| network.efa_supported() == Some(true)).map_or(0, |network| {
        let most = network.efa_info().and_then(EfaInfo::maximum_efa_interfaces).unwrap_or(1);
        most.min(network.maximum_network_cards().unwrap_or(1)).max(0)
    });
    let architectures = known.processor_info().map(ProcessorInfo::supported_architectures).unwrap_or_default();
    let strategies = known.placement_group_info().map(PlacementGroupInfo::supported_strategies).unwrap_or_default();
    MachineType {
        vcpus: known.v_cpu_info().and_then(aws_sdk_ec2::types::VCpuInfo::default_v_cpus),
        is_arm: architectures.contains(&ArchitectureType::Arm64),
        fabric_cards,
        stands_close: strategies.contains(&PlacementGroupStrategy::Cluster),
    }
}

/// `None` where the image is not on a disk of its own, which a machine that ends cannot have.
fn image(found: &aws_sdk_ec2::types::Image) -> Option<Image> {
    let root = found.root_device_name()?;
    let disk = found
        .block_device_mappings()
        .iter()
        .find(|disk| disk.device_name() == Some(root))
        .and_then(BlockDeviceMapping::ebs)?;
    Some(Image { id: found.image_id()?.to_owned(), root: root.to_owned(), disk_gib: disk.volume_size()? })
}

#[cfg(test)]
mod tests {
    use aws_sdk_ec2::types::{EbsBlockDevice, NetworkInfo};

    use super::*;

    #[test]
    fn a_machine_type_says_what_it_can_do() {
        let efa = EfaInfo::builder().maximum_efa_interfaces(32).build();
        let network = NetworkInfo::builder().efa_supported(true).efa_info(efa).maximum_network_cards(32).build();
        let close = PlacementGroupInfo::builder().supported_strategies(PlacementGroupStrategy::Cluster).build();
        let known = InstanceTypeInfo::builder().network_info(network).placement_group_info(close).build();
        assert_eq!(
            machine_type(&known),
            MachineType { vcpus: None, is_arm: false, fabric_cards: 32, stands_close: true }
        );
        let arm = ProcessorInfo::builder().supported_architectures(ArchitectureType::Arm64).build();
        let plain = machine_type(&InstanceTypeInfo::builder().processor_info(arm).build());
        assert_eq!(plain, MachineType { vcpus: None, is_arm: true, fabric_cards: 0, stands_close: false });
    }

    #[test]
    fn an_image_needs_the_room_of_its_root_disk() {
        let disk = |name: &str, size| {
            BlockDeviceMapping::builder()
                .device_name(name)
                .ebs(EbsBlockDevice::builder().volume_size(size).build())
                .build()
        };
        let found = aws_sdk_ec2::types::Image::builder().image_id("ami-1").root_device_name("/dev/sda1");
        let with_disks = found
            .clone()
            .block_device_mappings(disk("/dev/sdb", 900))
            .block_device_mappings(disk("/dev/sda1", 75))
            .build();
        assert_eq!(
            image(&with_disks).unwrap(),
            Image { id: "ami-1".to_owned(), root: "/dev/sda1".to_owned(), disk_gib: 75 }
        );
        assert_eq!(image(&found.build()), None);
    }
}
