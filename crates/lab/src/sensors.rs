//! Sensors as sources of this project's engine.

use crate::error::Result;
use crate::interrupt::Interrupt;
use anyhow::Context;
use seiner_engine::Engine;
use seiner_model::{SourceId, SourceKey};

/// Sensors between two looks at whether the user wants to stop.
const AT_ONCE: u64 = 256;

/// Registers so many sensors.
///
/// # Errors
/// When a name is refused, or the user wants to stop.
pub fn register(engine: &Engine, sensors: u64, interrupt: &Interrupt) -> Result<Vec<SourceId>> {
    let mut sources = Vec::new();
    for sensor in 0..sensors {
        if sensor.is_multiple_of(AT_ONCE) {
            interrupt.check()?;
        }
        let key = SourceKey::new("sensor", [("number", sensor.to_string())])
            .context("a name was refused")?;
        let source = engine
            .register(&key)?
            .map_err(|reason| anyhow::anyhow!("a source was refused: {reason}"))?;
        sources.push(source);
    }
    Ok(sources)
}
