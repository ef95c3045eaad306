//! Settings of the store: durability, memory, disk, merging and segments.

use super::setting::Setting;
use super::text::{at_least, automatic, durability, duration};
use crate::size::parse_size;
use seiner_engine::Options;

/// Settings, in the order of display.
pub static SETTINGS: [Setting; 13] = [
    Setting {
        name: "durability",
        default: "100ms",
        form: "sync|DURATION|memory",
        help: "Rule for when an acknowledged row survives a power cut. `sync`: always. Every write waits for a sync \
               of the disk, which concurrent writes share. A duration (`interval` is 100ms): the journal is synced \
               at this interval. A crash loses at most the rows of one interval, and the rows that arrived during \
               the sync. `memory`: no journal. A crash loses all rows that are not yet in a segment, but only half \
               as many bytes are written to the disk.",
        assign: |settings, text| {
            durability(text).map(|durability| settings.durability = durability)
        },
    },
    Setting {
        name: "memory",
        default: "auto",
        form: "SIZE|auto",
        help: "Maximum memory of the store for buffers, names and indexes. `auto`: a quarter of the machine's \
               memory, or of the control group's limit if that is less, from 128 MiB to 8 GiB. With a larger \
               maximum, blocks grow larger before they are sealed, and compress better. A smaller maximum leaves \
               more memory for other programs and for the page cache. A source needs 30 to 60 bytes for its name \
               and tags, and its rows until they are sealed: 20 bytes and more if memory is short, otherwise 130 and \
               more. If names need nine sixteenths of the memory, new sources are rejected. The process needs up \
               to 64 MiB more, for its program, threads, requests and answers.",
        assign: |settings, text| automatic(text, 8 << 20).map(|bytes| settings.memory = bytes),
    },
    Setting {
        name: "block_bytes",
        default: "8 KiB",
        form: "SIZE",
        help: "Bytes of one source that are collected in memory before they are sealed into a block, from 256 bytes to 64 \
               KiB. Larger blocks compress better and are cheaper to read. Smaller blocks need less memory per source.",
        assign: |settings, text| {
            let bytes = at_least(text, u64::from(*Options::BLOCK_BYTES.start()))?;
            settings.block_bytes = u32::try_from(bytes)
                .ok()
                .filter(|bytes| Options::BLOCK_BYTES.contains(bytes))
                .ok_or_else(|| {
                    let most = Options::BLOCK_BYTES.end() >> 10;
                    format!("{text:?} is more than a block can hold; give at most {most} KiB")
                })?;
            Ok(())
        },
    },
    Setting {
        name: "disk",
        default: "all",
        form: "SIZE|all",
        help: "Maximum size of the data directory at any time, with everything in it. Near this limit the store merges \
               segments, then slows writers. At the limit it sheds data or rejects writes, as the retention classes \
               define; see retention.md. `all`: all free space of the file system, or the whole array.",
        assign: |settings, text| {
            settings.disk = match text {
                "all" => None,
                _ => Some(at_least(text, 1).map_err(|error| format!("{error}, or \"all\""))?),
            };
            Ok(())
        },
    },
    Setting {
        name: "leave_free",
        default: "0 B",
        form: "SIZE",
        help: "Bytes that the store leaves free on the file system of the data directory. If other programs fill the file \
               system, the store uses less than `disk`.",
        assign: |settings, text| parse_size(text).map(|bytes| settings.leave_free = bytes),
    },
    Setting {
        name: "merge_from",
        default: "0.95",
        form: "SHARE",
        help: "Share of `disk` at which merging begins. With a higher share, more data have expired before a merge, \
               and merges rewrite fewer bytes. However, less space is left for a sudden increase of writes. The policy \
               `patient` begins later if more than four fifths of `disk` are live.",
        assign: |settings, text| {
            settings.merge_from = text
                .parse()
                .ok()
                .filter(|share| (0.1..=0.99).contains(share))
                .ok_or_else(|| {
                    format!("{text:?} is not a share; give a number from 0.1 to 0.99")
                })?;
            Ok(())
        },
    },
    Setting {
        name: "policy",
        default: "patient",
        form: "NAME",
        help: "Policy that chooses the segments to merge. `fifo`: the oldest segments. `greedy`: the segments with \
               the largest share of dead bytes. `cost-benefit`: the segments with the most freed space times age per \
               cost. `fisherman`: the segments with at least a minimum share of dead bytes. The minimum falls as \
               space gets short, and is at most the average of earlier merges. `patient`: the segments that free the \
               most bytes for the longest time, per byte rewritten. The policy waits for segments that will \
               soon expire without a merge.",
        assign: |settings, text| text.parse().map(|policy| settings.policy = policy),
    },
    Setting {
        name: "extra_writes",
        default: "0.2",
        form: "RATIO",
        help: "Bytes that may be rewritten per stored byte to coalesce small blocks, in addition to the merges that free \
               space. A higher ratio makes later reads of a source faster and the store smaller, but wears the device. 0: \
               blocks are coalesced only when a merge rewrites them anyway.",
        assign: |settings, text| {
            settings.extra_writes = text
                .parse()
                .ok()
                .filter(|ratio| (0.0..=10.0).contains(ratio))
                .ok_or_else(|| format!("{text:?} is not a ratio; give a number from 0 to 10"))?;
            Ok(())
        },
    },
    Setting {
        name: "lanes",
        default: "32",
        form: "COUNT",
        help: "Maximum number of lanes. Lanes are logs that are written side by side. The data of a lane expire at \
               about the same time, so that whole segments can be dropped. With more lanes, fewer bytes are written \
               twice, but each lane needs memory and an open segment. A store uses at most one lane per 512 KiB of \
               journal, but always permits four.",
        assign: |settings, text| {
            settings.lanes = text
                .parse()
                .ok()
                .filter(|lanes| (2..=256).contains(lanes))
                .ok_or_else(|| {
                    format!("{text:?} is not a count of lanes; give a whole number from 2 to 256")
                })?;
            Ok(())
        },
    },
    Setting {
        name: "device_tbw",
        default: "unknown",
        form: "SIZE|unknown",
        help: "Bytes that may be written to the device of the data directory in its life, as its data sheet states (TBW), \
               such as `600 TB`. With this value, `seiner log status`, `/metrics` and the page show how long a new device \
               lasts at the present rate.",
        assign: |settings, text| {
            settings.device_tbw = match text {
                "unknown" => None,
                _ => Some(
                    at_least(text, 1_000_000_000)
                        .map_err(|error| format!("{error}, or \"unknown\""))?,
                ),
            };
            Ok(())
        },
    },
    Setting {
        name: "segment_bytes",
        default: "auto",
        form: "SIZE|auto",
        help: "Size of a segment, the file to which blocks are written sequentially. Larger segments mean fewer files and a \
               faster start. Smaller segments free space sooner. `auto`: 64 MiB, or a 512th of `disk` if that is less, but \
               at least 256 KiB.",
        assign: |settings, text| {
            automatic(text, 64 << 10).map(|bytes| settings.segment_bytes = bytes)
        },
    },
    Setting {
        name: "journal_bytes",
        default: "auto",
        form: "SIZE|auto",
        help: "Maximum size of the journal. A smaller journal makes the start after a crash faster. With a larger \
               journal, slow sources can fill their blocks before the blocks are sealed to shorten the journal. \
               `auto`: 128 MiB, or a 32nd of `disk` if that is less, but at least 1 MiB.",
        assign: |settings, text| {
            automatic(text, 64 << 10).map(|bytes| settings.journal_bytes = bytes)
        },
    },
    Setting {
        name: "idle_seal",
        default: "10m",
        form: "DURATION",
        help: "Time without new rows after which the open block of a source is sealed, so that the journal files with its \
               rows can be removed. A shorter time keeps the journal small. A longer time makes fuller blocks of sources \
               that write rarely. Full blocks wait at most an eighth of it for others, with which they take less \
               space.",
        assign: |settings, text| duration(text).map(|duration| settings.idle_seal = duration),
    },
];
