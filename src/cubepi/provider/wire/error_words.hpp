#pragma once

#include <string_view>

/// The words by which `error_classification.cpp` recognizes what an endpoint reports. A list is one text, in which '|' ends each word, so
/// that a '|' ends each line too. Words are in lower case. Kinds are codes and types, most of them without the characters between their
/// words; "input*too long" is a form whose parts have other text between them.
namespace cubepi::error_words {

// Rates and quotas

inline constexpr std::string_view rate_kinds =
    "ratelimit|toomanyrequests|throttl|resourceexhausted|quota|tokensper|";
inline constexpr std::string_view rate_forms =
    "rate limit|rate_limit|ratelimit|too many requests|quota*exceed|exceed*quota|quota*exhaust|"
    "quota*limit|quota*reach|throttl|tokens per m|tokens per d|daily*limit|limit*per minute|"
    "limit*per day|please wait before|每分钟|每日|今日|";
/// Limits that do not pass within the time that a caller waits.
inline constexpr std::string_view lasting_forms =
    "quota|billing|credit|balance|per day|tokens per d|daily|request too large|";

// Conversations that exceed the context window

inline constexpr std::string_view overflow_kinds =
    "contextlengthexceeded|contextwindowexceeded|exceedcontextsize|requesttoolarge|"
    "contextlimitexceeded|modelmaxprompttokensexceeded|prompttoolong|stringabovemaxlength|"
    "arrayabovemaxlength|";
inline constexpr std::string_view overflow_forms =
    // OpenAI, Azure, DeepSeek, OpenRouter, Fireworks, vLLM, Mistral, Cerebras, Groq
    "maximum context length is|exceed*maximum context length|too large*maximum context|"
    "too long*maximum context|maximum input length of|longer than the maximum model length|"
    "exceed*context window|context window*exceed|exceed*context length|context length*exceed|"
    "context_length_exceeded|reduce*length of the messages|reduce*length of the input|"
    "reduce*length of the prompt|reduce*your prompt|tokens exceed the configured limit|"
    "current length is*while limit is|"
    // Anthropic, Bedrock
    "prompt is too long|exceed context limit|exceed*context limit|input is too long|"
    "input tokens exceeded|too many total text bytes|request exceeds the maximum size|"
    // Gemini, Vertex
    "token count*exceeds the maximum|token count is*model only supports|"
    // xAI, Copilot, Kimi, MiniMax, Zhipu, DashScope, Volcengine, SiliconFlow, Yandex, ERNIE, Spark, GigaChat
    "maximum prompt length is|token count of*exceeds the limit|exceeded model token limit|"
    "token length too long|range of input length should be|token length exceed|"
    "exceed max message tokens|prompt exceeds|input length*exceed|input length too long|"
    "prompt_tokens*must be less than|input tokens must be no more than|tokens too long|"
    "tokens limit exceeded:*max|超长|输入*过长|超*上下文|上下文*超|"
    // Cohere, Together, TGI
    "too many tokens|tokens*must be <=|must be at least 1, got -|inputs*must have less than|"
    "cannot exceed*tokens limit|"
    // SGLang, llama.cpp, LM Studio, Ollama
    "longer than the model's context length|exceeds the available context size|"
    "context size*exceeded|when context the overflows|greater than the context length|n_keep*n_ctx|"
    "prompt too long|context overflow|reached context length of|";
/// A text for an overflow in other words names the prompt or a size, an excess and a measure.
inline constexpr std::string_view prompt_words =
    "prompt|input|conversation|messages|your message|your context|history|request exceed|"
    "request is too|request too|request has|request contains|请求|输入|輸入|对话|会话|消息|提示|";
inline constexpr std::string_view sizes =
    "requested*token|total*token|token count|number of token|sequence length|maximum context|n_ctx|"
    "model's|model limit|this model|the model|模型|";
inline constexpr std::string_view excess_words =
    "exceed|too long|too large|too big|too high|above|too many|longer than|larger than|"
    "greater than|more than|at most|up to|must be less|must be <|beyond|surpass|over the|limit is|"
    "maximum is|context is|fit in|only support|overflow|超|过长|過長|太长|过多|大于|";
inline constexpr std::string_view measure_words = "token|length|context|window|长度|上下文|字数|";
/// Texts for an overflow without a measure.
inline constexpr std::string_view too_long_forms =
    "conversation too long|input exceed|messages exceed|conversation exceed|text is too long|"
    "text too long|对话*太长|对话*过长|上下文*过长|上下文*太长|请求*过长|消息*过长|输入*太长|"
    "文本长度*超|token*超|shorten your|shorten the|context limit reached|context is full|"
    "context window is full|out of context|conversation is too long|messages too long|"
    "messages are too long|prompt too large|prompt is too large|input too large|input is too large|"
    "context too long|context is too long|history too long|history is too long|";
/// A text with one of these is about the length of a prompt that the model does not take.
inline constexpr std::string_view length_forms =
    "longer than*token|more than*token|larger than*token|exceeding*token|exceeding*context|"
    "不支持超|";
/// Texts of rejections for other reasons, which may mention the context window: of an image, an account, a server that is
/// overloaded, an output limit.
inline constexpr std::string_view other_forms =
    // Overload
    "try again later|try again in|please wait|slow down|concurren|"
    // Accounts
    " tier| plan|permission|entitled|subscription|your account|organization|allot|upgrade to|"
    "billing|credits|balance|monthly|usage limit|per hour|per second|tpm|this key|in flight|-hour|"
    "token budget|token usage|用量|试用|免费|频率|配额|额度|余额|本月|账户|"
    // Output limits, images
    "model's maximum output|maximum allowed number of output tokens|at most*completion tokens|"
    "at most*output tokens|image exceeds|image dimensions|";
/// Content whose own size is limited.
inline constexpr std::string_view other_content =
    "image|audio|video|attachment| media| file|document|schema|embedding|输出|";
/// Words of texts about tokens and lengths that name something else than a prompt: an answer, an account, a machine, a key, a part
/// of the request.
inline constexpr std::string_view other_subjects =
    "maximum tokens you requested|for the completion|maxtokens|n_predict|num_predict|max output|"
    "response|used|usage|allowance|trial|weekly|-hour|this key|contact sales|in flight|budget|"
    "spend|用量|免费|试用|用完|memory|overload|queue|capacity|loading|batch|buffer|vocabulary|pars|"
    "unexpected|authentication|api token|access token|session token|bearer|jwt|header|cookie|"
    "description|tool call|number of tools|number of messages|alternate|system message| cach|"
    "stop token|";

// Parameters that are refused

inline constexpr std::string_view parameter_kinds =
    "unsupportedparameter|unknownparameter|unsupportedvalue|invalidvalue|invalidtype|abovemaxvalue|"
    "belowminvalue|missingrequired|extraforbidden|unrecognizedrequest|invalidfunction|"
    "invalidschema|";
inline constexpr std::string_view parameter_forms =
    // Unknown ones
    "unsupported|unknown parameter|unknown option|unknown property|unknown key|invalid parameter:|"
    "invalid parameter '|invalid parameter `|valid parameter|unrecognized|not recognized|"
    "unknown name|unknown field|unknown argument|unexpected parameter|unexpected field|"
    "unexpected keyword|unexpected property|unexpected argument|was unexpected|cannot find field|"
    "is not defined|additional properties|extra inputs|extra fields|invalid value|invalid type|"
    // Those that the model does not take
    "not support|n't support|not permitted|not allowed|not accept|n't accept|deprecated|no longer|"
    "has been removed|not yet|only available|cannot be used|incompatible|not available|"
    "does not exist|"
    // Invalid values
    "is required|missing required|must be a |should be a |must be an |should be an |must provide|"
    "'n'|`n`|malformed|invalid json|invalid schema|invalid format|should have at most|"
    "input should be|must be null|must be one of|must be greater|max_tokens must be|"
    "max tokens must be|function name|tool name|stop sequence|不支持|";
/// Names of parameters that no text about the size of a conversation mentions.
inline constexpr std::string_view parameter_names =
    "budget_tokens|cache_control|context_management|frequency_penalty|logit_bias|"
    "parallel_tool_calls|presence_penalty|prompt_cache_key|reasoning_effort|response_format|"
    "service_tier|stream_options|thinking_budget|tool_choice|top_k|top_p|logprobs|seed|temperature|"
    "verbosity|";
/// Names that are other words too, unless they are in quotes or before a part or a colon.
inline constexpr std::string_view parameter_words = "metadata|reasoning|thinking|tools|";
/// Names of the limit of an answer, which texts about a prompt that leaves too little for it mention.
inline constexpr std::string_view output_limits =
    "max_tokens|max_completion_tokens|max_output_tokens|max_new_tokens|maxoutputtokens|";
/// The beginnings of paths in a request that are about its messages.
inline constexpr std::string_view history_roots = "message|input|prompt|contents|conversation|";

// Content that is refused

inline constexpr std::string_view content_filter =
    "content_filter|content filter|content management policy|content policy|content_policy|"
    "responsible ai|responsible_ai|safety system|safety_system|";
inline constexpr std::string_view image_texts =
    "image| vision|visual|multimodal|multi-modal|modalit|picture|pixel|mmproj|filedata|file_data|"
    "file uri|provided url| media|mime|base64|attachment|text-only|content type|content part|"
    "['text']|be a string|valid string|got an array|图片|图像|";
inline constexpr std::string_view thinking_fields =
    "encrypted|signature|redacted_thinking|reasoning_content|reasoning_details|";
inline constexpr std::string_view thinking_texts =
    "block|item|tag |decrypt|verif|variant|unexpected|found|content|assistant|earlier|history|";

// Other failures

inline constexpr std::string_view unknown_model =
    "not found|does not exist|not exist|not a valid model|unknown model|no such model|"
    "is not available|invalid model|";
/// Kinds inside streams, for errors that have no status.
inline constexpr std::string_view unavailable_kinds =
    "overloaded|server_error|unavailable|api_error|timeout|internal|";
inline constexpr std::string_view bad_request_kinds =
    "invalid_request|bad_request|badrequest|permission|";

}  // namespace cubepi::error_words
