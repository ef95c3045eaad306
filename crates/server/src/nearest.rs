//! Nearest of several names, for "did you mean".

/// Maximum number of letters by which a suggested name may differ.
const MOST: usize = 3;

/// Returns the name among `known` that differs least from `name`, ignoring case: by at most three letters, and by at
/// most half of them.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let near = known
        .into_iter()
        .map(|known| (distance(&lower, &known.to_lowercase()), known))
        .min()?;
    let bound = MOST.min(name.chars().count() / 2);
    (near.0 <= bound).then_some(near.1)
}

/// Returns the number of letters to change, add or remove to turn one text into the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let known = ["cpu", "memory", "disk"];
        assert_eq!(nearest("CPU", known), Some("cpu"));
        assert_eq!(nearest("memmory", known), Some("memory"));
        assert_eq!(nearest("temperature", known), None);
        assert_eq!(nearest("x", known), None);
        assert_eq!(nearest("cpu", []), None);
    }
}
