//! Selection of the devices that form an array, based on their superblocks alone, with the reasons
//! why an array cannot be assembled.

use super::{Superblock, SuperblockError, Uuid};
use crate::array::Completeness;
use std::io;
use thiserror::Error;

/// Reasons why devices were not assembled. Nothing was written to them.
#[derive(Debug, Error)]
pub enum AssembleError {
    /// No devices were named.
    #[error("no devices: name the members of the array")]
    Nothing,
    /// A device has no usable superblock.
    #[error("{name} {error}")]
    Superblock {
        /// Name of the device.
        name: String,
        /// Reason why its superblock is not usable.
        error: SuperblockError,
    },
    /// A device belongs to another array.
    #[error("{name} belongs to array {found}, and {first} to {expected}: leave one of them out")]
    Foreign {
        /// Name of the device.
        name: String,
        /// Array of the device.
        found: Uuid,
        /// Name of the first device.
        first: String,
        /// Array of the first device.
        expected: Uuid,
    },
    /// Superblocks of one array differ in constant fields.
    #[error(
        "the superblock of {name} states another shape of the array than the others: leave the device out, and replace it when the array runs"
    )]
    Disagrees {
        /// Name of the device.
        name: String,
    },
    /// Two devices are the same member.
    #[error("{one} and {other} are both member {member}: one of them is a copy; leave it out")]
    Twice {
        /// Name of one device.
        one: String,
        /// Name of the other device.
        other: String,
        /// Number of the member.
        member: usize,
    },
    /// A device missed changes that the others have recorded.
    #[error(
        "{name} (member {member}, generation {found}) missed what the others (generation {latest}) have recorded: leave it out, and add it again as an empty device with `seiner raid replace`"
    )]
    Stale {
        /// Name of the device.
        name: String,
        /// Number of the member.
        member: usize,
        /// Generation of the device.
        found: u64,
        /// Generation of the others.
        latest: u64,
    },
    /// A device is smaller than its superblock requires.
    #[error(
        "{name} has {bytes} bytes, but a member of this array needs {least}: it was truncated; leave it out"
    )]
    Small {
        /// Name of the device.
        name: String,
        /// Size of the device in bytes.
        bytes: u64,
        /// Minimum size of a member in bytes.
        least: u64,
    },
    /// Members are missing that were present the last time.
    #[error(
        "members {missing:?} were present at the last run, but their devices were not named: name them, or run without them (--degraded); they can then return only as empty devices"
    )]
    Missing {
        /// Numbers of the missing members.
        missing: Vec<usize>,
    },
    /// Too few members are present to have all data.
    #[error(
        "{there} members are present, and the array needs {needed}: name more of its devices (missing: {missing:?})"
    )]
    TooFew {
        /// Number of members present.
        there: usize,
        /// Number of members needed.
        needed: usize,
        /// Numbers of the missing members.
        missing: Vec<usize>,
    },
    /// A device failed during the assembly.
    #[error("{name}: {error}; leave it out, and replace it when the array runs")]
    System {
        /// Name of the device.
        name: String,
        /// Error of the device.
        error: io::Error,
    },
    /// The system cannot start threads or open files.
    #[error("the array could not be started: {0}")]
    Start(#[from] io::Error),
}

/// A device that was examined.
pub struct FoundDevice {
    /// Name of the device.
    pub name: String,
    /// Size of the device in bytes.
    pub bytes: u64,
    /// Superblock of the device.
    pub superblock: Result<Superblock, SuperblockError>,
}

/// Assignment of devices to the places of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssemblyPlan {
    /// Superblock of the array, with the missing members marked as lost.
    pub superblock: Superblock,
    /// For each member, the index of its device in the list of examined devices.
    pub members: Vec<Option<usize>>,
    /// Indices of the spares.
    pub spares: Vec<usize>,
}

