//! Values of a Parquet file as the text that a CSV export would have: decimals digit by digit, times in UTC, floating point as
//! the shortest decimal that is the same number (https://github.com/apache/parquet-format/blob/master/LogicalTypes.md).

use jiff::civil::Date;
use jiff::{Span, Timestamp};
use parquet::basic::{ConvertedType, LogicalType, TimeUnit};
use parquet::data_type::{ByteArray, FixedLenByteArray, Int96};
use parquet::schema::types::ColumnDescriptor;

/// What the bits of a column mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text or a number, by its bits alone.
    Plain,
    Unsigned,
    /// Digits behind the point.
    Decimal(usize),
    /// Nanoseconds of one unit since 1970. A clock that is not said to be of UTC is taken as UTC, as in a CSV export.
    Time(i128),
    /// Days since 1970.
    Date,
}

/// Digits of the largest decimal that an `i128` holds.
const MOST_DIGITS: i32 = 38;
const MILLIS: Kind = Kind::Time(1_000_000);
const MICROS: Kind = Kind::Time(1_000);
const NANOS: Kind = Kind::Time(1);
/// 1970-01-01 as a Julian day, from which an INT96 counts.
const JULIAN_DAY_OF_1970: i128 = 2_440_588;
const NANOS_OF_A_DAY: i128 = 86_400_000_000_000;

impl Kind {
    pub fn of_column(column: &ColumnDescriptor) -> Result<Self, String> {
        match column.logical_type_ref() {
            Some(LogicalType::Decimal(decimal)) => Self::decimal(decimal.scale),
            Some(LogicalType::Timestamp(time)) => Ok(match time.unit {
                TimeUnit::MILLIS => MILLIS,
                TimeUnit::MICROS => MICROS,
                TimeUnit::NANOS => NANOS,
            }),
            Some(LogicalType::Date) => Ok(Self::Date),
            Some(LogicalType::Integer(integer)) if !integer.is_signed => Ok(Self::Unsigned),
            Some(
                LogicalType::Integer(_)
                | LogicalType::String
                | LogicalType::Enum
                | LogicalType::Json
                | LogicalType::Unknown,
            ) => Ok(Self::Plain),
            Some(other) => Err(format!("its type {other:?} is in no known export")),
            None => Self::converted(column),
        }
    }

    /// As files say it that are older than logical types.
    fn converted(column: &ColumnDescriptor) -> Result<Self, String> {
        match column.converted_type() {
            ConvertedType::DECIMAL => Self::decimal(column.type_scale()),
            ConvertedType::TIMESTAMP_MILLIS => Ok(MILLIS),
            ConvertedType::TIMESTAMP_MICROS => Ok(MICROS),
            ConvertedType::DATE => Ok(Self::Date),
            ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64 => {
                Ok(Self::Unsigned)
            }
            ConvertedType::NONE | ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON => Ok(Self::Plain),
            ConvertedType::INT_8 | ConvertedType::INT_16 | ConvertedType::INT_32 | ConvertedType::INT_64 => {
                Ok(Self::Plain)
            }
            other => Err(format!("its type {other} is in no known export")),
        }
    }

    fn decimal(scale: i32) -> Result<Self, String> {
        let digits = usize::try_from(scale).ok().filter(|_| scale <= MOST_DIGITS);
        digits.map(Self::Decimal).ok_or_else(|| format!("its decimals have {scale} digits behind the point"))
    }

    fn unlike(self) -> String {
        format!("its bits cannot be what it says it is, {self:?}")
    }
}

/// A value that is written as a cell.
pub trait Written {
    fn write(&self, kind: Kind, into: &mut String) -> Result<(), String>;
}

impl Written for bool {
    fn write(&self, kind: Kind, into: &mut String) -> Result<(), String> {
        if kind != Kind::Plain {
            return Err(kind.unlike());
        }
        into.push_str(if *self { "true" } else { "false" });
        Ok(())
    }
}

impl Written for i32 {
    fn write(&self, kind: Kind, into: &mut String) -> Result<(), String> {
        match kind {
            Kind::Unsigned => into.push_str(&self.cast_unsigned().to_string()),
            Kind::Date => {
                let day = Date::constant(1970, 1, 1)
                    .checked_add(Span::new().try_days(*self).map_err(|_| invalid_time(*self))?);
                into.push_str(&day.map_err(|_| invalid_time(*self))?.to_string());
            }
            _ => return i64::from(*self).write(kind, into),
        }
        Ok(())
    }
}

impl Written for i64 {
    fn write(&self, kind: Kind, into: &mut String) -> Result<(), String> {
        match kind {
            Kind::Plain => into.push_str(&self.to_string()),
            Kind::Unsigned => into.push_str(&self.cast_unsigned().to_string()),
            Kind::Decimal(digits) => decimal(i128::from(*self), digits, into),
            Kind::Time(unit) => time(i128::from(*self) * unit, into)?,
            Kind::Date => return Err(kind.unlike()),
        }
        Ok(())
    }
}

/// Old Hive and Spark: nanoseconds of the day, then the Julian day.
impl Written for Int96 {
    fn write(&self, kind: Kind, into: &mut String) -> Result<(), String> {
        let [low, high, day] = self.data() else { return Err(kind.unlike()) };
        let of_day = (i128::from(*high) << 32) + i128::from(*low);
        time((i128::from(*day) - JULIAN_DAY_OF_1970) * NANOS_OF_A_DAY + of_day, into)
    }
}

impl Written for f32 {
    fn write(&self, kind: Kind, into: &mut String) -> Result<(), String> {
        floating(*self, f64::from(self.abs()), kind, into)
    }
}

