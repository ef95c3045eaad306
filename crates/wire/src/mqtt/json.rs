//! JSON payloads: an object becomes a row, an array becomes a row for each element.
//!
//! Values go directly from the text into the batch. The name of a nested value is made of the names on its way, with
//! `_` between them; elements of nested arrays have their index as name. Numbers become floats, so that `21` and `21.5`
//! have the same type. Nulls are left out.

use super::rule::Rule;
use super::time::TimeForm;
use crate::line::Arena;
use seiner_model::{Batch, Cell, Row, Value};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt::{self, Write as _};

/// Maximum depth of objects and arrays.
const MAX_DEPTH: usize = 16;
/// Maximum number of fields of a row.
const MAX_FIELDS: usize = 256;
/// Maximum length of the name of a field in bytes.
const MAX_NAME: usize = 1024;

/// Source and field of the rows, from the topic.
#[derive(Clone, Copy)]
pub(super) struct Target<'a, 'b> {
    pub rule: &'a Rule,
    /// Name of the source.
    pub name: &'b [u8],
    /// Field that the topic names.
    pub field: Option<&'a str>,
    /// Time of rows without a time of their own, ns.
    pub received: i64,
    pub form: TimeForm,
}

/// Appends the rows of a text to a batch.
///
/// # Errors
/// If the text is not JSON, or cannot be rows. The batch then contains rows to be removed.
pub(super) fn read<'b>(
    text: &'b [u8],
    target: Target<'_, 'b>,
    arena: &'b Arena,
    batch: &mut Batch<'b>,
) -> Result<(), String> {
    let first_row = batch.rows.len();
    let mut reader = Reader {
        path: target.rule.prefix(target.field).to_string(),
        target,
        arena,
        batch,
        time: None,
        timeless: 0,
        depth: 0,
        first_cell: 0,
    };
    let mut json = serde_json::Deserializer::from_slice(text);
    let read = Root(&mut reader).deserialize(&mut json);
    read.and_then(|()| json.end())
        .map_err(|error| error.to_string())?;
    let (timeless, rows) = (reader.timeless, batch.rows.len() - first_row);
    match timeless > 0 && rows > 1 {
        true => {
            Err("an array of several rows needs a time in each; set time to its name".to_string())
        }
        false => Ok(()),
    }
}

struct Reader<'s, 'a, 'b> {
    target: Target<'a, 'b>,
    arena: &'b Arena,
    batch: &'s mut Batch<'b>,
    /// Name of the present value.
    path: String,
    /// Time of the present row.
    time: Option<i64>,
    /// Number of rows without a time of their own.
    timeless: usize,
    depth: usize,
    /// Index of the first cell of the present row.
    first_cell: usize,
}

impl<'b> Reader<'_, '_, 'b> {
    /// Reads a row: everything that `read` adds.
    fn row<E: Error>(&mut self, read: impl FnOnce(&mut Self) -> Result<(), E>) -> Result<(), E> {
        let first_cell = self.batch.cells.len();
        (self.first_cell, self.time) = (first_cell, None);
        read(self)?;
        let cells = self.batch.cells.len() - first_cell;
        if cells == 0 {
            return Err(E::custom("there is no field with a value"));
        }
        self.timeless += usize::from(self.time.is_none());
        self.batch.rows.push(Row {
            name: self.target.name,
            time: self.time.unwrap_or(self.target.received),
            first_cell: first_cell as u32,
            cells: cells as u32,
        });
        Ok(())
    }

    /// Reads a value within an object or array, under its name.
    fn named<E: Error>(
        &mut self,
        begin: usize,
        read: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(E::custom(format!(
                "objects are nested more than {MAX_DEPTH} deep"
            )));
        }
        if self.path.len() > MAX_NAME {
            return Err(E::custom(format!("a name is longer than {MAX_NAME} bytes")));
        }
        read(self)?;
        self.depth -= 1;
        self.path.truncate(begin);
        Ok(())
    }

    /// Begins the name of an inner value. Returns the length to which the name is cut afterwards.
    fn begin(&mut self) -> usize {
        let begin = self.path.len();
        if begin > 0 {
            self.path.push('_');
        }
        begin
    }

    /// Returns whether the present value is the time of the row.
    fn is_time(&self) -> bool {
        let Some(time) = &self.target.rule.time else {
            return false;
        };
        let prefix = self.target.rule.prefix(self.target.field);
        let inner = match prefix {
            "" => Some(&*self.path),
            prefix => self
                .path
                .strip_prefix(prefix)
                .and_then(|rest| rest.strip_prefix('_')),
        };
        inner == Some(time)
    }

    fn put_time<E: Error>(&mut self, time: Result<i64, String>) -> Result<(), E> {
        self.time = Some(time.map_err(E::custom)?);
        Ok(())
    }

    fn put<E: Error>(&mut self, value: Value<'b>) -> Result<(), E> {
        let field = match self.depth {
            0 => self.target.rule.field(self.target.field),
            _ => &self.path,
        };
        if field.is_empty() {
            return Err(E::custom("a field has an empty name"));
        }
        let cells = &self.batch.cells[self.first_cell..];
        if cells.len() == MAX_FIELDS {
            return Err(E::custom(format!(
                "there are more than {MAX_FIELDS} fields"
            )));
        }
        if cells.iter().any(|cell| cell.field == field.as_bytes()) {
            return Err(E::custom(format!("the field {field:?} stands twice")));
        }
        let field = self.arena.keep(field.as_bytes());
        self.batch.cells.push(Cell { field, value });
        Ok(())
    }
}

