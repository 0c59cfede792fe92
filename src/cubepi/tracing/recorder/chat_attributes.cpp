#include <cubepi/tracing/recorder/chat_attributes.hpp>

#include <openssl/sha.h>

#include <array>
#include <cstdio>
#include <functional>
#include <utility>

#include <cubepi/tracing/recorder/constant_texts.hpp>

namespace cubepi::detail {

namespace {

void add_text(Attributes& attributes, AttributeKey key, std::string_view text) {
    if (!text.empty()) attributes.set(std::move(key), SharedString(text));
}

void add_count(Attributes& attributes, AttributeKey key, const TokenCount& count, bool with_zero) {
    const std::int64_t value = count.value_or(0);
    if (value > 0 || with_zero) attributes.add(std::move(key), value);
}

}  // namespace

void add_request_attributes(Attributes& attributes, const ChatStart& chat) {
    attributes.add("gen_ai.operation.name", "chat");
    attributes.add("gen_ai.provider.name", chat.texts->provider);
    attributes.add("gen_ai.request.model", chat.texts->model);
    attributes.add("gen_ai.request.stream", true);
    if (!chat.purpose.empty()) attributes.add("cubepi.llm.purpose", chat.purpose);
    if (chat.attempt > 1)
        attributes.add("cubepi.llm.attempt", static_cast<std::int64_t>(chat.attempt));
    if (!chat.settings) return;
    for (const Attribute& setting : *chat.settings) attributes.add(setting.key, setting.value);
}

void add_response_attributes(Attributes& attributes, const AnswerFacts& answer,
                             const ResponseDetails& details, std::optional<double> cost) {
    add_text(attributes, "openai.api.type", details.api_type);
    add_text(attributes, "openai.response.system_fingerprint", details.system_fingerprint);
    add_text(attributes, "openai.response.service_tier", details.service_tier);
    if (!answer.response_id.empty()) attributes.add("gen_ai.response.id", answer.response_id);
    const std::array finish_reasons{
        details.finish_reason.empty() ? answer.stop_reason : shared_name(details.finish_reason)};
    thread_local RecentLists recent;
    attributes.add("gen_ai.response.finish_reasons",
                   recent.list_of(finish_reasons, std::identity()));
    SharedString answering = details.model.empty() ? answer.model_id : shared_name(details.model);
    if (!answering.empty()) attributes.add("gen_ai.response.model", std::move(answering));
    if (!answer.usage) return;
    const Usage& usage = *answer.usage;
    // The conventions count cached tokens as input.
    const std::int64_t input = usage.input_tokens.value_or(0) +
                               usage.cache_read_tokens.value_or(0) +
                               usage.cache_write_tokens.value_or(0);
    attributes.add("gen_ai.usage.input_tokens", input);
    add_count(attributes, "gen_ai.usage.output_tokens", usage.output_tokens, true);
    add_count(attributes, "gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens, false);
    add_count(attributes, "gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens,
              false);
    add_count(attributes, "gen_ai.usage.reasoning.output_tokens", usage.reasoning_tokens, false);
    if (cost) attributes.add("cubepi.usage.cost", *cost);
}

std::string error_type_of_call(const ErrorInfo& error) {
    if (error.code == ErrorCode::timeout) return "timeout";
    return "cubepi.errors." + (error.type.empty() ? std::string("ProviderError") : error.type);
}

std::string error_type_of_run(const Error& error) {
    if (const auto* of_provider = dynamic_cast<const ProviderError*>(&error))
        return error_type_of_call(of_provider->info());
    if (error.code() == ErrorCode::timeout) return "timeout";
    if (error.code() == ErrorCode::unknown) return "cubepi.error";
    return "cubepi." + std::string(to_string(error.code()));
}

std::string short_sha256(std::string_view text) {
    std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
    SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
    std::array<char, 17> digits{};
    for (std::size_t i = 0; i < 8; ++i)
        std::snprintf(digits.data() + 2 * i, 3, "%02x", static_cast<unsigned>(digest[i]));
    return digits.data();
}

}  // namespace cubepi::detail
