//! Orders of users.

use super::{Coordinator, Order, OrderError};
use crate::array::message::Job;
use crate::array::status::{Completeness, Loss};
use crate::member::Member;
use crate::record::{Superblock, space_needed, write_superblock};
use std::iter::once;

impl Coordinator {
    /// Carries out an order.
    pub(super) fn carry_out(&mut self, order: Order) -> Result<(), OrderError> {
        match order {
            Order::Fail(member) => {
                self.place(member)?;
                match self.slots[member].completeness {
                    Completeness::Gone => return Err(OrderError::Gone(member)),
                    Completeness::Full if self.missing() >= self.shared.geometry.syndromes() => {
                        return Err(OrderError::Needed(member));
                    }
                    _ => self.lose(member, Loss::Ordered),
                }
            }
            Order::Replace(member, device) => {
                self.place(member)?;
                if self.slots[member].completeness != Completeness::Gone {
                    return Err(OrderError::There(member));
                }
                self.fits(&*device)?;
                self.install(member, device);
            }
            Order::Spare(device) => {
                self.fits(&*device)?;
                if let Some(metadata_log) = &mut self.metadata_log {
                    let superblock = Superblock {
                        index: None,
                        ..metadata_log.superblock().clone()
                    };
                    write_superblock(&*device, &superblock).map_err(|error| {
                        OrderError::System {
                            name: device.name(),
                            error: error.to_string(),
                        }
                    })?;
                }
                self.spares.push(device);
                self.use_spares();
            }
            Order::Scrub => {
                if self.tasks.iter().any(|task| task.pass.job == Job::Scrub) {
                    return Err(OrderError::Busy);
                }
                self.retry_failed_stripes(true);
                let stripes = 0..self.shared.geometry.stripes();
                self.begin_task(Job::Scrub, once(stripes));
            }
            Order::StopScrub => {
                let scrubs = self
                    .tasks
                    .iter_mut()
                    .filter(|task| task.pass.job == Job::Scrub);
                scrubs.for_each(|task| task.pass.cancel());
            }
        }
        Ok(())
    }

    fn place(&self, member: usize) -> Result<(), OrderError> {
        match member < self.slots.len() {
            true => Ok(()),
            false => Err(OrderError::NoMember(member, self.slots.len() - 1)),
        }
    }

    fn fits(&mut self, device: &dyn Member) -> Result<(), OrderError> {
        let least = match &mut self.metadata_log {
            Some(metadata_log) => space_needed(metadata_log.superblock()),
            None => self.shared.offset + self.shared.geometry.member_bytes(),
        };
        match device.bytes() >= least {
            true => Ok(()),
            false => Err(OrderError::Small {
                name: device.name(),
                bytes: device.bytes(),
                least,
            }),
        }
    }
}
