//! Creation of an array: checks the members, then writes superblocks.

use super::{
    DATA_OFFSET, Intent, OVERHEAD, REGIONS, Superblock, Uuid, contents, intent_page,
    write_superblock,
};
use crate::array::Completeness;
use crate::checksum::blocks_for;
use crate::geometry::{BLOCK_BYTES, Geometry, GeometryError, Level};
use crate::mark::Mark;
use crate::member::Member;
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// Minimum size of a region, in bytes of a member.
const LEAST_REGION: u64 = 1 << 20;

/// Parameters of a new array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creation {
    /// Level of the array.
    pub level: Level,
    /// Size of a strip in bytes.
    pub strip_bytes: u64,
    /// True if members may differ in size. The smallest one then determines the space used of each.
    pub smallest: bool,
    /// True if the contents of devices may be lost.
    pub overwrite: bool,
    /// True if the devices contain only zeroes, so that syndromes match. Otherwise the first run of the array
    /// resyncs all stripes.
    pub zeroed: bool,
    /// True if members have a checksum for every block, to detect silent corruption.
    pub checksums: bool,
}

impl Creation {
    /// Checks whether an array of `members` members is possible, if they are large enough.
    ///
    /// # Errors
    /// The reason why it is not.
    pub fn check(&self, members: usize) -> Result<(), CreateError> {
        Geometry::new(self.level, members, self.strip_bytes, u64::MAX)?;
        match (self.level, self.checksums) {
            (Level::Raid0, true) => Err(CreateError::Checksums),
            _ => Ok(()),
        }
    }
}

/// Reasons why no array was created. Nothing was written, unless a device failed.
#[derive(Debug, Error)]
pub enum CreateError {
    /// The shape is not possible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Checksums need a level with redundancy to repair what they detect.
    #[error(
        "RAID 0 has no redundancy to repair blocks with wrong checksums: choose another level, or no checksums"
    )]
    Checksums,
    /// The devices differ in size.
    #[error(
        "{small} has {least} bytes and {large} {most}: choose devices of the same size, or use only the size of the smallest of each (--smallest)"
    )]
    Sizes {
        /// Name of the smallest device.
        small: String,
        /// Size of the smallest device in bytes.
        least: u64,
        /// Name of the largest device.
        large: String,
        /// Size of the largest device in bytes.
        most: u64,
    },
    /// A device contains data.
    #[error(
        "{name} {contents}: choose another device, or permit the loss of its contents (--overwrite --yes)"
    )]
    Contents {
        /// Name of the device.
        name: String,
        /// Description of the data, as far as it is known.
        contents: String,
    },
    /// A device failed.
    #[error("{name}: {error}; choose another device")]
    System {
        /// Name of the device.
        name: String,
        /// Error of the device.
        error: io::Error,
    },
}

/// Creates an array and returns its superblock.
///
/// # Errors
/// The reason why the array was not created.
pub fn create(devices: &[Arc<dyn Member>], creation: &Creation) -> Result<Superblock, CreateError> {
    let least = devices.iter().min_by_key(|device| device.bytes());
    let most = devices.iter().max_by_key(|device| device.bytes());
    creation.check(devices.len())?;
    let space = least.map_or(0, |device| device.bytes().saturating_sub(OVERHEAD));
    let space = space_for_data(space, creation);
    let geometry = Geometry::new(creation.level, devices.len(), creation.strip_bytes, space)?;
    if let (Some(small), Some(large), false) = (least, most, creation.smallest)
        && small.bytes() != large.bytes()
    {
        return Err(CreateError::Sizes {
            small: small.name(),
            least: small.bytes(),
            large: large.name(),
            most: large.bytes(),
        });
    }
    let failed = |device: &Arc<dyn Member>, error| CreateError::System {
        name: device.name(),
        error,
    };
    for device in devices.iter().filter(|_| !creation.overwrite) {
        if let Some(contents) = contents(&**device).map_err(|error| failed(device, error))? {
            return Err(CreateError::Contents {
                name: device.name(),
                contents,
            });
        }
    }
    let array = Uuid::random().map_err(|error| failed(&devices[0], error))?;
    let mut superblock = Superblock {
        array,
        index: None,
        level: creation.level,
        strip_bytes: creation.strip_bytes,
        data_offset: DATA_OFFSET,
        stripes: geometry.stripes(),
        region_stripes: region_stripes(&geometry, creation.strip_bytes),
        generation: 1,
        clean: true,
        checksums: creation.checksums,
        completeness: vec![Completeness::Full; devices.len()],
    };
    let intents = first_intents(&superblock, &geometry, creation.zeroed);
    for (member, device) in devices.iter().enumerate() {
        superblock.index = Some(member);
        let written = intents
            .iter()
            .map(|intent| intent_page(intent, array))
            .try_for_each(|(place, page)| device.write(place, &[page], true));
        written
            .and_then(|()| write_superblock(&**device, &superblock))
            .map_err(|error| failed(device, error))?;
    }
    Ok(superblock)
}

