//! Life of a server, from its start to its stop.
//!
//! A stop proceeds from the outside in: no new connections, then requests in flight are finished, sensors
//! end, and the store writes the data in memory. Nothing acknowledged is lost.

use crate::access::Access;
use crate::alerts::AlertState;
use crate::app_state::{AppState, Extensions};
use crate::health::{clock_warning, idle_classes};
use crate::host::Host;
use crate::listen::Wire;
use crate::settings::Settings;
use crate::shutdown::{Signals, Stop};
use crate::sql::Protocol;
use crate::sql_program::reachable;
use crate::text::{self, tcp, udp};
use crate::tls::Tls;
use crate::{
    alerts, collectd, dashboards, graphite, listen, mqtt, notify, opentsdb, otlp, scrape, shutdown,
    sql, statsd,
};
use anyhow::{Context, Result, anyhow};
use seiner_engine::Engine;
use seiner_store::Store;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Running server.
pub struct Server {
    app: Arc<AppState>,
    address: SocketAddr,
    line_address: Option<SocketAddr>,
    mqtt_address: Option<SocketAddr>,
    otlp_address: Option<SocketAddr>,
    postgres_address: Option<SocketAddr>,
    flight_sql_address: Option<SocketAddr>,
    /// Addresses of the ports without answers, by the name of their setting.
    text_addresses: Vec<(&'static str, SocketAddr)>,
    stopping: watch::Sender<bool>,
    ports: JoinSet<()>,
    host: Option<Host>,
}

impl Server {
    /// Opens the store and the ports. Port 0 takes any free port.
    ///
    /// # Errors
    /// If the settings expose the server without permission, the store cannot be opened, or an address
    /// cannot be listened on.
    pub async fn start(settings: Settings) -> Result<Server> {
        Server::start_extended(Extensions::default(), settings).await
    }

    /// Opens the store on the storage target of the extensions or in a directory, and the ports. A store of the
    /// extensions is open already.
    ///
    /// # Errors
    /// The errors of [`Server::start`].
    pub async fn start_extended(extensions: Extensions, mut settings: Settings) -> Result<Server> {
        settings.check_exposure().map_err(|error| anyhow!(error))?;
        let of = settings.clone();
        let access = tokio::task::spawn_blocking(move || {
            Ok::<_, String>((Access::open(&of)?, Tls::open(&of.tls)?))
        })
        .await?;
        let access = access.map_err(|error| anyhow!(error))?;
        if let Some(store) = extensions.store.clone() {
            let app = tokio::task::spawn_blocking(move || {
                AppState::new(store, extensions, settings, access)
            });
            return Server::serve(Arc::new(app.await?)).await;
        }
        let target = extensions.target.clone();
        if let Some(target) = &target {
            let unit = target.disk().unit();
            let fitted = settings.on_disk_of(target.capacity(), unit);
            settings = fitted.map_err(|error| anyhow!(error))?;
            // There is no file system whose space must be watched.
            settings.data = PathBuf::new();
        }
        let (data, options, on) = (settings.data.clone(), settings.options(), target.clone());
        let opened = tokio::task::spawn_blocking(move || match on {
            Some(target) => Engine::start(target.disk(), options),
            None => Engine::open_directory(&data, options),
        });
        let engine = opened.await?.with_context(|| match &target {
            Some(target) => format!("the store on {} was not opened", target.name()),
            None => format!(
                "the data directory {} was not opened",
                settings.data.display()
            ),
        })?;
        let (recovery, changes) = (
            engine.recovery().to_string(),
            engine.rules_changed().to_vec(),
        );
        let app = Arc::new(AppState::new(engine, extensions, settings, access));
        tracing::info!("{}: {recovery}", app.location());
        for change in changes {
            tracing::info!("{}: the stored rules change: {change}", app.location());
        }
        Server::serve(app).await
    }

    /// Opens the ports before a store that is open. The server closes the store when it stops. Port 0 takes any
    /// free port.
    ///
    /// # Errors
    /// If the settings expose the server without permission, or an address cannot be listened on.
    pub async fn start_with(store: Arc<dyn Store>, settings: Settings) -> Result<Server> {
        settings.check_exposure().map_err(|error| anyhow!(error))?;
        let extensions = Extensions {
            store: Some(store),
            ..Extensions::default()
        };
        Server::start_extended(extensions, settings).await
    }

