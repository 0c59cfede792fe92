#include "aside.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <bub/tape/entry/entry_facts.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/tape_context.hpp>
#include <cubepi/agent/middleware.hpp>
#include <cubepi/provider/faux.hpp>

namespace cubepi::app {

namespace {

/// A copy of a tape in memory, which reads media of the original.
class CopiedTape final : public bub::TapeStore, public bub::TapeMediaStore {
public:
    explicit CopiedTape(std::shared_ptr<bub::TapeStore> original)
        : original_(std::move(original)),
          media_(dynamic_cast<bub::TapeMediaStore*>(original_.get())) {}

    Task<> copy(std::string tape) {
        std::vector<bub::TapeEntry> entries;
        try {
            entries = co_await original_->fetch(tape, bub::ContextStart::last_anchor().query());
        } catch (const Error& error) {
            // Before the first prompt there is no entry.
            if (error.code() != ErrorCode::not_found) throw;
        }
        // The state of middleware may be older than the context.
        for (const std::string_view name :
             {bub::detail::extra_event, bub::detail::extra_changes_event}) {
            std::optional<bub::TapeEntry> found =
                co_await original_->find_event(tape, std::string(name));
            if (!found) continue;
            const auto same =
                std::find_if(entries.begin(), entries.end(),
                             [&](const bub::TapeEntry& entry) { return entry.id == found->id; });
            if (same == entries.end()) entries.push_back(std::move(*found));
        }
        std::sort(entries.begin(), entries.end(),
                  [](const bub::TapeEntry& a, const bub::TapeEntry& b) { return a.id < b.id; });
        if (entries.empty()) co_return;
        co_await memory_.append(std::move(tape), std::move(entries), bub::TapeAppend().keep_ids());
    }

    Task<std::vector<std::string>> all_tapes() override { return memory_.all_tapes(); }
    Task<std::vector<bub::TapeEntry>> fetch(std::string tape, bub::TapeQuery query) override {
        return memory_.fetch(std::move(tape), std::move(query));
    }
    Task<bub::TapePosition> append(std::string tape, std::vector<bub::TapeEntry> entries,
                                   bub::TapeAppend options) override {
        return memory_.append(std::move(tape), std::move(entries), std::move(options));
    }
    Task<bub::TapePosition> position(std::string tape) override {
        return memory_.position(std::move(tape));
    }
    Task<Json> edit_state(std::string tape, std::function<Json(JsonObject& state)> edit) override {
        return memory_.edit_state(std::move(tape), std::move(edit));
    }
    Task<JsonObject> read_state(std::string tape) override {
        return memory_.read_state(std::move(tape));
    }
    Task<QuestionPage> list_requests(QuestionQuery query) override {
        return memory_.list_requests(std::move(query));
    }
    Task<std::string> put_media(std::string bytes) override {
        return memory_.put_media(std::move(bytes));
    }
    Task<std::optional<std::string>> get_media(std::string sha256) override {
        std::optional<std::string> own = co_await memory_.get_media(sha256);
        if (own || !media_) co_return own;
        own = co_await media_->get_media(std::move(sha256));
        co_return own;
    }

private:
    std::shared_ptr<bub::TapeStore> original_;
    bub::TapeMediaStore* media_ = nullptr;
    bub::MemoryTapeStore memory_;
};

/// Refuses all calls, with the definitions of the tools unchanged.
class RefuseCalls {
public:
    Task<std::optional<BeforeToolCallResult>> before_tool_call(BeforeToolCallContext&) {
        std::optional<BeforeToolCallResult> refused;
        refused.emplace().block = true;
        refused->reason =
            "A side question is answered without tools. Answer from the conversation.";
        co_return refused;
    }
};

/// A plan whose turns change nothing: neither the session nor files.
Task<SessionPlan> plan_of_copy(Pipeline& pipeline) {
    SessionPlan plan = pipeline.plan();
    auto copy = std::make_shared<CopiedTape>(plan.tapes);
    co_await copy->copy(tape_of(plan));
    plan.tapes = std::move(copy);
    plan.model = pipeline.model();
    plan.models = nullptr;
    plan.name.clear();
    plan.create = nullptr;
    plan.open.reset();
    plan.resumed.reset();
    plan.hooks.clear();
    plan.prompter = nullptr;
    plan.host = nullptr;
    plan.background_channel = nullptr;
    plan.suspends = false;
    plan.wanted = nullptr;
    plan.confirm_command = nullptr;
    plan.equip = [equip = plan.equip](AgentOptions& options, const bub::TurnContext& turn, bool) {
        equip(options, turn, false);
        // Approvals would ask about a call that is refused anyway.
        options.middleware.insert(options.middleware.begin(),
                                  Middleware(std::make_shared<RefuseCalls>()));
    };
    co_return plan;
}

}  // namespace

Task<AsideAnswer> ask_aside(Pipeline& pipeline, std::string question) {
    SessionPlan plan = co_await plan_of_copy(pipeline);
    Pipeline copy(std::move(plan), Pipeline::Parts());
    AsideAnswer made;
    Pipeline::Show show = [](const bub::StreamEvent&, const bub::Envelope&) {};
    bub::Envelope message = copy.message(std::move(question), false);
    made.answer = co_await copy.ask(std::move(message), std::move(show));
    if (made.answer.result) made.text = made.answer.result->text();
    co_return made;
}

Task<std::optional<ModelRequest>> request_for(Pipeline& pipeline, std::string prompt) {
    SessionPlan plan = co_await plan_of_copy(pipeline);
    const auto recorded = std::make_shared<std::optional<ModelRequest>>();
    std::vector<FauxStep> steps;
    steps.emplace_back([recorded](const ModelRequest& request) {
        *recorded = request;
        return faux_assistant_message("recorded");
    });
    auto recorder = std::make_shared<FauxProvider>();
    recorder->set_responses(std::move(steps));
    plan.model.model = BoundModel(std::move(recorder), plan.model.model.shared_spec());
    plan.model.fallbacks.clear();
    // A new summary would be asked of the model that records; the stored one applies.
    plan.set_compaction = [](bub::BuiltinOptions& options) {
        if (!options.compaction) return;
        options.compaction->window_share = 0;
        options.compaction->max_tokens_before_compact = 0;
    };
    Pipeline copy(std::move(plan), Pipeline::Parts());
    Pipeline::Show show = [](const bub::StreamEvent&, const bub::Envelope&) {};
    bub::Envelope message = copy.message(std::move(prompt), false);
    (void)co_await copy.ask(std::move(message), std::move(show));
    co_return *recorded;
}

}  // namespace cubepi::app
