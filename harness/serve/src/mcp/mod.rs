//! Specs, runs, causes and debug sessions over MCP, on standard input and output.
//!
//! `tools.rs` lists the tools. Each answers with a text and with the same as JSON; both are bounded, and say what they leave
//! out. `resources.rs` gives access to the files of runs.

mod account;
mod causes;
mod debug_tools;
mod reply;
mod resources;
mod run_tools;
mod runs;
mod tools;
mod wait;

use std::io;
use std::sync::Arc;

use mlx_parity_cli::Project;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use thiserror::Error;

use self::runs::SuiteRuns;
use crate::Debugger;
use crate::end_signal::end_signal;

/// Why the server ended.
#[derive(Debug, Error)]
pub enum McpError {
    /// The runtime cannot start, or standard output cannot be kept for the protocol.
    #[error("cannot start the server")]
    Start(#[source] io::Error),
    /// The client did not speak MCP.
    #[error("the client did not open an MCP session; start this program from an MCP client: {0}")]
    Client(String),
}

/// What the tools work on.
struct Tooling {
    debugger: Debugger,
    runs: SuiteRuns,
}

/// Serves until the client closes standard input, or until SIGTERM, and then ends the debug session and the run.
///
/// # Errors
/// When the client does not speak MCP.
pub fn run(project: Project) -> Result<(), McpError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(64)
        .enable_all()
        .build()
        .map_err(McpError::Start)?;
    let tooling = Arc::new(Tooling { debugger: Debugger::new(project), runs: SuiteRuns::default() });
    let served = runtime.block_on(serve(Arc::clone(&tooling)));
    tooling.debugger.close();
    tooling.runs.close();
    // A call that still waits must not keep the program.
    runtime.shutdown_background();
    served
}

async fn serve(tooling: Arc<Tooling>) -> Result<(), McpError> {
    let output = tokio::fs::File::from_std(protocol_output().map_err(McpError::Start)?);
    let ended = end_signal().map_err(McpError::Start)?;
    let served = async {
        let service = Server(tooling).serve((tokio::io::stdin(), output)).await;
        let service = service.map_err(|error| McpError::Client(error.to_string()))?;
        // However the connection ends, the server ends with it.
        let _ = service.waiting().await;
        Ok(())
    };
    tokio::select! {
        served = served => served,
        () = ended => Ok(()),
    }
}

/// Takes standard output for the protocol alone. What this process and its children print there goes to standard error.
fn protocol_output() -> io::Result<std::fs::File> {
    let output = rustix::io::dup(std::io::stdout())?;
    rustix::stdio::dup2_stdout(std::io::stderr())?;
    Ok(output.into())
}

struct Server(Arc<Tooling>);

impl Server {
    /// Runs work that blocks.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tooling) -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        let tooling = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || work(&tooling)).await;
        done.map_err(|_| {
            ErrorData::internal_error("the server failed at this request; its standard error says more", None)
        })
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("mlx-parity", env!("CARGO_PKG_VERSION")))
            .with_instructions(
                "Finds where an mlx-rs port differs from its reference. The loop: run_spec, then first_divergence, then \
                 checkpoint_detail or a debug session, then edit the port, then run_spec again. Repair the first faulty \
                 stage first; later red checkpoints are often consequences. Never change tolerances, gates, goldens or \
                 fixtures to turn a checkpoint green. A debug session proves nothing, only a run does.",
            )
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (name, arguments) = (request.name, request.arguments.unwrap_or_default());
        let result = self.blocking(move |tooling| tools::call(tooling, &name, arguments)).await??;
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let listed = self.blocking(|tooling| resources::list(tooling.debugger.project())).await?;
        Ok(ListResourcesResult::with_all_items(listed))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read =
            self.blocking(move |tooling| resources::read(tooling.debugger.project(), &request.uri)).await?;
        read.map(Into::into).map_err(|failure| {
            let text = match &failure.next {
                Some(next) => format!("{}; {next}", failure.message),
                None => failure.message,
            };
            ErrorData::resource_not_found(text, None)
        })
    }
}
