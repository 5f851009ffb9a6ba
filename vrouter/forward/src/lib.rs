//! The forwarding core of the vRouter, without I/O: bytes, tables and the time in; bytes, verdicts and events out.
//!
//! No sockets, threads, clocks, globals or randomness of its own, so a whole cluster of routers can be wired together
//! inside one test. The modules bear the names of the stages a packet meets (`ARCHITECTURE.md`, "One packet's way").

pub mod frame;
