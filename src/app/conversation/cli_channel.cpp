#include "cli_channel.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <unistd.h>

#include <bub/envelope.hpp>
#include <bub/questions.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/net/utf8.hpp>

#include "../failure.hpp"
#include "../mcp/mcp_offers.hpp"
#include "../terminal/console.hpp"
#include "../terminal/job_control.hpp"
#include "attachments.hpp"

namespace cubepi::app {

namespace {

constexpr std::string_view later_key = "later";

/// True for `!cd` alone, which changes nothing that lasts.
bool only_changes_directory(std::string_view text) {
    return (text == "!cd" || text.starts_with("!cd ")) &&
           text.find_first_of(";&|\n") == std::string_view::npos;
}

/// True if the session was in use, so that the prompt is not a part of it.
bool was_refused(const std::exception_ptr& error) {
    try {
        if (error) std::rethrow_exception(error);
    } catch (const Error& refused) {
        return refused.code() == ErrorCode::run_already_claimed;
    } catch (...) {
        return false;
    }
    return false;
}

bool changes_permissions(const ChatInput& input) {
    return !input.text.empty() &&
           (input.action == ChatAction::mode || input.action == ChatAction::permissions);
}

}  // namespace

/// The lifespan of each message: reports the begin and the end of the turn that answers it.
class CliChannel::Turn final : public bub::Lifespan {
public:
    /// The message of a turn.
    enum class Kind : std::uint8_t { prompt, command, results };

