//! Slots of the array for members, with their devices.

use crate::array::message::Incarnation;
use crate::array::status::{Completeness, Loss};
use crate::array::stripe_pass::FailedStripes;
use crate::member::Member;
use std::sync::Arc;

/// Slot of the array for a member, with its device.
#[derive(Clone)]
pub struct MemberSlot {
    pub(super) device: Option<Arc<dyn Member>>,
    pub(super) completeness: Completeness,
    /// Recorded completeness.
    pub(super) recorded: Completeness,
    pub(super) incarnation: Incarnation,
    /// Reason of the loss, if the device was lost since the start.
    pub(super) loss: Option<Loss>,
    /// Number of shards that do not use the device yet.
    pub(super) to_install: usize,
    /// Stripes whose rebuild failed and that belong to no task.
    pub(super) failed_stripes: FailedStripes,
}

impl MemberSlot {
    /// Creates a slot with a complete device.
    pub fn up(device: Arc<dyn Member>) -> MemberSlot {
        MemberSlot {
            device: Some(device),
            completeness: Completeness::Full,
            recorded: Completeness::Full,
            incarnation: 0,
            loss: None,
            to_install: 0,
            failed_stripes: FailedStripes::default(),
        }
    }

    /// Returns the device, if it is in use.
    pub fn device(&self) -> Option<Arc<dyn Member>> {
        self.device.clone()
    }

    /// Creates a slot with the recorded completeness.
    pub fn new(device: Option<Arc<dyn Member>>, completeness: Completeness) -> MemberSlot {
        match device {
            Some(device) => MemberSlot {
                completeness,
                recorded: completeness,
                ..MemberSlot::up(device)
            },
            None => MemberSlot::empty(),
        }
    }

    /// Creates an empty slot.
    fn empty() -> MemberSlot {
        MemberSlot {
            device: None,
            completeness: Completeness::Gone,
            recorded: Completeness::Gone,
            incarnation: 0,
            loss: None,
            to_install: 0,
            failed_stripes: FailedStripes::default(),
        }
    }

    /// Returns the completeness of the device.
    pub fn completeness(&self) -> Completeness {
        self.completeness
    }

    /// Returns whether the device of this incarnation is still in use.
    pub(super) fn holds(&self, incarnation: Incarnation) -> bool {
        self.incarnation == incarnation && self.completeness != Completeness::Gone
    }

    /// Returns the incarnation of the current device.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }
}
