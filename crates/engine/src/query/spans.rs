//! Clusters: runs of spans that overlap in time.

use seiner_model::Interval;

/// Spans that overlap, directly or through others, in their given order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cluster {
    /// Indexes of the spans, ascending.
    pub members: Vec<usize>,
}

/// Divides spans into clusters, in the order of time.
///
/// Spans of different clusters have no time in common, and a cluster cannot be divided further. A
/// span that overlaps no other span is a cluster of its own.
pub(crate) fn clusters(spans: &[Interval]) -> Vec<Cluster> {
    let mut order: Vec<usize> = (0..spans.len()).collect();
    if !spans.windows(2).all(|pair| pair[0].start <= pair[1].start) {
        order.sort_by_key(|&span| spans[span].start);
    }
    let mut found: Vec<Cluster> = Vec::with_capacity(spans.len());
    let mut end = None;
    for span in order {
        match found.last_mut() {
            Some(last) if end.is_some_and(|end| spans[span].start <= end) => {
                last.members.push(span);
            }
            _ => found.push(Cluster {
                members: vec![span],
            }),
        }
        end = end.max(Some(spans[span].end));
    }
    for cluster in &mut found {
        cluster.members.sort_unstable();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(spans: &[(i64, i64)]) -> Vec<Vec<usize>> {
        let spans: Vec<Interval> = spans
            .iter()
            .map(|&(start, end)| Interval::new(start, end))
            .collect();
        let members = clusters(&spans).into_iter().map(|cluster| cluster.members);
        members.collect()
    }

    #[test]
    fn blocks_in_order_are_clusters_of_their_own() {
        assert_eq!(found(&[]), Vec::<Vec<usize>>::new());
        assert_eq!(found(&[(0, 9), (10, 19), (20, 29)]), [[0], [1], [2]]);
    }

    #[test]
    fn a_late_block_joins_only_its_neighbours() {
        let spans = [(0, 9), (10, 19), (20, 29), (30, 39), (40, 49), (12, 23)];
        assert_eq!(found(&spans), [vec![0], vec![1, 2, 5], vec![3], vec![4]]);
        // In a gap, it joins no cluster.
        assert_eq!(found(&[(0, 9), (20, 29), (12, 15)]), [[0], [2], [1]]);
    }

    #[test]
    fn spans_that_share_one_time_overlap() {
        assert_eq!(found(&[(0, 10), (10, 20), (21, 30)]), [vec![0, 1], vec![2]]);
    }

    #[test]
    fn nested_spans_hold_their_cluster_together() {
        // The second ends before the third begins; the first covers both.
        let spans = [(0, 100), (10, 20), (30, 40), (101, 110)];
        assert_eq!(found(&spans), [vec![0, 1, 2], vec![3]]);
    }

    #[test]
    fn a_chain_is_one_cluster() {
        let spans = [(18, 30), (9, 19), (0, 10), (40, 50)];
        assert_eq!(found(&spans), [vec![0, 1, 2], vec![3]]);
    }

    #[test]
    fn an_open_block_with_late_rows_joins_what_it_overlaps() {
        // The last span is the open block's.
        let spans = [(0, 9), (10, 19), (20, 29), (15, 40)];
        assert_eq!(found(&spans), [vec![0], vec![1, 2, 3]]);
        assert_eq!(found(&[(0, 9), (10, 19), (20, 40)]), [[0], [1], [2]]);
    }

    #[test]
    fn the_first_and_last_timestamps_are_ordinary_times() {
        let spans = [(i64::MIN, i64::MIN), (i64::MAX, i64::MAX), (0, i64::MAX)];
        assert_eq!(found(&spans), [vec![0], vec![1, 2]]);
    }
}
