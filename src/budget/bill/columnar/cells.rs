//! `Cells`: the values of one column of a bill, row after row, as text; maps and lists as JSON.
//!
//! A value that is not there, or is one of several in its row, shows in the levels that go with the values
//! (https://parquet.apache.org/docs/file-format/nestedencoding/).

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::RowGroupReader;
use serde_json::Value;

use crate::bill::columnar::fields::{Field, Shape};
use crate::bill::columnar::text::{Kind, Written};

/// One column of a bill.
pub enum Cells {
    Value(Leaf),
    Map { keys: Leaf, values: Leaf },
    List(Vec<(String, Leaf)>),
}

impl Cells {
    pub fn new(field: &Field, group: &dyn RowGroupReader) -> Result<Self, String> {
        let leaf = |leaf: &usize| Leaf::new(*leaf, group);
        Ok(match &field.shape {
            Shape::Value(value) => Self::Value(leaf(value)?),
            Shape::Map { keys, values } => Self::Map { keys: leaf(keys)?, values: leaf(values)? },
            Shape::List(parts) => {
                let parts = parts.iter().map(|(name, part)| Ok((name.clone(), leaf(part)?)));
                Self::List(parts.collect::<Result<_, String>>()?)
            }
            Shape::Deep => return Err("it holds lists within lists, which no known export has here".to_owned()),
        })
    }

    /// The next rows, all of which have to be there.
    pub fn load(&mut self, rows: usize) -> Result<(), String> {
        match self {
            Self::Value(leaf) => leaf.load(rows),
            Self::Map { keys, values } => keys.load(rows).and_then(|()| values.load(rows)),
            Self::List(parts) => parts.iter_mut().try_for_each(|(_, leaf)| leaf.load(rows)),
        }
    }

    /// The value of the next row; nothing for one that is not there.
    pub fn write(&mut self, into: &mut String) -> Result<(), String> {
        match self {
            Self::Value(leaf) => leaf.value(into).map(|_| ()),
            Self::Map { keys, values } => map(&keys.entries()?, &values.entries()?, into),
            Self::List(parts) => {
                let parts = parts.iter_mut().map(|(name, leaf)| Ok((name.as_str(), leaf.entries()?)));
                list(&parts.collect::<Result<Vec<_>, String>>()?, into)
            }
        }
    }
}

type Entry = Option<String>;

fn uneven() -> String {
    "the parts of its entries are not equally many".to_owned()
}

fn json(entry: &Entry) -> String {
    Value::from(entry.clone()).to_string()
}

fn map(keys: &[Entry], values: &[Entry], into: &mut String) -> Result<(), String> {
    if keys.len() != values.len() {
        return Err(uneven());
    }
    let entry = |(key, value): (&Entry, &Entry)| {
        let key = key.as_deref().ok_or("an entry of it has no key")?;
        Ok(format!("{}:{}", Value::from(key), json(value)))
    };
    let entries = keys.iter().zip(values).map(entry).collect::<Result<Vec<_>, &str>>()?;
    into.push_str(&format!("{{{}}}", entries.join(",")));
    Ok(())
}

fn list(parts: &[(&str, Vec<Entry>)], into: &mut String) -> Result<(), String> {
    let count = parts.first().map_or(0, |(_, entries)| entries.len());
    if parts.iter().any(|(_, entries)| entries.len() != count) {
        return Err(uneven());
    }
    let one = |entry: usize| {
        let field = |(name, entries): &(&str, Vec<Entry>)| format!("{}:{}", Value::from(*name), json(&entries[entry]));
        format!("{{{}}}", parts.iter().map(field).collect::<Vec<_>>().join(","))
    };
    into.push_str(&format!("[{}]", (0..count).map(one).collect::<Vec<_>>().join(",")));
    Ok(())
}

/// One column of the file.
pub struct Leaf {
    values: Box<dyn Values>,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    /// The definition level of a value, and of an entry whether or not it has one.
    full: i16,
    entry: i16,
    /// Read of both already.
    level: usize,
    value: usize,
}

