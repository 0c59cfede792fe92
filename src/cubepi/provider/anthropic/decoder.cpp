#include <cubepi/provider/anthropic/messages_api.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/json_memory.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/provider/wire/answer_size.hpp>
#include <cubepi/provider/wire/decoding.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi::detail {

/// Kinds of events of a Messages stream.
enum class AnthropicEventType : std::uint8_t {
    other,  ///< parsed as a whole: events that occur once per block or per message
    delta,  ///< a piece of text, thinking, arguments or signature
    block_stop,
    ping,
    message_stop,
};

enum class AnthropicDelta : std::uint8_t { other, text, thinking, arguments, signature };

/// One event, in any order of its keys. The views point into the parser or its scratch text.
struct AnthropicEvent {
    AnthropicEventType type = AnthropicEventType::other;
    AnthropicDelta delta = AnthropicDelta::other;
    std::int64_t index = -1;     ///< of the block at the endpoint; -1: absent
    std::string_view text = {};  ///< of a delta
};

namespace {

/// `token` is a string as it stands in the text, with its quotes and what follows it.
bool spells(std::string_view token, std::string_view word) {
    return token.size() >= word.size() + 2 && token.front() == '"' &&
           token.substr(1, word.size()) == word && token[word.size() + 1] == '"';
}

AnthropicEventType type_of(std::string_view token) {
    if (spells(token, "content_block_delta")) return AnthropicEventType::delta;
    if (spells(token, "content_block_stop")) return AnthropicEventType::block_stop;
    if (spells(token, "ping")) return AnthropicEventType::ping;
    if (spells(token, "message_stop")) return AnthropicEventType::message_stop;
    return AnthropicEventType::other;
}

AnthropicEventType type_named(std::string_view name) {
    return name.empty() ? AnthropicEventType::other : type_of('"' + std::string(name) + '"');
}

AnthropicDelta delta_of(std::string_view token) {
    if (spells(token, "text_delta")) return AnthropicDelta::text;
    if (spells(token, "input_json_delta")) return AnthropicDelta::arguments;
    if (spells(token, "thinking_delta")) return AnthropicDelta::thinking;
    if (spells(token, "signature_delta")) return AnthropicDelta::signature;
    return AnthropicDelta::other;
}

std::string_view stop_reason_of(std::string_view reason) {
    if (reason == "end_turn") return stop_reason::stop;
    if (reason == "max_tokens") return stop_reason::length;
    return reason;  // "tool_use" and what the loop does not know keep their spelling
}

void read_count(const JsonObject& usage, std::string_view key, TokenCount& into) {
    const Json* value = usage.if_contains(key);
    if (!value || !value->is_number()) return;
    boost::json::error_code error;
    const auto count = value->to_number<std::int64_t>(error);
    if (!error) into = count;
}

/// Ending a block reads all that came since it began, so that few may be open at once. The protocol has one.
constexpr std::size_t max_open_blocks = 128;

}  // namespace

/// Reads the frequent events in one pass and without allocating; it only reports that the others are others.
class AnthropicEventParser {
public:
    /// Returns false if `data` is not a JSON object. `name` is that of the event, for data without a type.
    bool parse(std::string_view name, std::string_view data);

    AnthropicEvent event;
    /// Half of a character from the end of the last delta.
    SplitText split;

private:
    void read_root(od::object& root, std::string_view name);
    void read_delta(od::object delta);

    EventReader reader_;
};

bool AnthropicEventParser::parse(std::string_view name, std::string_view data) {
    event = AnthropicEvent();
    return reader_.walk(data, [&](od::object& root) { read_root(root, name); });
}

