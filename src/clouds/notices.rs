//! Which metadata services are asked for notices: the named cloud's, or that of the cloud whose machine this is.

use std::sync::Arc;

use crate::{aws, azure, gcp};
use gpuplan_agent::{NoticeError, NoticeSource};
use gpuplan_clouds_http::variable;

type Make = fn() -> Result<Arc<dyn NoticeSource>, NoticeError>;

/// Cloud, variable that names another address, what the firmware says of the maker, and how to ask.
const KNOWN: [(&str, &str, &str, Make); 3] = [
    (aws::CLOUD, aws::notices::ENDPOINT, "Amazon EC2", || Ok(Arc::new(aws::notices::SpotNotices::from_environment()?))),
    (gcp::CLOUD, gcp::notices::ENDPOINT, "Google", || Ok(Arc::new(gcp::notices::Preemption::from_environment()?))),
    (azure::CLOUD, azure::notices::ENDPOINT, "Microsoft Corporation", || {
        Ok(Arc::new(azure::notices::ScheduledEvents::from_environment()?))
    }),
];

/// `auto` asks where the user named an address, else the cloud that made this machine; a machine of nobody known asks nobody.
pub fn sources(wanted: &str) -> Result<Vec<Arc<dyn NoticeSource>>, String> {
    if wanted != "auto" && wanted != "none" && !KNOWN.iter().any(|(cloud, ..)| *cloud == wanted) {
        return Err(format!("`{wanted}` is not a valid source of notices; try auto, aws, gcp, azure or none"));
    }
    let is_named = |endpoint: &str| variable(endpoint).is_some();
    let any_named = KNOWN.iter().any(|(_, endpoint, ..)| is_named(endpoint));
    let maker = maker();
    let chosen = KNOWN.iter().filter(|(cloud, endpoint, sign, _)| match wanted {
        "auto" if any_named => is_named(endpoint),
        "auto" => maker.starts_with(sign),
        wanted => *cloud == wanted,
    });
    chosen.map(|(.., make)| make().map_err(|error| error.to_string())).collect()
}

/// As the firmware tells it; empty where there is none to ask, as in some containers.
fn maker() -> String {
    std::fs::read_to_string("/sys/class/dmi/id/sys_vendor").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_source_is_looked_at_as_often_as_aws_advises() {
        for (cloud, .., make) in KNOWN {
            assert!(make().unwrap().pace() <= Duration::from_secs(5), "{cloud}");
        }
    }

    #[test]
    fn a_cloud_is_known_or_refused() {
        assert!(sources("oracle").is_err());
        assert!(sources("none").unwrap().is_empty());
    }
}
