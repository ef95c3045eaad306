//! Files with the types and the users of collectd.

use crate::settings::CollectdSettings;
use anyhow::{Context, Result, anyhow};
use seiner_wire::collectd::{Packets, Security, Types};
use std::path::Path;

/// File with the types of collectd as Debian installs it.
const INSTALLED: &str = "/usr/share/collectd/types.db";

/// Reads the files that the settings name. Without files of types, those of an installed collectd count, if there are
/// any.
///
/// # Errors
/// If a file cannot be read, or if a line of it is malformed.
pub fn packets(settings: &CollectdSettings) -> Result<Packets> {
    let mut types = Types::default();
    for path in &settings.types_db {
        add_types(&mut types, path)?;
    }
    let installed = Path::new(INSTALLED);
    if settings.types_db.is_empty() {
        match installed.exists() {
            true => add_types(&mut types, installed)?,
            false => tracing::warn!(
                "{INSTALLED} does not exist: fields of collectd are value, or value_0 and so on; set collectd_types_db"
            ),
        }
    }
    let users = match &settings.auth_file {
        Some(path) => read(path, "collectd_auth_file")?,
        None => String::new(),
    };
    let security = Security::new(settings.security, &users)
        .map_err(|error| anyhow!("collectd_auth_file: {error}"))?;
    Ok(Packets { types, security })
}

fn add_types(types: &mut Types, path: &Path) -> Result<()> {
    let text = read(path, "collectd_types_db")?;
    let added = types.add(&text);
    added.with_context(|| {
        format!(
            "{}: give another file with collectd_types_db",
            path.display()
        )
    })
}

fn read(path: &Path, setting: &str) -> Result<String> {
    std::fs::read_to_string(path)
        .with_context(|| format!("{} cannot be read; correct {setting}", path.display()))
}
