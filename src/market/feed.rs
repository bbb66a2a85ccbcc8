//! `Feed`: offers and lists of machines as one signed file, which a maintainer publishes and the program lays over the snapshot. Pure:
//! bytes in, offers or a reason out.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use crate::cache::rows::{self, RowsError};
use crate::drift::MonthlyDrift;
use crate::machines::MachineList;
use crate::offer::Offer;
use gpuplan_hardware::{CloudId, Hardware};

/// First line of a file; a later form of it has another number.
const HEAD: &str = "gpuplan-feed 3";
/// Bytes of an Ed25519 signature (RFC 8032).
const SIGNATURE: usize = 64;
/// Bytes of an Ed25519 public key.
const PUBLIC: usize = 32;
/// Largest file that is read: ten times of what a whole snapshot packs to.
pub const LARGEST: usize = 3 << 20;
/// Clocks differ by less.
const CLOCKS: SignedDuration = SignedDuration::from_hours(1);

/// What a file holds.
#[derive(Debug, Serialize, Deserialize)]
pub struct Feed {
    /// Seconds since 1970.
    published_at: i64,
    parts: Vec<Part>,
    /// Which machines a cloud has where, as JSON.
    lists: BTreeMap<String, String>,
    /// How far prices moved over the nights before.
    drift: Vec<MonthlyDrift>,
}

/// The offers of one source and region, as the price cache keeps them.
#[derive(Debug, Serialize, Deserialize)]
struct Part {
    cloud: String,
    source: String,
    region: String,
    rows: Vec<u8>,
}

/// Why a file is no feed that may be believed.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    #[error("it is not a feed of this program")]
    NotAFeed,
    #[error("it is signed by none of the keys of feed.toml, or was changed since")]
    Unsigned,
    #[error("it is of {published_at}, older than the feed of {known} that is here")]
    Older { published_at: Timestamp, known: Timestamp },
    #[error("it is of {0}, which is still to come")]
    Early(Timestamp),
    #[error("it is damaged: {0}")]
    Damaged(String),
    #[error("`{0}` is not an Ed25519 key")]
    Key(String),
    #[error(transparent)]
    Rows(#[from] RowsError),
}

/// Half of the pair that only the maintainer has.
pub struct SigningKey(Ed25519KeyPair);

/// The half that everybody may have: 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; PUBLIC]);

impl SigningKey {
    /// PKCS #8, as `openssl genpkey -algorithm ed25519 -outform DER` makes it.
    pub fn from_pkcs8(bytes: &[u8]) -> Result<Self, FeedError> {
        let read = Ed25519KeyPair::from_pkcs8_maybe_unchecked(bytes);
        read.map(Self).map_err(|_| FeedError::Key("the file of the key".to_owned()))
    }

    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; PUBLIC];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(bytes)
    }
}

impl PublicKey {
    pub fn parse(text: &str) -> Result<Self, FeedError> {
        let refuse = || FeedError::Key(text.to_owned());
        let mut bytes = [0; PUBLIC];
        if text.len() != 2 * PUBLIC || !text.is_ascii() {
            return Err(refuse());
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| refuse())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| refuse())?;
        }
        Ok(Self(bytes))
    }

    pub fn hex(&self) -> String {
        self.0.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }

    fn signed(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(message, signature).is_ok()
    }
}

impl Feed {
    pub fn new(
        offers: &[&Offer],
        lists: &[(CloudId, MachineList)],
        drift: Vec<MonthlyDrift>,
        hardware: &Hardware,
        now: Timestamp,
    ) -> Result<Self, FeedError> {
        let mut parts: BTreeMap<(String, String, String), Vec<&Offer>> = BTreeMap::new();
        for offer in offers {
            let cloud = hardware.instance(offer.instance).cloud.to_string();
            parts.entry((cloud, offer.source.to_string(), offer.place.region.to_string())).or_default().push(offer);
        }
        let part = |((cloud, source, region), offers): (_, Vec<&Offer>)| {
            Ok(Part { cloud, source, region, rows: rows::pack_offers(&offers, hardware)? })
        };
        let list = |(cloud, list): &(CloudId, MachineList)| {
            let json = serde_json::to_string(list).map_err(|error| FeedError::Damaged(error.to_string()))?;
            Ok((cloud.to_string(), json))
        };
        Ok(Self {
            published_at: now.as_second(),
            parts: parts.into_iter().map(part).collect::<Result<_, FeedError>>()?,
            lists: lists.iter().map(list).collect::<Result<_, FeedError>>()?,
            drift,
        })
    }

