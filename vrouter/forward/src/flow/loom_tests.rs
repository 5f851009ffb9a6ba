//! Every interleaving of the table's lock-free parts. Run with `RUSTFLAGS="--cfg loom" cargo test --lib
//! loom`.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;

use super::decision::FlowIndex;
use super::index::Index;
use super::quiescence::Quiescence;

const HASH: u64 = 0x1234_5678_0000_0000;

#[test]
fn two_writers_of_one_key_agree() {
    loom::model(|| {
        let index = Arc::new(Index::new(0));
        let write = |slot: u32| {
            let index = Arc::clone(&index);
            move || {
                let _locked = index.lock(HASH, HASH);
                let found = index.find(HASH, |_| true);
                found.is_none() && index.insert(HASH, FlowIndex(slot))
            }
        };
        let other = thread::spawn(write(1));
        let first = write(2)();
        let second = other.join().unwrap();
        assert!(first ^ second, "exactly one installs");
    });
}

#[test]
fn a_reader_finds_a_flow_or_does_not_while_it_is_removed() {
    loom::model(|| {
        let index = Arc::new(Index::new(0));
        assert!(index.insert(HASH, FlowIndex(3)));
        let remover = {
            let index = Arc::clone(&index);
            thread::spawn(move || {
                let _locked = index.lock(HASH, HASH);
                index.remove(HASH, FlowIndex(3));
            })
        };
        let found = index.find(HASH, |_| true);
        assert!(matches!(found, None | Some(FlowIndex(3))));
        remover.join().unwrap();
        assert_eq!(index.find(HASH, |_| true), None);
    });
}

#[test]
fn nothing_is_given_up_under_a_worker_that_may_hold_it() {
    loom::model(|| {
        let quiescence = Arc::new(Quiescence::new(1));
        // What a worker loads at the beginning of a burst, and whether the old one of it was given up.
        let current = Arc::new(AtomicU64::new(0));
        let given_up = Arc::new(AtomicBool::new(false));
        let worker = {
            let (quiescence, current, given_up) =
                (Arc::clone(&quiescence), Arc::clone(&current), Arc::clone(&given_up));
            thread::spawn(move || {
                // From burst to burst without a pause.
                for _ in 0..2 {
                    quiescence.enter(0);
                    if current.load(Ordering::Acquire) == 0 {
                        assert!(!given_up.load(Ordering::Acquire), "in use");
                    }
                }
                quiescence.leave(0);
            })
        };
        current.store(1, Ordering::Release);
        let boundary = quiescence.draw();
        if quiescence.passed(boundary) {
            given_up.store(true, Ordering::Release);
        }
        worker.join().unwrap();
    });
}
