#include <algorithm>
#include <cmath>
#include <utility>

#include <cubepi/agent/call_notes.hpp>
#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/middleware/detail/subagent_run.hpp>
#include <cubepi/schema/json_text.hpp>

// The limits of all sub-agents together: what they have used, and the part of it that is stored with a run (D134).

namespace cubepi::detail {

namespace {

/// The record is data of a store, which may be damaged.
constexpr std::int64_t most_ended = 1'000'000;

[[noreturn]] void throw_limit(std::string text) { throw Error(ErrorCode::limit, std::move(text)); }

std::optional<double> sum_of(std::optional<double> a, std::optional<double> b) {
    return a && b ? std::optional(*a + *b) : std::nullopt;
}

/// Returns the channel that stores the notes of the caller's run; null if none does.
CallNotes* notes_of(const ToolContext& caller) {
    if (!caller.account() || caller.run().run_id.empty()) return nullptr;
    auto* const notes = dynamic_cast<CallNotes*>(caller.account()->channel().get());
    return notes && notes->can_store_notes() ? notes : nullptr;
}

/// An endpoint, which chooses the ids of questions, does not know the id of the run.
std::string note_id(const ToolContext& caller) {
    return caller.run().run_id.str() + std::string(subagent_note_end);
}

/// Returns the counts of a note; nothing if it is damaged.
std::optional<SubagentCounts::OfRun> counts_in(const std::string& note, std::string run_id) {
    boost::system::error_code failed;
    const Json value = boost::json::parse(note, failed);
    const JsonObject* const record = failed ? nullptr : value.if_object();
    const std::optional<std::int64_t> ended =
        record ? integer_member(*record, "ended") : std::nullopt;
    if (!ended) return std::nullopt;
    SubagentCounts::OfRun found;
    found.run_id = std::move(run_id);
    found.ended = static_cast<std::size_t>(std::clamp<std::int64_t>(*ended, 0, most_ended));
    const Json* const cost = record->if_contains("cost");
    const double usd = cost && cost->is_number() ? cost->to_number<double>() : -1.0;
    found.cost.reset();
    if (std::isfinite(usd) && usd >= 0) found.cost = usd;
    return found;
}

/// Adds what other processes have counted of the run.
void add_counts(SubagentCounts& counts, const SubagentCounts::OfRun& stored) {
    if (stored.ended <= counts.run.ended) return;
    // The calls without a result are in `stored`, or their cost is stored with the runs of their sub-agents.
    for (const auto& [key, cost] : counts.left) {
        --counts.started;
        if (counts.spent.cost && cost) *counts.spent.cost -= *cost;
    }
    counts.left.clear();
    counts.started += stored.ended - counts.run.ended;
    if (!stored.cost || !counts.run.cost) {
        counts.spent.cost.reset();
    } else if (counts.spent.cost) {
        *counts.spent.cost += std::max(0.0, *stored.cost - *counts.run.cost);
    }
    counts.run = stored;
}

}  // namespace

SubagentPlace::SubagentPlace(std::shared_ptr<SubagentCounts> counts, const AgentLimits& own,
                             std::string call_key, bool is_nested)
    : counts_(std::move(counts)),
      limits_(own),
      call_key_(std::move(call_key)),
      is_nested_(is_nested) {
    const SubagentLimits& limits = counts_->limits;
    const auto left = counts_->left.find(call_key_);
    continues_ = left != counts_->left.end();
    if (continues_) counted_ = left->second;
    if (limits.max_running != 0 && counts_->running >= limits.max_running)
        throw_limit(std::to_string(limits.max_running) +
                    " sub-agents run already (max_running); wait for one to end");
    if (limits.max_total != 0 && !continues_ && counts_->started >= limits.max_total)
        throw_limit(std::to_string(limits.max_total) + " sub-agents were started (max_total)");
    if (limits.max_spend > 0 && !is_nested_) {
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
    if (continues_) {
        counts_->left.erase(left);
    } else {
        ++counts_->started;
    }
    counts_->reserved += reserved_;
}

SubagentPlace::~SubagentPlace() {
    --counts_->running;
    counts_->reserved -= reserved_;
}

void SubagentPlace::spend(const SubagentResult& result, std::optional<double> earlier,
                          bool is_left) {
    std::optional<double> total = 0.0;
    if (!is_nested_) {
        std::optional<double> missing;
        if (earlier && counted_) missing = std::max(0.0, *earlier - *counted_);
        Spending& spent = counts_->spent;
        spent.usage += result.usage;
        spent.cost = sum_of(spent.cost, sum_of(result.cost, missing));
        total = sum_of(result.cost, sum_of(missing, counted_));
    }
    if (is_left) {
        counts_->left[call_key_] = total;
        return;
    }
    ++counts_->run.ended;
    counts_->run.cost = sum_of(counts_->run.cost, total);
}

Task<> load_counts(std::shared_ptr<SubagentCounts> counts, const ToolContext& caller) {
    const std::string run_id = caller.run().run_id.str();
    if (counts->run.run_id != run_id) {
        counts->run = SubagentCounts::OfRun();
        counts->run.run_id = run_id;
        counts->left.clear();
    }
    CallNotes* const notes = notes_of(caller);
    if (!notes) co_return;
    Task<std::optional<std::string>> loading = notes->load_note(note_id(caller));
    const std::optional<std::string> note = co_await std::move(loading);
    if (!note) co_return;
    const std::optional<SubagentCounts::OfRun> stored = counts_in(*note, run_id);
    if (stored && counts->run.run_id == run_id) add_counts(*counts, *stored);
}

Task<> save_counts(std::shared_ptr<SubagentCounts> counts, const ToolContext& caller) {
    CallNotes* const notes = notes_of(caller);
    const SubagentCounts::OfRun& run = counts->run;
    if (!notes || run.run_id != caller.run().run_id.str()) co_return;
    JsonObject record;
    record["ended"] = static_cast<std::int64_t>(run.ended);
    record["cost"] = run.cost ? Json(*run.cost) : Json();
    Task<> saving = notes->save_note(note_id(caller), json_text(record));
    co_await std::move(saving);
}

}  // namespace cubepi::detail
