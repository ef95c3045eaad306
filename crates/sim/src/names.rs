//! Notation of source names in the simulation.

use seiner_model::{KeyError, Notation, SourceKey};

/// One line for the measurement and one line `tag=value` for each tag, in any order.
pub(crate) struct Lines;

impl Lines {
    /// Returns the name of a source with its tags in the given order.
    pub(crate) fn write(measurement: &str, tags: &[(&str, &str)]) -> Vec<u8> {
        let mut name = measurement.to_string();
        for (tag, value) in tags {
            name.push_str(&format!("\n{tag}={value}"));
        }
        name.into_bytes()
    }
}

impl Notation for Lines {
    fn id(&self) -> u32 {
        0x51e1
    }

    fn source_key(&self, name: &[u8]) -> Result<SourceKey, KeyError> {
        let text =
            std::str::from_utf8(name).map_err(|error| KeyError::Notation(error.to_string()))?;
        let mut lines = text.split('\n');
        let measurement = lines.next().unwrap_or_default();
        let tags: Vec<(&str, &str)> = lines
            .map(|line| {
                line.split_once('=')
                    .ok_or_else(|| KeyError::Notation(format!("{line:?} has no =")))
            })
            .collect::<Result<_, _>>()?;
        SourceKey::new(measurement, tags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back_in_any_order_of_tags() {
        let tags = [("b", "1"), ("a", "x y")];
        let key = Lines.source_key(&Lines::write("m", &tags)).unwrap();
        assert_eq!(key, SourceKey::new("m", tags).unwrap());
        assert!(
            Lines.source_key(b"m\nx").is_err()
                && Lines.source_key(b"").is_err()
                && Lines.source_key(b"\xff").is_err()
        );
    }
}
