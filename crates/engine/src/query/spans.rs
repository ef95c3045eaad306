//! Clusters: runs of spans that overlap in time.

use seiner_model::Interval;

/// Number of spans that an ordinary span overlaps at most.
const ORDINARY: usize = 16;
/// Maximum number of wide spans that are divided. If more spans are wide, most spans overlap.
const WIDE: usize = 64;

/// Spans that overlap, directly or through others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cluster {
    /// Members, ascending, without duplicates.
    pub members: Vec<usize>,
    /// Interval that contains all spans of the cluster, and no other span.
    pub span: Interval,
}

/// Divides spans into clusters, in the order of time. A span belongs to a member, which may have
/// several spans.
///
/// Spans of different clusters have no time in common, and a cluster cannot be divided further. A
/// span that overlaps no other span is a cluster of its own.
pub(crate) fn clusters(spans: &[(usize, Interval)]) -> Vec<Cluster> {
    let mut order: Vec<usize> = (0..spans.len()).collect();
    if !spans.is_sorted_by_key(|(_, span)| span.start) {
        order.sort_by_key(|&at| spans[at].1.start);
    }
    let mut found: Vec<Cluster> = Vec::with_capacity(spans.len());
    for at in order {
        let (member, span) = spans[at];
        match found.last_mut() {
            Some(last) if span.start <= last.span.end => {
                last.members.push(member);
                last.span.end = last.span.end.max(span.end);
            }
            _ => found.push(Cluster {
                members: vec![member],
                span,
            }),
        }
    }
    for cluster in &mut found {
        cluster.members.sort_unstable();
        cluster.members.dedup();
    }
    found
}

/// Returns the positions of wide spans: those that overlap many others. A few late rows of very
/// different times make such a span, and join clusters that have no row in common. Returns nothing
/// if there are too many wide spans.
pub(crate) fn wide(spans: &[(usize, Interval)]) -> Vec<usize> {
    if spans.len() <= ORDINARY + 1 {
        return Vec::new();
    }
    let mut starts: Vec<i64> = spans.iter().map(|(_, span)| span.start).collect();
    if !starts.is_sorted() {
        starts.sort_unstable();
    }
    let is_wide = |(_, span): &(usize, Interval)| {
        let before = starts.partition_point(|start| *start < span.start);
        let until = starts.partition_point(|start| *start <= span.end);
        until - before > ORDINARY + 1
    };
    let wide = (0..spans.len()).filter(|&at| is_wide(&spans[at]));
    let wide: Vec<usize> = wide.take(WIDE + 1).collect();
    match wide.len() > WIDE {
        true => Vec::new(),
        false => wide,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(spans: &[(i64, i64)]) -> Vec<Vec<usize>> {
        let spans: Vec<(usize, Interval)> = spans
            .iter()
            .map(|&(start, end)| Interval::new(start, end))
            .enumerate()
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

    #[test]
    fn a_member_with_several_spans_is_in_several_clusters() {
        let span = |start, end| Interval::new(start, end);
        let spans = [
            (0, span(0, 9)),
            (1, span(10, 19)),
            (2, span(3, 3)),
            (2, span(5, 5)),
            (2, span(30, 30)),
        ];
        let found = clusters(&spans);
        let expected = [
            (vec![0, 2], span(0, 9)),
            (vec![1], span(10, 19)),
            (vec![2], span(30, 30)),
        ];
        let expected = expected.map(|(members, span)| Cluster { members, span });
        assert_eq!(found, expected);
    }

    #[test]
    fn a_span_over_many_others_is_wide() {
        let mut spans: Vec<(usize, Interval)> = (0..100)
            .map(|at| (at, Interval::new(at as i64 * 10, at as i64 * 10 + 9)))
            .collect();
        assert_eq!(wide(&spans), []);
        spans.push((100, Interval::new(5, 165)));
        assert_eq!(wide(&spans), [], "only 16 others begin in the span");
        spans[100].1.end = 175;
        assert_eq!(wide(&spans), [100]);
        spans.extend((101..200).map(|at| (at, Interval::new(0, 999))));
        assert_eq!(wide(&spans), [], "too many wide spans to divide");
    }
}
