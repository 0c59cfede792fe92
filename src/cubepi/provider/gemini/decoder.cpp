#include <cubepi/provider/gemini/generate_api.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/json_memory.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/provider/answer_end.hpp>
#include <cubepi/provider/wire/answer_size.hpp>
#include <cubepi/provider/wire/decoding.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi::detail {

namespace {

Json parsed(std::string_view data) {
    JsonTextError error;
    Json json = parse_json(data, error);
    if (!error) return json;
    const std::string sanitized = replace_broken_utf8(data);
    json = parse_json(sanitized, error);
    if (error) throw_not_json(sanitized);
    return json;
}

/// An error in a stream: {"error": {"code": 503, "message": "...", "status": "UNAVAILABLE"}}.
void throw_if_failed(const Json& chunk, const JsonObject& members) {
    const Json* error = members.if_contains("error");
    if (error && !error->is_null()) throw StreamFailure(read_stream_failure(chunk));
}

}  // namespace

void GeminiDecoder::decode(std::string_view /*event*/, std::string_view data, EventQueue& out) {
    data = trimmed(data, event_data_blanks);
    if (data.empty() || data == "[DONE]") return;
    const Json json = parsed(data);
    const JsonArray* chunks = json.if_array();
    if (!chunks && !json.is_object()) throw_not_json(data);
    const std::size_t count = chunks ? chunks->size() : 1;
    for (std::size_t i = 0; i < count; ++i) {
        const Json& chunk = chunks ? (*chunks)[i] : json;
        if (!chunk.is_object()) throw_not_json(data);
        throw_if_failed(chunk, chunk.get_object());
        read_chunk(chunk.get_object(), out);
    }
}

void GeminiDecoder::read_chunk(const JsonObject& chunk, EventQueue& out) {
    if (const std::string_view id = string_member(chunk, "responseId"); !id.empty())
        response_id_ = id;
    if (const std::string_view model = string_member(chunk, "modelVersion"); !model.empty())
        assembler_.details().model = model;
    announce(out);
    // One candidate is requested; a prompt that is refused has none.
    const JsonArray* candidates = array_member(chunk, "candidates");
    const JsonObject* candidate =
        candidates && !candidates->empty() ? candidates->front().if_object() : nullptr;
    if (candidate) read_candidate(*candidate, out);
    const JsonObject* feedback = object_member(chunk, "promptFeedback");
    const std::string_view block =
        feedback ? string_member(*feedback, "blockReason") : std::string_view();
    if (!block.empty() && !finished_) {
        assembler_.details().finish_reason = block;
        assembler_.head().extra["promptFeedback"] = *feedback;
        reason_ = "content_filter";
        finished_ = true;
    }
    if (const JsonObject* usage = object_member(chunk, "usageMetadata")) read_usage(*usage);
}

void GeminiDecoder::read_candidate(const JsonObject& candidate, EventQueue& out) {
    const std::size_t before = pieces_;
    if (const JsonObject* content = object_member(candidate, "content")) {
        if (const JsonArray* parts = array_member(*content, "parts")) {
            for (const Json& part : *parts) {
                if (part.is_object()) read_part(part.get_object(), out);
            }
        }
    }
    std::size_t at = 0;
    for (const char* key : {"citationMetadata", "groundingMetadata", "finishMessage"}) {
        std::size_t& counted = metadata_bytes_[at++];
        const Json* value = candidate.if_contains(key);
        if (!value || value->is_null()) continue;
        // Each chunk may repeat it.
        const std::size_t bytes = json_memory(*value);
        if (bytes > counted) assembler_.count_detail(bytes - std::exchange(counted, bytes));
        assembler_.head().extra[key] = *value;
    }
    if (const std::string_view reason = string_member(candidate, "finishReason"); !reason.empty())
        end(reason, before);
}

void GeminiDecoder::read_part(const JsonObject& part, EventQueue& out) {
    JsonObject members = unknown_members(part, {"text", "functionCall", "inlineData"});
    if (!part.contains("text") || !string_member(part, "text").empty()) ++pieces_;
    if (const JsonObject* call = object_member(part, "functionCall")) {
        add_call(*call, std::move(members), out);
    } else if (const JsonObject* data = object_member(part, "inlineData")) {
        add_image(*data, std::move(members), out);
    } else if (part.contains("text")) {
        members.erase("thought");
        const Kind kind = flag_member(part, "thought") ? Kind::thinking : Kind::text;
        add_text(kind, string_member(part, "text"), std::move(members), out);
    } else {
        add_foreign(part, out);
    }
}

void GeminiDecoder::add_text(Kind kind, std::string_view text, JsonObject members,
                             EventQueue& out) {
    if (open_ != kind && text.empty()) {
        // A signature of its own: after a call, or without an answer in text.
        if (members.empty()) return;
        members["text"] = "";
        if (kind == Kind::thinking) members["thought"] = true;
        add_foreign(members, out);
        return;
    }
    if (open_ != kind) {
        close(out);
        StreamEvent start =
            kind == Kind::text ? assembler_.text_start() : assembler_.thinking_start();
        index_ = start.content_index;
        open_ = kind;
        ++blocks_;
        out.push(std::move(start));
    }
    if (!text.empty()) {
        out.push(kind == Kind::text ? assembler_.text_delta(index_, text)
                                    : assembler_.thinking_delta(index_, text));
    }
    if (!members.empty()) close(out, std::move(members));
}

