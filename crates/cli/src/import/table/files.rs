//! Files of an import: those that the command line names, and those in its folders.

use super::mapping::PathNames;
use super::reader::Format;
use crate::partition;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the named files, and the files in the named folders and below, by name. In folders, names that begin with a
/// dot or with `_`, and files with another end of the name, are skipped.
///
/// # Errors
/// If a file or folder cannot be read, or a folder has no file of the format.
pub fn list(paths: &[PathBuf], format: Format) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        let metadata =
            fs::metadata(path).with_context(|| format!("{} cannot be opened", path.display()))?;
        if !metadata.is_dir() {
            files.push(path.clone());
            continue;
        }
        let before = files.len();
        list_folder(path, format, &mut files)?;
        if files.len() == before {
            bail!(
                "{} has no file with the end .{}; name the files",
                path.display(),
                format.extensions().join(", .")
            );
        }
    }
    Ok(files)
}

fn list_folder(folder: &Path, format: Format, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder)
        .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
        .with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut entries: Vec<_> = entries.iter().map(fs::DirEntry::path).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(['.', '_']) {
            continue;
        }
        // A link to a folder could lead back to a folder above.
        if path.is_dir() && !path.is_symlink() {
            list_folder(&path, format, files)?;
        } else if has_extension(&path, format) {
            files.push(path);
        }
    }
    Ok(())
}

fn has_extension(path: &Path, format: Format) -> bool {
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    format
        .extensions()
        .iter()
        .any(|known| extension.eq_ignore_ascii_case(known))
}

/// Returns the names in the path of a file.
pub fn path_names(path: &Path) -> PathNames {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.split('.').find(|part| !part.is_empty());
    let folders = path.parent().into_iter().flat_map(Path::iter);
    let folders = folders.filter_map(|folder| {
        let (name, value) = partition::parse(folder.to_str()?)?;
        Some((name.to_string(), value))
    });
    PathNames {
        folders: folders.collect(),
        stem: stem.unwrap_or("rows").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_listed_without_hidden_files() {
        let root = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
        };
        for name in [
            "b/x.parquet",
            "a.PARQUET",
            ".x.parquet",
            "b/.rows.parquet.part",
            "_x/y.parquet",
            "note.txt",
        ] {
            make(name);
        }
        let root = root.path().to_path_buf();
        let listed = list(std::slice::from_ref(&root), Format::Parquet).unwrap();
        assert_eq!(listed, [root.join("a.PARQUET"), root.join("b/x.parquet")]);
        let none = list(&[root], Format::Arrow).unwrap_err().to_string();
        assert!(none.contains(".arrow, .arrows"), "{none}");
    }

    #[test]
    fn a_path_has_names() {
        let names = path_names(Path::new("d/measurement=a%20b/host=x/wind.2.parquet"));
        let folder = |name: &str, value: &str| (name.to_string(), value.to_string());
        assert_eq!(
            names.folders,
            [folder("measurement", "a b"), folder("host", "x")]
        );
        assert_eq!(names.stem, "wind");
    }
}
