//! Samples of the user for a plan: from a file, a directory of a store, or a server.

mod file;
#[cfg(feature = "parquet")]
mod server;

use crate::failure::Failure;
use crate::server_access::ServerAccess;
use crate::target::read_directory;
use clap::Args;
pub use file::CsvColumns;
use seiner_plan::Recording;
use std::path::Path;
use std::sync::Arc;

// Flags. Not a doc comment: it would replace the description of the command in its help.
#[derive(Args)]
pub struct Like {
    /// Plan for samples like these: a CSV file, the directory of a store, or the address of a
    /// server. The plan uses their values, times, rate and number of sources. Without --like and
    /// --from, the plan shows a range, because real sensors differ by a factor of twenty.
    #[arg(long, value_name = "FILE|DIR|URL")]
    like: Option<String>,
    #[command(flatten)]
    columns: CsvColumns,
}

impl Like {
    /// Reads the samples that the flags name; otherwise those of `server`; `None` if there is neither.
    ///
    /// # Errors
    /// If the samples cannot be read, or are too few.
    pub fn read(
        &self,
        server: Option<&str>,
        access: &ServerAccess,
    ) -> Result<Option<Arc<Recording>>, Failure> {
        let Some(place) = self.like.as_deref().or(server) else {
            return Ok(None);
        };
        let path = Path::new(place);
        let recording = if is_address(place) {
            of_server(place, access)?
        } else if path.is_dir() {
            Recording::read(place, &*read_directory(path)?, None)?
        } else {
            file::read(path, &self.columns)?
        };
        Ok(Some(Arc::new(recording)))
    }
}

fn is_address(place: &str) -> bool {
    place.starts_with("http://") || place.starts_with("https://")
}

#[cfg(feature = "parquet")]
fn of_server(address: &str, access: &ServerAccess) -> anyhow::Result<Recording> {
    server::read(address, access)
}

#[cfg(not(feature = "parquet"))]
fn of_server(address: &str, _: &ServerAccess) -> anyhow::Result<Recording> {
    anyhow::bail!(
        "{address}: this program was built without Arrow, so it reads no samples of servers"
    )
}
