//! Amounts are read exactly and written as they were.

#![cfg(test)]

use super::*;
use proptest::prelude::*;

#[test]
fn a_quoted_price_survives_unchanged() {
    assert_eq!(UsdPerHour::parse("98.3200000000").unwrap().nanos(), 98_320_000_000);
    assert_eq!(UsdPerHour::parse("4.49993").unwrap().to_string(), "4.49993");
    assert_eq!(UsdPerHour::parse("9.0E-4").unwrap().nanos(), 900_000);
    assert_eq!(UsdPerHour::parse("3").unwrap().to_string(), "3.00");
}

#[test]
fn what_is_no_price_is_refused_by_name() {
    assert!(matches!(UsdPerHour::parse("N/A*"), Err(MoneyError::Malformed(_))));
    assert!(matches!(UsdPerHour::parse(""), Err(MoneyError::Malformed(_))));
    assert!(matches!(UsdPerHour::parse("-1"), Err(MoneyError::Negative(_))));
    assert!(matches!(UsdPerHour::parse("0.0000000001"), Err(MoneyError::TooFine(_))));
    assert!(matches!(UsdPerHour::parse("1e99"), Err(MoneyError::TooLarge(_))));
    assert!(matches!(UsdPerHour::parse("1e2147483647"), Err(MoneyError::TooLarge(_))));
}

#[test]
fn a_computed_amount_is_rounded_up_and_never_to_more_than_a_nano_dollar_above() {
    assert_eq!(Usd::parse_up("0.13370370370370369").unwrap().nanos(), 133_703_704);
    assert_eq!(Usd::parse_up("0.4").unwrap(), Usd::parse("0.4").unwrap());
    assert!(matches!(Usd::parse_up("0.0000000001"), Err(MoneyError::TooFine(_))));
    assert!(matches!(Usd::parse_up("1e-2147483647"), Err(MoneyError::TooFine(_))));
}

#[test]
fn hours_that_are_no_number_cost_nothing_computable() {
    let rate = UsdPerHour::parse("1").unwrap();
    assert_eq!(rate.for_hours(1, f64::NAN), None);
    assert_eq!(rate.for_hours(3, 2.0).unwrap().to_string(), "6.00");
}

#[test]
fn a_bill_is_added_up_before_it_is_rounded() {
    let read = |text: &str| FineUsd::parse(text).unwrap();
    let sum = (0..10).fold(FineUsd::ZERO, |sum, _| sum.checked_add(read("0.0000000001")).unwrap());
    assert_eq!(sum.rounded().nanos(), 1);
    assert_eq!(read("-12.3456").rounded().to_string(), "-12.3456");
    assert_eq!((read("0.0000000005").rounded().nanos(), read("-0.0000000005").rounded().nanos()), (1, -1));
    assert_eq!(read("3.2040163817600001E-05").rounded().nanos(), 32_040);
    assert_eq!(read("1234567890.12").rounded().to_string(), "1234567890.12");
    let last = ["4e-25", "5e-25", "-6e-25", "1.2345678901234567e-9"].map(|text| read(text).0);
    assert_eq!(last, [0, 1, -1, 1_234_567_890_123_457]);
    assert!(matches!(FineUsd::parse("1e16"), Err(MoneyError::TooLarge(_))));
    for text in ["", "-", "--1", "1,5", "EUR 3", "NaN"] {
        assert!(matches!(FineUsd::parse(text), Err(MoneyError::Malformed(_) | MoneyError::Negative(_))), "{text}");
    }
}

#[test]
fn a_credit_is_negative_and_reads_back() {
    let credit = Usd::parse_signed("-3.005").unwrap();
    assert_eq!((credit.nanos(), credit.to_string().as_str()), (-3_005_000_000, "-3.005"));
    assert_eq!(Usd::parse_signed(&credit.to_string()).unwrap(), credit);
    assert!(Usd::parse("-3").is_err(), "a price is never negative");
}

