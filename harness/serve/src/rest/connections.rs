//! Connections: how many, for how long, and until when.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::request::MOST_WAIT;

/// Connections at once.
const MOST_CONNECTIONS: usize = 64;
/// Time for the header of a request.
const HEADER: Duration = Duration::from_secs(10);
/// Time for a connection beyond what its request may wait. A client that reads nothing must not keep its place.
const GRACE: Duration = Duration::from_secs(120);
/// Pause after a connection could not be accepted, because files or memory are short.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until `ended`.
pub(super) async fn accept(listener: TcpListener, router: Router, ended: impl Future<Output = ()>) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut ended = std::pin::pin!(ended);
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, stream) = tokio::select! {
            () = &mut ended => return,
            (place, accepted) = accepted => match accepted {
                Ok((stream, _)) => (place, stream),
                Err(_) => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            },
        };
        let router = router.clone();
        tokio::spawn(async move {
            // A client that breaks off or is too slow is its own problem.
            let _ = timeout(MOST_WAIT + GRACE, connection(stream, router)).await;
            drop(place);
        });
    }
}

/// Serves the one request of a connection.
async fn connection(stream: TcpStream, router: Router) -> Result<(), hyper::Error> {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER).keep_alive(false);
    builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await
}
