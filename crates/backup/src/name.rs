//! Names of backups: the times at which they were begun.

use crate::error::Error;
use jiff::Timestamp;
use jiff::civil::DateTime;

/// Name of a backup, for example `2026-11-27T18-02-03Z`. Names in their order are times in their order.
const NAME: &str = "%Y-%m-%dT%H-%M-%SZ";

/// Returns whether a text is the name of a backup.
pub fn is_name(text: &str) -> bool {
    DateTime::strptime(NAME, text).is_ok()
}

/// Returns a name for a backup that begins at `now`, ns since 1970. It is later than the name of the latest backup, even
/// if the clock was set back.
///
/// # Errors
/// If the time is not within the years 1677 to 2262.
pub fn next(latest: Option<&str>, now: i64) -> Result<String, Error> {
    let text = |seconds: i64| {
        let time = Timestamp::from_second(seconds);
        time.map(|time| time.strftime(NAME).to_string())
            .map_err(|error| Error::Request(format!("the host's clock: {error}")))
    };
    let name = text(now.div_euclid(1_000_000_000))?;
    let Some(latest) = latest.filter(|latest| *latest >= name.as_str()) else {
        return Ok(name);
    };
    let time = DateTime::strptime(NAME, latest)
        .and_then(|time| time.to_zoned(jiff::tz::TimeZone::UTC))
        .map_err(|error| Error::Request(format!("{latest}: {error}")))?;
    text(time.timestamp().as_second() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_ascend_even_if_the_clock_is_set_back() {
        let first = next(None, 1_700_000_000_000_000_000).unwrap();
        assert_eq!(first, "2023-11-14T22-13-20Z");
        assert_eq!(next(Some(&first), 0).unwrap(), "2023-11-14T22-13-21Z");
        assert!(is_name(&first) && !is_name("2023-13-14T22-13-20Z") && !is_name("notes"));
    }
}
