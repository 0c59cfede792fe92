#include <cubepi/agent/hitl_channel.hpp>

#include <algorithm>
#include <deque>
#include <utility>

#include <cubepi/core/number_text.hpp>
#include <cubepi/core/thread_queue.hpp>
#include <cubepi/schema/issue.hpp>
#include <cubepi/schema/validate.hpp>

namespace cubepi {

namespace {

[[noreturn]] void reject(const std::string& question_id, const std::string& problem) {
    throw Error(ErrorCode::bad_answer, "the answer to '" + question_id + "' was rejected: " +
                                           problem + "; the request stays open");
}

/// Checks the answers to the questions of one request.
class AskCheck {
public:
    AskCheck(std::string question_id, const AskRequest& request)
        : id_(std::move(question_id)), questions_(request.questions) {}

    void check(const Json& answer) const {
        if (!answer.is_object())
            reject(id_, "expected an object with an answer for each question key");
        const JsonObject& given = answer.get_object();
        for (const auto& [key, value] : given) check_one(question(key), value);
        for (const HitlQuestion& one : questions_) {
            if (one.required && !given.contains(one.key))
                reject(id_, "'" + one.key + "' is required");
        }
    }

private:
    const HitlQuestion& question(std::string_view key) const {
        const auto found = std::find_if(questions_.begin(), questions_.end(),
                                        [key](const HitlQuestion& one) { return one.key == key; });
        if (found == questions_.end())
            reject(id_, "'" + std::string(key) + "' is not the key of a question; the keys are " +
                            keys());
        return *found;
    }

    void check_one(const HitlQuestion& question, const Json& value) const {
        if (value.is_string()) {
            check_text(question, value.get_string());
            return;
        }
        if (!question.multi_select) reject(id_, "'" + question.key + "' must be a text");
        if (!value.is_array()) reject(id_, "'" + question.key + "' must be a list of texts");
        for (const Json& item : value.get_array()) {
            if (!item.is_string()) reject(id_, "'" + question.key + "' must be a list of texts");
            check_text(question, item.get_string());
        }
    }

    void check_text(const HitlQuestion& question, std::string_view text) const {
        if (!question.options || question.options->empty()) return;
        std::string values;
        for (const HitlOption& option : *question.options) {
            if (option.allow_input || option.value == text) return;
            values += (values.empty() ? "" : ", ") + option.value;
        }
        reject(id_, "'" + question.key + "' must be one of: " + values);
    }

    std::string keys() const {
        std::string all;
        for (const HitlQuestion& one : questions_)
            all += (all.empty() ? "'" : ", '") + one.key + "'";
        return all;
    }

