// Databases that Python CubePi wrote, compared with what it loads from them.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/checkpoint/store_values_test.hpp>
#include <cubepi/core/message_json.hpp>

#include "source_tree.hpp"

namespace cubepi {

inline const std::filesystem::path databases =
    cubepi::testing::source_path("tests/conformance/databases");

inline std::string read_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Equal as README-fixtures.md says: numbers by value, and what JSON does not know may be anything.
inline bool same(const Json& wanted, const Json& found) {
    if (wanted.is_string() && wanted.get_string().starts_with("<") &&
        wanted.get_string().ends_with(">"))
        return true;
    if (wanted.is_number() && found.is_number())
        return wanted.to_number<double>() == found.to_number<double>();
    if (wanted.is_array() && found.is_array()) {
        const JsonArray& a = wanted.get_array();
        const JsonArray& b = found.get_array();
        return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), same);
    }
    if (wanted.is_object() && found.is_object()) {
        const JsonObject& a = wanted.get_object();
        const JsonObject& b = found.get_object();
        return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&](const auto& member) {
                   const Json* other = b.if_contains(member.key());
                   return other && same(member.value(), *other);
               });
    }
    return wanted == found;
}

/// The message as CubePi dumps it: without what is ours or of a newer writer.
inline JsonObject as_cubepi(const Message& message) {
    JsonObject json = to_json(message);
    json.erase("future");
    return json;
}

inline void expect_messages(const Json& wanted, const MessageList& found,
                            const std::string& where) {
    ASSERT_EQ(wanted.as_array().size(), found.size()) << where;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const JsonObject json = as_cubepi(found[i]);
        EXPECT_TRUE(same(wanted.as_array()[i], json))
            << where << " message " << i << "\nwanted " << wanted.as_array()[i] << "\nfound "
            << Json(json);
    }
}

template <class Store>
void expect_thread(Store& store, const std::string& thread_id, const JsonObject& thread) {
    std::optional<CheckpointData> data = run(store.load(thread_id));
    if (thread.at("messages").is_null()) {
        EXPECT_FALSE(data) << thread_id;
        return;
    }
    // CubePi loads a thread that has only runs as an empty one.
    if (!data && thread.at("messages").as_array().empty() && thread.at("extra").as_object().empty())
        data.emplace();
    ASSERT_TRUE(data) << thread_id;
    expect_messages(thread.at("messages"), data->messages, thread_id);
    EXPECT_TRUE(same(thread.at("extra"), data->extra)) << thread_id << " " << Json(data->extra);
    const Json parent = data->parent_thread_id ? Json(*data->parent_thread_id) : Json(nullptr);
    EXPECT_EQ(thread.at("parent_thread_id"), parent) << thread_id;
}

template <class Store>
void expect_approvers(Store& store, const std::string& thread_id, const JsonObject& thread) {
    const std::vector<PendingRequest> pending = run(store.load_pending_requests(thread_id));
    if (thread.at("pending").is_null()) {
        EXPECT_TRUE(pending.empty()) << thread_id;
    } else {
        ASSERT_EQ(pending.size(), 1U) << thread_id;
        const Json& wanted = thread.at("pending");
        EXPECT_TRUE(same(wanted.at("request"), to_json(pending[0].request))) << thread_id;
        const Json& run_id = wanted.at("run_id");
        EXPECT_EQ(pending[0].run_id, run_id.is_null() ? "" : run_id.as_string()) << thread_id;
    }
    for (const Json& answer : thread.at("answers").as_array()) {
        const std::string run_id(answer.at("run_id").as_string());
        const std::string question_id(answer.at("question_id").as_string());
        const std::optional<Json> found =
            run(store.load_hitl_answer(thread_id, run_id, question_id));
        ASSERT_TRUE(found) << thread_id << " " << question_id;
        EXPECT_TRUE(same(answer.at("answer"), *found)) << thread_id << " " << question_id;
    }
}

/// Appends a message of the run "run-of-ours" to a thread of CubePi, with the extra unchanged.
template <class Store>
void write_on(Store& store, const std::string& thread_id) {
    const CheckpointData data = run(store.load(thread_id)).value_or(CheckpointData());
    AppendOptions options =
        AppendOptions().expected_position(data.position).extra(JsonObject(data.extra));
    run(store.claim_run(thread_id, "run-of-ours", ClaimOwner(), ClaimKind::new_run));
    run(store.append(thread_id, one(user("written on", "run-of-ours", "id")), std::move(options)));
    run(store.mark_run_complete(thread_id, "run-of-ours"));
    EXPECT_EQ(run(store.load(thread_id))->messages.size(), data.messages.size() + 1);
    EXPECT_TRUE(run(store.find_message(thread_id, "id")));
}

/// The inbox lists the requests that CubePi stored.
template <class Store>
void expect_inbox(Store& store) {
    std::vector<std::string> threads;
    for (const QuestionEntry& entry : run(store.list_requests(QuestionQuery())).entries) {
        EXPECT_TRUE(entry.request) << entry.damage;
        threads.push_back(entry.thread_id);
    }
    std::sort(threads.begin(), threads.end());
    EXPECT_EQ(threads, (std::vector<std::string>{"approve", "ask", "batch"}));
}

template <class Store>
void expect_runs(Store& store, const std::string& thread_id, const JsonObject& thread) {
    for (const Json& entry : thread.at("runs").as_array()) {
        const std::string run_id(entry.at("run_id").as_string());
        const bool complete = !entry.at("completed_at").is_null();
        EXPECT_EQ(run(store.is_run_complete(thread_id, run_id)), complete) << run_id;
        Task<ClaimResult> claim =
            store.claim_run(thread_id, run_id, ClaimOwner(), ClaimKind::new_run);
        EXPECT_EQ(error_of(std::move(claim)).code(),
                  complete ? ErrorCode::run_already_completed : ErrorCode::run_already_claimed);
        if (complete) {
            Task<std::int64_t> append =
                store.append(thread_id, one(user("late", run_id)), AppendOptions());
            EXPECT_EQ(error_of(std::move(append)).code(), ErrorCode::run_already_completed);
        }
    }
    for (const auto& [run_id, indexes] : thread.at("snapshots").as_object()) {
        JsonArray messages;
        for (const Json& index : indexes.as_array()) {
            messages.push_back(thread.at("messages").as_array()[index.to_number<std::size_t>()]);
        }
        const std::string fork_id = "fork of " + thread_id + " after " + std::string(run_id);
        expect_messages(messages, run(store.snapshot(thread_id, std::string(run_id))), fork_id);
        run(store.fork(thread_id, fork_id, std::string(run_id), std::nullopt));
        std::optional<CheckpointData> forked = run(store.load(fork_id));
        ASSERT_TRUE(forked);
        expect_messages(messages, forked->messages, fork_id);
    }
}

}  // namespace cubepi
