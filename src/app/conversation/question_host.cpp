#include "question_host.hpp"

#include <algorithm>
#include <cctype>
#include <exception>
#include <utility>
#include <vector>

#include <bub/questions.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/error_code_of.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/core/task_scope.hpp>

#include "../process.hpp"
#include "../terminal/text_layout.hpp"

namespace cubepi::app {

namespace {

// A plugin may leave events out of the stream, so that they are never shown.
constexpr std::chrono::seconds display_timeout(1);

bool equal_ignoring_case(std::string_view left, std::string_view right) {
    const auto equal = [](unsigned char a, unsigned char b) {
        return std::tolower(a) == std::tolower(b);
    };
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), equal);
}

/// The value of the option with this number, label or value.
std::optional<std::string> option_named(const std::vector<HitlOption>& options,
                                        std::string_view text) {
    const std::size_t number = detail::parsed_number<std::size_t>(text).value_or(0);
    if (number >= 1 && number <= options.size()) return options[number - 1].value;
    for (const HitlOption& option : options) {
        if (equal_ignoring_case(option.label, text) || equal_ignoring_case(option.value, text))
            return option.value;
    }
    return std::nullopt;
}

bool allows_input(const std::vector<HitlOption>& options) {
    return std::any_of(options.begin(), options.end(),
                       [](const HitlOption& option) { return option.allow_input; });
}

TypedAnswer not_an_option(std::string_view text, const std::vector<HitlOption>& options) {
    constexpr std::size_t shown_width = 40;
    return {nullptr, "'" + one_line(text, shown_width) +
                         "' is not an option; enter a number from 1 to " +
                         std::to_string(options.size()) + ", or the text of an option"};
}

TypedAnswer choice(const std::vector<HitlOption>& options, std::string_view text) {
    if (std::optional<std::string> value = option_named(options, text)) return {Json(*value), {}};
    if (allows_input(options)) return {Json(text), {}};
    return not_an_option(text, options);
}

TypedAnswer choices(const std::vector<HitlOption>& options, std::string_view text) {
    JsonArray values;
    while (!text.empty()) {
        const std::size_t comma = std::min(text.find(','), text.size());
        const std::string_view one = detail::trimmed(text.substr(0, comma));
        text.remove_prefix(std::min(comma + 1, text.size()));
        if (one.empty()) continue;
        TypedAnswer chosen = choice(options, one);
        if (!chosen.problem.empty()) return chosen;
        if (std::find(values.begin(), values.end(), chosen.value) == values.end())
            values.push_back(std::move(chosen.value));
    }
    return {Json(std::move(values)), {}};
}

TerminalText prompt_of(const HitlQuestion& question) {
    TerminalText prompt("  ");
    if (!question.options || question.options->empty()) {
        prompt += "answer";
    } else {
        prompt += question.multi_select ? TerminalView("numbers, separated by commas")
                                        : TerminalView("number");
        if (allows_input(*question.options)) prompt += ", or your own answer";
    }
    if (!question.required) prompt += " (Enter skips)";
    return prompt + " > ";
}

/// A request of an older version has no id of its own.
const std::string& name_of(const HitlRequest& request) {
    return request.request_id.empty() ? request.question_id : request.request_id;
}

bool is_pending(const HitlChannel& channel, const std::string& name) {
    const std::vector<HitlRequest> waiting = channel.pending();
    return std::any_of(waiting.begin(), waiting.end(),
                       [&](const HitlRequest& request) { return name_of(request) == name; });
}

/// Returns who asks: the model, or a sub-agent with the path of agents to it.
std::string asker_of(const HitlRequest& request) {
    const std::string agents = bub::asking_agents(request);
    return agents.empty() ? "The model" : "The sub-agent " + agents;
}

AnswerOrigin local_origin() {
    AnswerOrigin origin;
    origin.channel = "terminal";
    origin.user = local_user();
    return origin;
}

bool is_stale(const std::exception_ptr& failure) {
    return detail::error_code_of(failure) == ErrorCode::stale_answer;
}

}  // namespace

TurnPrompter::TurnPrompter(std::shared_ptr<Prompter> prompter, Clock& clock, Executor executor,
                           std::function<void()> before_question, OnAccepted on_accepted)
    : prompter_(std::move(prompter)),
      clock_(clock),
      executor_(std::move(executor)),
      before_question_(std::move(before_question)),
      on_accepted_(std::move(on_accepted)) {}

TurnPrompter::~TurnPrompter() = default;

void TurnPrompter::emitted(const AgentEvent& event) { emitted_ = {event.run, event.seq}; }

void TurnPrompter::shown(const AgentEvent& event) {
    shown_ = {event.run, event.seq};
    progress_.pulse();
}

bool TurnPrompter::has_shown(const Position& position) const {
    return shown_.run == position.run && shown_.seq >= position.seq;
}

