//! Colours of the series of a picture: a store has the same one in all pictures of all reports.

/// Colours that the style has.
pub const COLOURS: usize = 10;
/// Stores and what is compared with them, by their fixed colours.
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

/// The fixed colour of a series that is a store's, whatever its portions and whichever of two runs.
fn of_store(name: &str) -> Option<usize> {
    let run = ["A: ", "B: "].iter().find_map(|run| name.strip_prefix(run));
    let name = run.unwrap_or(name);
    STORES.iter().position(|store| {
        let rest = name.strip_prefix(store);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" B="))
    })
}

/// Returns the colour of each series, by names and places of the series that they repeat, whose colours
/// they get. Others than stores have those that are left in the picture.
pub fn colours(series: &[(&str, Option<usize>)]) -> Vec<usize> {
    let mut taken = [false; COLOURS];
    let mut fixed = Vec::with_capacity(series.len());
    for (name, twin) in series {
        // The second line of a store, with other portions, needs another colour.
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

    /// The colour was that of the place: akumuli was green in one chart of a page and blue in the next.
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
        // No two of a picture are alike as long as there are colours.
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
        // A line that repeats another has its colour.
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
