//! The node: everything put together, and taken apart again in order.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::FutureExt;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use vrouter_forward::flow::{FlowConfig, FlowTable};
use vrouter_forward::{ForwardConfig, Shared};
use vrouter_io::{FlowFile, boot_id, boot_time};

use crate::agent::{Agent, Identity, Restored};
use crate::api::{About, NodeService, RunDirectory, serve};
use crate::config::Config;
use crate::control;
use crate::health;
use crate::host_path::{self, Keeper, check_source_ports};
use crate::io_plane::{HostPathKind, IoPlane};
use crate::lock::OwnDirectory;
use crate::state::StateFiles;

/// How long calls of the local API that are under way may take when the node stops.
const FAREWELL: Duration = Duration::from_secs(2);

/// Runs the node until it is told to stop.
pub async fn run(config: Config) -> Result<()> {
    let started = Instant::now();
    // First of all: nothing may be touched that another vrouter uses.
    let run_directory = RunDirectory::claim(&config.run_dir)?;
    let state_directory = OwnDirectory::claim(&config.state_dir)?;
    raise_file_limit();
    let stop = Arc::new(Notify::new());
    let signals = tokio::spawn(stop_at_signals(Arc::clone(&stop)).context("signals")?);

    let (agent, plane) = build(&config, &state_directory)?;
    let about = About { controller: config.control.uri(), workers: config.workers, started };
    let service = NodeService::new(Arc::clone(&agent), about);
    let closing = Arc::new(Notify::new());
    let api = {
        let closing = Arc::clone(&closing);
        tokio::spawn(serve(run_directory.listen()?, service, async move { closing.notified().await }))
    };
    let (rest, told_to_rest) = oneshot::channel::<()>();
    let told_to_rest = told_to_rest.map(drop).shared();
    let tender = tokio::spawn(Arc::clone(&agent).keep_tending(told_to_rest.clone()));
    let keeper = tokio::spawn(Arc::clone(&agent).keep_tables(told_to_rest.clone()));
    let health = tokio::spawn(health::serve(Arc::clone(&agent), config.healthz, told_to_rest));
    let watcher = config.host.is_some().then(|| {
        let agent = Arc::clone(&agent);
        tokio::spawn(async move { host_path::watch(|| agent.note_host_change()).await })
    });
    let channel = tokio::spawn(control::follow(Arc::clone(&agent), config.control));
    writeln!(std::io::stdout(), "vrouter ready").context("standard output")?;
    tracing::info!("node {} is ready, {} workers", config.node, config.workers);

    stop.notified().await;
    tracing::info!("stopping");
    signals.abort();
    end(channel).await;
    if let Some(watcher) = watcher {
        end(watcher).await;
    }
    closing.notify_one();
    if tokio::time::timeout(FAREWELL, api).await.is_err() {
        tracing::warn!("calls of the local API were cut off");
    }
    // Nothing changes the tables any more, so what is written now is what they are.
    drop(rest);
    for task in [tender, keeper, health] {
        // One that failed is no reason to leave the rest as it is.
        task.await.unwrap_or_else(|error| tracing::error!("{error}"));
    }
    run_directory.close();
    drop(agent);
    tokio::task::spawn_blocking(move || stop_data_path(plane)).await?;
    tracing::info!("stopped; pods' interfaces and flows stay");
    Ok(())
}

/// Every pod takes a descriptor for each worker, as may every network. The usual soft limit is for programs that use
/// `select`; what is more than the hard one is refused where it is opened.
fn raise_file_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, most)| setrlimit(Resource::RLIMIT_NOFILE, most, most));
    if let Err(error) = raised {
        tracing::warn!("the limit of open files stays as it is: {error}");
    }
}

/// The agent with its data path, gone on from where the node was before.
fn build(config: &Config, state_directory: &OwnDirectory) -> Result<(Arc<Agent>, Arc<IoPlane>)> {
    let boot = boot_id()?;
    let identity = Identity {
        node: config.node.clone(),
        boot_id: boot.to_string(),
        vtep: config.vtep_address,
        host: config.host.clone(),
        unassigned_pods: config.unassigned_pods,
    };
    let host_path = match &config.host {
        Some(settings) => {
            check_source_ports(settings.source_ports)?;
            HostPathKind::Managed
        }
        None => HostPathKind::None,
    };
    let files = StateFiles::within(state_directory.path());
    let flow_file = FlowFile::open(&config.flow_table, config.flow_capacity, boot)?;
    let mut restored = Restored::load(&identity, &files, flow_file.last_epoch())?;

    let flow_config = FlowConfig::sized(flow_file.slots().len(), flow_file.seed());
    let (flows, recovered) =
        FlowTable::recover(flow_file.slots(), flow_file.high_water(), flow_config, boot_time());
    tracing::info!("{} connections go on, {} were incomplete", recovered.connections, recovered.discarded);
    let shared = Shared::new(flows, config.workers, ForwardConfig::default());

    let first = restored.state.tables.publish(flow_file.next_epoch());
    let keeper = Keeper::new(config.fwmark, config.snat_ports, files.sysctls.clone(), boot.to_string());
    let plane = IoPlane::start(flow_file, Arc::clone(&shared), first, config.vxlan, host_path, keeper)?;
    let plane = Arc::new(plane);
    let agent = Agent::new(identity, files, plane.clone(), shared, restored);
    Ok((agent, plane))
}

fn stop_data_path(plane: Arc<IoPlane>) {
    match Arc::try_unwrap(plane) {
        Ok(plane) => plane.stop(),
        Err(plane) => {
            tracing::warn!("something still uses the data path; it ends with the process");
            plane.leave_host();
        }
    }
}

/// Tells the node to stop at the first SIGTERM or SIGINT.
fn stop_at_signals(stop: Arc<Notify>) -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM"),
            _ = interrupt.recv() => tracing::info!("SIGINT"),
        }
        stop.notify_one();
    })
}

/// Ends a task that would run for ever.
async fn end<T>(task: JoinHandle<T>) {
    task.abort();
    // That it was aborted is no news.
    let _ = task.await;
}
