use std::fs::File;
use std::io::Read;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU32;

use vrouter_forward::ForwardConfig;
use vrouter_forward::flow::{FlowConfig, FlowTable, Slot};
use vrouter_forward::tables::{Epoch, Tables};

use super::*;
use crate::boot_time;

const PORT: PortId = PortId(3);

/// A data path of two workers, of which the second has ended.
fn half_a_data_path() -> DataPath {
    let slots: Vec<Slot> = std::iter::repeat_with(Slot::default).take(16).collect();
    let high_water = Box::leak(Box::new(AtomicU32::new(0)));
    let (flows, _) = FlowTable::recover(slots.leak(), high_water, FlowConfig::default(), boot_time());
    let shared = Shared::new(flows, 2, ForwardConfig::default());
    let first = Tables::new("node1", Epoch(0)).publish(Epoch(1));
    let data_path = DataPath::start(DataPathConfig::default(), shared, first).unwrap();
    data_path.workers[1].tell_to_stop();
    data_path
}

/// A descriptor to be served, and its other end.
fn queue() -> (File, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (File::from(OwnedFd::from(ours)), theirs)
}

#[test]
fn a_port_that_one_worker_cannot_serve_is_served_by_none() {
    let data_path = half_a_data_path();
    let [(one, mut other_end), (other, _other_other_end)] = [queue(), queue()];
    let error = data_path.add_port(PORT, Tap::of_queues([one, other])).unwrap_err();
    assert!(matches!(error, IoError::WorkerStopped(1)), "{error}");
    assert_eq!(other_end.read(&mut [0]).unwrap(), 0, "its queue is closed");
}

#[test]
fn a_port_is_removed_from_every_worker_that_is_there() {
    let data_path = half_a_data_path();
    let (queue, mut other_end) = queue();
    let mut transmitters = Tap::of_queues([queue]).into_transmitters();
    let queue = transmitters.next().unwrap();
    drop(transmitters);
    data_path.workers[0].call(|done| Command::AddPort { port: PORT, queue, done }).unwrap();
    assert!(data_path.remove_port(PORT).is_err());
    assert_eq!(other_end.read(&mut [0]).unwrap(), 0, "its queue is closed");
}

#[test]
fn a_tunnel_end_that_one_worker_cannot_serve_is_none_and_can_be_tried_again() {
    let data_path = half_a_data_path();
    let address = IpAddr::from([127, 77, 0, 1]);
    for _ in 0..2 {
        let error = data_path.set_tunnel_end(&TunnelEnd::Sockets(address)).unwrap_err();
        assert!(matches!(error, IoError::WorkerStopped(1)), "{error}");
        UdpSocket::bind((address, VXLAN_PORT)).expect("nobody receives there any more");
    }
}

/// The scheduler's letter for the state of each worker thread of this process.
fn worker_states() -> Vec<char> {
    let stat_of = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("stat")).ok();
    let stats = std::fs::read_dir("/proc/self/task").unwrap().flatten().filter_map(stat_of);
    let state_of = |stat: String| stat.split_once("(worker-")?.1.split_once(") ")?.1.chars().next();
    stats.filter_map(state_of).collect()
}

#[test]
fn a_worker_that_was_busy_sleeps_when_nothing_comes() {
    let data_path = half_a_data_path();
    (0..10_000).for_each(|_| data_path.workers[0].wake());
    let are_asleep = || {
        let states = worker_states();
        !states.is_empty() && states.iter().all(|state| *state == 'S')
    };
    // A worker that went on asking would never be seen asleep.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !are_asleep() {
        assert!(std::time::Instant::now() < deadline, "{:?}", worker_states());
        std::thread::yield_now();
    }
}
