//! Columns of a CSV file: which is the time, which are tags, which are fields, of which types.

use csv::StringRecord;
use seiner_model::{FieldType, Value, parse_time};
use std::collections::HashMap;

/// The types that are inferred, narrowest first. The last one holds every text.
const INFERRED: [FieldType; 5] = [
    FieldType::Bool,
    FieldType::I64,
    FieldType::U64,
    FieldType::F64,
    FieldType::Str,
];

/// The roles that the command line gives to columns.
pub struct Roles {
    pub time: String,
    /// One unit of integer times, ns.
    pub unit_ns: i64,
    pub tags: Vec<String>,
    /// `None` is all that are neither time nor tag.
    pub fields: Option<Vec<String>>,
    pub types: HashMap<String, FieldType>,
    /// Texts that stand for no value, besides the empty one.
    pub missing: Vec<String>,
}

/// Where the columns are in this file.
pub struct Columns {
    time: usize,
    unit_ns: i64,
    missing: Vec<String>,
    /// Name and place.
    pub tags: Vec<(String, usize)>,
    pub fields: Vec<Field>,
}

/// A column that becomes a field.
pub struct Field {
    pub name: String,
    place: usize,
    /// The types that hold all values so far, narrowest first; all of them before the first
    /// value, one if it was given.
    types: Vec<FieldType>,
    given: bool,
}

impl Columns {
    /// Finds the columns by the names in the first line.
    pub fn find(roles: &Roles, header: &StringRecord) -> Result<Columns, String> {
        let place = |name: &str| {
            header
                .iter()
                .position(|column| column == name)
                .ok_or_else(|| {
                    format!(
                        "there is no column {name:?}; there are {}",
                        header.iter().collect::<Vec<_>>().join(", ")
                    )
                })
        };
        let time = place(&roles.time)?;
        let tags = roles
            .tags
            .iter()
            .map(|name| Ok((name.clone(), place(name)?)))
            .collect::<Result<Vec<_>, String>>()?;
        let is_field = |place: &usize| *place != time && tags.iter().all(|(_, tag)| tag != place);
        let places: Vec<usize> = match &roles.fields {
            Some(names) => names
                .iter()
                .map(|name| place(name))
                .collect::<Result<_, _>>()?,
            None => (0..header.len()).filter(is_field).collect(),
        };
        for name in roles.types.keys() {
            if !places.contains(&place(name)?) {
                return Err(format!("--types names {name:?}, which is no field"));
            }
        }
        let fields = places.into_iter().map(|place| {
            let name = header[place].to_string();
            let given = roles.types.get(&name).copied();
            let types = given.map_or_else(|| INFERRED.to_vec(), |given| vec![given]);
            Field {
                name,
                place,
                types,
                given: given.is_some(),
            }
        });
        let fields: Vec<Field> = fields.collect();
        if fields.is_empty() {
            return Err("no column is left for a field".to_string());
        }
        Ok(Columns {
            time,
            unit_ns: roles.unit_ns,
            missing: roles.missing.clone(),
            tags,
            fields,
        })
    }

    /// Widens the types that are not given, so that they hold this record's values.
    pub fn infer(&mut self, record: &StringRecord) {
        for field in self.fields.iter_mut().filter(|field| !field.given) {
            if let Some(text) = present(record, field.place, &self.missing) {
                field
                    .types
                    .retain(|field_type| read(text, *field_type).is_some());
            }
        }
    }

    /// A record's time in ns.
    pub fn time(&self, record: &StringRecord) -> Result<i64, String> {
        let text = record.get(self.time).unwrap_or_default().trim();
        match text.parse::<i64>() {
            Ok(units) => units.checked_mul(self.unit_ns).ok_or_else(|| {
                format!("time {text} is outside the years 1677 to 2262; is --time-unit right?")
            }),
            Err(_) => parse_time(text, 0).map_err(|error| error.to_string()),
        }
    }

