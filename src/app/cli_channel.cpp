#include "cli_channel.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <bub/input_id.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/net/utf8.hpp>

#include "exit_code.hpp"
#include "failure.hpp"

namespace cubepi::app {

namespace {

constexpr std::string_view later_key = "later";

constexpr const char* help_text =
    "  /later TEXT  say it when the answer is there; what is entered without it steers the answer\n"
    "  /details     show tool results in full, or fold them (Ctrl-O)\n"
    "  /stop        stop the answer (Esc, Ctrl-C)\n"
    "  /quit        leave (Ctrl-D; at the empty prompt Ctrl-C twice)\n"
    "  /help        this\n"
    "  ,help        commands of the pipeline: tools, tape, model\n"
    "  Alt-Enter begins another line, Tab completes commands and file names, Ctrl-R searches the "
    "history.\n"
    "  A pasted block is one input. Tools that write, run commands or use the network ask first.\n";

}  // namespace

/// Goes with each message: the turn that answers it opens and closes it.
class CliChannel::Turn final : public bub::Lifespan {
public:
    Turn(CliChannel& channel, std::string id) : channel_(channel), id_(std::move(id)) {}
    Task<> open() override {
        channel_.on_turn_begun(id_);
        co_return;
    }
    Task<> close(std::exception_ptr error) override {
        channel_.on_turn_over(error);
        co_return;
    }

private:
    CliChannel& channel_;
    std::string id_;
};

CliChannel::CliChannel(Parts parts)
    : parts_(std::move(parts)), console_(*parts_.console), view_(*parts_.view) {
    console_.set_commands({{"/later ", "say TEXT when the answer is there"},
                           {"/details", "show tool results in full, or fold them"},
                           {"/stop", "stop the answer"},
                           {"/help", "keys and commands"},
                           {"/quit", "leave"},
                           {",help", "commands of the pipeline, all of them"},
                           {",model model_id=", "another model from here on"},
                           {",tape_info", "how long the conversation is"},
                           {",tape_search query=", "find what was said"},
                           {",tape_reset", "forget this conversation"}});
}

CliChannel::~CliChannel() = default;

Task<> CliChannel::start(std::stop_token) {
    const Executor executor = co_await this_executor;
    work_ = std::make_unique<BackgroundScope>(executor, [this](std::exception_ptr failure) {
        view_.problem(parts_.explain(failure));
        parts_.leave();
    });
    work_->spawn(listen());
}

Task<> CliChannel::stop() {
    if (work_) co_await work_->close();
}

Task<> CliChannel::listen() {
    if (!parts_.first_prompt.empty()) {
        console_.remember(parts_.first_prompt);
        enter(std::move(parts_.first_prompt), false, false);
    }
    for (;;) {
        ConsoleInput input = co_await console_.next();
        switch (input.kind) {
            case ConsoleInput::Kind::end: parts_.leave(); co_return;
            case ConsoleInput::Kind::interrupt: on_interrupt(); break;
            case ConsoleInput::Kind::unfold:
                asked_to_leave_ = false;
                view_.toggle_details();
                break;
            case ConsoleInput::Kind::line:
                asked_to_leave_ = false;
                on_line(std::move(input.text));
                break;
        }
    }
}

void CliChannel::on_interrupt() {
    if (running_) {
        // The second one does not wait for anybody's clean-up.
        if (std::exchange(stopping_, true)) {
            console_.close();
            std::_Exit(exit_aborted);
        }
        give_back();
        work_->spawn(abort_turn());
        return;
    }
    if (std::exchange(asked_to_leave_, true)) return parts_.leave();
    view_.note("(Ctrl-C again leaves)");
}

Task<> CliChannel::abort_turn() { co_await parts_.abort(); }

void CliChannel::on_line(std::string text) {
    if (!is_utf8(text)) text = replace_broken_utf8(text);
    console_.remember(text);
    if (text.starts_with('/') && text.find('\n') == std::string::npos) {
        const std::size_t end = text.find(' ');
        const std::string rest = end == std::string::npos ? "" : text.substr(end + 1);
        if (on_command(text.substr(0, end), rest)) return;
    }
    enter(std::move(text), false);
}

/// False: it is none, but something to say (a path, for example).
bool CliChannel::on_command(const std::string& command, const std::string& rest) {
    if (command == "/quit" || command == "/exit") {
        parts_.leave();
    } else if (command == "/help") {
        console_.print(help_text);
    } else if (command == "/details") {
        view_.toggle_details();
    } else if (command == "/stop") {
        if (running_) on_interrupt();
    } else if (command == "/later") {
        if (!rest.empty()) enter(rest, true);
    } else {
        return false;
    }
    return true;
}

void CliChannel::enter(std::string text, bool later, bool typed) {
    const bool waits = running_ && (later || text.starts_with(','));
    bub::Envelope message = parts_.message(text);
    message.from_operator = message.from_operator && typed;
    // Inputs are told apart by their ids: two of them may have the same text.
    message.inbound_id = parts_.new_id();
    Unheard unheard;
    unheard.id = bub::input_id_of(message);
    unheard.text = std::move(text);
    unheard.later = waits;
    // In the middle of an answer it would tear the answer apart: it is shown where it is heard.
    unheard.echoed = !running_;
    if (!running_) view_.echo(unheard.text);
    message.lifespan = std::make_shared<Turn>(*this, unheard.id);
    unheard_.push_back(std::move(unheard));
    show_waiting();
    if (waits) message.rest[later_key] = true;
    work_->spawn(deliver(std::move(message)));
}

Task<> CliChannel::deliver(bub::Envelope message) {
    const std::string id = bub::input_id_of(message);
    std::exception_ptr failure;
    try {
        co_await parts_.handler(std::move(message));
    } catch (...) {
        failure = std::current_exception();
    }
    if (!failure) co_return;
    // Refused, which somebody has said, or dropped because the person stopped everything.
    std::erase_if(unheard_, [&](const Unheard& one) { return one.id == id; });
    show_waiting();
    const auto state = co_await this_cancellation;
    if (state.cancelled() != boost::asio::cancellation_type::none) std::rethrow_exception(failure);
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

void CliChannel::on_turn_begun(const std::string& id) {
    running_ = true;
    stopping_ = false;
    explained_ = false;
    heard(id);
    view_.begin_turn();
    show_waiting();
}

void CliChannel::on_turn_over(const std::exception_ptr& error) {
    view_.end_turn();
    if (error && is_cancellation(error)) {
        view_.note("stopped.");
    } else if (error) {
        view_.problem("cubepi: " + parts_.explain(error));
    }
    explained_ = error != nullptr;
    console_.print("\n");
    running_ = false;
}

Task<> CliChannel::send(bub::Envelope message) {
    // What a turn says was shown as it came.
    if (message.kind == bub::envelope_kind::error && !std::exchange(explained_, false))
        view_.problem(message.content_text());
    co_return;
}

bub::EventStream CliChannel::stream_events(const bub::Envelope& message, bub::EventStream stream) {
    const bool command = message.kind == bub::envelope_kind::command;
    return bub::EventStream::map(std::move(stream), [this, command](bub::StreamEvent event) {
        show(event, command);
        if (parts_.shown) parts_.shown(event);
        return std::optional<bub::StreamEvent>(std::move(event));
    });
}

void CliChannel::show(const bub::StreamEvent& event, bool command) {
    if (event.agent_event) {
        view_.on_event(*event.agent_event);
        const auto* ended = event.agent_event->get_if<MessageEndEvent>();
        if (ended && ended->message.role() == Role::user) heard(ended->message.id());
        return;
    }
    if (event.kind == bub::event_kind::error) {
        view_.problem(explain_event(event.data));
        explained_ = true;
        return;
    }
    if (event.kind != bub::event_kind::text) return;
    const std::string_view delta = event.delta();
    // Steps of a turn are apart on the screen anyhow.
    if (delta.find_first_not_of(" \n") == std::string_view::npos) return;
    if (!command) return view_.add_text(delta);
    console_.print(printable(delta));
    console_.end_line();
}

void CliChannel::heard(const std::string& id) {
    const auto found = std::find_if(unheard_.begin(), unheard_.end(),
                                    [&](const Unheard& one) { return one.id == id; });
    if (found == unheard_.end()) return;
    if (!found->echoed) view_.echo(found->text);
    unheard_.erase(found);
    show_waiting();
}

void CliChannel::give_back() {
    std::string texts;
    for (const Unheard& one : std::exchange(unheard_, {}))
        texts += (texts.empty() ? "" : "\n") + one.text;
    show_waiting();
    if (!texts.empty()) console_.give_back(texts);
}

void CliChannel::show_waiting() {
    std::vector<std::string> texts;
    for (const Unheard& one : unheard_) {
        if (running_) texts.push_back((one.later ? "later: " : "") + one.text);
    }
    view_.set_waiting(std::move(texts));
}

}  // namespace cubepi::app
