//! Settings of a node: few threads, small caches, and the internal packages of Java that Cassandra uses.

use super::{Options, Place, Security};
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// Tokens of a node.
const TOKENS: usize = 16;
/// Nodes that a starting node asks for the others.
const SEEDS: usize = 3;

/// Settings file of a node. `@NAME@` is replaced.
const CASSANDRA_YAML: &str = include_str!("cassandra.yaml");
/// Settings of the log, and of the errors of nodetool.
const LOGBACK: &str = include_str!("logback.xml");
const LOGBACK_TOOL: &str = include_str!("logback-tool.xml");

/// Compaction strategy of this project: its jar, and the name of the file.
const FISHERMAN: &[u8] = include_bytes!("../../java/seiner-compaction-5.0.9.jar");
const FISHERMAN_FILE: &str = "seiner-compaction-5.0.9.jar";

/// Options of Java for all programs of Cassandra: packages of Java that are closed by default.
const OPEN_PACKAGES: [&str; 19] = [
    "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-exports=java.management.rmi/com.sun.jmx.remote.internal.rmi=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.server=ALL-UNNAMED",
    "--add-exports=java.sql/java.sql=ALL-UNNAMED",
    "--add-exports=java.base/java.lang.ref=ALL-UNNAMED",
    "--add-exports=jdk.unsupported/sun.misc=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.module=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.loader=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.reflect=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.math=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.module=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.util.jar=ALL-UNNAMED",
    "--add-opens=jdk.management/com.sun.management.internal=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
];

/// Options of Java for a light node: the serial collector, and the first compiler only. Both save threads and memory.
const LIGHT: [&str; 13] = [
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:MaxDirectMemorySize=256M",
    "-XX:+PerfDisableSharedMem",
    "-XX:+ExitOnOutOfMemoryError",
    "-Xss256k",
    "-Djava.net.preferIPv4Stack=true",
    "-Djava.security.manager=allow",
    "-Djdk.attach.allowAttachSelf=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    // Waits of a starting node for news of the other nodes. They are short, because all nodes are on one machine.
    "-Dcassandra.ring_delay_ms=5000",
    "-Dcassandra.gossip_settle_min_wait_ms=1000",
    "-Dcassandra.gossip_settle_interval_ms=500",
];

/// Settings of one node.
pub(crate) struct Settings {
    pub(crate) number: usize,
    pub(crate) address: Ipv4Addr,
    pub(crate) port: u16,
    pub(crate) folder: PathBuf,
    /// Network namespace of the node.
    pub(crate) namespace: Option<String>,
    /// Address that clients connect to.
    public: Ipv4Addr,
    storage_port: u16,
    heap_mib: u32,
    memtables_mib: u32,
    has_fisherman: bool,
    nodes: usize,
    /// Addresses of the nodes that a starting node asks for the others.
    seeds: Vec<Ipv4Addr>,
    security: Option<Security>,
}

/// Returns the address of a node.
pub(crate) fn address(network: u8, number: usize) -> Ipv4Addr {
    // A cluster has at most 20 nodes.
    Ipv4Addr::new(127, 0, network, number as u8)
}

/// Returns the absolute folder of a node's files.
pub(crate) fn folder_of(cluster: &Path, number: usize) -> PathBuf {
    let folder = cluster.join(format!("node{number}"));
    std::path::absolute(&folder).unwrap_or(folder)
}

/// Returns the argument by which a process is known to be the node with these files.
pub(crate) fn mark(folder: &Path) -> String {
    format!("-Dcassandra.storagedir={}", folder.display())
}

impl Settings {
    pub(crate) fn new(options: &Options, network: u8, number: usize) -> Settings {
        let usual = |number: usize| Place {
            address: address(network, number),
            public: None,
            namespace: None,
        };
        let place = |number: usize| match options.places.get(number - 1) {
            Some(place) => place.clone(),
            None => usual(number),
        };
        let own = place(number);
        let seeds = 1..=options.nodes.min(SEEDS);
        Settings {
            number,
            address: own.address,
            port: options.port,
            folder: folder_of(&options.folder, number),
            namespace: own.namespace,
            public: own.public.unwrap_or(own.address),
            storage_port: options.storage_port,
            heap_mib: options.heap_mib,
            memtables_mib: options.memtables_mib,
            has_fisherman: options.has_fisherman,
            nodes: options.nodes,
            seeds: seeds.map(|seed| place(seed).address).collect(),
            security: options.security.clone(),
        }
    }

    /// Writes the files of settings.
    pub(crate) fn write(&self) -> io::Result<()> {
        let conf = self.folder.join("conf");
        fs::create_dir_all(&conf)?;
        fs::create_dir_all(self.folder.join("log"))?;
        if let Some(jar) = self.fisherman() {
            fs::write(jar, FISHERMAN)?;
        }
        fs::write(conf.join("cassandra.yaml"), self.cassandra_yaml())?;
        fs::write(conf.join("logback.xml"), LOGBACK)?;
        fs::write(conf.join("logback-tool.xml"), LOGBACK_TOOL)
    }

    /// Returns the file of the jar with the compaction strategy, if the node has it.
    fn fisherman(&self) -> Option<PathBuf> {
        self.has_fisherman
            .then(|| self.folder.join("conf").join(FISHERMAN_FILE))
    }

