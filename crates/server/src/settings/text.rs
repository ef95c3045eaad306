//! Parsers of the texts of settings. Errors contain the remedy.

use crate::hosts::HostName;
use crate::size::{format_size, parse_size};
use seiner_engine::Durability;
use seiner_model::parse_duration;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub fn non_empty(text: &str) -> Result<&str, String> {
    if text.is_empty() {
        Err("it is empty; give a value or leave the setting out".to_string())
    } else {
        Ok(text)
    }
}

/// Returns the name of a tag; `None` for `off`.
pub fn tag_name(text: &str) -> Result<Option<String>, String> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-.:".contains(c);
    match text {
        "off" => Ok(None),
        _ if !text.is_empty() && text.chars().all(is_plain) => Ok(Some(text.to_string())),
        _ => Err("give a name of letters, digits, _, -, . and :, or \"off\"".to_string()),
    }
}

/// Returns hosts separated by commas.
pub fn host_names(text: &str) -> Result<Vec<HostName>, String> {
    let names = text.split(',').map(str::trim);
    names
        .map(|name| {
            HostName::parse(name).ok_or_else(|| {
                format!(
                    "{name:?} is not a host; write names such as nas.local or nas.local:8443 with commas between them, or \"none\""
                )
            })
        })
        .collect()
}

/// Returns the path of a file; `None` for "none".
pub fn file(text: &str) -> Result<Option<PathBuf>, String> {
    Ok(match non_empty(text)? {
        "none" => None,
        path => Some(PathBuf::from(path)),
    })
}

/// Returns origins separated by commas, in lower case.
pub fn origins(text: &str) -> Result<Vec<String>, String> {
    let origins = text.split(',').map(str::trim);
    origins
        .map(|origin| {
            let host = origin.strip_prefix("https://");
            let host = host.or_else(|| origin.strip_prefix("http://"));
            match host.and_then(HostName::parse) {
                Some(_) => Ok(origin.to_ascii_lowercase()),
                None => Err(format!(
                    "{origin:?} is not an origin; write origins such as https://app.example with commas between them, or \
                     \"none\""
                )),
            }
        })
        .collect()
}

/// Returns names of attributes separated by commas.
pub fn names(text: &str) -> Result<Vec<String>, String> {
    let names = text.split(',').map(str::trim);
    names
        .map(|name| match name {
            "" => Err(format!(
                "{text:?} has an empty name; write names such as host.name with commas between them, or \"none\""
            )),
            name => Ok(name.to_string()),
        })
        .collect()
}

/// Returns paths separated by commas.
pub fn members(text: &str) -> Result<Vec<PathBuf>, String> {
    let members = text.split(',').map(str::trim);
    members
        .map(|member| match member {
            "" => Err(format!(
                "{text:?} names a member that is empty; write their paths with commas between them, or \"off\""
            )),
            member => Ok(PathBuf::from(member)),
        })
        .collect()
}

pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// Parses the maximum time of an operation of a member; zero for no limit.
pub fn patience(text: &str) -> Result<Duration, String> {
    match text {
        "0" => Ok(Duration::ZERO),
        _ => duration(text),
    }
}

/// Parses a rate in bytes per second; 0 for no limit.
pub fn rate(text: &str) -> Result<u64, String> {
    match text {
        "0" => Ok(0),
        _ => parse_size(text),
    }
}

pub fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=1_000_000).contains(&count) => Ok(count),
        _ => Err(format!(
            "{text:?} is not a count; give a whole number from 1 to 1000000"
        )),
    }
}

pub fn duration(text: &str) -> Result<Duration, String> {
    let ns = parse_duration(text).map_err(|error| error.to_string())?;
    match u64::try_from(ns) {
        Ok(ns) if ns >= 1_000_000 => Ok(Duration::from_nanos(ns)),
        _ => Err(format!("{text:?} is too short; give at least 1ms")),
    }
}

pub fn durability(text: &str) -> Result<Durability, String> {
    match text {
        "sync" => Ok(Durability::Sync),
        "memory" => Ok(Durability::Memory),
        "interval" => Ok(Durability::Interval(Duration::from_millis(100))),
        _ => duration(text).map(Durability::Interval).map_err(|_| {
            format!("{text:?} is not a durability; write sync, memory, or a duration of at least 1ms such as 100ms")
        }),
    }
}

pub fn address(text: &str) -> Result<SocketAddr, String> {
    let local = text
        .strip_prefix("localhost:")
        .map(|port| format!("127.0.0.1:{port}"));
    local.as_deref().unwrap_or(text).parse().map_err(|_| {
        format!(
            "{text:?} is not an address; write an IP address and a port, such as 127.0.0.1:7670"
        )
    })
}

/// Parses the address of a port; `None` if there is none.
pub fn address_or_off(text: &str) -> Result<Option<SocketAddr>, String> {
    match text {
        "off" => Ok(None),
        _ => address(text).map(Some),
    }
}

/// Parses a size; `None` if it follows from other settings.
pub fn automatic(text: &str, least: u64) -> Result<Option<u64>, String> {
    match text {
        "auto" => Ok(None),
        _ => at_least(text, least)
            .map(Some)
            .map_err(|error| format!("{error}, or \"auto\"")),
    }
}

pub fn at_least(text: &str, least: u64) -> Result<u64, String> {
    match parse_size(text)? {
        bytes if bytes >= least => Ok(bytes),
        _ => Err(format!(
            "{text:?} is too little; give at least {}",
            format_size(least)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_named_with_commas_between() {
        assert_eq!(members("a, b"), Ok(vec!["a".into(), "b".into()]));
        assert!(members("a,").is_err());
    }
}