impl Written for f64 {
    fn write(&self, kind: Kind, into: &mut String) -> Result<(), String> {
        floating(*self, self.abs(), kind, into)
    }
}

impl Written for ByteArray {
    fn write(&self, kind: Kind, into: &mut String) -> Result<(), String> {
        bytes(self.data(), kind, into)
    }
}

impl Written for FixedLenByteArray {
    fn write(&self, kind: Kind, into: &mut String) -> Result<(), String> {
        bytes(self.data(), kind, into)
    }
}

/// Rust writes the fewest digits that are read as the same number; very small and very large ones with an exponent.
fn floating(
    value: impl std::fmt::Display + std::fmt::LowerExp,
    size: f64,
    kind: Kind,
    into: &mut String,
) -> Result<(), String> {
    if kind != Kind::Plain {
        return Err(kind.unlike());
    }
    let is_usual = size == 0.0 || (1e-6..1e15).contains(&size) || !size.is_finite();
    into.push_str(&if is_usual { value.to_string() } else { format!("{value:e}") });
    Ok(())
}

fn bytes(bytes: &[u8], kind: Kind, into: &mut String) -> Result<(), String> {
    match kind {
        Kind::Plain => into.push_str(std::str::from_utf8(bytes).map_err(|error| format!("it is not text: {error}"))?),
        Kind::Decimal(digits) => {
            decimal(big_endian(bytes).ok_or("it has more digits than this program counts")?, digits, into);
        }
        Kind::Unsigned | Kind::Time(_) | Kind::Date => return Err(kind.unlike()),
    }
    Ok(())
}

/// Two's complement of any length whose value an `i128` holds.
fn big_endian(bytes: &[u8]) -> Option<i128> {
    let is_negative = bytes.first().is_some_and(|first| *first >= 0x80);
    let fill = if is_negative { 0xff } else { 0 };
    let (more, last) = bytes.split_at(bytes.len().saturating_sub(16));
    let mut whole = [fill; 16];
    whole[16 - last.len()..].copy_from_slice(last);
    let value = i128::from_be_bytes(whole);
    (more.iter().all(|byte| *byte == fill) && (value < 0) == is_negative).then_some(value)
}

fn decimal(value: i128, digits: usize, into: &mut String) {
    let size = format!("{:0>1$}", value.unsigned_abs(), digits + 1);
    let (whole, part) = size.split_at(size.len() - digits);
    into.push_str(if value < 0 { "-" } else { "" });
    into.push_str(whole);
    if digits > 0 {
        into.push('.');
        into.push_str(part);
    }
}

fn invalid_time(value: impl std::fmt::Display) -> String {
    format!("{value} is not a valid time")
}

fn time(nanos: i128, into: &mut String) -> Result<(), String> {
    let time = Timestamp::from_nanosecond(nanos).map_err(|_| invalid_time(nanos))?;
    into.push_str(&time.to_string());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: impl Written, kind: Kind) -> String {
        let mut text = String::new();
        value.write(kind, &mut text).map_or_else(|error| format!("error: {error}"), |()| text)
    }

    #[test]
    fn decimals_are_written_digit_by_digit() {
        let two = Kind::Decimal(2);
        assert_eq!(
            [0, 5, -5, 100, -12_345].map(|value| written(value, two)),
            ["0.00", "0.05", "-0.05", "1.00", "-123.45"]
        );
        assert_eq!(written(i64::MIN, Kind::Decimal(0)), "-9223372036854775808");
        let bytes = |bytes: &[u8]| written(ByteArray::from(bytes.to_vec()), two);
        assert_eq!(bytes(&[0xff, 0xfb]), "-0.05");
        assert_eq!(bytes(&[]), "0.00");
        assert_eq!(bytes(&[&[0xff; 20][..], &[0x85]].concat()), "-1.23");
        assert_eq!(bytes(&[&[0; 20][..], &[0x85]].concat()), "1.33");
        assert!(bytes(&[&[1], &[0; 16][..]].concat()).contains("more digits"));
        assert!(bytes(&[&[0, 0xff], &[0; 15][..]].concat()).contains("more digits"));
    }

    #[test]
    fn times_dates_and_floating_point_are_what_a_csv_has() {
        assert_eq!(written(1_790_812_800_000_i64, MILLIS), "2026-10-01T00:00:00Z");
        assert_eq!(written(1_790_812_800_000_001_i64, MICROS), "2026-10-01T00:00:00.000001Z");
        assert_eq!(written(-1_i64, NANOS), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(written(i64::MAX, MILLIS), "error: 9223372036854775807000000 is not a valid time");
        assert_eq!([20_727, -1].map(|day| written(day, Kind::Date)), ["2026-10-01", "1969-12-31"]);
        assert!(written(i32::MAX, Kind::Date).contains("not a valid time"));
        let mut old = Int96::new();
        old.set_data(1_000_000_000, 0, 2_440_589);
        assert_eq!(written(old, Kind::Plain), "1970-01-02T00:00:01Z");
        let number = |value: f64| written(value, Kind::Plain);
        assert_eq!(
            [0.1, 3.204_016_381_76e-5, 1e-9, -2.0, 1e300].map(number),
            ["0.1", "0.0000320401638176", "1e-9", "-2", "1e300"]
        );
        assert_eq!((written(0.1_f32, Kind::Plain).as_str(), number(f64::NAN).as_str()), ("0.1", "NaN"));
        assert_eq!(written(-1_i32, Kind::Unsigned), "4294967295");
        assert!(written(ByteArray::from(vec![0xff]), Kind::Plain).starts_with("error: it is not text"));
    }
}
