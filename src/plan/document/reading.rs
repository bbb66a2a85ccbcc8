//! Reads JSON into types and says where in it something is wrong.

use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::{Map, Value, map};

/// What is wrong, and where.
#[derive(Debug)]
pub struct Misread {
    /// Such as `.recommendation.nodes` or `.frontier[2]`; empty at the top.
    path: String,
    message: String,
}

impl Misread {
    /// One step further from where it went wrong.
    pub fn below(mut self, step: &str) -> Self {
        self.path.insert_str(0, step);
        self
    }
}

impl fmt::Display for Misread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What was read apart has the rest of the path in front of its message.
        let is_path = self.message.starts_with(['.', '[']);
        let between = if self.path.is_empty() || is_path { "" } else { ": " };
        write!(f, "{}{between}{}", self.path, self.message)
    }
}

impl std::error::Error for Misread {}

impl Error for Misread {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { path: String::new(), message: message.to_string() }
    }
}

/// A value of this type, or what is wrong with which part.
pub fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Misread> {
    T::deserialize(At(value))
}

/// A group of fields that is there as a whole or not at all; its key says which.
pub trait OptionalGroup: DeserializeOwned {
    /// A field that no other group has.
    const KEY: &'static str;
}

/// Reads an optional group among other fields. Without this a mistake in the group would read as its absence.
pub fn optional_group<'de, D: Deserializer<'de>, T: OptionalGroup>(fields: D) -> Result<Option<T>, D::Error> {
    let fields = Map::<String, Value>::deserialize(fields)?;
    if fields.contains_key(T::KEY) {
        read(&Value::Object(fields)).map(Some).map_err(D::Error::custom)
    } else {
        Ok(None)
    }
}

/// A value that knows its way from the top once something is wrong in it.
struct At<'a>(&'a Value);

impl<'de> Deserializer<'de> for At<'de> {
    type Error = Misread;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        match self.0 {
            Value::Array(items) => visitor.visit_seq(Items { items: items.iter(), index: 0 }),
            Value::Object(fields) => visitor.visit_map(Fields { fields: fields.iter(), next: None }),
            single => single.deserialize_any(visitor).map_err(Misread::custom),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Misread> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misread> {
        self.0.deserialize_enum(name, variants, visitor).map_err(Misread::custom)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct Items<'a> {
    items: std::slice::Iter<'a, Value>,
    index: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Misread;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Misread> {
        let Some(item) = self.items.next() else { return Ok(None) };
        let step = format!("[{}]", self.index);
        self.index += 1;
        seed.deserialize(At(item)).map(Some).map_err(|error| error.below(&step))
    }
}

struct Fields<'a> {
    fields: map::Iter<'a>,
    next: Option<(&'a String, &'a Value)>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Misread;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Misread> {
        self.next = self.fields.next();
        let Some((key, _)) = self.next else { return Ok(None) };
        seed.deserialize(key.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Misread> {
        let (key, value) = self.next.take().ok_or_else(|| Misread::custom("a value without a key"))?;
        seed.deserialize(At(value)).map_err(|error| error.below(&format!(".{key}")))
    }
}