    /// The file: a line, a signature over all that follows it, and the packed rest.
    pub fn signed(&self, key: &SigningKey) -> Result<Vec<u8>, FeedError> {
        let plain = postcard::to_stdvec(self).map_err(|error| FeedError::Damaged(error.to_string()))?;
        let body = zstd::encode_all(plain.as_slice(), 19).map_err(|error| FeedError::Damaged(error.to_string()))?;
        let message = [HEAD.as_bytes(), b"\n", &body].concat();
        let mut file = [HEAD.as_bytes(), b"\n"].concat();
        file.extend_from_slice(key.0.sign(&message).as_ref());
        file.extend_from_slice(&body);
        Ok(file)
    }

    /// Believes a file that one of the keys signed and that is no older than the one that is known. Nothing of it is unpacked before.
    pub fn open(file: &[u8], keys: &[PublicKey], known: Option<Timestamp>, now: Timestamp) -> Result<Self, FeedError> {
        let rest = file.strip_prefix(HEAD.as_bytes()).and_then(|rest| rest.strip_prefix(b"\n"));
        let rest = rest.filter(|rest| rest.len() > SIGNATURE && file.len() <= LARGEST).ok_or(FeedError::NotAFeed)?;
        let (signature, body) = rest.split_at(SIGNATURE);
        let message = [HEAD.as_bytes(), b"\n", body].concat();
        if !keys.iter().any(|key| key.signed(&message, signature)) {
            return Err(FeedError::Unsigned);
        }
        let plain = zstd::decode_all(body).map_err(|error| FeedError::Damaged(error.to_string()))?;
        let feed: Self = postcard::from_bytes(&plain).map_err(|error| FeedError::Damaged(error.to_string()))?;
        if let Some(odd) = feed.drift.iter().find(|drift| !drift.is_plausible()) {
            return Err(FeedError::Damaged(format!("prices of {} cannot move as it says", odd.cloud)));
        }
        let published_at = feed.published_at()?;
        if let Some(known) = known.filter(|known| published_at < *known) {
            return Err(FeedError::Older { published_at, known });
        }
        if published_at.duration_since(now) > CLOCKS {
            return Err(FeedError::Early(published_at));
        }
        Ok(feed)
    }

    pub fn published_at(&self) -> Result<Timestamp, FeedError> {
        Timestamp::from_second(self.published_at).map_err(|error| FeedError::Damaged(error.to_string()))
    }

    /// How far prices moved over the nights before.
    pub fn drift(&self) -> &[MonthlyDrift] {
        &self.drift
    }

    /// Which machines each cloud has where.
    pub fn lists(&self) -> Result<Vec<(CloudId, MachineList)>, FeedError> {
        let read = |(cloud, json): (&String, &String)| {
            let list = serde_json::from_str(json).map_err(|error| FeedError::Damaged(error.to_string()))?;
            Ok((CloudId::new(cloud), list))
        };
        self.lists.iter().map(read).collect()
    }

    /// The offers of machine types that the catalog knows, each with its own time and source.
    pub fn offers(&self, hardware: &Hardware) -> Result<Vec<Offer>, FeedError> {
        let mut offers = Vec::new();
        for Part { cloud, source, region, rows } in &self.parts {
            rows::unpack_offers(rows, source, region, &CloudId::new(cloud), hardware, &mut offers)?;
        }
        Ok(offers)
    }
}

/// Share of a cloud's rows that a night may lose; more, and a source has failed.
const MOST_LOST: f64 = 0.1;
/// A price that moves by more than this in a night is held back until a second source says so.
const LARGEST_JUMP: f64 = 0.5;

/// What is published of the offers of tonight.
#[derive(Debug, Default)]
pub struct Screened {
    pub offers: Vec<Offer>,
    /// Jumps that nothing confirms: tonight's offer, in whose place last night's stands.
    pub held_back: Vec<Offer>,
}

