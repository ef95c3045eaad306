//! Layouts: the fields of a source, in order.

use seiner_codec::DecodeError;
use seiner_codec::reader::Reader;
use seiner_codec::varint::put_u64;
use seiner_model::FieldType;

use crate::limits::MAX_CELLS;

/// Names and types of the fields of a source, in the order of its columns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Layout {
    fields: Vec<(String, FieldType)>,
}

impl Layout {
    /// Creates a layout. Names may repeat; the bundle gives them no meaning.
    pub fn new<N: Into<String>>(fields: impl IntoIterator<Item = (N, FieldType)>) -> Layout {
        let fields = fields.into_iter();
        Layout {
            fields: fields.map(|(name, kind)| (name.into(), kind)).collect(),
        }
    }

    /// Returns the names and types of the fields.
    pub fn fields(&self) -> &[(String, FieldType)] {
        &self.fields
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Returns whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns the number of cells of a row, at least 1.
    pub(crate) fn cells(&self) -> usize {
        self.fields.len().max(1)
    }

    /// Appends the layout.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_u64(self.fields.len() as u64, out);
        for (name, field_type) in &self.fields {
            put_u64(name.len() as u64, out);
            out.extend_from_slice(name.as_bytes());
            out.push(field_type.code());
        }
    }

    /// Reads a layout.
    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Layout, DecodeError> {
        let most = MAX_CELLS.min(reader.rest().len() / 2);
        let count = reader.length(most, "more fields than bytes")?;
        let mut fields = Vec::with_capacity(count);
        for _ in 0..count {
            let length = reader.length(reader.rest().len(), "a name exceeds the directory")?;
            let name = reader.take(length, "a field's name")?;
            let name =
                std::str::from_utf8(name).map_err(|_| reader.invalid("a name is not UTF-8"))?;
            let name = name.to_string();
            let code = reader.byte("a field's type")?;
            let field_type =
                FieldType::from_code(code).ok_or_else(|| reader.unknown("a field", code))?;
            fields.push((name, field_type));
        }
        Ok(Layout { fields })
    }
}
