//! Colours of the series of a chart.

use crate::figure::LegendEntry;

/// Number of colours in the style sheet.
pub const COLOURS: usize = 10;

/// Returns the fixed colour of a series with this name, from 0 to [`COLOURS`] − 1; `None` if any colour will do.
/// A series with a fixed colour has the same colour in all charts.
pub type Palette = fn(&str) -> Option<usize>;

/// The palette without fixed colours.
pub fn any_colour(_name: &str) -> Option<usize> {
    None
}

/// Returns the colour of each series. A series that repeats another gets the colour of the other. Series without
/// a fixed colour get the remaining colours in their order.
pub(crate) fn colours(series: &[LegendEntry<'_>], palette: Palette) -> Vec<usize> {
    let mut taken = [false; COLOURS];
    let mut fixed = Vec::with_capacity(series.len());
    for entry in series {
        // The second series of a fixed colour in a chart needs another colour.
        let own = palette(entry.name)
            .filter(|colour| entry.twin.is_none() && *colour < COLOURS && !taken[*colour]);
        fixed.push(own);
        own.into_iter().for_each(|colour| taken[colour] = true);
    }
    let mut free = (0..COLOURS).filter(|colour| !taken[*colour]).cycle();
    let mut colours: Vec<usize> = Vec::with_capacity(series.len());
    for (place, entry) in series.iter().enumerate() {
        let repeated = entry.twin.and_then(|twin| colours.get(twin).copied());
        let colour = fixed[place].or(repeated).or_else(|| free.next());
        colours.push(colour.unwrap_or(place % COLOURS));
    }
    colours
}

/// Returns the CSS classes of a series: its colour and its style. References are faint.
pub(crate) fn class(colour: usize, twin: Option<usize>, is_reference: bool) -> String {
    let faint = if is_reference { " reference" } else { "" };
    let repeated = if twin.is_some() { " twin" } else { "" };
    format!("c{colour}{faint}{repeated}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_letter(name: &str) -> Option<usize> {
        ["a", "b", "c"]
            .iter()
            .position(|fixed| name.starts_with(fixed))
    }

    fn of(series: &[(&str, Option<usize>)]) -> Vec<usize> {
        let entries: Vec<LegendEntry<'_>> = series
            .iter()
            .map(|&(name, twin)| LegendEntry {
                name,
                twin,
                is_reference: false,
            })
            .collect();
        colours(&entries, by_letter)
    }

    #[test]
    fn known_names_have_fixed_colours_and_others_get_unused_ones() {
        assert_eq!(of(&[("c", None), ("x", None), ("a", None)]), [2, 1, 0]);
        // The second `a` needs a colour that nothing else in the chart has.
        let mut colours = of(&[("a1", None), ("a2", None), ("b", None), ("x", None)]);
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), 4);
    }

    #[test]
    fn a_series_that_repeats_another_has_the_same_colour() {
        let series = [("a", None), ("b", None), ("c", Some(1)), ("x", None)];
        assert_eq!(of(&series), [0, 1, 1, 2]);
    }
}
