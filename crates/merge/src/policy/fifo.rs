//! Bitcask as the authors found it: rotated files are merged in the order of their age.

use super::{Deciding, Decision, Kind, Policy, View};

/// Oldest segment first, whatever is live in it.
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
