//! Which devices make an array, judged by their superblocks alone; and what speaks against it.

use super::{Superblock, SuperblockError, Uuid};
use crate::array::Filling;
use std::io;
use thiserror::Error;

/// Why devices were not assembled. Nothing was written to them.
#[derive(Debug, Error)]
pub enum AssembleError {
    /// None were named.
    #[error("no devices: name the members of the array")]
    Nothing,
    /// A device has no superblock to go by.
    #[error("{name} {error}")]
    Superblock {
        /// The device.
        name: String,
        /// Why.
        error: SuperblockError,
    },
    /// A device belongs to another array.
    #[error("{name} belongs to array {found}, and {first} to {expected}: leave one of them out")]
    Foreign {
        /// The device.
        name: String,
        /// Its array.
        found: Uuid,
        /// The device before it.
        first: String,
        /// The array of that one.
        expected: Uuid,
    },
    /// Superblocks of one array disagree about what cannot change.
    #[error(
        "{name} says that the array has another shape than the others say: leave it out, and replace it when they run"
    )]
    Disagrees {
        /// The device.
        name: String,
    },
    /// Two devices are the same member.
    #[error("{one} and {other} are both member {member}: one is a copy, leave it out")]
    Twice {
        /// A device.
        one: String,
        /// Another.
        other: String,
        /// The member.
        member: usize,
    },
    /// A device was used last when the others went on without it.
    #[error(
        "{name} (member {member}, generation {found}) missed what the others (generation {latest}) have on record: leave it out, and let it take its place anew with `seiner raid replace`"
    )]
    Stale {
        /// The device.
        name: String,
        /// The member.
        member: usize,
        /// Its generation.
        found: u64,
        /// That of the others.
        latest: u64,
    },
    /// A device has become smaller.
    #[error(
        "{name} has {bytes} bytes, and a member of this array has at least {least}: it was cut off; leave it out"
    )]
    Small {
        /// The device.
        name: String,
        /// Its size.
        bytes: u64,
        /// What a member has.
        least: u64,
    },
    /// Members are missing that were there the last time.
    #[error(
        "members {missing:?} are not among the devices, and were there the last time: name their devices, or go on without them (--degraded), which lets them in again only as new ones"
    )]
    Missing {
        /// Which.
        missing: Vec<usize>,
    },
    /// There are too few to have all data.
    #[error(
        "{there} members are there, and the array needs {needed}: name more of its devices (missing: {missing:?})"
    )]
    TooFew {
        /// Members that are there.
        there: usize,
        /// Members that are needed.
        needed: usize,
        /// Those that are not there.
        missing: Vec<usize>,
    },
    /// A device failed while the array was put together.
    #[error("{name}: {error}; leave it out, and replace it when the others run")]
    System {
        /// The device.
        name: String,
        /// How.
        error: io::Error,
    },
    /// The system has no threads or files to give.
    #[error("the array could not be started: {0}")]
    Start(#[from] io::Error),
}

/// A device that was looked at.
pub struct Seen {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// What it says of itself.
    pub superblock: Result<Superblock, SuperblockError>,
}

/// How devices make an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What holds for the array, with members that are missing now gone.
    pub superblock: Superblock,
    /// The device of every member, by its place among those that were seen.
    pub members: Vec<Option<usize>>,
    /// Spares.
    pub spares: Vec<usize>,
}

