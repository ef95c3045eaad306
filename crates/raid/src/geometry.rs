//! Where a block of the volume lies: pure address arithmetic.
//!
//! A *stripe* has one *strip* on every member. Its strips are numbered by *columns*: data first,
//! then syndromes; columns move by one member from stripe to stripe, so that syndromes burden all
//! members alike. A *row* is the block at the same place in each strip of a stripe; syndromes are
//! computed row by row.

use crate::request::Failure;
use thiserror::Error;

/// Bytes of a block, the unit of all requests: what solid-state disks write at the least (*RAID* §4.1).
pub const BLOCK_BYTES: usize = 4096;

/// How data are kept redundant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Not at all.
    Raid0,
    /// The same on every member.
    Raid1,
    /// One syndrome: any one member may be lost.
    Raid5,
    /// Two syndromes: any two members may be lost.
    Raid6,
}

/// What cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GeometryError {
    /// Too few or too many members.
    #[error("{level:?} wants {least} to {most} members, not {members}: add or take away members")]
    Members {
        /// The level asked for.
        level: Level,
        /// Members given.
        members: usize,
        /// Members it wants at the least.
        least: usize,
        /// Members it can have at the most.
        most: usize,
    },
    /// A strip that is no power of two from 4 KiB to 1 MiB.
    #[error("a strip of {0} bytes: choose a power of two from 4096 to 1048576")]
    Strip(u64),
    /// Members too small for a single strip.
    #[error(
        "members of {0} bytes have no room for a strip: choose larger members or a smaller strip"
    )]
    TooSmall(u64),
}

/// The shape of an array.
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
    /// The stripe.
    pub stripe: u64,
    /// First block within the data of the stripe.
    pub first: u32,
    /// How many blocks.
    pub blocks: u32,
}

impl Level {
    /// Members wanted, least and most. Coefficients of the second syndrome repeat after 255 columns.
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
    /// The shape of an array over members that have `member_bytes` for data each.
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

    /// How data are kept redundant.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Members, and columns of a stripe.
    pub fn members(&self) -> usize {
        self.members as usize
    }

    /// Columns of a stripe that are syndromes, which is how many members may be lost.
    pub fn syndromes(&self) -> usize {
        match self.level {
            Level::Raid0 => 0,
            Level::Raid1 => self.members() - 1,
            Level::Raid5 => 1,
            Level::Raid6 => 2,
        }
    }

    /// Columns of a stripe that are data.
    pub fn data_columns(&self) -> usize {
        self.members() - self.syndromes()
    }

    /// Rows of a stripe: blocks of a strip.
    pub fn rows(&self) -> u32 {
        self.strip_blocks
    }

    /// Blocks of data in a stripe (the papers' data of a stripe, S).
    pub fn stripe_blocks(&self) -> u32 {
        self.strip_blocks * self.data_columns() as u32
    }

    /// Stripes of the array.
    pub fn stripes(&self) -> u64 {
        self.stripes
    }

    /// Blocks of the volume.
    pub fn blocks(&self) -> u64 {
        self.stripes * u64::from(self.stripe_blocks())
    }

    /// Bytes that the array uses of every member.
    pub fn member_bytes(&self) -> u64 {
        self.stripes * u64::from(self.strip_blocks) * BLOCK_BYTES as u64
    }

    /// The member that has a column of a stripe.
    pub fn member(&self, stripe: u64, column: usize) -> usize {
        let shift = (stripe % u64::from(self.members)) as usize;
        (column + self.members() - shift) % self.members()
    }

    /// The column of a stripe that a member has.
    pub fn column(&self, stripe: u64, member: usize) -> usize {
        (member + (stripe % u64::from(self.members)) as usize) % self.members()
    }

    /// The block of a member at which a row of a stripe lies.
    pub fn member_block(&self, stripe: u64, row: u32) -> u64 {
        stripe * u64::from(self.strip_blocks) + u64::from(row)
    }

    /// Column and row of a block within the data of its stripe.
    pub fn cell(&self, index: u32) -> (usize, u32) {
        (
            (index / self.strip_blocks) as usize,
            index % self.strip_blocks,
        )
    }

    /// Why a run of blocks cannot be asked for, if it cannot.
    pub fn refusal(&self, start: u64, blocks: u64) -> Option<Failure> {
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
    fn every_column_of_a_stripe_has_a_member_of_its_own_and_columns_wander() {
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
    fn what_cannot_be_built_is_refused_with_a_remedy() {
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
