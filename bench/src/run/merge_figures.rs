//! `merge-figures`: the log-store paper's figures, repeated with our engine on a small volume.

use crate::log::counts::IntervalCounts;
use crate::log::load::StoreLoad;
use crate::log::store::SteppedStore;
use crate::report::{Check, OutputPaths, Relation, Report, Table, cell};
use anyhow::{Context, Result};
use clap::Args;
use seiner_chart::{Axis, BarSeries, Figure, LineSeries, any_colour, page, svg};
use seiner_engine::{LogStatus, MergePolicy, merge::planing_segment_bytes};
use serde::Serialize;
use serde_json::{Value, json};
use std::fs;

/// Settings of `merge-figures`.
#[derive(Args)]
pub struct MergeFiguresSettings {
    /// Budget of each store, in MiB
    #[arg(long, default_value_t = 64)]
    budget: u64,
    /// Multiples of the budget to store in each store
    #[arg(long, default_value_t = 6.0)]
    turns: f64,
}

/// Number of parts of a run, each measured separately.
const PARTS: u32 = 48;
/// Live shares of the figures over V.
const LIVE: [f64; 8] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8];
/// Live shares of the figures over time.
const SHOWN: [f64; 3] = [0.2, 0.5, 0.8];
/// Live share of the figures over R and B.
const MIDDLE: f64 = 0.6;
/// Further live share for the planing formula: near Um, where R matters.
const NEAR: f64 = 0.72;
/// Divisors of the budget that give the segment sizes R of figure 10.
const SIZES: [u64; 6] = [FEWEST, 16, 24, 32, 64, 128];
/// Um of the paper.
const UM: f64 = 0.8;
const POLICIES: [MergePolicy; 3] = [
    MergePolicy::Fifo,
    MergePolicy::Fisherman,
    MergePolicy::Patient,
];
/// Number of segments per budget where R does not vary. The paper's segments of 1 GB are a similar
/// share of one node's budget: 100 GB on 64 nodes.
const SEGMENTS: u64 = 32;
/// Minimum number of segments per budget; a store does not start with larger segments.
const FEWEST: u64 = 12;

const PURPOSE: &str = "The paper's experiments with the log store, on our engine: one store on a budget C, overwritten by \
    an even load of one lifetime (every source keeps its latest 50 blocks, equal rates), Um = 0.8, as in the paper. Two \
    lanes, so that lanes do not affect the policies. The rate is megabytes of blocks stored per second, waits included.";

/// Complete run of one store.
struct Run {
    parts: Vec<IntervalCounts>,
    /// Live and dead shares of every segment at the end, in the order of their numbers.
    segments: Vec<(f64, f64)>,
    rejected: bool,
}

impl Run {
    /// Returns the second half of the run, when the whole budget has been overwritten at least
    /// once.
    fn steady(&self) -> IntervalCounts {
        let mut sum = IntervalCounts::default();
        let half = self.parts.len() / 2;
        self.parts[half..].iter().for_each(|part| sum.add(part));
        sum
    }
}

/// A figure of the paper.
struct NamedFigure {
    /// Name of the figure's files.
    name: &'static str,
    figure: Figure,
}

impl NamedFigure {
    /// Creates a figure of rates.
    fn rates(
        name: &'static str,
        title: String,
        caption: &str,
        x: &str,
        series: Vec<LineSeries>,
    ) -> NamedFigure {
        let figure = Figure::Lines {
            title,
            caption: caption.to_string(),
            x: Axis::linear(x),
            y: Axis::linear("MB/s"),
            series,
        };
        NamedFigure { name, figure }
    }

    /// Returns name, title and values for the results.
    fn json(&self) -> Value {
        let values: Vec<Value> = match &self.figure {
            Figure::Lines { series, .. } => series
                .iter()
                .map(|line| json!({ "name": line.name, "points": line.points }))
                .collect(),
            Figure::Bars { series, .. } => series
                .iter()
                .map(|bars| json!({ "name": bars.name, "values": bars.values }))
                .collect(),
            Figure::Ranking { .. } | Figure::Table { .. } => Vec::new(),
        };
        json!({ "name": self.name, "title": self.figure.title(), "series": values })
    }
}

/// Planing of a store of the fisherman, by the formula and as measured.
#[derive(Serialize)]
struct Planing {
    /// Budget of the store, C.
    budget: u64,
    /// Segment size, R.
    segment_bytes: u64,
    /// Live share at the end, measured with the indexes and padding of live blocks in files.
    v: f64,
    /// Fill at which merging began. For large segments it is below the setting, because the output
    /// of a merge needs space.
    um: f64,
    /// Bound of the formula: C(Um − V).
    bound: u64,
    /// True if R ≤ C(Um − V).
    promised: bool,
    /// True if almost nothing was merged.
    seen: bool,
    rejected: bool,
    /// Bytes of blocks written per byte stored.
    written: f64,
}

