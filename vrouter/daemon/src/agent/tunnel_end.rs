//! This node's tunnel end. Tunnels are opened only after the tables with every pod in them are in force: a packet out of
//! a tunnel whose pod is not in the tables yet would be answered as for nobody, and its connection forgotten.

use std::net::IpAddr;

use super::{Agent, AttachError, State};
use crate::plane::{PlaneError, Tunnels, Vtep};
use crate::underlay::pod_mtu;

/// How far this node's tunnel end has got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TunnelEnd {
    /// Neither the configuration nor the controller has said where it is.
    Unknown,
    /// It could not be opened, for this reason. It is tried again.
    Failed(String),
    /// It is open, for these tunnels.
    Open(Tunnels),
}

impl Agent {
    /// Opens the tunnel end where it is not open yet, or otherwise than it should be.
    pub(super) fn follow_tunnel_end(&self, state: &mut State) {
        if let Some(vtep) = self.coming_tunnel_end(state) {
            self.publish(state);
            self.open_tunnel_end(state, vtep);
        }
    }

    /// The tunnel end that is to be opened, its MTU already in the tables; `None` where it is open as it should be, or
    /// cannot be.
    pub(super) fn coming_tunnel_end(&self, state: &mut State) -> Option<Vtep> {
        let said = state.own_router.as_ref().map(|router| router.address);
        let address = self.identity.vtep.or(said)?;
        if let Some(vtep) = state.vtep().filter(|vtep| vtep.address == address) {
            let is_as_it_should_be = state.tunnel_end == TunnelEnd::Open(state.tunnels(vtep));
            return (!is_as_it_should_be).then_some(vtep);
        }
        match self.plane.underlay_mtu(address) {
            Ok(underlay) => {
                let vtep = Vtep { address, pod_mtu: pod_mtu(underlay, address) };
                state.tables.set_tunnel_mtu(vtep.pod_mtu);
                Some(vtep)
            }
            Err(error) => {
                state.tunnel_end_failed(address, &error);
                None
            }
        }
    }

    pub(super) fn open_tunnel_end(&self, state: &mut State, vtep: Vtep) {
        let tunnels = state.tunnels(vtep);
        match self.plane.set_tunnels(&tunnels) {
            Ok(()) => {
                if state.vtep() != Some(vtep) {
                    tracing::info!("tunnels end at {}", vtep.address);
                }
                state.tunnel_end = TunnelEnd::Open(tunnels);
            }
            Err(error) => state.tunnel_end_failed(vtep.address, &error),
        }
    }
}

impl State {
    /// This node's tunnel end, while it is open.
    pub fn vtep(&self) -> Option<Vtep> {
        match &self.tunnel_end {
            TunnelEnd::Open(tunnels) => Some(tunnels.vtep),
            TunnelEnd::Unknown | TunnelEnd::Failed(_) => None,
        }
    }

    /// The same, or why there is none.
    pub(super) fn open_vtep(&self) -> Result<Vtep, AttachError> {
        match &self.tunnel_end {
            TunnelEnd::Open(tunnels) => Ok(tunnels.vtep),
            TunnelEnd::Unknown => Err(AttachError::NoVtep),
            TunnelEnd::Failed(reason) => Err(AttachError::VtepFailed(reason.clone())),
        }
    }

    /// What the tunnels are to be that end there.
    fn tunnels(&self, vtep: Vtep) -> Tunnels {
        let others = self.routers.values().filter(|router| Some(*router) != self.own_router.as_ref());
        Tunnels {
            vtep,
            networks: self.networks.values().map(|network| network.vni).collect(),
            peers: others.map(|router| (router.mac, router.address)).collect(),
        }
    }

    fn tunnel_end_failed(&mut self, address: IpAddr, error: &PlaneError) {
        let failed = TunnelEnd::Failed(format!("tunnels cannot end at {address}: {error}"));
        // It is tried again and again; what is no news is not told again.
        if let TunnelEnd::Failed(reason) = &failed
            && self.tunnel_end != failed
        {
            tracing::error!("{reason}");
        }
        self.tunnel_end = failed;
    }
}
