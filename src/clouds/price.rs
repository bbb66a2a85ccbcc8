//! Prices as clouds write them in JSON, and the exact arithmetic from there to a rate for a whole machine.

use serde_json::Value;

use gpuplan_units::{Usd, UsdPerHour};

/// A share in nano-units, as `amount` reads a quantity.
pub const NANO: i128 = 1_000_000_000;

/// An amount above zero, as number or text. A JSON number of up to 15 digits comes back as it was written; what a cloud
/// computed more finely than a nano-dollar is rounded up, so that nothing is shown for less than what is billed.
pub fn amount(value: &Value) -> Result<Usd, String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null => return Err("the price is missing".to_owned()),
        _ => return Err("the price is neither a number nor a text; it is left out".to_owned()),
    };
    match Usd::parse_up(&text) {
        Ok(Usd::ZERO) => Err("a price of zero is not a valid price; it is left out".to_owned()),
        Ok(amount) => Ok(amount),
        Err(error) => Err(format!("{error}; it is left out")),
    }
}

/// A price for an hour.
pub fn rate(value: &Value) -> Result<UsdPerHour, String> {
    hourly(amount(value)?, 1, 1)
}

/// `amount` x `times` / `parts` for an hour, rounded up to the nano-dollar.
pub fn hourly(amount: Usd, times: i128, parts: i128) -> Result<UsdPerHour, String> {
    let refuse = || format!("{amount} x {times} / {parts} is not a valid price; it is left out");
    let product = amount.nanos().checked_mul(times).filter(|product| *product > 0 && parts > 0).ok_or_else(refuse)?;
    let nanos = product / parts + i128::from(product % parts != 0);
    i64::try_from(nanos).map(UsdPerHour::from_nanos).map_err(|_| refuse())
}

/// The sum of two rates.
pub fn sum(a: UsdPerHour, b: UsdPerHour) -> Result<UsdPerHour, String> {
    a.nanos()
        .checked_add(b.nanos())
        .map(UsdPerHour::from_nanos)
        .ok_or_else(|| format!("{a} and {b} together are no price"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_and_texts_are_read_exactly() {
        for (value, nanos) in [
            (json!(98.32), 98_320_000_000),
            (json!("3.95"), 3_950_000_000),
            (json!("9.0E-4"), 900_000),
            (json!(9.0e-4), 900_000),
            (json!(10), 10_000_000_000),
            (json!(0.133_703_703_703_703_69), 133_703_704),
        ] {
            assert_eq!(rate(&value).unwrap().nanos(), nanos, "{value}");
        }
    }

    #[test]
    fn what_is_no_price_is_refused() {
        for value in [
            json!(0),
            json!("0.000"),
            json!("N/A*"),
            json!(-62),
            json!("-1"),
            json!(null),
            json!([1]),
            json!(1e-12),
            json!(1e300),
        ] {
            assert!(rate(&value).is_err(), "{value}");
        }
    }

    #[test]
    fn shares_are_rounded_up_and_nothing_overflows() {
        assert_eq!(hourly(Usd::parse("10000").unwrap(), 1, 8760).unwrap().to_string(), "1.141552512");
        assert_eq!(hourly(Usd::parse("2.95").unwrap(), 8, 1).unwrap().to_string(), "23.60");
        assert!(hourly(Usd::from_nanos(i128::MAX), 2, 1).is_err());
        assert!(hourly(Usd::parse("1").unwrap(), 0, 1).is_err() && hourly(Usd::parse("1").unwrap(), 1, 0).is_err());
        assert!(sum(UsdPerHour::from_nanos(i64::MAX), UsdPerHour::from_nanos(1)).is_err());
    }

    proptest! {
        #[test]
        fn a_number_of_few_digits_survives_json(cents in 1_i64..1_000_000_000) {
            let text = format!("{}.{:02}", cents / 100, cents % 100);
            let value: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(rate(&value).unwrap().nanos(), cents * 10_000_000);
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            prop_assert!(rate(&Value::String(text)).map_or(true, |rate| rate.nanos() > 0));
        }
    }
}
