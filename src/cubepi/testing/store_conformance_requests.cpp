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

Task<> ask_approval(StoreProbe& probe, std::string run_id, std::string call_id, std::string path) {
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
    co_await ask_approval(probe, "r", "a", "1");
    co_await ask_approval(probe, "r", "b", "2");
    co_await ask_approval(probe, "r", "c", "3");
    ids = co_await pending_ids(probe);
    probe.expect(ids == "r:a r:b r:c ", "requests are pending in the order they were made (D18)");
    co_await ask_approval(probe, "r", "b", "2");
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
    co_await ask_approval(probe, "r", "a", "1");
    co_await ask_approval(probe, "r", "b", "2");
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

bool has_inbox(StoreProbe& probe) { return probe.inbox() != nullptr && probe.hitl() != nullptr; }
bool has_durable_inbox(StoreProbe& probe) { return has_inbox(probe) && probe.can_reopen(); }

/// Asks a question in a thread. `timeout` 0: no timeout.
Task<> ask(StoreProbe& probe, std::string thread_id, double created_at, double timeout) {
    ConfirmRequest payload;
    payload.prompt = "Continue?";
    HitlRequest request;
    request.question_id = "q";
    request.thread_id = thread_id;
    request.payload = std::move(payload);
    request.created_at = created_at;
    if (timeout > 0) request.timeout_seconds = timeout;
    co_await probe.hitl()->save_pending_request(std::move(thread_id), "r", std::move(request));
}

AnswerRecord yes_at(double answered_at) {
    AnswerRecord record;
    record.run_id = "r";
    record.question_id = "q";
    record.answer = true;
    record.answered_at = answered_at;
    record.user = "anna";
    record.channel = "terminal";
    return record;
}

std::string threads_of(const std::vector<QuestionEntry>& entries) {
    std::string text;
    for (const QuestionEntry& entry : entries) text += entry.thread_id + " ";
    return text;
}

/// Reads the pages one after the other.
Task<std::string> listed(StoreProbe& probe, QuestionOrder order, std::size_t limit) {
    std::string text;
    std::string cursor;
    do {
        QuestionQuery query = QuestionQuery().order(order).limit(limit).after(cursor);
        const QuestionPage page = co_await probe.inbox()->list_requests(std::move(query));
        text += threads_of(page.entries) + "|";
        cursor = page.next;
    } while (!cursor.empty());
    co_return text;
}

Task<> check_order(StoreProbe& probe) {
    std::string text = co_await listed(probe, QuestionOrder::age, 2);
    probe.expect(text == "|", "a store without requests has an empty page");
    co_await ask(probe, "c", 30.25, 0);
    co_await ask(probe, "a", 10, 100);
    co_await ask(probe, "b", 20, 5);
    co_await ask(probe, "d", 30.25, 0);
    co_await ask(probe, "e", 40, 1);
    text = co_await listed(probe, QuestionOrder::age, 2);
    probe.expect(text == "a b |c d |e |", "the oldest requests come first, page by page");
    text = co_await listed(probe, QuestionOrder::deadline, 2);
    probe.expect(text == "b e |a c |d |", "requests without a timeout follow those with one");
    text = co_await listed(probe, QuestionOrder::age, 5);
    probe.expect(text == "a b c d e |", "a full page that is the last one has no cursor");
}

Task<> check_changes_between_pages(StoreProbe& probe) {
    for (const char* thread_id : {"a", "b", "c", "d"}) co_await ask(probe, thread_id, 10, 0);
    QuestionQuery query = QuestionQuery().limit(2);
    const QuestionPage first = co_await probe.inbox()->list_requests(std::move(query));
    probe.expect(threads_of(first.entries) == "a b ", "requests of one time are in a fixed order");
    co_await probe.hitl()->clear_pending_request("b", "r", "q");
    co_await ask(probe, "0", 1, 0);
    QuestionQuery rest = QuestionQuery().limit(2).after(first.next);
    const QuestionPage second = co_await probe.inbox()->list_requests(std::move(rest));
    probe.expect(threads_of(second.entries) == "c d ",
                 "changes between two pages neither hide nor repeat a request");
}

Task<> check_cursor(StoreProbe& probe) {
    for (const char* thread_id : {"a", "b"}) co_await ask(probe, thread_id, 10, 0);
    QuestionQuery query = QuestionQuery().limit(1);
    const QuestionPage page = co_await probe.inbox()->list_requests(std::move(query));
    QuestionQuery other = QuestionQuery().order(QuestionOrder::deadline).after(page.next);
    Task<QuestionPage> refused = probe.inbox()->list_requests(std::move(other));
    co_await expect_refused(probe, ErrorCode::invalid_argument, std::move(refused),
                            "a cursor of the other order");
    QuestionQuery forged = QuestionQuery().after("17");
    refused = probe.inbox()->list_requests(std::move(forged));
    co_await expect_refused(probe, ErrorCode::invalid_argument, std::move(refused),
                            "a cursor of another form");
    QuestionQuery nothing = QuestionQuery().limit(0);
    refused = probe.inbox()->list_requests(std::move(nothing));
    co_await expect_refused(probe, ErrorCode::invalid_argument, std::move(refused),
                            "a page without entries");
}

Task<> check_expiry(StoreProbe& probe) {
    co_await ask(probe, "a", 10, 100);
    co_await ask(probe, "b", 20, 5);
    co_await ask(probe, "c", 20, 0);
    co_await ask(probe, "d", 20, 80);
    std::vector<QuestionEntry> expired = co_await probe.inbox()->expire_due(24.5, 10);
    probe.expect(expired.empty(), "a request is pending until its timeout has passed (D65)");
    expired = co_await probe.inbox()->expire_due(110, 2);
    probe.expect(threads_of(expired) == "b d ", "the earliest deadlines expire first (D65)");
    expired = co_await probe.inbox()->expire_due(110, 2);
    probe.expect(threads_of(expired) == "a ", "the next call expires the others (D65)");
    const std::string text = co_await listed(probe, QuestionOrder::age, 10);
    probe.expect(text == "c |", "expired requests are not listed (D65)");
    const std::vector<PendingRequest> pending = co_await probe.hitl()->load_pending_requests("b");
    probe.expect(pending.size() == 1 && pending.front().expired,
                 "an expired request is loaded until its run clears it (D65)");
    AnswerRecord early = yes_at(21);
    Task<void> late = probe.inbox()->answer_request("b", std::move(early));
    co_await expect_refused(probe, ErrorCode::stale_answer, std::move(late),
                            "an answer to an expired request, also after the clock was set back");
    const bool cleared = co_await probe.hitl()->clear_pending_request("b", "r", "q");
    probe.expect(cleared, "an expired request can be cleared");
}

Task<> check_answering(StoreProbe& probe) {
    co_await ask(probe, "t", 10, 100);
    AnswerRecord record = yes_at(110);
    Task<void> refused = probe.inbox()->answer_request("t", std::move(record));
    co_await expect_refused(probe, ErrorCode::stale_answer, std::move(refused),
                            "an answer after the deadline (D65)");
    record = yes_at(20);
    record.run_id = "other";
    refused = probe.inbox()->answer_request("t", std::move(record));
    co_await expect_refused(probe, ErrorCode::stale_answer, std::move(refused),
                            "an answer of another run (D62)");
    record = yes_at(20);
    co_await probe.inbox()->answer_request("t", record);
    refused = probe.inbox()->answer_request("t", std::move(record));
    co_await expect_refused(probe, ErrorCode::stale_answer, std::move(refused), "a second answer");
    const std::optional<Json> found = co_await probe.hitl()->load_hitl_answer("t", "r", "q");
    probe.expect(found && *found == Json(true), "the answer is found by the run");
    const std::vector<PendingRequest> pending = co_await probe.hitl()->load_pending_requests("t");
    probe.expect(pending.empty(), "an answered request is not pending");
}

Task<> check_records(StoreProbe& probe) {
    co_await ask(probe, "t", 10, 0);
    AnswerRecord record = yes_at(20);
    co_await probe.inbox()->answer_request("t", std::move(record));
    std::vector<std::string> all;
    co_await probe.hitl()->clear_hitl_answers("t", "r", std::move(all));
    const std::vector<AnswerRecord> records = co_await probe.inbox()->load_answer_records("t", "");
    probe.expect(records.size() == 1, "the record of an answer stays when the answer is cleared");
    if (records.size() != 1) co_return;
    const AnswerRecord& one = records.front();
    probe.expect(one.user == "anna" && one.channel == "terminal" && one.answered_at == 20,
                 "a record contains who answered, from where and when");
    probe.expect(one.answer == Json(true) && one.request && one.request->question_id == "q",
                 "a record contains the request and the answer");
    const std::vector<AnswerRecord> of_run = co_await probe.inbox()->load_answer_records("t", "r");
    const std::vector<AnswerRecord> of_other =
        co_await probe.inbox()->load_answer_records("t", "other");
    probe.expect(of_run.size() == 1 && of_other.empty(), "records are selected by their run");
    const std::vector<AnswerRecord> none = co_await probe.inbox()->load_answer_records("x", "");
    probe.expect(none.empty(), "records belong to one thread");
}

Task<> check_discard(StoreProbe& probe) {
    co_await ask(probe, "t", 10, 0);
    co_await ask(probe, "u", 10, 0);
    std::size_t count = co_await probe.inbox()->discard_requests("t");
    probe.expect(count == 1, "the number of discarded requests is returned");
    count = co_await probe.inbox()->discard_requests("t");
    probe.expect(count == 0, "a thread without requests has none to discard");
    const std::string text = co_await listed(probe, QuestionOrder::age, 10);
    probe.expect(text == "u |", "the requests of other threads stay");
}

Task<> check_durable(StoreProbe& probe) {
    co_await ask(probe, "a", 10, 5);
    co_await ask(probe, "b", 20, 0);
    co_await ask(probe, "c", 30, 0);
    (void)co_await probe.inbox()->expire_due(50, 10);
    AnswerRecord record = yes_at(50);
    co_await probe.inbox()->answer_request("c", std::move(record));
    probe.reopen();
    const std::string text = co_await listed(probe, QuestionOrder::age, 10);
    probe.expect(text == "b |", "the inbox is the same after reopening");
    const std::vector<AnswerRecord> records = co_await probe.inbox()->load_answer_records("c", "");
    probe.expect(records.size() == 1, "records of answers are there after reopening");
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

std::vector<StoreCheck> inbox_checks() {
    return {
        {"inbox_order", check_order, has_inbox},
        {"inbox_changes", check_changes_between_pages, has_inbox},
        {"inbox_cursor", check_cursor, has_inbox},
        {"inbox_expiry", check_expiry, has_inbox},
        {"inbox_answers", check_answering, has_inbox},
        {"inbox_records", check_records, has_inbox},
        {"inbox_discard", check_discard, has_inbox},
        {"durable_inbox", check_durable, has_durable_inbox},
    };
}

}  // namespace cubepi::testing::detail
