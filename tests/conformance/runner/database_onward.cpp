#include "database_onward.hpp"

#include <memory>
#include <optional>
#include <utility>

#include <cubepi/agent/agent.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/core/error.hpp>

#include "faults.hpp"
#include "message_form.hpp"
#include "reading.hpp"
#include "recording_provider.hpp"

namespace conformance {

namespace {

using cubepi::Task;
using Store = std::shared_ptr<cubepi::SQLiteCheckpointer>;

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
    (void)co_await store->claim_run(thread, run_id, std::move(owner), cubepi::ClaimKind::new_run);
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
        const cubepi::MessageList snapshot = co_await store->snapshot(thread, run_id);
        co_await store->fork(thread, fork, run_id, std::nullopt);
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

Task<> prompt_on(Store store, std::string thread, std::vector<std::string>& found) {
    const std::string at = "/threads/" + thread + "/prompt";
    const std::optional<cubepi::CheckpointData> before = co_await store->load(thread);
    std::vector<ScriptItem> script;
    script.push_back(answer("fine"));
    bool legal = false;
    auto provider = std::make_shared<RecordingProvider>(
        script, 1000, [&legal](const cubepi::ModelRequest& request) {
            legal = is_legal_request(request.messages);
        });
    cubepi::AgentOptions options;
    cubepi::Model model;
    model.id = "faux-1";
    options.model = cubepi::BoundModel(provider, std::move(model));
    options.checkpointer = store;
    options.thread_id = thread;
    cubepi::Agent agent(std::move(options));
    Task<cubepi::RunResult> run = agent.prompt("continue");
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

Task<> continue_thread(Store store, std::string thread, const JsonObject& want,
                       std::vector<std::string>& found) {
    if (!want.at("messages").is_null()) {
        co_await check_refusals(store, thread, want, found);
        co_await check_forks(store, thread, want, found);
    }
    co_await prompt_on(store, thread, found);
}

}  // namespace

Task<> continue_from(std::filesystem::path file, const JsonObject& threads,
                     std::vector<std::string>& found) {
    auto store = std::make_shared<cubepi::SQLiteCheckpointer>(file.string());
    for (const auto& [key, want] : threads) {
        if (want.as_object().contains("error")) continue;
        const std::string thread(key);
        std::exception_ptr failure;
        try {
            co_await continue_thread(store, thread, want.as_object(), found);
        } catch (...) {
            failure = std::current_exception();
        }
        if (failure)
            found.push_back("/threads/" + thread +
                            ": continuing: " + cubepi::exception_text(failure));
    }
}

}  // namespace conformance
