//! Orders of users.

use super::{Keeper, Order, Refusal};
use crate::array::message::Chore;
use crate::array::status::{Filling, Loss};
use crate::member::Member;
use crate::record::{Superblock, room_needed, write_superblock};
use std::iter::once;

impl Keeper {
    /// Carries out an order.
    pub(super) fn obey(&mut self, order: Order) -> Result<(), Refusal> {
        match order {
            Order::Fail(member) => {
                self.place(member)?;
                match self.slots[member].filling {
                    Filling::Gone => return Err(Refusal::Gone(member)),
                    Filling::Full if self.missing() >= self.shared.geometry.syndromes() => {
                        return Err(Refusal::Needed(member));
                    }
                    _ => self.lose(member, Loss::Ordered),
                }
            }
            Order::Replace(member, device) => {
                self.place(member)?;
                if self.slots[member].filling != Filling::Gone {
                    return Err(Refusal::There(member));
                }
                self.fits(&*device)?;
                self.install(member, device);
            }
            Order::Spare(device) => {
                self.fits(&*device)?;
                if let Some(books) = &mut self.books {
                    let superblock = Superblock {
                        index: None,
                        ..books.superblock().clone()
                    };
                    write_superblock(&*device, &superblock).map_err(|error| Refusal::System {
                        name: device.name(),
                        error: error.to_string(),
                    })?;
                }
                self.spares.push(device);
                self.use_spares();
            }
            Order::Scrub => {
                if self
                    .tasks
                    .iter()
                    .any(|task| task.sweep.chore == Chore::Scrub)
                {
                    return Err(Refusal::Busy);
                }
                self.fill_undone(true);
                let stripes = 0..self.shared.geometry.stripes();
                self.begin_task(Chore::Scrub, once(stripes));
            }
            Order::StopScrub => {
                let scrubs = self
                    .tasks
                    .iter_mut()
                    .filter(|task| task.sweep.chore == Chore::Scrub);
                scrubs.for_each(|task| task.sweep.cancel());
            }
        }
        Ok(())
    }

    fn place(&self, member: usize) -> Result<(), Refusal> {
        match member < self.slots.len() {
            true => Ok(()),
            false => Err(Refusal::NoMember(member, self.slots.len() - 1)),
        }
    }

    fn fits(&mut self, device: &dyn Member) -> Result<(), Refusal> {
        let least = match &mut self.books {
            Some(books) => room_needed(books.superblock()),
            None => self.shared.offset + self.shared.geometry.member_bytes(),
        };
        match device.bytes() >= least {
            true => Ok(()),
            false => Err(Refusal::Small {
                name: device.name(),
                bytes: device.bytes(),
                least,
            }),
        }
    }
}
