//! Columns of a CSV file and their roles: time, tag or field, with the types of fields.

use super::dialect::Dialect;
use super::statistics::{CellStatistics, Verdict};
use super::times::{TimeColumn, Unit};
use super::value::{boolean, number};
use csv::StringRecord;
use seiner_model::{FieldType, Value};
use std::collections::HashMap;

/// Roles of columns as given on the command line.
pub struct Roles {
    /// Name of the time column; `None` detects it.
    pub time: Option<String>,
    /// Name of the column with the date, if the time column contains times of day.
    pub date: Option<String>,
    /// Pattern of times that are dates; `None` detects it.
    pub format: Option<String>,
    /// Unit of times that are numbers; `None` detects it.
    pub unit: Option<Unit>,
    pub tags: Vec<String>,
    /// Names of the fields; `None` selects all columns that are neither time nor tag.
    pub fields: Option<Vec<String>>,
    pub types: HashMap<String, FieldType>,
    /// True if columns of numbers may become 32-bit floats.
    pub singles: bool,
    /// Texts that denote a missing value, besides the empty text.
    pub missing: Vec<String>,
}

/// Columns of one file.
pub struct Columns {
    pub time: TimeColumn,
    dialect: Dialect,
    missing: Vec<String>,
    singles: bool,
    /// Names and indices of the tag columns.
    pub tags: Vec<(String, usize)>,
    pub fields: Vec<Field>,
    /// Numbers of the columns without a name, from 1.
    pub unnamed: Vec<usize>,
}

/// A column that becomes a field.
pub struct Field {
    pub name: String,
    place: usize,
    /// Type of the field. If it is not given, it is valid only after all cells were counted.
    pub field_type: FieldType,
    given: bool,
    statistics: CellStatistics,
    /// Share of the bytes that 32-bit floats save, in percent, if they are worth it.
    saving: Option<usize>,
}

impl Columns {
    /// Finds the columns by the names in the header line.
    ///
    /// # Errors
    /// If a column is missing or ambiguous, `--types` names a column that is not a field, or there is no field.
    pub fn find(
        roles: &Roles,
        header: &StringRecord,
        dialect: Dialect,
        time: TimeColumn,
    ) -> Result<Columns, String> {
        let place = |name: &str| place(header, name);
        let tags = roles
            .tags
            .iter()
            .map(|name| Ok((name.clone(), place(name)?)))
            .collect::<Result<Vec<_>, String>>()?;
        let is_field = |place: &usize| {
            !time.places.contains(place) && tags.iter().all(|(_, tag)| tag != place)
        };
        let (mut places, mut unnamed) = (Vec::new(), Vec::new());
        match &roles.fields {
            Some(names) => {
                for name in names {
                    places.push(place(name)?);
                }
            }
            None => {
                for at in (0..header.len()).filter(is_field) {
                    match header[at].is_empty() {
                        true => unnamed.push(at + 1),
                        false => places.push(place(&header[at])?),
                    }
                }
            }
        }
        for name in roles.types.keys() {
            if !places.contains(&place(name)?) {
                return Err(format!("--types names {name:?}, which is not a field"));
            }
        }
        if places.is_empty() {
            return Err("no column is left for a field".to_string());
        }
        let fields = places.into_iter().map(|place| {
            let name = header[place].to_string();
            let given = roles.types.get(&name).copied();
            Field {
                name,
                place,
                field_type: given.unwrap_or(FieldType::Bool),
                given: given.is_some(),
                statistics: CellStatistics::default(),
                saving: None,
            }
        });
        Ok(Columns {
            time,
            dialect,
            missing: roles.missing.clone(),
            singles: roles.singles,
            tags,
            fields: fields.collect(),
            unnamed,
        })
    }

    /// Counts the cells of a record, for the fields whose types are not given.
    pub fn count(&mut self, record: &StringRecord) {
        let line = record.position().map_or(0, csv::Position::line);
        for field in self.fields.iter_mut().filter(|field| !field.given) {
            if let Some(text) = present(record, field.place, &self.missing) {
                field
                    .statistics
                    .count(text, &self.dialect.number(text), line);
            }
        }
    }

