//! Detection of the columns with the time of a row, and of the format of the times.
//!
//! A wrong guess stores rows at wrong times. Only what the file decides is therefore assumed, and every assumption is
//! reported. Otherwise the error names the candidates and the flags.

use super::columns::{Roles, list, place};
use super::patterns::{Patterns, is_clock, is_day};
use super::records::Input;
use super::times::{Format, SECONDS, TimeColumn, Unit, joined, number};
use super::value::Decimal;
use crate::failure::Failure;
use csv::StringRecord;
use seiner_model::{parse_units, plausible_unit, rfc3339};

/// Usual names of time columns, in order of preference, compared without regard to case.
pub const TIME_NAMES: [&str; 7] = [
    "ts",
    "timestamp",
    "time",
    "datetime",
    "date_time",
    "_time",
    "date",
];

/// Usual names of columns with dates beside a column with times of day.
const DAY_NAMES: [&str; 2] = ["date", "day"];

/// Parts of the names of columns with times.
const TIME_WORDS: [&str; 5] = ["time", "date", "stamp", "epoch", "when"];

/// Parts of the names of columns with times of day.
const CLOCK_WORDS: [&str; 5] = ["time", "hour", "clock", "uhr", "zeit"];

/// Number of rows from which the columns are chosen.
const SAMPLE_ROWS: usize = 1000;

/// First rows of a file.
struct Sample<'a> {
    header: &'a StringRecord,
    records: &'a [StringRecord],
    /// True if the file names its columns.
    has_names: bool,
}

/// Content of a column, as far as it concerns times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// Dates with times of day.
    Dates,
    /// Dates without times of day.
    Days,
    /// Times of day.
    Clocks,
    /// Numbers that are all between 1990 and 2100 in this unit, in ascending order or not.
    Numbers {
        unit: Unit,
        is_ascending: bool,
    },
    Other,
}

/// Finds the columns with the time and the format of the times. Returns notes about assumptions.
///
/// # Errors
/// If columns are missing or ambiguous, or the format is ambiguous.
pub fn time_column(
    roles: &Roles,
    input: &mut Input,
    decimal: Decimal,
) -> Result<(TimeColumn, Vec<String>), Failure> {
    let mut records = Vec::new();
    while records.len() < SAMPLE_ROWS && input.next_record()? {
        records.push(input.record.clone());
    }
    let header = input.header.clone();
    let sample = Sample {
        header: &header,
        records: &records,
        has_names: input.has_names,
    };
    let mut notes = Vec::new();
    let places = sample
        .places(roles, decimal, &mut notes)
        .map_err(|reason| Failure::Usage(format!("{}: {reason}", input.name)))?;
    let title = places.iter().map(|place| &header[*place]);
    let mut column = TimeColumn {
        title: title.collect::<Vec<_>>().join(" and "),
        places,
        format: Format::Standard,
        unit: roles.unit.unwrap_or(SECONDS),
        is_unit_inferred: false,
        decimal,
    };
    let found = match &roles.format {
        Some(pattern) => {
            column.format = Format::Pattern(pattern.clone());
            Ok(())
        }
        None => format(roles, &mut column, &records, input)?,
    };
    found.map_err(|reason| Failure::Usage(format!("{}: {reason}", input.name)))?;
    let is_assumed = !notes.is_empty();
    let is_unit_given = roles.unit.is_some();
    notes.extend(assumption(&column, &records, is_assumed, is_unit_given));
    Ok((column, notes))
}

/// Returns the note about an inferred unit or form, with an example. If the column was inferred, dates and seconds are
/// noted too.
fn assumption(
    column: &TimeColumn,
    records: &[StringRecord],
    is_column_inferred: bool,
    is_unit_given: bool,
) -> Option<String> {
    let (first, time) = records
        .iter()
        .find_map(|record| Some((column.text(record), column.time(record).ok()?)))?;
    let name = &column.title;
    let is_number = number(&first, column.decimal).parse::<f64>().is_ok();
    match &column.format {
        Format::Pattern(pattern) => Some(format!(
            "times in {name:?} are read as {pattern}: {first:?} is {}",
            rfc3339(time)
        )),
        Format::Standard
            if column.is_unit_inferred && column.unit != SECONDS || is_column_inferred =>
        {
            Some(format!(
                "times in {name:?} are read as {}: {first} is {}",
                column.form(),
                rfc3339(time)
            ))
        }
        // A number that no unit places between 1990 and 2100.
        Format::Standard if is_number && !column.is_unit_inferred && !is_unit_given => {
            Some(format!(
                "times in {name:?} are read as numbers in s since 1970: {first} is {}; --time-unit states another unit",
                rfc3339(time)
            ))
        }
        Format::Standard => None,
    }
}

