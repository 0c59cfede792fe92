#include <chrono>
#include <string>
#include <utility>

#include <cubepi/agent/claim_owner.hpp>
#include <cubepi/testing/stores/store_probe.hpp>

namespace cubepi::testing::detail {

namespace {

bool has_runs(StoreProbe& probe) { return probe.runs() != nullptr; }
bool has_runs_and_time(StoreProbe& probe) { return probe.runs() != nullptr && probe.can_advance(); }

/// An owner with the identity of this process and another id.
ClaimOwner live_owner(std::string id) {
    ClaimOwner owner = current_process_owner();
    owner.owner_id = std::move(id);
    return owner;
}

/// A process of this host that has ended: no process has this pid.
ClaimOwner dead_owner(std::string id) {
    ClaimOwner owner = live_owner(std::move(id));
    owner.pid = 0x7ffffff0;
    return owner;
}

ClaimOwner remote_owner(std::string id) {
    ClaimOwner owner = dead_owner(std::move(id));
    owner.host = "another-host";
    owner.boot_id = "another-boot";
    return owner;
}

Task<> claim(StoreProbe& probe, std::string run_id, ClaimOwner owner, ClaimKind kind) {
    co_await probe.runs()->claim_run("t", std::move(run_id), std::move(owner), kind);
}

Task<> append_under(StoreProbe& probe, std::string run_id, std::string owner_id) {
    MessageList one = list_of(user_of_run("text", run_id));
    AppendOptions options = AppendOptions().claim(std::move(run_id), std::move(owner_id));
    co_await probe.store().append("t", std::move(one), std::move(options));
}

Task<> save_under(StoreProbe& probe, std::string run_id, std::string owner_id, std::string value) {
    JsonObject extra;
    extra["goal"] = std::move(value);
    AppendOptions unclaimed = AppendOptions().extra(std::move(extra));
    AppendOptions options = std::move(unclaimed).claim(std::move(run_id), std::move(owner_id));
    const CheckpointData before = co_await load_or_empty(probe.store(), "t");
    const std::int64_t position =
        co_await probe.store().append("t", MessageList(), std::move(options));
    const CheckpointData data = co_await load_or_empty(probe.store(), "t");
    probe.expect(position == data.position && data.messages == before.messages,
                 "an append without messages returns the position of the thread");
}

Task<> check_run_life(StoreProbe& probe) {
    RunStore& runs = *probe.runs();
    Task<> unclaimed = runs.mark_run_complete("t", "r");
    co_await expect_refused(probe, ErrorCode::run_not_claimed, std::move(unclaimed),
                            "completing an unclaimed run");
    co_await claim(probe, "r", live_owner("a"), ClaimKind::new_run);
    Task<> again = claim(probe, "r", live_owner("a"), ClaimKind::new_run);
    co_await expect_refused(probe, ErrorCode::run_already_claimed, std::move(again),
                            "claiming an open run as a new run");
    co_await claim(probe, "r", live_owner("a"), ClaimKind::continue_run);
    bool complete = co_await runs.is_run_complete("t", "r");
    probe.expect(!complete, "an open run is not complete");
    co_await append_under(probe, "r", "a");
    co_await runs.mark_run_complete("t", "r");
    co_await runs.mark_run_complete("t", "r");
    complete = co_await runs.is_run_complete("t", "r");
    probe.expect(complete, "a run is complete after it was marked, also twice");
    complete = co_await runs.is_run_complete("t", "other");
    probe.expect(!complete, "an unknown run is not complete");
    Task<> again_as_new = claim(probe, "r", live_owner("a"), ClaimKind::new_run);
    co_await expect_refused(probe, ErrorCode::run_already_completed, std::move(again_as_new),
                            "claiming a complete run");
    Task<> on = claim(probe, "r", live_owner("a"), ClaimKind::continue_run);
    co_await expect_refused(probe, ErrorCode::run_already_completed, std::move(on),
                            "continuing a complete run");
}

Task<> check_append_to_complete_run(StoreProbe& probe) {
    co_await claim(probe, "r", live_owner("a"), ClaimKind::new_run);
    co_await probe.runs()->mark_run_complete("t", "r");
    MessageList both = list_of(user_of_run("good", "open"));
    both.push_back(user_of_run("bad", "r"));
    Task<std::int64_t> append = probe.store().append("t", std::move(both), AppendOptions());
    co_await expect_refused(probe, ErrorCode::run_already_completed, std::move(append),
                            "a message of a complete run");
    const CheckpointData data = co_await load_or_empty(probe.store(), "t");
    probe.expect(data.messages.empty(), "of a refused append nothing is stored");
}

Task<> check_live_owner(StoreProbe& probe) {
    co_await claim(probe, "r1", live_owner("a"), ClaimKind::new_run);
    Task<> other = claim(probe, "r2", live_owner("b"), ClaimKind::new_run);
    const std::exception_ptr failure = co_await failure_of(std::move(other));
    probe.expect_error(ErrorCode::run_already_claimed, failure,
                       "a run next to that of another live owner (D50)");
    Task<> same = claim(probe, "r1", live_owner("b"), ClaimKind::continue_run);
    co_await expect_refused(probe, ErrorCode::run_already_claimed, std::move(same),
                            "continuing a live owner's run (D50)");
    const std::string named = live_owner("a").description;
    try {
        if (failure) std::rethrow_exception(failure);
    } catch (const RunAlreadyClaimedError& error) {
        const bool names_it = std::string_view(error.what()).find(named) != std::string_view::npos;
        probe.expect(names_it && error.owner() == named, "the error names the owner");
    } catch (...) {
    }
    co_await probe.runs()->release_claim("t", "r1", "a");
    co_await claim(probe, "r2", live_owner("b"), ClaimKind::new_run);
    co_await append_under(probe, "r2", "b");
}

Task<> check_complete_run_frees(StoreProbe& probe) {
    co_await claim(probe, "r1", live_owner("a"), ClaimKind::new_run);
    co_await probe.runs()->mark_run_complete("t", "r1");
    co_await claim(probe, "r2", live_owner("b"), ClaimKind::new_run);
}

Task<> check_dead_owner(StoreProbe& probe) {
    co_await claim(probe, "r1", dead_owner("dead"), ClaimKind::new_run);
    const ClaimResult result =
        co_await probe.runs()->claim_run("t", "r2", live_owner("b"), ClaimKind::new_run);
    probe.expect(
        result.superseded && result.superseded->owner_id == "dead" &&
            result.superseded_run_id == "r1",
        "the claim of a process that has ended is superseded at once, and this is reported (D50)");
    Task<> append = append_under(probe, "r1", "dead");
    co_await expect_refused(probe, ErrorCode::stale_append, std::move(append),
                            "an append under a superseded claim (D50)");
    Task<> renewal = probe.runs()->renew_claim("t", "r1", "dead");
    co_await expect_refused(probe, ErrorCode::stale_append, std::move(renewal),
                            "renewing a superseded claim (D50)");
    co_await append_under(probe, "r2", "b");
    const CheckpointData data = co_await load_or_empty(probe.store(), "t");
    probe.expect(data.messages.size() == 1, "the new owner writes, the old one does not");
}

Task<> check_continue_dead_run(StoreProbe& probe) {
    co_await claim(probe, "r", dead_owner("dead"), ClaimKind::new_run);
    const ClaimResult result =
        co_await probe.runs()->claim_run("t", "r", live_owner("b"), ClaimKind::continue_run);
    probe.expect(result.superseded.has_value(),
                 "a dead process's run can be continued under its id (D40, D50)");
    co_await append_under(probe, "r", "b");
    Task<> append = append_under(probe, "r", "dead");
    co_await expect_refused(probe, ErrorCode::stale_append, std::move(append),
                            "an append of the run's former owner (D50)");
}

Task<> check_extra_of_superseded_run(StoreProbe& probe) {
    co_await claim(probe, "r", dead_owner("dead"), ClaimKind::new_run);
    co_await save_under(probe, "r", "dead", "first");
    co_await append_under(probe, "r", "dead");
    co_await save_under(probe, "r", "dead", "second");
    co_await claim(probe, "r", live_owner("b"), ClaimKind::continue_run);
    co_await save_under(probe, "r", "b", "of the new owner");
    Task<> saving = save_under(probe, "r", "dead", "of the former owner");
    co_await expect_refused(probe, ErrorCode::stale_append, std::move(saving),
                            "saving extra alone under a superseded claim (D50)");
    const CheckpointData data = co_await load_or_empty(probe.store(), "t");
    probe.expect(data.extra.at("goal") == "of the new owner" && data.messages.size() == 1,
                 "the extra of a former owner is not stored");
}

Task<> check_completion_of_superseded_run(StoreProbe& probe) {
    RunStore& runs = *probe.runs();
    co_await claim(probe, "r", dead_owner("dead"), ClaimKind::new_run);
    co_await claim(probe, "r", live_owner("b"), ClaimKind::continue_run);
    Task<> completion = runs.complete_run("t", "r", "dead");
    co_await expect_refused(probe, ErrorCode::stale_append, std::move(completion),
                            "completing a run whose claim was superseded (D50)");
    completion = runs.complete_run("t", "r", "");
    co_await expect_refused(probe, ErrorCode::stale_append, std::move(completion),
                            "completing a claimed run as no owner (D50)");
    Task<> renewal = runs.renew_claim("t", "r", "");
    co_await expect_refused(probe, ErrorCode::stale_append, std::move(renewal),
                            "renewing a claim as no owner (D50)");
    co_await runs.release_claim("t", "r", "dead");
    co_await runs.release_claim("t", "r", "");
    co_await append_under(probe, "r", "b");
    bool complete = co_await runs.is_run_complete("t", "r");
    probe.expect(!complete, "a rejected completion leaves the run open");
    co_await runs.complete_run("t", "r", "b");
    complete = co_await runs.is_run_complete("t", "r");
    probe.expect(complete, "the owner of the claim completes the run");
    co_await runs.complete_run("t", "r", "dead");
    co_await claim(probe, "r2", live_owner("c"), ClaimKind::new_run);
}

Task<> check_ownerless_claim(StoreProbe& probe) {
    co_await claim(probe, "r1", ClaimOwner(), ClaimKind::new_run);
    Task<> again = claim(probe, "r1", live_owner("b"), ClaimKind::new_run);
    co_await expect_refused(probe, ErrorCode::run_already_claimed, std::move(again),
                            "claiming an open run as a new run");
    const ClaimResult result =
        co_await probe.runs()->claim_run("t", "r2", live_owner("b"), ClaimKind::new_run);
    probe.expect(!result.superseded, "a claim without owner does not hinder a new run (D50)");
}

Task<> check_lease(StoreProbe& probe) {
    using std::chrono::seconds;
    co_await claim(probe, "r1", remote_owner("far"), ClaimKind::new_run);
    probe.advance(seconds(40));
    co_await probe.runs()->renew_claim("t", "r1", "far");
    probe.advance(seconds(40));
    Task<> early = claim(probe, "r2", live_owner("b"), ClaimKind::new_run);
    co_await expect_refused(probe, ErrorCode::run_already_claimed, std::move(early),
                            "a run next to one elsewhere whose lease was renewed 40 s ago (D50)");
    probe.advance(seconds(30));
    const ClaimResult result =
        co_await probe.runs()->claim_run("t", "r2", live_owner("b"), ClaimKind::new_run);
    probe.expect(result.superseded && result.superseded->owner_id == "far",
                 "a claim elsewhere is superseded when its lease (60 s) is over (D50)");
    Task<> append = append_under(probe, "r1", "far");
    co_await expect_refused(probe, ErrorCode::stale_append, std::move(append),
                            "an append of a process that slept through its lease (D50)");
}

Task<> check_lease_of_frozen_process(StoreProbe& probe) {
    co_await claim(probe, "r1", live_owner("a"), ClaimKind::new_run);
    probe.advance(std::chrono::seconds(61));
    co_await append_under(probe, "r1", "a");
    co_await claim(probe, "r2", live_owner("b"), ClaimKind::new_run);
    Task<> append = append_under(probe, "r1", "a");
    co_await expect_refused(probe, ErrorCode::stale_append, std::move(append),
                            "an append of a frozen process after the takeover (D50)");
}

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

Task<> claim_run(StoreProbe& probe, std::string owner_id) {
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
    co_await claim_run(probe, "o1");
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
    co_await claim_run(probe, "o1");
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

std::vector<StoreCheck> run_checks() {
    return {
        {"run_life", check_run_life, has_runs},
        {"append_to_complete_run", check_append_to_complete_run, has_runs},
        {"claim_live_owner", check_live_owner, has_runs},
        {"claim_complete_run_frees", check_complete_run_frees, has_runs},
        {"claim_dead_owner", check_dead_owner, has_runs},
        {"claim_continue_dead_run", check_continue_dead_run, has_runs},
        {"claim_superseded_extra", check_extra_of_superseded_run, has_runs},
        {"claim_superseded_completion", check_completion_of_superseded_run, has_runs},
        {"claim_without_owner", check_ownerless_claim, has_runs},
        {"claim_lease", check_lease, has_runs_and_time},
        {"claim_frozen_process", check_lease_of_frozen_process, has_runs_and_time},
    };
}

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
