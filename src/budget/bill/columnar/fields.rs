//! `Field`: the columns of a Parquet file as a bill has them, with a map or a list as one column and a record as one for each
//! part of it (https://github.com/apache/parquet-format/blob/master/LogicalTypes.md, "Nested Types").

use parquet::basic::{ConvertedType, LogicalType, Repetition};
use parquet::schema::types::{SchemaDescriptor, Type};

/// One column of a bill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// `line_item_usage_type`, or `service.description` for a part of a record.
    pub name: String,
    pub shape: Shape,
}

/// Where its values are, by the numbers of the file's own columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    Value(usize),
    Map {
        keys: usize,
        values: usize,
    },
    /// The parts of each entry.
    List(Vec<(String, usize)>),
    /// Lists within lists, as no column that is needed has them.
    Deep,
}

impl Field {
    pub fn leaves(&self) -> Vec<usize> {
        match &self.shape {
            Shape::Value(leaf) => vec![*leaf],
            Shape::Map { keys, values } => vec![*keys, *values],
            Shape::List(parts) => parts.iter().map(|(_, leaf)| *leaf).collect(),
            Shape::Deep => Vec::new(),
        }
    }
}

pub fn fields(schema: &SchemaDescriptor) -> Vec<Field> {
    let mut found = Vec::new();
    let mut next = 0;
    for node in schema.root_schema().get_fields() {
        walk(node, "", &mut next, &mut found);
    }
    found
}

/// Leaves are numbered in the order in which a walk meets them.
fn walk(node: &Type, above: &str, next: &mut usize, found: &mut Vec<Field>) {
    let name = if above.is_empty() { node.name().to_owned() } else { format!("{above}.{}", node.name()) };
    let children = if node.is_group() { node.get_fields() } else { &[] };
    let is_map = is(node, &LogicalType::Map, &[ConvertedType::MAP, ConvertedType::MAP_KEY_VALUE]);
    let is_list = is(node, &LogicalType::List, &[ConvertedType::LIST]);
    if is_repeated(node) {
        found.push(Field { name, shape: entries(node, false, next) });
    } else if node.is_primitive() {
        found.push(Field { name, shape: Shape::Value(*next) });
        *next += 1;
    } else if let ([entry], true) = (children, is_map || is_list) {
        found.push(Field { name, shape: entries(entry, is_map, next) });
    } else {
        for child in children {
            walk(child, &name, next, found);
        }
    }
}

fn is(node: &Type, logical: &LogicalType, converted: &[ConvertedType]) -> bool {
    let info = node.get_basic_info();
    info.logical_type_ref() == Some(logical) || converted.contains(&info.converted_type())
}

fn is_repeated(node: &Type) -> bool {
    node.get_basic_info().has_repetition() && node.get_basic_info().repetition() == Repetition::REPEATED
}

fn entries(entry: &Type, is_map: bool, next: &mut usize) -> Shape {
    let mut parts = Vec::new();
    let mut is_deep = !is_repeated(entry);
    parts_of(entry, next, &mut parts, &mut is_deep);
    match (is_deep, is_map, parts.as_slice()) {
        (false, true, [(_, keys), (_, values)]) => Shape::Map { keys: *keys, values: *values },
        (false, false, _) => Shape::List(parts),
        _ => Shape::Deep,
    }
}

fn parts_of(node: &Type, next: &mut usize, parts: &mut Vec<(String, usize)>, is_deep: &mut bool) {
    if node.is_primitive() {
        parts.push((node.name().to_owned(), *next));
        *next += 1;
        return;
    }
    for child in node.get_fields() {
        *is_deep |= is_repeated(child);
        parts_of(child, next, parts, is_deep);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::schema::parser::parse_message_type;

    use super::*;

    #[test]
    fn maps_lists_and_records_are_columns_of_a_bill() {
        let schema = "message bill {
            required double cost;
            optional group service { optional binary id (UTF8); optional binary description (UTF8); }
            optional group tags (MAP) { repeated group key_value { required binary key (UTF8); optional binary value (UTF8); } }
            optional group labels (LIST) { repeated group list { optional group element { optional binary key (UTF8); optional binary value (UTF8); } } }
            optional group deep (LIST) { repeated group list { optional group element (LIST) { repeated group list { optional int32 element; } } } }
            repeated binary old (UTF8);
            optional group odd (MAP) { repeated group key_value { required binary key (UTF8); optional group value { optional int32 a; optional int32 b; } } }
            optional binary last (UTF8);
        }";
        let schema = SchemaDescriptor::new(Arc::new(parse_message_type(schema).unwrap()));
        let found: Vec<(String, Shape)> = fields(&schema).into_iter().map(|field| (field.name, field.shape)).collect();
        let list = |parts: &[(&str, usize)]| {
            Shape::List(parts.iter().map(|(name, leaf)| ((*name).to_owned(), *leaf)).collect())
        };
        let expected = [
            ("cost", Shape::Value(0)),
            ("service.id", Shape::Value(1)),
            ("service.description", Shape::Value(2)),
            ("tags", Shape::Map { keys: 3, values: 4 }),
            ("labels", list(&[("key", 5), ("value", 6)])),
            ("deep", Shape::Deep),
            ("old", list(&[("old", 8)])),
            ("odd", Shape::Deep),
            ("last", Shape::Value(12)),
        ];
        assert_eq!(found, expected.map(|(name, shape)| (name.to_owned(), shape)));
        assert_eq!(schema.num_columns(), 13);
    }
}