/// Assigns devices to places. `degraded` allows missing members, up to the redundancy of the level.
///
/// # Errors
/// The reason against an assembly.
pub fn plan(seen: Vec<FoundDevice>, degraded: bool) -> Result<AssemblyPlan, AssembleError> {
    let mut known: Vec<(String, u64, Superblock)> = Vec::new();
    for FoundDevice {
        name,
        bytes,
        superblock,
    } in seen
    {
        match superblock {
            Ok(superblock) => known.push((name, bytes, superblock)),
            Err(error) => return Err(AssembleError::Superblock { name, error }),
        }
    }
    same_array(&known)?;
    let members = known
        .iter()
        .filter(|(.., superblock)| superblock.index.is_some());
    let latest = members.max_by_key(|(.., superblock)| superblock.generation);
    let mut latest = match (latest, known.first()) {
        (Some((.., latest)), _) => latest.clone(),
        (None, Some((.., spare))) => spare.clone(),
        (None, None) => return Err(AssembleError::Nothing),
    };
    let mut plan = AssemblyPlan {
        members: vec![None; latest.completeness.len()],
        spares: Vec::new(),
        superblock: latest.clone(),
    };
    for (at, (name, bytes, superblock)) in known.iter().enumerate() {
        belongs(&latest, name, *bytes, superblock)?;
        let Some(member) = superblock.index else {
            plan.spares.push(at);
            continue;
        };
        let is_gone = latest.completeness[member] == Completeness::Gone;
        // A crash during the write of superblocks leaves some of them one generation behind.
        if is_gone || superblock.generation + 1 < latest.generation {
            return Err(AssembleError::Stale {
                name: name.clone(),
                member,
                found: superblock.generation,
                latest: latest.generation,
            });
        }
        if let Some(other) = plan.members[member].replace(at) {
            return Err(AssembleError::Twice {
                one: known[other].0.clone(),
                other: name.clone(),
                member,
            });
        }
    }
    let absent = |member: &usize| plan.members[*member].is_none();
    let missing: Vec<usize> = (0..plan.members.len()).filter(absent).collect();
    let expected = |member: &usize| latest.completeness[*member] != Completeness::Gone;
    let surprising: Vec<usize> = missing.iter().copied().filter(expected).collect();
    let geometry = latest.geometry().expect("decoding checks the geometry");
    if missing.len() > geometry.syndromes() {
        return Err(AssembleError::TooFew {
            there: plan.members.len() - missing.len(),
            needed: plan.members.len() - geometry.syndromes(),
            missing,
        });
    }
    if !degraded && !surprising.is_empty() {
        return Err(AssembleError::Missing {
            missing: surprising,
        });
    }
    for member in missing {
        latest.completeness[member] = Completeness::Gone;
    }
    plan.superblock = latest;
    Ok(plan)
}

/// Checks that all devices belong to one array.
fn same_array(known: &[(String, u64, Superblock)]) -> Result<(), AssembleError> {
    let other = known
        .iter()
        .find(|(.., superblock)| superblock.array != known[0].2.array);
    match other {
        None => Ok(()),
        Some((name, _, superblock)) => Err(AssembleError::Foreign {
            name: name.clone(),
            found: superblock.array,
            first: known[0].0.clone(),
            expected: known[0].2.array,
        }),
    }
}

