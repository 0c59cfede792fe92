#include <cubepi/provider/openai/chat_decoder.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/provider/openai/chat_chunk.hpp>
#include <cubepi/provider/wire/answer_size.hpp>
#include <cubepi/provider/wire/event_data.hpp>
#include <cubepi/provider/wire/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/partial_json.hpp>

namespace cubepi::detail {

namespace {

/// Vendors allow 64 characters in a request's tools.
constexpr std::size_t max_tool_name = 256;

std::string_view stop_reason_of(std::string_view finish) {
    if (finish == "tool_calls") return stop_reason::tool_use;
    return finish;  // "stop", "length" and what the loop does not know keep their spelling
}

}  // namespace

OpenAIChatDecoder::OpenAIChatDecoder(MessageAssembler& assembler, IdSource& ids,
                                     bool accept_missing_finish)
    : assembler_(assembler),
      ids_(ids),
      parser_(std::make_unique<OpenAIChatChunkParser>()),
      accept_missing_finish_(accept_missing_finish) {}
OpenAIChatDecoder::~OpenAIChatDecoder() = default;

void OpenAIChatDecoder::decode(std::string_view event, std::string_view data, EventQueue& out) {
    data = trimmed(data, event_data_blanks);
    // A comment that a proxy has wrapped up as data is a keep-alive all the same.
    if (data.empty() || data.front() == ':') return;
    if (data == "[DONE]") {
        done_marker_ = true;
        return;
    }
    parse_event(*parser_, data);
    const OpenAIChatChunk& chunk = parser_->chunk;
    if (!chunk.error.empty()) {
        JsonTextError ignored;
        throw StreamFailure(read_stream_failure(parse_json(chunk.error, ignored)));
    }
    if (event == "error" || chunk.is_error) {
        JsonTextError ignored;
        throw StreamFailure(read_stream_failure(parse_json(data, ignored)));
    }
    apply(out);
}

void OpenAIChatDecoder::apply(EventQueue& out) {
    const OpenAIChatChunk& chunk = parser_->chunk;
    if (!chunk.id.empty() && assembler_.head().response_id.empty()) {
        assembler_.head().response_id = SharedString(chunk.id);
    }
    if (!announced_) {
        announced_ = true;
        const bool again = assembler_.started();
        if (again && !chunk.id.empty()) assembler_.head().response_id = SharedString(chunk.id);
        StreamEvent start = assembler_.start();
        if (!again) out.push(std::move(start));
    }
    if (chunk.usage) assembler_.head().usage = *chunk.usage;
    if (!chunk.model.empty()) note_details();
    // A last chunk with the whole message repeats what was streamed.
    if (!chunk.whole || !assembler_.has_content()) add_content(out);
    if (chunk.finish_reason.empty()) return;
    if (!finished_ || reason_ == stop_reason::stop) {
        reason_ = stop_reason_of(chunk.finish_reason);
        assembler_.details().finish_reason = chunk.finish_reason;
    }
    finished_ = true;
}

void OpenAIChatDecoder::note_details() {
    const OpenAIChatChunk& chunk = parser_->chunk;
    ResponseDetails& details = assembler_.details();
    details.api_type = "chat_completions";
    details.model = chunk.model;
    details.service_tier = chunk.service_tier;
    details.system_fingerprint = chunk.system_fingerprint;
}

void OpenAIChatDecoder::add_content(EventQueue& out) {
    const OpenAIChatChunk& chunk = parser_->chunk;
    if (!chunk.thinking_details.empty()) {
        JsonTextError error;
        const Json details = parse_json(chunk.thinking_details, error);
        std::string text;
        if (details.is_array()) {
            assembler_.count_detail(json_memory(details));
            add_thinking_details(details.get_array());
            if (chunk.thinking.empty()) text = thinking_details_text(details.get_array());
        }
        if (!text.empty()) add_thinking(text, out);
    }
    if (!chunk.thinking.empty()) {
        thinking_field_ = chunk.thinking_field;
        add_thinking(chunk.thinking, out);
    }
    if (!chunk.text.empty()) add_text(chunk.text, false, out);
    if (!chunk.refusal.empty()) add_text(chunk.refusal, true, out);
    for (const OpenAIChatCallPiece& piece : chunk.calls) add_call(piece, out);
}

void OpenAIChatDecoder::add_thinking(std::string_view text, EventQueue& out) {
    if (thinking_ < 0 || thinking_ != last_block_) {
        end_text(out);
        end_thinking(out);
        StreamEvent start = assembler_.thinking_start();
        thinking_ = last_block_ = start.content_index;
        out.push(std::move(start));
    }
    out.push(assembler_.thinking_delta(thinking_, text));
}

void OpenAIChatDecoder::add_text(std::string_view text, bool refusal, EventQueue& out) {
    if (text_ >= 0 && text_is_refusal_ != refusal) end_text(out);
    if (text_ < 0) {
        LazyObject extra;
        if (refusal) extra["refusal"] = true;
        StreamEvent start = assembler_.text_start(std::move(extra));
        text_ = last_block_ = start.content_index;
        text_is_refusal_ = refusal;
        out.push(std::move(start));
    }
    out.push(assembler_.text_delta(text_, text));
}

/// Whether a piece that carries the index of a call begins another one: there are servers that give every call the
/// index 0, and some of those give no ids either.
bool OpenAIChatDecoder::begins_another(const Call& call, const OpenAIChatCallPiece& piece) const {
    if (!piece.id.empty() && !call.wire_id.empty()) return piece.id != call.wire_id;
    if (piece.name.empty() || call.name.empty()) return false;
    const std::size_t first = piece.arguments.find_first_not_of(" \n\r\t");
    if (first == std::string_view::npos || piece.arguments[first] != '{') return false;
    if (!call.has_arguments) return piece.name != call.name;
    if (!call.extent.is_closed()) return false;
    return parse_arguments(assembler_.raw_arguments(call.index)).state == ArgumentsState::exact;
}

OpenAIChatDecoder::Call* OpenAIChatDecoder::find_call(const OpenAIChatCallPiece& piece) {
    if (piece.index < 0) {
        // Without an index the id says which call is meant, and without that it is the last one.
        if (!piece.id.empty()) {
            for (Call& call : calls_) {
                if (call.wire_id == piece.id) return &call;
            }
            return nullptr;
        }
        if (calls_.empty() || begins_another(calls_.back(), piece)) return nullptr;
        return &calls_.back();
    }
    for (auto call = calls_.rbegin(); call != calls_.rend(); ++call) {
        if (call->wire_index != piece.index) continue;
        return begins_another(*call, piece) ? nullptr : &*call;
    }
    return nullptr;
}

std::string OpenAIChatDecoder::usable_id(std::string_view wire_id) {
    const bool taken = std::any_of(calls_.begin(), calls_.end(),
                                   [&](const Call& call) { return call.wire_id == wire_id; });
    if (!wire_id.empty() && !taken) return std::string(wire_id);
    return "call_" + ids_.next();
}

OpenAIChatDecoder::Call& OpenAIChatDecoder::open_call(const OpenAIChatCallPiece& piece,
                                                      EventQueue& out) {
    end_text(out);
    StreamEvent start = assembler_.toolcall_start(usable_id(piece.id), SharedString(piece.name));
    Call call;
    call.wire_index = piece.index;
    call.index = last_block_ = start.content_index;
    call.wire_id = piece.id;
    call.name = piece.name;
    out.push(std::move(start));
    return calls_.emplace_back(std::move(call));
}

void OpenAIChatDecoder::add_call(const OpenAIChatCallPiece& piece, EventQueue& out) {
    Call* call = find_call(piece);
    if (!call) {
        // A piece of nothing at all (a heartbeat of some servers) opens no call.
        if (piece.name.empty() && piece.arguments.empty() && piece.id.empty()) return;
        call = &open_call(piece, out);
    } else {
        add_name(*call, piece.name);
    }
    if (piece.arguments.empty()) return;
    call->has_arguments = true;
    call->extent.add(piece.arguments);
    out.push(assembler_.toolcall_delta(call->index, piece.arguments));
}

/// A name comes once, or again with every piece, or late, or in pieces before the arguments.
void OpenAIChatDecoder::add_name(Call& call, std::string_view name) {
    if (name.empty() || name == call.name) return;
    if (!call.name.empty() && call.has_arguments) return;
    if (call.name.size() + name.size() > max_tool_name) {
        throw Error(ErrorCode::too_large, "the answer has a tool name of more than " +
                                              std::to_string(max_tool_name) + " characters");
    }
    call.name += name;
    assembler_.rename_call(call.index, SharedString(call.name));
}

/// Keeps OpenRouter's reasoning items, whose signatures must come back as they were (D13). The pieces of one item
/// are joined.
void OpenAIChatDecoder::add_thinking_details(const JsonArray& details) {
    for (const Json& piece : details) {
        if (!piece.is_object()) continue;
        append_thinking_detail(thinking_details_, piece.get_object());
    }
}

void OpenAIChatDecoder::end_text(EventQueue& out) {
    if (text_ < 0) return;
    SplitText& split = text_is_refusal_ ? parser_->refusal : parser_->text;
    if (split.holds_back()) out.push(assembler_.text_delta(text_, split.give_up()));
    out.push(assembler_.text_end(text_));
    text_ = -1;
}

void OpenAIChatDecoder::end_thinking(EventQueue& out) {
    if (thinking_ < 0) return;
    if (parser_->thinking.holds_back())
        out.push(assembler_.thinking_delta(thinking_, parser_->thinking.give_up()));
    LazyObject extra;
    if (!thinking_details_.empty())
        extra["reasoning_details"] = std::exchange(thinking_details_, JsonArray());
    out.push(assembler_.thinking_end(thinking_, std::move(extra)));
    thinking_ = -1;
}

void OpenAIChatDecoder::close_blocks(EventQueue& out) {
    if (thinking_ < 0 && !thinking_details_.empty()) {
        StreamEvent start = assembler_.thinking_start();
        thinking_ = last_block_ = start.content_index;
        out.push(std::move(start));
    }
    end_thinking(out);
    end_text(out);
    for (const Call& call : calls_) out.push(assembler_.toolcall_end(call.index));
    calls_.clear();
}

void OpenAIChatDecoder::finish(EventQueue& out) {
    if (!finished_ && accept_missing_finish_ && announced_) {
        reason_ = calls_.empty() ? stop_reason::stop : stop_reason::tool_use;
        finished_ = true;
    }
    if (!finished_) {
        throw Error(ErrorCode::disconnected,
                    announced_ ? "the answer ended without a finish_reason; it may be incomplete"
                               : "the answer ended before it began");
    }
    close_blocks(out);
    out.push(assembler_.done(reason_));
}

}  // namespace cubepi::detail
