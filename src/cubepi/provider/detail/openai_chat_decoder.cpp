#include <cubepi/provider/detail/openai_chat_decoder.hpp>

#include <algorithm>
#include <optional>
#include <utility>

#include <simdjson.h>

#include <cubepi/net/utf8.hpp>
#include <cubepi/provider/detail/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/partial_json.hpp>

namespace cubepi::detail {

namespace od = simdjson::ondemand;

struct OpenAIChatDecoder::CallPiece {
    std::int64_t index = -1;
    std::string_view id;
    std::string_view name;
    std::string_view arguments;
};

/// What one chunk says, in any order of its keys. The views point into the parser or its scratch texts.
struct OpenAIChatDecoder::Chunk {
    std::string_view id;
    std::string_view thinking;
    std::string_view thinking_field;
    std::string_view text;
    std::string_view refusal;
    std::string_view thinking_details;  ///< raw JSON
    std::string_view finish_reason;
    std::string_view error;  ///< raw JSON
    std::vector<CallPiece> calls;
    std::optional<Usage> usage;

    void clear() {
        id = thinking = thinking_field = text = refusal = thinking_details = finish_reason =
            error = {};
        calls.clear();
        usage.reset();
    }
};

struct OpenAIChatDecoder::Parser {
    od::parser parser;
    std::string padded;
    Chunk chunk;
    SplitText thinking;
    SplitText text;
    SplitText refusal;
    SplitText arguments;