/// Checks that a device has the shape of the array.
fn belongs(
    latest: &Superblock,
    name: &str,
    bytes: u64,
    superblock: &Superblock,
) -> Result<(), AssembleError> {
    let shape = |superblock: &Superblock| {
        (
            superblock.level,
            superblock.completeness.len(),
            superblock.strip_bytes,
            superblock.stripes,
            superblock.data_offset,
            superblock.region_stripes,
            superblock.checksums,
        )
    };
    if shape(superblock) != shape(latest) {
        return Err(AssembleError::Disagrees {
            name: name.to_string(),
        });
    }
    let least = super::space_needed(latest);
    if bytes < least {
        return Err(AssembleError::Small {
            name: name.to_string(),
            bytes,
            least,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::superblock::tests::example;
    use super::*;

    /// Four members of a RAID 6 and a spare.
    fn array() -> Vec<FoundDevice> {
        let members = (0..5usize).map(|at| FoundDevice {
            name: format!("disk{at}"),
            bytes: 1 << 30,
            superblock: Ok(Superblock {
                index: Some(at).filter(|&at| at < 4),
                completeness: vec![Completeness::Full; 4],
                ..example()
            }),
        });
        members.collect()
    }

    fn change(seen: &mut FoundDevice, change: impl FnOnce(&mut Superblock)) {
        change(seen.superblock.as_mut().unwrap());
    }

    fn rejection(seen: Vec<FoundDevice>) -> String {
        plan(seen, false).unwrap_err().to_string()
    }

    #[test]
    fn members_are_assigned_to_their_places_in_any_order() {
        let mut seen = array();
        seen.reverse();
        let plan = plan(seen, false).unwrap();
        assert_eq!(
            (plan.members, plan.spares),
            (vec![Some(4), Some(3), Some(2), Some(1)], vec![0])
        );
    }

    #[test]
    fn inconsistent_devices_are_rejected_with_the_reason() {
        assert!(matches!(
            plan(Vec::new(), false),
            Err(AssembleError::Nothing)
        ));
        let mut seen = array();
        seen[2].superblock = Err(SuperblockError::Missing);
        assert!(rejection(seen).starts_with("disk2 has no superblock"));
        let mut seen = array();
        change(&mut seen[1], |superblock| {
            superblock.array = Uuid([1; 16]);
            superblock.generation += 1;
            superblock.stripes += 1;
        });
        assert!(rejection(seen).contains("belongs to array 01010101"));
        let mut seen = array();
        change(&mut seen[1], |superblock| superblock.strip_bytes = 4096);
        assert!(matches!(
            plan(seen, false),
            Err(AssembleError::Disagrees { .. })
        ));
        let mut seen = array();
        change(&mut seen[1], |superblock| superblock.index = Some(3));
        assert!(matches!(
            plan(seen, false),
            Err(AssembleError::Twice { member: 3, .. })
        ));
        let mut seen = array();
        seen[0].bytes = 1 << 20;
        assert!(matches!(
            plan(seen, false),
            Err(AssembleError::Small { .. })
        ));
    }

    #[test]
    fn a_stale_member_is_rejected_unless_it_is_one_generation_behind() {
        for (behind, allowed) in [(1, true), (2, false)] {
            let mut seen = array();
            change(&mut seen[3], |superblock| superblock.generation -= behind);
            assert_eq!(plan(seen, true).is_ok(), allowed);
        }
        // The member is one generation behind, but recorded as lost.
        let mut seen = array();
        for seen in &mut seen[..3] {
            change(seen, |superblock| {
                superblock.generation += 1;
                superblock.completeness[3] = Completeness::Gone;
            });
        }
        assert!(matches!(
            plan(seen, true),
            Err(AssembleError::Stale { member: 3, .. })
        ));
    }

    #[test]
    fn missing_members_are_lost_only_with_permission() {
        let without = |missing: &[usize]| {
            let mut seen = array();
            let mut at = 0;
            seen.retain(|_| {
                at += 1;
                !missing.contains(&(at - 1))
            });
            seen
        };
        assert!(matches!(
            plan(without(&[1]), false),
            Err(AssembleError::Missing { .. })
        ));
        let degraded = plan(without(&[1, 2]), true).unwrap();
        assert_eq!(
            degraded.superblock.completeness,
            [
                Completeness::Full,
                Completeness::Gone,
                Completeness::Gone,
                Completeness::Full
            ]
        );
        assert!(matches!(
            plan(without(&[0, 1, 2]), true),
            Err(AssembleError::TooFew { needed: 2, .. })
        ));
        assert!(matches!(
            plan(without(&[0, 1, 2, 3]), true),
            Err(AssembleError::TooFew { there: 0, .. })
        ));
        // Members that are recorded as lost need not be present.
        let mut seen = without(&[1]);
        seen.iter_mut().for_each(|seen| {
            change(seen, |superblock| {
                superblock.completeness[1] = Completeness::Gone
            })
        });
        assert!(plan(seen, false).is_ok());
    }
}