/// Makes a plan, or says what speaks against it. With `degraded`, members may be missing as far as the level bears it.
///
/// # Errors
/// What speaks against it.
pub fn plan(seen: Vec<Seen>, degraded: bool) -> Result<Plan, AssembleError> {
    let mut known: Vec<(String, u64, Superblock)> = Vec::new();
    for Seen {
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
    let mut plan = Plan {
        members: vec![None; latest.fillings.len()],
        spares: Vec::new(),
        superblock: latest.clone(),
    };
    for (at, (name, bytes, superblock)) in known.iter().enumerate() {
        belongs(&latest, name, *bytes, superblock)?;
        let Some(member) = superblock.index else {
            plan.spares.push(at);
            continue;
        };
        let is_gone = latest.fillings[member] == Filling::Gone;
        // A crash while superblocks are written leaves some of them one behind.
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
    let expected = |member: &usize| latest.fillings[*member] != Filling::Gone;
    let surprising: Vec<usize> = missing.iter().copied().filter(expected).collect();
    let geometry = latest.geometry().expect("checked when it was decoded");
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
        latest.fillings[member] = Filling::Gone;
    }
    plan.superblock = latest;
    Ok(plan)
}

/// Whether all devices are of one array.
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

/// Whether a device has the shape of the array.
fn belongs(
    latest: &Superblock,
    name: &str,
    bytes: u64,
    superblock: &Superblock,
) -> Result<(), AssembleError> {
    let shape = |superblock: &Superblock| {
        (
            superblock.level,
            superblock.fillings.len(),
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
    let least = super::room_needed(latest);
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
    fn array() -> Vec<Seen> {
        let members = (0..5usize).map(|at| Seen {
            name: format!("disk{at}"),
            bytes: 1 << 30,
            superblock: Ok(Superblock {
                index: Some(at).filter(|&at| at < 4),
                fillings: vec![Filling::Full; 4],
                ..example()
            }),
        });
        members.collect()
    }

    fn change(seen: &mut Seen, change: impl FnOnce(&mut Superblock)) {
        change(seen.superblock.as_mut().unwrap());
    }

    fn refused(seen: Vec<Seen>) -> String {
        plan(seen, false).unwrap_err().to_string()
    }

    #[test]
    fn members_are_put_in_their_places_in_whatever_order_they_come() {
        let mut seen = array();
        seen.reverse();
        let plan = plan(seen, false).unwrap();
        assert_eq!(
            (plan.members, plan.spares),
            (vec![Some(4), Some(3), Some(2), Some(1)], vec![0])
        );
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        assert!(matches!(
            plan(Vec::new(), false),
            Err(AssembleError::Nothing)
        ));
        let mut seen = array();
        seen[2].superblock = Err(SuperblockError::Missing);
        assert!(refused(seen).starts_with("disk2 has no superblock"));
        let mut seen = array();
        change(&mut seen[1], |superblock| {
            superblock.array = Uuid([1; 16]);
            superblock.generation += 1;
            superblock.stripes += 1;
        });
        assert!(refused(seen).contains("belongs to array 01010101"));
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
    fn who_missed_something_is_refused_and_one_record_behind_is_what_a_crash_leaves() {
        for (behind, allowed) in [(1, true), (2, false)] {
            let mut seen = array();
            change(&mut seen[3], |superblock| superblock.generation -= behind);
            assert_eq!(plan(seen, true).is_ok(), allowed);
        }
        // One behind, but on record as gone.
        let mut seen = array();
        for seen in &mut seen[..3] {
            change(seen, |superblock| {
                superblock.generation += 1;
                superblock.fillings[3] = Filling::Gone;
            });
        }
        assert!(matches!(
            plan(seen, true),
            Err(AssembleError::Stale { member: 3, .. })
        ));
    }

    #[test]
    fn members_that_are_missing_are_gone_only_if_it_was_said_that_they_may_be() {
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
            degraded.superblock.fillings,
            [Filling::Full, Filling::Gone, Filling::Gone, Filling::Full]
        );
        assert!(matches!(
            plan(without(&[0, 1, 2]), true),
            Err(AssembleError::TooFew { needed: 2, .. })
        ));
        assert!(matches!(
            plan(without(&[0, 1, 2, 3]), true),
            Err(AssembleError::TooFew { there: 0, .. })
        ));
        // Those that are known to be gone are not missed.
        let mut seen = without(&[1]);
        seen.iter_mut()
            .for_each(|seen| change(seen, |superblock| superblock.fillings[1] = Filling::Gone));
        assert!(plan(seen, false).is_ok());
    }
}
