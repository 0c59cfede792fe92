// The calls of the tests that check plans.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/server_checkpointer.hpp>
#include <cubepi/checkpoint/store_values_test.hpp>

namespace cubepi {

inline ClaimOwner owner_elsewhere() {
    ClaimOwner one;
    one.owner_id = "me";
    one.host = "elsewhere";
    return one;
}

/// Calls every function of a store on a server whose work is limited to one thread or one page. The database has the threads
/// t1 to t20000, each with the request "q" of the run "r0"; t1 has messages of the runs r0 to r3, which are complete.
inline void use_store(ServerCheckpointer& store) {
    const std::string id = "t1";
    const std::int64_t position = run(store.load(id))->position;
    run(store.claim_run(id, "new", owner_elsewhere(), ClaimKind::new_run));
    run(store.renew_claim(id, "new", "me"));
    AppendOptions options = AppendOptions()
                                .expected_position(position)
                                .extra(JsonObject{{"z", 1}, {"b", "x"}})
                                .claim("new", "me")
                                .settle("new", {"q9"});
    run(store.append(id, one(user("hello", "new", "message")), std::move(options)));
    EXPECT_TRUE(run(store.find_message(id, "message")));
    run(store.save_extra(id, JsonObject{{"c", 1}}));
    HitlAnswer answer;
    answer.run_id = "new";
    answer.question_id = "q1";
    answer.answer = JsonObject{{"z", 1}, {"b", 2}};
    run(store.save_hitl_answer(id, answer));
    EXPECT_TRUE(run(store.load_hitl_answer(id, "new", "q1")));
    BatchStart start;
    start.run_id = "new";
    start.owner_id = "me";
    start.batch_id = "b";
    start.tool_call_ids = {"call"};
    start.question_ids = {"q1"};
    run(store.mark_batch_started(id, start));
    EXPECT_TRUE(run(store.load_started_batch(id, "new")));
    run(store.clear_hitl_answers(id, "new", {}));
    run(store.complete_run(id, "new", "me"));
    EXPECT_TRUE(run(store.is_run_complete(id, "new")));
    HitlRequest request;
    request.question_id = "q2";
    run(store.save_pending_request("t2", "r", request));
    EXPECT_TRUE(run(store.clear_pending_request("t2", "r", "q2")));
    EXPECT_FALSE(run(store.snapshot(id, "r3")).empty());
    run(store.fork(id, "fork", "r3", JsonObject{{"why", "test"}}));
    run(store.delete_thread("t3"));
    for (const InboxOrder order : {InboxOrder::age, InboxOrder::deadline}) {
        InboxQuery query = InboxQuery().order(order);
        const InboxPage page = run(store.list_requests(std::move(query)));
        InboxQuery next = InboxQuery().order(order).after(page.next);
        EXPECT_EQ(run(store.list_requests(std::move(next))).entries.size(), 50U);
    }
    EXPECT_EQ(run(store.expire_due(300, 10)).size(), 10U);
    AnswerRecord record;
    record.run_id = "r0";
    record.question_id = "q";
    record.answer = true;
    run(store.answer_request("t400", std::move(record)));
    EXPECT_EQ(run(store.load_answer_records("t400")).size(), 1U);
    EXPECT_EQ(run(store.discard_requests("t500")), 1U);
}

}  // namespace cubepi
