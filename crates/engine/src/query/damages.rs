//! Damage that a query finds: its other results are returned beside it.

use crate::core::Core;
use crate::error::Error;
use crate::segment::Entry;

/// Damage found while reading.
#[derive(Debug, Default)]
pub(crate) struct Damages(Vec<(Error, Option<Entry>)>);

impl Damages {
    /// Keeps damage, with the damaged block. Other errors are returned.
    pub fn note<T>(
        &mut self,
        result: Result<T, Error>,
        block: Option<&Entry>,
    ) -> Result<Option<T>, Error> {
        match result {
            Ok(found) => Ok(Some(found)),
            Err(error @ Error::Damage { .. }) => {
                self.0.push((error, block.copied()));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns whether nothing was damaged.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds other damage.
    pub fn extend(&mut self, others: Damages) {
        self.0.extend(others.0);
    }

    /// Records damaged blocks as losses of the store and returns the errors.
    pub fn report(self, engine: &Core) -> impl Iterator<Item = Error> + use<> {
        for (error, block) in &self.0 {
            if let Some(entry) = block {
                engine.note_block(error, entry);
            }
        }
        self.0.into_iter().map(|(error, _)| error)
    }
}