    async fn serve(app: Arc<AppState>) -> Result<Server> {
        let at_start = app.clone();
        tokio::task::spawn_blocking(move || {
            for loss in at_start.store.losses() {
                tracing::warn!("{loss}");
            }
            for class in idle_classes(&at_start.store.classes()) {
                tracing::warn!("{class}");
            }
            if let Some(clock) = clock_warning(&at_start.store.status()) {
                tracing::warn!("{clock}");
            }
        })
        .await?;
        let (stopping, stop) = shutdown::stop();
        let mut server = Server {
            address: app.settings.listen,
            line_address: None,
            mqtt_address: None,
            otlp_address: None,
            postgres_address: None,
            flight_sql_address: None,
            text_addresses: Vec::new(),
            stopping,
            ports: JoinSet::new(),
            host: None,
            app,
        };
        if let Err(error) = server.open_ports(stop).await {
            server.stop().await?;
            return Err(error);
        }
        Ok(server)
    }

    async fn open_ports(&mut self, stop: Stop) -> Result<()> {
        let settings = &self.app.settings;
        let listener = bind(settings.listen, "listen").await?;
        self.address = listener.local_addr()?;
        let token = self.app.access.sql_token().to_string();
        let plain = self.open_plain(&stop).await?.unwrap_or(self.address);
        self.app.sql.set_server(plain, token);
        let settings = &self.app.settings;
        if let Some(address) = settings.line_tcp {
            let listener = bind(address, "line_tcp").await?;
            self.line_address = Some(listener.local_addr()?);
            self.ports.spawn(tcp::serve(
                &text::LINE,
                listener,
                self.app.clone(),
                stop.clone(),
            ));
        }
        self.open_text_ports(&stop).await?;
        let settings = &self.app.settings;
        if let Some(address) = settings.mqtt.listen {
            let listener = bind(address, "mqtt_listen").await?;
            self.mqtt_address = Some(listener.local_addr()?);
            self.ports
                .spawn(mqtt::serve(listener, self.app.clone(), stop.clone()));
        }
        if let Some(broker) = settings.mqtt.broker.clone() {
            self.ports
                .spawn(mqtt::subscribe(broker, self.app.clone(), stop.clone()));
        }
        self.start_alerts(&stop).await?;
        let settings = &self.app.settings;
        if !settings.scrape.is_empty() {
            self.ports
                .spawn(scrape::serve(self.app.clone(), stop.clone()));
        }
        if let Some(address) = settings.otlp_grpc {
            let listener = bind(address, "otlp_grpc").await?;
            self.otlp_address = Some(listener.local_addr()?);
            let served = otlp::grpc::serve(listener, self.app.clone(), stop.clone());
            self.ports.spawn(served);
        }
        let (postgres, flight) = (settings.postgres_listen, settings.flight_sql_listen);
        self.postgres_address = self
            .open_sql_port(Protocol::Postgres, postgres, &stop)
            .await?;
        self.flight_sql_address = self.open_sql_port(Protocol::Flight, flight, &stop).await?;
        let settings = &self.app.settings;
        if let Some(period) = settings.host_sensors {
            self.host = Some(Host::start(
                self.app.store.clone(),
                period,
                settings.data.clone(),
            )?);
        }
        self.ports.spawn(tick(self.app.clone(), stop.clone()));
        self.ports
            .spawn(dashboards::keep(self.app.clone(), stop.clone()));
        self.ports
            .spawn(notify::keep_alive(reachable(plain), stop.clone()));
        self.ports
            .spawn(listen::serve(listener, self.app.clone(), stop, Wire::Any));
        Ok(())
    }

