//! Declares that the page is part of the program. Debug builds read it from disk instead.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo:rerun-if-changed=../../web/dist");
    }
}
