//! Detection of list values that were taken for paths.

use crate::failure::Failure;
use seiner_model::parse_bytes as bytes;
use std::path::PathBuf;

/// Rejects paths that are numbers and name no file: the values of a list were probably separated by blanks.
///
/// # Errors
/// [`Failure::Usage`] with the numbers and the options that take lists.
pub fn reject<'a>(
    paths: impl IntoIterator<Item = &'a PathBuf>,
    options: &str,
) -> Result<(), Failure> {
    let number = |path: &&PathBuf| {
        let text = path.to_str().unwrap_or_default();
        (text.parse::<f64>().is_ok() || bytes(text).is_ok()) && !path.exists()
    };
    let found: Vec<String> = paths
        .into_iter()
        .filter(number)
        .map(|path| path.display().to_string())
        .collect();
    if found.is_empty() {
        return Ok(());
    }
    let (blanks, commas) = (found.join(" "), found.join(","));
    Err(Failure::Usage(format!(
        "{blanks}: no file has that name. Separate the values of {options} by commas ({commas}), or write ./{} for a file",
        found[0]
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_numbers_are_rejected_as_devices() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        for names in [["64", "512"], ["4KiB", "0.9"]] {
            let rejected = reject(&paths(&names), "--depth").err().unwrap();
            let text = format!("{rejected:?}");
            assert!(
                text.contains(&names.join(",")) && text.contains("--depth"),
                "{text}"
            );
        }
        for names in [["a", "/dev/sdb"], ["./64", "Cargo.toml"]] {
            assert!(reject(&paths(&names), "--depth").is_ok());
        }
    }
}
