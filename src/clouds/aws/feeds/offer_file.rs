//! Reads the price list of one region as a CSV file line by line. The file is too large to keep.

use crate::prices::price_list::ListPrice;
use crate::prices::spot::positive;
use gpuplan_units::UsdPerHour;

/// Id of this source in an offer.
pub const SOURCE: &str = "aws-offer-files";

/// Columns that a row must have to be a plain Linux machine by the hour, as in `price_list::PLAIN`.
const PLAIN: [(&str, &str); 8] = [
    ("TermType", "OnDemand"),
    ("Unit", "Hrs"),
    ("Location Type", "AWS Region"),
    ("Operating System", "Linux"),
    ("Pre Installed S/W", "NA"),
    ("CapacityStatus", "Used"),
    ("Tenancy", "Shared"),
    ("MarketOption", "OnDemand"),
];
/// Most rows are reserved terms or other systems; only a line with both of these is taken apart.
const EARLY: [&str; 2] = ["\"OnDemand\"", "\"Linux\""];

/// Where the columns stand, once the header has been seen. A few lines of disclaimer come before it.
#[derive(Default)]
pub struct OfferFile {
    columns: Option<Columns>,
}

struct Columns {
    plain: Vec<(usize, &'static str)>,
    instance_type: usize,
    region: usize,
    price: usize,
    currency: usize,
}

impl OfferFile {
    /// `None` for what is no machine that `wants` names; an error for a row that cannot be read.
    pub fn line(&mut self, line: &str, wants: impl Fn(&str) -> bool) -> Result<Option<ListPrice>, String> {
        let Some(columns) = &self.columns else {
            if line.starts_with("\"SKU\"") || line.starts_with("SKU,") {
                self.columns = Some(Columns::find(&cells(line)?)?);
            }
            return Ok(None);
        };
        if EARLY.iter().any(|word| !line.contains(word)) {
            return Ok(None);
        }
        columns.read(&cells(line)?, wants)
    }

    /// Whether the file was one at all.
    pub fn has_header(&self) -> bool {
        self.columns.is_some()
    }
}

impl Columns {
    fn find(header: &csv::StringRecord) -> Result<Self, String> {
        let at = |name: &str| {
            header.iter().position(|cell| cell == name).ok_or_else(|| format!("the price file has no column `{name}`"))
        };
        let plain: Result<Vec<_>, String> = PLAIN.iter().map(|(name, wanted)| Ok((at(name)?, *wanted))).collect();
        Ok(Self {
            plain: plain?,
            instance_type: at("Instance Type")?,
            region: at("Region Code")?,
            price: at("PricePerUnit")?,
            currency: at("Currency")?,
        })
    }

    fn read(&self, row: &csv::StringRecord, wants: impl Fn(&str) -> bool) -> Result<Option<ListPrice>, String> {
        let cell = |at: usize| row.get(at).unwrap_or_default();
        let instance_type = cell(self.instance_type);
        if !wants(instance_type) || self.plain.iter().any(|(at, wanted)| cell(*at) != *wanted) {
            return Ok(None);
        }
        let place = |detail: String| format!("{instance_type}: {detail}");
        let (currency, price) = (cell(self.currency), cell(self.price));
        if currency != "USD" {
            return Err(place(format!("the price is in `{currency}`, not in USD; it is left out")));
        }
        if UsdPerHour::parse(price) == Ok(UsdPerHour::default()) {
            return Ok(None);
        }
        let rate = positive(price).map_err(place)?;
        Ok(Some(ListPrice { instance_type: instance_type.to_owned(), region: cell(self.region).to_owned(), rate }))
    }
}

fn cells(line: &str) -> Result<csv::StringRecord, String> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
    let mut record = csv::StringRecord::new();
    reader.read_record(&mut record).map_err(|error| format!("a row is not CSV: {error}"))?;
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAMPLE: &str = include_str!("../../../../tests/fixtures/aws/offer_file.csv");

    fn read(text: &str) -> (Vec<ListPrice>, Vec<String>) {
        let mut file = OfferFile::default();
        let (mut prices, mut errors) = (Vec::new(), Vec::new());
        for line in text.lines() {
            match file.line(line, |name| name == "g5.xlarge" || name == "p5.48xlarge") {
                Ok(price) => prices.extend(price),
                Err(error) => errors.push(error),
            }
        }
        (prices, errors)
    }

    #[test]
    fn only_plain_machines_of_the_wanted_types_are_read() {
        let (prices, errors) = read(SAMPLE);
        let found: Vec<_> = prices
            .iter()
            .map(|price| (price.instance_type.as_str(), price.region.as_str(), price.rate.to_string()))
            .collect();
        let expected =
            [("g5.xlarge", "us-east-1", "1.006".to_owned()), ("p5.48xlarge", "us-east-1", "55.04".to_owned())];
        assert_eq!(found, expected);
        assert_eq!(
            errors,
            [
                "g5.xlarge: the price is in `CNY`, not in USD; it is left out",
                "p5.48xlarge: `N/A` is not an amount in dollars, such as 55.04; the price is left out"
            ]
        );
    }

    #[test]
    fn columns_are_found_by_name_in_any_order() {
        let mut lines: Vec<Vec<String>> =
            SAMPLE.lines().skip(5).map(|line| cells(line).unwrap().iter().map(str::to_owned).collect()).collect();
        for line in &mut lines {
            line[1..].reverse();
        }
        let turned: Vec<String> = lines.iter().map(|line| format!("\"{}\"", line.join("\",\""))).collect();
        assert_eq!(read(&turned.join("\n")), read(SAMPLE));
    }

    #[test]
    fn a_missing_column_is_named() {
        let mut file = OfferFile::default();
        assert_eq!(file.line("\"SKU\",\"TermType\"", |_| true).unwrap_err(), "the price file has no column `Unit`");
        assert!(!file.has_header());
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in "[\"a-zA-Z0-9,. ]{0,80}", price in ".{0,12}") {
            let header = SAMPLE.lines().nth(5).unwrap();
            let mut file = OfferFile::default();
            file.line(header, |_| true).unwrap();
            // Of a line with too few cells the price is missing, and a line of something else is none.
            prop_assert!(matches!(file.line(&line, |_| true), Ok(None) | Err(_)), "{line}");
            if let Ok(Some(found)) = file.line(&SAMPLE.lines().nth(6).unwrap().replace("1.0060000000", &price), |_| true) {
                prop_assert!(UsdPerHour::parse(&price) == Ok(found.rate) || price.contains('"'));
            }
        }
    }
}
