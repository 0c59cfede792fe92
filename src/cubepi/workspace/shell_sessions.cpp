#include <cubepi/workspace/shell_sessions.hpp>

#include <algorithm>
#include <deque>
#include <optional>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/workspace/shell/output_buffer.hpp>

namespace cubepi {

/// Shared by the command's handle and the two coroutines that serve it. Only those coroutines own the process, so that it is
/// destroyed with its event loop.
struct ShellSessions::Command::State {
    State(std::shared_ptr<const Runtime> runtime_, std::string line, const ShellOptions& options)
        : runtime(std::move(runtime_)),
          command_line(std::move(line)),
          spill(options.spill),
          output(options.head_bytes, options.tail_bytes),
          started(runtime->clock->now()) {}

    const std::shared_ptr<const Runtime> runtime;
    const std::string command_line;
    const std::shared_ptr<FileSpillSink> spill;
    std::string id;
    std::weak_ptr<Process> process;
    Utf8Splitter decoder;
    detail::OutputBuffer output;
    std::shared_ptr<SpillFile> file;
    bool sandboxed = false;
    std::uint64_t lines = 0;  ///< line feeds of the output
    std::string unwritten;    ///< output for the spill file
    bool writing = false;
    Clock::time_point started;
    Clock::time_point ended;
    bool exited = false;
    bool output_ended = false;
    bool all_ended = false;  ///< all processes of the command have exited
    std::vector<SurvivingProcess> survivors;
    ExitStatus status;
    AsyncEvent changed;

    void take(std::string_view bytes) {
        std::string text;
        decoder.push(bytes, text);
        add(text);
    }

    void add(const std::string& text) {
        if (!file && spill && !output.holds_all(text.size())) {
            file = spill->create("shell");
            unwritten = output.from(0, {});
        }
        if (file) unwritten += text;
        output.append(text);
        lines += static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
        if (!text.empty()) changed.pulse();
    }