    fn cassandra_yaml(&self) -> String {
        let seeds = self.seeds.iter();
        let seeds = seeds.map(|seed| format!("{seed}:{}", self.storage_port));
        let seeds: Vec<String> = seeds.collect();
        let security = self.security.as_ref();
        CASSANDRA_YAML
            .replace("@AUTHENTICATOR@", authenticator(security))
            .replace("@ENCRYPTION@", &encryption(security))
            .replace("@FOLDER@", &self.folder.display().to_string())
            .replace("@ADDRESS@", &self.address.to_string())
            .replace("@PUBLIC@", &self.public.to_string())
            .replace("@PORT@", &self.port.to_string())
            .replace("@STORAGE_PORT@", &self.storage_port.to_string())
            .replace("@SEEDS@", &seeds.join(","))
            .replace("@MEMTABLES@", &self.memtables_mib.to_string())
            .replace("@NUM_TOKENS@", &TOKENS.to_string())
            .replace("@TOKENS@", &tokens(self.nodes, self.number - 1))
    }

    /// Returns the arguments of Java for the node.
    pub(crate) fn java_arguments(&self, jars: &Path, jmx_port: u16) -> Vec<String> {
        let conf = self.folder.join("conf").display().to_string();
        let mut arguments: Vec<String> = OPEN_PACKAGES
            .iter()
            .chain(&LIGHT)
            .map(|text| text.to_string())
            .collect();
        arguments.extend([
            format!("-Xms{}M", self.heap_mib),
            format!("-Xmx{}M", self.heap_mib),
            format!("-Dcassandra.config=file://{conf}/cassandra.yaml"),
            format!("-Dlogback.configurationFile=file://{conf}/logback.xml"),
            format!("-Dcassandra.logdir={}/log", self.folder.display()),
            mark(&self.folder),
            format!("-Dcassandra.jmx.local.port={jmx_port}"),
        ]);
        // Measures the size of objects in memory. Without it, memtables are larger than their limit.
        if let Some(jamm) = jamm(jars) {
            arguments.push(format!("-javaagent:{}", jamm.display()));
        }
        let mut classes = format!("{conf}:{}/*", jars.display());
        if let Some(jar) = self.fisherman() {
            classes.push_str(&format!(":{}", jar.display()));
        }
        arguments.extend(["-cp".to_string(), classes]);
        arguments.push("org.apache.cassandra.service.CassandraDaemon".to_string());
        arguments
    }

    /// Returns the arguments of Java for nodetool, except for its command.
    pub(crate) fn tool_arguments(&self, jars: &Path, jmx_port: u16) -> Vec<String> {
        let conf = self.folder.join("conf").display().to_string();
        let mut arguments: Vec<String> =
            OPEN_PACKAGES.iter().map(|text| text.to_string()).collect();
        arguments.extend([
            "-Xmx96m".to_string(),
            "-XX:+UseSerialGC".to_string(),
            "-XX:TieredStopAtLevel=1".to_string(),
            format!("-Dlogback.configurationFile=file://{conf}/logback-tool.xml"),
            "-cp".to_string(),
            format!("{}/*", jars.display()),
            "org.apache.cassandra.tools.NodeTool".to_string(),
            "-p".to_string(),
            jmx_port.to_string(),
        ]);
        arguments
    }
}

fn authenticator(security: Option<&Security>) -> &'static str {
    match security {
        Some(_) => "PasswordAuthenticator",
        None => "AllowAllAuthenticator",
    }
}

/// Returns the settings of encrypted connections of clients.
fn encryption(security: Option<&Security>) -> String {
    let Some(security) = security else {
        return "{enabled: false}".to_string();
    };
    let Security {
        keys,
        trusted,
        password,
        ..
    } = security;
    format!(
        "{{enabled: true, optional: false, require_client_auth: true, store_type: PKCS12, keystore: '{}', \
         keystore_password: '{password}', truststore: '{}', truststore_password: '{password}'}}",
        keys.display(),
        trusted.display()
    )
}

fn jamm(jars: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(jars).ok()?;
    let mut paths = files.filter_map(|file| Some(file.ok()?.path()));
    paths.find(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("jamm-"))
    })
}

/// Returns the tokens of a node, counted from 0. All tokens of a cluster divide the ring evenly, and nodes take turns.
fn tokens(nodes: usize, node: usize) -> String {
    let count = (nodes * TOKENS) as i128;
    let tokens = (0..TOKENS).map(|turn| {
        let place = (turn * nodes + node) as i128;
        // The ring goes from the lowest i64, which is no token, to the highest.
        let token = i128::from(i64::MIN) + 1 + (place << 64) / count;
        token.to_string()
    });
    tokens.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_divide_the_ring() {
        let mut all: Vec<i64> = Vec::new();
        for node in 0..3 {
            let tokens = tokens(3, node);
            all.extend(tokens.split(',').map(|token| token.parse::<i64>().unwrap()));
        }
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 48);
        let gaps = all.windows(2).map(|pair| pair[1].abs_diff(pair[0]));
        let (low, high) = (u64::MAX / 48 - 1, u64::MAX / 48 + 1);
        assert!(
            gaps.clone().all(|gap| (low..=high).contains(&gap)),
            "{gaps:?}"
        );
    }

    #[test]
    fn the_settings_file_is_complete() {
        let options = Options::new(3, "/tmp/x");
        let settings = Settings::new(&options, 77, 2);
        let yaml = settings.cassandra_yaml();
        assert!(!yaml.contains('@'), "{yaml}");
        assert!(yaml.contains("listen_address: 127.0.77.2"), "{yaml}");
        let seeds = "127.0.77.1:7000,127.0.77.2:7000,127.0.77.3:7000";
        assert!(yaml.contains(seeds), "{yaml}");
    }
}
