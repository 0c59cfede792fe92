#include <cubepi/provider/error_classification.hpp>

#include <gtest/gtest.h>

#include <cubepi/net/network_error.hpp>
#include <cubepi/net/utf8.hpp>

namespace cubepi {
namespace {

struct Case {
    int status;
    const char* body;
    ErrorCode code;
    const char* type;
};

TEST(Classification, D9_StatusCodeAndWords_DetermineTheError) {
    const Case cases[] = {
        {400, R"({"error":{"message":"messages: at least one message is required"}})",
         ErrorCode::bad_request, "ProviderBadRequest"},
        {401, R"({"error":{"message":"invalid x-api-key","code":"invalid_api_key"}})",
         ErrorCode::auth, "ProviderAuthFailed"},
        {403, R"({"error":"no"})", ErrorCode::auth, "ProviderAuthFailed"},
        {404, R"({"error":{"message":"The model `x` does not exist"}})", ErrorCode::model_not_found,
         "ModelNotFound"},
        {404, R"({"error":"model 'x' not found"})", ErrorCode::model_not_found, "ModelNotFound"},
        {404, R"({"detail":"Not Found"})", ErrorCode::bad_request, "ProviderBadRequest"},
        {400, R"({"error":{"message":"no","code":"model_not_found"}})", ErrorCode::model_not_found,
         "ModelNotFound"},
        {408, "", ErrorCode::unavailable, "ProviderUnavailable"},
        {422, R"({"detail":"bad"})", ErrorCode::bad_request, "ProviderBadRequest"},
        {429, "slow down", ErrorCode::rate_limited, "RateLimited"},
        {403, R"({"error":{"message":"Quota exceeded"}})", ErrorCode::rate_limited, "RateLimited"},
        {500, R"({"error":{"message":"rate limit reached"}})", ErrorCode::rate_limited,
         "RateLimited"},
        {500, "oops", ErrorCode::unavailable, "ProviderUnavailable"},
        {529, R"({"error":{"type":"overloaded_error","message":"Overloaded"}})",
         ErrorCode::unavailable, "ProviderUnavailable"},
        {400, R"({"error":{"message":"x","code":"context_length_exceeded"}})",
         ErrorCode::context_length, "ContextLengthExceeded"},
        {400, R"({"error":{"message":"This model's maximum context length is 8192 tokens"}})",
         ErrorCode::context_length, "ContextLengthExceeded"},
        {400, R"({"error":{"message":"the context window length was exceeded"}})",
         ErrorCode::context_length, "ContextLengthExceeded"},
        {400,
         R"({"error":{"message":"The response was filtered by the content_filter policy","code":"content_filter"}})",
         ErrorCode::content_filtered, "ContentFiltered"},
        {400, R"({"error":{"message":"Blocked by our content policy","code":null}})",
         ErrorCode::content_filtered, "ContentFiltered"},
        {400, R"({"error":{"message":"no","code":"responsible_ai_policy_violation"}})",
         ErrorCode::content_filtered, "ContentFiltered"},
    };
    for (const Case& one : cases) {
        const EndpointFailure failure = read_endpoint_failure(one.status, HttpHeaders(), one.body);
        const ErrorInfo info = classify_failure(failure, std::nullopt, 1);
        EXPECT_EQ(info.code, one.code) << one.status << " " << one.body;
        EXPECT_EQ(info.type, one.type) << one.status << " " << one.body;
        EXPECT_EQ(info.status_code, one.status);
    }
}

TEST(Classification, D9_FailureMessage_IsValidUtf8) {
    HttpHeaders headers;
    headers.add("location", "http://h/\xff\xc3");
    EXPECT_TRUE(is_utf8(read_endpoint_failure(302, headers, "").message));
    EXPECT_TRUE(is_utf8(read_endpoint_failure(400, HttpHeaders(), "\xff\xc3").message));
}

TEST(Classification, D9_ErrorsInsideStream_AreClassified) {
    const std::pair<const char*, ErrorCode> cases[] = {
        {R"({"message":"The server had an error","type":"server_error","code":null})",
         ErrorCode::unavailable},
        {R"({"message":"Provider returned error","code":502})", ErrorCode::unavailable},
        {R"({"message":"x","type":"rate_limit_error"})", ErrorCode::rate_limited},
        {R"({"message":"x","type":"invalid_request_error"})", ErrorCode::bad_request},
        {R"("out of memory")", ErrorCode::provider},
    };
    for (const auto& [text, code] : cases) {
        EXPECT_EQ(classify_failure(read_stream_failure(boost::json::parse(text)), {}, {}).code,
                  code)
            << text;
    }
}

TEST(Classification, RequestNearWindowSize_WasTooLong) {
    EndpointFailure failure;
    failure.status = 400;
    failure.message = "bad request";
    EXPECT_EQ(classify_failure(failure, 1000, 949).code, ErrorCode::bad_request);
    const ErrorInfo info = classify_failure(failure, 1000, 950);
    EXPECT_EQ(info.code, ErrorCode::context_length);
    EXPECT_EQ(info.tokens_in, 950);
    EXPECT_EQ(info.context_window, 1000);
}

TEST(Classification, RetryAfter_IsInSeconds) {
    HttpHeaders headers;
    headers.set("retry-after-ms", "1500");
    EXPECT_EQ(classify_failure(read_endpoint_failure(429, headers, ""), {}, {}).retry_after, 1.5);
    headers.set("retry-after", "3600");
    EXPECT_EQ(classify_failure(read_endpoint_failure(429, headers, ""), {}, {}).retry_after, 3600);
}

TEST(Classification, NetworkFailure_KeepsItsCode) {
    const ErrorInfo info = classify_exception(
        std::make_exception_ptr(NetworkError(ErrorCode::tls, "h:443", false, "bad certificate")));
    EXPECT_EQ(info.code, ErrorCode::tls);
    EXPECT_EQ(info.type, "ProviderUnavailable");
    EXPECT_EQ(info.message, "bad certificate");
    EXPECT_EQ(classify_exception(std::make_exception_ptr(TimeoutError("idle", "x"))).code,
              ErrorCode::timeout);
}

TEST(Classification, WebPage_IsReportedAsOne) {
    EXPECT_NE(
        read_endpoint_failure(404, HttpHeaders(), "<!DOCTYPE html><p>hi").message.find("base URL"),
        std::string::npos);
    HttpHeaders moved;
    moved.set("location", "https://elsewhere/v1");
    EXPECT_NE(read_endpoint_failure(301, moved, "").message.find("https://elsewhere/v1"),
              std::string::npos);
}

TEST(Classification, D58_FailureText_HasNoSecrets) {
    Model model;
    model.id = "gpt";
    model.provider_id = "openai";
    ErrorInfo info;
    info.code = ErrorCode::auth;
    info.type = "ProviderAuthFailed";
    EXPECT_EQ(failure_text(model, "https://user:pass@host/v1?key=abc", info, "no"),
              "[openai/gpt @ https://host/v1] ProviderAuthFailed: no");
    EXPECT_EQ(without_secret("key sk-123456 and sk-123456", "sk-123456"), "key *** and ***");
}

TEST(Classification, D58_EscapedSecrets_AreFound) {
    const char* secret = "sk-a/b+c=d";
    for (const char* text :
         {"sk-a/b+c=d", R"(sk-a\/b+c=d)", R"(sk-a\\/b+c=d)", R"(sk-a\u002fb\u002Bc\u003dd)",
          "sk-a%2Fb%2bc%3Dd", "%73%6b%2da%2fb%2bc%3dd", "sk-a%252Fb%252Bc%253Dd"}) {
        EXPECT_EQ(without_secret("<" + std::string(text) + ">", secret), "<***>") << text;
    }
    for (const char* text : {"sk-a/b+c=", "sk-a%2Gb+c=d", R"(sk-a\u002xb+c=d)", "%", "\\", ""})
        EXPECT_EQ(without_secret(text, secret), text);
}

}  // namespace
}  // namespace cubepi
