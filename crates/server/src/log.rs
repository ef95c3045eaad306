//! `/api/v1/log`: what is in the log, how full it is, and why it was tidied as it was.
//!
//! The answers are types that the command line reads as well.

use crate::health::Trouble;
use crate::history::Written;
use crate::refusal::Refusal;
use crate::station::Station;
use axum::Json;
use axum::extract::State;
use seiner_engine::merge::simulate::trace;
use seiner_engine::merge::{Death, Decision, Lane, Victim};
use seiner_engine::{ClassStatus, LogStatus, Record, SegmentStatus, WhenFull};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The log at one moment.
#[derive(Debug, Serialize, Deserialize)]
pub struct LogReport {
    /// Wall time, ns.
    pub now: i64,
    /// How full it is.
    pub room: Room,
    /// Whether segments die whole: nothing has to be merged.
    pub planing: bool,
    /// R, the bytes of a segment.
    pub segment_bytes: u64,
    /// C(Um − V): up to this R segments of one lifetime die whole. None without a budget.
    pub planing_segment_bytes: Option<u64>,
    /// Which segments are merged.
    pub policy: String,
    /// Dm, the average dead share of what was merged; none if the policy does not ask for it.
    pub average_dead_share: Option<f64>,
    /// What was written lately.
    pub written: Written,
    /// What merges did beside making room, since the server was started.
    pub rewritten: Rewritten,
    /// The device, if the kernel tells which it is.
    pub device: Option<DeviceReport>,
    /// Which data lie together.
    pub lanes: Vec<LaneReport>,
    /// The segments, by number.
    pub segments: Vec<SegmentReport>,
    /// The retention classes, in the order in which they are asked.
    pub classes: Vec<ClassReport>,
    /// What somebody should look at.
    pub warnings: Vec<String>,
    /// The same with severities, the worst first.
    #[serde(default)]
    pub troubles: Vec<Trouble>,
}

/// What merges did beside making room, since the server was started.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Rewritten {
    /// Bytes written for the sake of reads alone.
    pub extra: u64,
    /// How many more may be, now.
    pub extra_left: u64,
    /// Blocks that were gathered in larger ones.
    pub gathered_blocks: u64,
    /// Rows that were left out, for later ones overwrite them.
    pub overwritten_rows: u64,
    /// Bytes saved by compressing harder.
    pub squeezed: u64,
}

/// How full the store is, in bytes and shares.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Room {
    /// C, what it may take; none if nobody knows.
    pub budget: Option<u64>,
    /// What it counts as taken: `files` and `allotted`.
    pub used: u64,
    /// Bytes of its files, with the room that the journal and open segments were given ahead.
    pub files: u64,
    /// Bytes allotted to files to come, mostly to the journal up to its bound.
    pub allotted: u64,
    /// What is live of it.
    pub live: u64,
    /// What writers leave to merging.
    pub reserved: u64,
    /// U, the used share of the budget.
    pub u: f64,
    /// Um, the share at which merging begins.
    pub um: f64,
    /// V, the live share of the budget.
    pub v: f64,
    /// H, how much merging is wanted: nothing up to 0, everything at 1.
    pub hunger: f64,
}

/// The device of the data directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeviceReport {
    /// Its name.
    pub name: String,
    /// Bytes written to it since the host was started, by everybody.
    pub written: Option<u64>,
    /// Bytes written to it a day at the pace of the last day, or as long as the server runs.
    pub per_day: Option<f64>,
    /// What may be written to it in its life, if the settings tell.
    pub tbw: Option<u64>,
    /// How many days a new one lasts at this pace.
    pub life_days: Option<f64>,
}

/// A lane.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct LaneReport {
    /// Its number.
    pub id: u32,
    /// The shortest remaining life that it takes, ns; none: what never dies.
    pub from_ns: Option<i64>,
    /// The first that is too long; none: no life is.
    pub to_ns: Option<i64>,
    /// Its share of the bytes that arrive.
    pub flow_share: f64,
    /// The bytes of its next segment.
    pub segment_bytes: u64,
}