void AnthropicEventParser::read_root(od::object& root, std::string_view name) {
    bool typed = false;
    bool failed = false;
    each_until(root, [&](const od::raw_json_string& key, od::value value) {
        if (is(key, "type")) {
            event.type = type_of(value.raw_json_token());
            typed = true;
        } else if (is(key, "index")) {
            event.index = integer_of(value, -1);
        } else if (is(key, "delta")) {
            if (is_json_object(value)) read_delta(value.get_object());
        } else if (is(key, "error") && !value.is_null()) {
            // Gateways put their errors in any event.
            failed = true;
        }
        // Later members of a delta are not needed.
        return failed || (event.type == AnthropicEventType::delta && event.index >= 0 &&
                          event.delta != AnthropicDelta::other);
    });
    if (failed) {
        event.type = AnthropicEventType::other;
        return;
    }
    if (!typed) event.type = type_named(name);
    if (event.type == AnthropicEventType::delta && event.delta == AnthropicDelta::other)
        event.type = AnthropicEventType::other;
}

void AnthropicEventParser::read_delta(od::object delta) {
    each(delta, [this](const od::raw_json_string& key, od::value value) {
        if (is(key, "type")) {
            event.delta = delta_of(value.raw_json_token());
        } else if (is(key, "text") || is(key, "partial_json") || is(key, "thinking") ||
                   is(key, "signature")) {
            event.text = piece_of(value, split);
        }
    });
}

AnthropicDecoder::AnthropicDecoder(MessageAssembler& assembler, IdSource& ids)
    : WireDecoder(assembler, ids), parser_(std::make_unique<AnthropicEventParser>()) {}
AnthropicDecoder::~AnthropicDecoder() = default;

void AnthropicDecoder::decode(std::string_view name, std::string_view data, EventQueue& out) {
    data = trimmed(data, event_data_blanks);
    if (data.empty()) return;
    // Gateways that also speak OpenAI's protocol send its end marker here, too.
    if (data == "[DONE]") {
        over_ = true;
        return;
    }
    std::string sanitized;
    data = parse_event(data, sanitized,
                       [&](std::string_view text) { return parser_->parse(name, text); });
    if (parser_->event.type != AnthropicEventType::other) {
        apply_hot(out);
        return;
    }
    JsonTextError error;
    const Json whole = parse_json(data, error);
    if (error || !whole.is_object()) throw_not_json(data);
    const JsonObject& object = whole.get_object();
    const std::string_view type = string_member(object, "type");
    const Json* failure = object.if_contains("error");
    if (name == "error" || type == "error" || (failure && !failure->is_null()))
        throw StreamFailure(read_stream_failure(whole));
    apply(type.empty() ? name : type, object, out);
}

void AnthropicDecoder::apply_hot(EventQueue& out) {
    const AnthropicEvent& event = parser_->event;
    if (event.type == AnthropicEventType::message_stop) {
        over_ = true;
        return;
    }
    if (event.type == AnthropicEventType::ping || finished_) return;
    if (event.type == AnthropicEventType::block_stop) {
        close(event.index, out);
        return;
    }
    Block* block = find(event.index);
    if (event.delta == AnthropicDelta::signature) {
        if (block) block->signature = event.text;
        return;
    }
    if (!block) {
        // Some servers never say that a block begins.
        if (event.delta == AnthropicDelta::arguments) return;
        const bool text = event.delta == AnthropicDelta::text;
        block = &open_text(text ? Kind::text : Kind::thinking, event.index, out);
    }
    add(*block, event.text, out);
}

void AnthropicDecoder::apply(std::string_view name, const JsonObject& event, EventQueue& out) {
    const std::int64_t at = integer_member(event, "index").value_or(-1);
    if (name == "message") {
        whole_message(event, out);
    } else if (name == "message_start") {
        if (const JsonObject* message = object_member(event, "message"))
            begin_message(*message, out);
    } else if (name == "content_block_start") {
        const JsonObject* block = object_member(event, "content_block");
        if (block && !finished_) start_block(at, *block, out);
    } else if (name == "content_block_delta") {
        const JsonObject* delta = object_member(event, "delta");
        Block* block = find(at);
        if (delta && block && !finished_) add_foreign(*block, *delta);
    } else if (name == "message_delta") {
        read_usage(event.if_contains("usage"));
        note_edits(event);
        if (const JsonObject* delta = object_member(event, "delta")) end_message(*delta, out);
    }
}

