//! What a cloud is asked for: the request for one machine of a gang, with the script that the machine boots with.

use std::time::Duration;

use jiff::Timestamp;

use crate::boot::{self, Boot, Source};
use crate::controller::events::Order;
use crate::job::Parcel;
use crate::names;
use crate::ports::launch_error::LaunchError;
use crate::ports::machine::{CreateRequest, Role};
use crate::spec::RunSpec;
use gpuplan_runstore::{OrderedBy, Run};

/// A machine that starts fetches its files within this.
const LINKS: Duration = Duration::from_hours(2);

/// What the machine of an order runs as it starts, and no longer than until `ends_at`, with links that are good for a while.
pub async fn boot_script(
    spec: &RunSpec,
    order: &Order,
    store: &Run,
    ordered_by: OrderedBy,
    ends_at: Timestamp,
) -> Result<String, LaunchError> {
    let agent = source(&spec.job.agent, store).await?;
    let workdir = match &spec.job.workdir {
        Some(parcel) => Some(source(parcel, store).await?),
        None => None,
    };
    Ok(boot::script(&Boot { spec, order, agent, workdir, ordered_by: Some(ordered_by), ends_at }))
}

/// Without a link nothing was asked of the cloud yet: the same order is tried again.
async fn source(parcel: &Parcel, store: &Run) -> Result<Source, LaunchError> {
    Ok(match parcel {
        Parcel::Here(path) => Source::Here(path.clone()),
        Parcel::Address { url, sha256 } => Source::Fetched { from: url.clone(), sha256: sha256.clone() },
        Parcel::Stored { key, sha256 } => {
            let link =
                store.link(key, LINKS).await.map_err(|error| LaunchError::Unclear { code: error.to_string() })?;
            Source::linked(&link, sha256)
        }
    })
}

/// An order as a cloud takes it.
pub fn request(spec: &RunSpec, order: &Order, lead: u64, expires_at: Timestamp, boot: String) -> CreateRequest {
    let offered = spec.places().find(|offered| offered.pool == order.choice.pool);
    let offered = offered.expect("what is ordered is a place of the spec, by `RunSpec::terms`");
    CreateRequest {
        run: spec.run.clone(),
        epoch: order.epoch,
        node: order.node,
        nodes: spec.nodes,
        pool: order.choice.pool.clone(),
        token: order.token.clone(),
        name: order.name.clone(),
        expires_at,
        boot,
        image: spec.image.clone(),
        disk_gib: spec.disk_gib,
        tags: spec.tags.iter().cloned().chain([(names::LEAD.to_owned(), lead.to_string())]).collect(),
        most: offered.most_usd_per_hour,
        zones: offered.zones.clone(),
        reservation: spec.block.as_ref().and_then(|block| block.reservation.clone()),
        role: if spec.leads.is_some() { Role::Lead } else { Role::Work },
        access: spec.access(),
    }
}
