//! Registration of sensors as sources of this project's engine.

use crate::error::Result;
use crate::interrupt::Interrupt;
use anyhow::Context;
use seiner_engine::Engine;
use seiner_model::{SourceId, SourceKey};

/// Number of sensors between two checks for an interrupt.
const AT_ONCE: u64 = 256;

/// Registers `sensors` sources. Each has the tag `number`.
///
/// # Errors
/// The engine rejects a source, or the user stopped the run.
pub fn register(engine: &Engine, sensors: u64, interrupt: &Interrupt) -> Result<Vec<SourceId>> {
    let mut sources = Vec::new();
    for sensor in 0..sensors {
        if sensor.is_multiple_of(AT_ONCE) {
            interrupt.check()?;
        }
        let key = SourceKey::new("sensor", [("number", sensor.to_string())])
            .context("a name was rejected")?;
        sources.push(engine.register(&key)?);
    }
    Ok(sources)
}