void AnthropicDecoder::begin_message(const JsonObject& message, EventQueue& out) {
    if (announced_) return;
    response_id_ = string_member(message, "id");
    assembler_.details().model = string_member(message, "model");
    assembler_.head().usage.reset();
    answer_usage_ = compaction_usage_ = Usage();
    read_usage(message.if_contains("usage"));
    announce(out);
}

/// The answer of a server that does not stream.
void AnthropicDecoder::whole_message(const JsonObject& message, EventQueue& out) {
    begin_message(message, out);
    const Json* content = message.if_contains("content");
    if (content && content->is_array()) {
        std::int64_t index = 0;
        for (const Json& block : content->get_array()) {
            if (block.is_object()) start_block(index, block.get_object(), out);
            close(index++, out);
        }
    } else if (const std::string_view text = string_member(message, "content"); !text.empty()) {
        add(open_text(Kind::text, 0, out), text, out);
    }
    note_edits(message);
    end_message(message, out);
    over_ = true;
}

/// A part that the endpoint has left out explains a usage that is smaller than the history.
void AnthropicDecoder::note_edits(const JsonObject& event) {
    const JsonObject* management = object_member(event, "context_management");
    const Json* edits = management ? management->if_contains("applied_edits") : nullptr;
    if (!edits || !edits->is_array() || edits->get_array().empty()) return;
    assembler_.head().extra["context_management"] = *management;
}

/// The reason why the model stopped is the end of the content; `delta` holds it.
void AnthropicDecoder::end_message(const JsonObject& delta, EventQueue& out) {
    const std::string_view reason = string_member(delta, "stop_reason");
    if (reason.empty() || finished_) return;
    announce(out);
    close_all(out);
    reason_ = stop_reason_of(reason);
    assembler_.details().finish_reason = reason;
    finished_ = true;
    for (const char* key : {"stop_sequence", "stop_details"}) {
        const Json* value = delta.if_contains(key);
        if (value && !value->is_null()) assembler_.head().extra[key] = *value;
    }
}

namespace {

void read_counts(const JsonObject& reported, Usage& usage) {
    read_count(reported, "input_tokens", usage.input_tokens);
    read_count(reported, "output_tokens", usage.output_tokens);
    read_count(reported, "cache_read_input_tokens", usage.cache_read_tokens);
    read_count(reported, "cache_creation_input_tokens", usage.cache_write_tokens);
    if (const JsonObject* written = object_member(reported, "cache_creation"))
        read_count(*written, "ephemeral_1h_input_tokens", usage.cache_write_1h_tokens);
    if (const JsonObject* details = object_member(reported, "output_tokens_details"))
        read_count(*details, "thinking_tokens", usage.reasoning_tokens);
}

/// Returns the usage of the steps in which the endpoint has compacted the conversation. They are billed, and not part of the
/// sums of the answer.
Usage usage_of_compaction(const JsonArray& steps) {
    Usage sum;
    for (const Json& step : steps) {
        const JsonObject* object = step.if_object();
        if (!object || string_member(*object, "type") != "compaction") continue;
        Usage usage;
        read_counts(*object, usage);
        sum += usage;
    }
    return sum;
}

}  // namespace

/// Numbers of a later event replace those of an earlier one; what it leaves out stays.
void AnthropicDecoder::read_usage(const Json* reported) {
    if (!reported || !reported->is_object()) return;
    const JsonObject& object = reported->get_object();
    read_counts(object, answer_usage_);
    const Json* steps = object.if_contains("iterations");
    if (steps && steps->is_array()) compaction_usage_ = usage_of_compaction(steps->get_array());
    Usage usage = answer_usage_;
    usage += compaction_usage_;
    if (!(usage == Usage())) assembler_.head().usage = usage;
}

