//! Calls to attach that are under way, so that a DEL reaches those that came before it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{AttachError, AttachRequest};
use crate::attachment::ContainerInterface;

/// One call to attach, from its arrival on.
#[derive(Debug)]
pub struct AttachCall {
    /// What is asked for.
    pub request: AttachRequest,
    called_off: AtomicBool,
}

impl AttachCall {
    /// Fails where its interface was detached since it came, or nobody waits for it any more.
    pub(super) fn is_wanted(&self) -> Result<(), AttachError> {
        match self.called_off.load(Ordering::SeqCst) {
            true => Err(AttachError::CalledOff(self.request.interface.clone())),
            false => Ok(()),
        }
    }

    fn call_off(&self) {
        self.called_off.store(true, Ordering::SeqCst);
    }
}

/// Who waits for a call. Where that one goes away before there is an answer, the call is called off.
#[derive(Debug)]
pub struct Caller(Arc<AttachCall>);

impl Caller {
    /// The one who waits for this call.
    pub fn of(call: &Arc<AttachCall>) -> Self {
        Self(Arc::clone(call))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // Of a call that was answered it makes no difference.
        self.0.call_off();
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
                call.call_off();
            }
        }
    }
}
