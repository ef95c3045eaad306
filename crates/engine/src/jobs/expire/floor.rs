//! Floors: block numbers below which a class is shed to free a number of bytes.

use crate::segment::stats::Share;

/// Returns the block number below which `shares` have about `bytes` live bytes, or half as many more
/// where a segment ends with them. Within a segment, live bytes are taken to be spread evenly.
pub fn floor_for(shares: &[Share], bytes: u64) -> u64 {
    let below = |number: u64| -> f64 {
        shares
            .iter()
            .map(|share| {
                let span = (share.last - share.first + 1) as f64;
                let part = number.saturating_sub(share.first) as f64 / span;
                share.live as f64 * part.min(1.0)
            })
            .sum()
    };
    let mut low = shares.iter().map(|share| share.first).min().unwrap_or(0);
    let mut high = shares.iter().map(|share| share.last + 1).max().unwrap_or(0);
    while low < high {
        let middle = low + (high - low) / 2;
        match below(middle) < bytes as f64 {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    // The rest of a partly dead segment would have to be rewritten to reclaim the dead space.
    let ends = shares.iter().map(|share| share.last + 1);
    let end = ends.filter(|&end| end >= low).min();
    end.filter(|&end| below(end) <= 1.5 * bytes as f64)
        .unwrap_or(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn share(first: u64, last: u64, live: u64) -> Share {
        Share {
            class: 0,
            live,
            first,
            last,
        }
    }

    #[test]
    fn no_shares_give_no_floor() {
        assert_eq!(floor_for(&[], 100), 0);
        assert_eq!(floor_for(&[share(5, 9, 100)], 0), 5);
    }

    #[test]
    fn the_floor_cuts_a_segment_at_the_first_sufficient_block() {
        // 100 blocks of 10 bytes.
        let one = [share(1, 100, 1000)];
        assert_eq!(floor_for(&one, 250), 26);
        assert_eq!(floor_for(&one, 251), 27);
    }

    #[test]
    fn a_segment_with_up_to_half_as_much_more_is_shed_as_a_whole() {
        let one = [share(1, 100, 1000), share(101, 200, 1000)];
        assert_eq!(floor_for(&one, 667), 101, "1000 are at most 1.5 times 667");
        assert_eq!(floor_for(&one, 666), 68);
        assert_eq!(floor_for(&one, 1000), 101, "and where it fits exactly");
    }

    #[test]
    fn a_demand_beyond_all_bytes_sheds_everything() {
        let two = [share(11, 20, 100), share(15, 40, 100)];
        assert_eq!(floor_for(&two, 1_000_000), 41);
    }

    #[test]
    fn overlapping_segments_are_counted_together() {
        // One byte a block in both: two bytes a number from 51 to 100.
        let two = [share(1, 100, 100), share(51, 150, 100)];
        assert_eq!(floor_for(&two, 60), 56);
        // The first ends at 101 with 150 bytes.
        assert_eq!(floor_for(&two, 100), 101);
        assert_eq!(floor_for(&two, 99), 76);
    }

    proptest! {
        /// A floor frees enough bytes. One number less would not, unless a segment ends there.
        #[test]
        fn floors_are_the_lowest_that_free_enough_bytes(
            parts in prop::collection::vec((1..1000u64, 0..100u64, 1..10_000u64), 1..20),
            bytes in 1..50_000u64,
        ) {
            let shares: Vec<Share> = parts.iter().map(|&(first, len, live)| share(first, first + len, live)).collect();
            let below = |floor: u64| -> f64 {
                let part = |share: &Share| {
                    let blocks = (share.last - share.first + 1) as f64;
                    share.live as f64 * (floor.saturating_sub(share.first) as f64 / blocks).min(1.0)
                };
                shares.iter().map(part).sum()
            };
            let (floor, all) = (floor_for(&shares, bytes), shares.iter().map(|share| share.live).sum::<u64>());
            let near = 1e-6 * all as f64;
            prop_assert!(below(floor) + near >= bytes.min(all) as f64);
            let ends = shares.iter().any(|share| share.last + 1 == floor);
            if ends {
                let highest = shares.iter().map(|share| share.last + 1).max();
                prop_assert!(below(floor) <= 1.5 * bytes as f64 + near || below(floor - 1) < bytes as f64 + near || Some(floor) == highest);
            } else {
                prop_assert!(below(floor - 1) < bytes as f64 + near);
            }
        }
    }
}
