// How each store of an earlier version is continued.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/run.hpp>

namespace cubepi {

using Texts = std::vector<std::string>;

inline ClaimOwner continuer() {
    ClaimOwner owner;
    owner.owner_id = "continuer";
    return owner;
}

inline MessageList prompt(std::string text, const std::string& run_id) {
    MessageList list;
    list.push_back(user_message(std::move(text)).with_run_id(SharedString(run_id)));
    return list;
}

inline Texts listed_threads(ThreadStore& store) {
    Texts ids;
    for (const ThreadInfo& thread : run(store.list_threads())) {
        if (thread.message_count == 2 && (thread.thread_id == "asks" || thread.thread_id == "done"))
            ids.push_back(thread.thread_id);
    }
    std::sort(ids.begin(), ids.end());
    return ids;
}

template <class Store>
void continue_conversation(Store& store) {
    EXPECT_EQ(listed_threads(store), (Texts{"asks", "done"}));
    const CheckpointData data = run(store.load("done")).value();
    ASSERT_EQ(data.messages.size(), 2U);
    EXPECT_EQ(data.messages[0].text(), "größe?");
    EXPECT_EQ(data.messages[1].text(), "42");
    EXPECT_EQ(data.extra.at("title"), "sizes");
    EXPECT_TRUE(run(store.is_run_complete("done", "run-1")));
    run(store.claim_run("done", "run-3", continuer(), ClaimKind::new_run));
    AppendOptions options =
        AppendOptions().expected_position(data.position).claim("run-3", "continuer");
    run(store.append("done", prompt("more", "run-3"), std::move(options)));
    run(store.complete_run("done", "run-3", "continuer"));
    EXPECT_EQ(run(store.load("done"))->messages.size(), 3U);
    EXPECT_EQ(run(store.snapshot("done", "run-1")).size(), 2U);
}

template <class Store>
void answer_question(Store& store) {
    const QuestionPage page = run(store.list_requests(QuestionQuery()));
    ASSERT_EQ(page.entries.size(), 1U);
    const QuestionEntry& entry = page.entries[0];
    EXPECT_EQ(entry.thread_id, "asks");
    EXPECT_EQ(entry.run_id, "run-2");
    ASSERT_TRUE(entry.request) << entry.damage;
    EXPECT_EQ(std::get<ApproveRequest>(entry.request->payload).args.at("path"), "a");
    AnswerRecord record;
    record.run_id = "run-2";
    record.question_id = "call-1";
    record.answer = true;
    record.answered_at = entry.created_at + 1;
    run(store.answer_request("asks", record));
    EXPECT_TRUE(run(store.list_requests(QuestionQuery())).entries.empty());
    EXPECT_EQ(run(store.load_hitl_answer("asks", "run-2", "call-1")), Json(true));
    run(store.claim_run("asks", "run-2", continuer(), ClaimKind::continue_run));
    AppendOptions options =
        AppendOptions().claim("run-2", "continuer").settle("run-2", Texts(1, "call-1"));
    run(store.append("asks", prompt("instead of the call", "run-2"), std::move(options)));
    EXPECT_FALSE(run(store.load_hitl_answer("asks", "run-2", "call-1")));
    run(store.complete_run("asks", "run-2", "continuer"));
    EXPECT_EQ(run(store.load_answer_records("asks", "")).size(), 1U);
}

/// The messages of a tape, and the status of its last turn.
inline std::string shape(const bub::Tape& tape) {
    std::string shape;
    for (const bub::TapeEntry& entry : run(tape.query(bub::TapeQuery()))) {
        if (entry.kind == "message")
            shape += std::string(entry.payload.at("content").as_string()) + "|";
        else if (bub::entry_name(entry) == "turn")
            shape += std::string(entry.payload.at("data").at("status").as_string()) + "|";
    }
    return shape;
}

}  // namespace cubepi
