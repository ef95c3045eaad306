//! `seiner raid status`: prints the status of an array.

use super::control;
use super::monitor::{filling, level};
use super::report::text;
use crate::failure::Failure;
use crate::figures::size;
use clap::Args;
use seiner_raid::{Device, Member, Superblock, superblock};
use serde_json::{Value, json};
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

/// Show the status of an array: from the control socket of the serving process, or from the
/// superblocks of the devices.
#[derive(Args)]
pub struct Show {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Control socket, or devices.
    #[arg(required = true, value_name = "SOCKET|DEVICE")]
    places: Vec<PathBuf>,
}

impl Show {
    /// Requests the status from the serving process, or reads it from the devices, and prints it.
    pub fn run(self) -> Result<(), Failure> {
        if let [socket] = &self.places[..]
            && control::is_socket(socket)
        {
            let report = control::status(socket)?;
            match self.json {
                true => writeln!(stdout(), "{}", serde_json::to_string_pretty(&report)?)?,
                false => write!(stdout(), "{}", text(&report))?,
            }
            return Ok(());
        }
        let mut unknown = false;
        let mut all = Vec::new();
        for path in &self.places {
            let found = look(path);
            unknown |= found.is_err();
            match (self.json, found) {
                (true, Ok(superblock)) => all.push(as_json(path, &superblock)),
                (true, Err(error)) => all.push(json!({"device": path, "error": error})),
                (false, Ok(superblock)) => write!(stdout(), "{}", as_text(path, &superblock))?,
                (false, Err(error)) => writeln!(stdout(), "{error}")?,
            }
        }
        if self.json {
            writeln!(stdout(), "{}", serde_json::to_string_pretty(&all)?)?;
        }
        match unknown {
            true => Err(Failure::Rejected),
            false => Ok(()),
        }
    }
}

fn look(path: &Path) -> Result<Superblock, String> {
    let device = Device::look(path).map_err(|error| error.to_string())?;
    superblock(&device).map_err(|error| format!("{} {error}", device.name()))
}

fn as_json(path: &Path, superblock: &Superblock) -> Value {
    let members = superblock.completeness.iter().map(|&of_member| {
        let (state, stripes) = filling(of_member, superblock.stripes);
        json!({"state": state, "stripes": stripes})
    });
    json!({
        "device": path,
        "array": superblock.array.to_string(),
        "member": superblock.index,
        "level": level(superblock.level),
        "strip_bytes": superblock.strip_bytes,
        "stripes": superblock.stripes,
        "generation": superblock.generation,
        "clean": superblock.clean,
        "members": members.collect::<Vec<Value>>(),
    })
}

fn as_text(path: &Path, superblock: &Superblock) -> String {
    let place = superblock.index.map_or_else(
        || "a spare".to_string(),
        |member| format!("member {member}"),
    );
    let members = superblock.completeness.iter().map(|&of_member| {
        match filling(of_member, superblock.stripes) {
            ("filling", stripes) => {
                format!("filling ({stripes} of {} stripes)", superblock.stripes)
            }
            (state, _) => state.to_string(),
        }
    });
    format!(
        "{}: {place} of array {}\n  RAID {} of {}, strips of {}, {} stripes; generation {}, {}\n  members: {}\n",
        path.display(),
        superblock.array,
        level(superblock.level),
        superblock.completeness.len(),
        size(superblock.strip_bytes),
        superblock.stripes,
        superblock.generation,
        if superblock.clean {
            "stopped"
        } else {
            "running, or not stopped"
        },
        members.collect::<Vec<String>>().join(", ")
    )
}
