//! Parts of an array in which members are being written, as the intent record names them.

use std::ops::Range;

/// A part of an array whose syndromes may not match after a crash.
///
/// An array with all members marks regions: a mark then costs one record for many writes, and a resync repairs every
/// stripe. While a member is missing, the lost data of a stripe cannot be computed for certain after a crash, so that
/// single stripes are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// All stripes of a region.
    Region(u64),
    /// One stripe.
    Stripe(u64),
}

impl Mark {
    /// Returns the stripes of the mark in an array of `stripes` stripes.
    pub fn stripes(self, region_stripes: u64, stripes: u64) -> Range<u64> {
        let (start, end) = match self {
            Mark::Region(region) => (region * region_stripes, (region + 1) * region_stripes),
            Mark::Stripe(stripe) => (stripe, stripe + 1),
        };
        start.min(stripes)..end.min(stripes)
    }

    /// Returns the region of the mark.
    pub fn region(self, region_stripes: u64) -> u64 {
        match self {
            Mark::Region(region) => region,
            Mark::Stripe(stripe) => stripe / region_stripes,
        }
    }
}
