//! `seiner log why`: decisions about segments, in words.

use crate::figures::{duration, instant, size};
use seiner_server::log::{ClassReport, DecisionReport, VictimReport};
use std::io::{self, Write};

/// Number of segments whose numbers are listed.
const LISTED: usize = 20;

/// Prints decisions, with the rules of the classes that let samples expire.
pub fn write(
    decisions: &[DecisionReport],
    classes: &[ClassReport],
    out: &mut impl Write,
) -> io::Result<()> {
    if decisions.is_empty() {
        return writeln!(
            out,
            "nothing was dropped or merged since the server was started"
        );
    }
    for decision in decisions {
        writeln!(
            out,
            "{}  U {:.3}: {} of the disk budget were used, {} live (V {:.3}); merging begins at {} (Um {:.3})",
            instant(decision.at),
            decision.u,
            percent(decision.u),
            percent(decision.v),
            decision.v,
            percent(decision.um),
            decision.um
        )?;
        if !decision.drop.is_empty() {
            writeln!(out, "    {}", dropped(&decision.drop))?;
        }
        for victim in &decision.merge {
            writeln!(out, "    {}", merged(victim))?;
        }
        if !decision.merge.is_empty() {
            writeln!(out, "    {}", chosen(decision))?;
        }
    }
    write_rules(classes, out)
}

/// Prints the rules by which samples expire, once: segments contain samples of several classes.
fn write_rules(classes: &[ClassReport], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nSamples expire by these rules:")?;
    for class in classes {
        let shed = match class.when_full.as_str() {
            "shed" => ", less if the disk is full",
            _ => "",
        };
        writeln!(out, "    class {} keeps {}{shed}", class.name, keeps(class))?;
    }
    Ok(())
}

fn dropped(numbers: &[u64]) -> String {
    let (count, rest) = (numbers.len(), numbers.len().saturating_sub(LISTED));
    let listed: Vec<String> = numbers.iter().take(LISTED).map(u64::to_string).collect();
    let more = match rest {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    let listed = listed.join(" ");
    match count {
        1 => format!(
            "dropped segment {listed} unread: all its samples had expired, or were shed, deleted or overwritten"
        ),
        _ => format!(
            "dropped {count} segments unread: all their samples had expired, or were shed, deleted or overwritten: {listed}{more}"
        ),
    }
}

fn merged(victim: &VictimReport) -> String {
    format!(
        "merged segment {}: {} of it was dead (D {:.3}), {} were written again, {} became free (score {:.4})",
        victim.number,
        percent(victim.dead_share),
        victim.dead_share,
        size(victim.live),
        size(victim.gain),
        victim.score
    )
}

/// Returns the reason for the choice of the merged segments.
fn chosen(decision: &DecisionReport) -> String {
    let need = match decision.hunger {
        hunger if hunger <= 0.0 => "space was not short".to_string(),
        hunger => format!("space was short: hunger {hunger:.2} of 1"),
    };
    let bound = decision.least_dead_share.map_or_else(String::new, |least| {
        let mean = decision.average_dead_share.unwrap_or_default();
        format!(
            ", which took segments that are dead by {} or more (mean of the merged ones so far {})",
            percent(least),
            percent(mean)
        )
    });
    format!(
        "chosen by the policy {} from {} segments{bound}; after the drops, {need}",
        decision.policy, decision.candidates
    )
}

/// Returns the retention of a class and its sources in words.
pub fn keeps(class: &ClassReport) -> String {
    let rules = [
        class.age_ns.map(|ns| duration(ns as f64)),
        class.rows.map(|rows| format!("{rows} rows of each source")),
        class.bytes.map(size),
    ];
    let rules: Vec<String> = rules.into_iter().flatten().collect();
    let kept = match rules.is_empty() {
        true => "all, for ever".to_string(),
        false => format!("the latest {}", rules.join(", ")),
    };
    if let Some(step) = class.step_ns {
        return format!("a row every {}: {kept}", duration(step as f64));
    }
    match class.select.is_empty() {
        true => kept,
        false => format!("{kept}; of {}", class.select),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_have_their_reasons_in_words() {
        let decision = DecisionReport {
            at: 1_700_000_000_000_000_000,
            policy: "fisherman".to_string(),
            u: 0.914,
            um: 0.8,
            v: 0.7,
            hunger: 0.25,
            least_dead_share: Some(0.3),
            average_dead_share: Some(0.35),
            candidates: 12,
            drop: (1..=22).collect(),
            merge: vec![VictimReport {
                number: 40,
                dead_share: 0.5,
                live: 1 << 20,
                gain: 2 << 20,
                score: 1.5,
            }],
        };
        let class = ClassReport {
            name: "default".to_string(),
            select: String::new(),
            age_ns: None,
            rows: None,
            bytes: Some(14 << 20),
            priority: 1,
            when_full: "shed".to_string(),
            step_ns: None,
            sources: 1,
            live: 1,
            hidden_before: None,
        };
        let mut text = Vec::new();
        write(&[decision], &[class], &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for part in [
            "2023-11-14T22:13:20Z  U 0.914: 91.4 % of the disk budget were used, 70.0 % live (V 0.700)",
            "merging begins at 80.0 % (Um 0.800)",
            "dropped 22 segments unread: all their samples had expired, or were shed, deleted or overwritten: 1 2 3",
            " 20 and 2 more\n",
            "merged segment 40: 50.0 % of it was dead (D 0.500), 1.00 MiB were written again, 2.00 MiB became free",
            "chosen by the policy fisherman from 12 segments, which took segments that are dead by 30.0 % or more",
            "space was short: hunger 0.25 of 1",
            "class default keeps the latest 14.0 MiB, less if the disk is full\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let mut none = Vec::new();
        write(&[], &[], &mut none).unwrap();
        assert!(none.starts_with(b"nothing was dropped"));
    }
}
