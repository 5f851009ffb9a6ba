//! Calls to attach that are under way, so that a DEL reaches those that came before it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::AttachRequest;
use crate::attachment::ContainerInterface;

/// One call to attach, from its arrival on.
#[derive(Debug)]
pub struct AttachCall {
    /// What is asked for.
    pub request: AttachRequest,
    called_off: AtomicBool,
}

impl AttachCall {
    /// Whether its interface was detached since it came.
    pub fn is_called_off(&self) -> bool {
        self.called_off.load(Ordering::SeqCst)
    }
}

/// The calls that are under way. One whose caller was killed may still be at work when the DEL comes that cleans up
/// after it, and must then leave nothing behind.
#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<Vec<Weak<AttachCall>>>);

impl Calls {
    /// A call came. It is under way for as long as it is held.
    pub(super) fn begin(&self, request: AttachRequest) -> Arc<AttachCall> {
        let call = Arc::new(AttachCall { request, called_off: AtomicBool::new(false) });
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.retain(|call| call.strong_count() > 0);
        calls.push(Arc::downgrade(&call));
        call
    }

    /// Calls off what is under way for this interface.
    pub(super) fn call_off(&self, interface: &ContainerInterface) {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for call in calls.iter().filter_map(Weak::upgrade) {
            if call.request.interface == *interface {
                call.called_off.store(true, Ordering::SeqCst);
            }
        }
    }
}
