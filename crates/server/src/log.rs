//! `/api/v1/log`: segments of the log, its fill, and the decisions about them.
//!
//! The types of the answers are also those that the command line reads.

use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::health::Trouble;
use crate::history::Written;
use crate::port;
use axum::Json;
use axum::extract::State;
use seiner_engine::merge::simulate::trace;
use seiner_engine::merge::{Death, Decision, Lane, Victim};
use seiner_store::{ClassStatus, DecisionRecord, Error, LogStatus, SegmentStatus, WhenFull};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// State of the log at one moment.
#[derive(Debug, Serialize, Deserialize)]
pub struct LogReport {
    /// Wall time, ns.
    pub now: i64,
    /// Fill of the log.
    pub space: DiskSpace,
    /// Fill of the log under its old key.
    #[serde(skip_deserializing)]
    pub room: Option<DiskSpace>,
    /// True if segments expire as a whole, so that nothing must be merged.
    pub planing: bool,
    /// R, the size of a segment, bytes.
    pub segment_bytes: u64,
    /// C(Um − V): up to this R, segments of one lifetime expire as a whole. `None` without a budget.
    pub planing_segment_bytes: Option<u64>,
    /// Policy that chooses the segments to merge.
    pub policy: String,
    /// Dm, the mean dead share of merged segments; `None` if the policy does not use it.
    pub average_dead_share: Option<f64>,
    /// Bytes written lately.
    pub written: Written,
    /// Work of merges beside freeing space, since the start of the server.
    pub rewritten: Rewritten,
    /// Device, if the kernel reports it.
    pub device: Option<DeviceReport>,
    /// Lanes of the log.
    pub lanes: Vec<LaneReport>,
    /// Segments, by number.
    pub segments: Vec<SegmentReport>,
    /// Retention classes, in the order in which their selectors are tried.
    pub classes: Vec<ClassReport>,
    /// Warnings.
    pub warnings: Vec<String>,
    /// The same warnings with severities, the worst first.
    #[serde(default)]
    pub troubles: Vec<Trouble>,
}

/// Work of merges beside freeing space, since the start of the server.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Rewritten {
    /// Bytes written only to speed up reads.
    pub extra: u64,
    /// Number of further bytes that may be written for this purpose now.
    pub extra_left: u64,
    /// Blocks that were coalesced into larger ones.
    pub coalesced_blocks: u64,
    /// The same number under its old key.
    #[serde(skip_deserializing)]
    pub gathered_blocks: u64,
    /// Rows that were left out because later ones overwrite them.
    pub overwritten_rows: u64,
    /// Bytes saved by stronger compression.
    pub recompressed: u64,
    /// The same number under its old key.
    #[serde(skip_deserializing)]
    pub squeezed: u64,
}

/// Fill of the store, in bytes and shares.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct DiskSpace {
    /// C, the bytes that the store may use; `None` if unknown.
    pub budget: Option<u64>,
    /// Used bytes: `files` and `allotted`.
    pub used: u64,
    /// Bytes of the files, including space that the journal and open segments reserved.
    pub files: u64,
    /// Bytes allotted to future files, mostly to the journal up to its bound.
    pub allotted: u64,
    /// Live bytes.
    pub live: u64,
    /// Bytes that writers leave to merging.
    pub reserved: u64,
    /// U, the used share of the budget.
    pub u: f64,
    /// Um, the share at which merging begins.
    pub um: f64,
    /// V, the live share of the budget.
    pub v: f64,
    /// H, the hunger of merging: none up to 0, maximal at 1.
    pub hunger: f64,
}

/// Device of the data directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeviceReport {
    /// Name of the device.
    pub name: String,
    /// Bytes that all processes wrote since the start of the host.
    pub written: Option<u64>,
    /// Bytes written per day, at the rate of the last day or since the start of the server.
    pub per_day: Option<f64>,
    /// Bytes that may be written to the device in its lifetime, if the settings state it.
    pub tbw: Option<u64>,
    /// Life of a new device at this rate, days.
    pub life_days: Option<f64>,
}

/// Lane of the log.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct LaneReport {
    /// Number of the lane.
    pub id: u32,
    /// Minimum remaining life of its blocks, ns; `None` for blocks that never expire.
    pub from_ns: Option<i64>,
    /// Remaining life that is too long for the lane, ns; `None` without a limit.
    pub to_ns: Option<i64>,
    /// Share of the arriving bytes.
    pub flow_share: f64,
    /// Size of the next segment, bytes.
    pub segment_bytes: u64,
}

/// Segment of the log.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SegmentReport {
    /// Number of the segment.
    pub number: u64,
    /// Its lane.
    pub lane: u32,
    /// Space on the disk, bytes.
    pub bytes: u64,
    /// Bytes of live blocks.
    pub live: u64,
    /// Bytes of dead blocks.
    pub dead: u64,
    /// True if the segment is being written.
    pub open: bool,
    /// Time of sealing, ns.
    pub born: i64,
    /// Expected time of the end of its last live block, ns; `None` if it never ends or is unknown.
    pub dies: Option<i64>,
}

