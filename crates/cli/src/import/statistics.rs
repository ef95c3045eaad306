//! Statistics of a column's cells, from which the column's type is derived.
//!
//! 1. If more than 99 % of the cells are numbers, the column is numeric, and the other cells are rejected.
//! 2. If fewer than half are numbers, the column is text.
//! 3. Otherwise the user must decide, because the type of a field is permanent.

use super::singles::Singles;
use super::value::boolean;
use seiner_model::FieldType;

/// Maximum number of non-numeric cells quoted in a message.
const QUOTED: usize = 3;

/// Largest integer up to which doubles represent all integers.
const MOST_EXACT: u64 = 1 << 53;

/// Counts of cells by the types that can represent them.
#[derive(Default)]
pub struct CellStatistics {
    present: u64,
    booleans: u64,
    numbers: u64,
    signed: u64,
    unsigned: u64,
    /// Number of integers that doubles may not represent.
    large: u64,
    singles: Singles,
    /// First cells that are not numbers, with their line numbers.
    odd: Vec<(u64, String)>,
}

/// Type of a column, with notes for the user.
pub struct Verdict {
    pub field_type: FieldType,
    /// Note about a column of texts.
    pub note: Option<String>,
    /// Reason why the type cannot be decided, with remedies.
    pub doubt: Option<String>,
}

impl CellStatistics {
    /// Counts a cell. `number` is the cell in Rust's notation of numbers.
    pub fn count(&mut self, text: &str, number: &str, line: u64) {
        self.present += 1;
        if let Ok(integer) = number.parse::<i64>() {
            self.signed += 1;
            self.unsigned += u64::from(!number.starts_with('-'));
            self.large += u64::from(integer.unsigned_abs() > MOST_EXACT);
            self.numbers += 1;
            self.singles.see(number);
        } else if number.parse::<u64>().is_ok() {
            self.unsigned += 1;
            self.large += 1;
            self.numbers += 1;
            self.singles.see(number);
        } else if number.parse::<f64>().is_ok() {
            self.numbers += 1;
            self.singles.see(number);
        } else {
            self.booleans += u64::from(boolean(text).is_some());
            if self.odd.len() < QUOTED {
                let short: String = text.chars().take(40).collect();
                self.odd.push((line, short));
            }
        }
    }

    /// Returns true if no cell was counted.
    pub fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// Returns true if doubles represent all numbers as their texts denote them, rounded to the precision of doubles.
    pub fn are_doubles(&self) -> bool {
        self.large == 0
    }

    /// Returns the comparison of the numbers with 32-bit floats.
    pub fn singles(&self) -> &Singles {
        &self.singles
    }

    /// Returns the narrowest type that represents all cells, apart from a few odd ones.
    pub fn verdict(&self, name: &str) -> Verdict {
        let of = |field_type| Verdict {
            field_type,
            note: None,
            doubt: None,
        };
        if self.booleans == self.present {
            return of(FieldType::Bool);
        }
        if self.numbers * 100 > self.present * 99 {
            return of(match self.numbers {
                all if all == self.signed => FieldType::I64,
                all if all == self.unsigned => FieldType::U64,
                _ => FieldType::F64,
            });
        }
        let text = of(FieldType::Str);
        if self.numbers == 0 && self.booleans == 0 {
            let note = Some(format!("column {name:?} is text"));
            return Verdict { note, ..text };
        }
        let odd: Vec<String> = self
            .odd
            .iter()
            .map(|(line, text)| format!("line {line} {text:?}"))
            .collect();
        let what = format!(
            "{} of the {} cells of column {name:?} are numbers and {} booleans, others not ({})",
            self.numbers,
            self.present,
            self.booleans,
            odd.join(", ")
        );
        if self.numbers * 2 < self.present {
            let note = Some(format!("column {name:?} is text: {what}"));
            return Verdict { note, ..text };
        }
        let doubt = Some(format!(
            "{what}; --types {name}=f64 rejects the others, --types {name}=string stores all as texts, and --missing \
             TEXTS names those that stand for no value"
        ));
        Verdict { doubt, ..text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(cells: &[&str]) -> Verdict {
        let mut statistics = CellStatistics::default();
        for (row, cell) in cells.iter().enumerate() {
            statistics.count(cell, cell, row as u64 + 2);
        }
        statistics.verdict("x")
    }

    fn decided(cells: &[&str]) -> FieldType {
        let verdict = verdict(cells);
        assert!(verdict.doubt.is_none(), "{cells:?}");
        verdict.field_type
    }

    #[test]
    fn types_are_the_narrowest_that_hold_all_values() {
        assert_eq!(decided(&["1", "-5"]), FieldType::I64);
        assert_eq!(decided(&["1", "2.5", "3", "NaN"]), FieldType::F64);
        assert_eq!(decided(&["18446744073709551615", "1"]), FieldType::U64);
        assert_eq!(decided(&["18446744073709551615", "-1"]), FieldType::F64);
        assert_eq!(decided(&["true", "False"]), FieldType::Bool);
        assert_eq!(decided(&["on", "off"]), FieldType::Str);
        assert_eq!(decided(&[]), FieldType::Bool);
    }

    #[test]
    fn odd_cells_in_a_column_of_numbers_are_reported() {
        let mut cells = vec!["1.5"; 101];
        cells.push("bad");
        assert_eq!(decided(&cells), FieldType::F64);
        let doubt = verdict(&["1.5", "bad", "NaN"]).doubt.unwrap();
        assert!(
            doubt.contains("2 of the 3 cells")
                && doubt.contains("line 3 \"bad\"")
                && doubt.contains("--types x=string"),
            "{doubt}"
        );
        assert!(verdict(&["1", "true"]).doubt.is_some());
        // A column of names is text, even if some of the names are digits.
        let names = verdict(&["A1", "7", "B2", "C3"]);
        assert_eq!(names.field_type, FieldType::Str);
        assert!(names.doubt.is_none() && names.note.is_some());
    }
}
