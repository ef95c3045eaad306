//! Plans: one at a time, made by the planner that the program provides.

use crate::limits::until;
use crate::site::Site;
use anyhow::{Result, bail};
use seiner_server::Extensions;
use seiner_server::plan::{OwnStore, PlanReport, PlanRequest, Planner, PlanningHost};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Planner that works until its client disconnects, at most for a minute.
struct Endless;

/// Planner that returns at once, with the given figures.
struct Quick(Option<OwnStore>);

impl Planner for Endless {
    fn read(
        &self,
        fields: &[(String, String)],
        _: &PlanningHost,
        _: Option<OwnStore>,
    ) -> Result<Box<dyn PlanRequest>, String> {
        match fields.iter().any(|(_, text)| text == "none") {
            true => Err("sensors: write a number".to_string()),
            false => Ok(Box::new(Endless)),
        }
    }
}

impl PlanRequest for Endless {
    fn plan(&self, is_over: &dyn Fn() -> bool) -> Result<PlanReport> {
        let begun = Instant::now();
        while !is_over() && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("the plan was given up")
    }
}

impl Planner for Quick {
    fn read(
        &self,
        fields: &[(String, String)],
        host: &PlanningHost,
        own: Option<OwnStore>,
    ) -> Result<Box<dyn PlanRequest>, String> {
        assert!(host.memory > 0 && host.processors > 0 && host.free_bytes > 0);
        assert_eq!(fields, [("keep".to_string(), "1d".to_string())]);
        Ok(Box::new(Quick(own)))
    }
}

impl PlanRequest for Quick {
    fn plan(&self, _: &dyn Fn() -> bool) -> Result<PlanReport> {
        let own = self.0.as_ref();
        let sources = own.map_or(0, |own| own.store.status().sources);
        Ok(PlanReport {
            fits: true,
            sensors: sources as f64,
            fields: 1,
            every_s: 1.0,
            obstacles: Vec::new(),
            figures: Vec::new(),
            ways: Vec::new(),
            warnings: Vec::new(),
            toml: None,
        })
    }
}

fn site(planner: impl Planner + 'static) -> Site {
    Site::extended(Extensions {
        planner: Some(Arc::new(planner)),
        ..Extensions::default()
    })
}

#[test]
fn one_plan_is_made_at_a_time_and_ends_with_its_client() {
    let site = site(Endless);
    let plan = b"GET /api/v1/plan?sensors=1e6&every=10s HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut clients: Vec<TcpStream> = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(site.address).unwrap();
        stream.write_all(plan).unwrap();
        clients.push(stream);
    }
    until("all but one are rejected", || {
        site.get("/status").json()["ingest"]["turned_away"] == json!(7)
    });
    let rejected = site.get("/api/v1/plan?sensors=1&every=1s&keep=1d");
    assert_eq!(rejected.status, 503);
    assert_eq!(rejected.headers["retry-after"], "1");
    // Queries have a separate limit.
    assert_eq!(site.query(&[("select", "{}")]).status, 200);
    let foreign = [("sec-fetch-site", "cross-site")];
    assert_eq!(site.get_with("/api/v1/plan", &foreign).status, 403);
    // An invalid form is rejected even if the limit is reached.
    assert_eq!(site.get("/api/v1/plan?sensors=none").status, 400);
    drop(clients);
    until("the plan is given up", || {
        let mut stream = TcpStream::connect(site.address).unwrap();
        stream.write_all(plan).unwrap();
        let patience = Some(Duration::from_millis(300));
        stream.set_read_timeout(patience).unwrap();
        // A rejection arrives at once. A plan takes longer.
        stream.read(&mut [0; 12]).is_err()
    });
}

#[test]
fn the_planner_receives_the_figures_of_the_store_on_request() {
    let site = site(Quick(None));
    site.write("m,a=1 v=1 1\nm,a=2 v=1 1");
    let plan = |path| site.get(path).json();
    assert_eq!(plan("/api/v1/plan?keep=1d")["sensors"], json!(0.0));
    let own = plan("/api/v1/plan?keep=1d&own=true");
    assert_eq!((&own["sensors"], &own["fits"]), (&json!(2.0), &json!(true)));
}

#[test]
fn a_program_without_a_planner_has_no_plans() {
    assert_eq!(Site::new().get("/api/v1/plan?sensors=1").status, 404);
}
