//! Parquet files as the clouds write them, written here, against the same rows as CSV; and files that are not as they should be.
#![cfg(test)]

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{BrotliLevel, GzipLevel, ZstdLevel};
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArrayType, Int64Type, Int96, Int96Type,
};
use parquet::file::metadata::ParquetMetaDataWriter;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

use super::*;
use crate::bill::sums::Known;
use crate::bill::{ImportedBill, table};
use crate::charge::utc_day;
use gpuplan_hardware::Hardware;

type Tags = Option<Vec<(String, Option<String>)>>;

/// One column and its values, row by row; those of a map are two columns of the file.
#[derive(Clone)]
enum Column {
    Text(Vec<Option<String>>),
    Long(Vec<Option<i64>>),
    Old(Vec<Int96>),
    Double(Vec<f64>),
    Fixed(Vec<i128>),
    Map(Vec<Tags>),
}

fn leaf<T: DataType>(
    group: &mut SerializedRowGroupWriter<Vec<u8>>,
    values: &[T::T],
    definitions: &[i16],
    repetitions: Option<&[i16]>,
) {
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<T>().write_batch(values, Some(definitions), repetitions).unwrap();
    column.close().unwrap();
}

fn optional<V: Clone>(values: &[Option<V>]) -> (Vec<V>, Vec<i16>) {
    (values.iter().flatten().cloned().collect(), values.iter().map(|value| i16::from(value.is_some())).collect())
}

fn texts(values: impl IntoIterator<Item = String>) -> Vec<ByteArray> {
    values.into_iter().map(|text| ByteArray::from(text.into_bytes())).collect()
}

fn map(group: &mut SerializedRowGroupWriter<Vec<u8>>, rows: &[Tags]) {
    let (mut keys, mut values, mut of_keys, mut of_values, mut repetitions) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let entries = row.as_deref().unwrap_or_default();
        for (index, (key, value)) in entries.iter().enumerate() {
            keys.push(key.clone());
            values.extend(value.clone());
            of_keys.push(2);
            of_values.push(2 + i16::from(value.is_some()));
            repetitions.push(i16::from(index > 0));
        }
        if entries.is_empty() {
            of_keys.push(i16::from(row.is_some()));
            of_values.push(i16::from(row.is_some()));
            repetitions.push(0);
        }
    }
    leaf::<ByteArrayType>(group, &texts(keys), &of_keys, Some(&repetitions));
    leaf::<ByteArrayType>(group, &texts(values), &of_values, Some(&repetitions));
}

fn write(group: &mut SerializedRowGroupWriter<Vec<u8>>, column: &Column) {
    let all = |rows: usize| vec![1; rows];
    match column {
        Column::Text(values) => {
            let (values, definitions) = optional(values);
            leaf::<ByteArrayType>(group, &texts(values), &definitions, None);
        }
        Column::Long(values) => {
            let (values, definitions) = optional(values);
            leaf::<Int64Type>(group, &values, &definitions, None);
        }
        Column::Old(values) => leaf::<Int96Type>(group, values, &all(values.len()), None),
        Column::Double(values) => leaf::<DoubleType>(group, values, &all(values.len()), None),
        Column::Fixed(values) => {
            let bytes: Vec<_> =
                values.iter().map(|value| ByteArray::from(value.to_be_bytes().to_vec()).into()).collect();
            leaf::<FixedLenByteArrayType>(group, &bytes, &all(values.len()), None);
        }
        Column::Map(rows) => map(group, rows),
    }
}

fn file_of(schema: &str, properties: WriterProperties, groups: &[Vec<Column>]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    for columns in groups {
        let mut group = writer.next_row_group().unwrap();
        for column in columns {
            write(&mut group, column);
        }
        group.close().unwrap();
    }
    writer.into_inner().unwrap()
}

fn bills(
    read: impl FnOnce(&mut Sums) -> Result<Format, BillError>,
) -> Result<(Format, u64, Vec<ImportedBill>), String> {
    let mut sums = Sums::default();
    let format = read(&mut sums).map_err(|error| error.to_string())?;
    Ok((
        format,
        sums.lines,
        sums.take_bills("h", "bill", &Known { runs: &BTreeSet::new(), hardware: &Hardware::default() }),
    ))
}

