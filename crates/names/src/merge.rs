//! Merging of several files into one. All parts are read and written in order, page by page.

use crate::cache::PageCache;
use crate::error::Error;
use crate::file::{Cache, NamesFile};
use crate::layout::Origin;
use crate::output::Output;
use crate::parts::Parts;
use crate::stream::{HashStream, NameStream, Stream, TermStream};
use crate::terms::NUMBERS;
use roaring::RoaringBitmap;
use seiner_platform::File;
use std::io;

/// Name in errors of the file that is being written.
const NEW: &str = "being written";

/// Writes the sources of several files that are in `keep` into one file, without a sync, and returns its length in
/// bytes. If several files have a source, the first of them counts. Memory is bounded by a few pages of each file,
/// the longest list of sources, and the numbers of all sources.
///
/// # Errors
/// If a file is damaged or cannot be read, or if the new file cannot be written.
///
/// # Panics
/// If the files differ in store or seed from the origin of the new one.
pub fn merge(
    origin: Origin,
    files: &[&NamesFile],
    keep: &RoaringBitmap,
    cache: &Cache,
    file: &dyn File,
) -> Result<u64, Error> {
    let identity = |origin: &Origin| (origin.store, origin.seed);
    let same = files
        .iter()
        .all(|file| identity(file.origin()) == identity(&origin));
    assert!(same, "merged files have one store and one seed");
    let (inputs, sources) = inputs(files, keep);
    let pages = cache.pages();
    let mut output = Output::new(file, &origin, sources);
    merge_names(&inputs, pages, &mut output)?;
    merge_terms(&inputs, pages, &mut output)?;
    merge_hashes(&inputs, pages, &mut output)?;
    output.finish().map_err(written)
}

/// A file that is being merged.
struct Input<'f> {
    file: &'f Parts,
    /// Sources that the new file takes from this one.
    keep: RoaringBitmap,
}

/// Returns the files with their sources, and the sources of all files.
fn inputs<'f>(files: &[&'f NamesFile], keep: &RoaringBitmap) -> (Vec<Input<'f>>, RoaringBitmap) {
    let mut sources = RoaringBitmap::new();
    let inputs = files.iter().map(|file| {
        let keep = (keep & file.sources()) - &sources;
        sources |= &keep;
        let file = file.parts();
        Input { file, keep }
    });
    (inputs.collect(), sources)
}

/// Returns the error of writing the new file.
fn written(source: io::Error) -> Error {
    Error::Io {
        file: NEW.to_string(),
        source,
    }
}

fn merge_names(
    inputs: &[Input<'_>],
    cache: &PageCache,
    output: &mut Output<'_>,
) -> Result<(), Error> {
    merge_kept(
        inputs,
        |file| NameStream::new(file, Some(cache)),
        |stream| output.name(stream.cursor.number, &stream.cursor.name),
    )?;
    output.end_names().map_err(written)
}

/// Passes the kept entries of all files to `write`, in their order.
fn merge_kept<'f, S: Stream>(
    inputs: &[Input<'f>],
    new: impl Fn(&'f Parts) -> S,
    mut write: impl FnMut(&S) -> io::Result<()>,
) -> Result<(), Error> {
    let next = |stream: &mut S, keep: &RoaringBitmap| {
        while stream.next()? {
            if keep.contains(stream.place().1) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let mut streams = Vec::new();
    for input in inputs {
        let mut stream = new(input.file);
        if next(&mut stream, &input.keep)? {
            streams.push((stream, &input.keep));
        }
    }
    while let Some(least) = index_of_least(&streams, |(stream, _)| stream.place()) {
        let (stream, keep) = &mut streams[least];
        write(stream).map_err(written)?;
        if !next(stream, keep)? {
            streams.remove(least);
        }
    }
    Ok(())
}

/// Returns the index of the stream with the least key; `None` if there is none.
fn index_of_least<'s, S, K: Ord>(streams: &'s [S], key: impl Fn(&'s S) -> K) -> Option<usize> {
    (0..streams.len()).min_by_key(|index| key(&streams[*index]))
}

fn merge_terms(
    inputs: &[Input<'_>],
    cache: &PageCache,
    output: &mut Output<'_>,
) -> Result<(), Error> {
    let mut streams = Vec::new();
    for input in inputs {
        let mut stream = TermStream::new(input.file, Some(cache));
        if stream.next()? {
            streams.push((stream, &input.keep));
        }
    }
    let mut list = MergedList::default();
    let mut value = Vec::new();
    while let Some(least) = index_of_least(&streams, |(stream, _)| {
        (stream.tag(), stream.cursor.value.as_slice())
    }) {
        let tag = streams[least].0.tag();
        value.clone_from(&streams[least].0.cursor.value);
        let mut at = least;
        while at < streams.len() {
            let (stream, keep) = &mut streams[at];
            if (stream.tag(), &stream.cursor.value) != (tag, &value) {
                at += 1;
                continue;
            }
            list.add(stream, keep)?;
            match stream.next()? {
                true => at += 1,
                false => drop(streams.remove(at)),
            }
        }
        list.write(tag, &value, output).map_err(written)?;
    }
    output.end_terms().map_err(written)
}

/// Sources of a term in the files.
#[derive(Default)]
struct MergedList {
    numbers: Vec<u32>,
    set: RoaringBitmap,
}

impl MergedList {
    /// Adds the sources of the latest term of a stream that are in `keep`.
    fn add(&mut self, stream: &TermStream<'_>, keep: &RoaringBitmap) -> Result<(), Error> {
        match stream.set()? {
            Some(set) => self.set |= set & keep,
            None => {
                let numbers = stream.cursor.numbers.iter().copied();
                self.numbers
                    .extend(numbers.filter(|number| keep.contains(*number)));
            }
        }
        Ok(())
    }

    /// Writes the term, unless it has no source, and empties the list.
    fn write(&mut self, tag: &[u8], value: &[u8], output: &mut Output<'_>) -> io::Result<()> {
        let mut numbers = std::mem::take(&mut self.numbers);
        let mut set = std::mem::take(&mut self.set);
        numbers.sort_unstable();
        if !set.is_empty() || numbers.len() > NUMBERS {
            set.extend(&numbers);
            output.term_of_set(tag, value, set)?;
        } else if !numbers.is_empty() {
            output.term_of_numbers(tag, value, &numbers)?;
        }
        numbers.clear();
        self.numbers = numbers;
        Ok(())
    }
}

fn merge_hashes(
    inputs: &[Input<'_>],
    cache: &PageCache,
    output: &mut Output<'_>,
) -> Result<(), Error> {
    merge_kept(
        inputs,
        |file| HashStream::new(file, Some(cache)),
        |stream| {
            let (hash, number) = stream.entry;
            output.hash(hash, number)
        },
    )
}
