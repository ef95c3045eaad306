//! Positions of the blocks of a volume on its members: pure address arithmetic.
//!
//! A *stripe* has one *strip* on every member. The strips of a stripe are numbered by *columns*: data first, then
//! syndromes. Columns move by one member from stripe to stripe, so that the syndromes are distributed evenly over
//! the members. A *row* is the set of blocks at the same position in the strips of a stripe. Syndromes are computed
//! row by row.

use crate::request::Failure;
use thiserror::Error;

/// Size of a block in bytes, the unit of all requests: the minimum that solid-state disks write (*RAID* §4.1).
pub const BLOCK_BYTES: usize = 4096;

/// Redundancy of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// No redundancy.
    Raid0,
    /// The same data on every member.
    Raid1,
    /// One syndrome: any one member may be lost.
    Raid5,
    /// Two syndromes: any two members may be lost.
    Raid6,
}

/// Reasons why a shape is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GeometryError {
    /// The number of members is too low or too high.
    #[error("{level:?} needs {least} to {most} members, not {members}: add or remove members")]
    Members {
        /// Requested level.
        level: Level,
        /// Number of members given.
        members: usize,
        /// Minimum number of members.
        least: usize,
        /// Maximum number of members.
        most: usize,
    },
    /// The strip size is not a power of two from 4 KiB to 1 MiB.
    #[error("a strip of {0} bytes: choose a power of two from 4096 to 1048576")]
    Strip(u64),
    /// The members are too small for one strip.
    #[error(
        "members of {0} bytes have no space for a strip: choose larger members or a smaller strip"
    )]
    TooSmall(u64),
}

/// Shape of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    level: Level,
    members: u32,
    strip_blocks: u32,
    stripes: u64,
}

/// A run of blocks within one stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Number of the stripe.
    pub stripe: u64,
    /// First block within the data of the stripe.
    pub first: u32,
    /// Number of blocks.
    pub blocks: u32,
}

impl Level {
    /// Returns the minimum and the maximum number of members. Coefficients of the second syndrome repeat after
    /// 255 columns.
    const fn members(self) -> (usize, usize) {
        match self {
            Level::Raid0 => (1, 255),
            Level::Raid1 => (2, 255),
            Level::Raid5 => (3, 255),
            Level::Raid6 => (4, 255),
        }
    }
}

impl Geometry {
    /// Creates the shape of an array whose members have `member_bytes` bytes for data each.
    ///
    /// # Errors
    /// If the number of members, the strip or the size of the members is not possible.
    pub fn new(
        level: Level,
        members: usize,
        strip_bytes: u64,
        member_bytes: u64,
    ) -> Result<Geometry, GeometryError> {
        let (least, most) = level.members();
        if !(least..=most).contains(&members) {
            return Err(GeometryError::Members {
                level,
                members,
                least,
                most,
            });
        }
        if !strip_bytes.is_power_of_two() || !(BLOCK_BYTES as u64..=1 << 20).contains(&strip_bytes)
        {
            return Err(GeometryError::Strip(strip_bytes));
        }
        let stripes = member_bytes / strip_bytes;
        if stripes == 0 {
            return Err(GeometryError::TooSmall(member_bytes));
        }
        let strip_blocks = (strip_bytes / BLOCK_BYTES as u64) as u32;
        Ok(Geometry {
            level,
            members: members as u32,
            strip_blocks,
            stripes,
        })
    }

    /// Returns the level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Returns the number of members, which is the number of columns of a stripe.
    pub fn members(&self) -> usize {
        self.members as usize
    }

    /// Returns the number of columns that are syndromes, which is the number of members that may be lost.
    pub fn syndromes(&self) -> usize {
        match self.level {
            Level::Raid0 => 0,
            Level::Raid1 => self.members() - 1,
            Level::Raid5 => 1,
            Level::Raid6 => 2,
        }
    }

    /// Returns the number of columns that are data.
    pub fn data_columns(&self) -> usize {
        self.members() - self.syndromes()
    }

    /// Returns the number of rows of a stripe, which is the number of blocks of a strip.
    pub fn rows(&self) -> u32 {
        self.strip_blocks
    }

    /// Returns the number of data blocks in a stripe (the papers' data of a stripe, S).
    pub fn stripe_blocks(&self) -> u32 {
        self.strip_blocks * self.data_columns() as u32
    }

    /// Returns the number of stripes of the array.
    pub fn stripes(&self) -> u64 {
        self.stripes
    }

