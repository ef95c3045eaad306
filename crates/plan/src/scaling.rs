//! Rate of a cluster against its number of nodes.
//!
//! Each node receives rows from sources, bundles them, and sends each bundle to the nodes that keep its copies. Four
//! resources bound the rate of N nodes with R copies, and the smallest bound holds:
//!
//! - **Disks**: R copies of each byte, each written W times, are spread over N disks of rate d: `N·d / (R·W)`.
//! - **Network**: a copy belongs to another node with probability `1 − 1/N`. A node's link with rate g in each
//!   direction carries the copies from the other nodes, and the rows from sources, s bytes for each byte of bundles:
//!   `N·g / (R·(1 − 1/N) + s)`.
//! - **Requests**: a node has at most M requests of B bytes under way. A request takes the time `t`, and `t'` more if
//!   its copy belongs to another node: `N·M·B / (R·(t + (1 − 1/N)·t'))`. This is the paper's explanation of the
//!   influence of M ("Storage of sensor data in Riak", section 4.5).
//! - **Switch**: from three nodes on, N − 2 requests may wait in the buffer of a switch for a link that is in use. If
//!   they do not fit, the switch holds the senders back with pause frames (IEEE 802.3x). The network is then used for
//!   `buffer / ((N − 2)·B)` of the time.
//!
//! The paper describes causes and gives few figures. The model of the switch, and the assumption `t' = t` of
//! [`paper_lines`], are of this project.

/// Nodes of a cluster and their load. All rates are in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusterLoad {
    /// Rate of a node's disk.
    pub disk: f64,
    /// Rate of a node's link, in each direction.
    pub network: f64,
    /// Number of copies.
    pub copies: u32,
    /// Bytes that a node writes to its disk for each byte of a copy: log and files.
    pub written: f64,
    /// Bytes that sources send for each byte of bundles; 0 if the sources have another network.
    pub received: f64,
    /// Maximum number of requests of a node under way.
    pub requests: f64,
    /// Bytes of a request.
    pub request_bytes: f64,
    /// Time of a request for a copy on the same node, in seconds.
    pub local_s: f64,
    /// Additional time of a request for a copy on another node, in seconds.
    pub remote_s: f64,
    /// Bytes of the buffer of the switch. `None`: the buffer is sufficient.
    pub switch_buffer: Option<f64>,
}

/// Resource that bounds a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Rate of the disks.
    Disks,
    /// Rate of the links.
    Network,
    /// Number of requests under way.
    Requests,
    /// Buffer of the switch.
    Switch,
}

impl Bound {
    /// Returns the name of the resource.
    pub fn name(self) -> &'static str {
        match self {
            Bound::Disks => "disks",
            Bound::Network => "network",
            Bound::Requests => "requests under way",
            Bound::Switch => "buffer of the switch",
        }
    }
}

/// Rate of a cluster, with the resource that bounds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusterRate {
    /// Number of nodes.
    pub nodes: u32,
    /// Bytes of bundles per second, each counted once.
    pub bytes_per_s: f64,
    /// Resource that bounds the rate.
    pub bound: Bound,
}

impl ClusterLoad {
    /// Returns the rate of a cluster of so many nodes, at least as many as there are copies.
    pub fn rate(&self, nodes: u32) -> ClusterRate {
        let n = f64::from(nodes.max(1));
        let copies = f64::from(self.copies).min(n);
        let remote = 1.0 - 1.0 / n;
        let carried = copies * remote + self.received;
        let network = n * self.network / carried;
        let time = self.local_s + remote * self.remote_s;
        let bounds = [
            (Bound::Disks, n * self.disk / (copies * self.written)),
            (Bound::Network, network),
            (
                Bound::Requests,
                n * self.requests * self.request_bytes / (copies * time),
            ),
            (Bound::Switch, network * self.passed_by_switch(n)),
        ];
        let (bound, bytes_per_s) = bounds
            .into_iter()
            .min_by(|(_, a), (_, b)| a.total_cmp(b))
            .expect("there are bounds");
        ClusterRate {
            nodes,
            bytes_per_s,
            bound,
        }
    }