fn imported(bytes: Vec<u8>) -> Result<(Format, u64, Vec<ImportedBill>), String> {
    bills(|sums| read("bill.parquet", None, Bytes::from(bytes), sums))
}

fn said(bytes: Vec<u8>) -> String {
    imported(bytes).err().unwrap_or_default()
}

/// The columns of CUR 2.0 that matter, with a map that does not (docs.aws.amazon.com/cur, "CUR 2.0 table dictionary").
const CUR: &str = "message cur {
    optional binary bill_payer_account_id (UTF8);
    optional int64 line_item_usage_start_date (TIMESTAMP(MILLIS, true));
    optional binary line_item_currency_code (UTF8);
    optional double line_item_unblended_cost;
    optional binary line_item_line_item_type (UTF8);
    optional binary line_item_usage_type (UTF8);
    optional double line_item_usage_amount;
    optional group product (MAP) { repeated group key_value { required binary key (UTF8); optional binary value (UTF8); } }
    optional group resource_tags (MAP) { repeated group key_value { required binary key (UTF8); optional binary value (UTF8); } }
}";

fn words(text: &str, rows: usize) -> Column {
    Column::Text(vec![Some(text.to_owned()); rows])
}

fn of_run(run: &str) -> Vec<(String, Option<String>)> {
    vec![("user_name".to_owned(), None), ("user_gpuplan_run".to_owned(), Some(run.to_owned()))]
}

const OCTOBER: i64 = 1_790_812_800_000;

/// Two rows of one run and one of none.
fn cur(currency: &str) -> Vec<Column> {
    vec![
        words("123", 3),
        Column::Long(vec![Some(OCTOBER), Some(OCTOBER + 3_600_000), Some(OCTOBER)]),
        words(currency, 3),
        Column::Double(vec![0.1, 0.2, 9.0]),
        words("Usage", 3),
        words("USE1-SpotUsage:p5.48xlarge", 3),
        Column::Double(vec![1.0, 0.5, 1.0]),
        Column::Map(vec![None, Some(Vec::new()), Some(of_run("of the product"))]),
        Column::Map(vec![Some(of_run("a")), Some(of_run("a")), Some(Vec::new())]),
    ]
}

fn plain() -> WriterProperties {
    WriterProperties::builder().set_compression(Compression::SNAPPY).build()
}

#[test]
fn a_cost_and_usage_report_with_its_maps_is_read_to_the_nano_dollar() {
    let later = Column::Long(vec![Some(OCTOBER + 31 * 86_400_000); 3]);
    let november: Vec<Column> =
        cur("USD").into_iter().enumerate().map(|(at, column)| if at == 1 { later.clone() } else { column }).collect();
    let (format, lines, bills) = imported(file_of(CUR, plain(), &[cur("USD"), november])).unwrap();
    assert_eq!((format, lines), (Format::Cur, 6));
    assert_eq!(bills.iter().map(|bill| bill.month.as_str()).collect::<Vec<_>>(), ["2026-10", "2026-11"]);
    let charge = &bills[0].charges[0];
    assert_eq!(
        (charge.costs.billed.unwrap().to_string().as_str(), charge.quantity, charge.allocation.run.as_deref()),
        ("0.30", 1.5, Some("a"))
    );
}

