//! As much of HTTP/1.1 as the lab's servers speak.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use socket2::{Domain, Socket, Type};

use crate::source;

/// Longer than TCP takes to mend what a short outage cost.
const PATIENCE: Duration = Duration::from_secs(15);

/// An open connection.
pub struct Connection {
    stream: BufReader<TcpStream>,
    target: SocketAddr,
}

/// What follows an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Another request, if one likes.
    Open,
    /// The end of the connection.
    Close,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Who gave it, and what it saw.
    pub member: Member,
    /// What follows it.
    pub after: After,
}

/// What a pod says of itself and of its client.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Member {
    /// Its name.
    pub pod: String,
    /// The address it saw the client at.
    pub client: IpAddr,
}

/// What a body says.
pub fn member(body: &[u8]) -> Result<Member> {
    serde_json::from_slice(body).context("answer")
}

impl Connection {
    /// Connects from this port, or from any where it is 0.
    pub fn open(target: SocketAddr, source_port: u16) -> Result<Self> {
        Self::open_within(target, source_port, PATIENCE)
    }

    /// The same, waiting no longer than this, then or later.
    pub fn open_within(target: SocketAddr, source_port: u16, patience: Duration) -> Result<Self> {
        let socket = Socket::new(Domain::for_address(target), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&source(target, source_port).into()).with_context(|| format!("port {source_port}"))?;
        socket.connect_timeout(&target.into(), patience).context("connect")?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self { stream: BufReader::new(stream), target })
    }

    /// Asks once; `after` is what the client wants to follow.
    pub fn ask(&mut self, after: After) -> Result<Answer> {
        let last = if after == After::Close { "Connection: close\r\n" } else { "" };
        let request = format!("GET / HTTP/1.1\r\nHost: {}\r\n{last}\r\n", self.target);
        self.stream.get_mut().write_all(request.as_bytes()).context("request")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Answer> {
        let status = self.line()?;
        if !status.starts_with("HTTP/1.1 200") {
            bail!("answer: {status:?}");
        }
        let (mut length, mut after) = (0, After::Open);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            match line.split_once(':').map(|(name, value)| (name, value.trim())) {
                None => break,
                Some(("content-length", value)) => length = value.parse().context("content-length")?,
                Some(("connection", "close")) => after = After::Close,
                Some(_) => {}
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).context("answer")?;
        Ok(Answer { member: member(&body)?, after })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).context("answer")? == 0 {
            bail!("answer: the connection was closed");
        }
        Ok(line.trim_end().to_owned())
    }
}