    std::string_view text_of(od::value& value, SplitText& split);
    void read_root(od::object& root);
    void read_choice(od::object choice);
    void read_delta(od::object delta);
    void read_content(od::value& value);
    void read_calls(od::array calls);
    void read_usage(od::object usage);
};

namespace {

bool is(const od::raw_json_string& key, std::string_view name) {
    return std::char_traits<char>::compare(key.raw(), name.data(), name.size()) == 0 &&
           key.raw()[name.size()] == '"';
}

bool is_object(od::value& value) {
    od::json_type type{};
    return value.type().get(type) == simdjson::SUCCESS && type == od::json_type::object;
}

bool is_array(od::value& value) {
    od::json_type type{};
    return value.type().get(type) == simdjson::SUCCESS && type == od::json_type::array;
}

bool is_string(od::value& value) {
    od::json_type type{};
    return value.type().get(type) == simdjson::SUCCESS && type == od::json_type::string;
}

std::string_view raw_of(od::value& value) {
    std::string_view raw;
    if (is_object(value)) {
        if (value.get_object().value_unsafe().raw_json().get(raw) != simdjson::SUCCESS) return {};
    } else if (is_array(value)) {
        if (value.get_array().value_unsafe().raw_json().get(raw) != simdjson::SUCCESS) return {};
    } else {
        raw = value.raw_json_token();
    }
    return raw;
}

std::int64_t integer_of(od::value& value, std::int64_t otherwise) {
    std::int64_t number = 0;
    if (value.get_int64().get(number) == simdjson::SUCCESS) return number;
    double real = 0;
    if (value.get_double().get(real) == simdjson::SUCCESS && real >= 0 && real < 9e15)
        return static_cast<std::int64_t>(real);
    return otherwise;
}

/// Calls `f(key, value)` for each member. What cannot be read ends the walk with a protocol error.
template <class F>
void each(od::object& object, F&& f) {
    for (auto member : object) {
        od::field field;
        if (std::move(member).get(field) != simdjson::SUCCESS)
            throw simdjson::simdjson_error(simdjson::TAPE_ERROR);
        f(field.key(), field.value());
    }
}

template <class F>
void each(od::array& array, F&& f) {
    for (auto item : array) {
        od::value value;
        if (std::move(item).get(value) != simdjson::SUCCESS)
            throw simdjson::simdjson_error(simdjson::TAPE_ERROR);
        f(value);
    }
}

std::string_view stop_reason_of(std::string_view finish) {
    if (finish == "tool_calls") return stop_reason::tool_use;
    return finish;  // "stop", "length" and what the loop does not know keep their spelling
}

}  // namespace

/// A string; a \u escape whose other half comes in the next chunk is held back until then.
std::string_view OpenAIChatDecoder::Parser::text_of(od::value& value, SplitText& split) {
    if (!is_string(value)) return {};
    const std::string_view token = value.raw_json_token();
    if (!split.holds_back()) {
        std::string_view plain;
        if (value.get_string().get(plain) == simdjson::SUCCESS) return plain;
    }
    return split.unescape(token);
}

void OpenAIChatDecoder::Parser::read_root(od::object& root) {
    each(root, [this](const od::raw_json_string& key, od::value value) {
        if (is(key, "choices")) {
            if (!is_array(value)) return;
            bool first = true;
            od::array choices = value.get_array();
            each(choices, [&](od::value& choice) {
                if (std::exchange(first, false) && is_object(choice))
                    read_choice(choice.get_object());
            });
        } else if (is(key, "id")) {
            if (is_string(value)) chunk.id = value.get_string();
        } else if (is(key, "usage")) {
            if (is_object(value)) read_usage(value.get_object());
        } else if (is(key, "error")) {
            const std::string_view raw = raw_of(value);
            if (!raw.empty() && raw.front() != 'n') chunk.error = raw;
        }
    });
}

void OpenAIChatDecoder::Parser::read_choice(od::object choice) {
    each(choice, [this](const od::raw_json_string& key, od::value value) {
        if (is(key, "delta") || is(key, "message")) {
            if (is_object(value)) read_delta(value.get_object());
        } else if (is(key, "finish_reason")) {
            if (is_string(value)) chunk.finish_reason = value.get_string();
        }
    });
}

void OpenAIChatDecoder::Parser::read_delta(od::object delta) {
    each(delta, [this](const od::raw_json_string& key, od::value value) {
        if (is(key, "content")) {
            read_content(value);
        } else if (is(key, "tool_calls")) {
            if (is_array(value)) read_calls(value.get_array());
        } else if (is(key, "reasoning_content")) {
            const std::string_view piece = text_of(value, thinking);
            if (piece.empty()) return;
            chunk.thinking = piece;
            chunk.thinking_field = "reasoning_content";
        } else if (is(key, "reasoning")) {
            if (chunk.thinking_field == "reasoning_content") return;
            const std::string_view piece = text_of(value, thinking);
            if (piece.empty()) return;
            chunk.thinking = piece;
            chunk.thinking_field = "reasoning";
        } else if (is(key, "reasoning_details")) {
            if (is_array(value)) chunk.thinking_details = raw_of(value);
        } else if (is(key, "refusal")) {
            chunk.refusal = text_of(value, refusal);
        }
    });
}

/// A string, or (Mistral) a list of parts.
void OpenAIChatDecoder::Parser::read_content(od::value& value) {
    if (!is_array(value)) {
        chunk.text = text_of(value, text);
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

void OpenAIChatDecoder::Parser::read_calls(od::array calls) {
    each(calls, [this](od::value& item) {
        if (!is_object(item)) return;
        CallPiece piece;
        od::object call = item.get_object();
        each(call, [&](const od::raw_json_string& key, od::value value) {
            if (is(key, "index")) {
                piece.index = integer_of(value, -1);
            } else if (is(key, "id")) {
                if (is_string(value)) piece.id = value.get_string();
            } else if (is(key, "function") && is_object(value)) {
                od::object function = value.get_object();
                each(function, [&](const od::raw_json_string& inner, od::value part) {
                    if (is(inner, "name")) {
                        if (is_string(part)) piece.name = part.get_string();
                    } else if (is(inner, "arguments")) {
                        // Some servers send the object itself instead of its text.
                        piece.arguments = is_object(part) ? raw_of(part) : text_of(part, arguments);
                    }
                });
            }
        });
        // Scratch text is of one piece only: what is split between chunks is kept by hand.
        if (!piece.arguments.empty() && piece.arguments.data() == arguments.scratch.data()) {
            arguments.keep.push_back(arguments.scratch);
            piece.arguments = arguments.keep.back();
        }
        chunk.calls.push_back(piece);
    });
}

void OpenAIChatDecoder::Parser::read_usage(od::object object) {
    std::int64_t prompt = -1;
    std::int64_t output = -1;
    std::int64_t cached = -1;
    std::int64_t reasoning = -1;
    const auto read_detail = [](od::value& value, std::string_view name, std::int64_t& into) {
        if (!is_object(value)) return;
        od::object details = value.get_object();
        each(details, [&](const od::raw_json_string& key, od::value number) {
            if (is(key, name)) into = integer_of(number, into);
        });
    };
    each(object, [&](const od::raw_json_string& key, od::value value) {
        if (is(key, "prompt_tokens")) {
            prompt = integer_of(value, prompt);
        } else if (is(key, "completion_tokens")) {
            output = integer_of(value, output);
        } else if (is(key, "prompt_tokens_details")) {
            read_detail(value, "cached_tokens", cached);
        } else if (is(key, "prompt_cache_hit_tokens")) {
            cached = integer_of(value, cached);
        } else if (is(key, "completion_tokens_details")) {
            read_detail(value, "reasoning_tokens", reasoning);
        }
    });
    Usage usage;
    if (prompt >= 0)
        usage.input_tokens = std::max<std::int64_t>(0, prompt - std::max<std::int64_t>(0, cached));
    if (output >= 0) usage.output_tokens = output;
    if (cached >= 0) usage.cache_read_tokens = cached;
    if (reasoning >= 0) usage.reasoning_tokens = reasoning;
    if (!(usage == Usage())) chunk.usage = usage;
}

OpenAIChatDecoder::OpenAIChatDecoder(MessageAssembler& assembler, IdSource& ids,
                                     bool accept_missing_finish)
    : assembler_(assembler),
      ids_(ids),
      parser_(std::make_unique<Parser>()),
      accept_missing_finish_(accept_missing_finish) {}
OpenAIChatDecoder::~OpenAIChatDecoder() = default;

void OpenAIChatDecoder::decode(std::string_view event, std::string_view data, EventQueue& out) {
    while (!data.empty() && (data.back() == ' ' || data.back() == '\r' || data.back() == '\n'))
        data.remove_suffix(1);
    while (!data.empty() && (data.front() == ' ' || data.front() == '\n')) data.remove_prefix(1);
    if (data.empty()) return;
    if (data == "[DONE]") {
        done_marker_ = true;
        return;
    }
    if (!parse(data)) {
        const std::string mended = replace_broken_utf8(data);
        if (!parse(mended)) {
            throw Error(ErrorCode::protocol,
                        "the endpoint sent something that is not JSON: " +
                            mended.substr(
                                0, complete_utf8_prefix(std::string_view(mended).substr(0, 100))));
        }
    }
    const Chunk& chunk = parser_->chunk;
    if (!chunk.error.empty()) {
        JsonTextError ignored;
        throw StreamFailure(read_stream_failure(parse_json(chunk.error, ignored)));
    }
    if (event == "error") {
        JsonTextError ignored;
        throw StreamFailure(read_stream_failure(parse_json(data, ignored)));
    }
    apply(out);
}

/// False when it is not JSON, or not an object.
bool OpenAIChatDecoder::parse(std::string_view data) {
    Parser& p = *parser_;
    p.padded.reserve(data.size() + simdjson::SIMDJSON_PADDING);
    p.padded.assign(data);
    p.chunk.clear();
    p.arguments.keep.clear();
    od::document document;
    const simdjson::padded_string_view view(p.padded.data(), p.padded.size(), p.padded.capacity());
    if (p.parser.iterate(view).get(document) != simdjson::SUCCESS) return false;
    od::object root;
    if (document.get_object().get(root) != simdjson::SUCCESS) return false;
    try {
        p.read_root(root);
    } catch (const simdjson::simdjson_error&) {
        return false;
    } catch (const Error& error) {
        if (error.code() != ErrorCode::parse) throw;
        return false;
    }
    return true;
}

void OpenAIChatDecoder::apply(EventQueue& out) {
    const Chunk& chunk = parser_->chunk;
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
    if (finished_) return;
    if (!chunk.thinking_details.empty()) {
        JsonTextError error;
        const Json details = parse_json(chunk.thinking_details, error);
        std::string text;
        if (details.is_array()) {
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
    for (const CallPiece& piece : chunk.calls) add_call(piece, out);
    if (chunk.finish_reason.empty()) return;
    reason_ = stop_reason_of(chunk.finish_reason);
    close_blocks(out);
    finished_ = true;
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
bool OpenAIChatDecoder::begins_another(const Call& call, const CallPiece& piece) const {
    if (!piece.id.empty() && !call.wire_id.empty()) return piece.id != call.wire_id;
    if (piece.name.empty() || !call.named || !call.has_arguments) return false;
    const std::size_t first = piece.arguments.find_first_not_of(" \n\r\t");
    if (first == std::string_view::npos || piece.arguments[first] != '{') return false;
    return parse_arguments(assembler_.raw_arguments(call.index)).state == ArgumentsState::exact;
}

OpenAIChatDecoder::Call* OpenAIChatDecoder::find_call(const CallPiece& piece) {
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

OpenAIChatDecoder::Call& OpenAIChatDecoder::open_call(const CallPiece& piece, EventQueue& out) {
    end_text(out);
    StreamEvent start = assembler_.toolcall_start(usable_id(piece.id), SharedString(piece.name));
    Call call;
    call.wire_index = piece.index;
    call.index = last_block_ = start.content_index;
    call.wire_id = piece.id;
    call.named = !piece.name.empty();
    out.push(std::move(start));
    return calls_.emplace_back(std::move(call));
}

void OpenAIChatDecoder::add_call(const CallPiece& piece, EventQueue& out) {
    Call* call = find_call(piece);
    if (!call) {
        // A piece of nothing at all (a heartbeat of some servers) opens no call.
        if (piece.name.empty() && piece.arguments.empty() && piece.id.empty()) return;
        call = &open_call(piece, out);
    } else if (!call->named && !piece.name.empty()) {
        call->named = true;
        assembler_.rename_call(call->index, SharedString(piece.name));
    }
    if (piece.arguments.empty()) return;
    call->has_arguments = true;
    out.push(assembler_.toolcall_delta(call->index, piece.arguments));
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
        close_blocks(out);
        finished_ = true;
    }
    if (!finished_) {
        throw Error(ErrorCode::disconnected,
                    announced_ ? "the answer ended without a finish_reason: it may be cut off"
                               : "the answer ended before it began");
    }
    out.push(assembler_.done(reason_));
}

}  // namespace cubepi::detail