/// Finds the format of the times in a column. Reads more records if the sample does not decide.
fn format(
    roles: &Roles,
    column: &mut TimeColumn,
    records: &[StringRecord],
    input: &mut Input,
) -> Result<Result<(), String>, Failure> {
    let (mut numbers, mut patterns) = (Numbers::default(), Patterns::all());
    let texts = records.iter().map(|record| column.text(record));
    let texts = texts.filter(|text| !text.is_empty());
    for text in texts {
        numbers.see(&number(&text, column.decimal));
        patterns.see(&text);
    }
    // Digits alone can be a date such as 20141231. They are numbers if some of them are not.
    let has_unit = roles.unit.is_some() && numbers.count > 0;
    if numbers.count > patterns.parsed || patterns.parsed == 0 || has_unit {
        if roles.unit.is_some() || numbers.count == 0 {
            return Ok(Ok(()));
        }
        return Ok(numbers.unit().map(|unit| {
            (column.unit, column.is_unit_inferred) = match unit {
                Some(unit) => (unit, true),
                None => (SECONDS, false),
            }
        }));
    }
    while patterns.is_open() && patterns.format().is_err() && input.next_record()? {
        let text = joined(&input.record, &column.places);
        if !text.is_empty() {
            patterns.see(&text);
        }
    }
    Ok(patterns.format().map(|format| column.format = format))
}

/// Numbers in a column of times.
#[derive(Default)]
struct Numbers {
    count: u64,
    /// Units in which some numbers are between 1990 and 2100.
    units: Vec<Unit>,
    /// Number of numbers that no unit places there.
    implausible: u64,
}

impl Numbers {
    fn see(&mut self, text: &str) {
        if parse_units(text, 1_000_000_000).is_none() && text.parse::<f64>().is_err() {
            return;
        }
        self.count += 1;
        let whole = text.split('.').next().unwrap_or_default();
        match whole.parse().ok().and_then(plausible_unit) {
            Some(unit) if !self.units.contains(&unit) => self.units.push(unit),
            Some(_) => {}
            None => self.implausible += 1,
        }
    }

    /// Returns the unit; `None` if no number is plausible in any unit.
    fn unit(&self) -> Result<Option<Unit>, String> {
        match self.units.as_slice() {
            [] => Ok(None),
            [only] if self.implausible == 0 => Ok(Some(*only)),
            units => {
                let names: Vec<&str> = units.iter().map(|unit| unit.0).collect();
                let others = match self.implausible {
                    0 => String::new(),
                    some => format!(", and {some} in no unit"),
                };
                Err(format!(
                    "the first {} times are between 1990 and 2100 in {}{others}; state the unit by --time-unit",
                    self.count,
                    names.join(" or ")
                ))
            }
        }
    }
}