    /// Returns the part of the time in which the switch does not hold senders back.
    fn passed_by_switch(&self, nodes: f64) -> f64 {
        match self.switch_buffer {
            Some(buffer) if nodes > 2.0 => (buffer / ((nodes - 2.0) * self.request_bytes)).min(1.0),
            _ => 1.0,
        }
    }
}

/// Line of the paper's figure 13.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperLine {
    /// Letter of the line.
    pub letter: char,
    /// Description.
    pub what: &'static str,
    /// Nodes and their load.
    pub load: ClusterLoad,
}

/// Returns the lines C to F of figure 13 of "Storage of sensor data in Riak" (section 4.5), from the paper's figures: a
/// node writes 85 MB/s, objects have 128 KiB, one copy, links of 120 MB/s, and on line F a switch with 1 Mbit of
/// memory. The paper gives no times of requests. On line C, M is just sufficient for one node, and a request for
/// another node takes twice as long. On the lines D to F, M is twice as large.
pub fn paper_lines() -> Vec<PaperLine> {
    let disk = 85e6;
    let request_bytes = 131_072.0;
    let few = 16.0;
    // M requests of one node are just sufficient for its disk.
    let local_s = few * request_bytes / disk;
    let c = ClusterLoad {
        disk,
        network: 120e6,
        copies: 1,
        written: 1.0,
        received: 0.0,
        requests: few,
        request_bytes,
        local_s,
        remote_s: local_s,
        switch_buffer: None,
    };
    let de = ClusterLoad {
        requests: 2.0 * few,
        ..c
    };
    let f = ClusterLoad {
        switch_buffer: Some(125e3),
        ..de
    };
    vec![
        PaperLine {
            letter: 'C',
            what: "few requests under way",
            load: c,
        },
        PaperLine {
            letter: 'D',
            what: "twice as many requests",
            load: de,
        },
        PaperLine {
            letter: 'E',
            what: "twice as many requests, repeated",
            load: de,
        },
        PaperLine {
            letter: 'F',
            what: "as E, with a switch of 1 Mbit",
            load: f,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(letter: char) -> Vec<f64> {
        let line = paper_lines().into_iter().find(|line| line.letter == letter);
        let load = line.expect("the paper has the line").load;
        (1..=5)
            .map(|nodes| load.rate(nodes).bytes_per_s / 1e6)
            .collect()
    }

    #[test]
    fn lines_d_and_e_are_linear_at_the_rate_of_a_node() {
        for letter in ['D', 'E'] {
            for (nodes, rate) in (1..).zip(rates(letter)) {
                assert!(
                    (rate - 85.0 * f64::from(nodes)).abs() < 0.1,
                    "{nodes}: {rate}"
                );
            }
        }
        assert!(rates('E')[1] > 120.0, "two nodes outrun one link");
    }

    #[test]
    fn line_c_is_lower_only_with_more_than_one_node() {
        let (few, many) = (rates('C'), rates('D'));
        assert!((few[0] - many[0]).abs() < 0.1);
        for (few, many) in few.iter().zip(&many).skip(1) {
            assert!(few < &(0.7 * many), "{few} of {many}");
        }
        assert!(few.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn line_f_falls_from_four_to_five_nodes() {
        let (f, e) = (rates('F'), rates('E'));
        assert_eq!(f[..2], e[..2], "two nodes never meet at one link");
        assert!(f[4] < f[3], "{f:?}");
        let last = paper_lines().pop().expect("there are lines");
        assert_eq!(last.load.rate(5).bound, Bound::Switch);
    }

    #[test]
    fn copies_and_rows_of_sources_take_their_share() {
        let one = paper_lines().remove(1).load;
        let three = ClusterLoad { copies: 3, ..one };
        let ratio = one.rate(5).bytes_per_s / three.rate(5).bytes_per_s;
        assert!((ratio - 3.0).abs() < 1e-9, "{ratio}");
        let slow = ClusterLoad {
            received: 10.0,
            ..one
        };
        assert_eq!(slow.rate(5).bound, Bound::Network);
        let single = three.rate(1);
        assert_eq!(
            single.bytes_per_s,
            one.rate(1).bytes_per_s,
            "one node has one copy"
        );
    }
}
