//! Infinity's agent runtime with 10,000 agents, the same work as bench/many_agents_bench.cpp. Prints one JSON object.

use std::cell::Cell;
use std::error::Error;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use infinity_agent_core::ThreadId;
use infinity_agent_core::message::InputMessage;
use infinity_agent_core::stores::{InMemoryConversationStore, InMemoryStateStore};
use infinity_agent_core::system::local::{ChannelSender, RunningSystem, ThreadLifecycleState};
use infinity_agent_core::system::{AgentEvent, AgentSystemBuilder, StaticModel, ThreadObserver};
use infinity_agent_core::tools::{Tool, ToolContext};
use infinity_provider_protocol::{
    CompletionError, CompletionModel, CompletionRequest, FinalResponse, Message, ModelEntry,
    ModelStream, SingleModelProvider, StreamChunk, ToolCall, ToolResult, ToolResultContent, Usage,
    UserContent,
};
use rap_protocol::{ProviderCallId, ToolCallId};

const GROUPS: usize = 20;
const AGENTS: usize = 500; // of a group
const PROMPTS: usize = 20;
const PIECES: usize = 12; // of an answer, 100 bytes each
const PIECE: &str = "The parser reads one line at a time, keeps the open blocks on a stack, and closes them at the end. \n";
const PROMPT: &str =
    "Read the next source file of the module, and explain which functions another module may call.";
const LINE: &str = "void close_block(Stack& open, Line line); // ends the open blocks\n";
const LINES: usize = 5; // of a tool result

type Failure = Box<dyn Error + Send + Sync>;

/// Answers with a text and a call of the tool, or with a text alone once the tool has answered.
struct Script;

#[async_trait]
impl CompletionModel for Script {
    async fn stream(&self, request: CompletionRequest) -> Result<ModelStream, CompletionError> {
        let history = &request.chat_history;
        let answered = match history.last() {
            Some(Message::User { content }) => content
                .iter()
                .any(|part| matches!(part, UserContent::ToolResult(_))),
            _ => false,
        };
        let mut chunks = Vec::with_capacity(PIECES + 2);
        chunks.resize_with(PIECES, || Ok(StreamChunk::Text(PIECE.to_owned())));
        if !answered {
            let id = format!("call-{}", history.len());
            let arguments = serde_json::json!({"path": "src/parser/blocks.cpp"});
            chunks.push(Ok(StreamChunk::ToolCall(ToolCall::new(
                id, "read", arguments,
            ))));
        }
        chunks.push(Ok(StreamChunk::Final(FinalResponse {
            usage: Some(Usage::default()),
        })));
        Ok(Box::pin(futures_util::stream::iter(chunks)))
    }
}

/// A tool that returns its result in the step that calls it. The result of any other tool is a message in the queue of the runtime.
struct Read;

#[async_trait]
impl Tool<ChannelSender> for Read {
    fn name(&self) -> &str {
        "read"
    }

    fn description(&self) -> &str {
        "Reads a file."
    }

    fn parameters(&self) -> serde_json::Value {
        serde_json::json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})
    }

    fn supports_sync(&self) -> bool {
        true
    }

    async fn execute_synchronous(
        &self,
        _arguments: &serde_json::Value,
        id: &ToolCallId<str>,
        _call_id: Option<&ProviderCallId<str>>,
        _context: &ToolContext<ChannelSender>,
    ) -> Option<ToolResult> {
        Some(ToolResult {
            id: id.as_str().to_owned(),
            call_id: None,
            content: vec![ToolResultContent::text(LINE.repeat(LINES))],
        })
    }

    async fn execute(
        &self,
        _arguments: serde_json::Value,
        _id: ToolCallId,
        _call_id: Option<ProviderCallId>,
        _context: &ToolContext<ChannelSender>,
    ) -> Result<(), Failure> {
        Err("the runtime calls a synchronous tool with execute_synchronous".into())
    }
}

