//! Assembly of devices into a running array.

use super::coordinator::slot::MemberSlot;
use super::{Array, ArraySettings, Launch};
use crate::mark::Mark;
use crate::member::{Checked, Member};
use crate::record::{
    AssembleError, AssemblyPlan, FoundDevice, Intent, Superblock, intent, plan, superblock,
    write_superblock,
};
use std::sync::Arc;

impl Array {
    /// Runs the array to which these devices belong. `degraded` allows missing members, up to the redundancy of
    /// the level. Missing members are recorded as lost.
    ///
    /// # Errors
    /// If the devices do not form a complete array. Nothing was written then, unless a device failed.
    pub fn assemble(
        devices: Vec<Arc<dyn Member>>,
        degraded: bool,
        mut settings: ArraySettings,
    ) -> Result<Array, AssembleError> {
        let seen = devices.iter().map(|device| FoundDevice {
            name: device.name(),
            bytes: device.bytes(),
            superblock: superblock(&**device),
        });
        let seen: Vec<FoundDevice> = seen.collect();
        let said: Vec<Option<Superblock>> = seen
            .iter()
            .map(|seen| seen.superblock.as_ref().ok().cloned())
            .collect();
        let plan = plan(seen, degraded)?;
        let geometry = plan
            .superblock
            .geometry()
            .expect("decoding checks the geometry");
        settings.shard.region_stripes = plan.superblock.region_stripes;
        settings.shard.checksums = plan.superblock.checksums;
        let members: Vec<Option<Arc<dyn Member>>> = plan
            .members
            .iter()
            .map(|at| at.map(|at| devices[at].clone()))
            .collect();
        let intent = known_intent(&plan, &members)?;
        catch_up(&devices, &said, &plan)?;
        let mut superblock = plan.superblock;
        superblock.generation += 1;
        superblock.clean = false;
        for (member, device) in members.iter().enumerate() {
            if let Some(device) = device {
                superblock.index = Some(member);
                write_superblock(&**device, &superblock).map_err(|error| {
                    AssembleError::System {
                        name: device.name(),
                        error,
                    }
                })?;
            }
        }
        let slots = members.into_iter().zip(&superblock.completeness);
        let slots = slots
            .map(|(device, &completeness)| {
                let device = device.map(|device| with_checksums(device, &superblock));
                MemberSlot::new(device, completeness)
            })
            .collect();
        Ok(Array::launch(Launch {
            geometry,
            settings,
            offset: superblock.data_offset,
            slots,
            spares: plan.spares.iter().map(|&at| devices[at].clone()).collect(),
            metadata: Some((superblock, intent)),
        })?)
    }
}

/// Brings members up to date whose superblocks are one generation behind after a crash. This happens before any
/// newer generation is written: two consecutive crashes must not leave a member two generations behind.
fn catch_up(
    devices: &[Arc<dyn Member>],
    said: &[Option<Superblock>],
    plan: &AssemblyPlan,
) -> Result<(), AssembleError> {
    let of_members = plan.members.iter().enumerate();
    let known: Vec<(usize, usize, &Superblock)> = of_members
        .filter_map(|(member, at)| Some((member, (*at)?, said[(*at)?].as_ref()?)))
        .collect();
    let latest = known.iter().max_by_key(|(.., said)| said.generation);
    let Some((.., latest)) = latest else {
        return Ok(());
    };
    let behind = known
        .iter()
        .filter(|(.., said)| said.generation < latest.generation);
    for &(member, at, _) in behind {
        let superblock = Superblock {
            index: Some(member),
            ..(*latest).clone()
        };
        write_superblock(&*devices[at], &superblock).map_err(|error| AssembleError::System {
            name: devices[at].name(),
            error,
        })?;
    }
    Ok(())
}

/// Returns a device as a member of an array, with verification if the array has checksums.
pub fn with_checksums(device: Arc<dyn Member>, superblock: &Superblock) -> Arc<dyn Member> {
    let data = superblock.data();
    match superblock.checksums {
        true => Arc::new(Checked::new(device, data.clone(), data.end)),
        false => device,
    }
}

/// Combines the intent records of all members. If no member has a record, every region may need a resync.
fn known_intent(
    plan: &AssemblyPlan,
    members: &[Option<Arc<dyn Member>>],
) -> Result<Intent, AssembleError> {
    let mut known: Option<Intent> = None;
    for device in members.iter().flatten() {
        let found =
            intent(&**device, plan.superblock.array).map_err(|error| AssembleError::System {
                name: device.name(),
                error,
            })?;
        known = match (known, found) {
            (Some(mut known), Some(found)) => {
                known.join(&found);
                Some(known)
            }
            (known, found) => known.or(found),
        };
    }
    let superblock = &plan.superblock;
    Ok(known.unwrap_or_else(|| {
        let mut all = Intent::new(superblock.region_stripes);
        (0..superblock.stripes.div_ceil(superblock.region_stripes))
            .for_each(|region| all.mark(Mark::Region(region)));
        all
    }))
}