#[test]
fn focus_has_exact_decimals_and_google_lists_of_labels_and_records() {
    let focus = "message focus {
        optional fixed_len_byte_array(16) BilledCost (DECIMAL(38, 18)); optional int64 EffectiveCost (DECIMAL(18, 9));
        optional binary BillingCurrency (UTF8); optional int96 ChargePeriodStart; optional int64 ChargePeriodEnd (TIMESTAMP(NANOS, false));
        optional binary ChargeCategory (UTF8); optional binary ServiceCategory (UTF8); optional binary ProviderName (UTF8); optional binary Tags (JSON);
    }";
    let mut day = Int96::new();
    day.set_data(0, 0, 2_440_588 + 20_727);
    let columns = vec![
        Column::Fixed(vec![1_000_000_000_000_000_001, -3]),
        Column::Long(vec![Some(500_000_001), None]),
        words("USD", 2),
        Column::Old(vec![day; 2]),
        Column::Long(vec![Some((OCTOBER + 3_600_000) * 1_000_000); 2]),
        Column::Text(vec![Some("Usage".to_owned()), Some("Credit".to_owned())]),
        words("Compute", 2),
        words("Microsoft", 2),
        words(r#"{"gpuplan:run":"a"}"#, 2),
    ];
    let (format, _, bills) = imported(file_of(focus, plain(), &[columns])).unwrap();
    let charges = &bills[0].charges;
    assert_eq!(
        (format, bills[0].cloud.as_str(), bills[0].month.as_str(), charges.len()),
        (Format::Focus, "azure", "2026-10", 2)
    );
    assert_eq!(
        (charges[0].costs.billed.unwrap().to_string(), charges[0].costs.effective.to_string()),
        ("1.00".to_owned(), "0.500000001".to_owned())
    );
    assert_eq!(charges[0].end.to_string(), "2026-10-01T01:00:00Z");
    let google = "message google {
        optional double cost; optional binary currency (UTF8); optional int64 usage_start_time (TIMESTAMP(MICROS, true));
        optional group labels (LIST) { repeated group list { required binary key (UTF8); optional binary value (UTF8); } }
        required group service { optional binary description (UTF8); }
        required group sku { optional binary description (UTF8); }
    }";
    let columns = vec![
        Column::Double(vec![1e-9]),
        words("USD", 1),
        Column::Long(vec![Some(OCTOBER * 1000)]),
        Column::Map(vec![Some(vec![
            ("team".to_owned(), None),
            ("gpuplan_run".to_owned(), Some("b \"2\"".to_owned())),
        ])]),
        words("Compute Engine", 1),
        words("A100 GPU", 1),
    ];
    let (format, _, bills) = imported(file_of(google, plain(), &[columns])).unwrap();
    let charge = &bills[0].charges[0];
    assert_eq!(
        (format, charge.allocation.run.as_deref(), charge.costs.billed.unwrap().nanos()),
        (Format::Google, Some("b \"2\""), 1)
    );
    assert_eq!(format!("{:?}", charge.item), "Machines");
}

#[test]
fn what_is_wrong_is_named_with_file_row_and_column() {
    let whole = file_of(CUR, plain(), &[cur("USD")]);
    assert_eq!(said(whole.clone()), "");
    let cut = said(whole[..whole.len() - 9].to_vec());
    assert!(cut.starts_with("bill.parquet: this Parquet file is broken or cut off: "), "{cut}");
    assert!(said(b"PAR1".to_vec()).contains("broken or cut off"));
    let euro = vec![cur("USD"), cur("EUR")];
    assert!(
        said(file_of(CUR, plain(), &euro))
            .starts_with("bill.parquet row 4, column `line_item_currency_code`: the bill is in `EUR`"),
        "{}",
        said(file_of(CUR, plain(), &euro))
    );
    let missing = said(file_of(&CUR.replace("line_item_currency_code", "x"), plain(), &[cur("USD")]));
    assert_eq!(missing, "bill.parquet: the column `line_item_currency_code` is missing");
    assert!(
        said(file_of("message other { optional binary a (UTF8); }", plain(), &[vec![words("x", 1)]]))
            .contains("is not a known export")
    );
    let endless: Vec<Column> = cur("USD")
        .into_iter()
        .enumerate()
        .map(|(at, column)| if at == 3 { Column::Double(vec![0.1, f64::INFINITY, 0.1]) } else { column })
        .collect();
    let endless = said(file_of(CUR, plain(), &[endless]));
    assert!(
        endless.starts_with("bill.parquet row 2, column `line_item_unblended_cost`: `inf` is not an amount in dollars"),
        "{endless}"
    );
    let time = said(file_of(&CUR.replace("(TIMESTAMP(MILLIS, true))", "(TIME(MICROS, true))"), plain(), &[cur("USD")]));
    assert!(time.starts_with("bill.parquet row 1, column `line_item_usage_start_date`: its type Time"), "{time}");
}