impl Planing {
    fn of(load: &StoreLoad, log: &LogStatus, run: &Run) -> Planing {
        let sealed = log.segments.iter().map(|segment| &segment.stat);
        let (files, blocks) = sealed.fold((0, 0), |(files, blocks), stat| {
            (files + stat.bytes, blocks + stat.live + stat.dead)
        });
        let v = log.fill.v() * files as f64 / blocks.max(1) as f64;
        let bound = planing_segment_bytes(load.budget, log.fill.um, v);
        let steady = run.steady();
        Planing {
            budget: load.budget,
            segment_bytes: load.segment_bytes,
            v,
            um: log.fill.um,
            bound,
            promised: load.segment_bytes <= bound,
            seen: !run.rejected && steady.merged * 200 < steady.stored,
            rejected: run.rejected,
            written: steady.blocks_written(),
        }
    }
}

/// Runs the benchmark.
pub fn run(settings: &MergeFiguresSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("merge-figures", PURPOSE);
    fs::create_dir_all(&places.output)?;
    let mut lab = Lab {
        settings,
        places,
        planing: Vec::new(),
        rejected: 0,
    };
    let mut figures = Vec::new();
    let over_v = lab.over_v()?;
    figures.extend(over_time(&over_v));
    figures.extend(against_v(&over_v));
    figures.push(by_segment(&over_v));
    figures.push(lab.against_r()?);
    figures.push(lab.at_planing_r(&over_v)?);
    figures.push(lab.against_b()?);
    write(&figures, places)?;
    report.notes.push(format!(
        "budget {} MiB, overwritten {} times; figures: merge-figures.html and .svg, points: .csv, beside the JSON",
        settings.budget, settings.turns
    ));
    let safe = lab.planing.iter().filter(|one| !one.promised && one.seen);
    report.notes.push(format!(
        "the formula is conservative: {} of {} stores with the fisherman planed beyond its bound",
        safe.count(),
        lab.planing.len()
    ));
    lab.planing.sort_by(|a, b| a.v.total_cmp(&b.v));
    report.tables.push(lab.planing_table());
    report.checks = lab.checks();
    let drawn: Vec<Value> = figures.iter().map(NamedFigure::json).collect();
    report.measured = json!({ "figures": drawn, "planing": lab.planing });
    report.finish(places)
}

/// Runs by policy and live share.
type OverV = Vec<(MergePolicy, Vec<(f64, Run)>)>;

struct Lab<'a> {
    settings: &'a MergeFiguresSettings,
    places: &'a OutputPaths,
    /// Results of every run of the fisherman.
    planing: Vec<Planing>,
    /// Number of stores that rejected rows.
    rejected: usize,
}

