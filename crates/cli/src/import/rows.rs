//! Rows made of records: the name of the source, the time and the values.

use super::columns::Columns;
use super::fault::Fault;
use super::sink::escape;
use csv::{Position, StringRecord};
use seiner_model::Cell;

/// Returns the source of a record, in the notation of line protocol.
///
/// # Errors
/// If line protocol has no notation for a name.
pub fn name(
    measurement: &str,
    tags: &[(String, String)],
    columns: &Columns,
    record: &StringRecord,
) -> Result<Vec<u8>, String> {
    let mut name = Vec::new();
    put_name(&mut name, measurement, b", ")?;
    let constant = tags.iter();
    let constant = constant.map(|(tag, value)| (tag.as_str(), value.as_str()));
    let from_columns = columns
        .tags
        .iter()
        .map(|(tag, place)| (tag.as_str(), record.get(*place).unwrap_or_default().trim()));
    for (tag, value) in constant
        .chain(from_columns)
        .filter(|(_, value)| !value.is_empty())
    {
        name.push(b',');
        put_name(&mut name, tag, b",= ")?;
        name.push(b'=');
        put_name(&mut name, value, b",= ")?;
    }
    Ok(name)
}

/// Appends a measurement, or the name or value of a tag, in the notation of line protocol.
fn put_name(name: &mut Vec<u8>, text: &str, escapable: &[u8]) -> Result<(), String> {
    if text.ends_with('\\') {
        return Err(format!(
            "{text:?} ends in a backslash, for which line protocol has no notation; leave the backslash out"
        ));
    }
    escape(name, text.as_bytes(), escapable);
    Ok(())
}

/// Returns the time and the values of a record. Calls `reject` for each cell that is not valid, and omits the
/// cell.
///
/// # Errors
/// If the time is not valid.
pub fn row<'r>(
    columns: &'r Columns,
    record: &'r StringRecord,
    reject: &mut dyn FnMut(Fault),
) -> Result<(i64, Vec<Cell<'r>>), Fault> {
    let line = record.position().map_or(0, Position::line);
    let time = columns.time.time(record).map_err(|reason| Fault {
        line,
        column: columns.time.title.clone(),
        reason,
        text: String::new(),
    })?;
    let mut cells = Vec::with_capacity(columns.fields.len());
    for field in &columns.fields {
        match columns.value(field, record) {
            Ok(Some(value)) => cells.push(Cell {
                field: field.name.as_bytes(),
                value,
            }),
            Ok(None) => {}
            Err((reason, text)) => reject(Fault {
                line,
                column: field.name.clone(),
                reason,
                text: text.to_string(),
            }),
        }
    }
    Ok((time, cells))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_model::Notation;
    use seiner_wire::line::LineNotation;

    #[test]
    fn escaped_names_are_parsed_as_the_original_names() {
        for text in ["plain", "a b", "x,y=z", "back\\slash", "\\\\server", "\\,"] {
            let mut name = Vec::new();
            put_name(&mut name, text, b", ").unwrap();
            name.extend_from_slice(b",tag=");
            put_name(&mut name, text, b",= ").unwrap();
            let key = LineNotation.source_key(&name).unwrap();
            assert_eq!((key.measurement(), key.tag("tag")), (text, text));
        }
        let error = put_name(&mut Vec::new(), "C:\\", b", ").unwrap_err();
        assert!(error.ends_with("leave the backslash out"), "{error}");
    }
}
