//! Network policy: compiling it, what one pod's change costs the controller, what it costs a node, and judging a connection.

use std::sync::Arc;

use criterion::{BatchSize, Bencher, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use vrouter_benches::{DEFAULT_SLOTS, Estate, Layout, Newcomers, Round, Site, rules};
use vrouter_control_model::{KubeObject, Model, ObjectRef, Origin};
use vrouter_forward::tables::Change;

const PODS: usize = 5_000;
const POLICIES: usize = 2_000;
const BURST: usize = 64;
/// Where no packets are sent.
const FEW_SLOTS: usize = 64;

/// All policies of a large cluster, from what the API server lists to what nodes hold.
fn compile(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("policy/compile");
    group.sample_size(10);
    for policies in [0, POLICIES] {
        let estate = Estate::new(PODS).with_policies(policies);
        group.bench_function(BenchmarkId::new(format!("pods/{PODS}/policies"), policies), |bencher| {
            bencher.iter_batched(
                || estate.model(),
                |mut model| (model.settle().changes.len(), model),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// A controller that takes one pod's changes.
struct Controller {
    model: Model,
    origin: Origin,
}

impl Controller {
    fn new(estate: &Estate) -> Self {
        let mut model = estate.model();
        model.settle();
        Self { model, origin: Origin::from("guest.yaml") }
    }

    fn apply(&mut self, pod: &KubeObject) {
        self.model.apply(pod, Arc::clone(&self.origin));
        assert!(!self.model.settle().changes.is_empty());
    }

    fn delete(&mut self, pod: &ObjectRef) {
        self.model.delete(pod);
        assert!(!self.model.settle().changes.is_empty());
    }
}

/// One pod's change, by how many policies there are in its namespace that have nothing to do with it.
fn change(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("policy/change");
    for policies in [20, 200, 2_000] {
        let mut controller = Controller::new(&Estate::new(PODS).with_strangers(policies));
        let [subject, peer] = ["subject", "peer"].map(|app| Estate::guest(&[("app", app)]));
        controller.apply(&subject);
        // It leaves the policy's care for the set that its rule names, and comes back.
        group.bench_function(BenchmarkId::new("relabel", policies), |bencher: &mut Bencher<'_>| {
            let mut turns = [&peer, &subject].into_iter().cycle();
            bencher.iter(|| turns.next().into_iter().for_each(|pod| controller.apply(pod)));
            controller.apply(&Estate::guest(&[]));
        });
        let reference = subject.reference();
        controller.delete(&reference);
        group.bench_function(BenchmarkId::new("come-and-go", policies), |bencher| {
            bencher.iter(|| {
                controller.apply(&subject);
                controller.delete(&reference);
            });
        });
    }
    group.finish();
}

/// A pod joins a set and leaves it, until workers find the new snapshot, by how many are in the set.
fn peer_address(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("policy/peer-address");
    for size in [10, 1_000, 100_000] {
        let site = Site::new(Layout { rules: 10, ..Layout::new(10, FEW_SLOTS) });
        let set = 11;
        site.router.put(rules::set(set, (0..size).map(rules::stranger)));
        let element = rules::element(set, rules::stranger(size));
        group.bench_function(BenchmarkId::new("join-and-leave", size), |bencher| {
            bencher.iter(|| {
                site.router.apply(vec![Change::Put(element.clone())]);
                site.router.apply(vec![Change::Remove(element.key())]);
            });
        });
    }
    group.finish();
}

/// The first packet of a connection, by how many rules are looked at until one allows it; 0: there is no policy.
fn judge(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("policy/flow-setup");
    group.throughput(Throughput::Elements(1));
    for rules in [0, 1, 10, 100] {
        let site = Site::new(Layout { members: 3, rules, ..Layout::new(1_000, DEFAULT_SLOTS) });
        let mut lane = site.router.lane(0);
        let mut traffic = Newcomers::new(&site);
        let mut round = Round::new(&traffic, BURST);
        group.bench_function(BenchmarkId::new("rules", rules), |bencher| {
            bencher.iter_custom(|connections| round.time(connections, &mut traffic, &mut lane));
        });
        round.check();
    }
    group.finish();
}

criterion_group!(benches, compile, change, peer_address, judge);
criterion_main!(benches);