/// Returns the space left for data, if checksums need their share: 4 KiB of checksums per 4 MiB of data.
fn space_for_data(space: u64, creation: &Creation) -> u64 {
    if !creation.checksums {
        return space;
    }
    let block = BLOCK_BYTES as u64;
    let blocks = space / block;
    // The last block of checksums may be partly used.
    (blocks - blocks_for(blocks).min(blocks)) * block
}

/// Returns the number of stripes per region: large enough that the bits of all regions fit in the record, and
/// at least [`LEAST_REGION`].
fn region_stripes(geometry: &Geometry, strip_bytes: u64) -> u64 {
    let least = geometry
        .member_bytes()
        .div_ceil(REGIONS)
        .next_power_of_two();
    (least.max(LEAST_REGION) / strip_bytes).max(1)
}

/// Returns the records for both places; the second one is the valid one. Marks all regions whose syndromes may not
/// match.
fn first_intents(superblock: &Superblock, geometry: &Geometry, zeroed: bool) -> [Intent; 2] {
    let mut intent = Intent::new(superblock.region_stripes);
    if !zeroed && geometry.syndromes() > 0 {
        let regions = superblock.stripes.div_ceil(superblock.region_stripes);
        (0..regions).for_each(|region| intent.mark(Mark::Region(region)));
    }
    let first = intent.clone();
    intent.sequence = 1;
    [first, intent]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::Ram;

    const CREATION: Creation = Creation {
        level: Level::Raid6,
        strip_bytes: 16384,
        smallest: false,
        overwrite: false,
        zeroed: true,
        checksums: false,
    };

    fn devices(sizes: &[u64]) -> Vec<Arc<dyn Member>> {
        let device = |&bytes| -> Arc<dyn Member> { Arc::new(Ram::new(bytes)) };
        sizes.iter().map(device).collect()
    }

    fn is_untouched(devices: &[Arc<dyn Member>]) -> bool {
        devices
            .iter()
            .all(|device| contents(&**device).unwrap().is_none())
    }

    #[test]
    fn invalid_arrays_are_rejected_with_a_reason_and_nothing_is_written() {
        let same = devices(&[8 << 20; 4]);
        for strip_bytes in [12288, 2048, 2 << 20] {
            let creation = Creation {
                strip_bytes,
                ..CREATION
            };
            let error = create(&same, &creation).unwrap_err();
            assert!(error.to_string().contains("power of two"), "{error}");
        }
        assert!(matches!(
            create(&same[..3], &CREATION),
            Err(CreateError::Geometry(_))
        ));
        assert!(matches!(
            create(&[], &CREATION),
            Err(CreateError::Geometry(_))
        ));
        let different = devices(&[8 << 20, 8 << 20, 9 << 20, 8 << 20]);
        assert!(matches!(
            create(&different, &CREATION),
            Err(CreateError::Sizes { .. })
        ));
        let tiny = devices(&[1 << 20; 4]);
        assert!(matches!(
            create(&tiny, &CREATION),
            Err(CreateError::Geometry(GeometryError::TooSmall(_)))
        ));
        assert!(is_untouched(&same) && is_untouched(&different) && is_untouched(&tiny));
        let smallest = Creation {
            smallest: true,
            ..CREATION
        };
        create(&different, &smallest).unwrap();
        let error = create(&different, &smallest).unwrap_err();
        assert!(error.to_string().contains("member of an array"), "{error}");
        let overwrite = Creation {
            overwrite: true,
            ..smallest
        };
        create(&different, &overwrite).unwrap();
    }

    #[test]
    fn checksums_take_only_their_own_space() {
        for size in [2 << 20, 3 << 20, 100 << 20, (1 << 30) + 4096] {
            let members = devices(&[size; 4]);
            let checked = Creation {
                strip_bytes: 4096,
                checksums: true,
                ..CREATION
            };
            let superblock = create(&members, &checked).unwrap();
            let needed = super::super::space_needed(&superblock);
            assert!(
                needed <= size && needed + (16 << 10) > size,
                "{needed} of {size}"
            );
        }
        let plain = Creation {
            level: Level::Raid0,
            checksums: true,
            ..CREATION
        };
        let error = create(&devices(&[8 << 20; 2]), &plain).unwrap_err();
        assert!(matches!(error, CreateError::Checksums), "{error}");
    }

    #[test]
    fn regions_are_as_small_as_their_record_allows() {
        for (member, strip, stripes) in [
            (8 << 20, 16 << 10, 64),
            (1 << 40, 16 << 10, (64 << 20) / (16 << 10)),
            (1 << 44, 1 << 20, 1024),
            (8 << 20, 1 << 20, 1),
        ] {
            let geometry = Geometry::new(Level::Raid6, 4, strip, member).unwrap();
            assert_eq!(region_stripes(&geometry, strip), stripes);
            assert!(geometry.stripes().div_ceil(stripes) <= REGIONS);
        }
    }
}
