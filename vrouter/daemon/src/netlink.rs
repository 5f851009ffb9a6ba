//! Speaking netlink from where nobody is asynchronous.

use std::io;

use rtnetlink::Handle;

/// Does something with a netlink connection of its own, in the caller's network namespace. It blocks, and has a thread
/// of its own, since the caller may be one of tokio's. Requests are checked strictly, so that the kernel gives no more
/// than was asked for.
pub fn with_netlink<T: Send>(task: impl AsyncFnOnce(Handle) -> T + Send) -> io::Result<T> {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let (connection, netlink, _) = rtnetlink::new_connection_with_strict_check()?;
            tokio::spawn(connection);
            Ok(task(netlink).await)
        })
    };
    std::thread::scope(|scope| scope.spawn(run).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
