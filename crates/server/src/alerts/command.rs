//! The program that receives alerts.

use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Maximum time of the program.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two looks at the program.
const LOOK: Duration = Duration::from_millis(20);

/// Runs the program with a JSON list of alerts on its standard input.
///
/// # Errors
/// A sentence for people, if the program cannot be started, fails, or takes longer than 30 s.
pub async fn run(program: &Path, alerts: &[Value]) -> Result<(), String> {
    let text = serde_json::to_vec(alerts).map_err(|error| error.to_string())?;
    let program = program.to_path_buf();
    let started = tokio::task::spawn_blocking(move || start(&program, text));
    let mut child = started.await.map_err(|error| error.to_string())??;
    match tokio::time::timeout(PATIENCE, ended(&mut child)).await {
        Ok(ended) => ended,
        Err(_) => {
            let _ = child.kill();
            let _ = child.wait();
            let seconds = PATIENCE.as_secs();
            Err(format!("it did not end in {seconds} s, and was killed"))
        }
    }
}

fn start(program: &Path, text: Vec<u8>) -> Result<Child, String> {
    let child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.map_err(|error| format!("it was not started: {error}"))?;
    if let Some(mut input) = child.stdin.take() {
        // A program need not read its input. This thread ends at the latest when the program ends.
        std::thread::spawn(move || {
            let _ = input.write_all(&text);
        });
    }
    Ok(child)
}

/// Waits for the end of a program.
async fn ended(child: &mut Child) -> Result<(), String> {
    loop {
        match child.try_wait() {
            Ok(None) => tokio::time::sleep(LOOK).await,
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("it failed: {status}")),
            Err(error) => return Err(error.to_string()),
        }
    }
}
