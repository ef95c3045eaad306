//! Contents of blocks.
//!
//! The array computes with blocks only through [`Block`]. A [`Page`] contains bytes. A [`Weightless`] block has
//! no contents, for simulations that count operations and time. Both run the same code.

use crate::geometry::BLOCK_BYTES;
use crate::kernel;
use std::sync::Arc;

/// Contents of a block: an element of a vector space over GF(2^8).
pub trait Block: Clone {
    /// Returns a block of zeroes.
    fn zero() -> Self;
    /// Adds another block.
    fn add(&mut self, other: &Self);
    /// Adds another block times a factor.
    fn add_scaled(&mut self, factor: u8, other: &Self);
    /// Returns the sum of the blocks, and the sum of each block times 2 to the power of its index.
    fn syndromes(data: &[&Self]) -> (Self, Self);
    /// Returns whether two blocks have the same contents.
    fn same(&self, other: &Self) -> bool;

    /// Returns this block times a factor.
    fn scaled(&self, factor: u8) -> Self {
        let mut product = Self::zero();
        product.add_scaled(factor, self);
        product
    }
}

/// A block of bytes, aligned for direct I/O. Clones share the bytes.
#[derive(Clone, Debug)]
pub struct Page(Arc<Bytes>);

#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(align(4096))]
struct Bytes([u8; BLOCK_BYTES]);

impl Page {
    /// Creates a page with a copy of [`BLOCK_BYTES`] bytes.
    ///
    /// # Panics
    /// If `bytes` has another length.
    pub fn copy_of(bytes: &[u8]) -> Page {
        let mut page = Page::zero();
        page.bytes_mut().copy_from_slice(bytes);
        page
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8; BLOCK_BYTES] {
        &self.0.0
    }

    /// Returns the bytes for modification. Copies them first if the page is shared.
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
