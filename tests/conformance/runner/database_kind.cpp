#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/message_json.hpp>

#include "compare.hpp"
#include "database_copy.hpp"
#include "kinds.hpp"
#include "store.hpp"
#include "support.hpp"

namespace conformance {

namespace {

using cubepi::Task;

bool is_odd(const Json& value) {
    if (!value.is_string()) return false;
    const std::string_view text = value.get_string();
    return text == "<NaN>" || text == "<Infinity>" || text == "<-Infinity>" ||
           text.starts_with("<integer ");
}

/// Values that JSON cannot represent may be loaded as approximations: such values are taken from the loaded message.
void adopt_odd(Json& want, const Json& got) {
    if (is_odd(want)) {
        want = got;
    } else if (want.is_object() && got.is_object()) {
        for (auto& [key, value] : want.get_object()) {
            if (const Json* other = got.get_object().if_contains(key)) adopt_odd(value, *other);
        }
    } else if (want.is_array() && got.is_array()) {
        for (std::size_t i = 0; i < want.get_array().size() && i < got.get_array().size(); ++i) {
            adopt_odd(want.get_array()[i], got.get_array()[i]);
        }
    }
}

void keep_keys_of(JsonObject& got, const JsonObject& want) {
    JsonObject common;
    for (const auto& [key, value] : got) {
        if (want.contains(key)) common[key] = value;
    }
    got = std::move(common);
}

/// CubePi shows a count that was not reported as 0 (D12).
void count_unreported(JsonObject& usage, const JsonObject& want) {
    for (const auto& [key, value] : want) {
        if (!usage.contains(key) && value.is_int64() && value.get_int64() == 0) usage[key] = 0;
    }
}

/// Keys that CubePi does not know are preserved by us but not shown by CubePi.
void drop_unknown_keys(JsonObject& got, const JsonObject& want) {
    keep_keys_of(got, want);
    Json* usage = got.if_contains("usage");
    const Json* wanted_usage = want.if_contains("usage");
    if (usage && usage->is_object() && wanted_usage && wanted_usage->is_object()) {
        keep_keys_of(usage->get_object(), wanted_usage->get_object());
        count_unreported(usage->get_object(), wanted_usage->get_object());
    }
    Json* blocks = got.if_contains("content");
    const Json* wanted = want.if_contains("content");
    if (!blocks || !wanted || !blocks->is_array() || !wanted->is_array()) return;
    for (std::size_t i = 0; i < blocks->get_array().size() && i < wanted->get_array().size(); ++i) {
        Json& block = blocks->get_array()[i];
        const Json& other = wanted->get_array()[i];
        if (block.is_object() && other.is_object())
            keep_keys_of(block.get_object(), other.get_object());
    }
}

void compare_messages(const Json& wanted, const cubepi::MessageList& messages,
                      const std::string& at, std::vector<std::string>& found) {
    Json want = wanted;
    JsonArray got;
    for (std::size_t i = 0; i < messages.size(); ++i) {
        JsonObject form = cubepi::to_json(messages[i]);
        if (i < want.get_array().size()) drop_unknown_keys(form, want.get_array()[i].as_object());
        got.emplace_back(std::move(form));
    }
    const Json all = std::move(got);
    adopt_odd(want, all);
    for (std::string& difference : differences(want, all, at))
        found.push_back(std::move(difference));
}

void compare(const Json& wanted, const Json& got, const std::string& at,
             std::vector<std::string>& found) {
    Json want = wanted;
    adopt_odd(want, got);
    for (std::string& difference : differences(want, got, at))
        found.push_back(std::move(difference));
}

class DatabaseCheck {
public:
    DatabaseCheck(std::shared_ptr<cubepi::Checkpointer> store, std::string thread,
                  const JsonObject& want, std::vector<std::string>& found)
        : store_(std::move(store)),
          thread_(std::move(thread)),
          at_("/threads/" + thread_),
          want_(want),
          found_(found) {}

    Task<> perform() {
        if (want_.contains("error")) {
            co_await check_failure();
            co_return;
        }
        co_await check_content();
        co_await check_approvers();
        co_await check_runs();
    }

private:
    Task<> check_failure();
    Task<> check_content();
    Task<> check_approvers();
    Task<> check_runs();