/// A segment.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SegmentReport {
    /// Its number.
    pub number: u64,
    /// Its lane.
    pub lane: u32,
    /// What it takes on the disk.
    pub bytes: u64,
    /// Bytes of live blocks.
    pub live: u64,
    /// Bytes of dead blocks.
    pub dead: u64,
    /// Whether it is being written.
    pub open: bool,
    /// When it was sealed, ns.
    pub born: i64,
    /// When its last live block is expected to die, ns; none: never, or nobody knows.
    pub dies: Option<i64>,
}

/// A retention class.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClassReport {
    /// Its name.
    pub name: String,
    /// The selector of its sources; empty: all that no class before it has.
    pub select: String,
    /// How long its samples are kept, ns.
    pub age_ns: Option<u64>,
    /// How many rows of each source are.
    pub rows: Option<u64>,
    /// How many bytes of all are.
    pub bytes: Option<u64>,
    /// Lower ones are shed first.
    pub priority: u8,
    /// `refuse` or `shed`.
    pub when_full: String,
    /// The length of a step, ns, where it is a coarser level of the class that its name begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_ns: Option<u64>,
    /// How many sources are in it.
    pub sources: u64,
    /// Bytes of its live blocks on the disk.
    pub live: u64,
    /// Samples before this time are hidden, ns; none if none are.
    pub hidden_before: Option<i64>,
}

/// A decision, with what it was made from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DecisionReport {
    /// When, wall time in ns.
    pub at: i64,
    /// Which policy.
    pub policy: String,
    /// The used share of the budget.
    pub u: f64,
    /// The share at which merging begins.
    pub um: f64,
    /// The live share of the budget.
    pub v: f64,
    /// Hunger after the drops.
    pub hunger: f64,
    /// The least dead share that was taken.
    pub least_dead_share: Option<f64>,
    /// The average that the bound came from.
    pub average_dead_share: Option<f64>,
    /// Segments to choose from.
    pub candidates: usize,
    /// Segments dropped unread.
    pub drop: Vec<u64>,
    /// Segments merged.
    pub merge: Vec<VictimReport>,
}

/// A segment that was merged.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct VictimReport {
    /// Its number.
    pub number: u64,
    /// Its dead share, D.
    pub dead_share: f64,
    /// Bytes written again.
    pub live: u64,
    /// Bytes that came back.
    pub gain: u64,
    /// What it was ranked by.
    pub score: f64,
}

/// `GET /api/v1/log`
pub async fn log(State(station): State<Arc<Station>>) -> Result<Json<LogReport>, Refusal> {
    look(station, report).await
}

/// `GET /api/v1/log/why`, the latest last.
pub async fn why(
    State(station): State<Arc<Station>>,
) -> Result<Json<Vec<DecisionReport>>, Refusal> {
    look(station, |station| {
        let records = station.engine.decisions();
        records.into_iter().map(DecisionReport::of).collect()
    })
    .await
}

/// `GET /api/v1/log/trace`: the blocks of the log, for `seiner sim merge`.
pub async fn log_trace(State(station): State<Arc<Station>>) -> Result<String, Refusal> {
    let Json(found) = look(station, |station| station.engine.trace()).await?;
    Ok(trace::text(&found?))
}

/// The log waits for the merge at hand, so it is asked where that may block.
async fn look<T: Send + 'static>(
    station: Arc<Station>,
    look: impl FnOnce(&Station) -> T + Send + 'static,
) -> Result<Json<T>, Refusal> {
    let place = station.queries.enter()?;
    let found = tokio::task::spawn_blocking(move || {
        let _place = place;
        look(&station)
    });
    Ok(Json(found.await?))
}