    /// The value of a field in a record, if it has one.
    pub fn value<'r>(
        &self,
        field: &Field,
        record: &'r StringRecord,
    ) -> Result<Option<Value<'r>>, String> {
        let Some(text) = present(record, field.place, &self.missing) else {
            return Ok(None);
        };
        let field_type = field.types[0];
        let value = read(text, field_type).ok_or_else(|| {
            format!(
                "column {:?}: {text:?} is no {}",
                field.name,
                field_type.name()
            )
        })?;
        Ok(Some(value))
    }
}

/// The text in a column, unless it is missing.
fn present<'r>(record: &'r StringRecord, place: usize, missing: &[String]) -> Option<&'r str> {
    let text = record.get(place)?.trim();
    (!text.is_empty() && missing.iter().all(|missing| missing != text)).then_some(text)
}

fn read(text: &str, field_type: FieldType) -> Option<Value<'_>> {
    match field_type {
        FieldType::F64 => text.parse().ok().map(Value::F64),
        FieldType::F32 => text.parse().ok().map(Value::F32),
        FieldType::I64 => text.parse().ok().map(Value::I64),
        FieldType::U64 => text.parse().ok().map(Value::U64),
        FieldType::Bool => match text {
            "true" | "True" | "TRUE" => Some(Value::Bool(true)),
            "false" | "False" | "FALSE" => Some(Value::Bool(false)),
            _ => None,
        },
        FieldType::Str => Some(Value::Str(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inferred(texts: &[&str]) -> FieldType {
        let roles = Roles {
            time: "ts".into(),
            unit_ns: 1,
            tags: Vec::new(),
            fields: None,
            types: HashMap::new(),
            missing: vec!["none".into()],
        };
        let mut columns = Columns::find(&roles, &StringRecord::from(vec!["ts", "x"])).unwrap();
        for text in texts {
            columns.infer(&StringRecord::from(vec!["0", text]));
        }
        columns.fields[0].types[0]
    }

    #[test]
    fn types_widen_as_far_as_values_need() {
        assert_eq!(inferred(&["1", "", "none", "-5"]), FieldType::I64);
        assert_eq!(inferred(&["1", "2.5", "3"]), FieldType::F64);
        assert_eq!(inferred(&["18446744073709551615", "1"]), FieldType::U64);
        assert_eq!(inferred(&["true", "False"]), FieldType::Bool);
        assert_eq!(inferred(&["true", "1"]), FieldType::Str);
        assert_eq!(inferred(&["1", "x"]), FieldType::Str);
        assert_eq!(inferred(&["1.5", "x"]), FieldType::Str);
    }

    #[test]
    fn roles_are_checked_against_the_header() {
        let header = StringRecord::from(vec!["series", "ts", "a", "b"]);
        let roles = |tags: &[&str], types: &[&str]| Roles {
            time: "ts".into(),
            unit_ns: 1_000_000_000,
            tags: tags.iter().map(ToString::to_string).collect(),
            fields: None,
            types: types
                .iter()
                .map(|name| (name.to_string(), FieldType::F32))
                .collect(),
            missing: vec!["-200".into()],
        };
        let columns = Columns::find(&roles(&["series"], &["b"]), &header).unwrap();
        assert_eq!(
            columns
                .fields
                .iter()
                .map(|field| field.name.as_str())
                .collect::<Vec<_>>(),
            ["a", "b"]
        );
        let record = StringRecord::from(vec!["x", "-2", "-200", "1.5"]);
        assert_eq!(columns.time(&record), Ok(-2_000_000_000));
        assert_eq!(columns.value(&columns.fields[0], &record), Ok(None));
        assert_eq!(
            columns.value(&columns.fields[1], &record),
            Ok(Some(Value::F32(1.5)))
        );
        assert!(
            Columns::find(&roles(&["host"], &[]), &header)
                .is_err_and(|error| error.contains("series, ts, a, b"))
        );
        assert!(Columns::find(&roles(&[], &["ts"]), &header).is_err());
    }
}
