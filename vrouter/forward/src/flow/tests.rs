//! The table as a whole: pairs, races, kills and age.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use vrouter_objects::{IpProtocol, VmiId, VrfId};

use super::decision::{Control, Life};
use super::*;
use crate::address::Address;
use crate::frame::Time;

const NOW: Time = Time::from_millis(1_000_000);
const MEMBER: (Address, u16) = (Address::v4([10, 244, 1, 2]), 8080);

fn slots(count: usize) -> &'static [Slot] {
    Box::leak((0..count).map(|_| Slot::new()).collect())
}

fn recover(slots: &'static [Slot], config: FlowConfig) -> (FlowTable, Recovered) {
    let all = Box::leak(Box::new(AtomicU32::new(slots.len() as u32)));
    FlowTable::recover(slots, all, config, NOW)
}

fn table(slots: &'static [Slot], config: FlowConfig) -> FlowTable {
    recover(slots, config).0
}

fn vrf() -> VrfId {
    VrfId::new(1).unwrap()
}

fn owner(number: u32) -> Option<VmiId> {
    VmiId::new(number + 1).ok()
}

fn key(number: u32) -> FlowKey {
    FlowKey {
        vrf: vrf(),
        origin: Origin::Cluster,
        source: Address::v4((0x0a00_0000 + number).to_be_bytes()),
        destination: Address::v4([10, 96, 0, 1]),
        source_port: 4000,
        destination_port: 80,
        protocol: IpProtocol::UDP,
    }
}

/// The keys of both directions of a connection that is translated to one member.
fn pair(number: u32) -> (FlowKey, FlowKey) {
    let key = key(number);
    let back = FlowKey {
        source: MEMBER.0,
        destination: key.source,
        source_port: MEMBER.1,
        destination_port: key.source_port,
        ..key
    };
    (key, back)
}

/// A connection with these keys that counts against this interface.
fn connection(table: &FlowTable, (key, back): (FlowKey, FlowKey), interface: u32) -> NewConnection {
    let service = (key.destination, key.destination_port);
    let flow = |key, translated, seen| NewFlow {
        key: table.table_key(key),
        translated,
        egress_vrf: vrf(),
        next_hop: PackedNextHop::Receive,
        service: None,
        seen,
    };
    let ahead = Translated::new(Actions::DESTINATION, service, MEMBER);
    let initiator = flow(&key, ahead, Seen::first(None));
    let responder = flow(&back, Translated::new(Actions::SOURCE, MEMBER, service), Seen::default());
    NewConnection { initiator, responder, owner: owner(interface), epoch: 1 }
}

/// Installs connection `number`, or says why not.
fn install(table: &FlowTable, worker: &mut WorkerFlows, number: u32, interface: u32) -> Option<NotInstalled> {
    table.install(worker, &connection(table, pair(number), interface), NOW).err()
}

fn find(table: &FlowTable, key: &FlowKey) -> Option<FlowIndex> {
    table.find(&table.table_key(key))
}

#[test]
fn both_directions_name_each_other_until_they_are_removed() {
    let table = table(slots(64), FlowConfig::default());
    let mut worker = WorkerFlows::new();
    assert_eq!(install(&table, &mut worker, 1, 0), None);
    let (initiator, responder) = pair(1);
    let (there, back) = (find(&table, &initiator).unwrap(), find(&table, &responder).unwrap());
    assert_eq!(table.slot(there).reverse(), back);
    assert_eq!(table.slot(back).reverse(), there);
    assert_eq!(table.slot(there).key(), Some(initiator));
    assert_eq!(table.len(), 2);
    let again = table.install(&mut worker, &connection(&table, pair(1), 0), NOW);
    assert_eq!((again, table.len()), (Ok(there), 2), "who comes second has the first one's");
    // From either side.
    table.remove(&mut worker, back);
    assert_eq!((find(&table, &initiator), find(&table, &responder)), (None, None));
    assert_eq!((table.len(), table.share_of(owner(0))), (0, FlowShare::default()));
}

#[test]
fn one_way_back_serves_one_connection() {
    let table = table(slots(64), FlowConfig::default());
    let mut worker = WorkerFlows::new();
    install(&table, &mut worker, 1, 0);
    let (initiator, responder) = pair(1);
    // Another way in that leads to the same member from the same client and port.
    let other = FlowKey { destination_port: 81, ..initiator };
    let outcome = table.install(&mut worker, &connection(&table, (other, responder), 0), NOW);
    assert_eq!(outcome, Err(NotInstalled::ReverseTaken));
    assert_eq!(table.len(), 2, "nothing is half-installed");
}

#[test]
fn bounds_hold_per_interface_and_for_the_table() {
    let config =
        FlowConfig { connections_per_interface: 3, unreplied_per_interface: 2, ..FlowConfig::default() };
    let limited = table(slots(64), config);
    let mut worker = WorkerFlows::new();
    assert_eq!(install(&limited, &mut worker, 1, 7), None);
    assert_eq!(install(&limited, &mut worker, 2, 7), None);
    assert_eq!(install(&limited, &mut worker, 3, 7), Some(NotInstalled::UnrepliedLimit));
    assert_eq!(install(&limited, &mut worker, 3, 8), None, "another interface is not hurt");
    let answered = limited.slot(find(&limited, &pair(1).1).unwrap());
    answered.add_seen(Seen::first(None));
    limited.replied(answered);
    assert_eq!(install(&limited, &mut worker, 4, 7), None);
    assert_eq!(limited.share_of(owner(7)), FlowShare { connections: 3, unreplied: 2 });
    let second = limited.slot(find(&limited, &pair(2).1).unwrap());
    second.add_seen(Seen::first(None));
    limited.replied(second);
    assert_eq!(install(&limited, &mut worker, 5, 7), Some(NotInstalled::InterfaceLimit));

    let small = table(slots(8), FlowConfig::default());
    let mut worker = WorkerFlows::new();
    let outcomes: Vec<_> = (0..5).map(|number| install(&small, &mut worker, number, 0)).collect();
    assert_eq!(outcomes[3..], [None, Some(NotInstalled::Full)]);
}

