//! The call of a mixed fleet's function, for the Rust driver: one plain GET.

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The status that `http://HOST:PORT/PATH` answers, told which attempt it is.
///
/// # Errors
/// There is no connection, or no answer on it.
pub async fn get(url: &str, attempt: u32, is_probe: bool) -> Result<u16> {
    let rest = url.strip_prefix("http://").context("no http:// address")?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut socket = TcpStream::connect(host).await?;
    let probe = u8::from(is_probe);
    let request = format!(
        "GET /{path}?attempt={attempt}&probe={probe} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
    status.context("no status in the answer")
}
