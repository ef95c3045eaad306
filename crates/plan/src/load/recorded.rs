//! Sensors that play back a recording.

use crate::recording::Recording;
use seiner_engine::{Engine, Error};
use seiner_model::{Column, Columns, FieldColumn, SourceId, SourceKey};
use std::sync::Arc;

/// Sensors that play back a recording, each from a place of its own. At the end of its source, a sensor goes on with
/// the next source that has the same fields, at later times. So it repeats nothing before it has played all of them.
pub struct RecordedLoad {
    recording: Arc<Recording>,
    players: Vec<Player>,
}

/// One sensor.
struct Player {
    source: SourceId,
    /// Index of the source in the recording.
    recorded: usize,
    /// Index of the next row of that source.
    row: usize,
    /// Time in ns to add to the recorded times.
    shift: i64,
    /// Time of the last row in ns, with the shift.
    last: i64,
}

impl Player {
    /// Moves to the next row, of the next source after the last row of a source.
    fn advance(&mut self, recording: &Recording) {
        self.row += 1;
        let source = &recording.sources[self.recorded];
        if self.row < source.times.len() {
            return;
        }
        let pause = source.mean_interval_ns();
        self.row = 0;
        self.recorded = recording.next_alike(self.recorded);
        let next = recording.sources[self.recorded].times[0];
        self.shift = self.last.saturating_add(pause).saturating_sub(next);
    }
}

impl RecordedLoad {
    /// Registers sensors. Their places are spread evenly over all recorded rows, so that a source with many rows is
    /// played by many sensors.
    ///
    /// # Errors
    /// If the engine rejects a source.
    pub fn register(
        engine: &Engine,
        recording: &Arc<Recording>,
        sensors: u64,
    ) -> anyhow::Result<RecordedLoad> {
        let mut players = Vec::new();
        for sensor in 0..sensors {
            let key = SourceKey::new("recorded", [("sensor", format!("{sensor:07}"))])?;
            let (recorded, row) = recording.place(sensor as f64 / sensors as f64);
            players.push(Player {
                source: engine.register(&key)?,
                recorded,
                row,
                shift: 0,
                last: 0,
            });
        }
        Ok(RecordedLoad {
            recording: recording.clone(),
            players,
        })
    }

    /// Appends a row of every sensor. Returns the number of rows.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn round(&mut self, engine: &Engine) -> Result<u64, Error> {
        for player in &mut self.players {
            let source = &self.recording.sources[player.recorded];
            let (mut names, mut fields) = (Vec::new(), Vec::new());
            for field in source.fields.iter().filter(|field| field.has(player.row)) {
                let mut values = Column::new(field.values.field_type());
                values.push(field.values.get(player.row));
                names.push(&*field.name);
                fields.push(FieldColumn {
                    present: None,
                    values,
                });
            }
            player.last = source.times[player.row].saturating_add(player.shift);
            let times = vec![player.last];
            engine.append_columns(player.source, &names, &Columns { times, fields })?;
            player.advance(&self.recording);
        }
        Ok(self.players.len() as u64)
    }
}
