#include <cubepi/provider/openai/responses_api.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/json_memory.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/core/usage.hpp>
#include <cubepi/provider/openai/openai_words.hpp>
#include <cubepi/provider/wire/answer_size.hpp>
#include <cubepi/provider/wire/decoding.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi::detail {

namespace {

std::string_view string_of(od::value& value) {
    return is_json_string(value) ? std::string_view(value.get_string()) : std::string_view();
}

/// A string without escapes, as it stands in the text: names of types and ids.
std::string_view word_of(od::value& value) {
    if (!is_json_string(value)) return {};
    const std::string_view token = value.raw_json_token();
    return token.substr(1, token.rfind('"') - 1);
}

/// Empty for null.
std::string_view present(od::value& value) {
    const std::string_view raw = raw_of(value);
    return raw.starts_with('n') ? std::string_view() : raw;
}

constexpr std::size_t max_open_items = MessageAssembler::max_tool_calls;

JsonObject read_object(std::string_view raw) {
    JsonTextError error;
    Json value = parse_json(raw, error);
    return value.is_object() ? std::move(value.get_object()) : JsonObject();
}

/// The texts in a list of parts, joined.
std::string texts_in(const JsonObject& item, std::string_view list, std::string_view separator) {
    std::string joined;
    const Json* parts = item.if_contains(list);
    if (!parts || !parts->is_array()) return joined;
    bool first = true;
    for (const Json& part : parts->get_array()) {
        if (!part.is_object()) continue;
        if (!std::exchange(first, false)) joined += separator;
        joined += string_member(part.get_object(), "text");
        joined += string_member(part.get_object(), "refusal");
    }
    return joined;
}

bool has_parts(const JsonObject& item) {
    const Json* parts = item.if_contains("content");
    return parts && parts->is_array() && !parts->get_array().empty();
}

bool has_refusal(const JsonObject& item) {
    if (!has_parts(item)) return false;
    const JsonArray& parts = item.at("content").get_array();
    return std::any_of(parts.begin(), parts.end(), [](const Json& part) {
        return part.is_object() && string_member(part.get_object(), "type") == "refusal";
    });
}

JsonArray annotations_in(const JsonObject& item) {
    JsonArray all;
    if (!has_parts(item)) return all;
    for (const Json& part : item.at("content").get_array()) {
        const Json* list =
            part.is_object() ? part.get_object().if_contains("annotations") : nullptr;
        if (!list || !list->is_array()) continue;
        for (const Json& one : list->get_array()) all.push_back(one);
    }
    return all;
}

/// Returns the members of the parts that have no place in a text.
JsonObject part_members_in(const JsonObject& item) {
    JsonObject all;
    if (!has_parts(item)) return all;
    for (const Json& part : item.at("content").get_array()) {
        if (part.is_object())
            deep_merge(all, unknown_members(part.get_object(), {"type", "text", "refusal",
                                                                "annotations", "logprobs"}));
    }
    return all;
}

/// Items of tools that the endpoint runs itself: they go back with the history.
bool is_servers_own(std::string_view type) {
    for (const std::string_view one :
         {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call",
          "mcp_list_tools", "mcp_call", "compaction"}) {
        if (type == one) return true;
    }
    return false;
}

}  // namespace

/// The content of one event of a Responses stream, with its keys in any order. The views are valid until the next
/// event.
struct OpenAIResponsesEvent {
    std::string_view type;
    std::string_view item_id;
    std::int64_t output_index = -1;
    std::string_view delta_token;           ///< the JSON text, with its quotes
    std::optional<std::string_view> delta;  ///< absent: it contains half of a character
    std::string_view item;                  ///< raw JSON
    std::string_view error;                 ///< raw JSON; of the event itself, or of its response
    // Of its response.
    std::string_view output;  ///< raw JSON
    std::string_view status;
    std::string_view response_id;
    std::string_view model;
    std::string_view service_tier;
    std::string_view incomplete_reason;
    std::optional<Usage> usage;
    bool is_response = false;  ///< not an event but a whole response: the answer was not streamed

    /// Forgets the last event.
    void clear() noexcept;
};

/// Reads the events of a Responses stream, one after the other. Reuses its memory.
class OpenAIResponsesEventParser {
public:
    /// Returns false if `data` is not a JSON object.
    bool parse(std::string_view data);

    OpenAIResponsesEvent event;

private:
    void read_event(od::object& root);
    void read_member(const od::raw_json_string& key, od::value& value);
    void read_delta(od::value& value);
    void read_response(od::object& response);

    EventReader reader_;
    bool has_output_ = false;  ///< the event itself has an output, as a whole response does
};

