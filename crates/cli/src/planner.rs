//! The planner behind the server's page.

use anyhow::{Result, bail};
use seiner_plan::form::{self, Surroundings};
use seiner_plan::{Alternative, Calibration, Demand, Disk, Figure, Observed, Recording, StorePlan};
use seiner_server::plan::{
    OwnStore, PlanChange, PlanFigure, PlanReport, PlanRequest, Planner, PlanningHost,
};
use seiner_store::Store;
use std::sync::Arc;

/// Fields whose values come from the store on request.
const OF_STORE: [&str; 3] = ["sensors", "every", "fields"];

/// Planner for the machine of the server.
pub struct PagePlanner;

impl Planner for PagePlanner {
    fn read(
        &self,
        fields: &[(String, String)],
        host: &PlanningHost,
        own: Option<OwnStore>,
    ) -> Result<Box<dyn PlanRequest>, String> {
        let is_given = |name: &str| own.is_none() || !OF_STORE.contains(&name);
        let fields = fields
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .filter(|(name, _)| is_given(name));
        // A placeholder until the figures of the store replace it.
        let placeholder = own.as_ref().map(|_| ("sensors", "1"));
        let mut demand = form::read(fields.chain(placeholder), &surroundings(host))?;
        if let Some(own) = &own {
            observed(own).fill(&mut demand)?;
            demand.check()?;
        }
        Ok(Box::new(DemandOfPage {
            demand,
            own: own.map(|own| own.store),
        }))
    }
}

/// Demand that the form describes.
struct DemandOfPage {
    demand: Demand,
    /// Store with samples like those of the demand.
    own: Option<Arc<dyn Store>>,
}

impl PlanRequest for DemandOfPage {
    fn plan(&self, is_over: &dyn Fn() -> bool) -> Result<PlanReport> {
        let mut demand = self.demand.clone();
        // A store with too few rows has the samples of the form.
        if let Some(own) = &self.own
            && let Ok(recording) = Recording::read("this store", &**own, None)
        {
            demand.record(Arc::new(recording));
        }
        let demand = &demand;
        let calibration = Calibration::make_until(demand, is_over)?;
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
        is_detail: figure.is_detail,
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

fn observed(own: &OwnStore) -> Observed {
    Observed {
        sources: own.store.status().sources as f64,
        rows_per_s: own.rows_per_s,
        samples_per_s: own.samples_per_s,
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

    /// Returns a store of 50 sources with two fields.
    fn store(rows_per_s: f64) -> OwnStore {
        let store = seiner_store::MemoryStore::default();
        for source in 0..50 {
            let key = seiner_model::SourceKey::new("m", [("id", source.to_string())]).unwrap();
            let source = store.register(&key).unwrap();
            for row in 0..40 {
                let value = |field: i64| seiner_model::FieldColumn {
                    present: None,
                    values: seiner_model::Column::I64(vec![row * field]),
                };
                let columns = seiner_model::Columns {
                    times: vec![row * 1_000_000_000],
                    fields: vec![value(1), value(2)],
                };
                store.append_columns(source, &["a", "b"], &columns).unwrap();
            }
        }
        OwnStore {
            store: Arc::new(store),
            rows_per_s,
            samples_per_s: 2.0 * rows_per_s,
        }
    }

    #[test]
    fn a_form_becomes_a_plan() {
        let form = fields(&[("sensors", "1e4"), ("every", "10s"), ("keep", "30d")]);
        let request = PagePlanner.read(&form, &HOST, None).expect("a good form");
        let plan = request.plan(&|| false).expect("a plan");
        assert!(plan.fits, "{:?}", plan.obstacles);
        assert_eq!((plan.sensors, plan.fields, plan.every_s), (1e4, 1, 10.0));
        let toml = plan.toml.expect("a configuration");
        assert!(!plan.figures.is_empty() && toml.contains("disk"));
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
        assert_eq!((plan.sensors, plan.fields, plan.every_s), (50.0, 2, 1.0));
        assert!(read(0.0).is_err(), "a store without new rows gives no plan");
    }
}
