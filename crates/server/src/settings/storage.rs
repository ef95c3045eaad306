//! Settings of the storage target: a directory, or an array of devices.

use super::setting::Setting;
use super::text::{boolean, members, non_empty, patience, rate};
use super::values::ArrayIo;
use std::path::PathBuf;

/// Settings, in the order of display.
pub static SETTINGS: [Setting; 7] = [
    Setting {
        name: "data",
        default: "./seiner-data",
        form: "PATH",
        help: "Directory of the data. It is created if it is missing. Only one server or program at a time may have it \
               open. Not used with `array`.",
        assign: |settings, text| {
            settings.data = PathBuf::from(non_empty(text)?);
            Ok(())
        },
    },
    Setting {
        name: "array",
        default: "off",
        form: "MEMBER,...|off",
        help: "Members of an array that holds the data instead of a directory: files or block devices that `seiner raid \
               create` made into an array, in any order. A blank array becomes a store; an array with other contents is \
               rejected. The data survive the loss of as many members as the RAID level permits. See raid.md.",
        assign: |settings, text| {
            settings.array = match text {
                "off" => Vec::new(),
                _ => members(text)?,
            };
            Ok(())
        },
    },
    Setting {
        name: "array_degraded",
        default: "false",
        form: "true|false",
        help: "Start with missing members of the array, up to the number that the RAID level permits. The array \
               records missing members as lost. A lost member can return only as a new device. A device that was \
               left out by mistake therefore needs a rebuild.",
        assign: |settings, text| boolean(text).map(|may| settings.array_degraded = may),
    },
    Setting {
        name: "array_control",
        default: "./seiner-raid.sock",
        form: "PATH",
        help: "Path of the socket by which `seiner raid status`, `fail`, `replace`, `spare`, `scrub` and `stop` reach the \
               array that holds the data.",
        assign: |settings, text| {
            settings.array_control = PathBuf::from(non_empty(text)?);
            Ok(())
        },
    },
    Setting {
        name: "array_io",
        default: "auto",
        form: "auto|ring|threads",
        help: "Method of I/O on the members of the array: io_uring (`ring`), `threads`, or io_uring if the kernel supports \
               it (`auto`). Threads cost more CPU. Use them for members on file systems in user space or across a \
               network.",
        assign: |settings, text| {
            settings.array_io = match text {
                "auto" => ArrayIo::Auto,
                "ring" => ArrayIo::Ring,
                "threads" => ArrayIo::Threads,
                _ => return Err(format!("{text:?} is none of auto, ring and threads")),
            };
            Ok(())
        },
    },
    Setting {
        name: "array_patience",
        default: "30s",
        form: "DURATION",
        help: "Maximum time of an operation of a member of the array. A member that takes longer is taken out of use. 0: \
               no limit. A disk needs some ten seconds to detect an unreadable sector; a shorter time loses members \
               unnecessarily.",
        assign: |settings, text| patience(text).map(|time| settings.array_patience = time),
    },
    Setting {
        name: "array_background_rate",
        default: "0",
        form: "SIZE",
        help: "Bytes per second of each member that rebuilds, scrubs and resyncs of the array may use. 0: no limit. A \
               lower rate slows writes and queries less, but the array lacks its redundancy for longer.",
        assign: |settings, text| rate(text).map(|rate| settings.array_background_rate = rate),
    },
];