    const std::string id_;
    const std::vector<HitlQuestion>& questions_;
};

/// Fills in the defaults of edited arguments and validates them against the schema of the request, if it has one.
void check_edit(const HitlRequest& request, const ApproveRequest& call, Json& args) {
    const Json* schema = request.extra.if_contains("input_schema");
    if (!schema || !schema->is_object()) return;
    const std::vector<SchemaIssue> issues = JsonSchema(*schema).validate(args);
    if (!issues.empty()) reject(request.question_id, format_issues(call.tool_name, issues));
}

Json checked(const HitlRequest& request, const ConfirmRequest&, Json answer) {
    if (!answer.is_bool()) reject(request.question_id, "expected true or false");
    return answer;
}

Json checked(const HitlRequest& request, const ApproveRequest& call, Json answer) {
    const std::string& id = request.question_id;
    if (!answer.is_object()) reject(id, "expected an object with 'decision'");
    JsonObject& object = answer.get_object();
    const Json* decision = object.if_contains("decision");
    if (!decision || (*decision != "approve" && *decision != "deny" && *decision != "edit"))
        reject(id, "'decision' must be \"approve\", \"deny\" or \"edit\"");
    const Json* reason = object.if_contains("reason");
    if (reason && !reason->is_null() && !reason->is_string()) reject(id, "'reason' must be a text");
    Json* args = object.if_contains("edited_args");
    const bool has_args = args && !args->is_null();
    if (*decision != "edit") {
        if (has_args) reject(id, "'edited_args' requires the decision \"edit\"");
    } else {
        if (!has_args || !args->is_object()) reject(id, "'edited_args' must be an object");
        check_edit(request, call, *args);
    }
    return Json(to_json(approve_answer_from_json(answer)));
}

Json checked(const HitlRequest& request, const AskRequest& ask, Json answer) {
    AskCheck(request.question_id, ask).check(answer);
    return answer;
}

}  // namespace

HitlTimedOut::HitlTimedOut(std::chrono::nanoseconds limit)
    : HitlError(ErrorCode::hitl, "no answer within " + seconds_text(limit)), limit_(limit) {}

std::string_view to_string(ApproveDecision decision) noexcept {
    switch (decision) {
        case ApproveDecision::approve: return "approve";
        case ApproveDecision::deny: return "deny";
        case ApproveDecision::edit: return "edit";
    }
    return "deny";
}

ApproveAnswer ApproveAnswer::deny(std::string reason) {
    ApproveAnswer answer;
    answer.decision = ApproveDecision::deny;
    if (!reason.empty()) answer.reason = std::move(reason);
    return answer;
}

ApproveAnswer ApproveAnswer::edit(JsonObject args) {
    ApproveAnswer answer;
    answer.decision = ApproveDecision::edit;
    answer.edited_args = std::move(args);
    return answer;
}

JsonObject to_json(const ApproveAnswer& answer) {
    JsonObject json{{"decision", std::string(to_string(answer.decision))}};
    if (answer.edited_args) json["edited_args"] = *answer.edited_args;
    if (answer.reason) json["reason"] = *answer.reason;
    return json;
}

ApproveAnswer approve_answer_from_json(const Json& answer) {
    const JsonObject& object = answer.as_object();
    const Json& decision = object.at("decision");
    ApproveAnswer result;
    result.decision = decision == "approve" ? ApproveDecision::approve
                      : decision == "edit"  ? ApproveDecision::edit
                                            : ApproveDecision::deny;
    if (const Json* args = object.if_contains("edited_args"); args && args->is_object())
        result.edited_args = args->get_object();
    if (const Json* reason = object.if_contains("reason"); reason && reason->is_string())
        result.reason = std::string(reason->get_string());
    return result;
}

Json check_answer(const HitlRequest& request, Json answer) {
    return std::visit(
        [&](const auto& payload) { return checked(request, payload, std::move(answer)); },
        request.payload);
}

struct HitlRequestStream::State {
    std::mutex mutex;
    std::deque<HitlRequest> requests;
    bool ended = false;
    detail::ThreadSignal changed;
};

HitlRequestStream::HitlRequestStream(std::shared_ptr<State> state) noexcept
    : state_(std::move(state)) {}
HitlRequestStream::HitlRequestStream(HitlRequestStream&&) noexcept = default;
HitlRequestStream& HitlRequestStream::operator=(HitlRequestStream&&) noexcept = default;
HitlRequestStream::~HitlRequestStream() = default;

Task<std::optional<HitlRequest>> HitlRequestStream::next() {
    const std::shared_ptr<State> state = state_;
    while (true) {
        {
            const std::lock_guard lock(state->mutex);
            std::optional<HitlRequest> request;
            if (!state->requests.empty()) {
                request.emplace(std::move(state->requests.front()));
                state->requests.pop_front();
            }
            if (request || state->ended) co_return request;
        }
        co_await state->changed.wait();
    }
}

void HitlRequestFeed::close() noexcept {
    const std::lock_guard lock(mutex_);
    for (const auto& weak : std::exchange(streams_, {})) {
        const auto stream = weak.lock();
        if (!stream) continue;
        {
            const std::lock_guard own(stream->mutex);
            stream->ended = true;
        }
        stream->changed.set();
    }
}

HitlRequestStream HitlRequestFeed::subscribe() {
    auto state = std::make_shared<HitlRequestStream::State>();
    const std::lock_guard lock(mutex_);
    std::erase_if(streams_, [](const auto& stream) { return stream.expired(); });
    streams_.push_back(state);
    return HitlRequestStream(std::move(state));
}

void HitlRequestFeed::publish(const HitlRequest& request) {
    const std::lock_guard lock(mutex_);
    for (const auto& weak : streams_) {
        const auto stream = weak.lock();
        if (!stream) continue;
        {
            const std::lock_guard own(stream->mutex);
            stream->requests.push_back(request);
        }
        stream->changed.set();
    }
}

std::string_view to_string(HitlEnd end) noexcept {
    switch (end) {
        case HitlEnd::answered: return "answered";
        case HitlEnd::cancelled: return "cancelled";
        case HitlEnd::timed_out: return "timed_out";
        case HitlEnd::aborted: return "aborted";
        case HitlEnd::detached: return "detached";
    }
    return "aborted";
}

void HitlChannel::connect(std::shared_ptr<HitlRun> run) {
    if (run_) {
        throw Error(ErrorCode::invalid_argument,
                    "the channel is used by run " + run_->run_id() +
                        ": an agent needs a channel of its own (AgentOptions::channel)");
    }
    run_ = std::move(run);
}

Task<bool> HitlChannel::confirm(std::string prompt, Json details, HitlOptions options) {
    ConfirmRequest question;
    question.prompt = std::move(prompt);
    question.details = std::move(details);
    HitlPayload payload(std::move(question));
    const Json answer = co_await request(std::move(payload), std::move(options));
    co_return answer.as_bool();
}

Task<ApproveAnswer> HitlChannel::approve(std::string tool_name, std::string tool_call_id,
                                         JsonObject args, Json details, HitlOptions options) {
    ApproveRequest question;
    question.tool_name = std::move(tool_name);
    question.tool_call_id = std::move(tool_call_id);
    question.args = std::move(args);
    question.details = std::move(details);
    HitlPayload payload(std::move(question));
    const Json answer = co_await request(std::move(payload), std::move(options));
    co_return approve_answer_from_json(answer);
}

Task<JsonObject> HitlChannel::ask(std::vector<HitlQuestion> questions, HitlOptions options) {
    AskRequest question;
    question.questions = std::move(questions);
    HitlPayload payload(std::move(question));
    Json answer = co_await request(std::move(payload), std::move(options));
    co_return std::move(answer.as_object());
}

namespace detail {

namespace {

/// Forwards to the channel of the agent, and names the call that asks.
class CallChannel final : public HitlChannel {
public:
    CallChannel(std::shared_ptr<HitlChannel> channel, std::string tool_call_id)
        : channel_(std::move(channel)), tool_call_id_(std::move(tool_call_id)) {}

    Task<Json> request(HitlPayload payload, HitlOptions options) override {
        options.asking_call = tool_call_id_;
        return channel_->request(std::move(payload), std::move(options));
    }
    std::vector<HitlRequest> pending() const override { return channel_->pending(); }
    HitlRequestStream subscribe() override { return channel_->subscribe(); }
    Task<> answer(std::string question_id, Json value, AnswerOrigin origin) override {
        return channel_->answer(std::move(question_id), std::move(value), std::move(origin));
    }
    Task<> cancel(std::string question_id, std::string reason) override {
        return channel_->cancel(std::move(question_id), std::move(reason));
    }
    bool is_durable() const noexcept override { return channel_->is_durable(); }

private:
    std::shared_ptr<HitlChannel> channel_;
    std::string tool_call_id_;
};

}  // namespace

std::shared_ptr<HitlChannel> channel_of_call(std::shared_ptr<HitlChannel> channel,
                                             std::string tool_call_id) {
    return std::make_shared<CallChannel>(std::move(channel), std::move(tool_call_id));
}

}  // namespace detail

}  // namespace cubepi
