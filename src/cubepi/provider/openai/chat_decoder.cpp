#include <cubepi/provider/openai/chat_api.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/json_memory.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/core/usage.hpp>
#include <cubepi/provider/openai/openai_words.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/partial_json.hpp>

namespace cubepi::detail {

namespace {

/// Vendors allow 64 characters in a request's tools.
constexpr std::size_t max_tool_name = 256;

/// Adds one part of a content list: {"type": "text", "text": ...} or {"type": "thinking", "thinking": [...]}.
void collect_content_part(const Json& part, std::string& text, std::string& thinking) {
    if (part.is_string()) {
        text += std::string_view(part.get_string());
        return;
    }
    if (!part.is_object()) return;
    const JsonObject& object = part.get_object();
    if (string_member(object, "type") != "thinking") {
        text += string_member(object, "text");
        return;
    }
    thinking += string_member(object, "thinking");
    const Json* inner = object.if_contains("thinking");
    if (!inner || !inner->is_array()) return;
    for (const Json& piece : inner->get_array()) {
        if (piece.is_object()) thinking += string_member(piece.get_object(), "text");
    }
}

/// Returns the text in a list of reasoning items.
std::string thinking_details_text(const JsonArray& details) {
    std::string text;
    for (const Json& item : details) {
        if (!item.is_object()) continue;
        text += string_member(item.get_object(), "text");
        text += string_member(item.get_object(), "summary");
    }
    return text;
}

/// Adds a piece of a reasoning item; pieces of the same item (type and index) are joined.
void append_thinking_detail(JsonArray& details, const JsonObject& piece) {
    if (!details.empty()) {
        JsonObject& last = details.back().get_object();
        const Json* index = piece.if_contains("index");
        const Json* last_index = last.if_contains("index");
        const bool same = index && last_index && *index == *last_index &&
                          string_member(last, "type") == string_member(piece, "type");
        if (same) {
            for (const auto& [key, value] : piece) {
                const bool grows = key == "text" || key == "summary" || key == "data";
                Json& old = last[key];
                if (grows && old.is_string() && value.is_string()) {
                    old.get_string().append(value.get_string());
                } else if (!value.is_null()) {
                    old = value;
                }
            }
            return;
        }
    }
    details.push_back(piece);
}

/// Returns true for the members of answers whose servers want them back. Others are not returned: servers send many that they
/// refuse in a request, and a thread with such an answer would be refused forever.
bool is_wanted_back(const od::raw_json_string& key) {
    return is(key, "extra_content") || is(key, "provider_specific_fields");
}

/// Adds a piece of the members. A text or a list that comes in several pieces cannot be put together: null takes its place.
void merge_pieces(JsonObject& all, const JsonObject& piece) {
    for (const auto& [key, value] : piece) {
        Json* const old = all.if_contains(key);
        if (!old) {
            all[key] = value;
        } else if (old->is_object() && value.is_object()) {
            merge_pieces(old->get_object(), value.get_object());
        } else if (*old != value) {
            *old = nullptr;
        }
    }
}

/// Adds a member that has no place in a call or an answer. The endpoint gets it back (D88).
void add_unknown(JsonObject& members, const od::raw_json_string& key, od::value& value) {
    const char* end = key.raw();
    while (*end != '"') end += *end == '\\' ? 2 : 1;
    JsonTextError error;
    const Json name = parse_json(std::string_view(key.raw() - 1, end + 1), error);
    if (error) return;
    Json parsed = parse_json(raw_of(value), error);
    if (!error && !parsed.is_null()) members[name.get_string()] = std::move(parsed);
}

}  // namespace

/// A piece of a call.
struct OpenAIChatCallPiece {
    std::int64_t index = -1;
    std::string_view id;
    std::string_view name;
    std::string_view arguments;
    JsonObject members;  ///< those that have no place in a call
};

/// The content of one chunk, with its keys in any order. The views point into the parser or its scratch texts.
struct OpenAIChatChunk {
    std::string_view id;
    std::string_view thinking;
    std::string_view thinking_field;
    std::string_view text;
    std::string_view refusal;
    std::string_view thinking_details;  ///< raw JSON
    std::string_view finish_reason;
    // Read until the first of them was received: they are the same in all chunks.
    std::string_view model;
    std::string_view service_tier;
    std::string_view system_fingerprint;
    std::string_view error;  ///< raw JSON
    bool is_error = false;   ///< the chunk itself is an error: {"object": "error", "message": ...}
    std::vector<OpenAIChatCallPiece> calls;
    JsonObject members;  ///< those that have no place in an answer
    std::optional<Usage> usage;
    bool whole = false;  ///< has the whole answer so far ("message"), not only new text ("delta")