AnthropicDecoder::Block* AnthropicDecoder::find(std::int64_t wire_index) {
    if (open_.empty()) return nullptr;
    if (wire_index < 0) return &open_.back();
    const auto found = std::find_if(open_.rbegin(), open_.rend(), [wire_index](const Block& block) {
        return block.wire_index == wire_index;
    });
    return found == open_.rend() ? nullptr : &*found;
}

AnthropicDecoder::Block& AnthropicDecoder::new_block() {
    if (open_.size() == max_open_blocks) {
        throw Error(ErrorCode::too_large, "the answer has more than " +
                                              std::to_string(max_open_blocks) +
                                              " content blocks that are not ended");
    }
    return open_.emplace_back();
}

AnthropicDecoder::Block& AnthropicDecoder::open_text(Kind kind, std::int64_t wire_index,
                                                     EventQueue& out) {
    announce(out);
    StreamEvent start = kind == Kind::text ? assembler_.text_start() : assembler_.thinking_start();
    Block& block = new_block();
    block.kind = kind;
    block.wire_index = wire_index;
    block.index = start.content_index;
    ++blocks_;
    out.push(std::move(start));
    return block;
}

void AnthropicDecoder::start_block(std::int64_t wire_index, const JsonObject& wire,
                                   EventQueue& out) {
    if (wire_index >= 0) close(wire_index, out);
    const std::string_view type = string_member(wire, "type");
    if (type == "text") {
        Block& block = open_text(Kind::text, wire_index, out);
        block.members = unknown_members(wire, {"type", "text", "citations"});
        const Json* citations = wire.if_contains("citations");
        if (citations && citations->is_array()) {
            assembler_.count_detail(json_memory(*citations));
            block.citations = citations->get_array();
        }
        const std::string_view text = string_member(wire, "text");
        if (!text.empty()) add(block, text, out);
    } else if (type == "thinking") {
        Block& block = open_text(Kind::thinking, wire_index, out);
        block.signature = string_member(wire, "signature");
        block.members = unknown_members(wire, {"type", "thinking", "signature"});
        const std::string_view text = string_member(wire, "thinking");
        if (!text.empty()) add(block, text, out);
    } else if (type == "redacted_thinking") {
        announce(out);
        LazyObject extra;
        extra[redacted_key] = string_member(wire, "data");
        StreamEvent start = assembler_.thinking_start(std::move(extra));
        Block& block = new_block();
        block.kind = Kind::thinking;
        block.wire_index = wire_index;
        block.index = start.content_index;
        ++blocks_;
        out.push(std::move(start));
    } else if (type == "tool_use") {
        start_call(wire_index, wire, out);
    } else {
        announce(out);
        MessageAssembler::check_block_count(++foreign_blocks_);
        assembler_.count_detail(block_overhead + json_memory(wire));
        Block& block = new_block();
        block.wire_index = wire_index;
        block.wire = wire;
        block.before = blocks_;
    }
}

void AnthropicDecoder::start_call(std::int64_t wire_index, const JsonObject& wire,
                                  EventQueue& out) {
    announce(out);
    LazyObject extra;
    JsonObject members = unknown_members(wire, {"type", "id", "name", "input"});
    if (!members.empty()) extra[anthropic_members_key] = std::move(members);
    StreamEvent start =
        assembler_.toolcall_start(usable_id(string_member(wire, "id")),
                                  SharedString(string_member(wire, "name")), std::move(extra));
    Block& block = new_block();
    block.kind = Kind::call;
    block.wire_index = wire_index;
    block.index = start.content_index;
    const JsonObject* input = object_member(wire, "input");
    if (input && !input->empty()) block.wire = *input;
    ++blocks_;
    out.push(std::move(start));
}

std::string AnthropicDecoder::usable_id(std::string_view id) {
    const bool taken = std::find(call_ids_.begin(), call_ids_.end(), id) != call_ids_.end();
    return call_ids_.emplace_back(id.empty() || taken ? "toolu_" + ids_.next() : std::string(id));
}

