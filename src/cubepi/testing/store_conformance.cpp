#include <cubepi/testing/store_conformance.hpp>

#include <array>
#include <limits>
#include <string>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/error_code_of.hpp>
#include <cubepi/testing/stores/store_probe.hpp>

namespace cubepi::testing::detail {

namespace {

constexpr std::array<const char*, 18> odd_texts{"a",
                                                "\xc3\xa9",
                                                "\xf0\x9f\x98\x80",
                                                "\xe2\x80\xa8",
                                                "\xc2\x85",
                                                "\x01",
                                                "\x7f",
                                                "\\",
                                                "\"",
                                                "\n",
                                                "\r\n",
                                                "\t",
                                                "</",
                                                "\xef\xbb\xbf",
                                                "\xef\xbf\xbd",
                                                "e\xcc\x81",
                                                "\xef\xbf\xbf",
                                                "  "};

/// splitmix64: the same on every platform, unlike the distributions of the standard library.
class Maker {
public:
    explicit Maker(std::uint64_t seed) : state_(seed) {}

    std::size_t below(std::size_t end) { return static_cast<std::size_t>(next() % end); }
    bool maybe() { return below(2) == 0; }

    std::string text() {
        std::string made;
        for (std::size_t i = below(8); i > 0; --i) {
            const std::size_t which = below(odd_texts.size() + 1);
            if (which < odd_texts.size()) {
                made += odd_texts[which];
            } else {
                made += '\0';
            }
        }
        return made;
    }
    std::string some_text() { return "x" + text(); }

    Json value(int depth = 0) {
        switch (below(depth < 3 ? 9 : 6)) {
            case 0: return nullptr;
            case 1: return maybe();
            case 2: return integer();
            case 3: return number();
            case 4:
            case 5: return Json(text());
            case 6: return std::uint64_t{std::numeric_limits<std::uint64_t>::max()};
            case 7: {
                JsonArray array;
                for (std::size_t i = below(4); i > 0; --i) array.push_back(value(depth + 1));
                return array;
            }
            default: return object(depth + 1);
        }
    }
    JsonObject object(int depth = 0) {
        JsonObject made;
        for (std::size_t i = below(4); i > 0; --i) made[text()] = value(depth + 1);
        return made;
    }
    /// Returns keys that the format does not define.
    JsonObject unknown_keys() {
        JsonObject made;
        if (below(4) == 0) made["of a newer writer " + text()] = value();
        return made;
    }

    TextContent text_block() {
        TextContent block;
        block.text = text();
        block.extra = unknown_keys();
        return block;
    }
    ImageContent image_block() {
        ImageContent block;
        block.source = maybe() ? "aGk=" : text();
        block.media_type = maybe() ? "image/png" : "";
        block.extra = unknown_keys();
        return block;
    }
    ToolCall call_block() {
        ToolCall block;
        block.id = text();
        block.name = some_text();
        block.arguments = object();
        block.extra = unknown_keys();
        return block;
    }
    AssistantContent assistant_block() {
        switch (below(4)) {
            case 0: return text_block();
            case 1: return image_block();
            case 2: return call_block();
            default: {
                ThinkingContent block;
                block.thinking = text();
                block.extra = unknown_keys();
                return block;
            }
        }
    }
    Content block() {
        if (maybe()) return text_block();
        return image_block();
    }

    template <class M>
    void fill_common(M& message) {
        if (maybe()) message.id = some_text();
        if (maybe()) message.timestamp = 1700000000.0 + number_below_one();
        message.metadata = object();
        if (maybe()) message.run_id = SharedString(some_text());
        message.extra = unknown_keys();
    }
    Message user() {
        UserMessage message;
        for (std::size_t i = below(4); i > 0; --i) message.content.push_back(block());
        fill_common(message);
        return message;
    }
    Message assistant() {
        AssistantMessage message;
        for (std::size_t i = below(5); i > 0; --i) message.content.push_back(assistant_block());
        constexpr std::array<const char*, 4> reasons{"stop", "tool_use", "error", "unheard of"};
        message.stop_reason = stop_reason::shared(reasons[below(reasons.size())]);
        if (maybe()) message.error_message = some_text();
        if (maybe()) message.error = error();
        if (maybe()) message.usage = usage();
        message.provider_id = SharedString(text());
        message.model_id = SharedString(text());
        if (maybe()) message.response_id = SharedString(some_text());
        fill_common(message);
        return message;
    }
    Message tool_result() {
        ToolResultMessage message;
        message.tool_call_id = SharedString(text());
        message.tool_name = SharedString(some_text());
        for (std::size_t i = below(4); i > 0; --i) message.content.push_back(block());
        message.details = value();
        message.is_error = maybe();
        fill_common(message);
        return message;
    }

private:
    std::uint64_t next() {
        state_ += 0x9E3779B97F4A7C15U;
        std::uint64_t mixed = state_;
        mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9U;
        mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBU;
        return mixed ^ (mixed >> 31U);
    }
    std::int64_t integer() {
        using limits = std::numeric_limits<std::int64_t>;
        const std::array<std::int64_t, 6> edges{
            0, -1, 9007199254740993, 1700000000, limits::max(), limits::min()};
        return edges[below(edges.size())];
    }
    double number() {
        using limits = std::numeric_limits<double>;
        const std::array<double, 7> edges{0.1,  1.0,          1e16, -1e-7, 123456789.123456789,
                                          1e22, limits::max()};
        return edges[below(edges.size())];
    }
    double number_below_one() { return static_cast<double>(below(1'000'000)) / 1e6; }
    ErrorInfo error() {
        ErrorInfo made;
        made.type = "RateLimited";
        made.code = ErrorCode::rate_limited;
        if (maybe()) made.provider_code = some_text();
        if (maybe()) made.status_code = 429;
        if (maybe()) made.retry_after = 1.5;
        if (maybe()) made.tokens_in = 7;
        if (maybe()) made.context_window = 200'000;
        return made;
    }
    Usage usage() {
        Usage made;
        for (TokenCount* count : {&made.input_tokens, &made.output_tokens, &made.cache_read_tokens,
                                  &made.cache_write_tokens, &made.reasoning_tokens}) {
            if (maybe()) *count = TokenCount(static_cast<std::int64_t>(below(1U << 30U)));
        }
        return made;
    }

    std::uint64_t state_;
};

}  // namespace

MessageList generated_messages(std::uint64_t seed, std::size_t count) {
    Maker maker(seed);
    MessageList list;
    for (std::size_t i = 0; i < count; ++i) {
        switch (maker.below(3)) {
            case 0: list.push_back(maker.user()); break;
            case 1: list.push_back(maker.assistant()); break;
            default: list.push_back(maker.tool_result()); break;
        }
    }
    return list;
}

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
    return cubepi::detail::error_code_of(failure) == code;
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

}  // namespace cubepi::testing::detail

namespace cubepi::testing {

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