    /// Opens a port on loopback without TLS for the program that answers SQL, if the port of HTTP has TLS. Requests need
    /// a token there as well.
    async fn open_plain(&mut self, stop: &Stop) -> Result<Option<SocketAddr>> {
        if self.app.tls.is_none() {
            return Ok(None);
        }
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let listener = bind(address, "listen").await?;
        let address = listener.local_addr()?;
        let (app, stop) = (self.app.clone(), stop.clone());
        self.ports
            .spawn(listen::serve(listener, app, stop, Wire::Plain));
        Ok(Some(address))
    }

    /// Returns whether the ports have TLS.
    pub fn is_encrypted(&self) -> bool {
        self.app.tls.is_some()
    }

    /// Opens a port whose connections are passed on to `seiner-sql`, if it has an address.
    async fn open_sql_port(
        &mut self,
        protocol: Protocol,
        address: Option<SocketAddr>,
        stop: &Stop,
    ) -> Result<Option<SocketAddr>> {
        let Some(address) = address else {
            return Ok(None);
        };
        let listener = bind(address, protocol.setting()).await?;
        let address = listener.local_addr()?;
        let (app, stop) = (self.app.clone(), stop.clone());
        self.ports.spawn(sql::serve(protocol, listener, app, stop));
        Ok(Some(address))
    }

    /// Opens the ports for protocols without answers. A number of 0 for TCP and UDP together is chosen for TCP.
    async fn open_text_ports(&mut self, stop: &Stop) -> Result<()> {
        let ports = self.app.settings.text_ports;
        if let Some(address) = ports.line_udp {
            let socket = udp::bind(address, "line_udp_listen").await?;
            let address = socket.local_addr()?;
            self.text_addresses.push(("line_udp_listen", address));
            let served = udp::serve(&text::LINE, socket, self.app.clone(), stop.clone());
            self.ports.spawn(served);
        }
        if let Some(address) = ports.graphite {
            let listener = bind(address, "graphite_listen").await?;
            let address = listener.local_addr()?;
            let socket = udp::bind(address, "graphite_listen").await?;
            self.text_addresses.push(("graphite_listen", address));
            let protocol = &graphite::PLAINTEXT;
            let served = tcp::serve(protocol, listener, self.app.clone(), stop.clone());
            self.ports.spawn(served);
            let served = udp::serve(protocol, socket, self.app.clone(), stop.clone());
            self.ports.spawn(served);
        }
        if let Some(address) = ports.graphite_pickle {
            let listener = bind(address, "graphite_pickle_listen").await?;
            let address = listener.local_addr()?;
            self.text_addresses
                .push(("graphite_pickle_listen", address));
            let served = graphite::pickle::serve(listener, self.app.clone(), stop.clone());
            self.ports.spawn(served);
        }
        if let Some(address) = ports.opentsdb {
            let listener = bind(address, "opentsdb_listen").await?;
            let address = listener.local_addr()?;
            self.text_addresses.push(("opentsdb_listen", address));
            let protocol = &opentsdb::TELNET;
            let served = tcp::serve(protocol, listener, self.app.clone(), stop.clone());
            self.ports.spawn(served);
        }
        if let Some(address) = self.app.settings.statsd.listen {
            let listener = bind(address, "statsd_listen").await?;
            let address = listener.local_addr()?;
            let socket = udp::bind(address, "statsd_listen").await?;
            self.text_addresses.push(("statsd_listen", address));
            let served = statsd::serve(socket, listener, self.app.clone(), stop.clone());
            self.ports.spawn(served);
        }
        self.open_collectd(stop).await
    }

    /// Reads the rules, and starts their evaluation if there is a file.
    async fn start_alerts(&mut self, stop: &Stop) -> Result<()> {
        let app = self.app.clone();
        let read = tokio::task::spawn_blocking(move || {
            AlertState::read(&app.settings.alert, app.scrape.names.clone())
        });
        let state = read.await??;
        // The tasks of the groups read the state, so it must be there before them.
        self.app.alerts.get_or_init(|| state);
        if self.app.settings.alert.rules.is_some() {
            self.ports
                .spawn(alerts::serve(self.app.clone(), stop.clone()));
        }
        Ok(())
    }