    /// Returns the number of blocks of the volume.
    pub fn blocks(&self) -> u64 {
        self.stripes * u64::from(self.stripe_blocks())
    }

    /// Returns the number of bytes that the array uses of every member.
    pub fn member_bytes(&self) -> u64 {
        self.stripes * u64::from(self.strip_blocks) * BLOCK_BYTES as u64
    }

    /// Returns the member that has a column of a stripe.
    pub fn member(&self, stripe: u64, column: usize) -> usize {
        let shift = (stripe % u64::from(self.members)) as usize;
        (column + self.members() - shift) % self.members()
    }

    /// Returns the column of a stripe on a member.
    pub fn column(&self, stripe: u64, member: usize) -> usize {
        (member + (stripe % u64::from(self.members)) as usize) % self.members()
    }

    /// Returns the block of a member at which a row of a stripe is stored.
    pub fn member_block(&self, stripe: u64, row: u32) -> u64 {
        stripe * u64::from(self.strip_blocks) + u64::from(row)
    }

    /// Returns the column and the row of a block within the data of its stripe.
    pub fn cell(&self, index: u32) -> (usize, u32) {
        (
            (index / self.strip_blocks) as usize,
            index % self.strip_blocks,
        )
    }

    /// Returns the failure of a request for a run of blocks, if it is out of range or empty.
    pub fn check_extent(&self, start: u64, blocks: u64) -> Option<Failure> {
        let size = self.blocks();
        let end = start.saturating_add(blocks);
        (blocks == 0 || end > size).then_some(Failure::OutOfRange { start, end, size })
    }

    /// Divides a run of blocks of the volume by stripes.
    pub fn extents(&self, start: u64, blocks: u64) -> impl Iterator<Item = Extent> + use<> {
        let size = u64::from(self.stripe_blocks());
        let end = start + blocks;
        let mut next = start;
        std::iter::from_fn(move || {
            (next < end).then(|| {
                let (stripe, first) = (next / size, next % size);
                let blocks = (size - first).min(end - next);
                next += blocks;
                Extent {
                    stripe,
                    first: first as u32,
                    blocks: blocks as u32,
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_of_a_stripe_has_its_own_member_and_columns_rotate() {
        let geometry = Geometry::new(Level::Raid6, 6, 16384, 1 << 20).unwrap();
        assert_eq!(
            (
                geometry.stripe_blocks(),
                geometry.stripes(),
                geometry.blocks()
            ),
            (16, 64, 1024)
        );
        for stripe in 0..12 {
            let mut members: Vec<usize> = (0..6)
                .map(|column| geometry.member(stripe, column))
                .collect();
            for (column, &member) in members.iter().enumerate() {
                assert_eq!(geometry.column(stripe, member), column);
            }
            members.sort_unstable();
            assert_eq!(members, [0, 1, 2, 3, 4, 5]);
        }
        let first_syndrome: Vec<usize> = (0..6).map(|stripe| geometry.member(stripe, 4)).collect();
        assert_eq!(first_syndrome, [4, 3, 2, 1, 0, 5]);
    }

    #[test]
    fn extents_cover_a_run_without_gaps() {
        let geometry = Geometry::new(Level::Raid5, 3, 8192, 1 << 20).unwrap();
        let extents: Vec<Extent> = geometry.extents(3, 7).collect();
        let shown: Vec<_> = extents
            .iter()
            .map(|e| (e.stripe, e.first, e.blocks))
            .collect();
        assert_eq!(shown, [(0, 3, 1), (1, 0, 4), (2, 0, 2)]);
        assert_eq!(geometry.extents(3, 0).count(), 0);
    }

    #[test]
    fn impossible_shapes_are_rejected_with_a_remedy() {
        let member = 1 << 30;
        for level in [Level::Raid0, Level::Raid1, Level::Raid5, Level::Raid6] {
            let (least, _) = level.members();
            assert!(Geometry::new(level, least, 4096, member).is_ok());
            assert!(Geometry::new(level, least - 1, 4096, member).is_err());
            assert!(Geometry::new(level, 256, 4096, member).is_err());
        }
        for strip in [0, 2048, 4097, 12288, 2 << 20] {
            assert_eq!(
                Geometry::new(Level::Raid5, 3, strip, member),
                Err(GeometryError::Strip(strip))
            );
        }
        assert!(Geometry::new(Level::Raid5, 3, 1 << 20, member).is_ok());
        assert_eq!(
            Geometry::new(Level::Raid5, 3, 8192, 8191),
            Err(GeometryError::TooSmall(8191))
        );
    }
}
