//! What a number that was refused probably means, to be offered and never taken: `-50M` is offered as `50M`, `3,50` as `3.50`.

use crate::data::Bytes;
use crate::quantity::parse_count;
use crate::separators::{parse_amount, with_decimal_point};
use crate::time::Hours;

/// The count that `text` probably means.
pub fn count(text: &str) -> Option<String> {
    let plain = plain(text);
    let things = ["tokens", "samples", "steps", "epochs", "images", "sequences"];
    let plain = things.iter().find_map(|thing| plain.strip_suffix(thing)).map_or(plain.as_str(), str::trim_end);
    let units = [
        ("thousand", "k"),
        ("million", "M"),
        ("billion", "B"),
        ("trillion", "T"),
        ("mio", "M"),
        ("mrd", "B"),
        ("kb", "k"),
        ("mb", "M"),
        ("gb", "B"),
        ("tb", "T"),
        ("mi", "M"),
    ];
    let bare = without_unit(plain, &units, "");
    // Two points group digits, as in `1.000.000`.
    let grouped = (bare.matches('.').count() > 1).then(|| bare.replace('.', ""));
    first_that([bare].into_iter().chain(grouped), |text| parse_count(text).is_ok())
}

/// The amount of dollars that `text` probably means; none for another currency.
pub fn amount(text: &str) -> Option<String> {
    let plain = plain(text).to_ascii_lowercase();
    let most = ["under ", "below ", "at most ", "up to ", "less than ", "max ", "<", "~"];
    let plain =
        most.iter().find_map(|word| plain.strip_prefix(word)).map_or(plain.clone(), |rest| rest.trim().to_owned());
    // Blanks, such as the narrow one of French and SI, group digits.
    let is_blank_group = plain.chars().all(|c| c.is_ascii_digit() || c.is_whitespace() || matches!(c, '.' | '$'));
    let plain = if is_blank_group { plain.split_whitespace().collect() } else { plain };
    let plain = plain.trim_start_matches('$').to_owned();
    let dollars =
        ["usd", "us$", "dollars", "dollar", "$", "/hour", "/hr", "$/h", "/month", "/mo", "a month", "per month"];
    let dollars = dollars.map(|word| (word, ""));
    let bare = without_unit(plain.trim_start_matches("usd").trim_start_matches("us$").trim_start(), &dollars, "");
    let thousands = |suffix: char, factor: &str| {
        let (whole, part) =
            bare.strip_suffix(suffix)?.trim().split_once('.').unwrap_or((bare.strip_suffix(suffix)?.trim(), ""));
        let zeros = factor.len().checked_sub(part.len())?;
        Some(format!("{whole}{part}{}", &factor[..zeros]))
    };
    let long = [thousands('k', "000"), thousands('m', "000000")].into_iter().flatten();
    first_that(std::iter::once(bare.clone()).chain(long), |text| {
        parse_amount(text).is_ok_and(|amount| amount.nanos() > 0)
    })
}

/// The lengths of time that `text` probably means: two for a number without unit.
pub fn durations(text: &str) -> Vec<String> {
    let plain = plain(text).to_ascii_lowercase();
    if plain.parse::<f64>().is_ok_and(|number| number > 0.0 && number.is_finite()) {
        return vec![format!("{plain}h"), format!("{plain}d")];
    }
    let units = [
        ("hrs", "h"),
        ("hr", "h"),
        ("std", "h"),
        ("mins", "m"),
        ("minute", "m"),
        ("secs", "s"),
        ("second", "s"),
        ("wk", "w"),
        ("wks", "w"),
    ];
    let short = without_unit(&plain, &units, "");
    let of_days = |word: &str, days: f64| {
        let number: f64 = plain.strip_suffix(word)?.trim().parse().ok()?;
        Some(format!("{}d", (number * days).round()))
    };
    let long = [("years", 365.0), ("year", 365.0), ("y", 365.0), ("months", 30.0), ("month", 30.0), ("mo", 30.0)];
    let long = long.into_iter().filter_map(|(word, days)| of_days(word, days));
    first_that(std::iter::once(short).chain(long), |text| Hours::parse(text).is_ok_and(|hours| hours.0 > 0.0))
        .into_iter()
        .collect()
}

