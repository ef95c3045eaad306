//! Logins at targets: a user with a password, or a token. Files are read at each scrape, so that they may change.

use crate::settings::ScrapeJob;
use axum::http::HeaderValue;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::path::Path;

/// Maximum length of a file in bytes.
const MAX_FILE: usize = 64 << 10;

/// Returns the header `Authorization` of a job's requests, if the job has a login.
///
/// # Errors
/// If the file cannot be read, or contains what no header can contain: a sentence for people without the secret.
pub async fn header(job: &ScrapeJob) -> Result<Option<HeaderValue>, String> {
    let (key, path) = match (&job.password_file, &job.token_file) {
        (Some(path), _) => ("password_file", path.clone()),
        (None, Some(path)) => ("token_file", path.clone()),
        (None, None) => return Ok(None),
    };
    let user = job.user.clone();
    let read = tokio::task::spawn_blocking(move || {
        let secret = secret(&path).map_err(|error| format!("{key} {}: {error}", path.display()))?;
        let text = match key {
            "password_file" => format!("Basic {}", STANDARD.encode(format!("{user}:{secret}"))),
            _ => format!("Bearer {secret}"),
        };
        let wrong = |_| {
            format!(
                "{key} {}: a line break or a control character is inside",
                path.display()
            )
        };
        let mut value = HeaderValue::try_from(text).map_err(wrong)?;
        value.set_sensitive(true);
        Ok(Some(value))
    });
    read.await.map_err(|error| error.to_string())?
}

/// Reads a secret. Space at its end does not count.
fn secret(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    match text.trim_end() {
        "" => Err("it is empty".to_string()),
        text if text.len() > MAX_FILE => Err("it is longer than 64 KiB".to_string()),
        text => Ok(text.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_become_headers() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        let mut job = ScrapeJob::default();
        assert_eq!(header(&job).await, Ok(None));
        job.token_file = Some(file.clone());
        for (text, part) in [("", "empty"), ("a\nb", "line break")] {
            std::fs::write(&file, text).unwrap();
            let error = header(&job).await.unwrap_err();
            assert!(error.contains(part) && !error.contains("a\nb"), "{error}");
        }
        std::fs::write(&file, "abc\n").unwrap();
        let value = header(&job).await.unwrap().unwrap();
        assert!(value == "Bearer abc" && value.is_sensitive());
        // The example of RFC 7617.
        job.user = "Aladdin".into();
        std::fs::write(&file, "open sesame\n").unwrap();
        (job.password_file, job.token_file) = (job.token_file, None);
        let value = header(&job).await.unwrap().unwrap();
        assert_eq!(value, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        std::fs::remove_file(&file).unwrap();
        assert!(
            header(&job)
                .await
                .unwrap_err()
                .starts_with("password_file ")
        );
    }
}