    /// Opens the port of collectd, after its files were read.
    async fn open_collectd(&mut self, stop: &Stop) -> Result<()> {
        let Some(address) = self.app.settings.collectd.listen else {
            return Ok(());
        };
        let app = self.app.clone();
        let read = tokio::task::spawn_blocking(move || collectd::packets(&app.settings.collectd));
        let packets = read.await??;
        self.app.collectd.get_or_init(|| packets);
        let socket = udp::bind(address, "collectd_listen").await?;
        let address = socket.local_addr()?;
        self.text_addresses.push(("collectd_listen", address));
        let served = udp::serve(&collectd::PACKETS, socket, self.app.clone(), stop.clone());
        self.ports.spawn(served);
        Ok(())
    }

    /// Returns the address of a port without answers, by the name of its setting, if there is one.
    pub fn text_address(&self, setting: &str) -> Option<SocketAddr> {
        let mut addresses = self.text_addresses.iter();
        addresses
            .find(|(name, _)| *name == setting)
            .map(|(_, address)| *address)
    }

    /// Returns the address of HTTP.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of line protocol over TCP, if there is one.
    pub fn line_address(&self) -> Option<SocketAddr> {
        self.line_address
    }

    /// Returns the address of MQTT for devices, if there is one.
    pub fn mqtt_address(&self) -> Option<SocketAddr> {
        self.mqtt_address
    }

    /// Returns the address of OTLP over gRPC, if there is one.
    pub fn otlp_address(&self) -> Option<SocketAddr> {
        self.otlp_address
    }

    /// Returns the address of PostgreSQL's protocol, if there is one.
    pub fn postgres_address(&self) -> Option<SocketAddr> {
        self.postgres_address
    }

    /// Returns the address of Flight SQL, if there is one.
    pub fn flight_sql_address(&self) -> Option<SocketAddr> {
        self.flight_sql_address
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.app.store
    }

    /// Stops the server: finishes requests in flight within `stop_timeout`, then closes the store.
    ///
    /// # Errors
    /// If the store could not write the data in memory.
    pub async fn stop(mut self) -> Result<()> {
        self.stopping.send_replace(true);
        let patience = self.app.settings.stop_timeout;
        let finished = async { while self.ports.join_next().await.is_some() {} };
        if tokio::time::timeout(patience, finished).await.is_err() {
            let cut = self.app.writes.in_use() + self.app.queries.in_use();
            tracing::warn!("{cut} requests were not finished within stop_timeout and are cut off");
        }
        self.ports.abort_all();
        self.app.sql.stop().await;
        let (store, host) = (self.app.store.clone(), self.host.take());
        let closed = tokio::task::spawn_blocking(move || {
            host.into_iter().for_each(Host::stop);
            store.close()
        });
        closed.await?.context("the store was not closed cleanly")?;
        tracing::info!("stopped; everything accepted is on disk");
        Ok(())
    }
}

async fn bind(address: SocketAddr, setting: &str) -> Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!(
            "{address} cannot be listened on; choose another address with the setting {setting}"
        )
    })
}

/// Updates the figures of the store every second.
async fn tick(app: Arc<AppState>, mut stop: Stop) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            _ = seconds.tick() => {
                let app = app.clone();
                // A status waits for the writer of the ledger.
                if let Err(error) = tokio::task::spawn_blocking(move || app.tick()).await {
                    tracing::error!("the metrics were not updated: {error}");
                }
            }
            () = stop.wanted() => return,
        }
    }
}

/// Runs a server until SIGTERM or SIGINT. `started` is called when the server serves.
///
/// # Errors
/// The errors of [`Server::start`] and [`Server::stop`].
pub fn run(
    extensions: Extensions,
    settings: Settings,
    started: impl FnOnce(&Server),
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("port")
        .build()?;
    let stopped = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let server = Server::start_extended(extensions, settings).await?;
        started(&server);
        notify::ready(server.address());
        // A macro does not evaluate its arguments if the log leaves the message out.
        let signal = signals.next().await;
        tracing::info!("{signal}: stopping");
        notify::stopping();
        server.stop().await
    });
    // Queries that were cut off may still read; they hold nothing that must be kept.
    runtime.shutdown_timeout(Duration::from_secs(1));
    stopped
}