/// Counts events, and those that must occur in a prompt.
#[derive(Clone, Default)]
struct Seen {
    events: Rc<Cell<usize>>,
    pieces: Rc<Cell<usize>>,
    results: Rc<Cell<usize>>,
}

#[async_trait(?Send)]
impl ThreadObserver for Seen {
    type SubscribeRequest = ();

    fn on_event(&self, _thread: &ThreadId<str>, event: &AgentEvent) {
        self.events.set(self.events.get() + 1);
        match event {
            AgentEvent::TextChunk { .. } => self.pieces.set(self.pieces.get() + 1),
            AgentEvent::ToolResult { .. } => self.results.set(self.results.get() + 1),
            _ => {}
        }
    }
}

/// Sends each prompt to all agents of a group at once. An agent has completed a prompt when its thread becomes idle.
async fn run_group(system: &mut RunningSystem<()>, group: usize, agents: usize) {
    for prompt in 0..PROMPTS {
        for agent in 0..agents {
            let message = InputMessage::user_text(format!("agent-{group}-{agent}"), PROMPT);
            system.send(message, &format!("prompt-{prompt}")).await;
        }
        let mut working = agents;
        while working > 0 {
            let event = system
                .next_lifecycle_event()
                .await
                .expect("the runtime ended");
            working -= usize::from(event.state == ThreadLifecycleState::Idle);
        }
    }
}

/// CPU time of this process.
fn used() -> Duration {
    let mut seen = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut seen) };
    Duration::new(seen.tv_sec as u64, seen.tv_nsec as u32)
}

/// Resident bytes of this process, after the allocator has returned its free memory.
fn resident() -> f64 {
    unsafe { libc::malloc_trim(0) };
    let pages = std::fs::read_to_string("/proc/self/statm").expect("/proc/self/statm");
    let pages: f64 = pages
        .split(' ')
        .nth(1)
        .and_then(|text| text.parse().ok())
        .expect("a number of pages");
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as f64
}

async fn measure() -> Result<(), Failure> {
    let entry = ModelEntry {
        model_id: "m".to_owned(),
        display_name: "m".to_owned(),
        context_window: 0, // never compacts
        max_output_tokens: None,
        supports_image_input: false,
    };
    let model = StaticModel::from_entry(
        Arc::new(SingleModelProvider::new(entry.clone(), Script)),
        &entry,
    );
    let seen = Seen::default();
    let observer = seen.clone();
    let mut system = AgentSystemBuilder::new_local(
        InMemoryConversationStore::new(),
        InMemoryStateStore::new(),
        model,
    )
    .without_builtin_tools()
    .tool(Box::new(Read))
    .start_with_observer(move |_| observer.clone());
    run_group(&mut system, GROUPS, 1).await;
    seen.events.set(0);
    let before = resident();
    let mut best = Duration::MAX;
    for group in 0..GROUPS {
        let (wall, cpu) = (Instant::now(), used());
        run_group(&mut system, group, AGENTS).await;
        best = best.min(wall.elapsed()).min(used() - cpu);
    }
    let agents = GROUPS * AGENTS;
    let bytes = (resident() - before) / agents as f64;
    let prompts = (agents + 1) * PROMPTS;
    if seen.pieces.get() != 2 * PIECES * prompts || seen.results.get() != prompts {
        return Err(format!(
            "{} pieces and {} tool results in {prompts} prompts",
            seen.pieces.get(),
            seen.results.get()
        )
        .into());
    }
    let prompt = best.as_secs_f64() * 1e6 / (AGENTS * PROMPTS) as f64;
    let events = seen.events.get() as f64 / (agents * PROMPTS) as f64;
    println!(
        "{}",
        serde_json::json!({"prompt": prompt, "agent": bytes / 1024.0, "events": events})
    );
    system.shutdown().await;
    Ok(())
}

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, measure())
}
