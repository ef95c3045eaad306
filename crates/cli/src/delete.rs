//! `seiner delete`: deletes sources, or their samples in an interval.

use crate::failure::Failure;
use crate::remote::Remote;
use crate::server_access::ServerAccess;
use anyhow::{Context, Result};
use clap::Args;
use seiner_model::Selector;
use serde_json::Value;
use std::io::{IsTerminal, Read, Write, stdin, stdout};

/// Delete the samples of sources, all of them or those in an interval.
///
/// Deleted samples are invisible at once and cannot be restored. Their disk space becomes free
/// later, when merges or drops remove their segments. The command prints the number of sources and
/// asks for confirmation before it deletes.
///
/// Examples:
///
///   seiner delete 'cpu{host="a"}'
///
///   seiner delete 'accel' --from 2026-01-01 --to 2026-01-31T23:59:59
#[derive(Args)]
pub struct Delete {
    /// Selector of the sources, as in `seiner query`. `{}` selects all sources.
    selector: String,
    /// Earliest time, as in `seiner query` [default: the first sample]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// Latest time, included [default: the last sample]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
    /// Delete without confirmation.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    access: ServerAccess,
}

impl Delete {
    /// Counts the sources, asks for confirmation, and deletes.
    pub fn run(self) -> Result<(), Failure> {
        Selector::parse(&self.selector).map_err(|error| Failure::Usage(error.to_string()))?;
        let remote = Remote::of(&self.access)?;
        let sources = count(&remote, &self.selector)?;
        if sources == 0 {
            writeln!(
                stdout(),
                "no source is {}; nothing is deleted",
                self.selector
            )?;
            return Ok(());
        }
        if !self.yes && !self.is_wanted(sources)? {
            writeln!(stdout(), "nothing is deleted")?;
            return Err(Failure::Rejected);
        }
        let mut parameters = vec![("select", self.selector.clone())];
        parameters.extend(self.from.clone().map(|from| ("from", from)));
        parameters.extend(self.to.clone().map(|to| ("to", to)));
        let answer = remote.post("/api/v1/delete", &parameters)?;
        let answer: Value = serde_json::from_reader(answer).context("the answer is incomplete")?;
        for hint in answer["hints"].as_array().into_iter().flatten() {
            eprintln!("note: {}", hint.as_str().unwrap_or_default());
        }
        writeln!(stdout(), "deleted samples of {} sources", answer["sources"])?;
        Ok(())
    }

    fn is_wanted(&self, sources: u64) -> Result<bool, Failure> {
        if !stdin().is_terminal() {
            let what = format!("{sources} sources match; --yes deletes without confirmation");
            return Err(Failure::Usage(what));
        }
        let from = self.from.as_deref().unwrap_or("the first");
        let to = self.to.as_deref().unwrap_or("the last");
        write!(
            stdout(),
            "{sources} sources match {}: delete their samples from {from} to {to}? [y/N] ",
            self.selector
        )?;
        stdout().flush()?;
        let mut answer = String::new();
        stdin().read_line(&mut answer)?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }
}

fn count(remote: &Remote, selector: &str) -> Result<u64> {
    let parameters = [("select", selector.to_string()), ("limit", "0".to_string())];
    let mut text = String::new();
    remote
        .get("/api/v1/sources", &parameters)?
        .read_to_string(&mut text)?;
    let answer: Value = serde_json::from_str(&text).context("the answer is incomplete")?;
    answer["total"].as_u64().context("the answer has no total")
}
