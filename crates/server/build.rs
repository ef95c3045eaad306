//! Makes the page an input of the build. Debug builds read the page from disk instead.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo:rerun-if-changed=dist");
    }
}
