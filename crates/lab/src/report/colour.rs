//! Colours of the series of a chart. A store has the same colour in all charts of all reports.

/// Number of colours in the style sheet.
pub const COLOURS: usize = 10;
/// Stores and their references, in the order of their fixed colours.
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
fn of_store(name: &str) -> Option<usize> {
    let run = ["A: ", "B: "].iter().find_map(|run| name.strip_prefix(run));
    let name = run.unwrap_or(name);
    STORES.iter().position(|store| {
        let rest = name.strip_prefix(store);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" B="))
    })
}

/// Returns the colour of each series. Each series is given by its name and, if it repeats another series, by
/// the index of that series, whose colour it gets. Series that are not stores get the remaining colours.
pub fn colours(series: &[(&str, Option<usize>)]) -> Vec<usize> {
    let mut taken = [false; COLOURS];
    let mut fixed = Vec::with_capacity(series.len());
    for (name, twin) in series {
        // The second line of a store, with another portion size, needs another colour.
        let own = of_store(name).filter(|colour| twin.is_none() && !taken[*colour]);
        fixed.extend([own]);
        own.into_iter().for_each(|colour| taken[colour] = true);
    }
    let mut free = (0..COLOURS).filter(|colour| !taken[*colour]).cycle();
    let mut colours: Vec<usize> = Vec::with_capacity(series.len());
    for (place, (_, twin)) in series.iter().enumerate() {
        let repeated = twin.and_then(|twin| colours.get(twin).copied());
        let colour = fixed[place].or(repeated).or_else(|| free.next());
        colours.push(colour.unwrap_or(place % COLOURS));
    }
    colours
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: colours followed the position of a series, so akumuli was green in one chart of
    /// a page and blue in the next chart.
    #[test]
    fn a_store_has_one_colour_in_all_charts() {
        let plain = |names: &[&str]| {
            let series: Vec<(&str, Option<usize>)> =
                names.iter().map(|name| (*name, None)).collect();
            colours(&series)
        };
        let all = plain(&[
            "one file in sequence",
            "files B=4K",
            "akumuli",
            "log",
            "paper: files B=4K, HDD ext4",
        ]);
        let some = plain(&["log", "akumuli", "files B=4K"]);
        assert_eq!(some, [all[3], all[2], all[1]]);
        assert_eq!(plain(&["log-only"]), [5]);
        // No two series of a chart have the same colour as long as there are enough colours.
        let mut portions = plain(&[
            "files B=4K",
            "files B=64K",
            "files B=1024K",
            "in-place",
            "F=1",
        ]);
        portions.sort_unstable();
        portions.dedup();
        assert_eq!(portions.len(), 5);
        // A line that repeats another has the same colour.
        let twins = colours(&[
            ("A: files B=4K", None),
            ("A: log", None),
            ("B: log", Some(1)),
            ("B: sqlite", None),
        ]);
        assert_eq!(twins, [0, 4, 4, 6]);
        assert_eq!(plain(&["reads", "writes"]), [0, 1]);
    }
}