/// The same file, with another packing named in its list of columns.
fn packed_with(packing: Compression) -> Vec<u8> {
    let bytes = file_of(CUR, WriterProperties::builder().build(), &[cur("USD")]);
    let mut builder = SerializedFileReader::new(Bytes::from(bytes.clone())).unwrap().metadata().clone().into_builder();
    let groups = builder.take_row_groups().into_iter().map(|group| {
        let mut group = group.into_builder();
        let columns = group
            .take_columns()
            .into_iter()
            .map(|column| column.into_builder().set_compression(packing).build().unwrap());
        let columns = columns.collect();
        group.set_column_metadata(columns).build().unwrap()
    });
    let groups = groups.collect();
    let metadata = builder.set_row_groups(groups).build();
    let mut whole = bytes;
    let mut list = Vec::new();
    ParquetMetaDataWriter::new(&mut list, &metadata).finish().unwrap();
    whole.extend(list);
    whole
}

#[test]
fn another_packing_is_refused_by_name() {
    let brotli = said(packed_with(Compression::BROTLI(BrotliLevel::default())));
    assert_eq!(
        brotli,
        "bill.parquet row 1, column `bill_payer_account_id`: it is packed with BROTLI; Snappy, gzip and Zstandard are read"
    );
    // Named one way and packed another: no bytes are taken for what they are not.
    assert!(!said(packed_with(Compression::SNAPPY)).is_empty());
}

/// One row of a bill, and how a file may hold it.
#[derive(Clone, Debug)]
struct Line {
    run: Option<String>,
    other: String,
    billionths: i64,
    milliseconds: i64,
    kind: &'static str,
    usage: &'static str,
}

fn lines() -> impl Strategy<Value = Vec<Line>> {
    let line = (
        prop::option::of("[a-z]{1,2}"),
        "\\PC{0,6}",
        -1_000_000_000_000_i64..1_000_000_000_000,
        0..90 * 86_400_000_i64,
        prop::sample::select(vec!["Usage", "Credit", "Tax"]),
        prop::sample::select(vec!["BoxUsage:p5.48xlarge", "EBS:VolumeUsage.gp3", "DataTransfer-Out-Bytes", "Requests"]),
    )
        .prop_map(|(run, other, billionths, after, kind, usage)| Line {
            run,
            other,
            billionths,
            milliseconds: OCTOBER + after,
            kind,
            usage,
        });
    prop::collection::vec(line, 0..40)
}

fn exact(billionths: i64) -> String {
    let size = billionths.unsigned_abs();
    format!("{}{}.{:09}", if billionths < 0 { "-" } else { "" }, size / 1_000_000_000, size % 1_000_000_000)
}

fn tags(line: &Line) -> Vec<(String, Option<String>)> {
    let run = line.run.iter().map(|run| ("user_gpuplan_run".to_owned(), Some(run.clone())));
    std::iter::once((line.other.clone(), Some(line.other.clone()))).chain(run).collect()
}

fn json(line: &Line) -> String {
    let tags = tags(line).into_iter().map(|(key, value)| (key, value.into()));
    serde_json::Value::Object(tags.collect()).to_string()
}

fn csv_of(lines: &[Line]) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let header = "bill_payer_account_id line_item_usage_start_date line_item_currency_code line_item_unblended_cost line_item_line_item_type \
        line_item_usage_type line_item_usage_amount resource_tags";
    writer.write_record(header.split(' ')).unwrap();
    for line in lines {
        let time = jiff::Timestamp::from_millisecond(line.milliseconds).unwrap().to_string();
        let amount = exact(line.billionths);
        writer.write_record(["123", &time, "USD", &amount, line.kind, line.usage, "0.25", &json(line)]).unwrap();
    }
    writer.into_inner().unwrap()
}

/// Of the rows, with amounts, times and tags as `how` says.
fn columns_of(lines: &[Line], how: (u8, u8, bool)) -> Vec<Column> {
    let (amounts, times, in_maps) = how;
    let longs = |of: &dyn Fn(&Line) -> i64| Column::Long(lines.iter().map(|line| Some(of(line))).collect());
    let owned = |of: &dyn Fn(&Line) -> String| Column::Text(lines.iter().map(|line| Some(of(line))).collect());
    vec![
        words("123", lines.len()),
        match times {
            0 => longs(&|line| line.milliseconds),
            1 => longs(&|line| line.milliseconds * 1000),
            _ => owned(&|line| jiff::Timestamp::from_millisecond(line.milliseconds).unwrap().to_string()),
        },
        words("USD", lines.len()),
        match amounts {
            0 => longs(&|line| line.billionths),
            1 => Column::Fixed(lines.iter().map(|line| i128::from(line.billionths) * 1000).collect()),
            2 => Column::Double(lines.iter().map(|line| exact(line.billionths).parse().unwrap()).collect()),
            _ => owned(&|line| exact(line.billionths)),
        },
        owned(&|line| line.kind.to_owned()),
        owned(&|line| line.usage.to_owned()),
        Column::Double(vec![0.25; lines.len()]),
        if in_maps { Column::Map(lines.iter().map(|line| Some(tags(line))).collect()) } else { owned(&json) },
    ]
}

