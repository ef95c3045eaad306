//! Division of a merge's output into segments.

use crate::LaneId;

/// Divides the blocks that a merge keeps into segments. Returns the lane and the number of blocks
/// of each segment.
///
/// `blocks` has the lane and the bytes of each block, in the order of lanes. A lane gets a segment
/// of its own if it has at least `least` bytes; a smaller one is joined with the next lane. No
/// segment with more than one block exceeds `largest` bytes.
pub fn coalesce(blocks: &[(LaneId, u64)], least: u64, largest: u64) -> Vec<(LaneId, usize)> {
    let mut outputs: Vec<(LaneId, usize)> = Vec::new();
    let (mut count, mut bytes) = (0, 0);
    for (index, &(lane, size)) in blocks.iter().enumerate() {
        if count > 0 {
            let (last, _) = blocks[index - 1];
            if bytes + size > largest || (last != lane && bytes >= least) {
                outputs.push((last, count));
                (count, bytes) = (0, 0);
            }
        }
        (count, bytes) = (count + 1, bytes + size);
    }
    if let (Some(&(last, _)), true) = (blocks.last(), count > 0) {
        outputs.push((last, count));
    }
    outputs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_stay_apart_where_they_are_large_enough() {
        let blocks = |lanes: &[LaneId]| lanes.iter().map(|&lane| (lane, 10)).collect::<Vec<_>>();
        assert_eq!(coalesce(&[], 20, 40), []);
        assert_eq!(coalesce(&blocks(&[1]), 20, 40), [(1, 1)]);
        let apart = blocks(&[1, 1, 2, 2, 2]);
        assert_eq!(coalesce(&apart, 20, 40), [(1, 2), (2, 3)]);
        assert_eq!(
            coalesce(&apart, 30, 40),
            [(2, 4), (2, 1)],
            "groups below the least size are joined"
        );
        let many = blocks(&[3; 9]);
        assert_eq!(coalesce(&many, 20, 40), [(3, 4), (3, 4), (3, 1)]);
        assert_eq!(
            coalesce(&[(1, 50)], 20, 40),
            [(1, 1)],
            "a block is never divided"
        );
    }
}
