//! DigitalOcean: GPU droplets with prices and the regions that sell them, for who has a token.

pub mod droplet_sizes;
pub mod sizes;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "digitalocean";