    Turn(CliChannel& channel, std::string id, Kind kind)
        : channel_(channel), id_(std::move(id)), kind_(kind) {}
    Task<> open() override {
        channel_.on_turn_begun(id_, kind_ == Kind::command);
        co_return;
    }
    Task<> close(std::exception_ptr error) override {
        if (kind_ == Kind::results && !error && !channel_.has_shown_) {
            channel_.on_silent_turn_over();
        } else {
            channel_.on_turn_over(error, kind_ == Kind::prompt);
        }
        co_return;
    }

private:
    CliChannel& channel_;
    std::string id_;
    Kind kind_;
};

CliChannel::CliChannel(Parts parts)
    : parts_(std::move(parts)),
      console_(*parts_.console),
      view_(*parts_.view),
      conversation_(*parts_.conversation),
      templates_(load_templates(conversation_.pipeline().plan().project.prompts)),
      resources_(conversation_.plan().servers, [this](std::vector<Command> entries) {
          console_.set_resources(std::move(entries));
      }) {
    set_up_prompt();
}

ChatAbilities CliChannel::abilities() const {
    return ChatAbilities{.live = true, .trusted = true, .templates = &templates_};
}

/// Ctrl-G: the text of the prompt in the user's editor.
Task<> CliChannel::edit_elsewhere() {
    const auto edited = std::make_shared<std::string>(console_.prompt_text());
    const Executor executor = co_await this_executor;
    std::stop_source stop;
    auto work = [edited, stop](std::stop_token stopping) mutable {
        const std::stop_callback forward(std::move(stopping), [&stop] { stop.request_stop(); });
        *edited = edit_in_editor(*edited, STDIN_FILENO, stop.get_token());
    };
    // A signal ends the editor first, which has the terminal.
    BackgroundScope signals(executor);
    signals.spawn(stop_on_interrupt(parts_.console, stop));
    Task<> editing = offload(*Runtime::standard()->workers, std::move(work));
    const Outcome<> done = co_await outcome_of(console_.lend(std::move(editing)));
    co_await shield();
    co_await signals.close();
    co_await unshield();
    if (console_.has_end()) co_return;
    if (!done) co_return show_failure(done.failure());
    console_.replace_prompt_text(*edited);
}

CliChannel::~CliChannel() = default;

Task<> CliChannel::start(std::stop_token) {
    const Executor executor = co_await this_executor;
    work_ = std::make_unique<BackgroundScope>(executor, [this](std::exception_ptr failure) {
        conversation_.report(failure);
        parts_.leave();
    });
    work_->spawn(listen());
    work_->spawn(list_skills());
    work_->spawn(list_server_prompts());
    work_->spawn(resources_.list());
}

Task<> CliChannel::stop() {
    if (work_) co_await work_->close();
}

Task<> CliChannel::listen() {
    for (const std::string& text : templates_.problems) view_.problem(text);
    if (!parts_.pictures.media.empty() && parts_.first_prompt.empty())
        view_.note("With the first prompt: " + parts_.pictures.remark);
    if (!parts_.first_prompt.empty()) console_.remember(parts_.first_prompt);
    if (conversation_.waits_for_answer()) {
        if (!parts_.first_prompt.empty())
            console_.hand_back(std::exchange(parts_.first_prompt, {}));
        work_->spawn(ask_open_questions());
    }
    if (!parts_.first_prompt.empty()) {
        Pending first;
        first.text = parts_.first_prompt;
        first.typed = std::move(parts_.first_prompt);
        first.trusted = false;
        // The model opens files itself.
        co_await attach_resources_to(first, Attachments());
        enter(std::move(first));
    }
    for (;;) {
        ConsoleInput input = co_await console_.next();
        switch (input.kind) {
            case ConsoleInput::Kind::end: parts_.leave(); co_return;
            case ConsoleInput::Kind::interrupt: on_interrupt(input.question); break;
            case ConsoleInput::Kind::pager:
                asked_to_leave_ = false;
                view_.open_pager();
                break;
            case ConsoleInput::Kind::editor:
                asked_to_leave_ = false;
                co_await edit_elsewhere();
                break;
            case ConsoleInput::Kind::mode:
                asked_to_leave_ = false;
                conversation_.next_mode();
                break;
            case ConsoleInput::Kind::rewind:
                asked_to_leave_ = false;
                start_rewind({});
                break;
            case ConsoleInput::Kind::line:
                asked_to_leave_ = false;
                co_await on_line(std::move(input));
                // Lines that are typed from now on are for the next session.
                if (leaving_) co_return;
                break;
        }
    }
}

/// Asks the first question of a suspended session. Its answer is a turn, after which the next one is asked.
Task<> CliChannel::ask_open_questions() {
    asking_.emplace();
    Task<std::optional<bub::Envelope>> question = conversation_.ask_open_question();
    Task<std::optional<bub::Envelope>> asking =
        cancel_on(asking_->get_token(), std::move(question));
    Outcome<std::optional<bub::Envelope>> answer = co_await outcome_of(std::move(asking));
    const bool interrupted = asking_->stop_requested();
    asking_.reset();
    if (interrupted) co_return co_await conversation_.show_open_questions();
    std::optional<bub::Envelope> message = std::move(answer).value();
    if (!message) co_return;
    message->inbound_id = parts_.new_id();
    message->lifespan =
        std::make_shared<Turn>(*this, bub::input_id_of(*message), Turn::Kind::command);
    co_await deliver(std::move(*message));
}

/// After a plan. The answer is a prompt of its own.
Task<> CliChannel::ask_to_carry_out() {
    asking_.emplace();
    Task<std::optional<std::string>> question = conversation_.ask_to_carry_out();
    Task<std::optional<std::string>> asking = cancel_on(asking_->get_token(), std::move(question));
    Outcome<std::optional<std::string>> answer = co_await outcome_of(std::move(asking));
    const bool interrupted = asking_->stop_requested();
    asking_.reset();
    if (interrupted) co_return;
    std::optional<std::string> prompt = std::move(answer).value();
    if (!prompt) co_return;
    Pending pending;
    pending.text = *prompt;
    pending.typed = std::move(*prompt);
    pending.trusted = false;
    enter(std::move(pending));
}

/// A side question, also while a turn runs.
Task<> CliChannel::ask_aside(std::string question) {
    aside_.emplace();
    Task<bool> asking = conversation_.ask_aside(std::move(question), [this] { return running_; });
    Task<bool> work = cancel_on(aside_->get_token(), std::move(asking));
    const Outcome<bool> done = co_await outcome_of(std::move(work));
    const bool interrupted = aside_->stop_requested();
    aside_.reset();
    if (interrupted) co_return view_.note("stopped.");
    if (!done) std::rethrow_exception(done.failure());
}

void CliChannel::on_interrupt(std::uint64_t question) {
    // A key for a question that has been answered since is not for the one that follows.
    if (question != 0 && console_.shown_question() != question) return;
    // The key is for the question on the screen: the turn, if there is one, continues.
    const std::shared_ptr<QuestionHost>& host = conversation_.plan().host;
    if (question != 0 && host && host->dismiss_background())
        return view_.note("Not answered: the sub-agent is told that you refused.");
    if (aside_ && !running_) return void(aside_->request_stop());
    if (asking_) {
        if (!asking_->stop_requested()) console_.withdraw();
        asking_->request_stop();
        return;
    }
    if (running_) {
        // The second interrupt does not wait for cleanup.
        if (std::exchange(stopping_, true)) {
            console_.close();
            out() << for_terminal(resume_hint(conversation_.plan())) << flush_now;
            std::_Exit(exit_aborted);
        }
        hand_back();
        work_->spawn(abort_turn());
        return;
    }
    if (std::exchange(asked_to_leave_, true)) return parts_.leave();
    view_.note("(Ctrl-C again leaves)");
}

Task<> CliChannel::abort_turn() { co_await parts_.abort(); }

Task<> CliChannel::on_line(ConsoleInput line) {
    std::string text = std::move(line.text);
    if (!is_utf8(text)) text = replace_broken_utf8(text);
    console_.remember(text);
    ChatInput input = read_chat_input(text, abilities());
    switch (input.kind) {
        case ChatInput::Kind::nothing: co_return;
        case ChatInput::Kind::refused: co_return view_.problem(input.text);
        case ChatInput::Kind::action:
            if (line.pasted && changes_permissions(input))
                co_return view_.problem("pasted text does not change what tools may do; type it");
            // An echo would interrupt the answer that is being shown.
            if (!running_ && input.action != ChatAction::quit) view_.echo(text);
            if (input.action == ChatAction::later)
                co_return enter_later(std::move(input.text), line);
            co_return co_await on_action(input.action, std::move(input.text));
        case ChatInput::Kind::prompt:
        case ChatInput::Kind::pipeline: break;
    }
    if (input.is_aside) {
        if (aside_) co_return view_.problem("a side question is being answered; Ctrl-C stops it");
        if (!running_) view_.echo(text);
        work_->spawn(ask_aside(std::move(input.text)));
        co_return;
    }
    if (only_changes_directory(text))
        view_.note(
            "A command has a shell of its own: cd ends with it. Another directory: !cd DIR && "
            "COMMAND, or cubepi -C DIR");
    Pending pending;
    pending.later = input.kind == ChatInput::Kind::pipeline;
    pending.text = std::move(input.text);
    pending.typed = std::move(text);
    pending.argument = std::move(input.argument);
    // The text of a template is never a command.
    pending.trusted = !pending.argument;
    pending.pasted = line.pasted;
    pending.has_paste = line.has_paste;
    // Pasted text may be of others, who must not name files or prompts.
    if (input.kind == ChatInput::Kind::prompt && !line.has_paste) {
        const bool is_filled_in = co_await fill_in_prompt(pending);
        if (pending.text.empty()) co_return;
        if (!is_filled_in) co_await attach_files_to(pending);
    }
    enter(std::move(pending));
}

/// Replaces the name of a prompt of an MCP server by its text; if that fails, shows why, and the text is empty. Returns false for
/// other texts.
Task<bool> CliChannel::fill_in_prompt(Pending& pending) {
    const std::shared_ptr<McpHub> servers = conversation_.plan().servers;
    std::optional<McpPromptInput> input = mcp_prompt_input(pending.typed);
    if (!servers || !input) co_return false;
    pending.text.clear();
    Task<std::string> filling = fill_in_mcp_prompt(servers, std::move(*input));
    Outcome<std::string> filled = co_await outcome_of(std::move(filling));
    if (filled.cancelled()) filled.rethrow();
    try {
        pending.text = std::move(filled).value();
    } catch (const Error& error) {
        view_.problem(error.what());
        console_.hand_back(pending.typed, pending.pasted, pending.has_paste);
    }
    pending.trusted = false;  // the server's words are never a command (B11)
    co_return true;
}

Task<> CliChannel::attach_files_to(Pending& pending) {
    // Of a template only the user's part names files.
    const std::string typed = pending.argument.value_or(pending.text);
    if (typed.find('@') == std::string::npos) co_return;
    auto work = [typed] { return attach_files(typed); };
    Attachments attached = co_await offload(*Runtime::standard()->workers, std::move(work));
    attached.text.erase(0, typed.size());
    co_await attach_resources_to(pending, std::move(attached));
}

/// Adds `attached`, whose text is without that of the prompt, and the resources that the prompt names.
Task<> CliChannel::attach_resources_to(Pending& pending, Attachments attached) {
    std::string typed = pending.argument.value_or(pending.text);
    Task<Attachments> reading =
        attach_mcp_resources(std::move(attached), std::move(typed), conversation_.plan().servers);
    attached = co_await std::move(reading);
    pending.text += attached.text;
    pending.media = std::move(attached.media);
    pending.remark = std::move(attached.remark);
}

void CliChannel::echo(const Pending& pending) {
    view_.echo(pending.typed, for_terminal(pending.remark));
}

Task<> CliChannel::on_action(ChatAction action, std::string argument) {
    switch (action) {
        case ChatAction::quit: co_return parts_.leave();
        case ChatAction::details: co_return view_.toggle_details();
        case ChatAction::stop:
            if (running_) on_interrupt(0);
            co_return;
        case ChatAction::new_session:
            if (running_ || !pending_.empty()) {
                co_return view_.problem("an answer is in progress; stop it with Esc before /new");
            }
            break;
        case ChatAction::resume: co_return co_await resume(std::move(argument));
        case ChatAction::pick_model: co_return co_await pick_model();
        case ChatAction::pick_effort: co_return co_await pick_effort();
        case ChatAction::theme: co_return co_await choose_theme(std::move(argument));
        case ChatAction::rewind: co_return start_rewind(std::move(argument));
        case ChatAction::undo:
        case ChatAction::redo:
        case ChatAction::fork:
            if (running_ || !pending_.empty())
                co_return view_.problem("an answer is in progress; stop it with Esc first");
            break;
        case ChatAction::diff:
        case ChatAction::rename:
        case ChatAction::context:
        case ChatAction::later:
        case ChatAction::help:
        case ChatAction::status:
        case ChatAction::permissions:
        case ChatAction::mode:
        case ChatAction::cost:
        case ChatAction::tasks:
        case ChatAction::servers:
        case ChatAction::copy:
        case ChatAction::export_file: break;
    }
    std::function<bool()> is_idle = [this] { return !running_ && pending_.empty(); };
    co_await conversation_.perform(action, std::move(argument), abilities(), std::move(is_idle));
}

void CliChannel::start_rewind(std::string argument) {
    if (asking_) return;
    if (running_ || !pending_.empty())
        return view_.problem("an answer is in progress; stop it with Esc first");
    work_->spawn(rewind(std::move(argument)));
}

/// Asks which prompt to return to; the keys that stop an answer end the question.
Task<> CliChannel::rewind(std::string argument) {
    asking_.emplace();
    Task<std::optional<RewindChoice>> choosing = conversation_.choose_rewind(std::move(argument));
    Task<std::optional<RewindChoice>> asking = cancel_on(asking_->get_token(), std::move(choosing));
    Outcome<std::optional<RewindChoice>> answer = co_await outcome_of(std::move(asking));
    const bool interrupted = asking_->stop_requested();
    asking_.reset();
    if (interrupted) co_return;
    const std::optional<RewindChoice> chosen = std::move(answer).value();
    if (!chosen) co_return;
    std::function<bool()> is_idle = [this] { return !running_ && pending_.empty(); };
    std::string prompt = co_await conversation_.rewind(*chosen, std::move(is_idle));
    // Its text may be that of a template, of a server or of a paste: it runs no command, and attaches no file.
    if (!prompt.empty()) console_.hand_back(prompt, true, true);
}

void CliChannel::show_failure(const std::exception_ptr& failure) {
    if (is_cancellation(failure)) std::rethrow_exception(failure);
    conversation_.report(failure);
}

void CliChannel::enter_later(std::string argument, const ConsoleInput& line) {
    ChatInput input = read_chat_input(argument, abilities());
    const bool is_command = input.kind == ChatInput::Kind::pipeline;
    if (!is_command && input.kind != ChatInput::Kind::prompt)
        return view_.problem("/later takes a prompt or a comma command");
    Pending pending;
    pending.later = true;
    pending.text = std::move(input.text);
    pending.typed = std::move(argument);
    pending.entered = "/later " + pending.typed;
    pending.pasted = line.pasted;
    pending.has_paste = line.has_paste;
    enter(std::move(pending));
}

/// The pictures of the command line go with the first prompt, typed or not.
void CliChannel::add_pictures(Pending& pending) {
    pending.pictures = std::exchange(parts_.pictures, {});
    const Attachments& pictures = *pending.pictures;
    pending.media.insert(pending.media.end(), pictures.media.begin(), pictures.media.end());
    pending.remark += (pending.remark.empty() ? "" : ", ") + pictures.remark;
}

void CliChannel::enter(Pending pending) {
    bub::Envelope message = conversation_.pipeline().message(pending.text, pending.trusted);
    // Inputs are told apart by their ids: two of them may have the same text.
    message.inbound_id = parts_.new_id();
    pending.id = bub::input_id_of(message);
    pending.later = pending.later && running_;
    // An echo would interrupt the answer that is being shown; it follows when the turn accepts the input.
    pending.echoed = !running_;
    const bool is_command = pending.trusted && pending.text.starts_with(',');
    if (!is_command && !parts_.pictures.media.empty()) add_pictures(pending);
    if (!running_) echo(pending);
    message.media = std::move(pending.media);
    const Turn::Kind kind = is_command ? Turn::Kind::command : Turn::Kind::prompt;
    message.lifespan = std::make_shared<Turn>(*this, pending.id, kind);
    if (pending.later) message.rest[later_key] = true;
    if (pending.pasted) message.rest[bub::pasted_key] = true;
    pending_.push_back(std::move(pending));
    show_waiting();
    work_->spawn(deliver(std::move(message)));
}

Task<> CliChannel::deliver(bub::Envelope message) {
    const std::string id = bub::input_id_of(message);
    const Outcome<> accepted = co_await outcome_of(parts_.handler(std::move(message)));
    if (accepted) co_return;
    // Rejected, of which the manager has notified the user, or dropped because the user stopped everything.
    for (Pending& one : pending_) {
        if (one.id == id && one.pictures) parts_.pictures = std::move(*one.pictures);
    }
    std::erase_if(pending_, [&](const Pending& one) { return one.id == id; });
    show_waiting();
    const auto state = co_await this_cancellation;
    if (state.cancelled() != boost::asio::cancellation_type::none) accepted.rethrow();
}

Task<std::optional<bub::AdmitDecision>> CliChannel::admit_message(std::string,
                                                                  const bub::Envelope& message,
                                                                  bub::TurnSnapshot turn) {
    bub::AdmitDecision decision;
    if (turn.is_running) {
        decision.action = message.rest.contains(later_key) ? bub::AdmitAction::follow_up
                                                           : bub::AdmitAction::steer;
    }
    co_return decision;
}

void CliChannel::on_turn_begun(const std::string& id, bool is_command) {
    running_ = true;
    stopping_ = false;
    explained_ = false;
    has_shown_ = false;
    const auto found = std::find_if(pending_.begin(), pending_.end(),
                                    [&](const Pending& one) { return one.id == id; });
    begun_ = found == pending_.end() ? Pending() : *found;
    on_accepted(id);
    conversation_.begin_turn();
    if (is_command) view_.wait_for_command();
    show_waiting();
}

void CliChannel::on_turn_over(const std::exception_ptr& error, bool is_prompt) {
    const bool completed = !error && !explained_ && !stopping_;
    conversation_.end_turn(error);
    explained_ = error != nullptr;
    running_ = false;
    if (is_prompt && was_refused(error)) hand_back(begun_);
    if (std::exchange(suspended_, false)) {
        work_->spawn(ask_open_questions());
    } else if (is_prompt && completed && pending_.empty() && !asking_) {
        work_->spawn(ask_to_carry_out());
    }
}

/// Another turn was faster, and has the results.
void CliChannel::on_silent_turn_over() {
    view_.end_turn();
    running_ = false;
}

void CliChannel::receive_results(bub::Envelope message) {
    if (!work_) return;
    message.inbound_id = parts_.new_id();
    message.lifespan =
        std::make_shared<Turn>(*this, bub::input_id_of(message), Turn::Kind::results);
    work_->spawn(deliver(std::move(message)));
}

Task<> CliChannel::send(bub::Envelope message) {
    // The answer of a turn was shown while it streamed, and with it how it ended.
    if (message.rest.contains(bub::finish_key)) co_return;
    if (message.kind == bub::envelope_kind::error && !std::exchange(explained_, false))
        view_.problem(message.content_text());
    co_return;
}

bub::EventStream CliChannel::stream_events(const bub::Envelope& message, bub::EventStream stream) {
    return bub::EventStream::map(std::move(stream), [this, &message](bub::StreamEvent event) {
        show(event, message);
        return std::optional<bub::StreamEvent>(std::move(event));
    });
}

void CliChannel::show(const bub::StreamEvent& event, const bub::Envelope& message) {
    has_shown_ = true;
    conversation_.show(event, message);
    if (!event.agent_event) {
        if (event.kind == bub::event_kind::error) explained_ = true;
        if (event.kind == bub::event_kind::suspended) suspended_ = !event.data.contains("unread");
        // It does not wait any more.
        if (const Json* refused = event.data.if_contains(bub::refused_input_key))
            on_accepted(std::string(refused->as_string()));
        return;
    }
    const auto* ended = event.agent_event->get_if<MessageEndEvent>();
    if (ended && ended->message.role() == Role::user) on_accepted(ended->message.id());
}

void CliChannel::on_accepted(const std::string& id) {
    const auto found = std::find_if(pending_.begin(), pending_.end(),
                                    [&](const Pending& one) { return one.id == id; });
    if (found == pending_.end()) return;
    if (!found->echoed) echo(*found);
    pending_.erase(found);
    show_waiting();
}

void CliChannel::hand_back(Pending& pending) {
    if (pending.pictures) parts_.pictures = std::move(*pending.pictures);
    console_.hand_back(pending.entered.empty() ? pending.typed : pending.entered, pending.pasted,
                       pending.has_paste);
}

void CliChannel::hand_back() {
    std::deque<Pending> all = std::exchange(pending_, {});
    for (Pending& one : all) hand_back(one);
    show_waiting();
}

void CliChannel::show_waiting() {
    std::vector<std::string> texts;
    for (const Pending& one : pending_) {
        if (running_) texts.push_back((one.later ? "later: " : "") + one.typed);
    }
    view_.set_waiting(std::move(texts));
}

}  // namespace cubepi::app
