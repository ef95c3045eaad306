//! `seiner log`: fill level and contents of a server's log, and the reasons for drops and merges.

use crate::failure::Failure;
use crate::figures::{duration, instant, size};
use crate::log_why::{self, keeps};
use crate::remote::Remote;
use crate::server_access::ServerAccess;
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use seiner_engine::{Reading, read_directory};
use seiner_merge::simulate::{Arrival, trace};
use seiner_server::log::{
    ClassReport, DecisionReport, DeviceReport, LaneReport, LogReport, Rewritten, SegmentReport,
};
use seiner_server::{Period, Written};
use std::io::{self, Read, Write, stdout};
use std::path::{Path, PathBuf};

/// Number of segments in one line of a lane.
const SEGMENTS_A_LINE: usize = 64;
/// Number of characters of a bar.
const BAR: usize = 40;
/// Characters for a segment, by the number of eighths of the segment that are live.
const LIVE: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Show how full a server's log is, its contents, and the reasons for drops and merges.
#[derive(Args)]
#[command(subcommand_value_name = "PART", subcommand_help_heading = "Parts")]
pub struct Log {
    #[command(subcommand)]
    part: Part,
    #[command(flatten)]
    access: ServerAccess,
    /// Print the server's answer unchanged, as JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Part {
    /// Show disk usage, lanes with their segments, classes, and bytes written.
    ///
    /// Each segment is one character, whose height is the share of live bytes. Segments that are
    /// being written stand in brackets.
    Status {
        /// Print one line per segment.
        #[arg(long)]
        segments: bool,
    },
    /// Show the last decisions, with their reasons and the figures behind them.
    Why,
    /// Print the stream of stored blocks, for `seiner sim merge --trace` to compare policies.
    ///
    /// The trace contains the blocks that still exist. It takes the latest time in each block as
    /// the time at which the block was written: docs/format/merge-trace.md.
    Trace {
        /// Read this directory instead of asking a server. A server may have the directory open.
        #[arg(long, value_name = "DIR", conflicts_with = "server")]
        data: Option<PathBuf>,
        /// Number of repetitions of the trace; the first fills the simulated store. A store
        /// contains about one lifetime of its data, and merging starts after that lifetime.
        #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
        repeat: u32,
    },
}

impl Log {
    /// Requests the part from the server and prints the answer.
    pub fn run(self) -> Result<(), Failure> {
        let remote = Remote::of(&self.access)?;
        let mut out = stdout().lock();
        let path = match &self.part {
            Part::Status { .. } => "/api/v1/log",
            Part::Why => "/api/v1/log/why",
            Part::Trace { data, repeat } => {
                let arrivals = match data {
                    Some(data) => of_directory(data)?,
                    None => of_server(&remote)?,
                };
                let arrivals = trace::repeat(&arrivals, *repeat);
                out.write_all(trace::text(&arrivals).as_bytes())?;
                return Ok(());
            }
        };
        let mut answer = String::new();
        remote.get(path, &[])?.read_to_string(&mut answer)?;
        if self.json {
            writeln!(out, "{answer}")?;
            return Ok(());
        }
        let strange = || {
            format!(
                "the answer of {} is not of this version",
                self.access.address()
            )
        };
        match self.part {
            Part::Status { segments } => {
                let report: LogReport = serde_json::from_str(&answer).with_context(strange)?;
                status(&report, segments, &mut out)?;
            }
            Part::Why => {
                let decisions: Vec<DecisionReport> =
                    serde_json::from_str(&answer).with_context(strange)?;
                let mut answer = String::new();
                remote
                    .get("/api/v1/log", &[])?
                    .read_to_string(&mut answer)?;
                let report: LogReport = serde_json::from_str(&answer).with_context(strange)?;
                log_why::write(&decisions, &report.classes, &mut out)?;
            }
            Part::Trace { .. } => {}
        }
        Ok(())
    }
}

/// Returns the trace of the store in a directory. The directory does not change.
fn of_directory(data: &Path) -> Result<Vec<Arrival>, Failure> {
    let context = || format!("the directory {} was not read", data.display());
    let read = read_directory(data, |disk| seiner_engine::trace(&*disk).map(Reading::Done));
    Ok(read.with_context(context)?)
}

