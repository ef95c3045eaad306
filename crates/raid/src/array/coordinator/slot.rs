//! Places of the array and their devices.

use crate::array::message::Incarnation;
use crate::array::status::{Filling, Loss};
use crate::array::sweep::Undone;
use crate::member::Member;
use std::sync::Arc;

/// A place of the array and its device.
#[derive(Clone)]
pub struct Slot {
    pub(super) device: Option<Arc<dyn Member>>,
    pub(super) filling: Filling,
    /// Recorded completeness.
    pub(super) recorded: Filling,
    pub(super) incarnation: Incarnation,
    /// Reason of the loss, if the device was lost since the start.
    pub(super) loss: Option<Loss>,
    /// Number of shards that do not use the device yet.
    pub(super) to_install: usize,
    /// Stripes whose rebuild failed and that belong to no task.
    pub(super) undone: Undone,
}

impl Slot {
    /// Creates a place with a complete device.
    pub fn up(device: Arc<dyn Member>) -> Slot {
        Slot {
            device: Some(device),
            filling: Filling::Full,
            recorded: Filling::Full,
            incarnation: 0,
            loss: None,
            to_install: 0,
            undone: Undone::default(),
        }
    }

    /// Returns the device, if it is in use.
    pub fn device(&self) -> Option<Arc<dyn Member>> {
        self.device.clone()
    }

    /// Creates a place with the recorded completeness.
    pub fn new(device: Option<Arc<dyn Member>>, filling: Filling) -> Slot {
        match device {
            Some(device) => Slot {
                filling,
                recorded: filling,
                ..Slot::up(device)
            },
            None => Slot::empty(),
        }
    }

    /// Creates an empty place.
    fn empty() -> Slot {
        Slot {
            device: None,
            filling: Filling::Gone,
            recorded: Filling::Gone,
            incarnation: 0,
            loss: None,
            to_install: 0,
            undone: Undone::default(),
        }
    }

    /// Returns the completeness of the device.
    pub fn filling(&self) -> Filling {
        self.filling
    }

    /// Returns whether the device of this incarnation is still in use.
    pub(super) fn holds(&self, incarnation: Incarnation) -> bool {
        self.incarnation == incarnation && self.filling != Filling::Gone
    }

    /// Returns the incarnation of the current device.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }
}
