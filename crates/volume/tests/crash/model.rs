//! Model of a file: the contents that it may have after a crash.

/// Exclusive upper bound of the bytes that files contain.
pub const VALUES: u8 = 32;

/// Contents that a file may have after a crash.
#[derive(Clone, Default)]
pub struct Model {
    /// Contents seen by readers.
    pub live: Vec<u8>,
    /// Contents at the last sync.
    pub synced: Vec<u8>,
    /// Contents that an interrupted sync would have made durable.
    pub syncing: Option<Vec<u8>>,
    /// Set of the values of each byte since the last sync, one bit per value; the synced value comes in addition.
    pub since: Vec<u32>,
}

impl Model {
    pub fn put(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.live.len() < end {
            self.set_len(end);
        }
        for (at, &byte) in (offset..).zip(bytes) {
            self.live[at] = byte;
            self.note(at, byte);
        }
    }

    pub fn set_len(&mut self, len: usize) {
        let before = self.live.len();
        self.live.resize(len, 0);
        (before..len).for_each(|at| self.note(at, 0));
    }

    fn note(&mut self, at: usize, byte: u8) {
        if self.since.len() <= at {
            self.since.resize(at + 1, 0);
        }
        self.since[at] |= 1 << byte;
    }

    pub fn sync(&mut self) {
        *self = Model::found(self.live.clone());
    }

    pub fn found(bytes: Vec<u8>) -> Model {
        Model {
            synced: bytes.clone(),
            live: bytes,
            ..Model::default()
        }
    }

    pub fn explains(&self, found: &[u8]) -> bool {
        let lens = [Some(&self.synced), self.syncing.as_ref()];
        let is_len = lens
            .into_iter()
            .flatten()
            .any(|bytes| bytes.len() == found.len());
        let may_be = |(at, byte): (usize, &u8)| {
            self.synced.get(at) == Some(byte)
                || self
                    .since
                    .get(at)
                    .is_some_and(|some| *byte < VALUES && some >> byte & 1 == 1)
        };
        is_len && found.iter().enumerate().all(may_be)
    }
}