fn of_server(remote: &Remote) -> Result<Vec<Arrival>> {
    let mut text = String::new();
    remote
        .get("/api/v1/log/trace", &[])?
        .read_to_string(&mut text)?;
    Ok(trace::parse(&text)?)
}

fn status(report: &LogReport, segments: bool, out: &mut impl Write) -> io::Result<()> {
    space(report, out)?;
    written(&report.written, out)?;
    if let Some(device) = &report.device {
        tell_device(device, &report.written.day, out)?;
    }
    rewritten(&report.rewritten, out)?;
    writeln!(out)?;
    match segments {
        true => each_segment(&report.segments, out)?,
        false => {
            for lane in &report.lanes {
                tell_lane(lane, &report.segments, out)?;
            }
        }
    }
    writeln!(out)?;
    classes(&report.classes, out)?;
    for warning in &report.warnings {
        writeln!(out, "\nwarning: {warning}")?;
    }
    Ok(())
}

fn space(report: &LogReport, out: &mut impl Write) -> io::Result<()> {
    let space = &report.space;
    match space.budget {
        Some(budget) => {
            writeln!(
                out,
                "disk     [{}] {} of {}",
                bar(space.v, space.u - space.v),
                size(space.used),
                size(budget)
            )?;
        }
        None => writeln!(out, "disk     {}, of as much as there is", size(space.used))?,
    }
    writeln!(
        out,
        "used     {} in files, {} allotted to the journal and other files to come",
        size(space.files),
        size(space.allotted)
    )?;
    writeln!(
        out,
        "fill     U {:.3} used, V {:.3} live ({}); merging from Um {:.3}; hunger H {:.2}{}",
        space.u,
        space.v,
        size(space.live),
        space.um,
        space.hunger,
        report
            .average_dead_share
            .map_or_else(String::new, |dead| format!("; merged so far Dm {dead:.3}"))
    )?;
    let bound = report
        .planing_segment_bytes
        .map_or_else(String::new, |bound| {
            format!(
                "; one lifetime would plane up to R = C(Um − V) = {}",
                size(bound)
            )
        });
    writeln!(
        out,
        "planing  {}: segments of R = {}, policy {}{bound}",
        if report.planing { "yes" } else { "no" },
        size(report.segment_bytes),
        report.policy
    )
}

/// Prints write amplification (bytes written per byte stored) over the last hour, the last day and since the
/// start.
fn written(written: &Written, out: &mut impl Write) -> io::Result<()> {
    let periods = [
        ("hour", &written.hour),
        ("day", &written.day),
        ("start", &written.start),
    ];
    writeln!(
        out,
        "written  last     per byte stored       stored       merged      journal     over"
    )?;
    for (name, period) in periods {
        let ratio = period
            .per_byte
            .map_or_else(|| "-".to_string(), |ratio| format!("{ratio:.3}"));
        writeln!(
            out,
            "         {name:<6}  {ratio:>16} {:>12} {:>12} {:>12} {:>8}",
            size(period.stored),
            size(period.merged),
            size(period.journal),
            duration(period.seconds * 1e9)
        )?;
    }
    Ok(())
}

/// Prints the work of merges besides freeing space.
fn rewritten(rewritten: &Rewritten, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "reads    {} rewritten to coalesce blocks, {} more permitted; {} blocks coalesced, {} overwritten rows removed, {} saved by compression",
        size(rewritten.extra),
        size(rewritten.extra_left),
        rewritten.coalesced_blocks,
        rewritten.overwritten_rows,
        size(rewritten.recompressed)
    )
}

fn tell_device(device: &DeviceReport, day: &Period, out: &mut impl Write) -> io::Result<()> {
    let own = day.process as f64 / day.seconds.max(1.0) * 86_400.0;
    write!(out, "device   {}: ", device.name)?;
    match device.per_day {
        Some(per_day) => write!(
            out,
            "{} a day written to it, {} of them by the server, at the pace of {}",
            size(per_day as u64),
            size(own as u64),
            duration(day.seconds * 1e9)
        )?,
        None => write!(out, "not known yet how much is written to it a day")?,
    }
    match (device.tbw, device.life_days) {
        (Some(tbw), Some(days)) => writeln!(
            out,
            "; a new one, good for {}, lasts {}",
            size(tbw),
            duration((days * 86_400e9).min(9e18))
        ),
        _ => writeln!(out),
    }
}

