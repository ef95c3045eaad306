//! Runs of the program.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Returns a command that runs the program in a directory.
pub fn seiner(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seiner"));
    command
        .current_dir(directory)
        .args(arguments)
        .stdin(Stdio::null());
    command
}

/// Runs the program to the end. Returns the exit status, standard output and standard error.
pub fn run(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    results(seiner(directory, arguments).output().unwrap())
}

/// Returns the exit status, standard output and standard error.
pub fn results(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// Starts a server on a free port. Returns the process and its address.
pub fn serve(directory: &Path, arguments: &[&str]) -> (Child, String) {
    let common = ["serve", "--listen", "127.0.0.1:0", "--host-sensors", "off"];
    let mut server = seiner(directory, &[&common, arguments].concat())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut messages = BufReader::new(server.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let announced = messages.find(|line| line.contains("http://")).unwrap();
    let mut words = announced.split_whitespace();
    let address = words.find(|word| word.starts_with("http://")).unwrap();
    let address = address.trim_end_matches('/').to_string();
    // Reads the further messages, so that a full pipe does not block the server.
    std::thread::spawn(move || messages.count());
    (server, address)
}

/// Ends a server with SIGTERM and waits for its normal exit.
pub fn stop(server: &mut Child) {
    let process = server.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &process]).status();
    assert!(sent.unwrap().success());
    assert!(server.wait().unwrap().success());
}
