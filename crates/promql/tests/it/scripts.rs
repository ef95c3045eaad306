//! Scripts of this folder, and of the folder that the variable `SEINER_PROMQL_TESTDATA` names.

use crate::runner::{Outcome, run};
use seiner_promql::Options;
use std::fs;
use std::path::{Path, PathBuf};

/// Share of the queries of other scripts that must have the expected result.
const GOAL: f64 = 0.99;

fn scripts(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|end| end == "test"))
        .collect();
    found.sort();
    found
}

fn print_differences(path: &Path, outcomes: &[&Outcome]) {
    for outcome in outcomes {
        let difference = outcome.difference.as_deref().unwrap_or("");
        let name = path.file_name().unwrap().to_string_lossy();
        println!(
            "{name}:{}: {}\n    {difference}",
            outcome.line, outcome.text
        );
    }
}

#[test]
fn our_scripts_have_the_expected_results() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut failed = 0;
    for path in scripts(&folder) {
        let options = Options {
            delayed_names: path.to_string_lossy().ends_with("_delayed.test"),
            ..Options::default()
        };
        let outcomes = run(&fs::read_to_string(&path).unwrap(), &options);
        assert!(!outcomes.is_empty(), "{}", path.display());
        let wrong: Vec<&Outcome> = outcomes
            .iter()
            .filter(|outcome| outcome.difference.is_some())
            .collect();
        print_differences(&path, &wrong);
        failed += wrong.len();
    }
    assert_eq!(failed, 0);
}

#[test]
fn a_wrong_expectation_is_detected() {
    let script = "load 1m\n  a 1\n\neval instant at 0m a\n  a 2\n\neval instant at 0m a\n  a 1\n";
    let outcomes = run(script, &Options::default());
    let wrong: Vec<bool> = outcomes
        .iter()
        .map(|outcome| outcome.difference.is_some())
        .collect();
    assert_eq!(wrong, [true, false]);
}

/// Runs scripts from elsewhere, such as those of Prometheus, which are not part of this repository. Names are dropped at
/// once in a script whose name ends in `_immediate.test`.
#[test]
fn other_scripts_have_the_expected_results() {
    let Ok(folder) = std::env::var("SEINER_PROMQL_TESTDATA") else {
        return;
    };
    let (mut passed, mut total, mut native) = (0, 0, 0);
    for path in scripts(Path::new(&folder)) {
        let options = Options {
            delayed_names: !path.to_string_lossy().ends_with("_immediate.test"),
            ..Options::default()
        };
        let outcomes = run(&fs::read_to_string(&path).unwrap(), &options);
        let (of_native, others): (Vec<&Outcome>, Vec<&Outcome>) =
            outcomes.iter().partition(|outcome| outcome.is_native);
        let wrong: Vec<&Outcome> = others
            .iter()
            .copied()
            .filter(|outcome| outcome.difference.is_some())
            .collect();
        print_differences(&path, &wrong);
        let name = path.file_name().unwrap().to_string_lossy();
        for outcome in of_native
            .iter()
            .filter(|outcome| outcome.difference.is_some())
        {
            println!(
                "{name}:{}: native histograms: {}",
                outcome.line, outcome.text
            );
        }
        let right = others.len() - wrong.len();
        println!(
            "{name}: {right} of {}, and {} with native histograms",
            others.len(),
            of_native.len()
        );
        passed += right;
        total += others.len();
        native += of_native.len();
    }
    println!("all: {passed} of {total}, and {native} with native histograms");
    assert!(
        passed as f64 >= GOAL * f64::from(total as u32),
        "{passed} of {total}"
    );
}