/// Holds the offers of tonight against those of last night. The error names the clouds that would lose too much.
pub fn screened(
    tonight: Vec<Offer>,
    last_night: &[Offer],
    hardware: &Hardware,
) -> Result<Screened, Vec<(CloudId, usize, usize)>> {
    let count = |offers: &[Offer]| {
        let mut counts: BTreeMap<CloudId, usize> = BTreeMap::new();
        for offer in offers {
            *counts.entry(hardware.instance(offer.instance).cloud.clone()).or_default() += 1;
        }
        counts
    };
    let (before, after) = (count(last_night), count(&tonight));
    let lost = before.into_iter().filter_map(|(cloud, before)| {
        let now = after.get(&cloud).copied().unwrap_or(0);
        ((now as f64) < (1.0 - MOST_LOST) * before as f64).then_some((cloud, before, now))
    });
    let lost: Vec<_> = lost.collect();
    if !lost.is_empty() {
        return Err(lost);
    }
    let key = |offer: &Offer| (offer.instance, offer.place.clone(), offer.purchase);
    let known: BTreeMap<_, &Offer> = last_night.iter().map(|offer| (key(offer), offer)).collect();
    let mut sources: BTreeMap<_, Vec<(Arc<str>, f64)>> = BTreeMap::new();
    for offer in &tonight {
        sources.entry(key(offer)).or_default().push((offer.source.clone(), offer.quote.rate.dollars()));
    }
    let mut screened = Screened::default();
    for offer in tonight {
        let rate = offer.quote.rate.dollars();
        let is_near =
            |other: f64| (rate / other - 1.0).abs() <= LARGEST_JUMP && (other / rate - 1.0).abs() <= LARGEST_JUMP;
        let is_confirmed =
            sources[&key(&offer)].iter().any(|(source, other)| *source != offer.source && is_near(*other));
        match known.get(&key(&offer)) {
            Some(before) if !is_near(before.quote.rate.dollars()) && !is_confirmed => {
                screened.offers.push((*before).clone());
                screened.held_back.push(offer);
            }
            _ => screened.offers.push(offer),
        }
    }
    Ok(screened)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::snapshot::Market;
    use crate::quote::Origin;
    use gpuplan_units::UsdPerHour;

    fn key(seed: u8) -> SigningKey {
        SigningKey(Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap())
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn feed(hardware: &Hardware, day: &str) -> Feed {
        let market = Market::embedded(hardware).unwrap();
        let offers: Vec<&Offer> = market.offers().iter().collect();
        let mut list = MachineList::default();
        list.regions.insert("us-east-1".into(), ["p5.48xlarge".to_owned()].into());
        let drift = MonthlyDrift {
            cloud: "aws".to_owned(),
            is_spot: true,
            growth: 0.03,
            deviation: 0.14,
            gone: 0.02,
            pairs: 612,
            months: 4.2,
        };
        Feed::new(&offers, &[(CloudId::new("aws"), list)], vec![drift], hardware, at(day)).unwrap()
    }

    #[test]
    fn a_whole_snapshot_comes_back_within_three_hundred_kilobytes() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let file = feed(&hardware, "2026-11-24T03:00:00Z").signed(&key(1)).unwrap();
        assert!(file.len() <= 300_000, "{} bytes", file.len());
        let now = at("2026-11-24T09:00:00Z");
        let read = Feed::open(&file, &[key(1).public()], None, now).unwrap();
        let offers = read.offers(&hardware).unwrap();
        assert_eq!((offers.len(), read.lists().unwrap()[0].1.pools()), (market.offers().len(), 1));
        assert_eq!((read.drift()[0].pairs, read.drift()[0].months), (612, 4.2));
        assert!(offers.iter().all(|offer| offer.quote.origin == Origin::Cached));
        let sum = |offers: &[Offer]| offers.iter().map(|offer| i128::from(offer.quote.rate.nanos())).sum::<i128>();
        assert_eq!(sum(&offers), sum(market.offers()));
        // A program that knows fewer machines takes what it knows.
        assert!(read.offers(&Hardware::default()).unwrap().is_empty());
    }

    #[test]
    fn prices_that_cannot_move_so_are_damage() {
        let (hardware, now) = (Hardware::embedded().unwrap(), at("2026-11-24T09:00:00Z"));
        let ways: [fn(&mut MonthlyDrift); 5] = [
            |drift| drift.growth = f64::NAN,
            |drift| drift.growth = -0.1,
            |drift| drift.deviation = f64::INFINITY,
            |drift| drift.gone = 1.5,
            |drift| drift.months = -6.0,
        ];
        for (index, break_it) in ways.iter().enumerate() {
            let mut feed = feed(&hardware, "2026-11-24T03:00:00Z");
            break_it(&mut feed.drift[0]);
            let read = Feed::open(&feed.signed(&key(1)).unwrap(), &[key(1).public()], None, now);
            assert!(matches!(read, Err(FeedError::Damaged(_))), "{index}");
        }
    }

    #[test]
    fn a_new_key_is_believed_beside_the_old_one_and_a_stranger_never() {
        let hardware = Hardware::embedded().unwrap();
        let now = at("2026-11-24T09:00:00Z");
        let open = |signer: u8, keys: &[u8]| {
            let file = feed(&hardware, "2026-11-24T03:00:00Z").signed(&key(signer)).unwrap();
            let keys: Vec<PublicKey> = keys.iter().map(|seed| key(*seed).public()).collect();
            Feed::open(&file, &keys, None, now).map(|_| ())
        };
        // Rotation: both keys stand in the settings while the signer changes, then the old one goes.
        assert!(open(1, &[1, 2]).is_ok() && open(2, &[1, 2]).is_ok() && open(2, &[2]).is_ok());
        for (signer, keys) in [(1, vec![2]), (3, vec![1, 2]), (1, vec![])] {
            assert!(matches!(open(signer, &keys), Err(FeedError::Unsigned)), "{signer} {keys:?}");
        }
    }

    #[test]
    fn an_older_file_a_part_of_one_and_a_changed_one_are_refused() {
        let hardware = Hardware::embedded().unwrap();
        let (keys, now) = ([key(1).public()], at("2026-11-24T09:00:00Z"));
        let file = feed(&hardware, "2026-11-24T03:00:00Z").signed(&key(1)).unwrap();
        let replayed = Feed::open(&file, &keys, Some(at("2026-11-24T04:00:00Z")), now).unwrap_err();
        assert_eq!(
            replayed.to_string(),
            "it is of 2026-11-24T03:00:00Z, older than the feed of 2026-11-24T04:00:00Z that is here"
        );
        assert!(Feed::open(&file, &keys, Some(at("2026-11-24T03:00:00Z")), now).is_ok(), "the same again");
        assert!(matches!(Feed::open(&file, &keys, None, at("2026-11-20T00:00:00Z")), Err(FeedError::Early(_))));
        for length in [0, 5, HEAD.len() + 1, HEAD.len() + 1 + SIGNATURE, file.len() / 2, file.len() - 1] {
            assert!(Feed::open(&file[..length], &keys, None, now).is_err(), "{length} bytes");
        }
        for position in [0, HEAD.len() + 3, HEAD.len() + 1 + SIGNATURE, file.len() - 1] {
            let mut changed = file.clone();
            changed[position] ^= 1;
            assert!(Feed::open(&changed, &keys, None, now).is_err(), "byte {position}");
        }
        let longer = [file.as_slice(), b"x"].concat();
        assert!(matches!(Feed::open(&longer, &keys, None, now), Err(FeedError::Unsigned)));
    }

    #[test]
    fn a_key_is_sixty_four_digits() {
        let public = key(7).public();
        assert_eq!(PublicKey::parse(&public.hex()).unwrap(), public);
        for text in ["", "ab", &"g".repeat(64), &"ä".repeat(32)] {
            assert!(PublicKey::parse(text).is_err(), "{text}");
        }
        assert!(SigningKey::from_pkcs8(b"no key").is_err());
    }

    #[test]
    fn a_night_may_not_lose_a_cloud_nor_double_a_price_on_one_word() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let last_night = market.offers().to_vec();
        let aws = |offer: &Offer| hardware.instance(offer.instance).cloud.as_str() == "aws";
        let without: Vec<Offer> = last_night.iter().filter(|offer| !aws(offer)).cloned().collect();
        let lost = screened(without, &last_night, &hardware).unwrap_err();
        assert_eq!((lost.len(), lost[0].0.as_str(), lost[0].2), (1, "aws", 0));
        let mut tonight = last_night.clone();
        tonight[0].quote.rate = UsdPerHour::from_nanos(last_night[0].quote.rate.nanos() * 3);
        tonight[1].quote.rate = UsdPerHour::from_nanos(last_night[1].quote.rate.nanos() * 5 / 4);
        let found = screened(tonight.clone(), &last_night, &hardware).unwrap();
        assert_eq!((found.held_back.len(), found.offers.len()), (1, last_night.len()));
        assert_eq!(found.offers[0].quote.rate, last_night[0].quote.rate);
        assert_eq!(found.offers[1].quote.rate, tonight[1].quote.rate);
        let mut second = tonight[0].clone();
        second.source = "another".into();
        tonight.push(second);
        assert!(screened(tonight, &last_night, &hardware).unwrap().held_back.is_empty(), "two sources say so");
    }
}
