#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <cubepi/agent/run/prompt_work.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/middleware/detail/subagent_run.hpp>

// The limits of all sub-agents together: what they have used, in this process and by the history of their parent (D204).

namespace cubepi::detail {

namespace {

using Call = SubagentCounts::Call;
using State = SubagentCounts::State;

/// The stored number may be damaged.
constexpr std::int64_t most_nested = 1'000'000;

[[noreturn]] void throw_limit(std::string text) { throw Error(ErrorCode::limit, std::move(text)); }

std::optional<double> sum_of(std::optional<double> a, std::optional<double> b) {
    return a && b ? std::optional(*a + *b) : std::nullopt;
}

/// Returns an amount of the history, which may be damaged.
std::optional<double> amount_in(const JsonObject& object, std::string_view key) {
    const Json* const found = object.if_contains(key);
    const double usd = found && found->is_number() ? found->to_number<double>() : -1.0;
    return std::isfinite(usd) && usd >= 0 ? std::optional(usd) : std::nullopt;
}

/// The sub-agents in a part of a history.
struct Recorded {
    std::map<std::string, Call> calls = {};         ///< by their keys
    std::map<std::string, std::string> tasks = {};  ///< the key of the call that has started it
};

void read_result(Recorded& recorded, const Message& message) {
    const JsonObject* const details = message.tool_result()->details.if_object();
    const JsonObject* const call = details ? object_member(*details, counted_call_key) : nullptr;
    const std::string key = call ? text_member(*call, "key") : std::string();
    if (key.empty()) return;
    const std::int64_t nested = integer_member(*call, "nested").value_or(0);
    recorded.calls[key] =
        Call{State::ended, amount_in(*call, "cost"),
             static_cast<std::size_t>(std::clamp<std::int64_t>(nested, 0, most_nested))};
    const std::string task = text_member(*details, "subagent_task_id");
    if (!task.empty()) recorded.tasks[task] = key;
}

Recorded read_history(const MessageList& history, std::size_t begin) {
    Recorded recorded;
    for (std::size_t i = begin; i < history.size(); ++i) {
        const ToolResultMessage* const result = history[i].tool_result();
        if (result && result->tool_name == subagent_tool_name) read_result(recorded, history[i]);
    }
    if (recorded.tasks.empty()) return recorded;
    // The result of a task says what it has cost. Until then, and of one that was interrupted, all that it may spend counts.
    for (std::size_t i = begin; i < history.size(); ++i) {
        const Message& message = history[i];
        const std::string_view id = message.id();
        if (!message.user() || !id.starts_with(task_message_prefix)) continue;
        const auto task = recorded.tasks.find(std::string(id.substr(task_message_prefix.size())));
        const Json* const work = message.metadata().find("subagent");
        if (task == recorded.tasks.end() || !work || !work->is_object()) continue;
        const std::optional<double> cost = amount_in(work->get_object(), "cost");
        if (cost) recorded.calls[task->second].cost = cost;
    }
    return recorded;
}

/// Adds a call that has ended in another process. Returns the number of sub-agents that were not counted.
std::size_t add_call(SubagentCounts& counts, const std::string& key, const Call& ended) {
    const auto [found, is_new] = counts.calls.try_emplace(key);
    Call& call = found->second;
    if (!is_new && call.state != State::left) return 0;
    std::size_t missing = is_new ? 1 : 0;
    if (ended.nested > call.nested) missing += ended.nested - call.nested;
    counts.started += missing;
    std::optional<double> cost;
    if (ended.cost && call.cost) cost = std::max(0.0, *ended.cost - *call.cost);
    counts.spent.cost = sum_of(counts.spent.cost, cost);
    call = ended;
    return missing;
}

}  // namespace

SubagentSlot::SubagentSlot(std::shared_ptr<SubagentCounts> counts, const AgentLimits& own,
                           std::string call_key, std::string parent_key)
    : counts_(std::move(counts)),
      limits_(own),
      call_key_(std::move(call_key)),
      parent_key_(std::move(parent_key)) {
    const SubagentLimits& limits = counts_->limits;
    const auto known = counts_->calls.find(call_key_);
    const bool continues = known != counts_->calls.end() && known->second.state == State::left;
    if (continues) counted_ = known->second.cost;
    if (limits.max_running != 0 && counts_->running >= limits.max_running)
        throw_limit(std::to_string(limits.max_running) +
                    " sub-agents run already (max_running); wait for one to end");
    if (limits.max_total != 0 && !continues && counts_->started >= limits.max_total)
        throw_limit(std::to_string(limits.max_total) + " sub-agents were started (max_total)");
    if (limits.max_spend > 0 && parent_key_.empty()) {
        // The limit of this one is for all its attempts.
        const double counted = counted_.value_or(0.0);
        const double most = limits.max_spend - counts_->spent.cost.value_or(limits.max_spend) -
                            counts_->reserved + counted;
        if (most <= 0)
            throw_limit(
                "the money of all sub-agents is spent, or reserved by those that run "
                "(max_spend)");
        if (limits_.max_spend <= 0 || limits_.max_spend > most) limits_.max_spend = most;
        reserved_ = std::max(0.0, limits_.max_spend - counted);
    }
    ++counts_->running;
    if (!continues) ++counts_->started;
    if (!call_key_.empty()) {
        Call& call = counts_->calls[call_key_];
        call = Call{State::running, counted_, continues ? call.nested : 0};
    }
    counts_->reserved += reserved_;
}

SubagentSlot::~SubagentSlot() {
    --counts_->running;
    counts_->reserved -= reserved_;
}

void SubagentSlot::spend(const SubagentResult& result, std::optional<double> earlier,
                         bool is_left) {
    std::optional<double> total = 0.0;
    if (parent_key_.empty()) {
        std::optional<double> missing;
        if (earlier && counted_) missing = std::max(0.0, *earlier - *counted_);
        Spending& spent = counts_->spent;
        spent.usage += result.usage;
        spent.cost = sum_of(spent.cost, sum_of(result.cost, missing));
        total = sum_of(result.cost, sum_of(missing, counted_));
    }
    if (call_key_.empty()) return;
    Call& call = counts_->calls[call_key_];
    call.state = is_left ? State::left : State::ended;
    call.cost = total;
    if (!is_left && !parent_key_.empty()) counts_->calls[parent_key_].nested += 1 + call.nested;
}

void count_history(SubagentCounts& counts, const MessageList& history, const std::string& run_id) {
    const bool is_other = counts.run_id != run_id || history.size() < counts.read_until;
    const std::size_t begin = is_other ? begin_of_prompt(history) : counts.read_until;
    const Recorded recorded = read_history(history, begin);
    if (is_other) {
        std::erase_if(counts.calls, [&recorded](const auto& one) {
            return one.second.state != State::running && !recorded.calls.contains(one.first);
        });
    }
    for (const auto& [key, call] : recorded.calls) (void)add_call(counts, key, call);
    counts.run_id = run_id;
    counts.read_until = history.size();
}

void count_nested(SubagentCounts& counts, const MessageList& history, const std::string& key) {
    std::size_t missing = 0;
    for (auto& [nested, call] : read_history(history, 0).calls) {
        // Its money is part of its parent's.
        call.cost = 0.0;
        missing += add_call(counts, nested, call);
    }
    counts.calls[key].nested += missing;
}

namespace {

JsonObject call_json(const std::string& key, const Call& call) {
    JsonObject made{{"key", key}, {"cost", call.cost ? Json(*call.cost) : Json()}};
    if (call.nested > 0) made["nested"] = static_cast<std::int64_t>(call.nested);
    return made;
}

}  // namespace

JsonObject counted_call(const SubagentCounts& counts, const std::string& key) {
    const auto found = counts.calls.find(key);
    return key.empty() || found == counts.calls.end() ? JsonObject()
                                                      : call_json(key, found->second);
}

JsonObject started_call(const std::string& key, double most) {
    return call_json(key, Call{State::running, most});
}

}  // namespace cubepi::detail
