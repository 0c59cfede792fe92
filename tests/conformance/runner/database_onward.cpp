#include "kinds.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/hitl/ask_user_tool.hpp>
#include <cubepi/hitl/checkpointed_channel.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>
#include <cubepi/testing/manual_clock.hpp>

#include "normal_form.hpp"
#include "script.hpp"
#include "store.hpp"
#include "support.hpp"

namespace conformance {

namespace {

using cubepi::Task;
using Store = std::shared_ptr<cubepi::Checkpointer>;

cubepi::ClaimOwner other_owner() {
    cubepi::ClaimOwner owner;
    owner.owner_id = "conformance";
    owner.host = "conformance";
    owner.description = "the conformance runner";
    return owner;
}

/// Returns the name of the error class with which a task ends, or "nothing" if it succeeds.
Task<std::string> error_of(Task<> task) {
    std::exception_ptr failure;
    try {
        co_await std::move(task);
    } catch (...) {
        failure = std::current_exception();
    }
    if (!failure) co_return "nothing";
    std::string name;
    try {
        std::rethrow_exception(failure);
    } catch (const cubepi::Error& error) {
        name = std::string(cubepi::to_string(error.code()));
    } catch (const std::exception& error) {
        name = error.what();
    }
    co_return name;
}

Task<> claim(Store store, std::string thread, std::string run_id) {
    cubepi::ClaimOwner owner = other_owner();
    (void)co_await part<cubepi::RunStore>(store).claim_run(thread, run_id, std::move(owner),
                                                           cubepi::ClaimKind::new_run);
}

Task<> append_to(Store store, std::string thread, std::string run_id) {
    cubepi::MessageList messages;
    messages.push_back(cubepi::user_message("late").with_run_id(cubepi::SharedString(run_id)));
    (void)co_await store->append(thread, std::move(messages), cubepi::AppendOptions());
}

Task<> check_refusals(Store store, std::string thread, const JsonObject& want,
                      std::vector<std::string>& found) {
    for (const Json& run : want.at("runs").as_array()) {
        const std::string run_id = text_or(run.as_object(), "run_id", "");
        const std::string at = "/threads/" + thread + "/runs/" + run_id;
        const bool complete = !run.at("completed_at").is_null();
        const std::string claimed = co_await error_of(claim(store, thread, run_id));
        const std::string expected = complete ? "run_already_completed" : "run_already_claimed";
        if (claimed != expected && claimed != "run_already_claimed") {
            found.push_back(at + "/claim: want " + expected + ", got " + claimed);
        }
        if (!complete) continue;
        const std::string appended = co_await error_of(append_to(store, thread, run_id));
        if (appended != "run_already_completed") {
            found.push_back(at + "/append: want run_already_completed, got " + appended);
        }
    }
}

Task<> check_forks(Store store, std::string thread, const JsonObject& want,
                   std::vector<std::string>& found) {
    for (const auto& [key, indexes] : want.at("snapshots").as_object()) {
        const std::string run_id(key);
        const std::string fork = thread + "/fork/" + run_id;
        const cubepi::MessageList snapshot =
            co_await part<cubepi::ForkStore>(store).snapshot(thread, run_id);
        co_await part<cubepi::ForkStore>(store).fork(thread, fork, run_id, std::nullopt);
        const std::optional<cubepi::CheckpointData> copy = co_await store->load(fork);
        if (!copy || !(copy->messages == snapshot)) {
            found.push_back("/threads/" + thread + "/snapshots/" + run_id +
                            ": the fork has other messages");
        } else if (copy->parent_thread_id != thread) {
            found.push_back("/threads/" + thread + "/snapshots/" + run_id +
                            ": the fork has another parent");
        }
    }
}

ScriptItem answer(std::string text) {
    ScriptItem item;
    cubepi::TextContent block;
    block.text = std::move(text);
    item.message.content.emplace_back(std::move(block));
    return item;
}

/// A clock whose date is shortly after the last request of the file: recorded requests have timeouts.
std::shared_ptr<const cubepi::Runtime> runtime_after(const JsonObject& threads) {
    double last = 0;
    for (const auto& [key, want] : threads) {
        const Json* pending = want.as_object().if_contains("pending");
        if (!pending || pending->is_null()) continue;
        last = std::max(last, pending->at("request").at("created_at").to_number<double>());
    }
    auto clock = std::make_shared<cubepi::testing::ManualClock>();
    if (last > 0) {
        const auto since_epoch = std::chrono::duration<double>(last + 1);
        clock->set_wall(std::chrono::system_clock::time_point(
            std::chrono::duration_cast<std::chrono::system_clock::duration>(since_epoch)));
    }
    return std::make_shared<const cubepi::Runtime>(cubepi::Runtime().with_clock(std::move(clock)));
}

struct PathArgs {
    std::string path;
};
struct NumberArgs {
    int a = 0;
};
struct ShipArgs {
    std::string version;
};

/// A tool that asks with `confirm` in its body.
Task<std::string> ship(ShipArgs args, cubepi::ToolContext& context) {
    const std::shared_ptr<cubepi::HitlChannel> channel = context.channel();
    Task<bool> asking = channel->confirm("Ship " + args.version + " to h\xC3\xB6st?",
                                         Json(JsonObject{{"stars", 21.5}}));
    const bool sure = co_await std::move(asking);
    co_return sure ? "shipped" : "not shipped";
}

struct SumArgs {
    int a = 0;
    int b = 0;
};

/// An agent with the tools of the recordings, whose calls of `rm` and `next` need approval.
class Answerer {
public:
    Answerer(Store store, const std::string& thread,
             std::shared_ptr<const cubepi::Runtime> runtime) {
        cubepi::CheckpointedChannelOptions channel_options;
        channel_options.clock = runtime->clock;
        channel_ = std::make_shared<cubepi::CheckpointedChannel>(store, thread,
                                                                 std::move(channel_options));
        std::vector<ScriptItem> script;
        script.push_back(answer("fine"));
        auto provider = std::make_shared<RecordingProvider>(
            script, Scenario(), [this](const cubepi::ModelRequest& request) {
                legal = is_legal_request(request.messages);
            });
        cubepi::AgentOptions options;
        cubepi::Model model;
        model.id = "faux-1";
        options.model = cubepi::BoundModel(provider, std::move(model));
        options.tools = {
            cubepi::tool<PathArgs>("rm", "Removes.",
                                   [this](PathArgs args) {
                                       removed.push_back(args.path);
                                       return "removed " + args.path;
                                   }),
            cubepi::tool<NumberArgs>("next", "Adds one.",
                                     [](NumberArgs args) { return std::to_string(args.a + 1); }),
            cubepi::tool<SumArgs>("add", "Adds.",
                                  [](SumArgs args) { return std::to_string(args.a + args.b); }),
            ships(), cubepi::ask_user_tool(channel_)};
        cubepi::ConfirmToolCallOptions confirm;
        confirm.require_confirm = {"rm", "next"};
        options.middleware.push_back(
            cubepi::ConfirmToolCallMiddleware(channel_, std::move(confirm)));
        options.checkpointer = store;
        options.thread_id = thread;
        options.runtime = std::move(runtime);
        options.channel = channel_;
        agent = std::make_unique<cubepi::Agent>(std::move(options));
        (void)agent->subscribe([this](const cubepi::AgentEvent& event) {
            const auto* asked = event.get_if<cubepi::HitlRequestEvent>();
            if (asked) requests_.push_back(asked->request.question_id);
        });
    }

