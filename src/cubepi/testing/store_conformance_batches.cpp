#include <string>
#include <utility>

#include <cubepi/testing/stores/store_probe.hpp>

namespace cubepi::testing::detail {

namespace {

bool has_batches(StoreProbe& probe) {
    return probe.batches() != nullptr && probe.hitl() != nullptr && probe.runs() != nullptr;
}
bool has_durable_batches(StoreProbe& probe) { return has_batches(probe) && probe.can_reopen(); }

Task<> save_answer(StoreProbe& probe, std::string question_id) {
    HitlAnswer answer;
    answer.run_id = "r";
    answer.question_id = std::move(question_id);
    answer.answer = true;
    co_await probe.hitl()->save_hitl_answer("t", std::move(answer));
}

Task<bool> has_answer(StoreProbe& probe, std::string question_id) {
    const std::optional<Json> found =
        co_await probe.hitl()->load_hitl_answer("t", "r", std::move(question_id));
    co_return found.has_value();
}

/// A batch whose calls use the answers to questions of the same ids.
BatchStart batch_of(std::string batch_id, std::vector<std::string> ids) {
    BatchStart start;
    start.run_id = "r";
    start.batch_id = std::move(batch_id);
    start.tool_call_ids = ids;
    start.question_ids = std::move(ids);
    return start;
}

Task<> mark(StoreProbe& probe, std::string batch_id, std::string call_id) {
    std::vector<std::string> ids(1, std::move(call_id));
    BatchStart start = batch_of(std::move(batch_id), std::move(ids));
    co_await probe.batches()->mark_batch_started("t", std::move(start));
}

/// Returns "batch: calls | questions of used answers".
Task<std::string> started(StoreProbe& probe) {
    const std::optional<StartedBatch> batch =
        co_await probe.batches()->load_started_batch("t", "r");
    std::string text;
    if (!batch) co_return text;
    text = batch->batch_id + ":";
    for (const std::string& call_id : batch->tool_call_ids) text += " " + call_id;
    text += " |";
    for (const HitlAnswer& answer : batch->used_answers) text += " " + answer.question_id;
    co_return text;
}

ClaimOwner owner_named(std::string id) {
    ClaimOwner owner;
    owner.owner_id = std::move(id);
    owner.host = "elsewhere";
    return owner;
}

Task<> claim(StoreProbe& probe, std::string owner_id) {
    ClaimOwner owner = owner_named(std::move(owner_id));
    (void)co_await probe.runs()->claim_run("t", "r", std::move(owner), ClaimKind::new_run);
}

Task<> check_mark(StoreProbe& probe) {
    std::string text = co_await started(probe);
    probe.expect(text.empty(), "a run without a mark has no started batch");
    co_await save_answer(probe, "a");
    co_await save_answer(probe, "b");
    co_await mark(probe, "m1", "a");
    text = co_await started(probe);
    probe.expect(text == "m1: a | a", "the mark is found with the answer that it uses (D62)");
    bool found = co_await has_answer(probe, "a");
    probe.expect(!found, "a used answer is not found again (D62)");
    found = co_await has_answer(probe, "b");
    probe.expect(found, "an answer that is not used is found again (D62)");
    co_await mark(probe, "m1", "b");
    text = co_await started(probe);
    probe.expect(text == "m1: a b | a b", "a second mark of the same batch adds to the first");
    co_await mark(probe, "m1", "b");
    text = co_await started(probe);
    probe.expect(text == "m1: a b | a b", "a repeated mark changes nothing");
    co_await mark(probe, "m2", "c");
    text = co_await started(probe);
    probe.expect(text == "m2: c |", "the mark of another batch replaces that of the former one");
}

Task<> check_settle(StoreProbe& probe) {
    HitlRequest request;
    request.question_id = "a";
    request.payload = ConfirmRequest();
    co_await probe.hitl()->save_pending_request("t", "r", std::move(request));
    for (const char* id : {"a", "b", "c"}) co_await save_answer(probe, id);
    co_await mark(probe, "m1", "b");
    const MessageList messages = list_of(answer_of_run("done", "r"));
    const std::vector<std::string> settled = {"a", "b"};
    AppendOptions late = AppendOptions().expected_position(77).settle("r", settled);
    Task<std::int64_t> refused = probe.store().append("t", messages, std::move(late));
    co_await expect_refused(probe, ErrorCode::stale_append, std::move(refused), "a stale append");
    AppendOptions other = AppendOptions().settle("other", settled);
    (void)co_await probe.store().append("t", messages, std::move(other));
    std::string text = co_await started(probe);
    probe.expect(text == "m1: b | b", "results of another run do not settle the questions");
    AppendOptions now = AppendOptions().settle("r", settled);
    (void)co_await probe.store().append("t", messages, std::move(now));
    text = co_await started(probe);
    probe.expect(text == "m1: b |", "a used answer is removed with its result (D62)");
    bool found = co_await has_answer(probe, "a");
    probe.expect(!found, "an answer is removed with its result (D62)");
    found = co_await has_answer(probe, "c");
    probe.expect(found, "an answer without a result is preserved");
    const std::vector<PendingRequest> pending = co_await probe.hitl()->load_pending_requests("t");
    probe.expect(pending.empty(), "a pending request is removed with the result of its question");
}

Task<> check_completion(StoreProbe& probe) {
    co_await claim(probe, "o1");
    co_await save_answer(probe, "a");
    co_await save_answer(probe, "b");
    co_await mark(probe, "m1", "a");
    co_await probe.runs()->complete_run("t", "r", "o1");
    const bool found = co_await has_answer(probe, "b");
    probe.expect(!found, "answers that led to no result are removed when the run completes (D62)");
    const std::string text = co_await started(probe);
    probe.expect(text.empty(), "the mark of a run is removed when the run completes");
}

Task<> check_fence(StoreProbe& probe) {
    co_await claim(probe, "o1");
    co_await save_answer(probe, "a");
    BatchStart start = batch_of("m1", std::vector<std::string>(1, "a"));
    start.owner_id = "o2";
    Task<void> foreign = probe.batches()->mark_batch_started("t", start);
    co_await expect_refused(probe, ErrorCode::stale_append, std::move(foreign),
                            "a mark without the claim");
    const bool found = co_await has_answer(probe, "a");
    probe.expect(found, "a refused mark does not use the answers (D50)");
    start.owner_id = "o1";
    co_await probe.batches()->mark_batch_started("t", start);
    const std::string text = co_await started(probe);
    probe.expect(text == "m1: a | a", "the owner of the claim marks the batch");
}

Task<> check_durable(StoreProbe& probe) {
    co_await save_answer(probe, "a");
    co_await save_answer(probe, "b");
    co_await mark(probe, "m1", "a");
    probe.reopen();
    const std::string text = co_await started(probe);
    probe.expect(text == "m1: a | a", "the mark is found after reopening (D62)");
    bool found = co_await has_answer(probe, "a");
    probe.expect(!found, "a used answer stays used after reopening (D62)");
    found = co_await has_answer(probe, "b");
    probe.expect(found, "an unused answer is found after reopening (D62)");
}

}  // namespace

std::vector<StoreCheck> batch_checks() {
    return {
        {"started_batch", check_mark, has_batches},
        {"settled_questions", check_settle, has_batches},
        {"completed_batch", check_completion, has_batches},
        {"fenced_batch", check_fence, has_batches},
        {"durable_batch", check_durable, has_durable_batches},
    };
}

}  // namespace cubepi::testing::detail