fn schema_of((amounts, times, in_maps): (u8, u8, bool)) -> String {
    let amounts = [
        "int64 NAME (DECIMAL(18, 9))",
        "fixed_len_byte_array(16) NAME (DECIMAL(38, 12))",
        "double NAME",
        "binary NAME (UTF8)",
    ][usize::from(amounts)];
    let times = ["int64 NAME (TIMESTAMP(MILLIS, true))", "int64 NAME (TIMESTAMP_MICROS)", "binary NAME (UTF8)"]
        [usize::from(times)];
    let without_product: String = CUR.lines().filter(|line| !line.contains("product")).collect();
    let schema = without_product
        .replace("double line_item_unblended_cost", &amounts.replace("NAME", "line_item_unblended_cost"))
        .replace(
            "int64 line_item_usage_start_date (TIMESTAMP(MILLIS, true))",
            &times.replace("NAME", "line_item_usage_start_date"),
        );
    let map = "group resource_tags (MAP) { repeated group key_value { required binary key (UTF8); optional binary value (UTF8); } }";
    if in_maps { schema } else { schema.replace(map, "binary resource_tags (UTF8);") }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_same_rows_as_csv_and_as_parquet_are_the_same_bill(
        lines in lines(),
        how in (0..4_u8, 0..3_u8, any::<bool>()),
        (in_a_group, in_a_page, packing, is_new, has_dictionary) in (1..20_usize, 1..9_usize, 0..4_usize, any::<bool>(), any::<bool>()),
    ) {
        let packing = [
            Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::GZIP(GzipLevel::default()), Compression::ZSTD(ZstdLevel::default()),
        ][packing];
        let properties = WriterProperties::builder()
            .set_compression(packing)
            .set_writer_version(if is_new { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 })
            .set_data_page_row_count_limit(in_a_page)
            .set_write_batch_size(in_a_page)
            .set_dictionary_enabled(has_dictionary)
            .build();
        let groups: Vec<Vec<Column>> = lines.chunks(in_a_group).map(|lines| columns_of(lines, how)).collect();
        let found = imported(file_of(&schema_of(how), properties, &groups));
        let csv = bills(|sums| table::read("bill.csv", None, csv_of(&lines).as_slice(), sums));
        prop_assert_eq!(found, csv);
    }

    /// A file that lacks its end is never read; one with another byte is what it says now, or refused by its name.
    #[test]
    fn a_damaged_file_is_read_or_refused(at in any::<prop::sample::Index>(), byte in any::<u8>(), until in any::<prop::sample::Index>()) {
        let whole = file_of(CUR, plain(), &[cur("USD"), cur("USD")]);
        let (rows, mut damaged) = (imported(whole.clone()).unwrap().1, whole.clone());
        let at = at.index(whole.len());
        damaged[at] = byte;
        match imported(damaged) {
            Err(why) => prop_assert!(why.starts_with("bill.parquet") && byte != whole[at], "{}", why),
            Ok((format, lines, bills)) => {
                prop_assert!(format == Format::Cur && lines <= rows);
                for (bill, charge) in bills.iter().flat_map(|bill| bill.charges.iter().map(move |charge| (bill, charge))) {
                    prop_assert!(charge.costs.billed.is_some() && charge.quantity > 0.0 && charge.quantity.is_finite());
                    prop_assert!(charge.start <= charge.end && utc_day(charge.start).starts_with(&bill.month), "{:?}", charge);
                    prop_assert!(charge.allocation.run.as_ref().is_some_and(|run| !run.is_empty()));
                }
            }
        }
        let cut = said(whole[..until.index(whole.len())].to_vec());
        prop_assert!(cut.starts_with("bill.parquet"), "{}", cut);
    }
}
