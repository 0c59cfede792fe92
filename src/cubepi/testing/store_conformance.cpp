#include <cubepi/testing/store_conformance.hpp>

#include <utility>

#include <cubepi/core/run.hpp>
#include <cubepi/testing/stores/store_probe.hpp>

namespace cubepi::testing {

namespace detail {

namespace {

std::string describe(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const Error& error) {
        return std::string(to_string(error.code())) + " (" + error.what() + ")";
    } catch (...) {
        return exception_text(failure);
    }
}

bool has_code(const std::exception_ptr& failure, ErrorCode code) {
    try {
        std::rethrow_exception(failure);
    } catch (const Error& error) {
        return error.code() == code;
    } catch (...) {
        return false;
    }
}

std::vector<StoreCheck> all_checks() {
    std::vector<StoreCheck> checks = message_checks();
    for (const auto& part :
         {run_checks(), approver_checks(), batch_checks(), inbox_checks(), thread_checks()}) {
        checks.insert(checks.end(), part.begin(), part.end());
    }
    return checks;
}

}  // namespace

void StoreProbe::expect_error(ErrorCode code, const std::exception_ptr& failure,
                              std::string_view what) {
    const std::string wanted =
        std::string(what) + " is refused with " + std::string(to_string(code));
    if (!failure) {
        fail("expected: " + wanted + "; it succeeded");
    } else if (!has_code(failure, code)) {
        fail("expected: " + wanted + "; it failed with " + describe(failure));
    }
}

Message user_of_run(std::string text, std::string run_id, std::string id) {
    UserMessage message;
    TextContent block;
    block.text = std::move(text);
    message.content.emplace_back(std::move(block));
    message.id = std::move(id);
    message.timestamp = 1700000000.5;
    message.run_id = SharedString(std::move(run_id));
    return message;
}

Message answer_of_run(std::string text, std::string run_id) {
    AssistantMessage message;
    TextContent block;
    block.text = std::move(text);
    message.content.emplace_back(std::move(block));
    message.run_id = SharedString(std::move(run_id));
    return message;
}

MessageList list_of(Message message) {
    MessageList list;
    list.push_back(std::move(message));
    return list;
}

Task<CheckpointData> load_or_empty(Checkpointer& store, std::string thread_id) {
    std::optional<CheckpointData> data = co_await store.load(std::move(thread_id));
    if (!data) data.emplace();
    co_return std::move(*data);
}

}  // namespace detail

std::vector<std::string> store_checks() {
    std::vector<std::string> names;
    for (const detail::StoreCheck& check : detail::all_checks()) names.emplace_back(check.name);
    return names;
}

std::vector<StoreFailure> check_store(const StoreUnderTest& store) {
    std::vector<StoreFailure> failures;
    for (const detail::StoreCheck& check : detail::all_checks()) {
        detail::StoreProbe probe(store, check.name);
        if (!check.applies(probe)) continue;
        const std::exception_ptr failure = run(detail::failure_of(check.run(probe)));
        if (failure) probe.fail("unexpected " + detail::describe(failure));
        for (StoreFailure& one : probe.take()) failures.push_back(std::move(one));
    }
    return failures;
}

}  // namespace cubepi::testing
