//! `prices --live`: asks the clouds and lays their answers over the snapshot. What cannot be had is a warning.

use crate::cli::diagnostic::{Diagnostic, Exit};
use crate::cli::printer::Printer;
use crate::cli::settings::Settings;
use crate::clouds::{ask, sources};
use crate::hardware::{CloudId, Hardware};
use crate::market::{Answer, Market, OfferQuery, PriceSource, SourceError};

/// Notes of a cloud that are printed in full; the rest are counted.
const NOTES_SHOWN: usize = 5;

/// The market with live prices of these clouds, or of every cloud that can be asked where none is named.
pub fn merge_live(
    market: Market,
    hardware: &Hardware,
    settings: &Settings,
    printer: &Printer,
    clouds: &[CloudId],
) -> Result<Market, Diagnostic> {
    if settings.offline {
        return Err(Diagnostic::new(Exit::Usage, "--live asks the clouds, which --offline (or GPUPLAN_OFFLINE) forbids")
            .hint("`gpuplan prices --offline` shows the prices inside this program"));
    }
    let sources = price_sources(hardware, printer, clouds);
    let questions: Vec<_> = sources.iter().map(|source| (source.as_ref(), OfferQuery::known(&market, hardware, &source.cloud()))).collect();
    let answers = ask(&questions).map_err(|error| Diagnostic::unexpected(&error))?;
    let mut fresh = Vec::new();
    for (source, answer) in sources.iter().zip(answers) {
        fresh.extend(report(&source.cloud(), answer, printer).offers);
    }
    Ok(if fresh.is_empty() { market } else { market.refreshed(fresh, hardware) })
}

fn price_sources(hardware: &Hardware, printer: &Printer, clouds: &[CloudId]) -> Vec<Box<dyn PriceSource>> {
    let is_named = !clouds.is_empty();
    let clouds = if is_named { clouds.to_vec() } else { hardware.clouds() };
    let mut found = Vec::new();
    for cloud in clouds {
        match sources(&cloud) {
            Some(sources) => {
                if let Some(feature) = sources.needs_feature {
                    printer.warning(&format!("{cloud}: this build cannot ask an account; build with the feature `{feature}`"));
                }
                found.extend(sources.prices);
            }
            None if is_named => {
                printer.warning(&format!("{cloud}: gpuplan cannot ask it for prices yet; those of the snapshot are shown"));
            }
            None => {}
        }
    }
    found
}

/// Says what a cloud answered and hands on its offers.
fn report(cloud: &CloudId, answer: Result<Answer, SourceError>, printer: &Printer) -> Answer {
    let answer = answer.unwrap_or_else(|error| {
        printer.warning(&format!("{cloud}: {error}; the prices of the snapshot stay, with their own dates"));
        Answer::default()
    });
    for note in answer.notes.iter().take(NOTES_SHOWN) {
        printer.warning(&format!("{cloud}: {note}"));
    }
    if answer.notes.len() > NOTES_SHOWN {
        printer.warning(&format!("{cloud}: and {} more without a live price", answer.notes.len() - NOTES_SHOWN));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::Arguments;
    use clap::Parser;

    #[test]
    fn the_network_is_not_touched_where_that_is_forbidden() {
        let settings = Settings::new(&Arguments::parse_from(["gpuplan", "--offline", "prices", "--live"]).global).unwrap();
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let diagnostic = merge_live(market, &hardware, &settings, &Printer, &[]).unwrap_err();
        assert_eq!(diagnostic.exit, Exit::Usage);
        assert_eq!(diagnostic.hints.len(), 1);
    }

    #[test]
    fn a_cloud_that_cannot_be_asked_leaves_the_market_as_it_was() {
        let mut settings = Settings::new(&Arguments::parse_from(["gpuplan", "prices", "--live"]).global).unwrap();
        settings.offline = false;
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let offers = market.offers().to_vec();
        let market = merge_live(market, &hardware, &settings, &Printer, &[CloudId::new("vultr")]).unwrap();
        assert_eq!(market.offers(), offers);
    }
}
