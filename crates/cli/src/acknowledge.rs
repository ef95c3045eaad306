//! `seiner acknowledge`: marks losses as seen, which removes them from the list of losses.

use crate::failure::Failure;
use crate::remote::Remote;
use crate::server_access::ServerAccess;
use crate::target::open_directory;
use anyhow::Context;
use clap::Args;
use serde_json::Value;
use std::io::{Write, stdout};
use std::path::PathBuf;

/// Acknowledge the losses that a server lists.
///
/// A loss is data that the store accepted and cannot read any more, because a file is missing or
/// damaged. The server lists losses in /status, and /health reports a warning. Acknowledged losses
/// stay in the counters but leave the list. The command prints the losses that it acknowledges.
///
/// Examples:
///
///   seiner acknowledge
///
///   seiner acknowledge --data /var/lib/seiner
#[derive(Args)]
pub struct Acknowledge {
    #[command(flatten)]
    access: ServerAccess,
    /// Directory of a store that no server has open.
    #[arg(long, value_name = "DIR", conflicts_with = "server")]
    data: Option<PathBuf>,
}

impl Acknowledge {
    /// Lists the losses and acknowledges them.
    pub fn run(self) -> Result<(), Failure> {
        let count = match &self.data {
            Some(directory) => {
                let store = open_directory(directory)?;
                for loss in store.losses() {
                    writeln!(stdout(), "{loss}")?;
                }
                let count = store.with_log()?.acknowledge_losses();
                let count = count.context("the ledger")?;
                store.close().context("closing the store")?;
                count
            }
            None => acknowledge_at(&Remote::of(&self.access)?)?,
        };
        writeln!(stdout(), "acknowledged {count} losses")?;
        Ok(())
    }
}

fn acknowledge_at(remote: &Remote) -> Result<u64, Failure> {
    let status = remote.get("/status", &[])?;
    let status: Value = serde_json::from_reader(status).context("the answer is incomplete")?;
    for loss in status["losses"].as_array().into_iter().flatten() {
        let text = |name: &str| loss[name].as_str().unwrap_or_default();
        let rows = match (loss["rows"].as_u64(), loss["at_most"].as_bool()) {
            (Some(rows), Some(true)) => format!("at most {rows} rows are lost"),
            (Some(rows), _) => format!("{rows} rows are lost"),
            (None, _) => "an unknown number of rows is lost".to_string(),
        };
        writeln!(stdout(), "{}: {}; {rows}", text("file"), text("what"))?;
    }
    let answer = remote.post("/api/v1/acknowledge", &[])?;
    let answer: Value = serde_json::from_reader(answer).context("the answer is incomplete")?;
    let count = answer["acknowledged"].as_u64();
    Ok(count.context("the answer has no number of losses")?)
}
