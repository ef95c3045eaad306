//! What a block holds.
//!
//! The array computes with blocks through [`Block`] alone. A [`Page`] has the bytes; a [`Weightless`] block has none, for
//! simulations that count operations and time; both run the same code.

use crate::geometry::BLOCK_BYTES;
use crate::kernel;
use std::sync::Arc;

/// The contents of a block: an element of a vector space over the field of [`crate::galois`].
pub trait Block: Clone {
    /// Nothing but zeroes.
    fn zero() -> Self;
    /// Adds another block.
    fn add(&mut self, other: &Self);
    /// Adds another block times a factor.
    fn add_scaled(&mut self, factor: u8, other: &Self);
    /// The sum of blocks, and the sum of each times the power of two of its place.
    fn syndromes(data: &[&Self]) -> (Self, Self);
    /// Whether two blocks hold the same.
    fn same(&self, other: &Self) -> bool;

    /// This block times a factor.
    fn scaled(&self, factor: u8) -> Self {
        let mut product = Self::zero();
        product.add_scaled(factor, self);
        product
    }
}

/// A block of bytes, aligned for direct I/O, shared and not copied.
#[derive(Clone, Debug)]
pub struct Page(Arc<Bytes>);

#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(align(4096))]
struct Bytes([u8; BLOCK_BYTES]);

impl Page {
    /// A page with a copy of the bytes, of which there must be [`BLOCK_BYTES`].
    pub fn copy_of(bytes: &[u8]) -> Page {
        let mut page = Page::zero();
        page.bytes_mut().copy_from_slice(bytes);
        page
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8; BLOCK_BYTES] {
        &self.0.0
    }

    /// The bytes, to be changed; copied first if somebody else has the page.
    pub fn bytes_mut(&mut self) -> &mut [u8; BLOCK_BYTES] {
        &mut Arc::make_mut(&mut self.0).0
    }
}

impl Block for Page {
    fn zero() -> Page {
        Page(Arc::new(Bytes([0; BLOCK_BYTES])))
    }

    fn add(&mut self, other: &Page) {
        kernel::add(self.bytes_mut(), other.bytes());
    }

    fn add_scaled(&mut self, factor: u8, other: &Page) {
        kernel::add_scaled(self.bytes_mut(), factor, other.bytes());
    }

    fn syndromes(data: &[&Page]) -> (Page, Page) {
        let slices: Vec<&[u8]> = data.iter().map(|page| page.bytes().as_slice()).collect();
        let (mut p, mut q) = (Page::zero(), Page::zero());
        kernel::pq(&slices, p.bytes_mut(), q.bytes_mut());
        (p, q)
    }

    fn same(&self, other: &Page) -> bool {
        self.0 == other.0
    }
}

/// A block without contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weightless;

impl Block for Weightless {
    fn zero() -> Weightless {
        Weightless
    }

    fn add(&mut self, _: &Weightless) {}

    fn add_scaled(&mut self, _: u8, _: &Weightless) {}

    fn syndromes(_: &[&Weightless]) -> (Weightless, Weightless) {
        (Weightless, Weightless)
    }

    fn same(&self, _: &Weightless) -> bool {
        true
    }
}
