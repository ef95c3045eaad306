//! Bitcask's rule, as the authors of *Riak* found it: rotated files are merged oldest first.

use super::{Deciding, Decision, Kind, Policy, View};

/// Takes the oldest segment first, without regard to its live share.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

impl Policy for Fifo {
    fn kind(&self) -> Kind {
        Kind::Fifo
    }

    fn choose(&mut self, view: &View) -> Decision {
        Deciding::new(view, Kind::Fifo).take_until_sated(|segment| -(segment.number as f64))
    }
}