    std::string elsewhere() const {
        return file ? "the whole output is in " + file->path() + ", which the read tool can read"
                    : std::string();
    }
};

namespace {

using CommandState = std::shared_ptr<ShellSessions::Command::State>;

/// Writes the output received so far to the spill file.
Task<> write_out(CommandState state) {
    while (state->writing) co_await state->changed.wait();
    state->writing = true;
    while (!state->unwritten.empty()) {
        auto write = [file = state->file, text = std::move(state->unwritten)] {
            file->append(text);
        };
        state->unwritten.clear();
        co_await offload(*state->runtime->workers, std::move(write));
    }
    state->writing = false;
    state->changed.pulse();
}

Task<> serve_output(CommandState state, std::shared_ptr<Process> process) {
    std::string bytes;
    for (;;) {
        bytes.clear();
        const bool more = co_await process->read(bytes);
        if (!more) break;
        state->take(bytes);
        // Before more output is read, so that a command that writes faster than the disk has to wait.
        if (!state->unwritten.empty()) co_await write_out(state);
    }
    std::string rest;
    state->decoder.finish(rest);
    state->add(rest);
    co_await write_out(state);
    state->output_ended = true;
    state->changed.pulse();
}

Task<> serve_exit(CommandState state, std::shared_ptr<Process> process) {
    const ExitStatus status = co_await process->wait();
    // Output of the command itself fits the pipe; any more comes from child processes that still run.
    constexpr std::size_t enough = 1024 * 1024;
    std::string bytes;
    while (bytes.size() < enough && process->read_ready(bytes)) continue;
    state->take(bytes);
    co_await write_out(state);
    state->status = status;
    state->ended = state->runtime->clock->now();
    // The end of the output is known here but handled by the other coroutine: wait for it.
    while (process->output_ended() && !state->output_ended) co_await state->changed.wait();
    state->exited = true;
    state->all_ended = process->all_ended();
    state->changed.pulse();
    // Child processes may continue until they exit or are killed: this coroutine owns the process object meanwhile.
    co_await process->wait_all();
    // Without its supervisor the command has ended, but its remaining processes are unknown: report them.
    if (!process->all_ended()) {
        state->survivors = co_await process->terminate(std::chrono::nanoseconds::zero());
    }
    state->all_ended = true;
    state->changed.pulse();
}

bool is_finished(const ShellSessions::Command::State& state) noexcept {
    return state.exited && state.output_ended && state.all_ended;
}

Task<> wait_finished(CommandState state) {
    while (!is_finished(*state)) co_await state->changed.wait();
}

Task<> wait_output_end(CommandState state) {
    while (!state->output_ended) co_await state->changed.wait();
}

}  // namespace

ShellSessions::Command::Command(std::shared_ptr<const Runtime> runtime, std::string command_line,
                                const ShellOptions& options)
    : state_(std::make_shared<State>(std::move(runtime), std::move(command_line), options)) {}

ShellSessions::Command::~Command() { kill(); }

const std::string& ShellSessions::Command::id() const noexcept { return state_->id; }
const std::string& ShellSessions::Command::command_line() const noexcept {
    return state_->command_line;
}
Clock::time_point ShellSessions::Command::started() const noexcept { return state_->started; }

std::chrono::nanoseconds ShellSessions::Command::elapsed() const {
    return (state_->exited ? state_->ended : state_->runtime->clock->now()) - state_->started;
}

bool ShellSessions::Command::sandboxed() const noexcept { return state_->sandboxed; }
bool ShellSessions::Command::exited() const noexcept { return state_->exited; }
bool ShellSessions::Command::finished() const noexcept { return is_finished(*state_); }

const std::vector<SurvivingProcess>& ShellSessions::Command::survivors() const noexcept {
    return state_->survivors;
}
const ExitStatus& ShellSessions::Command::status() const noexcept { return state_->status; }

std::string ShellSessions::Command::output(std::uint64_t from) const {
    return state_->output.from(from, state_->elsewhere());
}

std::uint64_t ShellSessions::Command::output_size() const noexcept { return state_->output.size(); }
std::uint64_t ShellSessions::Command::output_lines() const noexcept { return state_->lines; }

std::string ShellSessions::Command::output_file() const {
    return state_->file ? state_->file->path() : std::string();
}

std::string ShellSessions::Command::last_output(std::size_t bytes) const {
    return std::string(state_->output.last(bytes));
}

Task<> ShellSessions::Command::wait_change() {
    const auto state = state_;
    co_await state->changed.wait();
}

Task<> ShellSessions::Command::stop(std::chrono::nanoseconds grace) {
    const auto state = state_;
    const auto process = state->process.lock();
    if (!process) co_return;
    state->survivors = co_await process->terminate(grace);
    if (state->survivors.empty()) {
        // Read the last output before the stream is closed.
        while (!state->exited) co_await state->changed.wait();
    }
    process->close_output();
    if (state->survivors.empty()) {
        co_await wait_finished(state);
    } else {
        co_await wait_output_end(state);
    }
}

void ShellSessions::Command::kill() noexcept {
    const auto process = state_->process.lock();
    if (!process) return;
    process->kill();
    process->close_output();
}

struct ShellSessions::State {
    std::shared_ptr<Workspace> workspace;
    ShellOptions options;
    std::deque<std::shared_ptr<Command>> background;
    std::size_t count = 0;
    Executor executor;
    std::optional<BackgroundScope> scope;

    std::size_t running() const noexcept {
        return static_cast<std::size_t>(
            std::count_if(background.begin(), background.end(),
                          [](const auto& command) { return !command->finished(); }));
    }

    void bind(const Executor& current) {
        if (scope && executor == current) return;
        if (scope && scope->live() > 0) {
            throw Error(ErrorCode::invalid_state,
                        "These shell tools have commands running on another event loop. Create "
                        "separate tools for each agent.");
        }
        // A failure of a command ends its output; no caller waits for the coroutines themselves.
        scope.emplace(current, [](std::exception_ptr) {});
        executor = current;
    }