    /// Answers the stored request, and what is asked after it, until the run has ended.
    Task<cubepi::RunResult> finish(cubepi::HitlRequest request) {
        Json value = answer_to(request);
        cubepi::BackgroundScope host(co_await cubepi::this_executor);
        host.spawn(serve(channel_->subscribe()));
        Task<cubepi::RunResult> run = agent->respond(request.question_id, std::move(value));
        cubepi::Outcome<cubepi::RunResult> ended = co_await cubepi::outcome_of(std::move(run));
        co_await host.close();
        co_return std::move(ended).value();
    }

    std::unique_ptr<cubepi::Agent> agent;
    std::vector<std::string> removed;
    bool legal = false;
    const std::vector<std::string>& asked() const { return requests_; }

private:
    static cubepi::AgentTool ships() {
        return cubepi::tool<ShipArgs>("ship", "Ships.", ship)
            .replay(cubepi::ReplayPolicy::idempotent);
    }
    static Json answer_to(const cubepi::HitlRequest& request) {
        if (std::holds_alternative<cubepi::ConfirmRequest>(request.payload)) return Json(true);
        const auto* ask = std::get_if<cubepi::AskRequest>(&request.payload);
        if (!ask) return Json(cubepi::to_json(cubepi::ApproveAnswer()));
        JsonObject answers;
        for (const cubepi::HitlQuestion& question : ask->questions) {
            const bool choice = question.options && !question.options->empty();
            const std::string text = choice ? question.options->front().value : "text";
            if (question.multi_select) {
                answers[question.key] = JsonArray{Json(text)};
            } else {
                answers[question.key] = text;
            }
        }
        return answers;
    }
    Task<> serve(cubepi::HitlRequestStream stream) {
        while (true) {
            const std::optional<cubepi::HitlRequest> request = co_await stream.next();
            if (!request) co_return;
            Json value = answer_to(*request);
            co_await channel_->answer(request->question_id, std::move(value));
        }
    }

