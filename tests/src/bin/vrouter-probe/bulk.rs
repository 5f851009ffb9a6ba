//! A stream of bytes, sent and read back.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use vrouter_tests::noise::Noise;
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
    let mut noise = Noise::default();
    let mut rest = bytes;
    while rest > 0 {
        let chunk: Vec<u8> = noise.by_ref().take(CHUNK.min(rest.try_into()?)).collect();
        stream.write_all(&chunk).context("send")?;
        rest -= chunk.len() as u64;
    }
    stream.shutdown(Shutdown::Write).context("send")
}

fn receive(mut stream: TcpStream) -> Result<Echo> {
    let mut echo = Echo::default();
    let mut noise = Noise::default();
    let mut buffer = vec![0; CHUNK];
    loop {
        let length = stream.read(&mut buffer).context("receive")?;
        if length == 0 {
            return Ok(echo);
        }
        let intact =
            buffer[..length].iter().zip(noise.by_ref()).take_while(|(one, other)| *one == other).count();
        echo.intact += intact as u64;
        if intact < length {
            echo.damaged_at = Some(echo.intact);
            return Ok(echo);
        }
    }
}
