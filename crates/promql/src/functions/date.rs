//! Functions of dates in UTC.

const DAY: i64 = 86_400;

/// Returns the function of a name. It takes seconds since 1970.
pub fn find(name: &str) -> Option<fn(i64) -> f64> {
    Some(match name {
        "minute" => |s| (s.rem_euclid(3_600) / 60) as f64,
        "hour" => |s| (s.rem_euclid(DAY) / 3_600) as f64,
        "day_of_week" => |s| (s.div_euclid(DAY) + 4).rem_euclid(7) as f64,
        "day_of_month" => |s| Date::of(s).day as f64,
        "day_of_year" => |s| Date::of(s).day_of_year() as f64,
        "days_in_month" => |s| Date::of(s).days_in_month() as f64,
        "month" => |s| Date::of(s).month as f64,
        "year" => |s| Date::of(s).year as f64,
        _ => return None,
    })
}

/// Date of the Gregorian calendar.
struct Date {
    year: i64,
    month: i64,
    day: i64,
}

impl Date {
    /// Returns the date of a time, in seconds since 1970.
    fn of(seconds: i64) -> Date {
        // Days since 0000-03-01, so that a leap day is the last of its year.
        let days = seconds.div_euclid(DAY) + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let month = match from_march {
            0..10 => from_march + 3,
            _ => from_march - 9,
        };
        Date {
            year: era * 400 + year_of_era + i64::from(month <= 2),
            month,
            day: day_of_year - (153 * from_march + 2) / 5 + 1,
        }
    }

    fn is_leap(&self) -> bool {
        self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0)
    }

    fn days_in_month(&self) -> i64 {
        match self.month {
            2 => 28 + i64::from(self.is_leap()),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    fn day_of_year(&self) -> i64 {
        const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        BEFORE[self.month as usize - 1] + i64::from(self.month > 2 && self.is_leap()) + self.day
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (text, year, month, day, of_year, in_month, weekday) in [
            ("1970-01-01T00:00:00Z", 1970, 1, 1, 1, 31, 4),
            ("2024-02-29T23:59:59Z", 2024, 2, 29, 60, 29, 4),
            ("2023-03-01T00:00:00Z", 2023, 3, 1, 60, 31, 3),
            ("2000-12-31T12:34:56Z", 2000, 12, 31, 366, 31, 0),
            ("1969-12-31T23:59:59Z", 1969, 12, 31, 365, 31, 3),
        ] {
            let s = seiner_model::parse_date(text)
                .unwrap()
                .div_euclid(1_000_000_000);
            let date = Date::of(s);
            assert_eq!(
                (date.year, date.month, date.day),
                (year, month, day),
                "{text}"
            );
            assert_eq!(
                (date.day_of_year(), date.days_in_month()),
                (of_year, in_month),
                "{text}"
            );
            assert_eq!(
                find("day_of_week").unwrap()(s),
                f64::from(weekday),
                "{text}"
            );
        }
        assert_eq!(find("hour").unwrap()(-1), 23.0);
        // Times that no calendar has do not overflow.
        for extreme in [i64::MIN, i64::MAX] {
            assert!(find("year").unwrap()(extreme).is_finite());
        }
    }
}