/// The log now.
pub fn report(station: &Station) -> LogReport {
    let log = station.engine.log();
    let status = station.engine.status();
    let written = station.history.written(&status);
    let room = Room::of(&log);
    let troubles = station.troubles(&status, &log.classes);
    LogReport {
        now: log.now,
        room,
        planing: log.is_planing(),
        segment_bytes: log.segment_bytes,
        planing_segment_bytes: room.budget.map(|_| log.fill.planing_segment_bytes()),
        policy: log.policy.to_string(),
        average_dead_share: (log.memory.eaten > 0).then_some(log.memory.average_dead_share),
        device: DeviceReport::of(station, &written),
        written,
        rewritten: Rewritten {
            extra: log.extra_written,
            extra_left: log.extra_left,
            gathered_blocks: log.gathered_blocks,
            overwritten_rows: log.overwritten_rows,
            squeezed: log.squeezed_bytes,
        },
        warnings: troubles
            .iter()
            .map(|trouble| trouble.text.clone())
            .collect(),
        troubles,
        lanes: log.lanes.iter().map(LaneReport::of).collect(),
        segments: log.segments.iter().map(SegmentReport::of).collect(),
        classes: log.classes.into_iter().map(ClassReport::of).collect(),
    }
}

impl Room {
    fn of(log: &LogStatus) -> Room {
        let fill = &log.fill;
        Room {
            budget: (fill.budget != u64::MAX).then_some(fill.budget),
            used: fill.used,
            files: log.files,
            allotted: fill.used - log.files,
            live: fill.live,
            reserved: fill.reserved,
            u: fill.u(),
            um: fill.um,
            v: fill.v(),
            hunger: fill.hunger(),
        }
    }
}

impl DeviceReport {
    fn of(station: &Station, written: &Written) -> Option<DeviceReport> {
        let device = station.history.device()?;
        let (per_day, tbw) = (written.day.device_per_day(), station.settings.device_tbw);
        let life = per_day.filter(|per_day| *per_day > 0.0).zip(tbw);
        Some(DeviceReport {
            name: device.name.clone(),
            written: device.written(),
            per_day,
            tbw,
            life_days: life.map(|(per_day, tbw)| tbw as f64 / per_day),
        })
    }
}

impl LaneReport {
    fn of(lane: &Lane) -> LaneReport {
        let life = |ns: i64| (ns != i64::MAX).then_some(ns);
        LaneReport {
            id: lane.id,
            from_ns: life(lane.from),
            to_ns: life(lane.to),
            flow_share: lane.flow_share,
            segment_bytes: lane.segment_bytes,
        }
    }
}

impl SegmentReport {
    fn of(segment: &SegmentStatus) -> SegmentReport {
        let stat = &segment.stat;
        SegmentReport {
            number: stat.number,
            lane: stat.lane,
            bytes: stat.bytes,
            live: stat.live,
            dead: stat.dead,
            open: segment.open,
            born: stat.born,
            dies: match stat.dies {
                Death::At(time) => Some(time),
                Death::Never | Death::Unknown => None,
            },
        }
    }
}

impl ClassReport {
    fn of(status: ClassStatus) -> ClassReport {
        let class = status.class;
        ClassReport {
            name: class.name,
            select: class.sources,
            age_ns: class.keep.age.map(|age| age.as_nanos() as u64),
            rows: class.keep.rows,
            bytes: class.keep.bytes,
            priority: class.priority,
            when_full: match class.when_full {
                WhenFull::Refuse => "refuse".to_string(),
                WhenFull::Shed => "shed".to_string(),
            },
            step_ns: status.step_ns,
            sources: status.sources,
            live: status.live,
            hidden_before: (status.hidden_before != i64::MIN).then_some(status.hidden_before),
        }
    }
}

impl DecisionReport {
    fn of(record: Record) -> DecisionReport {
        let Decision { drop, merge, why } = record.decision;
        DecisionReport {
            at: record.at,
            policy: why.policy.to_string(),
            u: why.u,
            um: why.um,
            v: why.v,
            hunger: why.hunger,
            least_dead_share: why.least_dead_share,
            average_dead_share: why.average_dead_share,
            candidates: why.candidates,
            drop,
            merge: merge.iter().map(VictimReport::of).collect(),
        }
    }
}

impl VictimReport {
    fn of(victim: &Victim) -> VictimReport {
        VictimReport {
            number: victim.number,
            dead_share: victim.dead_share,
            live: victim.live,
            gain: victim.gain,
            score: victim.score,
        }
    }
}
