//! Doing something inside another network namespace.

use std::fs::File;
use std::io;
use std::path::Path;
use std::thread;

use nix::sched::{CloneFlags, setns};

use crate::IoError;

/// Runs `task` inside the network namespace of this file, or here if none is given.
///
/// A namespace belongs to a thread, so the task gets one of its own, which ends with it: none of the caller's threads
/// can be left in the wrong namespace, whatever happens. Descriptors that the task opens keep working afterwards.
pub fn within<T: Send>(
    netns: Option<&Path>,
    task: impl FnOnce() -> Result<T, IoError> + Send,
) -> Result<T, IoError> {
    let Some(path) = netns else { return task() };
    let fail = |source: io::Error| IoError::Namespace { path: path.to_owned(), source };
    let namespace = File::open(path).map_err(fail)?;
    thread::scope(|scope| {
        let visit = scope.spawn(|| {
            setns(&namespace, CloneFlags::CLONE_NEWNET).map_err(|errno| fail(errno.into()))?;
            task()
        });
        visit.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_is_not_there_is_named() {
        let error = within(Some(Path::new("/run/netns/not there")), || Ok(())).unwrap_err();
        assert!(error.to_string().contains("/run/netns/not there"), "{error}");
    }

    #[test]
    fn a_file_that_is_no_namespace_is_named() {
        let error = within(Some(Path::new("/dev/null")), || Ok(())).unwrap_err();
        assert!(error.to_string().contains("/dev/null"), "{error}");
    }

    #[test]
    fn without_a_namespace_it_happens_here() {
        assert_eq!(within(None, || Ok(7)).unwrap(), 7);
    }
}
