//! Published figures (*RAID* §3 and §5), beside the figures of the model.

use super::outcome::Outcome;
use crate::report::{Table, short};
use seiner_raid::Merging;

const THREADS: [usize; 3] = [1, 8, 32];
const DEPTHS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// MB/s by depth and number of threads.
type Figures = [[f64; 3]; 6];

/// Group of cells with its published figures.
struct Published {
    group: &'static str,
    without: Figures,
    merged: Figures,
    adaptive: Figures,
}

const PUBLISHED: [Published; 2] = [
    Published {
        group: "random write 4 KiB",
        without: [
            [27.2, 170.0, 392.0],
            [48.9, 293.0, 634.0],
            [68.9, 425.0, 880.0],
            [108.0, 598.0, 1157.0],
            [143.0, 823.0, 1493.0],
            [259.0, 1136.0, 1681.0],
        ],
        merged: [
            [8.95, 67.6, 227.0],
            [17.8, 128.0, 360.0],
            [34.3, 226.0, 569.0],
            [64.0, 359.0, 878.0],
            [106.0, 556.0, 1248.0],
            [149.0, 830.0, 1563.0],
        ],
        adaptive: [
            [27.3, 162.0, 387.0],
            [52.1, 285.0, 634.0],
            [66.7, 420.0, 891.0],
            [106.0, 603.0, 1172.0],
            [159.0, 830.0, 1469.0],
            [241.0, 1115.0, 1685.0],
        ],
    },
    Published {
        group: "sequential write 4 KiB",
        without: [
            [29.0, 206.0, 550.0],
            [53.1, 339.0, 806.0],
            [70.1, 453.0, 1018.0],
            [104.0, 581.0, 1203.0],
            [154.0, 760.0, 1473.0],
            [233.0, 988.0, 1742.0],
        ],
        merged: [
            [22.4, 165.0, 477.0],
            [26.2, 187.0, 567.0],
            [33.6, 238.0, 709.0],
            [46.9, 314.0, 875.0],
            [592.0, 3363.0, 5594.0],
            [661.0, 4306.0, 5582.0],
        ],
        adaptive: [
            [30.5, 192.0, 608.0],
            [53.2, 310.0, 868.0],
            [79.5, 445.0, 1018.0],
            [106.0, 556.0, 1219.0],
            [583.0, 3255.0, 5417.0],
            [660.0, 4319.0, 5304.0],
        ],
    },
];

/// Returns the published figures of a cell: without merging, with static merging, with adaptive
/// merging.
fn of(outcome: &Outcome) -> Option<[f64; 3]> {
    let found = PUBLISHED
        .iter()
        .find(|one| one.group == outcome.cell.group)?;
    let [job] = &outcome.cell.load.jobs[..] else {
        return None;
    };
    let thread = THREADS.iter().position(|&threads| threads == job.threads)?;
    let depth = DEPTHS.iter().position(|&depth| depth == job.depth)?;
    let at = |figures: &Figures| figures[depth][thread];
    Some([at(&found.without), at(&found.merged), at(&found.adaptive)])
}

/// Returns a table with a row per cell that has published figures.
pub fn beside(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(
        "MB/s, published and of the model: without merging, with static merging, with adaptive merging, and the ratio of adaptive \
         merging to the better of the other two",
        &[
            "group",
            "threads x depth",
            "published: without",
            "static",
            "adaptive",
            "over the better",
            "model: never",
            "always",
            "paper",
            "over the better",
            "paper-batch",
            "default",
        ],
    );
    for outcome in outcomes {
        let Some(published) = of(outcome) else {
            continue;
        };
        let rate = |merging: Merging| outcome.of(merging).rate() / 1e6;
        let over =
            |adaptive: f64, one: f64, other: f64| format!("{:.3}", adaptive / one.max(other));
        let [without, merged, adaptive] = published;
        let (never, always) = (rate(Merging::Never), rate(Merging::Always));
        let mut row = vec![outcome.cell.group.clone(), outcome.cell.name()];
        row.extend(published.map(short));
        row.push(over(adaptive, without, merged));
        row.extend([never, always, rate(Merging::Paper)].map(short));
        row.push(over(rate(Merging::Paper), never, always));
        row.extend([Merging::PaperBatch, Merging::Adaptive].map(|merging| short(rate(merging))));
        table.rows.push(row);
    }
    table
}

/// Returns the smallest and the largest ratio of the model's figure to the published one: without
/// merging, with static merging.
pub fn spread(outcomes: &[Outcome]) -> Option<[(f64, f64); 2]> {
    let known: Vec<(&Outcome, [f64; 3])> = outcomes
        .iter()
        .filter_map(|outcome| Some((outcome, of(outcome)?)))
        .collect();
    let bounds = |arm: usize, merging: Merging| {
        let shares = known
            .iter()
            .map(|(outcome, published)| outcome.of(merging).rate() / 1e6 / published[arm]);
        shares.fold((f64::INFINITY, 0.0f64), |(least, most), share| {
            (least.min(share), most.max(share))
        })
    };
    (!known.is_empty()).then(|| [bounds(0, Merging::Never), bounds(1, Merging::Always)])
}
