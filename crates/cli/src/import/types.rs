//! Types of the fields of one measurement in several files, and in the store.
//!
//! The first value of a series fixes its type, so the rows of a file with another type would be rejected.

use super::columns::Columns;
use seiner_model::FieldType;
use std::collections::{BTreeMap, BTreeSet};

/// Gives fields the same type in all files of a measurement, where one type represents all values. `files` contains the
/// measurement and the columns of each file.
pub fn unify(files: &mut [(&str, &mut Columns)]) {
    let mut found: BTreeMap<(&str, String), BTreeSet<FieldType>> = BTreeMap::new();
    for (measurement, columns) in files.iter() {
        for (name, field_type) in columns.types() {
            let types = found.entry((measurement, name.to_string())).or_default();
            types.insert(field_type);
        }
    }
    for ((measurement, name), types) in found {
        let is_number =
            |field_type: &FieldType| !matches!(field_type, FieldType::Bool | FieldType::Str);
        let floats = [FieldType::F64, FieldType::F32];
        let has_floats = floats.iter().any(|float| types.contains(float));
        if types.len() < 2 || !has_floats || !types.iter().all(is_number) {
            continue;
        }
        for (_, columns) in files.iter_mut().filter(|file| file.0 == measurement) {
            columns.change_type(&name, FieldType::F64);
        }
    }
}

/// Gives the fields of a file the types that they have in the store. Returns the reasons why some of them cannot have
/// these types.
pub fn follow(columns: &mut Columns, stored: &[(String, FieldType)]) -> Vec<String> {
    let mut types: BTreeMap<&str, Option<FieldType>> = BTreeMap::new();
    for (name, field_type) in stored {
        // Sources may have different types. Then no type is right for all rows.
        let known = types.entry(name).or_insert(Some(*field_type));
        *known = known.filter(|known| known == field_type);
    }
    let mut reasons = Vec::new();
    for (name, field_type) in types {
        let Some(field_type) = field_type else {
            continue;
        };
        if !columns.change_type(name, field_type) {
            reasons.push(format!(
                "column {name:?} is stored as {} already, which does not represent all of its values; rows of \
                 stored sources are rejected, unless --types {name}={} converts them",
                field_type.name(),
                field_type.name()
            ));
        }
    }
    reasons
}