void OpenAIResponsesEvent::clear() noexcept {
    type = item_id = delta_token = item = error = {};
    output_index = -1;
    delta.reset();
    output = status = response_id = model = service_tier = incomplete_reason = {};
    usage.reset();
    is_response = false;
}

bool OpenAIResponsesEventParser::parse(std::string_view data) {
    event.clear();
    if (!reader_.walk(data, [this](od::object& root) { read_event(root); })) return false;
    if (!event.is_response) return true;
    event.clear();
    event.is_response = true;
    return reader_.walk(data, [this](od::object& root) { read_response(root); });
}

void OpenAIResponsesEventParser::read_delta(od::value& value) {
    if (!is_json_string(value)) return;
    event.delta_token = value.raw_json_token();
    std::string_view plain;
    if (value.get_string().get(plain) == simdjson::SUCCESS) event.delta = plain;
}

void OpenAIResponsesEventParser::read_event(od::object& root) {
    has_output_ = false;
    bool whole_delta = false;
    each_until(root, [&](const od::raw_json_string& key, od::value value) {
        read_member(key, value);
        // Most events are deltas. Their later members (logprobs, padding against listeners) are not needed.
        whole_delta = event.delta && event.output_index >= 0 && event.type.ends_with(".delta");
        return whole_delta;
    });
    event.is_response = !whole_delta && event.type.empty() && has_output_;
}

void OpenAIResponsesEventParser::read_member(const od::raw_json_string& key, od::value& value) {
    switch (*key.raw()) {
        case 'd':
            if (is(key, "delta")) read_delta(value);
            break;
        case 't':
            if (is(key, "type")) event.type = word_of(value);
            break;
        case 'i':
            if (is(key, "item_id")) {
                event.item_id = word_of(value);
            } else if (is(key, "item")) {
                event.item = present(value);
            }
            break;
        case 'o':
            if (is(key, "output_index")) {
                event.output_index = integer_of(value, -1);
            } else if (is(key, "output")) {
                has_output_ = is_json_array(value);
            }
            break;
        case 'r':
            if (is(key, "response") && is_json_object(value)) {
                od::object response = value.get_object();
                read_response(response);
            }
            break;
        case 'e':
            if (is(key, "error")) event.error = present(value);
            break;
        default: break;
    }
}

void OpenAIResponsesEventParser::read_response(od::object& response) {
    each(response, [this](const od::raw_json_string& key, od::value value) {
        if (is(key, "id")) {
            event.response_id = string_of(value);
        } else if (is(key, "status")) {
            event.status = string_of(value);
        } else if (is(key, "model")) {
            event.model = string_of(value);
        } else if (is(key, "service_tier")) {
            event.service_tier = string_of(value);
        } else if (is(key, "usage")) {
            if (!is_json_object(value)) return;
            if (auto usage = read_openai_usage(value.get_object(), responses_usage_names))
                event.usage = usage;
        } else if (is(key, "error")) {
            event.error = present(value);
        } else if (is(key, "output")) {
            if (is_json_array(value)) event.output = raw_of(value);
        } else if (is(key, "incomplete_details") && is_json_object(value)) {
            od::object details = value.get_object();
            each(details, [this](const od::raw_json_string& inner, od::value reason) {
                if (is(inner, "reason")) event.incomplete_reason = string_of(reason);
            });
        }
    });
}

OpenAIResponsesDecoder::OpenAIResponsesDecoder(MessageAssembler& assembler, IdSource& ids,
                                               std::function<void(MessageAssembler&)> at_end)
    : WireDecoder(assembler, ids),
      at_end_(std::move(at_end)),
      parser_(std::make_unique<OpenAIResponsesEventParser>()),
      split_(std::make_unique<SplitText>()) {
    // Data of an attempt that failed before any content.
    assembler_.head().extra.erase("server_items");
    assembler_.head().usage.reset();
}
OpenAIResponsesDecoder::~OpenAIResponsesDecoder() = default;

void OpenAIResponsesDecoder::decode(std::string_view event, std::string_view data,
                                    EventQueue& out) {
    data = trimmed(data, event_data_blanks);
    if (data.empty() || finished_) return;
    if (data == "[DONE]") {
        done_marker_ = true;
        return;
    }
    std::string sanitized;
    parse_event(data, sanitized, [this](std::string_view text) { return parser_->parse(text); });
    const OpenAIResponsesEvent& read = parser_->event;
    const std::string_view type = read.type.empty() ? event : read.type;
    const bool failed = type == "error" || type == "response.failed" ||
                        type == "response.cancelled" || read.status == "failed" ||
                        read.status == "cancelled" || (type.empty() && !read.error.empty());
    if (failed) fail(type, data);
    apply(type, out);
}

