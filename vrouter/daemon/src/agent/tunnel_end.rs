//! This node's tunnel end. Tunnels are opened only after the tables with every pod in them are in force: a packet out of
//! a tunnel whose pod is not in the tables yet would be answered as for nobody, and its connection forgotten.

use std::net::IpAddr;

use super::{Agent, AttachError, State};
use crate::plane::PlaneError;
use crate::underlay::pod_mtu;

/// How far this node's tunnel end has got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TunnelEnd {
    /// Neither the configuration nor the controller has said where it is.
    Unknown,
    /// It could not be opened, for this reason. It is tried again.
    Failed(String),
    /// It is open.
    Open(Vtep),
}

/// Where tunnels to this node end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vtep {
    /// Its address.
    pub address: IpAddr,
    /// The largest IP packet that still fits into a tunnel from here.
    pub pod_mtu: u16,
}

impl Agent {
    /// Opens the tunnel end where it is not open yet, or elsewhere than it should be.
    pub(super) fn follow_tunnel_end(&self, state: &mut State) {
        if let Some(vtep) = self.coming_tunnel_end(state) {
            self.publish(state);
            self.open_tunnel_end(state, vtep);
        }
    }

    /// The tunnel end that is to be opened, its MTU already in the tables; `None` where it is open, or cannot be.
    pub(super) fn coming_tunnel_end(&self, state: &mut State) -> Option<Vtep> {
        let said = state.own_router.as_ref().map(|router| router.address);
        let address = self.identity.vtep.or(said)?;
        if state.vtep().is_some_and(|vtep| vtep.address == address) {
            return None;
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
        match self.plane.set_vtep(vtep.address) {
            Ok(()) => {
                tracing::info!("tunnels end at {}", vtep.address);
                state.tunnel_end = TunnelEnd::Open(vtep);
            }
            Err(error) => state.tunnel_end_failed(vtep.address, &error),
        }
    }
}

impl State {
    /// This node's tunnel end, while it is open.
    pub fn vtep(&self) -> Option<Vtep> {
        match self.tunnel_end {
            TunnelEnd::Open(vtep) => Some(vtep),
            TunnelEnd::Unknown | TunnelEnd::Failed(_) => None,
        }
    }

    /// The same, or why there is none.
    pub(super) fn open_vtep(&self) -> Result<Vtep, AttachError> {
        match &self.tunnel_end {
            TunnelEnd::Open(vtep) => Ok(*vtep),
            TunnelEnd::Unknown => Err(AttachError::NoVtep),
            TunnelEnd::Failed(reason) => Err(AttachError::VtepFailed(reason.clone())),
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
