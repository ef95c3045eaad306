//! Published figures of the papers. Reports show published figures beside measured figures and never
//! combine the two.

const BLOCKS: &str = include_str!("../papers/blocks.csv");
const FILES: &str = include_str!("../papers/files.csv");
const ALIGNMENT: &str = include_str!("../papers/alignment.csv");

/// Types of block operations in the papers' tables, in their order.
pub const KINDS: [&str; 8] = ["R", "RM", "RS", "RSM", "W", "WM", "WS", "WSM"];

/// A row of tables 3 to 5 of *FS*.
#[derive(Clone, Debug)]
pub struct BlockRow {
    /// Type of disk: `HDD` or `SSD`.
    pub disk: &'static str,
    /// File system.
    pub file_system: &'static str,
    /// Number of files written at the same time, F.
    pub files: f64,
    /// Bytes of a buffer, B, in KiB.
    pub buffer_kib: f64,
    /// Share of all bytes (percent) and mean size (KiB) of each of [`KINDS`]; `None` where the
    /// table has no value.
    pub kinds: Vec<(Option<f64>, Option<f64>)>,
    /// Throughput, v, in MB/s.
    pub mb_s: f64,
    /// Write amplification, K_wa: bytes to the device ÷ bytes of the application.
    pub kwa: f64,
}

/// Returns the rows of a CSV file of this repository, without comments and the header.
fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.skip(1).map(|line| line.split(',').collect())
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

/// Returns the block statistics of *FS*, tables 3 to 5.
pub fn blocks() -> Vec<BlockRow> {
    rows(BLOCKS)
        .map(|row| BlockRow {
            disk: row[1],
            file_system: row[2],
            files: number(row[3]).expect("the file is a part of this program"),
            buffer_kib: number(row[4]).expect("the file is a part of this program"),
            kinds: row[5..21]
                .chunks(2)
                .map(|pair| (number(pair[0]), number(pair[1])))
                .collect(),
            mb_s: number(row[21]).expect("the file is a part of this program"),
            kwa: number(row[22]).expect("the file is a part of this program"),
        })
        .collect()
}

/// Columns of the table of file operations.
pub const FILE_OPERATIONS: [&str; 6] = [
    "copy mixed",
    "delete mixed",
    "untar small",
    "copy small",
    "delete small",
    "copy large",
];

/// Returns the table of file operations: file system, and the seconds of each of
/// [`FILE_OPERATIONS`].
pub fn files() -> Vec<(&'static str, Vec<f64>)> {
    rows(FILES)
        .map(|row| {
            (
                row[0],
                row[1..].iter().filter_map(|field| number(field)).collect(),
            )
        })
        .collect()
}

/// Penalty of an operation on an unaligned partition: time unaligned ÷ time aligned.
#[derive(Clone, Debug)]
pub struct Penalty {
    /// Disk, with its year in parentheses.
    pub disk: String,
    /// Name of the operation.
    pub operation: &'static str,
    /// Least, mean and greatest penalty over the file systems; `None` where the paper has no value.
    pub values: [Option<f64>; 3],
}

/// Returns the published penalties of unaligned partitions.
pub fn alignment() -> Vec<Penalty> {
    rows(ALIGNMENT)
        .map(|row| Penalty {
            disk: format!("{} ({})", row[0], row[1]),
            operation: row[2],
            values: [number(row[3]), number(row[4]), number(row[5])],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lab measures no arrays. The table is a reference for docs/raid.md.
    const ARRAY: &str = include_str!("../papers/raid.csv");

    #[test]
    fn the_table_of_the_array_is_complete_and_supports_the_claim_of_the_paper() {
        let cells: Vec<_> = rows(ARRAY).collect();
        // Two patterns × three strategies × three numbers of threads × six depths, and nine mixed
        // patterns × three strategies.
        assert_eq!(cells.len(), 2 * 3 * 3 * 6 + 9 * 3);
        let rate = |cell: &[&str], strategy: &str| {
            let other = cells.iter().find(|other| {
                other[0] == cell[0] && other[1] == strategy && other[2..4] == cell[2..4]
            });
            number(other.expect("all strategies have the cell")[4]).expect("a rate")
        };
        for cell in &cells {
            let best = rate(cell, "without").max(rate(cell, "with"));
            assert!(rate(cell, "adaptive") > 0.75 * best, "{cell:?}");
        }
    }

    #[test]
    fn the_data_are_complete() {
        let blocks = blocks();
        assert_eq!(blocks.len(), 23);
        for row in &blocks {
            assert_eq!(row.kinds.len(), KINDS.len());
            let sum: f64 = row.kinds.iter().filter_map(|(share, _)| *share).sum();
            assert!(
                (97.0..=103.5).contains(&sum),
                "shares of {row:?} sum up to {sum}"
            );
        }
        assert!(
            files()
                .iter()
                .all(|(_, seconds)| seconds.len() == FILE_OPERATIONS.len())
        );
        assert_eq!(files().len(), 5);
        assert_eq!(alignment().len(), 16);
        for penalty in alignment() {
            let [least, mean, greatest] = penalty.values;
            assert!(
                least.is_none_or(|least| least <= mean.unwrap_or(9.0)),
                "{penalty:?}"
            );
            assert!(
                mean.is_none_or(|mean| mean <= greatest.unwrap_or(99.0)),
                "{penalty:?}"
            );
        }
    }
}
