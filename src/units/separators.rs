//! Separators in numbers that people write: `20,000` and `1_281_167` group digits by three, and the comma of `3,50` is a decimal one.

use crate::money::{MoneyError, Usd, UsdPerHour};

/// An amount as people write it: `$20,000` and `1_500.50` too.
pub fn parse_amount(text: &str) -> Result<Usd, MoneyError> {
    Usd::parse(&plain_amount(text)?)
}

/// The same of a rate.
pub fn parse_rate(text: &str) -> Result<UsdPerHour, MoneyError> {
    UsdPerHour::parse(&plain_amount(text)?)
}

fn plain_amount(text: &str) -> Result<String, MoneyError> {
    without_separators(text).ok_or_else(|| MoneyError::DecimalComma(text.to_owned()))
}

/// The number without its separators. `None` where a comma does not group digits by three: read over, `3,50` would be 350.
pub fn without_separators(number: &str) -> Option<String> {
    let whole = number.split(['.', 'e', 'E']).next().unwrap_or(number);
    let after = &number[whole.len()..];
    if after.contains(',') {
        return None;
    }
    let mut groups = whole.split(',');
    let first: String = groups.next()?.chars().filter(char::is_ascii_digit).collect();
    let digits_of = |group: &str| group.chars().take_while(char::is_ascii_digit).count();
    let is_thousands = |(at, group): (usize, &str)| {
        // What follows the last group is a suffix, such as the M of `1,500M`.
        digits_of(group) == 3 && !group.contains('_') && (group.len() == 3 || at + 2 == whole.split(',').count())
    };
    let is_grouped = !whole.contains(',') || (1..=3).contains(&first.len());
    (is_grouped && groups.enumerate().all(is_thousands)).then(|| number.replace([',', '_'], ""))
}

/// The same number as it is meant: with a decimal point in place of a decimal comma, else without separators.
pub fn with_decimal_point(number: &str) -> String {
    match number.rsplit_once(',') {
        Some((whole, part)) if !whole.contains(',') && part.chars().take_while(char::is_ascii_digit).count() != 3 => {
            format!("{}.{part}", whole.replace(['.', '_'], ""))
        }
        _ => number.replace([',', '_'], ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_comma_groups_by_three_or_is_refused() {
        for (text, number) in [
            ("20,000", "20000"),
            ("$1,000.50", "$1000.50"),
            ("1_281_167", "1281167"),
            ("1,500M", "1500M"),
            ("50,000,000", "50000000"),
            ("2.5", "2.5"),
            ("12,345e2", "12345e2"),
            ("", ""),
            ("many", "many"),
        ] {
            assert_eq!(without_separators(text).as_deref(), Some(number), "{text}");
        }
        for text in ["3,50", "1.000,00", "1,00,000", "1234,567", ",5", "1,", "1,,000", "1,5B", "1,0000", "1,000x,000", "0,0__."] {
            assert_eq!(without_separators(text), None, "{text}");
        }
    }

    #[test]
    fn what_was_meant_is_offered() {
        for (text, meant) in [("3,50", "3.50"), ("1.000,00", "1000.00"), ("1,00,000", "100000"), ("1,5B", "1.5B")] {
            assert_eq!(with_decimal_point(text), meant);
        }
    }

    proptest! {
        /// What is read over changes no value: the same digits, and commas only before three of them.
        #[test]
        fn only_whole_groups_lose_their_comma(text in "[0-9,._]{0,12}") {
            if let Some(plain) = without_separators(&text) {
                prop_assert_eq!(plain, text.replace([',', '_'], ""));
                for (at, _) in text.match_indices(',') {
                    let next: Vec<char> = text[at + 1..].chars().take(4).collect();
                    prop_assert!(next.len() >= 3 && next[..3].iter().all(char::is_ascii_digit), "{text}");
                    prop_assert!(!next.get(3).is_some_and(char::is_ascii_digit), "{text}");
                }
            }
        }
    }
}