    /// Derives the types from the counts. Returns notes for the user, and the reasons why types of some columns
    /// cannot be decided.
    pub fn decide(&mut self) -> (Vec<String>, Vec<String>) {
        let (mut notes, mut doubts) = (Vec::new(), Vec::new());
        for field in self.fields.iter_mut().filter(|field| !field.given) {
            let Verdict {
                field_type,
                note,
                doubt,
            } = field.statistics.verdict(&field.name);
            field.field_type = field_type;
            if field_type == FieldType::F64 && self.singles {
                field.saving = field.statistics.singles().saving();
            }
            if field.saving.is_some() {
                field.field_type = FieldType::F32;
            }
            notes.extend(note);
            doubts.extend(doubt);
        }
        if !self.unnamed.is_empty() {
            let numbers: Vec<String> = self.unnamed.iter().map(usize::to_string).collect();
            notes.push(format!(
                "column {} has no name and is left out",
                numbers.join(", ")
            ));
        }
        (notes, doubts)
    }

    /// Returns the note about the fields that became 32-bit floats without being given as such.
    pub fn note_of_singles(&self) -> Option<String> {
        let is_single = |field: &&Field| field.field_type == FieldType::F32;
        let detected = self.fields.iter().filter(is_single);
        let (names, savings): (Vec<&str>, Vec<usize>) = detected
            .filter_map(|field| Some((field.name.as_str(), field.saving?)))
            .unzip();
        let saving = savings.iter().max()?;
        let types: Vec<String> = names.iter().map(|name| format!("{name}=f64")).collect();
        Some(format!(
            "{}: 32-bit floats, exact, and up to {saving} % smaller; --types {} stores doubles",
            names.join(", "),
            types.join(",")
        ))
    }

    /// Changes the inferred type of a field to another type if this type represents all of its values. Returns false
    /// if it does not, or if the type of the field was given.
    pub fn change_type(&mut self, name: &str, wanted: FieldType) -> bool {
        let Some(field) = self.fields.iter_mut().find(|field| field.name == name) else {
            return true;
        };
        if field.field_type == wanted {
            return true;
        }
        let is_number = !matches!(field.field_type, FieldType::Bool | FieldType::Str);
        let fits = match wanted {
            FieldType::F64 => is_number && field.statistics.are_doubles(),
            FieldType::F32 => is_number && field.statistics.singles().are_exact(),
            // The store converts integers with and without a sign itself.
            FieldType::I64 | FieldType::U64 => {
                matches!(field.field_type, FieldType::I64 | FieldType::U64)
            }
            FieldType::Bool => false,
            FieldType::Str => true,
        };
        let changes = fits && !field.given;
        if changes && !matches!(wanted, FieldType::I64 | FieldType::U64) {
            field.field_type = wanted;
        }
        changes
    }

    /// Returns the names and types of the fields that have values.
    pub fn types(&self) -> impl Iterator<Item = (&str, FieldType)> {
        let fields = self.fields.iter();
        let fields = fields.filter(|field| field.given || !field.statistics.is_empty());
        fields.map(|field| (field.name.as_str(), field.field_type))
    }

    /// Returns the fields that are probably tags: texts, otherwise integers whose names suggest an identity.
    pub fn likely_tags(&self) -> Vec<&str> {
        const IDENTITIES: [&str; 7] = [
            "id", "sensor", "device", "host", "station", "node", "channel",
        ];
        let texts = self
            .fields
            .iter()
            .filter(|field| field.field_type == FieldType::Str);
        let texts: Vec<&str> = texts.map(|field| field.name.as_str()).collect();
        if !texts.is_empty() {
            return texts;
        }
        let integers = self.fields.iter().filter(|field| {
            let name = field.name.to_lowercase();
            matches!(field.field_type, FieldType::I64 | FieldType::U64)
                && IDENTITIES.iter().any(|identity| name.contains(identity))
        });
        integers.map(|field| field.name.as_str()).collect()
    }

