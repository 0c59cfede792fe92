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
        {403, R"({"error":"no"})", ErrorCode::bad_request, "ProviderBadRequest"},
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

/// The texts of 30 servers for a conversation that does not fit.
constexpr const char* overflows[] = {
    R"j({"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again."}})j",
    R"j({"error":{"message":"Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens."}})j",
    R"j({"error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}})j",
    R"j({"error":{"message":"input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length or `max_tokens` and try again"}})j",
    R"j({"message":"The model returned the following errors: Input is too long for requested model."})j",
    R"j({"message":"Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again."})j",
    R"j([{"error":{"code":400,"message":"The input token count (1310720) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}])j",
    R"j({"error":{"message":"Unable to submit request because the input token count is 1200000 but model only supports up to 1048576. Reduce the input token count and try again."}})j",
    R"j({"error":"This model's maximum prompt length is 262144 but the request contains 301177 tokens."})j",
    R"j({"error":{"message":"Please reduce the length of the messages or completion."}})j",
    R"j({"error":{"message":"Please reduce the length of the messages or completion. Current length is 9216 while limit is 8192"}})j",
    R"j({"message":"Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length"})j",
    R"j({"message":"too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4090."})j",
    R"j({"error":{"message":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 512 `max_new_tokens`"}})j",
    R"j({"error":"Input validation error: `inputs` must have less than 4096 tokens. Given: 5000"})j",
    R"j({"error":{"message":"The prompt is too long: 140000, model maximum context length: 131071"}})j",
    R"j({"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"This endpoint's maximum context length is 131072 tokens."}}})j",
    R"j({"error":{"message":"Provider returned error","code":502,"metadata":{"raw":{"message":"The input (49146 tokens) is longer than the model's context length (40960 tokens)."}}}})j",
    R"j({"error":{"message":"Invalid request: Your request exceeded model token limit: 131072 (requested: 140021)"}})j",
    R"j({"error":{"code":"invalid_parameter_error","message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]"}})j",
    R"j({"error":{"code":"1261","message":"Prompt exceeds max length"}})j",
    R"j({"error":{"message":"invalid params, context window exceeds limit (2013)"}})j",
    R"j({"error":{"message":"prompt token count of 70000 exceeds the limit of 64000","code":"model_max_prompt_tokens_exceeded"}})j",
    R"j({"error":{"message":"You passed 33000 input tokens and requested 100 output tokens. However, the model's context length is only 32768 tokens, resulting in a maximum input length of 32668 tokens. Please reduce the length of the input prompt."}})j",
    R"j({"message":"'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 32768 tokens and your request has 30000 input tokens (4096 > 32768 - 30000)."})j",
    R"j({"message":"The decoder prompt (length 9000) is longer than the maximum model length of 8192."})j",
    R"j({"message":"Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens)."})j",
    R"j({"error":{"code":400,"message":"request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error"}})j",
    R"j({"error":{"message":"Context size has been exceeded."}})j",
    R"j({"error":"Trying to keep the first 9214 tokens when context the overflows. However, the model is loaded with context length of only 8192 tokens"})j",
    R"j({"error":"Cannot truncate prompt with n_keep (9214) >= n_ctx (8192)"})j",
    R"j({"error":"The number of tokens to keep from the initial prompt is greater than the context length."})j",
    R"j({"error":"prompt too long; exceeded max context length by 4 tokens"})j",
    R"j({"error":{"message":"litellm.ContextWindowExceededError: litellm.BadRequestError: x","code":"400"}})j",
    R"j({"error":{"message":"length of prompt_tokens (40000) must be less than max_seq_len (32768)."}})j",
    R"j({"error":{"message":"Total tokens of image and text exceed max message tokens"}})j",
    R"j({"error":{"message":"the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model"}})j",
    R"j({"error":{"message":"The estimated number of input and maximum output tokens (9000) exceeded this model context window limit (8192)"}})j",
    R"j({"error":{"message":"输入内容过长"}})j",
    R"j({"error":{"message":"请求超出模型的上下文长度"}})j",
    R"j({"error":{"message":"number of input tokens must be no more than 8192, got 9113"}})j",
    R"j({"error":{"code":"tokens_too_long","message":"Prompt tokens too long"}})j",
    R"j({"error":{"code":"10907","message":"Token数量超过上限"}})j",
    R"j({"message":"Tokens limit exceeded: 140000, max 131072"})j",
};

TEST(Classification, D87_Overflow_IsRecognizedInManyWords) {
    for (const char* body : overflows) {
        for (const int status : {400, 422, 500}) {
            const ErrorInfo info =
                classify_failure(read_endpoint_failure(status, HttpHeaders(), body), {}, 1);
            EXPECT_EQ(info.code, ErrorCode::context_length) << status << " " << body;
        }
        const ErrorInfo limited =
            classify_failure(read_endpoint_failure(429, HttpHeaders(), body), {}, 1);
        EXPECT_EQ(limited.code, ErrorCode::rate_limited) << body;
        EXPECT_EQ(classify_failure(read_stream_failure(boost::json::parse(body)), {}, 1).code,
                  ErrorCode::context_length)
            << body;
    }
}