/// Throws what the endpoint reported.
void OpenAIResponsesDecoder::fail(std::string_view type, std::string_view data) {
    const OpenAIResponsesEvent& event = parser_->event;
    if (event.usage) assembler_.head().usage = *event.usage;
    JsonTextError ignored;
    const bool has_words = !event.error.empty() || type == "error";
    if (has_words) {
        const std::string_view words = event.error.empty() ? data : event.error;
        throw StreamFailure(read_stream_failure(parse_json(words, ignored)));
    }
    EndpointFailure failure;
    failure.message = "the endpoint reported that the response " +
                      std::string(event.status.empty() ? "failed" : event.status) +
                      " without a reason";
    failure.code = "server_error";
    throw StreamFailure(std::move(failure));
}

void OpenAIResponsesDecoder::apply(std::string_view type, EventQueue& out) {
    const OpenAIResponsesEvent& event = parser_->event;
    if (event.is_response) {
        announce(out);
        end(event, out);
        return;
    }
    constexpr std::string_view family = "response.";
    if (!type.starts_with(family)) return;
    announce(out);
    type.remove_prefix(family.size());
    if (type == "output_text.delta") {
        delta(Kind::text, out);
    } else if (type == "function_call_arguments.delta") {
        delta(Kind::call, out);
    } else if (type == "reasoning_summary_text.delta" || type == "reasoning_text.delta") {
        delta(Kind::thinking, out);
    } else if (type == "refusal.delta") {
        item_for_delta(Kind::text, out).refusal = true;
        delta(Kind::text, out);
    } else if (type == "reasoning_summary_part.done") {
        add(item_for_delta(Kind::thinking, out), "\n\n", out);
    } else if (type == "output_item.added") {
        item_added(read_object(event.item), event.output_index, out);
    } else if (type == "output_item.done") {
        item_done(read_object(event.item), event.output_index, out);
    } else if (type == "completed" || type == "incomplete") {
        end(event, out);
    }
}

OpenAIResponsesDecoder::Item* OpenAIResponsesDecoder::find(std::int64_t output_index,
                                                           std::string_view id) {
    for (auto item = items_.rbegin(); item != items_.rend(); ++item) {
        const bool same =
            output_index >= 0 ? item->output_index == output_index : !id.empty() && item->id == id;
        if (same) return &*item;
    }
    return nullptr;
}

OpenAIResponsesDecoder::Item& OpenAIResponsesDecoder::item_for_delta(Kind kind, EventQueue& out) {
    const OpenAIResponsesEvent& event = parser_->event;
    Item* item = find(event.output_index, event.item_id);
    if (!item && event.output_index < 0 && event.item_id.empty() && !items_.empty())
        item = &items_.back();
    if (item && item->open && item->kind == kind) return *item;
    return open(kind, event.output_index, event.item_id, JsonObject(), out);
}

OpenAIResponsesDecoder::Item& OpenAIResponsesDecoder::open(Kind kind, std::int64_t output_index,
                                                           std::string_view id,
                                                           const JsonObject& given,
                                                           EventQueue& out) {
    // Each event looks for its item among all of them, and the end of one reads what came since it began.
    MessageAssembler::check_block_count(items_.size() + 1);
    if (open_items_ == max_open_items) {
        throw Error(ErrorCode::too_large, "the answer has more than " +
                                              std::to_string(max_open_items) +
                                              " output items that are not ended");
    }
    if (kind == Kind::other) assembler_.count_detail(block_overhead + id.size());
    Item item;
    item.kind = kind;
    item.output_index = output_index;
    item.id = id;
    if (kind == Kind::text) {
        LazyObject extra;
        if (!id.empty()) extra["item_id"] = id;
        item.phase = string_member(given, "phase");
        if (!item.phase.empty()) extra["phase"] = item.phase;
        out.push(assembler_.text_start(std::move(extra)));
    } else if (kind == Kind::thinking) {
        out.push(assembler_.thinking_start());
    } else if (kind == Kind::call) {
        item.call_id = usable_id(string_member(given, "call_id"), id);
        item.name = string_member(given, "name");
        out.push(assembler_.toolcall_start(item.call_id, SharedString(item.name)));
    }
    if (kind != Kind::other) item.block = blocks_++;
    ++open_items_;
    return items_.emplace_back(std::move(item));
}

