//! Census of a column's cells, from which its type follows.
//!
//! A column of numbers with single cells that are none stays one: those cells are refused, if they are fewer than
//! one in a hundred. A column in which numbers are the minority is text. Between these bounds somebody has to
//! decide, as the type of a field stays.

use super::columns::boolean;
use seiner_model::FieldType;

/// Odd cells that are quoted in a sentence.
const QUOTED: usize = 3;

/// Counts of cells by what they can be read as.
#[derive(Default)]
pub struct Census {
    present: u64,
    booleans: u64,
    numbers: u64,
    signed: u64,
    unsigned: u64,
    /// The first cells that are no numbers, with their lines.
    odd: Vec<(u64, String)>,
}

/// Type of a column, and what the user should know about it.
pub struct Verdict {
    pub field_type: FieldType,
    /// Sentence about a column of texts.
    pub note: Option<String>,
    /// Why the type cannot be decided, with the remedies.
    pub doubt: Option<String>,
}

impl Census {
    /// Counts a cell; `number` is its text as Rust reads numbers.
    pub fn count(&mut self, text: &str, number: &str, line: u64) {
        self.present += 1;
        if number.parse::<i64>().is_ok() {
            self.signed += 1;
            self.unsigned += u64::from(!number.starts_with('-'));
            self.numbers += 1;
        } else if number.parse::<u64>().is_ok() {
            self.unsigned += 1;
            self.numbers += 1;
        } else if number.parse::<f64>().is_ok() {
            self.numbers += 1;
        } else {
            self.booleans += u64::from(boolean(text).is_some());
            if self.odd.len() < QUOTED {
                let short: String = text.chars().take(40).collect();
                self.odd.push((line, short));
            }
        }
    }

    /// The narrowest type that holds all cells, or all but some odd ones.
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
            "{what}; --types {name}=f64 refuses the others, --types {name}=string stores all as texts, and --missing \
             TEXTS names those that stand for no value"
        ));
        Verdict { doubt, ..text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(cells: &[&str]) -> Verdict {
        let mut census = Census::default();
        for (row, cell) in cells.iter().enumerate() {
            census.count(cell, cell, row as u64 + 2);
        }
        census.verdict("x")
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
    fn odd_cells_never_make_a_column_of_numbers_text_unnoticed() {
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
        // Names with some digits among them are texts.
        let names = verdict(&["A1", "7", "B2", "C3"]);
        assert_eq!(names.field_type, FieldType::Str);
        assert!(names.doubt.is_none() && names.note.is_some());
    }
}
