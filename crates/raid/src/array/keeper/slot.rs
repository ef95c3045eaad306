//! Places of the array and the devices in them.

use crate::array::status::{Filling, Loss};
use crate::array::sweep::Undone;
use crate::array::worker::Incarnation;
use crate::member::Member;
use std::sync::Arc;

/// A place in the array and what is there.
#[derive(Clone)]
pub struct Slot {
    pub(super) device: Option<Arc<dyn Member>>,
    pub(super) filling: Filling,
    /// What is on record.
    pub(super) recorded: Filling,
    pub(super) incarnation: Incarnation,
    /// Why there is nothing, if there was.
    pub(super) loss: Option<Loss>,
    /// Shards that do not use the device yet.
    pub(super) to_install: usize,
    /// Stripes that could not be filled, which no task has.
    pub(super) undone: Undone,
}

impl Slot {
    /// With a device that has all it should have.
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

    /// The device, if it is to be used.
    pub fn device(&self) -> Option<Arc<dyn Member>> {
        self.device.clone()
    }

    /// A place with what is known of it.
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

    /// Without a device.
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

    /// What the device has.
    pub fn filling(&self) -> Filling {
        self.filling
    }

    /// Whether this device is still there.
    pub(super) fn holds(&self, incarnation: Incarnation) -> bool {
        self.incarnation == incarnation && self.filling != Filling::Gone
    }

    /// Which device of the place it is.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }
}