fn tell_lane(
    lane: &LaneReport,
    segments: &[SegmentReport],
    out: &mut impl Write,
) -> io::Result<()> {
    let letters: Vec<String> = segments
        .iter()
        .filter(|segment| segment.lane == lane.id)
        .map(letter)
        .collect();
    if letters.is_empty() {
        return Ok(());
    }
    let life = match (lane.from_ns, lane.to_ns) {
        (None, _) => "for ever".to_string(),
        (Some(from), None) => format!("{} and more", duration(from as f64)),
        (Some(from), Some(to)) => format!("{} to {}", duration(from as f64), duration(to as f64)),
    };
    writeln!(
        out,
        "lane {:<3} remaining life {life}: {:.1} % of the arriving bytes, {} segments",
        lane.id,
        100.0 * lane.flow_share,
        letters.len()
    )?;
    for line in letters.chunks(SEGMENTS_A_LINE) {
        writeln!(out, "         {}", line.concat())?;
    }
    Ok(())
}

/// Returns the character of a segment: its height is the share of live bytes.
fn letter(segment: &SegmentReport) -> String {
    if segment.open {
        return "[]".to_string();
    }
    LIVE[(live_share(segment) * 8.0).ceil() as usize].to_string()
}

fn live_share(segment: &SegmentReport) -> f64 {
    segment.live as f64 / ((segment.live + segment.dead) as f64).max(1.0)
}

fn each_segment(segments: &[SegmentReport], out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        " segment  lane {:BAR$}         live         dead  expires",
        "  live █, dead ░"
    )?;
    for segment in segments {
        let dies = match segment.dies {
            _ if segment.open => "being written".to_string(),
            Some(at) => instant(at),
            None => "-".to_string(),
        };
        writeln!(
            out,
            "{:>8} {:>5} {} {:>12} {:>12}  {dies}",
            segment.number,
            segment.lane,
            bar(live_share(segment), 1.0 - live_share(segment)),
            size(segment.live),
            size(segment.dead)
        )?;
    }
    Ok(())
}

fn classes(classes: &[ClassReport], out: &mut impl Write) -> io::Result<()> {
    let width = classes.iter().map(|class| class.name.chars().count()).max();
    let width = width.unwrap_or(0).max(5);
    writeln!(
        out,
        "{:width$}  {:>9}  {:>12}  {:9}  keeps",
        "class", "sources", "live", "when full"
    )?;
    for class in classes {
        let when_full = match class.when_full.as_str() {
            "shed" => format!("shed {}", class.priority),
            other => other.to_string(),
        };
        writeln!(
            out,
            "{:width$}  {:>9}  {:>12}  {when_full:9}  {}",
            class.name,
            class.sources,
            size(class.live),
            keeps(class)
        )?;
    }
    Ok(())
}

/// Returns a bar for the shares of live and dead bytes.
fn bar(live: f64, dead: f64) -> String {
    let letters = |share: f64| (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    let live = letters(live);
    let dead = letters(dead).min(BAR - live);
    format!(
        "{}{}{}",
        "█".repeat(live),
        "░".repeat(dead),
        " ".repeat(BAR - live - dead)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_and_letters_show_live_and_dead_bytes() {
        assert_eq!(
            bar(0.5, 0.25),
            format!("{}{}{}", "█".repeat(20), "░".repeat(10), " ".repeat(10))
        );
        assert_eq!(bar(0.9, 0.9).chars().count(), BAR);
        let segment = |live, dead| SegmentReport {
            number: 1,
            lane: 0,
            bytes: 10,
            live,
            dead,
            open: false,
            born: 0,
            dies: None,
        };
        let letters: String = [(0, 9), (1, 99), (1, 1), (9, 0)]
            .iter()
            .map(|&(live, dead)| letter(&segment(live, dead)))
            .collect();
        assert_eq!(letters, "·▁▄█");
    }
}
