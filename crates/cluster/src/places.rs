//! Places of an engine's sources in the cluster: number and class, so that a handover does not look up every name.

use seiner_model::SourceId;

/// Place of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourcePlace {
    /// Number in the distributed store.
    pub number: u32,
    /// Position of the retention class.
    pub class: u32,
    /// Number of fields that are registered.
    pub fields: u32,
}

/// Places of the sources of one engine. An engine numbers its sources densely and never changes a number.
#[derive(Default)]
pub(crate) struct Places {
    by_id: Vec<Option<SourcePlace>>,
}

impl Places {
    /// Returns the place of a source that has been registered.
    pub fn get(&self, source: SourceId) -> Option<SourcePlace> {
        self.by_id.get(source.0 as usize).copied().flatten()
    }

    /// Sets the place of a source.
    pub fn set(&mut self, source: SourceId, place: SourcePlace) {
        let at = source.0 as usize;
        if at >= self.by_id.len() {
            self.by_id.resize(at + 1, None);
        }
        self.by_id[at] = Some(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sources_that_were_set_have_a_place() {
        let mut places = Places::default();
        assert_eq!(places.get(SourceId(3)), None);
        let place = SourcePlace {
            number: 9,
            class: 1,
            fields: 2,
        };
        places.set(SourceId(3), place);
        assert_eq!(places.get(SourceId(3)), Some(place));
        assert_eq!(places.get(SourceId(2)), None);
        assert_eq!(places.get(SourceId(4)), None);
    }
}
