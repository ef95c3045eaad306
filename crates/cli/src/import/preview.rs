//! Preview of an import: the columns and the first rows.

use super::records::Layout;
use super::scan::File;
use super::value::Decimal;
use seiner_model::{Cell, Value, rfc3339};
use std::io::{Result, Write, stdout};

/// Number of rows shown.
pub const ROWS: usize = 10;

/// Formats a row as it would be stored, or the reason for its rejection.
pub fn row(name: &[u8], row: std::result::Result<(i64, Vec<Cell<'_>>), String>) -> String {
    let (time, cells) = match row {
        Ok(row) => row,
        Err(reason) => return format!("rejected: {reason}"),
    };
    let cells: Vec<String> = cells
        .iter()
        .map(|cell| {
            let field = String::from_utf8_lossy(cell.field);
            match cell.value {
                Value::F64(value) => format!("{field}={value:?}"),
                Value::F32(value) => format!("{field}={value:?}"),
                Value::I64(value) => format!("{field}={value}"),
                Value::U64(value) => format!("{field}={value}"),
                Value::Bool(value) => format!("{field}={value}"),
                Value::Str(value) => format!("{field}={value:?}"),
            }
        })
        .collect();
    format!(
        "{}  {}  {}",
        rfc3339(time),
        String::from_utf8_lossy(name),
        cells.join(" ")
    )
}

/// Prints the columns and the first rows of a file.
pub fn show(file: &File, rows: &[String]) -> Result<()> {
    let mut out = stdout().lock();
    let form = match &file.layout {
        Layout::Json { .. } => "JSON lines".to_string(),
        Layout::Csv { dialect, .. } => {
            let decimal = match dialect.decimal {
                Decimal::Point => "point",
                Decimal::Comma => "comma",
            };
            let separator = dialect.separator_name();
            format!("separator {separator}, decimal {decimal}")
        }
    };
    writeln!(
        out,
        "{}: {} rows, {form}, measurement {}",
        file.name, file.rows, file.measurement
    )?;
    if let Some((first, last)) = file.span {
        writeln!(out, "from {} to {}", rfc3339(first), rfc3339(last))?;
    }
    let form = file.columns.time.form();
    let time = (&file.columns.time.title, "time", form.as_str());
    let tags = file.columns.tags.iter().map(|(name, _)| (name, "tag", ""));
    let fields = file.columns.fields.iter();
    let fields = fields.map(|field| (&field.name, "field", field.field_type.name()));
    let all: Vec<_> = [time].into_iter().chain(tags).chain(fields).collect();
    let width = all.iter().map(|(name, ..)| name.chars().count()).max();
    let width = width.unwrap_or(0).max("column".len());
    writeln!(out, "\n{:width$}  role   type", "column")?;
    for (name, role, field_type) in all {
        let line = format!("{name:width$}  {role:5}  {field_type}");
        writeln!(out, "{}", line.trim_end())?;
    }
    writeln!(out)?;
    for row in rows {
        writeln!(out, "{row}")?;
    }
    Ok(())
}
