//! Expressions over series: values at the same time belong together.

use super::fill::Series;
use crate::cell::Cell;
use crate::evaluate::Node;
use std::collections::BTreeMap;

/// Row of values, one for each series.
pub type Row = (i64, Vec<Option<Cell>>);

/// Returns the rows of series: one for each time that one of the chosen series has. Several values of one series at
/// the same time are several rows.
pub fn rows(series: &[Series], chosen: &[usize]) -> Vec<Row> {
    let mut rows: BTreeMap<(i64, usize), Vec<Option<Cell>>> = BTreeMap::new();
    for place in chosen {
        let mut last = (i64::MIN, 0);
        for (time, value) in &series[*place] {
            let repeated = match last.0 == *time {
                true => last.1 + 1,
                false => 0,
            };
            last = (*time, repeated);
            let row = rows.entry(last);
            let row = row.or_insert_with(|| vec![None; series.len()]);
            row[*place].clone_from(value);
        }
    }
    rows.into_iter()
        .map(|((time, _), row)| (time, row))
        .collect()
}

/// Returns the places that expressions read, each once.
pub fn places(nodes: &[Node]) -> Vec<usize> {
    let mut places = Vec::new();
    for node in nodes {
        node.places(&mut |place| places.push(place));
    }
    places.sort_unstable();
    places.dedup();
    places
}

/// Returns the values of an expression over series.
pub fn values(series: &[Series], node: &Node) -> Series {
    let chosen = places(std::slice::from_ref(node));
    let rows = rows(series, &chosen).into_iter();
    rows.map(|(time, row)| (time, node.value(&row))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Operator;

    #[test]
    fn values_of_the_same_time_belong_together() {
        let series: Vec<Series> = [[(1, 10), (2, 20)], [(2, 5), (3, 6)]]
            .map(|one| {
                one.map(|(time, value)| (time, Some(Cell::Integer(value))))
                    .to_vec()
            })
            .to_vec();
        let sum = Node::Binary(
            Operator::Add,
            Box::new(Node::Place(0)),
            Box::new(Node::Place(1)),
        );
        assert_eq!(
            values(&series, &sum),
            [(1, None), (2, Some(Cell::Integer(25))), (3, None)]
        );
    }
}
