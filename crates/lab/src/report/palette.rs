//! Fixed colours of stores, so that a store has the same colour in all charts of all reports.

/// Stores and their references, in the order of their colours.
const STORES: [&str; 9] = [
    "files",
    "in-place",
    "akumuli",
    "yawndb",
    "log",
    "log-only",
    "sqlite",
    "rocksdb",
    "one file in sequence",
];

/// Returns the fixed colour of a store's series, for any portion size and either of two runs.
pub fn store_colour(name: &str) -> Option<usize> {
    let run = ["A: ", "B: "].iter().find_map(|run| name.strip_prefix(run));
    let name = run.unwrap_or(name);
    STORES.iter().position(|store| {
        let rest = name.strip_prefix(store);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" B="))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: colours followed the position of a series, so akumuli was green in one chart of
    /// a page and blue in the next chart.
    #[test]
    fn a_store_has_one_colour_in_all_charts() {
        assert_eq!(store_colour("files B=4K"), Some(0));
        assert_eq!(store_colour("files B=64K"), Some(0));
        assert_eq!(store_colour("B: log"), Some(4));
        assert_eq!(store_colour("log-only"), Some(5));
        assert_eq!(store_colour("one file in sequence"), Some(8));
        assert_eq!(store_colour("paper: files B=4K, HDD ext4"), None);
        assert_eq!(store_colour("reads"), None);
        assert!(STORES.len() <= seiner_chart::COLOURS);
    }
}
