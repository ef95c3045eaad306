//! Addresses of buckets.

use crate::bucket::client::failed;
use crate::error::Error;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, ObjectStoreScheme};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// Maximum time of a request. A part of 8 MiB passes a line of 112 kbit/s in it.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum time of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Opens the object store of a URL. The credentials and the region are those of the process variables that the tools of
/// the providers use. Returns the store, and the prefix in it.
///
/// # Errors
/// If the URL names no object store, or has credentials.
pub fn connect(text: &str) -> Result<(Arc<dyn ObjectStore>, Path), Error> {
    let (url, scheme, prefix) = parse(text)?;
    // Fails if the process has a provider already, which is as good.
    _ = rustls::crypto::ring::default_provider().install_default();
    let options = || {
        ClientOptions::new()
            .with_timeout(TIMEOUT)
            .with_connect_timeout(CONNECT_TIMEOUT)
    };
    let store: object_store::Result<Arc<dyn ObjectStore>> = match scheme {
        ObjectStoreScheme::AmazonS3 => AmazonS3Builder::from_env()
            .with_url(url.as_str())
            .with_client_options(with_plain_http(options(), "AWS_ALLOW_HTTP"))
            .build()
            .map(|store| Arc::new(store) as _),
        ObjectStoreScheme::GoogleCloudStorage => GoogleCloudStorageBuilder::from_env()
            .with_url(url.as_str())
            .with_client_options(with_plain_http(options(), "GOOGLE_ALLOW_HTTP"))
            .build()
            .map(|store| Arc::new(store) as _),
        _ => MicrosoftAzureBuilder::from_env()
            .with_url(url.as_str())
            .with_client_options(with_plain_http(options(), "AZURE_ALLOW_HTTP"))
            .build()
            .map(|store| Arc::new(store) as _),
    };
    Ok((store.map_err(failed(|| format!("opening {text}")))?, prefix))
}

/// Permits requests without TLS if a process variable is `true`.
fn with_plain_http(options: ClientOptions, variable: &str) -> ClientOptions {
    let is_permitted = std::env::var_os(variable).is_some_and(|value| value == "true");
    options.with_allow_http(is_permitted)
}

/// Returns a note for an error of the first request, if no process variable has credentials for a URL.
pub fn note(text: &str) -> String {
    let variables: &[&str] = match text.split(':').next() {
        Some("s3" | "s3a") => &["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"],
        Some("gs") => &["GOOGLE_SERVICE_ACCOUNT", "GOOGLE_APPLICATION_CREDENTIALS"],
        _ => &["AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_KEY"],
    };
    match variables
        .iter()
        .any(|name| std::env::var_os(name).is_some())
    {
        true => String::new(),
        false => format!(
            " with the credentials of this virtual machine, because {} is not set",
            variables.join(" or ")
        ),
    }
}

fn parse(text: &str) -> Result<(Url, ObjectStoreScheme, Path), Error> {
    let wrong = |problem: &str| {
        Err(Error::Request(format!(
            "{text}: {problem}; write s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX, or a folder"
        )))
    };
    let Ok(url) = Url::parse(text) else {
        return wrong("not a URL");
    };
    if url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        // The text may have a secret.
        return Err(Error::Request(
            "the URL of a bucket has no password, ? or #; put credentials into process variables, such as \
             AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                .to_string(),
        ));
    }
    use ObjectStoreScheme::{AmazonS3, GoogleCloudStorage, MicrosoftAzure};
    match ObjectStoreScheme::parse(&url) {
        Ok((scheme @ (AmazonS3 | GoogleCloudStorage | MicrosoftAzure), prefix)) => {
            Ok((url, scheme, prefix))
        }
        Ok(_) | Err(_) => wrong("not the URL of an object store"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_store_and_a_prefix() {
        use ObjectStoreScheme::{AmazonS3, GoogleCloudStorage, MicrosoftAzure};
        let cases = [
            ("s3://bucket/a/b/", AmazonS3, "a/b"),
            ("s3://bucket", AmazonS3, ""),
            ("gs://bucket/a%20b", GoogleCloudStorage, "a b"),
            ("az://container/a", MicrosoftAzure, "a"),
            ("az://container@account/a", MicrosoftAzure, "a"),
            (
                "abfss://container@account.dfs.core.windows.net/a",
                MicrosoftAzure,
                "a",
            ),
        ];
        for (text, scheme, prefix) in cases {
            let (_, found, path) = parse(text).unwrap();
            assert_eq!((found, path.as_ref()), (scheme, prefix), "{text}");
        }
    }

    #[test]
    fn wrong_urls_are_rejected_without_their_secrets() {
        for text in [
            "ftp://host/a",
            "https://host/a",
            "s3:///a",
            "memory:///",
            "://",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(
                error.contains(text) && error.contains("s3://BUCKET"),
                "{error}"
            );
        }
        for text in [
            "s3://me:secret@bucket/a",
            "az://c/a?sig=secret",
            "s3://b/a#secret",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(
                !error.contains("secret") && error.contains("AWS_"),
                "{error}"
            );
        }
    }
}
