//! Where the public documents of AWS lie, and when they may be asked for at all.

use gpuplan_clouds_http::variable;

/// Base addresses; the paths behind them are the same everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub advisor: String,
    pub feed: String,
    pub price_page: String,
}

/// Variables of the AWS tools that point them elsewhere; with one of them set, an environment is private or a test.
pub const OVERRIDES: [&str; 2] = ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EC2"];

/// Whether the price list may be asked: not where only EC2 lies elsewhere, since the list would then be the internet's.
pub fn may_ask_price_list(is_set: impl Fn(&str) -> bool) -> bool {
    !is_set("AWS_ENDPOINT_URL_EC2") || is_set("AWS_ENDPOINT_URL") || is_set("AWS_ENDPOINT_URL_PRICING")
}

/// A question to a service of an account, for a manifest: where it stands, which the tools' own variables may change.
pub fn service(name: &str, question: &str) -> String {
    let named = variable(&format!("AWS_ENDPOINT_URL_{name}")).or_else(|| variable("AWS_ENDPOINT_URL"));
    let base = named.unwrap_or_else(|| format!("https://{}.REGION.amazonaws.com", name.to_ascii_lowercase()));
    format!("{base}/?Action={question}")
}

impl Addresses {
    /// At one given base, or at their public hosts, which a private environment must not reach.
    pub fn choose(given: Option<String>, is_set: impl Fn(&str) -> bool) -> Option<Self> {
        match given {
            Some(base) => Some(Self::at(&base)),
            None if OVERRIDES.into_iter().any(is_set) => None,
            None => Some(Self {
                advisor: "https://spot-bid-advisor.s3.amazonaws.com".to_owned(),
                feed: "https://website.spot.ec2.aws.a2z.com".to_owned(),
                price_page: "https://b0.p.awsstatic.com".to_owned(),
            }),
        }
    }

    pub fn at(base: &str) -> Self {
        let base = base.trim_end_matches('/').to_owned();
        Self { advisor: base.clone(), feed: base.clone(), price_page: base }
    }

    pub fn advisor_document(&self) -> String {
        format!("{}/spot-advisor-data.json", self.advisor)
    }

    pub fn feed_document(&self) -> String {
        format!("{}/spot.json", self.feed)
    }

    /// What price documents call the regions.
    pub fn places(&self) -> String {
        format!("{}/locations/1.0/aws/current/locations.json", self.price_page)
    }

    /// Prices of Linux on demand in a region, by its name there: what <https://aws.amazon.com/ec2/pricing/on-demand/> shows, in a
    /// thousandth of the bytes of the price list's own file.
    pub fn price_map(&self, name: &str) -> String {
        let page = &self.price_page;
        format!(
            "{page}/pricing/2.0/meteredUnitMaps/ec2/USD/current/ec2-ondemand-without-sec-sel/{name}/Linux/index.json"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_environment_never_reaches_a_public_host() {
        for set in OVERRIDES {
            assert_eq!(Addresses::choose(None, |name| name == set), None);
            let given = Addresses::choose(Some("http://127.0.0.1:1/".to_owned()), |name| name == set).unwrap();
            assert_eq!(given.advisor_document(), "http://127.0.0.1:1/spot-advisor-data.json");
            assert_eq!(given.places(), "http://127.0.0.1:1/locations/1.0/aws/current/locations.json");
            assert!(
                given
                    .price_map("EU (Ireland)")
                    .ends_with("/ec2-ondemand-without-sec-sel/EU (Ireland)/Linux/index.json")
            );
        }
        let public = Addresses::choose(None, |_| false).unwrap();
        assert_eq!(public.feed_document(), "https://website.spot.ec2.aws.a2z.com/spot.json");
        assert!(may_ask_price_list(|_| false) && may_ask_price_list(|name| name == "AWS_ENDPOINT_URL"));
        assert!(!may_ask_price_list(|name| name == "AWS_ENDPOINT_URL_EC2"));
    }
}