    /// Returns the value of a field in a record; `None` if the value is missing.
    ///
    /// # Errors
    /// If the text is not a value of the field's type: the reason, and the text.
    pub fn value<'r>(
        &self,
        field: &Field,
        record: &'r StringRecord,
    ) -> Result<Option<Value<'r>>, (String, &'r str)> {
        let Some(text) = present(record, field.place, &self.missing) else {
            return Ok(None);
        };
        let value = match field.field_type {
            FieldType::Str => Some(Value::Str(text)),
            FieldType::Bool => boolean(text).map(Value::Bool),
            numeric => number(&self.dialect.number(text), numeric),
        };
        let value = value.ok_or_else(|| {
            let reason = format!(
                "column {:?}: {text:?} is not of type {}, and is left out",
                field.name,
                field.field_type.name()
            );
            (reason, text)
        })?;
        Ok(Some(value))
    }

    /// Iterates over the fields that have a value in a record, as field indices and texts.
    pub fn present<'r>(&self, record: &'r StringRecord) -> impl Iterator<Item = (usize, &'r str)> {
        let fields = self.fields.iter().enumerate();
        fields.filter_map(|(number, field)| {
            Some((number, present(record, field.place, &self.missing)?))
        })
    }
}

/// Returns the index of the column with a name.
///
/// # Errors
/// If there is none, or more than one.
pub fn place(header: &StringRecord, name: &str) -> Result<usize, String> {
    let mut found = (0..header.len()).filter(|place| &header[*place] == name);
    match (found.next(), found.next()) {
        (Some(_), Some(second)) => Err(format!(
            "two columns are called {name:?}, the second is column {}; rename one",
            second + 1
        )),
        (Some(place), None) => Ok(place),
        (None, _) => Err(format!(
            "there is no column {name:?}; there are {}",
            list(header)
        )),
    }
}

/// Returns the names of all columns, for messages.
pub fn list(header: &StringRecord) -> String {
    header.iter().collect::<Vec<_>>().join(", ")
}

/// Returns the text of a cell; `None` if the value is missing.
fn present<'r>(record: &'r StringRecord, place: usize, missing: &[String]) -> Option<&'r str> {
    let text = record.get(place)?.trim();
    (!text.is_empty() && missing.iter().all(|missing| missing != text)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::times::{Format, SECONDS};
    use crate::import::value::Decimal;

    fn roles() -> Roles {
        Roles {
            time: None,
            date: None,
            format: None,
            unit: None,
            tags: Vec::new(),
            fields: None,
            types: HashMap::new(),
            singles: true,
            missing: vec!["-200".into()],
        }
    }

    fn find(roles: &Roles, header: &[&str]) -> Result<Columns, String> {
        let header = StringRecord::from(header.to_vec());
        let time = TimeColumn {
            title: "ts".into(),
            places: vec![place(&header, "ts")?],
            format: Format::Standard,
            unit: SECONDS,
            is_unit_inferred: false,
            decimal: Decimal::Point,
        };
        Columns::find(roles, &header, Dialect::JSON, time)
    }

    #[test]
    fn roles_are_checked_against_the_header() {
        let header = ["series", "ts", "a", "b"];
        let roles = |tags: &[&str], types: &[&str]| Roles {
            tags: tags.iter().map(ToString::to_string).collect(),
            types: types
                .iter()
                .map(|name| (name.to_string(), FieldType::F32))
                .collect(),
            ..roles()
        };
        let mut columns = find(&roles(&["series"], &["b"]), &header).unwrap();
        let names: Vec<&str> = columns
            .fields
            .iter()
            .map(|field| field.name.as_str())
            .collect();
        assert_eq!(names, ["a", "b"]);
        let record = StringRecord::from(vec!["x", "-2", "-200", "1.5"]);
        columns.count(&record);
        assert_eq!(columns.decide(), (Vec::new(), Vec::new()));
        assert_eq!(columns.time.time(&record), Ok(-2_000_000_000));
        assert_eq!(columns.value(&columns.fields[0], &record), Ok(None));
        let single = columns.value(&columns.fields[1], &record);
        assert_eq!(single, Ok(Some(Value::F32(1.5))));
        let rejected = |tags: &[&str], types: &[&str]| find(&roles(tags, types), &header).err();
        assert!(rejected(&["host"], &[]).is_some_and(|error| error.contains("series, ts, a, b")));
        assert!(rejected(&[], &["ts"]).is_some());
    }

    #[test]
    fn columns_need_names_of_their_own() {
        let twice = find(&roles(), &["ts", "a", "a"]);
        assert!(twice.is_err_and(|error| error.contains("two columns")));
        let mut columns = find(&roles(), &["", "ts", "a", ""]).unwrap();
        assert_eq!(
            (columns.unnamed.as_slice(), columns.fields.len()),
            (&[1, 4][..], 1)
        );
        assert_eq!(
            columns.decide().0,
            ["column 1, 4 has no name and is left out"]
        );
    }
}