#[test]
fn a_share_is_no_more_than_the_whole() {
    let amount = Usd::from_nanos(10);
    assert_eq!((amount.share(1, 3).nanos(), amount.share(3, 3).nanos(), amount.share(1, 0).nanos()), (3, 10, 0));
    assert_eq!(amount.split([1, 0, 1, 1]).map(Usd::nanos), [3, 0, 3, 4]);
    assert_eq!(Usd::from_nanos(-10).split([1, 2]).map(Usd::nanos), [-4, -6]);
}

#[test]
fn two_billion_of_the_largest_amounts_add_up() {
    let largest = Usd(MOST);
    let all = (0..31).fold(largest, |sum, _| if sum.0 < i128::MAX / 2 { sum + sum } else { sum });
    assert!(all.0 >= MOST << 30 && (Usd::ZERO - all) + all == Usd::ZERO);
    // What constructs an amount keeps below it.
    assert!(UsdPerHour::from_nanos(i64::MAX).times(u32::MAX) < largest);
    assert_eq!(Usd::from_dollars(8e19), None);
    assert!(Usd::from_dollars(7.9e19).unwrap() < largest && Usd::parse("79000000000000000000").unwrap() < largest);
    assert!(matches!(Usd::parse("8e19"), Err(MoneyError::TooLarge(_))));
    assert!(matches!(Usd::parse("80000000000000000000.000000000"), Err(MoneyError::TooLarge(_))));
    let most = FineUsd(i128::MAX);
    assert_eq!(
        (most.rounded(), FineUsd(-i128::MAX).rounded()),
        (Usd(i128::MAX / FINE_IN_A_NANO), Usd(-i128::MAX / FINE_IN_A_NANO))
    );
}

#[test]
#[should_panic(expected = "an amount is below")]
fn a_sum_beyond_counting_is_no_other_amount() {
    let _ = Usd(i128::MAX) + Usd(1);
}

proptest! {
    #[test]
    fn reading_what_was_written_gives_the_same_amount(nanos in 0_i64..i64::MAX) {
        let rate = UsdPerHour::from_nanos(nanos);
        prop_assert_eq!(UsdPerHour::parse(&rate.to_string()).unwrap(), rate);
    }

    /// Read, it is no less than the text says and less than a nano-dollar more; refused, the text is named.
    #[test]
    fn any_text_is_read_or_refused(text in prop_oneof![".{0,40}", " ?[$]?[0-9]{0,14}([.][0-9]{0,12})?([eE]-?[0-9]{1,2})? ?"]) {
        let stated = text.trim().trim_start_matches('$').parse::<f64>();
        match (Usd::parse(&text), Usd::parse_up(&text)) {
            (Ok(exact), up) => {
                prop_assert_eq!(up, Ok(exact));
                prop_assert_eq!(Usd::parse(&exact.to_string()), Ok(exact));
                let stated = stated.unwrap();
                prop_assert!((exact.dollars() - stated).abs() <= 1e-15 * stated, "{exact} of {stated}");
            }
            (Err(MoneyError::TooFine(_)), Ok(up)) => {
                let (up, stated) = (up.dollars(), stated.unwrap());
                prop_assert!(up >= stated * (1.0 - 1e-15) && up <= stated * (1.0 + 1e-15) + 1e-9, "{up} of {stated}");
            }
            (Err(why), Err(_)) => prop_assert!(why.to_string().contains(&format!("`{text}`")), "{why}"),
            (Err(why), Ok(up)) => prop_assert!(false, "{why}, {up}"),
        }
    }

    #[test]
    fn parts_add_up_to_the_amount(nanos in -MOST..MOST, parts in prop::array::uniform3(0_i128..1 << 62)) {
        let amount = Usd(nanos);
        let split = amount.split(parts);
        prop_assert_eq!(split.into_iter().sum::<Usd>(), if parts.iter().all(|part| *part == 0) { Usd::ZERO } else { amount });
        for (part, own) in parts.into_iter().zip(split) {
            let share = nanos as f64 * (part as f64 / parts.iter().sum::<i128>().max(1) as f64);
            prop_assert!((own.0 as f64 - share).abs() <= 2.0 + 1e-12 * nanos.abs() as f64);
        }
    }
}
