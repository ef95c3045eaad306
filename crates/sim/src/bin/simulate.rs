//! Runs the simulation with a progress line: `simulate [runs]`.
//!
//! `SEINER_SIM_RUNS` and `SEINER_SIM_SEED` override the argument; `SEINER_SIM_FIRST` is the first
//! seed. The exit status is 1 after a violation, and 2 for a wrong argument.

use seiner_sim::Campaign;
use std::io::IsTerminal;
use std::process::ExitCode;

fn main() -> ExitCode {
    let runs = match std::env::args().nth(1).map(|text| text.parse::<u64>()) {
        None => 1000,
        Some(Ok(runs)) => runs,
        Some(Err(_)) => {
            eprintln!("usage: simulate [runs]; SEINER_SIM_SEED=n repeats one run, step by step");
            return ExitCode::from(2);
        }
    };
    let campaign = Campaign {
        violations: 10,
        ..Campaign::from_env(runs)
    };
    let asked = campaign.seeds.end - campaign.seeds.start;
    let live = std::io::stderr().is_terminal();
    let outcome = campaign.run(|done, total| {
        if live && done % 20 == 0 {
            // The cursor returns to the start of the line, so that the next output overwrites it.
            eprint!("\x1b[2K{done}/{asked} seeds: {total}\r");
        } else if done % 1000 == 0 {
            eprintln!("{done}/{asked} seeds: {total}");
        }
    });
    println!("{}", outcome.summary(&campaign.seeds));
    print!("{}", outcome.total.works);
    outcome
        .violations
        .iter()
        .for_each(|violation| println!("{violation}"));
    if outcome.violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