std::string OpenAIResponsesDecoder::usable_id(std::string_view call_id, std::string_view item_id) {
    std::string id(call_id);
    if (id.empty()) id = "call_" + ids_.next();
    if (!item_id.empty()) id += "|" + std::string(item_id);
    const bool taken = std::any_of(items_.begin(), items_.end(),
                                   [&](const Item& item) { return item.call_id == id; });
    return taken ? "call_" + ids_.next() : id;
}

void OpenAIResponsesDecoder::item_added(const JsonObject& given, std::int64_t output_index,
                                        EventQueue& out) {
    const std::string_view type = string_member(given, "type");
    Kind kind = Kind::other;
    if (type == "message") kind = Kind::text;
    if (type == "reasoning") kind = Kind::thinking;
    if (type == "function_call") kind = Kind::call;
    open(kind, output_index, string_member(given, "id"), given, out);
}

void OpenAIResponsesDecoder::item_done(const JsonObject& given, std::int64_t output_index,
                                       EventQueue& out) {
    Item* item = find(output_index, string_member(given, "id"));
    if (!item) {
        item_added(given, output_index, out);
        item = &items_.back();
    }
    if (item->open) close(*item, given, out);
}

void OpenAIResponsesDecoder::delta(Kind kind, EventQueue& out) {
    const OpenAIResponsesEvent& event = parser_->event;
    if (event.delta_token.empty()) return;
    Item& item = item_for_delta(kind, out);
    const auto number = static_cast<std::size_t>(&item - items_.data());
    if (split_->holds_back() && split_item_ != number) flush_split(out);
    if (event.delta && !split_->holds_back()) {
        add(item, *event.delta, out);
        return;
    }
    split_item_ = number;
    const std::string_view text = split_->unescape(event.delta_token);
    if (!text.empty()) add(item, text, out);
}

void OpenAIResponsesDecoder::flush_split(EventQueue& out) {
    if (split_->holds_back()) add(items_[split_item_], split_->give_up(), out);
}

void OpenAIResponsesDecoder::add(Item& item, std::string_view text, EventQueue& out) {
    item.length += text.size();
    if (item.kind == Kind::text) out.push(assembler_.text_delta(item.block, text));
    if (item.kind == Kind::thinking) out.push(assembler_.thinking_delta(item.block, text));
    if (item.kind == Kind::call) out.push(assembler_.toolcall_delta(item.block, text));
}

bool OpenAIResponsesDecoder::complete_deltas(Item& item, std::string_view whole, EventQueue& out) {
    if (whole.size() == item.length) return true;
    if (whole.size() < item.length) return false;
    if (!whole.starts_with(streamed(item))) return false;
    add(item, whole.substr(item.length), out);
    return true;
}

std::string OpenAIResponsesDecoder::streamed(const Item& item) const {
    return item.length == 0 ? std::string() : assembler_.raw_arguments(item.block);
}

/// Ends an item with what the endpoint says it has become; `given` is empty when it did not say.
void OpenAIResponsesDecoder::close(Item& item, const JsonObject& given, EventQueue& out) {
    if (split_item_ == static_cast<std::size_t>(&item - items_.data())) flush_split(out);
    item.open = false;
    --open_items_;
    switch (item.kind) {
        case Kind::text: close_text(item, given, out); break;
        case Kind::thinking: close_thinking(item, given, out); break;
        case Kind::call: close_call(item, given, out); break;
        case Kind::other: keep_other(given, out); break;
    }
}

void OpenAIResponsesDecoder::close_text(Item& item, const JsonObject& given, EventQueue& out) {
    std::string whole = texts_in(given, "content", "");
    const bool reported = has_parts(given);
    const bool same = !reported || complete_deltas(item, whole, out);
    const bool refusal = item.refusal || has_refusal(given);
    JsonArray annotations = annotations_in(given);
    const std::string_view late = string_member(given, "phase");
    const bool new_phase = !late.empty() && late != item.phase;
    if (new_phase) item.phase = late;
    JsonObject members =
        unknown_members(given, {"type", "id", "role", "status", "content", "phase"});
    JsonObject part_members = part_members_in(given);
    if (same && !refusal && !new_phase && annotations.empty() && members.empty() &&
        part_members.empty()) {
        out.push(assembler_.text_end(item.block));
        return;
    }
    TextContent block;
    block.text = reported ? std::move(whole) : streamed(item);
    if (!item.id.empty()) block.extra["item_id"] = item.id;
    if (!item.phase.empty()) block.extra["phase"] = item.phase;
    if (refusal) block.extra["refusal"] = true;
    if (!annotations.empty()) block.extra["annotations"] = std::move(annotations);
    if (!members.empty()) block.extra[responses_members_key] = std::move(members);
    if (!part_members.empty()) block.extra[responses_part_members_key] = std::move(part_members);
    out.push(assembler_.text_end(item.block, std::move(block)));
}