void GeminiDecoder::add_call(const JsonObject& call, JsonObject members, EventQueue& out) {
    close(out);
    const std::string_view id = string_member(call, "id");
    JsonObject more = unknown_members(call, {"id", "name", "args"});
    if (!more.empty()) members["functionCall"] = std::move(more);
    if (!members.empty()) assembler_.count_detail(json_memory(members));
    LazyObject extra;
    if (!members.empty()) extra[gemini_members_key] = std::move(members);
    if (!id.empty()) extra[gemini_call_id_key] = id;
    StreamEvent start = assembler_.toolcall_start(
        usable_id(id), SharedString(string_member(call, "name")), std::move(extra));
    const std::int32_t index = start.content_index;
    out.push(std::move(start));
    ++blocks_;
    const Json* arguments = call.if_contains("args");
    const std::string text = arguments && !arguments->is_null() ? json_text(*arguments) : "{}";
    out.push(assembler_.toolcall_delta(index, text));
    out.push(assembler_.toolcall_end(index));
}

void GeminiDecoder::add_image(const JsonObject& data, JsonObject members, EventQueue& out) {
    close(out);
    ImageContent image;
    image.source = string_member(data, "data");
    image.media_type = SharedString(string_member(data, "mimeType"));
    if (!members.empty()) {
        assembler_.count_detail(json_memory(members));
        image.extra[gemini_members_key] = std::move(members);
    }
    assembler_.add_block(std::move(image));
    ++blocks_;
}

void GeminiDecoder::add_foreign(const JsonObject& part, EventQueue& out) {
    close(out);
    MessageAssembler::check_block_count(++foreign_parts_);
    assembler_.count_detail(block_overhead + json_memory(part));
    JsonObject entry;
    entry["before"] = blocks_;
    entry["part"] = part;
    Json& all = assembler_.head().extra[gemini_parts_key];
    if (!all.is_array()) all = JsonArray();
    all.get_array().push_back(std::move(entry));
}

void GeminiDecoder::close(EventQueue& out, JsonObject members) {
    const Kind kind = std::exchange(open_, Kind::none);
    if (kind == Kind::none) return;
    LazyObject extra;
    if (!members.empty()) {
        assembler_.count_detail(json_memory(members));
        extra[gemini_members_key] = std::move(members);
    }
    out.push(kind == Kind::text ? assembler_.text_end(index_, std::move(extra))
                                : assembler_.thinking_end(index_, std::move(extra)));
}

void GeminiDecoder::end(std::string_view reason, std::size_t pieces_before) {
    if (reason == "FINISH_REASON_UNSPECIFIED") return;
    if (reason == "STOP") {
        if (pieces_before == 0) {
            is_premature_ = true;
        } else if (pieces_ == pieces_before) {
            is_premature_ = false;
        }
    }
    // Another reason is not replaced by a repeated "STOP".
    if (finished_ && reason == "STOP") return;
    assembler_.details().finish_reason = reason;
    if (reason == "STOP") {
        reason_ = stop_reason::stop;
    } else if (reason == "MAX_TOKENS") {
        reason_ = stop_reason::length;
    } else {
        reason_ = server_stop_reason(reason);
    }
    finished_ = true;
}

/// The prompt's count contains the cached tokens; thoughts are not part of the count of the answer.
void GeminiDecoder::read_usage(const JsonObject& reported) {
    // Limits the numbers of the endpoint before they are added.
    const auto count = [&reported](std::string_view key) {
        return TokenCount(integer_member(reported, key).value_or(-1));
    };
    const TokenCount prompt = count("promptTokenCount");
    const TokenCount cached = count("cachedContentTokenCount");
    const TokenCount answer = count("candidatesTokenCount");
    const TokenCount thoughts = count("thoughtsTokenCount");
    Usage usage = assembler_.head().usage.value_or(Usage());
    if (prompt) {
        usage.input_tokens = std::max<std::int64_t>(
            0, *prompt + count("toolUsePromptTokenCount").value_or(0) - cached.value_or(0));
    }
    if (cached) usage.cache_read_tokens = cached;
    if (answer) answer_tokens_ = answer;
    if (thoughts) thought_tokens_ = thoughts;
    if (answer_tokens_ || thought_tokens_)
        usage.output_tokens = answer_tokens_.value_or(0) + thought_tokens_.value_or(0);
    if (thought_tokens_) usage.reasoning_tokens = thought_tokens_;
    if (!(usage == Usage())) assembler_.head().usage = usage;
}

std::string GeminiDecoder::usable_id(std::string_view id) {
    const bool taken = std::find(call_ids_.begin(), call_ids_.end(), id) != call_ids_.end();
    return call_ids_.emplace_back(id.empty() || taken ? "call_" + ids_.next() : std::string(id));
}

void GeminiDecoder::finish(EventQueue& out) {
    if (!finished_) {
        throw Error(ErrorCode::disconnected,
                    blocks_ > 0 || announced_
                        ? "the answer ended without a finishReason; it is incomplete"
                        : "the answer ended before it began");
    }
    close(out);
    if (reason_ == stop_reason::stop && !call_ids_.empty()) reason_ = stop_reason::tool_use;
    // Only an answer that is whole can be referred to.
    if (!response_id_.empty()) assembler_.head().response_id = SharedString(response_id_);
    out.push(assembler_.done(reason_));
}

}  // namespace cubepi::detail
