//! The planner behind the server's page.

use anyhow::{Result, bail};
use seiner_plan::form::{self, Surroundings};
use seiner_plan::{Alternative, Calibration, Demand, Disk, Figure, Observed, StorePlan};
use seiner_server::plan::{
    PlanChange, PlanFigure, PlanReport, PlanRequest, Planner, PlanningHost, StoreFigures,
};

/// Fields whose values come from the store on request.
const OF_STORE: [&str; 3] = ["sensors", "every", "fields"];

/// Planner for the machine of the server.
pub struct PagePlanner;

impl Planner for PagePlanner {
    fn read(
        &self,
        fields: &[(String, String)],
        host: &PlanningHost,
        own: Option<StoreFigures>,
    ) -> Result<Box<dyn PlanRequest>, String> {
        let is_given = |name: &str| own.is_none() || !OF_STORE.contains(&name);
        let fields = fields
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .filter(|(name, _)| is_given(name));
        // A placeholder until the figures of the store replace it.
        let placeholder = own.map(|_| ("sensors", "1"));
        let mut demand = form::read(fields.chain(placeholder), &surroundings(host))?;
        let own = own.map(observed);
        if let Some(own) = &own {
            own.fill(&mut demand)?;
            demand.check()?;
        }
        Ok(Box::new(DemandOfPage { demand, own }))
    }
}

/// Demand that the form describes.
struct DemandOfPage {
    demand: Demand,
    own: Option<Observed>,
}

impl PlanRequest for DemandOfPage {
    fn plan(&self, is_over: &dyn Fn() -> bool) -> Result<PlanReport> {
        let demand = &self.demand;
        let mut calibration = Calibration::make_until(demand, is_over)?;
        if let Some(own) = &self.own {
            own.correct(&mut calibration);
        }
        if is_over() {
            bail!("the client left before the plan was complete");
        }
        let plan = StorePlan::make(demand, &calibration);
        let toml = plan.to_toml();
        Ok(PlanReport {
            fits: plan.obstacles.is_empty(),
            sensors: demand.sensors,
            fields: demand.fields,
            every_s: demand.every_s,
            obstacles: plan.obstacles,
            figures: plan.figures.iter().map(figure).collect(),
            ways: plan.alternatives.into_iter().map(change).collect(),
            warnings: plan.warnings,
            toml,
        })
    }
}

fn figure(figure: &Figure) -> PlanFigure {
    PlanFigure {
        name: figure.name.trim().to_string(),
        value: figure.value.clone(),
        origin: figure.origin.to_string(),
    }
}

fn change(way: Alternative) -> PlanChange {
    PlanChange {
        what: way.what,
        gives_up: way.gives_up,
        v: way.live,
        written_per_s: way.written_per_s,
        memory: way.memory,
    }
}

fn observed(figures: StoreFigures) -> Observed {
    Observed {
        sources: figures.sources as f64,
        series: figures.series as f64,
        rows_per_s: figures.rows_per_s,
        samples_sealed: figures.samples_sealed as f64,
        blocks_sealed: figures.blocks_sealed as f64,
        block_bytes_sealed: figures.block_bytes_sealed as f64,
    }
}

fn surroundings(host: &PlanningHost) -> Surroundings {
    Surroundings {
        ram: host.memory as f64,
        processors: host.processors as f64,
        disk: Disk {
            name: "the data directory".to_string(),
            free_bytes: host.free_bytes as f64,
            ..Disk::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: PlanningHost = PlanningHost {
        memory: 8 << 30,
        processors: 4,
        free_bytes: 1 << 40,
    };

    fn fields(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(name, text): &(&str, &str)| (name.to_string(), text.to_string());
        pairs.iter().map(owned).collect()
    }

    fn store(rows_per_s: f64) -> StoreFigures {
        StoreFigures {
            sources: 500,
            series: 1000,
            rows_per_s,
            samples_sealed: 0,
            blocks_sealed: 0,
            block_bytes_sealed: 0,
        }
    }

    #[test]
    fn a_form_becomes_a_plan() {
        let form = fields(&[("sensors", "1e4"), ("every", "10s"), ("keep", "30d")]);
        let request = PagePlanner.read(&form, &HOST, None).expect("a good form");
        let plan = request.plan(&|| false).expect("a plan");
        assert!(plan.fits, "{:?}", plan.obstacles);
        assert_eq!((plan.sensors, plan.fields, plan.every_s), (1e4, 1, 10.0));
        assert!(!plan.figures.is_empty() && plan.toml.contains("disk"));
        assert!(request.plan(&|| true).is_err());
    }

    #[test]
    fn a_bad_form_is_rejected_with_the_field() {
        let form = fields(&[("sensors", "none")]);
        let error = PagePlanner
            .read(&form, &HOST, None)
            .err()
            .expect("an error");
        assert!(error.contains("sensors"), "{error}");
    }

    #[test]
    fn figures_of_the_store_replace_those_of_the_form() {
        let form = fields(&[("sensors", "7"), ("fields", "9"), ("keep", "1d")]);
        let read = |rows_per_s| PagePlanner.read(&form, &HOST, Some(store(rows_per_s)));
        let plan = read(50.0).expect("a good form").plan(&|| false);
        let plan = plan.expect("a plan");
        assert_eq!((plan.sensors, plan.fields, plan.every_s), (500.0, 2, 10.0));
        assert!(read(0.0).is_err(), "a store without new rows gives no plan");
    }
}
