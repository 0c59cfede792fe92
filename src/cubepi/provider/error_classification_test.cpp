#include <cubepi/provider/error_classification.hpp>

#include <gtest/gtest.h>

#include <chrono>

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

/// The texts of servers for a conversation that does not fit.
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
    R"j({"error":{"message":"输入token数超过模型限制"}})j",
    R"j({"error":{"message":"请求的 token 数超过了模型的上限 32768"}})j",
    R"j({"error":{"message":"对话过长，超过最大长度"}})j",
    R"j({"error":{"message":"tokens in prompt (40000) + max_tokens (100) exceeds model limit (32768)"}})j",
    R"j({"error":{"message":"The prompt is 140000 tokens, which is more than the 131072 token limit of the model."}})j",
    R"j({"error":{"message":"input too large: the model supports up to 8192 tokens"}})j",
    R"j({"error":{"message":"Conversation too long. Please start a new conversation."}})j",
    R"j({"error":{"message":"messages too long"}})j",
    R"j({"error":{"message":"Total number of tokens (prompt + completion) must not exceed 8192"}})j",
    R"j({"error":{"message":"This model supports at most 32768 input tokens, but 40000 were provided."}})j",
    R"j({"error":{"message":"The input or output tokens must be no more than 32768"}})j",
    R"j({"error":{"message":"The input exceeds the maximum number of tokens: 8192"}})j",
    R"j({"error":{"message":"Sequence length 9000 exceeds maximum sequence length 8192"}})j",
    R"j({"error":{"message":"input tokens (140000) exceeds the maximum input tokens (131072)"}})j",
    R"j({"error":{"message":"Your prompt has 40000 tokens, but the model limit is 32768 tokens."}})j",
    R"j({"error":{"message":"Requested 9000 tokens but the model's context is 8192"}})j",
    R"j({"error":{"message":"The model does not support inputs longer than 32768 tokens."}})j",
    R"j({"error":{"message":"Prompts longer than 8192 tokens are not allowed"}})j",
    R"j({"error":{"message":"The conversation history does not fit in the context window (9000 > 8192)"}})j",
    R"j({"error":{"message":"This request exceeds the model's token limit (32768)"}})j",
    R"j({"error":{"message":"Please shorten your prompt."}})j",
    R"j({"error":{"message":"The number of tokens in your input is too high: 9000 > 8192"}})j",
    R"j({"error":{"message":"Token count 9000 is above the limit 8192"}})j",
    R"j({"error":{"message":"You exceeded the maximum context of this model"}})j",
    R"j({"error":{"message":"对话历史太长，请新建会话"}})j",
    R"j({"error":{"message":"tokens 数量超出限制：最大 8192"}})j",
    R"j({"error":{"message":"输入内容长度超出模型最大长度限制"}})j",
    R"j({"error":{"message":"輸入過長，最大長度為 8192 tokens"}})j",
    R"j({"error":{"message":"The context window is full"}})j",
    R"j({"error":{"message":"no","code":"prompt_too_long"}})j",
    R"j({"error":{"message":"prompt_too_long"}})j",
    R"j({"error":{"message":"no","code":"string_above_max_length","param":"input[2].content"}})j",
    R"j({"error":{"message":"string_above_max_length"}})j",
    R"j({"error":{"message":"Invalid 'messages': array too long.","code":"array_above_max_length","param":"messages"}})j",
    R"j({"error":{"message":"Your input exceeds the context window.","code":"invalid_value","param":"messages"}})j",
    R"j({"error":{"message":"This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8000 in the messages, 1000 in the completion).","param":"max_tokens"}})j",
    R"j({"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.","param":"input_tokens"}})j",
    R"j({"error":{"message":"litellm.ContextWindowExceededError: This model's maximum context length is 8192 tokens.","type":"None","param":"None","code":"400"}})j",
    R"j({"error":{"message":"max_tokens must be at least 1, got -232."}})j",
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
    const char* parameters[] = {
        R"j({"error":{"message":"Additional properties are not allowed ('context_window' was unexpected). maximum context length is 128000"}})j",
        R"j({"error":{"message":"`temperature` is deprecated for this model (maximum context length is 200000)"}})j",
        R"j({"error":{"message":"Invalid 'max_completion_tokens': integer above maximum value. Expected a value <= 16384, but got 999999 instead. The maximum context length is 128000.","code":"integer_above_max_value"}})j",
        R"j({"error":{"message":"Invalid 'max_completion_tokens': 999999. The maximum context length is 128000."}})j",
        R"j({"error":{"message":"Unknown name \"context\": Cannot find field. exceeds the context window"}})j",
        R"j({"error":{"message":"Unrecognized key(s) in object: 'context_window'. The maximum context length is 128000."}})j",
        R"j({"error":{"message":"The parameter 'max_tokens' exceeds the context window; must be at most 4096"}})j",
        R"j({"error":{"message":"Value error, max_completion_tokens cannot be greater than 16384 (maximum context length is 128000)"}})j",
        R"j({"error":{"message":"The value exceeds the context window","param":"max_completion_tokens","code":"invalid_value"}})j",
        R"j({"error":{"message":"max_tokens (100000) exceeds the model's context window of 32768"}})j",
        R"j({"error":{"message":"Extra usage is required for prompts that exceed the context window of 200000 tokens"}})j",
        R"j({"error":{"message":"The 1M context window exceeds what usage tier 1 includes"}})j",
        R"j({"error":{"message":"Expected 'n' to be 1: maximum context length is 4096"}})j",
        R"j({"error":{"message":"seed should be an integer, maximum context length is 4096"}})j",
        R"j({"error":{"message":"参数 temperature 超出范围，上下文长度最大 8192"}})j",
        R"j({"error":{"message":"It exceeds the context window","param":"verbosity"}})j",
        R"j({"error":{"message":"It exceeds the context window","code":"unsupported_value"}})j",
        R"j({"error":{"message":"Property 'stream_options' is not defined; maximum context length is 4096"}})j",
        R"j({"error":{"message":"tool_choice is invalid: maximum context length is 8192"}})j",
        R"j({"error":{"message":"'reasoning_effort' does not exist for this model whose maximum context length is 128000"}})j",
        R"j({"error":{"message":"reasoning_effort is not a valid parameter for models with maximum context length is 8192"}})j",
        R"j({"error":{"message":"The long context window exceeds what your tier allows; upgrade to use more than 200000 tokens"}})j",
        R"j({"error":{"message":"function name too long: maximum is 64; the prompt too long"}})j",
        R"j({"error":{"message":"This model does not accept the parameter 'top_k'. Model card: context length exceeds 100k"}})j",
        R"j({"error":{"message":"model does not accept system messages; maximum context length is 8192"}})j",
        R"j({"error":{"message":"Field 'seed' not allowed. maximum context length is 4096"}})j",
        R"j({"error":{"message":"tools.0.custom.description: String should have at most 1024 characters (too many tokens)"}})j",
        R"j({"error":{"message":"Invalid 'tools[0].description': string too long, more than the input tokens","code":"string_above_max_length"}})j",
        R"j({"error":{"message":"messages.2.tool_call_id: string too long, more than the maximum length 40"}})j",
        R"j({"error":{"message":"max_tokens is too large: you requested 9000 tokens but the model's limit is 4096"}})j",
        R"j({"error":{"message":"string too long","code":"string_above_max_length","param":"messages[2].tool_calls[0].id"}})j",
        R"j({"error":{"message":"Input validation error: max_new_tokens must be less than the context length"}})j",
        R"j({"error":{"message":"该模型不支持 top_k 参数，上下文长度超过 8192 时除外"}})j",
        R"j({"error":{"message":"The input file is too large: up to 30 MB, whatever its length"}})j",
        R"j({"error":{"message":"You have used more than your monthly input tokens"}})j",
    };
    for (const char* body : parameters) {
        const EndpointFailure failure = read_endpoint_failure(400, HttpHeaders(), body);
        EXPECT_EQ(classify_failure(failure, {}, 1).code, ErrorCode::bad_request) << body;
    }
    const char* others[] = {
        "The maximum tokens you requested exceeds the model limit of 4096.",
        "n_predict exceeds the model's token limit",
        "This model only supports up to 8192 output tokens",
        "Weekly token limit exceeded for the model",
        "Your token usage exceeds the allocated tokens for this model deployment",
        "您的 token 用量超过限制",
        "5-hour limit reached: too many tokens used",
        "CUDA out of memory: the model's KV cache needs more than the available tokens",
        "Your API token has exceeded its lifetime; request has been rejected",
        "messages must alternate: more than one user message in the context",
        "The tool description exceeds the maximum length of 1024 characters for this model",
        "stop: at most 4 stop tokens for this model",
        "Failed to read the input at pos 0: <think>the prompt exceeds the maximum number of tokens",
    };
    for (const char* text : others) {
        const std::string body =
            boost::json::serialize(JsonObject{{"error", JsonObject{{"message", text}}}});
        for (const int status : {400, 500}) {
            const EndpointFailure failure = read_endpoint_failure(status, HttpHeaders(), body);
            EXPECT_NE(classify_failure(failure, {}, 1).code, ErrorCode::context_length) << text;
        }
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

TEST(Classification, D15_RetryAfter_IsInSeconds) {
    const auto retry_after = [](int status, const char* body, const RetryHints& hints) {
        return classify_failure(read_endpoint_failure(status, HttpHeaders(), body, hints), {}, {})
            .retry_after;
    };
    using namespace std::chrono_literals;
    EXPECT_EQ(retry_after(429, "", {.delay = 1500ms}), 1.5);
    EXPECT_EQ(retry_after(429, "", {.reset = 2s}), 2);
    const std::pair<const char*, std::optional<double>> bodies[] = {
        {R"({"error":{"message":"x","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure"},
             {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3s"}]}})",
         3},
        {R"({"error":{"message":"x","retry_after":3}})", 3},
        {R"({"error":{"message":"x","retry_after":"2.5"}})", 2.5},
        {R"({"error":{"message":"x"},"retry_after":4})", 4},
        {R"({"message":"x","retry_after_ms":250})", 0.25},
        {R"({"error":{"message":"x; try again in 7 s"}})", 7},
        {R"({"error":{"message":"x","retry_after":-1}})", 20},
        {R"({"error":{"message":"x","retry_after":"soon"}})", 20},
    };
    for (const auto& [body, seconds] : bodies)
        EXPECT_EQ(retry_after(429, body, {.reset = 20s}), seconds) << body;
    // Resets are those of a limit that is not the cause.
    EXPECT_EQ(read_endpoint_failure(503, HttpHeaders(), "x", {.reset = 20s}).retry_after,
              std::nullopt);
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
        {"Please wait 3 more seconds", 3},
        {"You must wait at least 3 seconds", 3},
        {"Too many requests. Retry-After: 3", 3},
        {"The limit resets in 12s", 12},
        {"请求过于频繁，请在 2 秒后重试", 2},
        {"请2秒后再试", 2},
        {"请等待 1 分钟", 60},
        {"秒后", std::nullopt},
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

TEST(Classification, D89_RefusedImage_IsRecognizedInManyWords) {
    const char* images[] = {
        "messages.2.content.0.tool_result.content.0: unsupported content type",
        "tool_result content must be text only",
        "too many media items: maximum 20",
        "Invalid base64 data",
        "File is too large: 40 MB",
        "Total attachment size exceeds 30 MB",
        "messages.2.content.0.type: Input should be 'text'",
        "This model only accepts text input",
        "invalid content part at messages[2]",
        "visual inputs are not enabled for this model",
        "Unsupported MIME type",
        "maximum resolution exceeded",
        "messages[2].content should be a string",
        "messages[2].content must be a string",
        "messages.2.content: Input should be a valid string",
        "this model is text-only",
        "messages.2.content.1: type must be one of ['text']",
        "Invalid type for 'input[3].output': expected a string, but got an array instead.",
        "Unknown name \"parts\" at 'contents[2].parts[0].function_response': Cannot find field.",
        "Unsupported content type",
        "content must be a string",
        "bad request",
    };
    for (const char* text : images) {
        EndpointFailure failure;
        failure.message = text;
        for (const int status : {400, 422}) {
            failure.status = status;
            EXPECT_TRUE(refuses_image(failure)) << status << " " << text;
        }
        failure.status = 401;
        EXPECT_FALSE(refuses_image(failure)) << text;
    }
    for (const char* text : {"prompt is too long: 9 tokens > 8 maximum", "rate limit reached",
                             "The model `x` does not exist", "API key not valid",
                             "Unsupported parameter: top_k", "Blocked by our content policy"}) {
        EndpointFailure failure;
        failure.status = 400;
        failure.message = text;
        EXPECT_FALSE(refuses_image(failure)) << text;
    }
}

TEST(Classification, D89_RefusedThinking_IsRecognizedInManyWords) {
    EndpointFailure failure;
    failure.status = 400;
    for (const char* text :
         {"messages.1.content.0: unexpected thinking block",
          "messages.1.content.0: Input tag 'thinking' found using 'type' does not match any of the "
          "expected tags: 'text', 'tool_use'",
          "thinking blocks are not supported by this model",
          "Extra inputs are not permitted: messages.1.content.0.thinking",
          "unknown variant `thinking`, expected `text`", "reasoning item could not be decrypted",
          "Decryption failed for the reasoning.", "input[1]: unsupported item type 'reasoning'",
          "property 'messages.2' : property 'reasoning_content' is unsupported"}) {
        failure.message = text;
        EXPECT_TRUE(refuses_thinking(failure)) << text;
    }
    for (const char* text :
         {"thinking.budget_tokens: Input should be greater than or equal to 1024",
          "Unsupported value: 'reasoning.effort' does not support 'none' with this model",
          "Thinking is not supported by this model",
          "messages: at least one message is required"}) {
        failure.message = text;
        EXPECT_FALSE(refuses_thinking(failure)) << text;
    }
    failure.message = "Invalid value.";
    failure.param = "input[1].encrypted_content";
    EXPECT_TRUE(refuses_thinking(failure));
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

TEST(Classification, D15_TemporaryCuts_AreRecognized) {
    const auto info = [](ErrorCode code, std::string message = {},
                         std::optional<double> retry_after = {}) {
        ErrorInfo made;
        made.code = code;
        made.message = std::move(message);
        made.retry_after = retry_after;
        return made;
    };
    EXPECT_TRUE(is_temporary_cut(info(ErrorCode::disconnected)));
    EXPECT_TRUE(is_temporary_cut(info(ErrorCode::unavailable, "Overloaded")));
    EXPECT_TRUE(is_temporary_cut(info(ErrorCode::rate_limited, "slow down", 20)));
    EXPECT_TRUE(
        is_temporary_cut(info(ErrorCode::timeout, "no data received for 120 s (idle timeout)")));
    EXPECT_FALSE(is_temporary_cut(info(ErrorCode::timeout, "timeout: total")));
    EXPECT_FALSE(is_temporary_cut(info(ErrorCode::rate_limited, "slow down", 61)));
    EXPECT_FALSE(is_temporary_cut(info(ErrorCode::rate_limited, "slow down", std::nan(""))));
    ErrorInfo quota = info(ErrorCode::rate_limited);
    quota.provider_code = "insufficient_quota";
    EXPECT_FALSE(is_temporary_cut(quota));
    for (const ErrorCode code : {ErrorCode::auth, ErrorCode::bad_request, ErrorCode::protocol,
                                 ErrorCode::too_large, ErrorCode::context_length})
        EXPECT_FALSE(is_temporary_cut(info(code)));
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
