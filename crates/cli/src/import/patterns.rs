//! Detection of the form of dates.
//!
//! All usual forms are candidates. A candidate that does not parse a time of the file is dropped. If the candidates
//! that are left disagree about a time, as `03/04/2014` does with the day or the month first, the form is ambiguous.

use super::repeats::fingerprint;
use super::times::{Format, parse_pattern};
use seiner_model::parse_date;

/// Dates in the usual forms. ISO dates with two-digit months are parsed separately.
const DATES: [&str; 13] = [
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%Y%m%d",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d.%m.%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d-%b-%Y",
    "%d %b %Y",
    "%b %d %Y",
    "%b %d, %Y",
];

/// Times of day in the usual forms.
const CLOCKS: [&str; 6] = [
    "%H:%M:%S%.f",
    "%H:%M",
    "%I:%M:%S %p",
    "%I:%M %p",
    "%H.%M.%S",
    "%H%M%S",
];

/// Texts between a date and a time of day. A space in a pattern also matches no space.
const JOINS: [&str; 2] = [" ", "T"];

/// Zones after a time of day.
const ZONES: [&str; 5] = ["", "Z", " UTC", " %z", " %:z"];

struct Candidate {
    /// `None` for dates in ISO 8601.
    pattern: Option<String>,
    /// Fingerprint of all times read so far. Candidates that agree have the same.
    times: u64,
}

impl Candidate {
    fn parse(&self, text: &str) -> Option<i64> {
        match &self.pattern {
            Some(pattern) => parse_pattern(pattern, text),
            None => parse_date(text),
        }
    }
}

/// Forms that parse all times seen so far.
pub struct Patterns {
    left: Vec<Candidate>,
    /// Number of times that were parsed.
    pub parsed: u64,
    /// First parsed time, for messages.
    first: String,
}

impl Patterns {
    /// Creates the set of all forms.
    pub fn all() -> Patterns {
        let mut patterns = vec![None];
        for date in DATES {
            patterns.push(Some(date.to_string()));
            for (join, clock) in JOINS
                .iter()
                .flat_map(|join| CLOCKS.map(|clock| (join, clock)))
            {
                let zoned = ZONES.map(|zone| Some(format!("{date}{join}{clock}{zone}")));
                patterns.extend(zoned);
            }
        }
        let candidates = patterns.into_iter();
        let candidates = candidates.map(|pattern| Candidate { pattern, times: 0 });
        Patterns {
            left: candidates.collect(),
            parsed: 0,
            first: String::new(),
        }
    }

    /// Drops the forms that do not parse a text. Returns false, and drops none, if no form parses it.
    pub fn see(&mut self, text: &str) -> bool {
        let times: Vec<Option<i64>> = self.left.iter().map(|form| form.parse(text)).collect();
        if times.iter().all(Option::is_none) {
            return false;
        }
        if self.parsed == 0 {
            self.first = text.to_string();
        }
        self.parsed += 1;
        let mut times = times.into_iter();
        self.left.retain_mut(|form| match times.next().flatten() {
            Some(time) => {
                form.times = fingerprint((form.times, time));
                true
            }
            None => false,
        });
        true
    }

    /// Returns true if another text could change the form.
    pub fn is_open(&self) -> bool {
        self.left.len() > 1 && self.left.iter().all(|form| form.pattern.is_some())
    }

    /// Returns the form.
    ///
    /// # Errors
    /// If forms are left that disagree about a time.
    pub fn format(&self) -> Result<Format, String> {
        if self.parsed == 0 || self.left.iter().any(|form| form.pattern.is_none()) {
            return Ok(Format::Standard);
        }
        let forms = self.left.iter();
        let mut forms = forms.filter_map(|form| Some((form.pattern.as_ref()?, form.times)));
        let Some((pattern, times)) = forms.next() else {
            return Ok(Format::Standard);
        };
        match forms.find(|(_, others)| *others != times) {
            None => Ok(Format::Pattern(pattern.clone())),
            Some((other, _)) => Err(format!(
                "times such as {:?} can be {pattern} or {other}, and no time of the file decides; add --time-format \
                 '{pattern}' or --time-format '{other}'",
                self.first
            )),
        }
    }
}

/// Returns true if a text is a date, with or without a time of day, in one of the usual forms.
pub fn is_date(text: &str) -> bool {
    Patterns::all().see(text)
}