TEST(Classification, D87_OtherFailures_AreNotOverflows) {
    const Case cases[] = {
        {413,
         R"j({"error":{"message":"Request too large on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}})j",
         ErrorCode::rate_limited, ""},
        {400,
         R"j({"__type":"ThrottlingException","message":"Too many tokens, please wait before trying again."})j",
         ErrorCode::rate_limited, ""},
        {403, R"j({"error":{"message":"You have exceeded your daily token limit"}})j",
         ErrorCode::rate_limited, ""},
        {400, R"j({"error":{"code":8,"status":"RESOURCE_EXHAUSTED","message":"context window"}})j",
         ErrorCode::rate_limited, ""},
        {400,
         R"j({"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. The context window of this model is 262144."}})j",
         ErrorCode::bad_request, ""},
        {400,
         R"j({"error":{"message":"max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens for claude"}})j",
         ErrorCode::bad_request, ""},
        {400,
         R"j({"error":{"message":"max_tokens is too large: 200000. This model supports at most 16384 completion tokens, whereas you provided 200000."}})j",
         ErrorCode::bad_request, ""},
        {400,
         R"j({"message":"'max_tokens' is too large: 40000. This model's maximum context length is 32768 tokens and your request has 20 input tokens"})j",
         ErrorCode::bad_request, ""},
        {400,
         R"j({"message":"too many tokens: max tokens must be less than or equal to 4096, the model's maximum output for this model"})j",
         ErrorCode::bad_request, ""},
        {400,
         R"j({"error":{"message":"image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes"}})j",
         ErrorCode::bad_request, ""},
        {400, R"j({"message":"Monthly tokens limit exceeded"})j", ErrorCode::bad_request, ""},
        {400, R"j({"message":"TPM tokens limit exceeded"})j", ErrorCode::bad_request, ""},
        {400, R"j({"message":"max output tokens limit exceeded"})j", ErrorCode::bad_request, ""},
        {400, R"j({"message":"输出token数量超过上限"})j", ErrorCode::bad_request, ""},
        {400, R"j({"message":"每分钟token数量超过限制"})j", ErrorCode::rate_limited, ""},
        {400, R"j({"error":{"code":"10907","message":"今日token数量超过上限"}})j",
         ErrorCode::rate_limited, ""},
        {401,
         R"j({"error":{"message":"no key for the long context window: it exceeds the plan"}})j",
         ErrorCode::auth, ""},
    };
    for (const Case& one : cases) {
        const EndpointFailure failure = read_endpoint_failure(one.status, HttpHeaders(), one.body);
        EXPECT_EQ(classify_failure(failure, {}, 1).code, one.code) << one.body;
    }
    HttpHeaders bedrock;
    bedrock.set("x-amzn-errortype", "ThrottlingException");
    EXPECT_EQ(classify_failure(
                  read_endpoint_failure(400, bedrock, R"j({"message":"Too many tokens"})j"), {}, 1)
                  .code,
              ErrorCode::rate_limited);
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

TEST(Classification, D15_DelayInText_IsRead) {
    const std::pair<const char*, std::optional<double>> cases[] = {
        {"Please try again in 6.5s. Visit the page.", 6.5},
        {"Please try again in 250ms", 0.25},
        {"Please try again in 1m30s.", 90},
        {"Please try again in 1h2m3s", 3723},
        {"Please retry after 26 seconds.", 26},
        {"Please retry in 22.5s.", 22.5},
        {"Try again in 5 minutes", 300},
        {"Please wait 3 seconds before the next request", 3},
        {"Too Many Requests: retry after 7", 7},
        {"try again in a moment; try again in 4 s", 4},
        {"Please try again in a few minutes.", std::nullopt},
        {"Please try again later", std::nullopt},
        {"try again in 3 apples", std::nullopt},
        {"try again in -5s", std::nullopt},
        {"try again in 1e999s", std::nullopt},
        {"try again in ", std::nullopt},
    };
    for (const auto& [text, seconds] : cases) EXPECT_EQ(delay_in_text(text), seconds) << text;
    EXPECT_FALSE(delay_in_text("try again in " + std::string(2000, '9') + "s"));
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
    EXPECT_EQ(without_secret(R"(<\\\\abcdef>)", R"(\\abcdef)"), "<***>");
    EXPECT_EQ(without_secret(R"(<\\\\\%61bcdef>)", R"(\\abcdef)"), R"(<\\\***>)");
}

TEST(Classification, D58_LargeTextOfBackslashes_TakesLinearTime) {
    const std::string many(1 << 20, '\\');
    for (const char* secret : {"sk-a/b+c=d", R"(\sk-a/b)"})
        EXPECT_EQ(without_secret(many, secret), many);
    EXPECT_EQ(without_secret("k: " + many + "sk-a/b+c=d", "sk-a/b+c=d"), "k: ***");
    EXPECT_EQ(without_secret(std::string(1 << 16, 'a'), std::string(1 << 14, 'a') + "b"), "***");
}

}  // namespace
}  // namespace cubepi