    void clear() {
        clear_content();
        id = finish_reason = error = model = service_tier = system_fingerprint = {};
        is_error = false;
        usage.reset();
    }
    void clear_content() {
        thinking = thinking_field = text = refusal = thinking_details = {};
        calls.clear();
        members.clear();
        whole = false;
    }
};

/// Reads the chunks of a Chat Completions stream, one after the other. Reuses its memory.
class OpenAIChatChunkParser {
public:
    /// Returns false if `data` is not a JSON object; otherwise `chunk` has its content, until the next call.
    bool parse(std::string_view data);

    OpenAIChatChunk chunk;
    bool has_details = false;  ///< the details of the endpoint were received
    // Half of a character from the end of the last chunk.
    SplitText thinking;
    SplitText text;
    SplitText refusal;

private:
    void read_root(od::object& root);
    void read_error(od::value& value);
    void read_usage(od::value& value);
    void read_detail(const od::raw_json_string& key, od::value& value);
    bool read_choice(od::object choice);
    void read_delta(od::object delta);
    void read_content(od::value& value);
    void read_calls(od::array calls);
    void read_call(od::object call);

    EventReader reader_;
    SplitText arguments_;
};

bool OpenAIChatChunkParser::parse(std::string_view data) {
    chunk.clear();
    arguments_.keep.clear();
    return reader_.walk(data, [this](od::object& root) { read_root(root); });
}

void OpenAIChatChunkParser::read_root(od::object& root) {
    each(root, [this](const od::raw_json_string& key, od::value value) {
        if (is(key, "choices")) {
            if (!is_json_array(value)) return;
            bool found = false;
            od::array choices = value.get_array();
            each(choices, [&](od::value& choice) {
                if (!found && is_json_object(choice)) found = read_choice(choice.get_object());
            });
        } else if (is(key, "id")) {
            if (is_json_string(value)) chunk.id = value.get_string();
        } else if (is(key, "usage")) {
            read_usage(value);
        } else if (is(key, "x_groq")) {
            if (!is_json_object(value)) return;
            od::object groq = value.get_object();
            each(groq, [this](const od::raw_json_string& inner, od::value part) {
                if (is(inner, "usage")) read_usage(part);
            });
        } else if (is(key, "object")) {
            chunk.is_error = value.raw_json_token().starts_with("\"error\"");
        } else if (is(key, "error")) {
            read_error(value);
        } else if (!has_details) {
            read_detail(key, value);
        }
    });
    has_details = has_details || !chunk.model.empty();
}

void OpenAIChatChunkParser::read_error(od::value& value) {
    const std::string_view raw = raw_of(value);
    if (!raw.empty() && raw.front() != 'n') chunk.error = raw;
}

void OpenAIChatChunkParser::read_detail(const od::raw_json_string& key, od::value& value) {
    if (!is_json_string(value)) return;
    if (is(key, "model")) {
        chunk.model = value.get_string();
    } else if (is(key, "service_tier")) {
        chunk.service_tier = value.get_string();
    } else if (is(key, "system_fingerprint")) {
        chunk.system_fingerprint = value.get_string();
    }
}

void OpenAIChatChunkParser::read_usage(od::value& value) {
    if (!is_json_object(value)) return;
    if (auto usage = read_openai_usage(value.get_object(), chat_usage_names)) chunk.usage = usage;
}

/// Returns false for another choice than the first: if several were requested, only that one is used.
bool OpenAIChatChunkParser::read_choice(od::object choice) {
    bool has_delta = false;
    bool another = false;
    each(choice, [&](const od::raw_json_string& key, od::value value) {
        if (is(key, "index")) {
            another = integer_of(value, 0) > 0;
        } else if (is(key, "usage")) {
            read_usage(value);
        } else if (is(key, "delta")) {
            if (!is_json_object(value)) return;
            // Some servers send what is new and all of it so far, side by side.
            chunk.clear_content();
            has_delta = true;
            read_delta(value.get_object());
        } else if (is(key, "message")) {
            if (has_delta || !is_json_object(value)) return;
            chunk.whole = true;
            read_delta(value.get_object());
        } else if (is(key, "finish_reason")) {
            if (is_json_string(value)) chunk.finish_reason = value.get_string();
        } else if (is(key, "error")) {
            read_error(value);
        }
    });
    if (another) {
        chunk.clear_content();
        chunk.finish_reason = {};
    }
    return !another;
}

void OpenAIChatChunkParser::read_delta(od::object delta) {
    each(delta, [this](const od::raw_json_string& key, od::value value) {
        if (is(key, "content")) {
            read_content(value);
        } else if (is(key, "tool_calls")) {
            if (is_json_array(value)) read_calls(value.get_array());
            if (is_json_object(value)) read_call(value.get_object());
        } else if (is(key, "reasoning_content")) {
            const std::string_view piece = piece_of(value, thinking);
            if (piece.empty()) return;
            chunk.thinking = piece;
            chunk.thinking_field = "reasoning_content";
        } else if (is(key, "reasoning")) {
            if (chunk.thinking_field == "reasoning_content") return;
            const std::string_view piece = piece_of(value, thinking);
            if (piece.empty()) return;
            chunk.thinking = piece;
            chunk.thinking_field = "reasoning";
        } else if (is(key, "reasoning_details")) {
            if (is_json_array(value)) chunk.thinking_details = raw_of(value);
        } else if (is(key, "refusal")) {
            chunk.refusal = piece_of(value, refusal);
        } else if (is_wanted_back(key)) {
            add_unknown(chunk.members, key, value);
        }
    });
}

/// A string, or (Mistral) a list of parts.
void OpenAIChatChunkParser::read_content(od::value& value) {
    if (!is_json_array(value)) {
        chunk.text = piece_of(value, text);
        return;
    }
    const Json parts = parse_json(raw_of(value));
    text.scratch.clear();
    thinking.scratch.clear();
    for (const Json& part : parts.get_array()) {
        collect_content_part(part, text.scratch, thinking.scratch);
    }
    chunk.text = text.scratch;
    if (!thinking.scratch.empty()) {
        chunk.thinking = thinking.scratch;
        chunk.thinking_field = "content";
    }
}

void OpenAIChatChunkParser::read_calls(od::array calls) {
    each(calls, [this](od::value& item) {
        if (is_json_object(item)) read_call(item.get_object());
    });
}

void OpenAIChatChunkParser::read_call(od::object call) {
    OpenAIChatCallPiece piece;
    each(call, [&](const od::raw_json_string& key, od::value value) {
        if (is(key, "index")) {
            piece.index = integer_of(value, -1);
        } else if (is(key, "id")) {
            if (is_json_string(value)) piece.id = value.get_string();
        } else if (is(key, "function") && is_json_object(value)) {
            od::object function = value.get_object();
            JsonObject unknown;
            each(function, [&](const od::raw_json_string& inner, od::value part) {
                if (is(inner, "name")) {
                    if (is_json_string(part)) piece.name = part.get_string();
                } else if (is(inner, "arguments")) {
                    // Some servers send the object itself instead of its text.
                    piece.arguments =
                        is_json_object(part) ? raw_of(part) : piece_of(part, arguments_);
                } else {
                    add_unknown(unknown, inner, part);
                }
            });
            if (!unknown.empty()) piece.members["function"] = std::move(unknown);
        } else if (!is(key, "type")) {
            add_unknown(piece.members, key, value);
        }
    });
    // Scratch text is of one piece only: what is split between chunks is kept by hand.
    if (!piece.arguments.empty() && piece.arguments.data() == arguments_.scratch.data()) {
        arguments_.keep.push_back(arguments_.scratch);
        piece.arguments = arguments_.keep.back();
    }
    chunk.calls.push_back(std::move(piece));
}

namespace {

std::string_view without_leading_blanks(std::string_view text) {
    return text.substr(std::min(text.find_first_not_of(" \n\r\t"), text.size()));
}

}  // namespace

ThinkingTag::ThinkingTag(const std::string& name)
    : open_("<" + name + ">"),
      close_("</" + name + ">"),
      state_(name.empty() ? State::text : State::before) {}

ThinkingTag::Parts ThinkingTag::add(std::string_view piece) {
    if (state_ == State::text) return {{}, piece};
    taken_ = std::exchange(pending_, std::string());
    taken_ += piece;
    std::string_view rest = taken_;
    Parts parts;
    if (state_ == State::before) {
        constexpr std::size_t max_blanks = 4096;
        const std::string_view begin = without_leading_blanks(rest);
        if (begin.size() < open_.size() && open_.starts_with(begin) && rest.size() < max_blanks) {
            pending_ = rest;
            return {};
        }
        if (!begin.starts_with(open_)) {
            state_ = State::text;
            return {{}, rest};
        }
        rest = begin.substr(open_.size());
        state_ = State::inside;
    }
    if (state_ == State::inside) {
        const std::size_t end = rest.find(close_);
        if (end == std::string_view::npos) {
            std::size_t certain = rest.size();
            for (std::size_t i = certain - std::min(certain, close_.size() - 1); i < certain; ++i) {
                if (close_.starts_with(rest.substr(i))) certain = i;
            }
            pending_ = rest.substr(certain);
            return {thinking(rest.substr(0, certain)), {}};
        }
        parts.thinking = thinking(rest.substr(0, end));
        rest = rest.substr(end + close_.size());
        state_ = State::after;
    }
    // White space between the tag and the text belongs to neither.
    parts.text = without_leading_blanks(rest);
    if (!parts.text.empty()) state_ = State::text;
    return parts;
}

ThinkingTag::Parts ThinkingTag::finish() {
    if (open_ == "<>") return {};
    taken_ = std::exchange(pending_, std::string());
    const bool inside = std::exchange(state_, State::before) == State::inside;
    const Parts parts = inside ? Parts{thinking(taken_), {}} : Parts{{}, taken_};
    has_thinking_ = false;
    return parts;
}

/// Models that do not think send an empty tag, which is not a thought.
std::string_view ThinkingTag::thinking(std::string_view piece) {
    if (!has_thinking_) piece = without_leading_blanks(piece);
    has_thinking_ = has_thinking_ || !piece.empty();
    return piece;
}

OpenAIChatDecoder::OpenAIChatDecoder(MessageAssembler& assembler, IdSource& ids,
                                     bool accept_missing_finish, const std::string& thinking_tag)
    : WireDecoder(assembler, ids),
      parser_(std::make_unique<OpenAIChatChunkParser>()),
      tag_(thinking_tag),
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
    std::string sanitized;
    parse_event(data, sanitized, [this](std::string_view text) { return parser_->parse(text); });
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
    const bool new_attempt = !announced_ && assembler_.started();
    if (!chunk.id.empty() && (new_attempt || assembler_.head().response_id.empty()))
        assembler_.head().response_id = SharedString(chunk.id);
    if (new_attempt) assembler_.head().extra.erase(chat_members_key);
    announce(out);
    if (chunk.usage) assembler_.head().usage = *chunk.usage;
    if (!chunk.model.empty()) note_details();
    // A last chunk with the whole message repeats what was streamed.
    if (!chunk.whole || !assembler_.has_content()) add_content(out);
    // DashScope sends the text "null" for an answer that continues.
    if (chunk.finish_reason.empty() || chunk.finish_reason == "null") return;
    if (!finished_ || reason_ == stop_reason::stop) {
        reason_ = stop_reason_of_finish(chunk.finish_reason);
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
    if (!chunk.members.empty()) {
        Json& all = assembler_.head().extra[chat_members_key];
        if (!all.is_object()) all = JsonObject();
        const std::size_t before = json_memory(all);
        merge_pieces(all.get_object(), chunk.members);
        const std::size_t after = json_memory(all);
        if (after > before) assembler_.count_detail(after - before);
    }
    if (!chunk.thinking_details.empty()) {
        JsonTextError error;
        const Json details = parse_json(chunk.thinking_details, error);
        std::string text;
        if (details.is_array()) {
            assembler_.count_detail(json_memory(details));
            // OpenRouter's reasoning items have signatures, which must be returned unchanged (D13).
            for (const Json& piece : details.get_array()) {
                if (piece.is_object())
                    append_thinking_detail(thinking_details_, piece.get_object());
            }
            if (chunk.thinking.empty()) text = thinking_details_text(details.get_array());
        }
        if (!text.empty()) add_thinking(text, out);
    }
    if (!chunk.thinking.empty()) {
        add_thinking(chunk.thinking, out);
    }
    if (!chunk.text.empty()) add_content(tag_.add(chunk.text), out);
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

void OpenAIChatDecoder::add_content(ThinkingTag::Parts parts, EventQueue& out) {
    if (!parts.thinking.empty()) add_thinking(parts.thinking, out);
    if (!parts.text.empty()) add_text(parts.text, false, out);
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

/// Whether a piece that carries the index or the id of a call begins another one: there are servers that set the index 0 in every
/// call, and some of those set no ids either, or the same one.
bool OpenAIChatDecoder::begins_another(const Call& call, const OpenAIChatCallPiece& piece) const {
    const bool has_ids = !piece.id.empty() && !call.wire_id.empty();
    if (has_ids && piece.id != call.wire_id) return true;
    if (piece.name.empty() || call.name.empty()) return false;
    const std::size_t first = piece.arguments.find_first_not_of(" \n\r\t");
    if (first == std::string_view::npos || piece.arguments[first] != '{') return false;
    if (!call.has_arguments) return !has_ids && piece.name != call.name;
    if (!call.extent.is_closed() || repeats(call, piece)) return false;
    return parse_arguments(assembler_.raw_arguments(call.index)).state == ArgumentsState::exact;
}

/// Whether a piece is the whole call once more: there are servers that repeat it in their last chunk.
bool OpenAIChatDecoder::repeats(const Call& call, const OpenAIChatCallPiece& piece) const {
    return !piece.id.empty() && piece.id == call.wire_id && piece.name == call.name &&
           call.extent.is_closed() && piece.arguments == assembler_.raw_arguments(call.index);
}

OpenAIChatDecoder::Call* OpenAIChatDecoder::find_call(const OpenAIChatCallPiece& piece) {
    if (piece.index < 0) {
        // Without an index the id says which call is meant, and without that it is the last one.
        if (!piece.id.empty()) {
            for (auto call = calls_.rbegin(); call != calls_.rend(); ++call) {
                if (call->wire_id == piece.id)
                    return begins_another(*call, piece) ? nullptr : &*call;
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
    add_content(tag_.finish(), out);
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
        if (repeats(*call, piece)) return;
        add_name(*call, piece.name);
    }
    if (!piece.members.empty())
        assembler_.extend_call(call->index, chat_members_key, piece.members);
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
    add_content(tag_.finish(), out);
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