void OpenAIResponsesDecoder::close_thinking(Item& item, const JsonObject& given, EventQueue& out) {
    if (given.empty()) {
        out.push(assembler_.thinking_end(item.block));
        return;
    }
    ThinkingContent block;
    block.thinking = texts_in(given, "summary", "\n\n");
    if (block.thinking.empty()) block.thinking = streamed(item);
    if (block.thinking.empty()) block.thinking = texts_in(given, "content", "\n\n");
    complete_deltas(item, block.thinking, out);
    block.extra["reasoning_item"] = given;
    out.push(assembler_.thinking_end(item.block, std::move(block)));
}

void OpenAIResponsesDecoder::close_call(Item& item, const JsonObject& given, EventQueue& out) {
    std::string raw;
    if (const Json* arguments = given.if_contains("arguments")) {
        // Some servers send the object itself instead of its text.
        raw = arguments->is_string()   ? std::string(arguments->get_string())
              : arguments->is_object() ? json_text(*arguments)
                                       : std::string();
    }
    if (raw.empty()) raw = streamed(item);
    complete_deltas(item, raw, out);
    ToolCall call;
    call.id = item.call_id;
    const std::string_view name = string_member(given, "name");
    call.name = SharedString(name.empty() ? std::string_view(item.name) : name);
    JsonObject members =
        unknown_members(given, {"type", "id", "status", "call_id", "name", "arguments"});
    if (!members.empty()) call.extra[responses_members_key] = std::move(members);
    has_incomplete_call_ = has_incomplete_call_ || string_member(given, "status") == "incomplete";
    out.push(assembler_.toolcall_end(item.block, std::move(call), raw));
}

void OpenAIResponsesDecoder::keep_other(const JsonObject& given, EventQueue& out) {
    const std::string_view type = string_member(given, "type");
    if (is_servers_own(type)) {
        assembler_.count_detail(json_memory(given));
        JsonObject entry;
        entry["at"] = blocks_;
        entry["item"] = given;
        Json& list = assembler_.head().extra["server_items"];
        if (!list.is_array()) list = JsonArray();
        list.get_array().push_back(std::move(entry));
        return;
    }
    if (!type.ends_with("_call") && !type.ends_with("_request")) return;
    Notice notice;
    notice.code = "unsupported_item";
    notice.text = "The model requested an action that is not supported (" + std::string(type) +
                  "); it was omitted from the answer";
    notice.details["type"] = type;
    out.push(MessageAssembler::notice(std::move(notice)));
}

void OpenAIResponsesDecoder::end(const OpenAIResponsesEvent& event, EventQueue& out) {
    const bool unfinished = items_.empty() || std::any_of(items_.begin(), items_.end(),
                                                          [](const Item& i) { return i.open; });
    if (unfinished && !event.output.empty()) {
        JsonTextError error;
        const Json output = parse_json(event.output, error);
        std::int64_t index = 0;
        if (output.is_array()) {
            for (const Json& item : output.get_array()) {
                if (item.is_object()) item_done(item.get_object(), index, out);
                ++index;
            }
        }
    }
    for (std::size_t i = 0; i < items_.size(); ++i) {
        if (items_[i].open) close(items_[i], JsonObject(), out);
    }
    ResponseDetails& details = assembler_.details();
    details.api_type = "responses";
    details.model = event.model;
    details.service_tier = event.service_tier;
    details.finish_reason = event.status;
    AssistantMessage& head = assembler_.head();
    if (!event.response_id.empty()) head.response_id = SharedString(event.response_id);
    if (event.usage) head.usage = *event.usage;
    const bool called = std::any_of(items_.begin(), items_.end(),
                                    [](const Item& item) { return item.kind == Kind::call; });
    reason_ = called ? stop_reason::tool_use : stop_reason::stop;
    if (event.type == "response.incomplete" || event.status == "incomplete") {
        const std::string_view why = event.incomplete_reason;
        reason_ = why.empty() || why == "max_output_tokens" ? stop_reason::length : why;
    } else if (!event.status.empty() && event.status != "completed") {
        reason_ = event.status;
    } else if (has_incomplete_call_) {
        reason_ = "incomplete";
    }
    finished_ = true;
}

void OpenAIResponsesDecoder::finish(EventQueue& out) {
    if (!finished_) {
        throw Error(ErrorCode::disconnected,
                    announced_ ? "the answer ended without response.completed; it may be incomplete"
                               : "the answer ended before it began");
    }
    if (at_end_) at_end_(assembler_);
    out.push(assembler_.done(reason_));
}

}  // namespace cubepi::detail