impl Lab<'_> {
    fn load(&self, v: f64, policy: MergePolicy) -> StoreLoad {
        let budget = self.settings.budget << 20;
        StoreLoad {
            segment_bytes: (budget / SEGMENTS).max(64 << 10),
            lanes: 2,
            merge_from: UM,
            ..StoreLoad::rings(budget, v, 0.0, policy)
        }
    }

    fn run(&mut self, load: &StoreLoad) -> Result<Run> {
        let mut running = SteppedStore::start(load, &self.places.output)?;
        let part = (load.budget as f64 * self.settings.turns / f64::from(PARTS)) as u64;
        let mut parts = Vec::new();
        let mut rejected = false;
        for _ in 0..PARTS {
            match running.feed(part) {
                Ok(counts) => parts.push(counts),
                Err(error) => {
                    eprintln!("{error:#}");
                    rejected = true;
                    break;
                }
            }
        }
        let log = running.log();
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let sealed = log.segments.iter().filter(|segment| !segment.open);
        let run = Run {
            segments: sealed
                .map(|segment| {
                    let stat = &segment.stat;
                    (share(stat.live, stat.bytes), stat.dead_share())
                })
                .collect(),
            parts,
            rejected,
        };
        eprintln!(
            "{} V {} R {} B {}: {} MB/s, {} written, mean D {}",
            load.policy,
            cell(Some(log.fill.v())),
            load.segment_bytes,
            load.block_bytes,
            cell(Some(run.steady().rate())),
            cell(Some(run.steady().blocks_written())),
            cell(run.steady().mean_d)
        );
        if load.policy == MergePolicy::Fisherman {
            self.planing.push(Planing::of(load, &log, &run));
        }
        self.rejected += usize::from(run.rejected);
        Ok(run)
    }

    fn over_v(&mut self) -> Result<OverV> {
        let mut all: OverV = POLICIES.map(|policy| (policy, Vec::new())).into();
        for v in LIVE {
            // Policies alternate, so that changes of the machine's speed affect all of them.
            for (policy, runs) in &mut all {
                runs.push((v, self.run(&self.load(v, *policy))?));
            }
        }
        Ok(all)
    }

    /// Figure 10, over the segment sizes that a store accepts.
    fn against_r(&mut self) -> Result<NamedFigure> {
        let mut series = Vec::new();
        for policy in POLICIES {
            let points = SIZES.iter().rev().map(|&parts| {
                let (segment_bytes, run) = self.with_segments(MIDDLE, policy, parts)?;
                Ok((segment_bytes as f64 / 1e6, run.steady().rate()))
            });
            let points = points.collect::<Result<_>>()?;
            series.push(LineSeries::new(policy.name(), points));
        }
        for parts in SIZES {
            self.with_segments(NEAR, MergePolicy::Fisherman, parts)?;
        }
        Ok(NamedFigure::rates(
            "figure-10",
            format!("Figure 10: rate against R, V = {MIDDLE}"),
            "Smaller segments die as a whole sooner.",
            "R, MB",
            series,
        ))
    }

    /// Runs a store with `parts` segments per budget. Returns R and the run.
    fn with_segments(&mut self, v: f64, policy: MergePolicy, parts: u64) -> Result<(u64, Run)> {
        let load = StoreLoad {
            segment_bytes: (self.settings.budget << 20) / parts,
            ..self.load(v, policy)
        };
        Ok((load.segment_bytes, self.run(&load)?))
    }

    /// Returns figure 11.
    fn at_planing_r(&mut self, fixed: &OverV) -> Result<NamedFigure> {
        let budget = self.settings.budget << 20;
        let mut points = Vec::new();
        for v in LIVE {
            let planing = planing_segment_bytes(budget, UM, v) / 2;
            let load = StoreLoad {
                segment_bytes: planing.clamp(64 << 10, budget / FEWEST),
                ..self.load(v, MergePolicy::Fisherman)
            };
            points.push((v, self.run(&load)?.steady().rate()));
        }
        let fixed = fixed
            .iter()
            .find(|(policy, _)| *policy == MergePolicy::Fisherman);
        let fixed = fixed.context("the fisherman ran")?.1.iter();
        let series = vec![
            LineSeries::new("R for planing", points),
            LineSeries::new(
                format!("R = C/{SEGMENTS}"),
                fixed.map(|(v, run)| (*v, run.steady().rate())).collect(),
            ),
        ];
        Ok(NamedFigure::rates(
            "figure-11",
            "Figure 11: rate against V at the planing R, fisherman".into(),
            &format!("R is half of C(Um − V), within 64 KiB and C/{FEWEST}."),
            "V",
            series,
        ))
    }

    /// Returns figure 12.
    fn against_b(&mut self) -> Result<NamedFigure> {
        let mut points = Vec::new();
        for block_bytes in [256, 1024, 4096, 16_384, 65_536] {
            let load = self.load(MIDDLE, MergePolicy::Patient);
            // Keeps the live bytes equal: fewer sources with larger blocks.
            let sources =
                u64::from(load.sources) * u64::from(load.block_bytes) / u64::from(block_bytes);
            let load = StoreLoad {
                sources: sources.max(4) as u32,
                block_bytes,
                ..load
            };
            points.push((
                f64::from(block_bytes) / 1024.0,
                self.run(&load)?.steady().rate(),
            ));
        }
        Ok(NamedFigure::rates(
            "figure-12",
            format!("Figure 12: rate against B, V = {MIDDLE}"),
            "One sequential stream for any size of the blocks.",
            "B, KiB",
            vec![LineSeries::new(MergePolicy::Patient.name(), points)],
        ))
    }

    fn planing_table(&self) -> Table {
        let mut table = Table::new(
            "Planing: the formula R ≤ C(Um − V) and the measurement (fisherman)",
            &[
                "R, MB",
                "V with indexes",
                "Um",
                "C(Um − V), MB",
                "planes by the formula",
                "planes",
                "written per byte stored (blocks)",
            ],
        );
        let yes = |yes: bool| if yes { "yes" } else { "no" }.to_string();
        table.rows.extend(self.planing.iter().map(|one| {
            vec![
                cell(Some(one.segment_bytes as f64 / 1e6)),
                cell(Some(one.v)),
                cell(Some(one.um)),
                cell(Some(one.bound as f64 / 1e6)),
                yes(one.promised),
                yes(one.seen),
                cell(Some(one.written)),
            ]
        }));
        table
    }

    fn checks(&self) -> Vec<Check> {
        let count = |of: fn(&&Planing) -> bool| Some(self.planing.iter().filter(of).count() as f64);
        let none = Some(0.0);
        let check = |name, value, bound, relation| Check::new(name, value, relation, bound, "");
        vec![
            check(
                "stores that rejected rows",
                Some(self.rejected as f64),
                none,
                Relation::AtMost,
            ),
            check(
                "stores that plane by the formula but merge",
                count(|one| one.promised && !one.seen),
                none,
                Relation::AtMost,
            ),
            check(
                "stores that do not plane by the formula, and merge",
                count(|one| !one.promised && !one.seen),
                Some(1.0),
                Relation::AtLeast,
            ),
        ]
    }
}

