//! The jar of the compaction strategy contains what its sources say.
//!
//! If this machine cannot compile the sources, the test prints why and passes.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

/// Exit code of the script on a machine without javac 17 or without the jars of Cassandra.
const CANNOT: i32 = 3;

#[test]
fn the_jar_has_the_classes_of_its_sources() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/compaction-jar.sh");
    if !script.exists() {
        // A published crate has no scripts.
        return;
    }
    let output = Command::new(script).arg("--check").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(CANNOT) {
        let line = "=".repeat(100);
        // The test harness hides only the output of macros.
        let _ = writeln!(
            std::io::stderr(),
            "\n{line}\nTHE JAR OF THE COMPACTION STRATEGY IS NOT COMPARED WITH ITS SOURCES HERE.\n{text}{line}\n"
        );
        return;
    }
    assert!(output.status.success(), "{text}");
}
