#include <string>
#include <utility>

#include <cubepi/testing/stores/store_probe.hpp>

namespace cubepi::testing::detail {

namespace {

bool has_hitl(StoreProbe& probe) { return probe.hitl() != nullptr; }
bool has_durable_hitl(StoreProbe& probe) { return probe.hitl() != nullptr && probe.can_reopen(); }

HitlRequest approval(std::string call_id, std::string path) {
    ApproveRequest payload;
    payload.tool_name = "rm";
    payload.tool_call_id = call_id;
    payload.args["path"] = std::move(path);
    HitlRequest request;
    request.question_id = std::move(call_id);
    request.thread_id = "t";
    request.payload = std::move(payload);
    request.created_at = 1700000003.25;
    request.extra["approval_digest"] = "sha256:00";
    return request;
}

Task<> ask(StoreProbe& probe, std::string run_id, std::string call_id, std::string path) {
    HitlRequest request = approval(std::move(call_id), std::move(path));
    co_await probe.hitl()->save_pending_request("t", std::move(run_id), std::move(request));
}

Task<std::string> pending_ids(StoreProbe& probe) {
    const std::vector<PendingRequest> pending = co_await probe.hitl()->load_pending_requests("t");
    std::string ids;
    for (const PendingRequest& one : pending)
        ids += one.run_id + ":" + one.request.question_id + " ";
    co_return ids;
}

Task<> check_pending(StoreProbe& probe) {
    std::string ids = co_await pending_ids(probe);
    probe.expect(ids.empty(), "a thread without requests has none");
    co_await ask(probe, "r", "a", "1");
    co_await ask(probe, "r", "b", "2");
    co_await ask(probe, "r", "c", "3");
    ids = co_await pending_ids(probe);
    probe.expect(ids == "r:a r:b r:c ", "requests are pending in the order they were made (D18)");
    co_await ask(probe, "r", "b", "2");
    ids = co_await pending_ids(probe);
    probe.expect(ids == "r:a r:b r:c ", "a request that is saved again keeps its place");
    bool cleared = co_await probe.hitl()->clear_pending_request("t", "other", "b");
    probe.expect(!cleared, "a request of another run is not cleared (D18)");
    cleared = co_await probe.hitl()->clear_pending_request("t", "r", "x");
    probe.expect(!cleared, "an unknown request is not cleared (D18)");
    cleared = co_await probe.hitl()->clear_pending_request("t", "r", "a");
    probe.expect(cleared, "a request is cleared when question and run match (D18)");
    ids = co_await pending_ids(probe);
    probe.expect(ids == "r:b r:c ", "the others stay when the first is cleared");
    co_await probe.hitl()->clear_pending_request("t", "r", "c");
    co_await probe.hitl()->clear_pending_request("t", "r", "b");
    ids = co_await pending_ids(probe);
    probe.expect(ids.empty(), "nothing is left when all are cleared");
}

Task<> check_pending_content(StoreProbe& probe) {
    const HitlRequest request = approval("a", "/tmp/x");
    co_await probe.hitl()->save_pending_request("t", "r", request);
    AskRequest payload;
    HitlQuestion question;
    question.key = "color";
    question.prompt = "Which?";
    HitlOption option;
    option.label = "Red";
    option.value = "red";
    question.options.emplace().push_back(std::move(option));
    payload.questions.push_back(std::move(question));
    HitlRequest second;
    second.question_id = "q.0";
    second.payload = std::move(payload);
    second.timeout_seconds = 60;
    co_await probe.hitl()->save_pending_request("t", "r", second);
    const std::vector<PendingRequest> pending = co_await probe.hitl()->load_pending_requests("t");
    probe.expect(pending.size() == 2, "both requests are pending");
    if (pending.size() != 2) co_return;
    probe.expect(to_json(pending[0].request) == to_json(request),
                 "an approval loads as it was saved, with its digest (D17)");
    probe.expect(to_json(pending[1].request) == to_json(second),
                 "a question loads as it was saved");
}

Task<> check_answers(StoreProbe& probe) {
    HitlStore& hitl = *probe.hitl();
    HitlAnswer answer;
    answer.run_id = "r";
    answer.question_id = "a";
    JsonObject decision;
    decision["decision"] = "edit";
    answer.answer = decision;
    co_await hitl.save_hitl_answer("t", answer);
    answer.question_id = "b";
    answer.answer = true;
    co_await hitl.save_hitl_answer("t", answer);
    answer.run_id = "other";
    co_await hitl.save_hitl_answer("t", answer);
    std::optional<Json> found = co_await hitl.load_hitl_answer("t", "r", "a");
    probe.expect(found && *found == Json(decision), "an answer loads as it was saved");
    found = co_await hitl.load_hitl_answer("t", "x", "a");
    probe.expect(!found, "an answer belongs to one run (D17)");
    std::vector<std::string> named(1, "a");
    co_await hitl.clear_hitl_answers("t", "r", std::move(named));
    found = co_await hitl.load_hitl_answer("t", "r", "a");
    probe.expect(!found, "a named answer is cleared");
    found = co_await hitl.load_hitl_answer("t", "r", "b");
    probe.expect(found.has_value(), "an answer that is not named stays");
    std::vector<std::string> all;
    co_await hitl.clear_hitl_answers("t", "r", std::move(all));
    found = co_await hitl.load_hitl_answer("t", "r", "b");
    probe.expect(!found, "without names all answers of a run are cleared");
    found = co_await hitl.load_hitl_answer("t", "other", "b");
    probe.expect(found.has_value(), "answers of another run stay");
}

Task<> check_durable_requests(StoreProbe& probe) {
    co_await ask(probe, "r", "a", "1");
    co_await ask(probe, "r", "b", "2");
    HitlAnswer answer;
    answer.run_id = "r";
    answer.question_id = "a";
    answer.answer = true;
    co_await probe.hitl()->save_hitl_answer("t", std::move(answer));
    probe.reopen();
    const std::string ids = co_await pending_ids(probe);
    probe.expect(ids == "r:a r:b ", "requests are pending after reopening (D18)");
    const std::optional<Json> found = co_await probe.hitl()->load_hitl_answer("t", "r", "a");
    probe.expect(found.has_value(), "answers are there after reopening");
}

}  // namespace

std::vector<StoreCheck> approver_checks() {
    return {
        {"pending_requests", check_pending, has_hitl},
        {"pending_content", check_pending_content, has_hitl},
        {"answers", check_answers, has_hitl},
        {"durable_requests", check_durable_requests, has_durable_hitl},
    };
}

}  // namespace cubepi::testing::detail
