//! Doing something inside a pod's network namespace.

use std::fs::File;
use std::future::Future;
use std::io;
use std::path::Path;
use std::thread;

use nix::sched::{CloneFlags, setns};
use rtnetlink::Handle;

use crate::error::CniError;

/// Whether entering a namespace failed because there is none any more: neither a file, nor anything bound to it.
pub fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput)
}

/// Runs a task with a netlink connection inside the namespace.
///
/// A namespace belongs to a thread, so the task gets one of its own, which ends with it.
pub fn within<T, F>(path: &Path, task: impl FnOnce(Handle) -> F + Send) -> Result<T, CniError>
where
    T: Send,
    F: Future<Output = Result<T, CniError>>,
{
    let fail = |error| CniError::Namespace { path: path.display().to_string(), error };
    let namespace = File::open(path).map_err(fail)?;
    thread::scope(|scope| {
        let visit = scope.spawn(|| {
            setns(&namespace, CloneFlags::CLONE_NEWNET).map_err(|errno| fail(errno.into()))?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fail)?;
            runtime.block_on(async {
                let (connection, handle, _) = rtnetlink::new_connection().map_err(fail)?;
                tokio::spawn(connection);
                task(handle).await
            })
        });
        visit.join().unwrap_or_else(|_| Err(fail(io::Error::other("the thread inside it panicked"))))
    })
}