Task<> TurnPrompter::prepare() {
    const Position wanted = emitted_;
    bool expired = false;
    const std::unique_ptr<ClockTimer> timer = clock_.timer(executor_);
    timer->expires_after(display_timeout, [this, &expired] {
        expired = true;
        progress_.pulse();
    });
    std::exception_ptr failure;
    try {
        while (!expired && !has_shown(wanted)) co_await progress_.wait();
    } catch (...) {
        failure = std::current_exception();
    }
    timer->cancel();
    if (failure) std::rethrow_exception(failure);
    before_question_();
}

std::chrono::steady_clock::duration TurnPrompter::waited() const {
    return open_ == 0 ? waited_ : waited_ + (clock_.now() - open_since_);
}

template <class Answer>
Task<Answer> TurnPrompter::measured(Task<Answer> question) {
    if (open_++ == 0) open_since_ = clock_.now();
    Outcome<Answer> answer = co_await outcome_of(std::move(question));
    if (--open_ == 0) waited_ += clock_.now() - open_since_;
    co_return std::move(answer).value();
}

Task<std::optional<std::string>> TurnPrompter::read(TerminalText prompt, std::string prefill) {
    return measured(prompter_->read(std::move(prompt), std::move(prefill)));
}

Task<std::optional<std::string>> TurnPrompter::edit(TerminalText prompt, std::string text) {
    return measured(prompter_->edit(std::move(prompt), std::move(text)));
}

Task<std::optional<Chosen>> TurnPrompter::choose(Choices choices) {
    return measured(prompter_->choose(std::move(choices)));
}

Task<std::optional<std::size_t>> TurnPrompter::pick(PickList list) {
    return measured(prompter_->pick(std::move(list)));
}

TypedAnswer read_typed_answer(const HitlQuestion& question, std::string_view text) {
    text = detail::trimmed(text);
    if (text.empty()) {
        if (!question.required) return {};
        return {nullptr, "this question needs an answer; Ctrl-C stops the turn"};
    }
    const bool free = !question.options || question.options->empty();
    if (!free && !question.multi_select) return choice(*question.options, text);
    if (!free) return choices(*question.options, text);
    return {Json(text), {}};
}

void AskDialog::show_title(TerminalView title, std::string_view text) const {
    prompter_.print(style_.yellow() + "? " + style_.off() + title + "\n");
    prompter_.print(framed(text, prompter_.size().columns));
}

void AskDialog::show(const HitlQuestion& question) const {
    show_title(spelled_out(asker_) + " asks:", question.prompt);
    if (!question.options) return;
    std::vector<TerminalText> rows;
    for (std::size_t i = 0; i < question.options->size(); ++i) {
        const HitlOption& option = (*question.options)[i];
        TerminalText line = TerminalText::number(i + 1) + "  " + spelled_out(option.label);
        if (option.description)
            line += "  " + style_.dim() + spelled_out(*option.description) + style_.off();
        add_framed(rows, line, prompter_.size().columns);
    }
    for (const TerminalText& row : rows) prompter_.print(row + "\n");
}

Task<std::optional<Json>> AskDialog::ask_one(const HitlQuestion& question) {
    show(question);
    std::optional<Json> result;
    for (;;) {
        TerminalText prompt = prompt_of(question);
        const std::optional<std::string> text = co_await prompter_.read(std::move(prompt));
        if (!text) co_return result;
        TypedAnswer answer = read_typed_answer(question, *text);
        if (answer.problem.empty()) {
            result = std::move(answer.value);
            co_return result;
        }
        const std::size_t columns = std::max<std::size_t>(prompter_.size().columns, 20);
        prompter_.print(framed(wrapped(answer.problem, columns - 4), columns, Frame{"  ", "  "}));
    }
}

Task<std::optional<JsonObject>> AskDialog::ask(AskRequest request, std::string asker) {
    asker_ = std::move(asker);
    co_await prompter_.prepare();
    std::optional<JsonObject> answers(std::in_place);
    for (const HitlQuestion& question : request.questions) {
        std::optional<Json> answer = co_await ask_one(question);
        if (!answer) {
            answers.reset();
            co_return answers;
        }
        if (!answer->is_null()) (*answers)[question.key] = std::move(*answer);
    }
    co_return answers;
}

Task<std::optional<bool>> AskDialog::confirm(ConfirmRequest request) {
    co_await prompter_.prepare();
    show_title("Please confirm:", request.prompt);
    std::optional<bool> result;
    for (;;) {
        Choices choices;
        choices.all = yes_and_no();
        Choices asked = choices;
        const std::optional<Chosen> chosen = co_await prompter_.choose(std::move(asked));
        if (!chosen) co_return result;
        if (chosen->key == 'y') result = true;
        if (chosen->key == 'n') result = false;
        if (result) co_return result;
        const TerminalText hint = choices.hint();
        prompter_.print("  " + hint + "\n");
    }
}

QuestionHost::QuestionHost(std::shared_ptr<HitlChannel> channel, std::shared_ptr<Prompter> prompter,
                           Style style, std::shared_ptr<ToolApproval> approval,
                           ApprovalDialog::SaveRule save_rule)
    : channel_(std::move(channel)),
      prompter_(std::move(prompter)),
      approval_(std::move(approval)),
      approvals_(*prompter_, style, *approval_, std::move(save_rule)),
      questions_(*prompter_, style) {}