/// Returns true if a text is a time of day without a date.
pub fn is_clock(text: &str) -> bool {
    // Digits alone are a number.
    let is_number = text.parse::<f64>().is_ok();
    let clocks = CLOCKS.iter().filter(|_| !is_number);
    let mut parsed = clocks.map(|clock| format!("%Y-%m-%d {clock}"));
    parsed.any(|pattern| parse_pattern(&pattern, &format!("2000-01-01 {text}")).is_some())
}

/// Returns true if a text is a date without a time of day.
pub fn is_day(text: &str) -> bool {
    is_date(text) && is_date(&format!("{text} 00:00"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(texts: &[&str]) -> Result<Format, String> {
        let mut patterns = Patterns::all();
        for text in texts {
            patterns.see(text);
        }
        patterns.format()
    }

    #[test]
    fn usual_forms_are_detected() {
        for (text, pattern, ns) in [
            (
                "31/12/2014 23:50",
                "%d/%m/%Y %H:%M",
                1_420_069_800_000_000_000,
            ),
            ("12/31/2014", "%m/%d/%Y", 1_419_984_000_000_000_000),
            ("2014/12/31", "%Y/%m/%d", 1_419_984_000_000_000_000),
            (
                "20141231T235000",
                "%Y%m%dT%H%M%S",
                1_420_069_800_000_000_000,
            ),
            ("20141231235000", "%Y%m%d %H%M%S", 1_420_069_800_000_000_000),
            (
                "20141231T235000Z",
                "%Y%m%dT%H%M%SZ",
                1_420_069_800_000_000_000,
            ),
            (
                "31.12.2014 23.50.00",
                "%d.%m.%Y %H.%M.%S",
                1_420_069_800_000_000_000,
            ),
            (
                "12/31/2014 11:50:00 PM",
                "%m/%d/%Y %I:%M:%S %p",
                1_420_069_800_000_000_000,
            ),
            (
                "31-Dec-2014 23:50:00.5",
                "%d-%b-%Y %H:%M:%S%.f",
                1_420_069_800_500_000_000,
            ),
            ("Dec 31, 2014", "%b %d, %Y", 1_419_984_000_000_000_000),
            ("2014-1-5 3:05", "%Y-%m-%d %H:%M", 1_388_891_100_000_000_000),
        ] {
            assert_eq!(
                format(&[text]),
                Ok(Format::Pattern(pattern.into())),
                "{text}"
            );
            assert_eq!(parse_pattern(pattern, text), Some(ns), "{text}");
        }
        assert_eq!(format(&["2014-12-31 23:50:00"]), Ok(Format::Standard));
        assert_eq!(format(&["2014-12-31T23:50:00+01:00"]), Ok(Format::Standard));
        assert_eq!(format(&["today", "1.5"]), Ok(Format::Standard));
        // A two-digit year has no usual order.
        assert_eq!(format(&["14/12/31"]), Ok(Format::Standard));
    }

    #[test]
    fn the_order_of_day_and_month_is_never_guessed() {
        let error = format(&["03/04/2014 10:00", "11/12/2014 10:00"]).unwrap_err();
        assert!(
            error.contains("'%d/%m/%Y %H:%M'") && error.contains("'%m/%d/%Y %H:%M'"),
            "{error}"
        );
        let decided = Ok(Format::Pattern("%d/%m/%Y %H:%M".into()));
        assert_eq!(format(&["03/04/2014 10:00", "13/04/2014 10:00"]), decided);
        // A text that is no time decides nothing.
        let late = format(&["03/04/2014", "bad", "04/13/2014"]);
        assert_eq!(late, Ok(Format::Pattern("%m/%d/%Y".into())));
        // The order does not matter for these.
        assert!(format(&["03/03/2014", "04/04/2014"]).is_ok());
    }

    #[test]
    fn days_and_times_of_day_are_parts_of_times() {
        assert!(is_day("10/03/2004") && is_day("2004-03-10"));
        assert!(!is_day("2004-03-10 18:00") && !is_day("18:00"));
        assert!(is_clock("18.00.00") && is_clock("6:00 PM") && is_clock("18:00:00.5"));
        assert!(!is_clock("180000") && !is_clock("25:00") && !is_clock("10/03/2004"));
    }
}