void AnthropicDecoder::add(Block& block, std::string_view piece, EventQueue& out) {
    block.has_deltas = true;
    last_delta_ = block.index;
    switch (block.kind) {
        case Kind::text: out.push(assembler_.text_delta(block.index, piece)); break;
        case Kind::thinking: out.push(assembler_.thinking_delta(block.index, piece)); break;
        case Kind::call: out.push(assembler_.toolcall_delta(block.index, piece)); break;
        case Kind::foreign:
            assembler_.count_detail(piece.size());
            if (parser_->event.delta == AnthropicDelta::arguments) {
                block.arguments += piece;
            } else {
                Json& text = block.wire["text"];
                if (!text.is_string()) text = "";
                text.get_string().append(piece);
            }
            break;
    }
}

/// A delta of a kind that comes rarely: a citation of a text, or a member of a block that CubePi has no word for.
void AnthropicDecoder::add_foreign(Block& block, const JsonObject& delta) {
    assembler_.count_detail(json_memory(delta));
    if (block.kind == Kind::text) {
        if (const Json* citation = delta.if_contains("citation"))
            block.citations.push_back(*citation);
        return;
    }
    if (block.kind != Kind::foreign) return;
    for (const auto& [key, value] : delta) {
        if (key == "type") continue;
        Json& old = block.wire[key];
        if (old.is_string() && value.is_string()) {
            old.get_string().append(value.get_string());
        } else {
            old = value;
        }
    }
}

void AnthropicDecoder::close(Block& block, EventQueue& out) {
    if (parser_->split.holds_back() && last_delta_ == block.index)
        add(block, parser_->split.give_up(), out);
    LazyObject extra;
    switch (block.kind) {
        case Kind::text:
            if (!block.citations.empty()) extra[citations_key] = std::move(block.citations);
            if (!block.members.empty()) extra[anthropic_members_key] = std::move(block.members);
            out.push(assembler_.text_end(block.index, std::move(extra)));
            break;
        case Kind::thinking:
            if (!block.signature.empty()) extra[signature_key] = block.signature;
            if (!block.members.empty()) extra[anthropic_members_key] = std::move(block.members);
            out.push(assembler_.thinking_end(block.index, std::move(extra)));
            break;
        case Kind::call:
            // Some servers send the arguments whole, with the start.
            if (!block.has_deltas && !block.wire.empty()) add(block, json_text(block.wire), out);
            out.push(assembler_.toolcall_end(block.index));
            break;
        case Kind::foreign: {
            if (!block.arguments.empty()) {
                JsonTextError error;
                Json input = parse_json(block.arguments, error);
                block.wire["input"] = error ? Json(JsonObject()) : std::move(input);
            }
            JsonObject entry;
            entry["before"] = block.before;
            entry["block"] = std::move(block.wire);
            Json& all = assembler_.head().extra[foreign_blocks_key];
            if (!all.is_array()) all = JsonArray();
            all.get_array().push_back(std::move(entry));
            break;
        }
    }
}

void AnthropicDecoder::close(std::int64_t wire_index, EventQueue& out) {
    Block* block = find(wire_index);
    if (!block) return;
    Block closing = std::move(*block);
    open_.erase(open_.begin() + (block - open_.data()));
    close(closing, out);
}

void AnthropicDecoder::close_all(EventQueue& out) {
    for (Block& block : open_) close(block, out);
    open_.clear();
}

void AnthropicDecoder::finish(EventQueue& out) {
    if (!finished_) {
        // Without a type, as CubePi stores this failure.
        ErrorInfo info;
        info.code = ErrorCode::disconnected;
        throw_provider_error(std::move(info),
                             announced_ ? "the answer ended without a stop_reason; it is incomplete"
                                        : "the answer ended before it began");
    }
    // Only an answer that is whole can be referred to.
    if (!response_id_.empty()) assembler_.head().response_id = SharedString(response_id_);
    out.push(assembler_.done(reason_));
}

}  // namespace cubepi::detail