impl Sample<'_> {
    /// Returns the columns with the time.
    fn places(
        &self,
        roles: &Roles,
        decimal: Decimal,
        notes: &mut Vec<String>,
    ) -> Result<Vec<usize>, String> {
        let named = match &roles.time {
            Some(name) => Some(place(self.header, name)?),
            None => self.usual(&TIME_NAMES),
        };
        if let Some(day) = &roles.date {
            let day = place(self.header, day)?;
            return match named.filter(|named| *named != day) {
                Some(clock) => Ok(vec![day, clock]),
                None => Err("--date-column needs --time-column, with the times of day".to_string()),
            };
        }
        let Some(named) = named else {
            return self.by_content(roles, decimal, notes);
        };
        match self.content(named, decimal) {
            Content::Clocks => {
                let day = self.partner(Content::Days, &DAY_NAMES, decimal).ok_or_else(|| {
                    format!(
                        "column {:?} has times of day; name the column with the dates by --date-column; there are {}",
                        &self.header[named],
                        list(self.header)
                    )
                })?;
                Ok(self.noted(vec![day, named], notes))
            }
            Content::Days if roles.time.is_none() => {
                let clock = self.partner(Content::Clocks, &TIME_NAMES, decimal);
                // A time of day can be a reading, such as that of the sunrise.
                let clock = clock.filter(|clock| self.is_clock_word(*clock));
                Ok(match clock {
                    Some(clock) => self.noted(vec![named, clock], notes),
                    None => vec![named],
                })
            }
            _ => Ok(vec![named]),
        }
    }

    /// Returns the columns after noting that they were chosen.
    fn noted(&self, places: Vec<usize>, notes: &mut Vec<String>) -> Vec<usize> {
        let names = places
            .iter()
            .map(|place| format!("{:?}", &self.header[*place]));
        let names: Vec<String> = names.collect();
        notes.push(format!(
            "the time is in {} {}; --time-column names another",
            if names.len() > 1 { "columns" } else { "column" },
            names.join(" and ")
        ));
        places
    }

    /// Returns the first column with one of some names.
    fn usual(&self, names: &[&str]) -> Option<usize> {
        let named = |name: &&str| {
            let mut titles = self.header.iter();
            titles.position(|column| column.trim().eq_ignore_ascii_case(name))
        };
        names.iter().find_map(named)
    }

    /// Returns the only column with a content, or the first of these with one of some names.
    fn partner(&self, content: Content, names: &[&str], decimal: Decimal) -> Option<usize> {
        let places = (0..self.header.len()).filter(|at| self.content(*at, decimal) == content);
        let places: Vec<usize> = places.collect();
        match places.as_slice() {
            [only] => Some(*only),
            _ => self.usual(names).filter(|usual| places.contains(usual)),
        }
    }

    /// Returns true if the name of a column allows that it contains the time of day of the row.
    fn is_clock_word(&self, place: usize) -> bool {
        let title = self.header[place].to_ascii_lowercase();
        !self.has_names || CLOCK_WORDS.iter().any(|word| title.contains(word))
    }

    /// Returns the columns with the time, if the contents leave no choice.
    fn by_content(
        &self,
        roles: &Roles,
        decimal: Decimal,
        notes: &mut Vec<String>,
    ) -> Result<Vec<usize>, String> {
        let (mut dates, mut days, mut clocks, mut numbers) = (vec![], vec![], vec![], vec![]);
        let mut weak = Vec::new();
        let has_role = |name: &str| {
            let mut fields = roles.fields.iter().flatten().chain(&roles.tags);
            fields.any(|given| given == name) || roles.types.contains_key(name)
        };
        for at in 0..self.header.len() {
            if has_role(&self.header[at]) {
                continue;
            }
            match self.content(at, decimal) {
                Content::Dates => dates.push(at),
                Content::Days => days.push(at),
                Content::Clocks => clocks.push(at),
                Content::Numbers { unit, is_ascending } => {
                    // A counter can look like a time.
                    let is_named = is_time_word(&self.header[at]) || !self.has_names && at == 0;
                    match is_ascending && is_named {
                        true => numbers.push(at),
                        false => weak.push((at, unit)),
                    }
                }
                Content::Other => {}
            }
        }
        let found = match (&dates[..], &days[..], &clocks[..], &numbers[..]) {
            ([only], [], [], []) | ([], [only], [], []) | ([], [], [], [only]) => vec![*only],
            ([], [day], [clock], []) if self.is_clock_word(*clock) => vec![*day, *clock],
            _ => {
                let all = dates.iter().chain(&days).chain(&clocks).chain(&numbers);
                let all = all.chain(weak.iter().map(|(at, _)| at)).copied();
                return Err(self.unknown(all));
            }
        };
        Ok(self.noted(found, notes))
    }

    /// Returns the error for a file whose columns with the time are not known.
    fn unknown(&self, candidates: impl Iterator<Item = usize>) -> String {
        let candidates = candidates.map(|at| self.header[at].to_string());
        let candidates: Vec<String> = candidates.collect();
        if self.header.is_empty() {
            return "the file is empty, or contains nothing that can be read".to_string();
        }
        let which = match candidates.as_slice() {
            [] => format!("there are {}", list(self.header)),
            some => format!("candidates by their contents are {}", some.join(", ")),
        };
        format!(
            "no column is called {}; name the one with the time by --time-column; {which}",
            TIME_NAMES.join(", ")
        )
    }

    fn content(&self, place: usize, decimal: Decimal) -> Content {
        let cells = self.records.iter().filter_map(|record| record.get(place));
        let cells: Vec<&str> = cells
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .collect();
        let Some(first) = cells.first() else {
            return Content::Other;
        };
        if is_clock(first) {
            return match cells.iter().all(|cell| is_clock(cell)) {
                true => Content::Clocks,
                false => Content::Other,
            };
        }
        if let Some(numbers) = numbers(&cells, decimal) {
            return numbers;
        }
        let mut patterns = Patterns::all();
        match cells.iter().all(|cell| patterns.see(cell)) {
            true if is_day(first) => Content::Days,
            true => Content::Dates,
            false => Content::Other,
        }
    }
}

fn is_time_word(title: &str) -> bool {
    let title = title.to_ascii_lowercase();
    title == "t" || TIME_WORDS.iter().any(|word| title.contains(word))
}

/// Returns the content of cells that are all times as numbers.
fn numbers(cells: &[&str], decimal: Decimal) -> Option<Content> {
    let mut units = cells.iter().map(|cell| {
        let text = number(cell, decimal);
        let whole = text.parse::<f64>().ok().and(text.split('.').next())?;
        let time = whole.parse().ok()?;
        Some((time, plausible_unit(time)?))
    });
    let (mut last, unit) = units.next()??;
    let mut is_ascending = true;
    for found in units {
        let (time, other) = found?;
        if other != unit {
            return None;
        }
        is_ascending &= last <= time;
        last = time;
    }
    Some(Content::Numbers { unit, is_ascending })
}
