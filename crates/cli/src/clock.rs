//! `seiner clock`: the persisted clock by which a store expires data.

use crate::failure::Failure;
use crate::figures::instant;
use crate::remote::Remote;
use crate::server_access::ServerAccess;
use anyhow::{Context, anyhow};
use clap::Args;
use seiner_engine::{Reading, read_directory, set_stored_time, stored_time};
use seiner_model::duration_text;
use seiner_platform::Directory;
use serde_json::Value;
use std::io::{Read, Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Show or confirm the clock by which a store expires data.
///
/// A store records the latest time that it has seen. It distrusts a clock that jumps ahead by at
/// least the shortest age of a retention class: the clock may be wrong, or the host was off for a
/// long time. Until an operator confirms the clock, the store counts only the time for which it
/// runs. See docs/retention.md.
///
/// Examples:
///
///   seiner clock                          # of a running server
///
///   seiner clock --accept                 # confirm a jump: the host was off
///
///   seiner clock --data DIR --accept      # of a stopped store: set its time to the host's time
#[derive(Args)]
pub struct Clock {
    /// Confirm the host's clock. Data that are too old by this clock then expire. With --data, the
    /// host's time may also lie before the stored time; expired data do not come back.
    #[arg(long)]
    accept: bool,
    #[command(flatten)]
    access: ServerAccess,
    /// Directory of a store to use instead of a server. With --accept, no server may have the
    /// directory open.
    #[arg(long, value_name = "DIR", conflicts_with = "server")]
    data: Option<PathBuf>,
}

impl Clock {
    /// Shows or confirms the clock.
    pub fn run(self) -> Result<(), Failure> {
        match &self.data {
            Some(data) => self.of_directory(data),
            None => self.of_server(),
        }
    }

    fn of_server(&self) -> Result<(), Failure> {
        let remote = Remote::of(&self.access)?;
        if self.accept {
            remote.post("/api/v1/clock", &[])?;
            writeln!(stdout(), "the clock of the server's host is confirmed")?;
            return Ok(());
        }
        let mut text = String::new();
        remote.get("/status", &[])?.read_to_string(&mut text)?;
        let status: Value = serde_json::from_str(&text).context("the answer is incomplete")?;
        let figure = |name: &str| status["engine"][name].as_u64().unwrap_or(0);
        let (held, behind) = (figure("clock_held_ns"), figure("clock_behind_ns"));
        let line = match (held, behind) {
            (0, 0) => "the store uses its host\'s clock".to_string(),
            (0, behind) => format!(
                "the time of the store is {} ahead of its host\'s clock",
                duration_text(behind)
            ),
            (held, _) => format!(
                "the host\'s clock jumped ahead by {}, and is not accepted; --accept confirms the clock",
                duration_text(held)
            ),
        };
        writeln!(stdout(), "{line}")?;
        Ok(())
    }

    fn of_directory(&self, data: &Path) -> Result<(), Failure> {
        let now = seiner_server::ingest::now();
        let stored = read_directory(data, |disk| stored_time(&*disk).map(Reading::Done));
        let shown = match stored {
            Ok(Some(stored)) => instant(stored),
            Ok(None) => "none, as no retention class has an age".to_string(),
            // A damaged record of the time is replaced.
            Err(error) if self.accept => error.to_string(),
            Err(error) => return Err(Failure::Failed(error.into())),
        };
        writeln!(
            stdout(),
            "time of the store: {shown}; of this host: {}",
            instant(now)
        )?;
        if self.accept {
            // A directory without a store must not become one.
            let disk = Directory::open_existing(data).map_err(|error| anyhow!(error))?;
            set_stored_time(Arc::new(disk), now)?;
            writeln!(stdout(), "the time of the store is {} now", instant(now))?;
        }
        Ok(())
    }
}
