//! Time zones of `tz()`, with the rules that the program contains.

use crate::error::Error;
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};

const NS_PER_S: i64 = 1_000_000_000;

/// Time zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone(TimeZone);

impl Zone {
    /// Returns the zone of a name such as `Europe/Berlin`.
    ///
    /// # Errors
    /// If there is no such zone.
    pub fn named(name: &str) -> Result<Zone, Error> {
        let zone = TimeZoneDatabase::bundled().get(name);
        zone.map(Zone).map_err(|_| {
            Error::invalid(format!(
                "there is no time zone {name:?}; write a name such as 'Europe/Berlin'"
            ))
        })
    }

    /// Returns the offset from UTC in ns at a time in ns.
    pub fn offset(&self, time: i64) -> i64 {
        let time = Timestamp::from_nanosecond(time.into());
        let offset = time.map(|time| self.0.to_offset(time).seconds());
        i64::from(offset.unwrap_or(0)) * NS_PER_S
    }

    /// Returns the time in ns at which clocks of the zone show a date, which is given as the ns of this date in UTC. If
    /// they show it twice, the first time is returned; if they skip it, the time as far after the skip.
    pub fn time_of(&self, date: i64) -> i64 {
        let time = Timestamp::from_nanosecond(date.into()).ok();
        let time = time.and_then(|time| self.0.to_timestamp(Offset::UTC.to_datetime(time)).ok());
        let time = time.and_then(|time| i64::try_from(time.as_nanosecond()).ok());
        time.unwrap_or(date)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600 * NS_PER_S;

    #[test]
    fn offsets_follow_the_rules() {
        let zone = Zone::named("Europe/Berlin").unwrap();
        let winter = 1_767_222_000 * NS_PER_S;
        assert_eq!(zone.offset(winter), HOUR);
        assert_eq!(zone.offset(winter + 4380 * HOUR), 2 * HOUR);
        assert_eq!(zone.time_of(winter + HOUR), winter);
        for time in [i64::MIN, i64::MAX] {
            assert!(zone.offset(time).abs() <= 2 * HOUR);
            zone.time_of(time);
        }
        assert!(Zone::named("Europe/Nowhere").is_err());
    }
}