impl Leaf {
    fn new(leaf: usize, group: &dyn RowGroupReader) -> Result<Self, String> {
        let column = group.metadata().column(leaf).column_descr_ptr();
        let kind = Kind::of_column(&column)?;
        let reader = group.get_column_reader(leaf).map_err(|error| error.to_string())?;
        Ok(Self {
            values: values(reader, kind),
            definitions: Vec::new(),
            repetitions: Vec::new(),
            full: column.max_def_level(),
            entry: column.repeated_ancestor_def_level(),
            level: 0,
            value: 0,
        })
    }

    fn load(&mut self, rows: usize) -> Result<(), String> {
        (self.level, self.value) = (0, 0);
        self.definitions.clear();
        self.repetitions.clear();
        let read =
            self.values.load(rows, &mut self.definitions, &mut self.repetitions).map_err(|error| error.to_string())?;
        if read == rows { Ok(()) } else { Err(format!("{} rows of it are missing", rows - read)) }
    }

    /// Whether there was one.
    fn value(&mut self, into: &mut String) -> Result<bool, String> {
        let is_there = self.full == 0 || self.definitions.get(self.level) == Some(&self.full);
        self.level += 1;
        if is_there {
            self.values.write(self.value, into)?;
            self.value += 1;
        }
        Ok(is_there)
    }

    /// Those of one row.
    fn entries(&mut self) -> Result<Vec<Entry>, String> {
        let mut found = Vec::new();
        loop {
            if self.definitions.get(self.level).is_some_and(|level| *level >= self.entry) {
                let mut text = String::new();
                found.push(self.value(&mut text)?.then_some(text));
            } else {
                self.level += 1;
            }
            if self.repetitions.get(self.level).is_none_or(|level| *level == 0) {
                return Ok(found);
            }
        }
    }
}

trait Values {
    /// Rows that were read.
    fn load(
        &mut self,
        rows: usize,
        definitions: &mut Vec<i16>,
        repetitions: &mut Vec<i16>,
    ) -> Result<usize, ParquetError>;
    fn write(&self, index: usize, into: &mut String) -> Result<(), String>;
}

struct Typed<T: DataType> {
    reader: ColumnReaderImpl<T>,
    read: Vec<T::T>,
    kind: Kind,
}

impl<T: DataType> Values for Typed<T>
where
    T::T: Written,
{
    fn load(
        &mut self,
        rows: usize,
        definitions: &mut Vec<i16>,
        repetitions: &mut Vec<i16>,
    ) -> Result<usize, ParquetError> {
        self.read.clear();
        self.reader.read_records(rows, Some(definitions), Some(repetitions), &mut self.read).map(|(rows, _, _)| rows)
    }

    fn write(&self, index: usize, into: &mut String) -> Result<(), String> {
        let value = self.read.get(index).ok_or("it has fewer values than it says")?;
        value.write(self.kind, into)
    }
}

fn values(reader: ColumnReader, kind: Kind) -> Box<dyn Values> {
    fn typed<T: DataType>(reader: ColumnReaderImpl<T>, kind: Kind) -> Box<dyn Values>
    where
        T::T: Written,
    {
        Box::new(Typed { reader, read: Vec::new(), kind })
    }
    match reader {
        ColumnReader::BoolColumnReader(reader) => typed(reader, kind),
        ColumnReader::Int32ColumnReader(reader) => typed(reader, kind),
        ColumnReader::Int64ColumnReader(reader) => typed(reader, kind),
        ColumnReader::Int96ColumnReader(reader) => typed(reader, kind),
        ColumnReader::FloatColumnReader(reader) => typed(reader, kind),
        ColumnReader::DoubleColumnReader(reader) => typed(reader, kind),
        ColumnReader::ByteArrayColumnReader(reader) => typed(reader, kind),
        ColumnReader::FixedLenByteArrayColumnReader(reader) => typed(reader, kind),
    }
}
