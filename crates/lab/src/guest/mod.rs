//! The backend `guest`: another kernel in an emulated machine, for file systems that this kernel
//! does not have and for users without root.
//!
//! QEMU runs the kernel of a distribution's package, which is unpacked and not installed. Its
//! initial file system is an archive of this program, the `mkfs` programs and the kernel's modules.
//! Its disk is a file in the guest's memory, so that the guest never waits for this computer's
//! disk.
//!
//! 1. The archive gets the order of one cell, and the machine starts.
//! 2. This program is the first process of the guest ([`inside`]). It measures the cell as the
//!    backend `native` would.
//! 3. It writes the result to a serial line and switches the machine off.
//!
//! The clock of the machine counts instructions. So figures are reproducible, independent of other
//! work on this computer. They describe the emulated machine, not this one.

mod archive;
pub(crate) mod description;
pub mod inside;
mod machine;
mod modules;
mod prepare;
mod session;

pub use description::{Guest, directory, obstacle};
pub use prepare::prepare;
pub use session::{Session, probe};