/// The amounts of data that `text` probably means: with the unit that is missing or misspelt.
pub fn data(text: &str) -> Option<String> {
    let plain = plain(text);
    let upper = plain.to_ascii_uppercase();
    let units =
        [("GIG", "GB"), ("GIGS", "GB"), ("G", "GB"), ("T", "TB"), ("M", "MB"), ("GO", "GB"), ("TO", "TB"), ("P", "PB")];
    let with_unit = without_unit(&upper, &units, "GB");
    first_that([plain, with_unit], |text| Bytes::parse(text).is_ok_and(|bytes| bytes.0 > 0.0))
}

/// Without a sign, with the digits of ASCII, and with a decimal point.
fn plain(text: &str) -> String {
    let ascii = text.trim().chars().map(|c| match c {
        '\u{ff10}'..='\u{ff19}' => char::from_digit(u32::from(c) - 0xff10, 10).unwrap_or(c),
        '\u{2212}' | '\u{2013}' => '-',
        other => other,
    });
    let ascii: String = ascii.collect();
    let unsigned = ascii.trim_start_matches(['-', '+', '~', '<', '=']).trim_start();
    if unsigned.contains(',') { with_decimal_point(unsigned) } else { unsigned.to_owned() }
}

/// The number with the short form of its unit; one without any gets `missing`.
fn without_unit(text: &str, units: &[(&str, &str)], missing: &str) -> String {
    let at = text.find(|c: char| c.is_alphabetic() || c == '/' || c == '$').unwrap_or(text.len());
    let (number, unit) = (text[..at].trim(), text[at..].trim());
    let word = unit.to_lowercase();
    match units.iter().find(|(known, _)| known.to_lowercase() == word) {
        Some((_, short)) => format!("{number}{short}"),
        None if unit.is_empty() => format!("{number}{missing}"),
        None => format!("{number}{unit}"),
    }
}

fn first_that(candidates: impl IntoIterator<Item = String>, is_read: impl Fn(&str) -> bool) -> Option<String> {
    candidates.into_iter().find(|candidate| is_read(candidate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_was_meant_is_offered_and_nonsense_is_not() {
        for (text, near) in [
            ("-50M", "50M"),
            ("50MB", "50M"),
            ("50 million", "50M"),
            ("1,5B", "1.5B"),
            ("\u{ff15}\u{ff10}M", "50M"),
            ("50M tokens", "50M"),
            ("1.000.000", "1000000"),
        ] {
            assert_eq!(count(text).as_deref(), Some(near), "{text}");
        }
        for (text, near) in [
            ("3,50", "3.50"),
            ("1.000,00", "1000.00"),
            ("300usd", "300"),
            ("under 20 dollars", "20"),
            ("$800/month", "800"),
            ("<$50", "50"),
            ("1k", "1000"),
            ("-3", "3"),
            ("2.5k", "2500"),
            ("USD 300", "300"),
            ("$1 000", "1000"),
            ("1\u{a0}000", "1000"),
            ("5 $/h", "5"),
        ] {
            assert_eq!(amount(text).as_deref(), Some(near), "{text}");
        }
        assert_eq!(durations("12"), ["12h", "12d"]);
        for (text, near) in [("36 hrs", "36h"), ("-3d", "3d"), ("1 month", "30d"), ("2years", "730d"), ("1,5h", "1.5h")]
        {
            assert_eq!(durations(text), [near], "{text}");
        }
        for (text, near) in [("5", "5GB"), ("500 G", "500GB"), ("1,2TB", "1.2TB"), ("80gigs", "80GB")] {
            assert_eq!(data(text).as_deref(), Some(near), "{text}");
        }
        for text in ["", "many", "0", "nan", "inf", "300\u{20ac}"] {
            assert_eq!((count(text), amount(text), data(text)), (None, None, None), "{text}");
            assert!(durations(text).is_empty(), "{text}");
        }
    }

    proptest! {
        /// What is offered can be typed.
        #[test]
        fn every_offer_is_read(text in prop_oneof!["\\PC{0,12}", "[-$]?[0-9]{0,4}[.,]?[0-9]{0,4} ?[a-zA-Z$]{0,6}"]) {
            prop_assert!(count(&text).is_none_or(|near| parse_count(&near).is_ok()));
            prop_assert!(amount(&text).is_none_or(|near| parse_amount(&near).is_ok()));
            prop_assert!(durations(&text).iter().all(|near| Hours::parse(near).is_ok()));
            prop_assert!(data(&text).is_none_or(|near| Bytes::parse(&near).is_ok()));
        }
    }
}