    void drop_old() {
        auto finished = background.size() - running();
        for (auto item = background.begin();
             item != background.end() && finished > options.max_finished;) {
            if (!(*item)->finished()) {
                ++item;
                continue;
            }
            item = background.erase(item);
            --finished;
        }
    }
};

std::string survivors_text(const std::vector<SurvivingProcess>& survivors) {
    std::string text;
    for (const SurvivingProcess& one : survivors) {
        text += text.empty() ? "could not be ended: " : ", ";
        text +=
            one.pid == 0 ? one.name : "process " + std::to_string(one.pid) + " (" + one.name + ")";
        text += ": " + one.reason;
    }
    return text;
}

ShellSessions::ShellSessions(std::unique_ptr<State> state) : state_(std::move(state)) {}

std::shared_ptr<ShellSessions> ShellSessions::create(std::shared_ptr<Workspace> workspace,
                                                     ShellOptions options) {
    auto state = std::make_unique<State>();
    state->workspace = std::move(workspace);
    state->options = std::move(options);
    return std::shared_ptr<ShellSessions>(new ShellSessions(std::move(state)));
}

ShellSessions::~ShellSessions() {
    const std::vector<SurvivingProcess> survivors = kill_all();
    const auto& report = state_->options.on_survivors;
    if (report && !survivors.empty()) report(survivors_text(survivors));
}

const ShellOptions& ShellSessions::options() const noexcept { return state_->options; }

const Workspace& ShellSessions::workspace() const noexcept { return *state_->workspace; }

Task<std::shared_ptr<ShellSessions::Command>> ShellSessions::start(
    std::shared_ptr<const Runtime> runtime, ProcessRequest request) {
    const auto self = shared_from_this();
    Executor current = co_await this_executor;
    self->state_->bind(current);
    request.runtime = runtime;
    auto command =
        std::make_shared<Command>(std::move(runtime), request.command, self->state_->options);
    command->state_->sandboxed =
        request.sandbox != CommandSandbox::none && self->workspace().has_sandbox();
    std::shared_ptr<Process> process = co_await self->state_->workspace->start(std::move(request));
    command->state_->process = process;
    self->state_->scope->spawn(serve_output(command->state_, process));
    self->state_->scope->spawn(serve_exit(command->state_, std::move(process)));
    co_return command;
}

bool ShellSessions::has_background_slot() const noexcept {
    return state_->running() < state_->options.max_background;
}

bool ShellSessions::move_to_background(const std::shared_ptr<Command>& command) {
    if (!command->id().empty()) return true;
    if (!has_background_slot()) return false;
    command->state_->id = "sh" + std::to_string(++state_->count);
    state_->background.push_back(command);
    state_->drop_old();
    return true;
}

std::shared_ptr<ShellSessions::Command> ShellSessions::find(const std::string& id) const {
    for (const auto& command : state_->background) {
        if (command->id() == id) return command;
    }
    return nullptr;
}

std::vector<ShellSessions::Summary> ShellSessions::list() const {
    std::vector<Summary> summaries;
    for (const auto& command : state_->background) {
        Summary& summary = summaries.emplace_back();
        summary.id = command->id();
        summary.command = command->command_line();
        summary.running = !command->finished();
        summary.status = command->status();
    }
    return summaries;
}

std::vector<SurvivingProcess> ShellSessions::kill_all() noexcept {
    std::vector<SurvivingProcess> survivors;
    for (const auto& command : state_->background) command->kill();
    for (const auto& command : state_->background) {
        const auto process = command->state_->process.lock();
        if (!process) continue;
        for (SurvivingProcess& one : process->end_now()) survivors.push_back(std::move(one));
    }
    return survivors;
}

}  // namespace cubepi