/// Returns figures 4 and 6: rate over time.
fn over_time(all: &OverV) -> Vec<NamedFigure> {
    let figures = [
        ("figure-4", MergePolicy::Fifo),
        ("figure-6", MergePolicy::Fisherman),
        ("figure-7", MergePolicy::Patient),
    ];
    figures
        .into_iter()
        .map(|(name, policy)| {
            let runs = all
                .iter()
                .find(|(of, _)| *of == policy)
                .map(|(_, runs)| runs);
            let shown = runs
                .into_iter()
                .flatten()
                .filter(|(v, _)| SHOWN.contains(v));
            let series = shown.map(|(v, run)| {
                let mut time = 0.0;
                let points = run.parts.iter().map(|part| {
                    time += part.work_s + part.wait_s;
                    (time, part.rate())
                });
                LineSeries::new(format!("V = {v}"), points.collect())
            });
            let caption = match policy {
                MergePolicy::Fifo => {
                    "As in Bitcask: the oldest file is merged, independent of its live share."
                }
                MergePolicy::Fisherman => "Segments are chosen by dead share and hunger.",
                _ => "The default of our store; not in the paper.",
            };
            NamedFigure::rates(
                name,
                format!("{}: rate over time, {policy}", title(name)),
                caption,
                "time, s",
                series.collect(),
            )
        })
        .collect()
}

fn title(name: &str) -> String {
    name.replace("figure-", "Figure ")
}

/// Returns figures 5 and 8: rate and mean D against V.
fn against_v(all: &OverV) -> Vec<NamedFigure> {
    let draw = |name, what: &str, y, of: fn(&Run) -> Option<f64>| {
        let series = all.iter().map(|(policy, runs)| {
            let points = runs
                .iter()
                .filter_map(|(v, run)| Some((*v, of(run)?)))
                .collect();
            LineSeries::new(policy.name(), points)
        });
        let figure = Figure::Lines {
            title: format!("{}: {what} against V", title(name)),
            caption: "A line ends where nothing was merged or the store rejected rows.".to_string(),
            x: Axis::linear("V"),
            y: Axis::linear(y),
            series: series.collect(),
        };
        NamedFigure { name, figure }
    };
    vec![
        draw("figure-5", "rate", "MB/s", |run| {
            (!run.rejected).then(|| run.steady().rate())
        }),
        draw("figure-8", "mean D of merged segments", "mean D", |run| {
            run.steady().mean_d
        }),
    ]
}

/// Returns figure 9: live bytes by segment.
fn by_segment(all: &OverV) -> NamedFigure {
    let series: Vec<BarSeries> = all
        .iter()
        .filter_map(|(policy, runs)| {
            let (_, run) = runs.iter().find(|(v, _)| *v == MIDDLE)?;
            let live = run.segments.iter().map(|(live, _)| Some(*live));
            Some(BarSeries::new(policy.name(), live.collect()))
        })
        .collect();
    let segments = series.iter().map(|bars| bars.values.len()).max();
    let figure = Figure::Bars {
        title: format!("Figure 9: live share of every segment, V = {MIDDLE}, oldest first"),
        caption: "All blocks have one lifetime: old segments are dead and young ones live. Merging mixes them."
            .into(),
        y: Axis::linear("live share").within(0.0, 1.0),
        categories: (0..segments.unwrap_or(0))
            .map(|number| number.to_string())
            .collect(),
        series,
        is_stacked: false,
    };
    NamedFigure {
        name: "figure-9",
        figure,
    }
}

/// Writes every figure as SVG and as CSV, and the page of all figures.
fn write(figures: &[NamedFigure], places: &OutputPaths) -> Result<()> {
    let put = |name: String, text: String| {
        let path = places.output.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    for NamedFigure { name, figure } in figures {
        put(
            format!("merge-{name}.svg"),
            svg::standalone(figure, any_colour),
        )?;
        put(format!("merge-{name}.csv"), figure.csv())?;
    }
    let all: Vec<Figure> = figures.iter().map(|named| named.figure.clone()).collect();
    put(
        "merge-figures.html".into(),
        page::of_figures("The log store's figures", &[], &all, any_colour),
    )
}
