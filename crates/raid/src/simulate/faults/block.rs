//! Block of eight bytes, so that a run takes a fraction of a millisecond.

use crate::block::Block;
use crate::galois;

/// Block of eight bytes: the number of the write that made it, and the index of the block within that write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TinyBlock(pub [u8; 8]);

impl Block for TinyBlock {
    fn zero() -> TinyBlock {
        TinyBlock::default()
    }

    fn add(&mut self, other: &TinyBlock) {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(sum, other)| *sum ^= other);
    }

    fn add_scaled(&mut self, factor: u8, other: &TinyBlock) {
        for (sum, other) in self.0.iter_mut().zip(other.0) {
            let product = (0..8).rev().fold(0, |sum, bit| {
                galois::double(sum) ^ if factor >> bit & 1 == 1 { other } else { 0 }
            });
            *sum ^= product;
        }
    }

    fn syndromes(data: &[&TinyBlock]) -> (TinyBlock, TinyBlock) {
        let (mut p, mut q) = (TinyBlock::zero(), TinyBlock::zero());
        for (column, block) in data.iter().enumerate() {
            p.add(block);
            q.add_scaled(galois::coefficient(column), block);
        }
        (p, q)
    }

    fn same(&self, other: &TinyBlock) -> bool {
        self == other
    }
}
