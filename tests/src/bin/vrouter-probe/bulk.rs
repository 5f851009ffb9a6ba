//! A stream of bytes, sent and read back.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use vrouter_tests::report::Echo;

const PATIENCE: Duration = Duration::from_secs(15);
const CHUNK: usize = 64 << 10;

/// Sends so many bytes to an echo server and compares what comes back.
pub fn run(target: SocketAddr, bytes: u64) -> Result<Echo> {
    let stream = TcpStream::connect_timeout(&target, PATIENCE).context("connect")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let sender = stream.try_clone()?;
    let sending = thread::spawn(move || send(sender, bytes));
    let echo = receive(stream)?;
    sending.join().map_err(|_| anyhow!("the sender panicked"))??;
    Ok(echo)
}

fn send(mut stream: TcpStream, bytes: u64) -> Result<()> {
    let mut pattern = Pattern::default();
    let mut rest = bytes;
    while rest > 0 {
        let chunk: Vec<u8> = pattern.by_ref().take(CHUNK.min(rest.try_into()?)).collect();
        stream.write_all(&chunk).context("send")?;
        rest -= chunk.len() as u64;
    }
    stream.shutdown(Shutdown::Write).context("send")
}

fn receive(mut stream: TcpStream) -> Result<Echo> {
    let mut echo = Echo::default();
    let mut pattern = Pattern::default();
    let mut buffer = vec![0; CHUNK];
    loop {
        let length = stream.read(&mut buffer).context("receive")?;
        if length == 0 {
            return Ok(echo);
        }
        let intact =
            buffer[..length].iter().zip(pattern.by_ref()).take_while(|(one, other)| *one == other).count();
        echo.intact += intact as u64;
        if intact < length {
            echo.damaged_at = Some(echo.intact);
            return Ok(echo);
        }
    }
}

/// Bytes without a short period, so that a lost, doubled or swapped segment shows (xorshift).
struct Pattern(u64);

impl Default for Pattern {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Iterator for Pattern {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Some(self.0 as u8)
    }
}