Task<> QuestionHost::run() {
    std::vector<Task<>> channels;
    channels.push_back(serve_channel(channel_));
    if (background_) channels.push_back(serve_channel(background_));
    co_await when_all(std::move(channels));
}

Task<> QuestionHost::serve_channel(std::shared_ptr<HitlChannel> channel) {
    HitlRequestStream requests = channel->subscribe();
    std::vector<HitlRequest> waiting = channel->pending();
    for (HitlRequest& request : waiting) co_await serve(channel, std::move(request));
    for (;;) {
        std::optional<HitlRequest> request = co_await requests.next();
        if (!request) co_return;
        co_await serve(channel, std::move(*request));
    }
}

void QuestionHost::refresh() {
    if (open_.empty() || withdrawal_.stop_requested() || is_pending(*open_channel_, open_)) return;
    prompter_->withdraw();
    withdrawal_.request_stop();
}

bool QuestionHost::dismiss_background() {
    if (open_.empty() || !background_ || open_channel_ != background_) return false;
    if (withdrawal_.stop_requested()) return dismissed_;
    dismissed_ = true;
    withdrawal_.request_stop();
    return true;
}

Task<> QuestionHost::begin_question() {
    while (asking_) co_await asked_.wait();
    asking_ = true;
}

void QuestionHost::end_question() {
    asking_ = false;
    asked_.pulse();
}

Task<> QuestionHost::serve(std::shared_ptr<HitlChannel> channel, HitlRequest request) {
    co_await begin_question();
    Task<> serving = serve_now(std::move(channel), std::move(request));
    const Outcome<> served = co_await outcome_of(std::move(serving));
    end_question();
    served.rethrow();
}

Task<> QuestionHost::serve_now(std::shared_ptr<HitlChannel> channel, HitlRequest request) {
    if (!is_pending(*channel, name_of(request))) co_return;
    open_ = name_of(request);
    open_channel_ = channel;
    withdrawal_ = std::stop_source();
    dismissed_ = false;
    const bool approves = std::holds_alternative<ApproveRequest>(request.payload);
    Task<> answering = ask_and_answer(channel, std::move(request));
    Outcome<> outcome =
        co_await outcome_of(cancel_on(withdrawal_.get_token(), std::move(answering)));
    const std::string id = std::exchange(open_, {});
    if (!outcome && dismissed_ && is_pending(*channel, id)) {
        Task<> refusing = refuse(std::move(channel), id, approves, "the user refuses to answer");
        const Outcome<> refused = co_await outcome_of(std::move(refusing));
        if (!refused && !is_stale(refused.failure())) refused.rethrow();
        co_return;
    }
    if (outcome || withdrawal_.stop_requested()) co_return;
    if (outcome.cancelled()) outcome.rethrow();
    if (is_stale(outcome.failure()) || !is_pending(*channel, id)) co_return;
    co_await channel->cancel(id, bub::describe(outcome.failure()));
}

Task<> QuestionHost::ask_and_answer(std::shared_ptr<HitlChannel> channel, HitlRequest request) {
    const std::string id = name_of(request);
    const bool approves = std::holds_alternative<ApproveRequest>(request.payload);
    Json answer = co_await ask_now(std::move(request));
    if (answer.is_null()) {
        Task<> refusing = refuse(std::move(channel), id, approves, "the input has ended");
        co_return co_await std::move(refusing);
    }
    AnswerOrigin origin = local_origin();
    co_await channel->answer(id, std::move(answer), std::move(origin));
}

/// Ends a request without an answer: a call is refused.
Task<> QuestionHost::refuse(std::shared_ptr<HitlChannel> channel, std::string id, bool approves,
                            std::string reason) {
    if (!approves) {
        Task<> cancelling = channel->cancel(std::move(id), std::move(reason));
        co_return co_await std::move(cancelling);
    }
    Json denial = to_json(ApproveAnswer::deny("Refused: " + reason + "."));
    AnswerOrigin origin = local_origin();
    co_await channel->answer(std::move(id), std::move(denial), std::move(origin));
}

Task<Json> QuestionHost::ask(HitlRequest request) {
    co_await begin_question();
    Outcome<Json> answer = co_await outcome_of(ask_now(std::move(request)));
    end_question();
    co_return std::move(answer).value();
}

Task<Json> QuestionHost::ask_now(HitlRequest request) {
    Json answer;
    if (auto* questions = std::get_if<AskRequest>(&request.payload)) {
        std::string asker = asker_of(request);
        std::optional<JsonObject> answers =
            co_await questions_.ask(std::move(*questions), std::move(asker));
        if (answers) answer = std::move(*answers);
    } else if (auto* question = std::get_if<ConfirmRequest>(&request.payload)) {
        const std::optional<bool> confirmed = co_await questions_.confirm(std::move(*question));
        if (confirmed) answer = *confirmed;
    } else {
        const std::optional<ApproveAnswer> decision = co_await approvals_.ask(std::move(request));
        if (decision) answer = to_json(*decision);
    }
    co_return answer;
}

}  // namespace cubepi::app
