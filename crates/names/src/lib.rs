//! Files of the names of sources at rest.
//!
//! A *names file* is immutable. It contains the keys of many sources, and answers: the number of a name, the key of a
//! number, the sources that meet a selector, and lists of tags and values. Only the directory and a filter are in
//! memory, less than 2 bytes a source. Everything else is read in *pages*, through a [`Cache`] of limited size.
//! `docs/format/names.md` describes the bytes.
//!
//! Every answer is right or an error: all bytes have checksums. Hostile bytes cause an [`Error`], never a panic or an
//! allocation that the length of the file does not justify.
//!
//! ```
//! use seiner_model::Selector;
//! use seiner_names::{Cache, NamesFile, Origin, Writer};
//! use seiner_platform::{Disk, sim::SimDisk};
//!
//! let file = SimDisk::new(1).create("names-1")?;
//! let origin = Origin {
//!     store: 7,
//!     seed: 0x5eed,
//!     generation: 0,
//!     position: 24,
//! };
//! let mut writer = Writer::new(origin);
//! writer.push(3, b"cpu", [(&b"host"[..], &b"a"[..])].into_iter());
//! writer.push(9, b"cpu", [(&b"host"[..], &b"b"[..])].into_iter());
//! writer.write(&*file)?;
//!
//! let (names, cache) = (NamesFile::open("names-1", file)?, Cache::new(1 << 20));
//! assert_eq!(names.find(&cache, b"cpu,host=b")?, Some(9));
//! let selected = names.select(&cache, &Selector::parse("cpu{host!=\"b\"}")?)?;
//! assert!(selected.iter().eq([3]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod bytes;
mod cache;
mod check;
mod directory;
mod error;
mod file;
mod filter;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod hashes;
#[cfg(test)]
mod hostile;
mod layout;
mod lists;
mod merge;
mod name;
mod names;
mod output;
mod page;
mod pairs;
mod parts;
mod reader;
mod select;
mod stream;
mod terms;
#[cfg(any(test, fuzzing))]
mod unchecked;
mod values;
mod writer;

pub use error::Error;
pub use file::{Cache, NamesFile};
pub use layout::Origin;
pub use merge::merge;
pub use writer::Writer;