    std::shared_ptr<cubepi::CheckpointedChannel> channel_;
    std::vector<std::string> requests_;
};

/// Answers what waits in a thread and finishes its run.
Task<> answer_on(Store store, std::string thread, const JsonObject& want,
                 std::shared_ptr<const cubepi::Runtime> runtime, std::vector<std::string>& found) {
    const std::string at = "/threads/" + thread + "/respond";
    cubepi::HitlStore& questions = part<cubepi::HitlStore>(store);
    std::vector<cubepi::PendingRequest> pending = co_await questions.load_pending_requests(thread);
    if (pending.empty()) co_return;
    const std::string first = pending.front().request.question_id;
    Answerer answerer(store, thread, std::move(runtime));
    const cubepi::RunResult result = co_await answerer.finish(std::move(pending.front().request));
    if (!result) found.push_back(at + ": want a completed run, got " + result.error().what());
    if (!answerer.legal) found.push_back(at + ": the request was not legal");
    pending = co_await questions.load_pending_requests(thread);
    if (!pending.empty()) found.push_back(at + ": a request is still pending");
    // An answer is used: its question is not asked again.
    std::vector<std::string> answered{first};
    for (const Json& one : want.at("answers").as_array())
        answered.push_back(text_or(one.as_object(), "question_id", ""));
    for (const std::string& asked : answerer.asked()) {
        if (std::find(answered.begin(), answered.end(), asked) != answered.end())
            found.push_back(at + ": '" + asked + "' was asked again");
    }
}

Task<> prompt_on(Store store, std::string thread, std::shared_ptr<const cubepi::Runtime> runtime,
                 std::vector<std::string>& found) {
    const std::string at = "/threads/" + thread + "/prompt";
    const std::optional<cubepi::CheckpointData> before = co_await store->load(thread);
    std::vector<ScriptItem> script;
    script.push_back(answer("fine"));
    bool legal = false;
    auto provider = std::make_shared<RecordingProvider>(
        script, Scenario(), [&legal](const cubepi::ModelRequest& request) {
            legal = is_legal_request(request.messages);
        });
    cubepi::AgentOptions options;
    cubepi::Model model;
    model.id = "faux-1";
    options.model = cubepi::BoundModel(provider, std::move(model));
    options.checkpointer = store;
    options.thread_id = thread;
    options.runtime = std::move(runtime);
    cubepi::Agent agent(std::move(options));
    cubepi::PromptOptions how = cubepi::PromptOptions().abandon_pending();
    Task<cubepi::RunResult> run = agent.prompt("continue", std::move(how));
    const cubepi::RunResult result = co_await std::move(run);
    if (!result) found.push_back(at + ": want a completed run, got " + result.error().what());
    if (!legal) found.push_back(at + ": the request was not legal");
    const std::optional<cubepi::CheckpointData> after = co_await store->load(thread);
    const std::size_t old = before ? before->messages.size() : 0;
    bool unchanged = after && after->messages.size() >= old + 2;
    for (std::size_t i = 0; unchanged && i < old; ++i)
        unchanged = after->messages[i] == before->messages[i];
    if (!unchanged)
        found.push_back(at + ": the thread is not what it was and two messages more");
    else if (after->messages.back().text() != "fine")
        found.push_back(at + ": the answer was not stored");
}

Task<> continue_thread(Store store, std::string thread, const JsonObject& want, bool answers,
                       std::shared_ptr<const cubepi::Runtime> runtime,
                       std::vector<std::string>& found) {
    if (answers) co_return co_await answer_on(store, thread, want, std::move(runtime), found);
    if (!want.at("messages").is_null()) {
        co_await check_refusals(store, thread, want, found);
        co_await check_forks(store, thread, want, found);
    }
    co_await prompt_on(store, thread, std::move(runtime), found);
}

}  // namespace

Task<> continue_from(std::shared_ptr<cubepi::Checkpointer> store, const JsonObject& threads,
                     bool answers, std::vector<std::string>& found) {
    const std::shared_ptr<const cubepi::Runtime> runtime = runtime_after(threads);
    for (const auto& [key, want] : threads) {
        if (want.as_object().contains("error")) continue;
        const std::string thread(key);
        std::exception_ptr failure;
        try {
            co_await continue_thread(store, thread, want.as_object(), answers, runtime, found);
        } catch (...) {
            failure = std::current_exception();
        }
        if (failure)
            found.push_back("/threads/" + thread +
                            ": continuing: " + cubepi::exception_text(failure));
    }
}

}  // namespace conformance