#[test]
fn idle_flows_go_and_their_slots_are_used_again() {
    let table = table(slots(8), FlowConfig::default());
    let quiescence = Quiescence::new(1);
    let mut worker = WorkerFlows::new();
    for round in 0..10 {
        let now = NOW.plus_millis(round * 60_000);
        for number in 0..4 {
            let outcome = table.install(&mut worker, &connection(&table, pair(number), 0), now);
            assert!(outcome.is_ok(), "round {round}: {outcome:?}");
        }
        table.age(&mut worker, now.plus_millis(29_000), &quiescence);
        assert_eq!(table.len(), 8, "not yet");
        table.age(&mut worker, now.plus_millis(31_000), &quiescence);
        assert_eq!(table.len(), 0, "after the time for what nobody answered");
        table.age(&mut worker, now.plus_millis(32_000), &quiescence);
    }
}

#[test]
fn a_removed_slot_is_not_used_again_while_a_worker_may_look_at_it() {
    let table = table(slots(2), FlowConfig::default());
    let quiescence = Quiescence::new(2);
    quiescence.enter(1);
    let mut worker = WorkerFlows::new();
    install(&table, &mut worker, 1, 0);
    table.remove(&mut worker, find(&table, &key(1)).unwrap());
    for _ in 0..3 {
        table.age(&mut worker, NOW, &quiescence);
    }
    assert_eq!(
        install(&table, &mut worker, 2, 0),
        Some(NotInstalled::Full),
        "worker 1 is still in its burst"
    );
    quiescence.enter(1);
    table.age(&mut worker, NOW, &quiescence);
    assert_eq!(install(&table, &mut worker, 2, 0), None);
}

#[test]
fn a_successor_takes_up_whole_pairs_and_frees_the_rest() {
    let memory = slots(64);
    let before = table(memory, FlowConfig::default());
    let mut worker = WorkerFlows::new();
    for number in 0..6 {
        install(&before, &mut worker, number, 0);
    }
    let of = |number| {
        let index = find(&before, &key(number)).unwrap();
        (before.slot(index), before.slot(before.slot(index).reverse()))
    };
    // Killed at every step of installing and removing.
    let (ahead, _) = of(1);
    ahead.set_control(Control { life: Life::Prepared, ..ahead.control() });
    let (_, back) = of(2);
    back.set_control(Control { life: Life::Prepared, ..back.control() });
    of(3).0.free();
    of(4).1.free();
    let (ahead, _) = of(5);
    ahead.set_control(Control { reverse: FlowIndex(9999), ..ahead.control() });
    drop(before);

    let (after, recovered) = recover(memory, FlowConfig::default());
    // 0 was whole; of 2 the pair was in force with its initiator.
    assert_eq!(recovered, Recovered { connections: 2, discarded: 6 });
    for (number, expected) in [(0, true), (1, false), (2, true), (3, false), (4, false), (5, false)] {
        assert_eq!(find(&after, &key(number)).is_some(), expected, "connection {number}");
    }
    assert_eq!(after.share_of(owner(0)), FlowShare { connections: 2, unreplied: 2 });
    // Every freed slot is to be had again.
    let mut worker = WorkerFlows::new();
    let installed = (100..).take_while(|number| install(&after, &mut worker, *number, 0).is_none());
    assert_eq!(installed.count(), 30);
}

#[test]
fn workers_that_race_for_one_connection_agree() {
    let table = Arc::new(table(slots(1 << 14), FlowConfig::default()));
    let run = |id: u32| {
        let table = Arc::clone(&table);
        move || {
            let mut worker = WorkerFlows::new();
            let install = |number| table.install(&mut worker, &connection(&table, pair(number), id), NOW);
            (0..4000).map(install).collect::<Vec<_>>()
        }
    };
    let other = std::thread::spawn(run(1));
    let mine = run(0)();
    assert_eq!((mine, table.len()), (other.join().unwrap(), 8000));
    assert_eq!(table.share_of(owner(0)).connections + table.share_of(owner(1)).connections, 4000);
    for number in 0..4000 {
        let index = find(&table, &key(number)).unwrap();
        assert_eq!(table.slot(table.slot(index).reverse()).reverse(), index);
    }
}

#[test]
fn an_answer_that_races_with_the_end_is_counted_once() {
    let table = Arc::new(table(slots(64), FlowConfig::default()));
    let mut worker = WorkerFlows::new();
    let quiescence = Quiescence::new(1);
    for _ in 0..2000 {
        assert_eq!(install(&table, &mut worker, 1, 0), None);
        let back = table.slot(find(&table, &pair(1).1).unwrap());
        let answers = {
            let table = Arc::clone(&table);
            std::thread::spawn(move || {
                if back.add_seen(Seen::first(None)) == Seen::default() {
                    table.replied(back);
                }
            })
        };
        table.remove(&mut worker, find(&table, &key(1)).unwrap());
        answers.join().unwrap();
        assert_eq!(table.share_of(owner(0)), FlowShare::default());
        table.age(&mut worker, NOW, &quiescence);
    }
}