/// Retention class.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClassReport {
    /// Name of the class.
    pub name: String,
    /// Selector of its sources; empty for all sources that no class before it has.
    pub select: String,
    /// Age up to which samples are kept, ns.
    pub age_ns: Option<u64>,
    /// Number of rows of each source that are kept.
    pub rows: Option<u64>,
    /// Number of bytes of all sources that are kept.
    pub bytes: Option<u64>,
    /// Priority; classes with lower ones are shed first.
    pub priority: u8,
    /// Behaviour without space: `refuse` or `shed`.
    pub when_full: String,
    /// Length of a step, ns, if this is a level of the roll-up of the class with which its name begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_ns: Option<u64>,
    /// Number of sources.
    pub sources: u64,
    /// Bytes of its live blocks on the disk.
    pub live: u64,
    /// Time before which samples are hidden, ns; `None` if no samples are.
    pub hidden_before: Option<i64>,
}

/// Decision, with the figures on which it was based.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DecisionReport {
    /// Wall time, ns.
    pub at: i64,
    /// Name of the policy.
    pub policy: String,
    /// Used share of the budget.
    pub u: f64,
    /// Share at which merging begins.
    pub um: f64,
    /// Live share of the budget.
    pub v: f64,
    /// Hunger after the drops.
    pub hunger: f64,
    /// Minimum dead share of a chosen segment.
    pub least_dead_share: Option<f64>,
    /// Mean from which the minimum followed.
    pub average_dead_share: Option<f64>,
    /// Number of segments to choose from.
    pub candidates: usize,
    /// Number of segments dropped without being read.
    pub drop: Vec<u64>,
    /// Segments that were merged.
    pub merge: Vec<VictimReport>,
}

/// Segment that was merged.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct VictimReport {
    /// Number of the segment.
    pub number: u64,
    /// D, its dead share.
    pub dead_share: f64,
    /// Bytes written again.
    pub live: u64,
    /// Bytes freed.
    pub gain: u64,
    /// Rank of the segment.
    pub score: f64,
}

/// `GET /api/v1/log`
pub async fn log(State(app): State<Arc<AppState>>) -> Result<Json<LogReport>, ApiError> {
    let Json(found) = look(app, report).await?;
    Ok(Json(found?))
}

/// `GET /api/v1/log/why`, the latest last.
pub async fn why(State(app): State<Arc<AppState>>) -> Result<Json<Vec<DecisionReport>>, ApiError> {
    let found = look(app, |app| Ok::<_, Error>(app.store.with_log()?.decisions()));
    let Json(records) = found.await?;
    let records = records?;
    Ok(Json(records.into_iter().map(DecisionReport::of).collect()))
}

/// `GET /api/v1/log/trace`: the blocks of the log, for `seiner sim merge`.
pub async fn log_trace(State(app): State<Arc<AppState>>) -> Result<String, ApiError> {
    let Json(found) = look(app, |app| app.store.with_log()?.trace()).await?;
    Ok(trace::text(&found?))
}

/// Calls `work` on a thread that may block, because the log waits for the present merge.
async fn look<T: Send + 'static>(
    app: Arc<AppState>,
    look: impl FnOnce(&AppState) -> T + Send + 'static,
) -> Result<Json<T>, ApiError> {
    let permit = app.queries.acquire()?;
    let found = port::blocking(move || {
        let _permit = permit;
        look(&app)
    });
    Ok(Json(found.await?))
}

/// Returns the present state of the log.
///
/// # Errors
/// If the store keeps no log.
pub fn report(app: &AppState) -> Result<LogReport, Error> {
    let log = app.store.with_log()?.log();
    let status = app.store.status();
    let written = app.history.written(&status);
    let space = DiskSpace::of(&log);
    let troubles = app.troubles(&status, &log.classes);
    Ok(LogReport {
        now: log.now,
        space,
        room: Some(space),
        planing: log.is_planing(),
        segment_bytes: log.segment_bytes,
        planing_segment_bytes: space.budget.map(|_| log.fill.planing_segment_bytes()),
        policy: log.policy.to_string(),
        average_dead_share: (log.memory.taken > 0).then_some(log.memory.average_dead_share),
        device: DeviceReport::of(app, &written),
        written,
        rewritten: Rewritten {
            extra: log.extra_written,
            extra_left: log.extra_left,
            coalesced_blocks: log.coalesced_blocks,
            gathered_blocks: log.coalesced_blocks,
            overwritten_rows: log.overwritten_rows,
            recompressed: log.recompressed_bytes,
            squeezed: log.recompressed_bytes,
        },
        warnings: troubles
            .iter()
            .map(|trouble| trouble.text.clone())
            .collect(),
        troubles,
        lanes: log.lanes.iter().map(LaneReport::of).collect(),
        segments: log.segments.iter().map(SegmentReport::of).collect(),
        classes: log.classes.into_iter().map(ClassReport::of).collect(),
    })
}

impl DiskSpace {
    fn of(log: &LogStatus) -> DiskSpace {
        let fill = &log.fill;
        DiskSpace {
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
    fn of(app: &AppState, written: &Written) -> Option<DeviceReport> {
        let device = app.history.device()?;
        let (per_day, tbw) = (written.day.device_per_day(), app.settings.device_tbw);
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
    fn of(record: DecisionRecord) -> DecisionReport {
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
