#include <cubepi/core/error.hpp>

#include <exception>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <cubepi/core/number_text.hpp>
#include <cubepi/core/support/error_code_of.hpp>
#include <cubepi/core/support/error_with_text.hpp>

namespace cubepi {
namespace {

TEST(ErrorCode, EveryCode_HasItsOwnName) {
    std::set<std::string_view> names;
    for (int i = 0; i <= static_cast<int>(ErrorCode::pending_requests); ++i) {
        const std::string_view name = to_string(static_cast<ErrorCode>(i));
        EXPECT_TRUE(names.insert(name).second) << name << " twice";
        EXPECT_EQ(name == "unknown", i == 0);
        EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string_view::npos);
    }
    EXPECT_EQ(to_string(static_cast<ErrorCode>(250)), "unknown");
}

TEST(ErrorCode, StoredNames_AreStable) {
    EXPECT_EQ(to_string(ErrorCode::rate_limited), "rate_limited");
    EXPECT_EQ(to_string(ErrorCode::context_length), "context_length");
    EXPECT_EQ(to_string(ErrorCode::storage_locked), "storage_locked");
    EXPECT_EQ(to_string(ErrorCode::too_large), "too_large");
}

template <class Class>
void expect_thrown_for(ErrorCode code) {
    ErrorInfo info;
    info.code = code;
    info.status_code = 499;
    try {
        throw_provider_error(info, "the endpoint refused");
    } catch (const Class& error) {
        EXPECT_EQ(error.code(), code);
        EXPECT_EQ(error.info(), info);
        EXPECT_STREQ(error.what(), "the endpoint refused");
        return;
    } catch (...) {
    }
    FAIL() << to_string(code);
}

TEST(ProviderErrors, D9_ErrorClass_MatchesTheCode) {
    expect_thrown_for<ContextLengthExceeded>(ErrorCode::context_length);
    expect_thrown_for<RateLimited>(ErrorCode::rate_limited);
    expect_thrown_for<ProviderAuthFailed>(ErrorCode::auth);
    expect_thrown_for<ProviderUnavailable>(ErrorCode::unavailable);
    expect_thrown_for<ProviderBadRequest>(ErrorCode::bad_request);
    expect_thrown_for<ModelNotFound>(ErrorCode::model_not_found);
    expect_thrown_for<ContentFiltered>(ErrorCode::content_filtered);
    expect_thrown_for<ProviderError>(ErrorCode::provider);
    expect_thrown_for<ProviderError>(ErrorCode::disconnected);
}

TEST(Errors, AllErrors_HaveOneBaseClass) {
    const TimeoutError timeout("first_byte", "nothing came for 30 s");
    EXPECT_EQ(static_cast<const Error&>(timeout).code(), ErrorCode::timeout);
    EXPECT_EQ(timeout.timeout(), "first_byte");
    const StaleAppendError stale(ErrorCode::stale_append, "someone was faster", "t", "r");
    EXPECT_EQ(static_cast<const Error&>(stale).code(), ErrorCode::stale_append);
    EXPECT_EQ(stale.thread_id(), "t");
    EXPECT_EQ(stale.run_id(), "r");
    const CheckpointCorruptionError corrupt("row unreadable", "t", "sqlite", "messages.id=17");
    EXPECT_EQ(corrupt.code(), ErrorCode::storage_corrupt);
    EXPECT_EQ(corrupt.backend(), "sqlite");
    EXPECT_EQ(corrupt.row_ref(), "messages.id=17");
    EXPECT_EQ(corrupt.thread_id(), "t");
}

class OwnError final : public Error {
public:
    OwnError() : Error(ErrorCode::not_found, "own") {}
};

TEST(ErrorWithText, KnownError_KeepsCodeTypeAndFields) {
    const auto original = std::make_exception_ptr(
        CheckpointCorruptionError("row unreadable", "t", "sqlite", "messages.id=17"));
    const auto copy = detail::error_with_text(original, "hook x failed: row unreadable");
    const auto* typed = dynamic_cast<const CheckpointCorruptionError*>(copy.get());
    ASSERT_TRUE(typed);
    EXPECT_STREQ(typed->what(), "hook x failed: row unreadable");
    EXPECT_EQ(typed->code(), ErrorCode::storage_corrupt);
    EXPECT_EQ(typed->row_ref(), "messages.id=17");
    EXPECT_EQ(exception_text(original), "row unreadable");
}

TEST(ErrorWithText, UnknownErrorType_IsReturnedAsThrown) {
    auto original = std::make_exception_ptr(OwnError());
    const auto same = detail::error_with_text(original, "other text");
    original = nullptr;
    EXPECT_TRUE(dynamic_cast<const OwnError*>(same.get()));
    EXPECT_STREQ(same->what(), "own");
}

TEST(ErrorWithText, OtherException_HasCodeUnknown) {
    const auto made = detail::error_with_text(std::make_exception_ptr(42), "text");
    EXPECT_EQ(made->code(), ErrorCode::unknown);
    EXPECT_STREQ(made->what(), "text");
}

TEST(NumberText, ReadableDecimals_HaveNoExponent) {
    EXPECT_EQ(number_text(1.5), "1.5");
    EXPECT_EQ(number_text(0), "0");
    EXPECT_EQ(number_text(120), "120");
    EXPECT_EQ(number_text(100000), "100000");
    EXPECT_EQ(number_text(-0.002), "-0.002");
    EXPECT_EQ(number_text(0.1), "0.1");
    EXPECT_EQ(number_text(123456789.25), "123456789.25");
}

TEST(NumberText, ExtremeValues_HaveAnExponent) {
    EXPECT_EQ(number_text(1e25), "1e+25");
    EXPECT_EQ(number_text(1e-9), "1e-09");
    EXPECT_EQ(number_text(-std::numeric_limits<double>::max()), "-1.7976931348623157e+308");
    EXPECT_EQ(number_text(std::numeric_limits<double>::denorm_min()), "5e-324");
    EXPECT_EQ(number_text(std::numeric_limits<double>::infinity()), "inf");
}

TEST(NumberText, Durations_AreInSeconds) {
    EXPECT_EQ(seconds_text(std::chrono::seconds(120)), "120 s");
    EXPECT_EQ(seconds_text(std::chrono::milliseconds(1500)), "1.5 s");
    EXPECT_EQ(seconds_text(std::chrono::nanoseconds(999)), "0 s");
    EXPECT_EQ(seconds_text(std::chrono::microseconds(250)), "0.00025 s");
}

TEST(RoundedSecondsText, Seconds_HaveOneDigitAfterThePoint) {
    EXPECT_EQ(rounded_seconds_text(std::chrono::nanoseconds(0)), "0.0 s");
    EXPECT_EQ(rounded_seconds_text(std::chrono::milliseconds(940)), "0.9 s");
    EXPECT_EQ(rounded_seconds_text(std::chrono::milliseconds(960)), "1.0 s");
    EXPECT_EQ(rounded_seconds_text(std::chrono::seconds(120)), "120.0 s");
}

TEST(ErrorCodeOf, ErrorsHaveTheirCode_OthersAreUnknown) {
    const auto code_of = [](const auto& error) {
        return detail::error_code_of(std::make_exception_ptr(error));
    };
    EXPECT_EQ(code_of(Error(ErrorCode::limit, "full")), ErrorCode::limit);
    EXPECT_EQ(code_of(CheckpointerError(ErrorCode::storage_full, "full")), ErrorCode::storage_full);
    EXPECT_EQ(code_of(std::runtime_error("full")), ErrorCode::unknown);
    EXPECT_EQ(detail::error_code_of(nullptr), ErrorCode::unknown);
}

}  // namespace

}  // namespace cubepi