    const std::shared_ptr<cubepi::Checkpointer> store_;
    std::string thread_;
    std::string at_;
    const JsonObject& want_;
    std::vector<std::string>& found_;
};

Task<> DatabaseCheck::check_failure() {
    std::exception_ptr failure;
    try {
        (void)co_await store_->load(thread_);
    } catch (...) {
        failure = std::current_exception();
    }
    if (!failure) {
        found_.push_back(at_ + "/error: want " + boost::json::serialize(want_.at("error")) +
                         ", got a loaded thread");
        co_return;
    }
    try {
        std::rethrow_exception(failure);
    } catch (const cubepi::CheckpointCorruptionError& error) {
        compare(want_.at("thread_id"), Json(error.thread_id()), at_ + "/thread_id", found_);
        compare(want_.at("backend"), Json(error.backend()), at_ + "/backend", found_);
        compare(want_.at("row_ref"), Json(error.row_ref()), at_ + "/row_ref", found_);
    } catch (const std::exception& error) {
        found_.push_back(at_ + "/error: want CheckpointCorruptionError, got " + error.what());
    }
}

Task<> DatabaseCheck::check_content() {
    const std::optional<cubepi::CheckpointData> data = co_await store_->load(thread_);
    if (want_.at("messages").is_null()) {
        if (data) found_.push_back(at_ + "/messages: want nothing loaded, got a thread");
        co_return;
    }
    if (!data) {
        // On servers, CubePi loads a thread that has only runs as an empty one.
        if (!want_.at("messages").as_array().empty() || !want_.at("extra").as_object().empty())
            found_.push_back(at_ + "/messages: want a thread, got nothing loaded");
        co_return;
    }
    compare_messages(want_.at("messages"), data->messages, at_ + "/messages", found_);
    compare(want_.at("extra"), data->extra, at_ + "/extra", found_);
    const Json parent = data->parent_thread_id ? Json(*data->parent_thread_id) : Json(nullptr);
    compare(want_.at("parent_thread_id"), parent, at_ + "/parent_thread_id", found_);
}

Task<> DatabaseCheck::check_approvers() {
    const std::vector<cubepi::PendingRequest> pending =
        co_await part<cubepi::HitlStore>(store_).load_pending_requests(thread_);
    Json got;
    if (!pending.empty()) {
        JsonObject form;
        form["run_id"] =
            pending.front().run_id.empty() ? Json(nullptr) : Json(pending.front().run_id);
        form["request"] = cubepi::to_json(pending.front().request);
        got = std::move(form);
    }
    compare(want_.at("pending"), got, at_ + "/pending", found_);
    for (const Json& answer : want_.at("answers").as_array()) {
        const JsonObject& form = answer.as_object();
        std::string run_id = text_or(form, "run_id", "");
        std::string question_id = text_or(form, "question_id", "");
        const std::optional<Json> loaded =
            co_await part<cubepi::HitlStore>(store_).load_hitl_answer(thread_, run_id, question_id);
        compare(form.at("answer"), loaded ? *loaded : Json(nullptr),
                at_ + "/answers/" + question_id, found_);
    }
}

Task<> DatabaseCheck::check_runs() {
    for (const Json& run : want_.at("runs").as_array()) {
        const std::string run_id = text_or(run.as_object(), "run_id", "");
        const bool complete =
            co_await part<cubepi::RunStore>(store_).is_run_complete(thread_, run_id);
        compare(Json(!run.at("completed_at").is_null()), Json(complete), at_ + "/runs/" + run_id,
                found_);
    }
    for (const auto& [key, indexes] : want_.at("snapshots").as_object()) {
        const std::string run_id(key);
        const cubepi::MessageList messages =
            co_await part<cubepi::ForkStore>(store_).snapshot(thread_, run_id);
        JsonArray want;
        for (const Json& index : indexes.as_array()) {
            want.push_back(want_.at("messages").as_array().at(index.to_number<std::size_t>()));
        }
        compare_messages(want, messages, at_ + "/snapshots/" + run_id, found_);
    }
}

Task<> check_all_threads(std::shared_ptr<cubepi::Checkpointer> store, const JsonObject& threads,
                         std::vector<std::string>& found) {
    for (const auto& [thread, want] : threads) {
        DatabaseCheck check(store, std::string(thread), want.as_object(), found);
        std::exception_ptr failure;
        try {
            co_await check.perform();
        } catch (...) {
            failure = std::current_exception();
        }
        if (failure)
            found.push_back("/threads/" + std::string(thread) + ": " +
                            cubepi::exception_text(failure));
    }
}

}  // namespace

std::vector<std::string> check_database(const std::filesystem::path& file, const Json& content) {
    const JsonObject& form = as_object(content, "file");
    const JsonObject& threads = as_object(form.at("threads"), "threads");
    std::vector<std::string> found;
    // A server on a busy machine is slow.
    constexpr std::chrono::seconds limit(240);

    const std::vector<TableRows> before = DatabaseCopy::of(file, form)->tables();
    const std::unique_ptr<DatabaseCopy> copy = DatabaseCopy::of(file, form);
    if (!run_within(check_all_threads(copy->open(), threads, found), limit))
        throw std::runtime_error("hang: reading");
    for (const std::string& row : copy->changed_rows(before))
        found.push_back("/unchanged: lost or changed: " + row);
    if (const std::string state = copy->integrity(); state != "ok")
        found.push_back("/integrity: want \"ok\", got " + state);

    // From one copy each: prompts, and answers to what waits.
    const std::unique_ptr<DatabaseCopy> answered = DatabaseCopy::of(file, form);
    if (!run_within(continue_from(copy->open(), threads, false, found), limit))
        throw std::runtime_error("hang: continuing");
    if (!run_within(continue_from(answered->open(), threads, true, found), limit))
        throw std::runtime_error("hang: answering");
    std::vector<TableRows> log;
    for (const TableRows& table : before) {
        if (table.table == "messages" || table.table == "cubepi_messages") log.push_back(table);
    }
    for (const std::string& row : copy->changed_rows(log))
        found.push_back("/onward: lost or changed: " + row);
    return found;
}

}  // namespace conformance