/// Text as a whole.
struct Root<'r, 's, 'a, 'b>(&'r mut Reader<'s, 'a, 'b>);

impl<'b> DeserializeSeed<'b> for Root<'_, '_, '_, 'b> {
    type Value = ();

    fn deserialize<D: Deserializer<'b>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'b> Visitor<'b> for Root<'_, '_, '_, 'b> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_seq<A: SeqAccess<'b>>(self, mut items: A) -> Result<(), A::Error> {
        let (reader, mut rows) = (self.0, 0);
        while items.next_element_seed(Item(reader))?.is_some() {
            rows += 1;
        }
        match rows {
            0 => Err(A::Error::custom("the array is empty")),
            _ => Ok(()),
        }
    }

    fn visit_map<A: MapAccess<'b>>(self, map: A) -> Result<(), A::Error> {
        self.0.row(|reader| Node(reader).visit_map(map))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.0.row(|reader| Node(reader).visit_bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.0.row(|reader| Node(reader).visit_i64(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.0.row(|reader| Node(reader).visit_u64(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.0.row(|reader| Node(reader).visit_f64(value))
    }

    fn visit_borrowed_str<E: Error>(self, value: &'b str) -> Result<(), E> {
        self.0.row(|reader| Node(reader).visit_borrowed_str(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.0.row(|reader| Node(reader).visit_str(value))
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Err(E::custom("null has no value"))
    }
}

/// Element of the outermost array: a row.
struct Item<'r, 's, 'a, 'b>(&'r mut Reader<'s, 'a, 'b>);

impl<'b> DeserializeSeed<'b> for Item<'_, '_, '_, 'b> {
    type Value = ();

    fn deserialize<D: Deserializer<'b>>(self, json: D) -> Result<(), D::Error> {
        self.0.row(|reader| json.deserialize_any(Node(reader)))
    }
}

/// Value within a row.
struct Node<'r, 's, 'a, 'b>(&'r mut Reader<'s, 'a, 'b>);

impl<'b> DeserializeSeed<'b> for Node<'_, '_, '_, 'b> {
    type Value = ();

    fn deserialize<D: Deserializer<'b>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'b> Visitor<'b> for Node<'_, '_, '_, 'b> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'b>>(self, mut map: A) -> Result<(), A::Error> {
        let reader = self.0;
        loop {
            let begin = reader.begin();
            if map.next_key_seed(Key(&mut reader.path))?.is_none() {
                reader.path.truncate(begin);
                return Ok(());
            }
            reader.named(begin, |reader| map.next_value_seed(Node(reader)))?;
        }
    }

    fn visit_seq<A: SeqAccess<'b>>(self, mut items: A) -> Result<(), A::Error> {
        let reader = self.0;
        let mut index = 0_usize;
        loop {
            let begin = reader.begin();
            write!(reader.path, "{index}").expect("a write to a String does not fail");
            let mut more = false;
            reader.named(begin, |reader| {
                more = items.next_element_seed(Node(reader))?.is_some();
                Ok(())
            })?;
            if !more {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.0.put(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        match self.0.is_time() {
            true => self.0.put_time(self.0.target.form.of_integer(value)),
            false => self.0.put(Value::F64(value as f64)),
        }
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => self.visit_f64(value as f64),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        match self.0.is_time() {
            true => self.0.put_time(self.0.target.form.of_float(value)),
            false => self.0.put(Value::F64(value)),
        }
    }

    fn visit_borrowed_str<E: Error>(self, value: &'b str) -> Result<(), E> {
        match self.0.is_time() {
            true => self.0.put_time(self.0.target.form.of_text(value)),
            false => self.0.put(Value::Str(value)),
        }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        let kept = self.0.arena.keep_str(value);
        self.visit_borrowed_str(kept)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Name of a value, which is appended to a text.
struct Key<'k>(&'k mut String);

impl<'b> DeserializeSeed<'b> for Key<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'b>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<(), E> {
        self.0.push_str(name);
        Ok(())
    }
}
