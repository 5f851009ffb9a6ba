//! Hearing from the kernel when links, addresses or rules of this node change.

use std::io;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use rtnetlink::MulticastGroup;
use tokio::time::sleep;

/// What is of interest. Routes are not: on a router of a large network they change all the time; ours are looked after
/// once a second, and go with links and addresses otherwise.
const GROUPS: [MulticastGroup; 5] = [
    MulticastGroup::Link,
    MulticastGroup::Ipv4Ifaddr,
    MulticastGroup::Ipv6Ifaddr,
    MulticastGroup::Ipv4Rule,
    MulticastGroup::Ipv6Rule,
];
/// Changes seldom come alone.
const SETTLING: Duration = Duration::from_millis(5);
/// Before it is tried again to listen.
const PAUSE: Duration = Duration::from_secs(1);

/// Tells of changes in the process's own network namespace, for ever. What was missed because too much came at once is
/// told of as well: each time it is only said that something changed.
pub async fn watch(tell: impl Fn()) {
    loop {
        if let Err(error) = listen(&tell).await {
            tracing::warn!("changes of this node's addresses are noticed only once a second: {error}");
        }
        sleep(PAUSE).await;
    }
}

/// Returns when the kernel says nothing more.
async fn listen(tell: &impl Fn()) -> io::Result<()> {
    let (connection, _netlink, mut news) = rtnetlink::new_multicast_connection(&GROUPS)?;
    let connection = tokio::spawn(connection);
    // What changed before that was not heard.
    tell();
    while news.next().await.is_some() {
        sleep(SETTLING).await;
        while let Some(Some(_)) = news.next().now_or_never() {}
        tell();
    }
    connection.abort();
    Ok(())
}
