//! Names of data sources by type, as the file `types.db` of collectd defines them.

use std::collections::HashMap;

/// Field of a type with one data source, if the type is unknown.
const VALUE: &str = "value";

/// Types and the names of their data sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Types(HashMap<String, Vec<String>>);

/// Line of the file that is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct BadTypes {
    /// Number of the line, from 1.
    pub line: usize,
    /// Reason.
    pub reason: String,
}

impl Types {
    /// Adds the types of a file. A type that is known is replaced.
    ///
    /// # Errors
    /// If a line is not `type source:KIND:MIN:MAX, …`.
    pub fn add(&mut self, text: &str) -> Result<(), BadTypes> {
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = || BadTypes {
                line: at + 1,
                reason: format!("{line:?} is not `type source:KIND:MIN:MAX, …`"),
            };
            let (name, sources) = line.split_once(char::is_whitespace).ok_or_else(wrong)?;
            let sources = sources
                .split(|letter: char| letter == ',' || letter.is_whitespace())
                .filter(|source| !source.is_empty());
            let names = sources.map(|source| match source.split(':').collect::<Vec<_>>()[..] {
                [name, _, _, _] if !name.is_empty() => Ok(name.to_string()),
                _ => Err(wrong()),
            });
            let names: Vec<String> = names.collect::<Result<_, _>>()?;
            if names.is_empty() {
                return Err(wrong());
            }
            self.0.insert(name.to_string(), names);
        }
        Ok(())
    }

    /// Returns the number of types.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if no type is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the name of a data source of a type with `count` sources. The sources of a type that is unknown, or that
    /// has another number of sources, are `value`, or `value_0`, `value_1` and so on.
    pub(super) fn field(&self, kind: &str, at: usize, count: usize) -> String {
        let known = self.0.get(kind).filter(|sources| sources.len() == count);
        match known.and_then(|sources| sources.get(at)) {
            Some(name) => name.clone(),
            None if count == 1 => VALUE.to_string(),
            None => format!("{VALUE}_{at}"),
        }
    }
}
