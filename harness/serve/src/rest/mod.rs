//! Debug sessions over HTTP, on this machine only.
//!
//! The server listens on a loopback address. Every request needs the token that is printed at the start. `endpoints.rs` lists the
//! end points; the router, the OpenAPI document and the page `/docs` are made from that list.

mod connections;
mod docs;
mod endpoints;
mod guard;
mod history;
mod openapi;
mod perform;
mod request;
mod response;
mod schemas;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use mlx_parity_cli::Project;
use thiserror::Error;
use tokio::net::TcpListener;

use self::endpoints::{ENDPOINTS, Endpoint, Method};
use self::guard::Guard;
use self::perform::respond;
use self::response::failure_response;
use crate::end_signal::end_signal;
use crate::failure::{Failure, FailureKind};
use crate::{Debugger, StartRequest};

/// The most bytes of a body.
const MOST_BODY: usize = 64 << 10;

/// Why the server cannot serve.
#[derive(Debug, Error)]
pub enum RestError {
    /// The address cannot be understood.
    #[error("`{address}` is no address with a port")]
    Address {
        /// The address.
        address: String,
        /// The cause.
        source: io::Error,
    },
    /// Other machines could reach the address.
    #[error("`{address}` is not an address of this machine alone, and the server steps through programs")]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// The address is taken, or not allowed.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The machine has no random numbers.
    #[error("cannot make a token")]
    Token(#[source] getrandom::Error),
    /// The runtime cannot start.
    #[error("cannot start the server")]
    Runtime(#[source] io::Error),
    /// The first session cannot start.
    #[error("{}", .0.message)]
    Start(Failure),
}

impl RestError {
    /// What to do about it, if that is known.
    pub fn next(&self) -> Option<String> {
        match self {
            Self::Address { .. } => {
                Some("use an address such as `127.0.0.1:8000`, or port 0 for a free one".into())
            }
            Self::NotLoopback { address } => Some(format!("use `127.0.0.1:{}`", address.port())),
            Self::Listen { .. } => Some("use another port, or port 0 for a free one".into()),
            Self::Start(failure) => failure.next.clone(),
            Self::Token(_) | Self::Runtime(_) => None,
        }
    }
}

/// Serves until Ctrl-C or SIGTERM, and then ends the session. Prints the address, the token and the page with the end points.
///
/// # Errors
/// When the address is none of this machine alone or is taken, or the first session cannot start.
pub fn run(project: Project, address: &str, start: Option<&str>) -> Result<(), RestError> {
    let address = loopback(address)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(128)
        .enable_all()
        .build()
        .map_err(RestError::Runtime)?;
    let debugger = Arc::new(Debugger::new(project));
    let served = runtime.block_on(serve(Arc::clone(&debugger), address, start.map(StartRequest::new)));
    debugger.close();
    // A request that still waits must not keep the program.
    runtime.shutdown_background();
    served
}

/// The address, if only this machine can reach it.
fn loopback(address: &str) -> Result<SocketAddr, RestError> {
    let unknown = |source| RestError::Address { address: address.to_owned(), source };
    let mut found = address.to_socket_addrs().map_err(unknown)?;
    let address = found.next().ok_or_else(|| unknown(io::ErrorKind::NotFound.into()))?;
    if address.ip().is_loopback() { Ok(address) } else { Err(RestError::NotLoopback { address }) }
}

async fn serve(
    debugger: Arc<Debugger>,
    address: SocketAddr,
    start: Option<StartRequest>,
) -> Result<(), RestError> {
    let failed = |source| RestError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let guard = Guard::new(address.port()).map_err(RestError::Token)?;
    if let Some(request) = start {
        debugger.start(request, Duration::ZERO).map_err(RestError::Start)?;
    }
    let ended = end_signal().map_err(RestError::Runtime)?;
    println!("debug server: http://{address}");
    println!("token: {}", guard.token());
    println!("end points: http://{address}/docs?token={}", guard.token());
    connections::accept(listener, router(debugger, guard), ended).await;
    Ok(())
}

fn router(debugger: Arc<Debugger>, guard: Guard) -> Router {
    let mut router = Router::new();
    for endpoint in ENDPOINTS {
        router = router.route(endpoint.path, route(endpoint, &debugger));
    }
    router
        .fallback(unknown)
        .method_not_allowed_fallback(other_method)
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(from_fn_with_state(Arc::new(guard), guard::check))
}

fn route(endpoint: &'static Endpoint, debugger: &Arc<Debugger>) -> MethodRouter {
    let debugger = Arc::clone(debugger);
    let handler = move |request: Request| respond(Arc::clone(&debugger), endpoint, request);
    match endpoint.method {
        Method::Get => get(handler),
        Method::Post => post(handler),
    }
}

async fn unknown(request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let failure = Failure::new(FailureKind::NotFound, format!("there is no end point `{path}`"));
    failure_response(&failure.with_next("`GET /openapi.json` lists the end points"))
}

async fn other_method(request: Request) -> Response {
    let found = ENDPOINTS.iter().find(|endpoint| endpoint.matches(request.uri().path()));
    let allowed = found.map_or("another method", |endpoint| endpoint.method.name());
    let message = format!("`{}` takes {allowed}, found {}", request.uri().path(), request.method());
    let mut response = failure_response(&Failure::new(FailureKind::Malformed, message));
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_served() {
        for right in ["127.0.0.1:0", "[::1]:8000", "127.1.2.3:1"] {
            assert!(loopback(right).is_ok(), "{right}");
        }
        for other in ["0.0.0.0:8000", "192.0.2.1:80", "[::]:1"] {
            let error = loopback(other).unwrap_err();
            assert!(matches!(error, RestError::NotLoopback { .. }), "{other}");
            assert!(error.next().is_some_and(|next| next.contains("127.0.0.1:")));
        }
        assert!(matches!(loopback("8000"), Err(RestError::Address { .. })));
    }
}
