#include <cubepi/middleware/compaction/run.hpp>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>

#include <cubepi/core/message_json.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi {

namespace {

constexpr std::string_view state_key = "compaction";
constexpr std::string_view until_key = "compaction_until_msg_index";
constexpr std::string_view failures_key = "compaction_failures";
constexpr std::string_view low_savings_key = "compaction_low_savings_count";
constexpr std::string_view fallback_runs_key = "compaction_fallback_runs";
constexpr std::string_view view_key = "compaction_view";  // of this library

/// Adds the texts of an array; returns false if it has anything else.
bool read_texts(const JsonObject& from, std::string_view key, std::vector<std::string>& to) {
    const Json* value = from.if_contains(key);
    if (!value) return true;
    const JsonArray* list = value->if_array();
    if (!list) return false;
    for (const Json& one : *list) {
        if (!one.is_string()) return false;
        to.emplace_back(one.get_string());
    }
    return true;
}

JsonArray texts(const std::vector<std::string>& list) {
    return JsonArray(list.begin(), list.end());
}

/// Returns a number from zero on; another value counts as zero.
std::int64_t count_of(const JsonObject& object, std::string_view key) {
    const std::int64_t value = detail::integer_member(object, key).value_or(0);
    // Sums of counts do not overflow.
    return std::clamp<std::int64_t>(value, 0, std::numeric_limits<std::int32_t>::max());
}

/// Returns the members of the list that have a value, as Pydantic writes a model with exclude_none.
JsonObject only(const JsonObject& object, std::initializer_list<std::string_view> keys) {
    JsonObject form;
    for (const std::string_view key : keys) {
        const Json* value = object.if_contains(key);
        if (value && !value->is_null()) form[key] = *value;
    }
    return form;
}

Json block_form(const JsonObject& block) {
    return only(block,
                {"type", "text", "source", "media_type", "thinking", "id", "name", "arguments"});
}

/// Returns the message as CubePi reads it.
JsonObject cubepi_form(const Message& message) {
    JsonObject form = only(
        to_json(message),
        {"role",        "tool_call_id",   "tool_name",  "content",    "details",     "is_error",
         "stop_reason", "error_message",  "error_type", "error_code", "status_code", "retry_after",
         "tokens_in",   "context_window", "usage",      "timestamp",  "provider_id", "model_id",
         "response_id", "metadata",       "run_id"});
    if (Json* content = form.if_contains("content"); content && content->is_array()) {
        for (Json& block : content->get_array()) {
            if (block.is_object()) block = block_form(block.get_object());
        }
    }
    if (Json* usage = form.if_contains("usage"); usage && usage->is_object()) {
        JsonObject counts;
        for (const std::string_view key :
             {"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"})
            counts[key] = count_of(usage->get_object(), key);
        *usage = std::move(counts);
    }
    return form;
}

void append_sorted(std::string& out, const Json& value);

void append_sorted(std::string& out, const JsonObject& object) {
    std::vector<std::string_view> keys;
    for (const auto& member : object) keys.push_back(member.key());
    // By code point, which is the order of bytes in UTF-8.
    std::sort(keys.begin(), keys.end());
    out += '{';
    for (const std::string_view key : keys) {
        if (out.back() != '{') out += ',';
        append_python_string(out, key);
        out += ':';
        append_sorted(out, object.at(key));
    }
    out += '}';
}

/// Writes as json.dumps(value, sort_keys=True, separators=(",", ":")).
void append_sorted(std::string& out, const Json& value) {
    if (const JsonObject* object = value.if_object()) {
        append_sorted(out, *object);
    } else if (const JsonArray* list = value.if_array()) {
        out += '[';
        for (const Json& one : *list) {
            if (&one != list->data()) out += ',';
            append_sorted(out, one);
        }
        out += ']';
    } else {
        append_python_json(out, value);
    }
}

/// CubePi refers to messages of the run that it compacts as they are before it sets their run id.
bool fits(const std::string& ref, const Message& message) {
    return ref == "id:" + message.id() || ref == detail::message_ref(message) ||
           ref == detail::message_ref(message.with_run_id({}));
}

}  // namespace

std::optional<CompactionState> CompactionState::from_json(const Json& value) {
    const JsonObject* object = value.if_object();
    const Json* summary = object ? object->if_contains("summary") : nullptr;
    if (!summary || !summary->is_string()) return std::nullopt;
    CompactionState state;
    state.summary = std::string(summary->get_string());
    const bool has_texts =
        read_texts(*object, "summarized_message_ids", state.summarized_message_ids) &&
        read_texts(*object, "summarized_message_refs", state.summarized_message_refs);
    if (!has_texts) return std::nullopt;
    if (const Json* last = object->if_contains("last_summarized_message_id");
        last && last->is_string())
        state.last_summarized_message_id = std::string(last->get_string());
    state.is_fallback = detail::flag_member(*object, "is_fallback");
    if (const JsonArray* results = detail::array_member(*object, "preserved_tool_results")) {
        for (const Json& one : *results) {
            const JsonObject* result = one.if_object();
            if (!result) return std::nullopt;
            state.preserved_tool_results.push_back(
                PreservedToolResult{detail::text_member(*result, "tool_name"),
                                    detail::text_member(*result, "tool_call_id"),
                                    detail::text_member(*result, "text")});
        }
    }
    return state;
}

JsonObject CompactionState::to_json() const {
    JsonArray results;
    for (const PreservedToolResult& one : preserved_tool_results) {
        results.emplace_back(JsonObject{
            {"tool_name", one.tool_name}, {"tool_call_id", one.tool_call_id}, {"text", one.text}});
    }
    JsonObject json;
    json["summary"] = summary;
    json["summarized_message_ids"] = texts(summarized_message_ids);
    json["summarized_message_refs"] = texts(summarized_message_refs);
    json["last_summarized_message_id"] =
        last_summarized_message_id ? Json(*last_summarized_message_id) : Json(nullptr);
    json["is_fallback"] = is_fallback;
    json["preserved_tool_results"] = std::move(results);
    return json;
}

namespace detail {

std::string message_ref(const Message& message) {
    std::string text;
    append_sorted(text, Json(cubepi_form(message)));
    return "sha256:" + sha256_hex(text);
}

CompactionRecord CompactionRecord::load(const JsonObject& extra, const MessageList& history) {
    CompactionRecord record;
    if (const JsonObject* view = object_member(extra, view_key)) {
        record.window = count_of(*view, "window");
        record.window_model = text_member(*view, "window_model");
        record.shortened_until = static_cast<std::size_t>(count_of(*view, "shortened_until"));
        record.made_at = static_cast<std::size_t>(count_of(*view, "made_at"));
        record.tokens = count_of(*view, "tokens");
        record.raised = count_of(*view, "raised");
        if (const JsonObject* prompt = object_member(*view, "prompt")) record.prompt = *prompt;
        record.alike_from = static_cast<std::size_t>(count_of(*view, "alike_from"));
        record.is_as_stored = flag_member(*view, "as_stored");
    }
    record.failures = count_of(extra, failures_key);
    record.low_savings = count_of(extra, low_savings_key);
    record.fallback_runs = count_of(extra, fallback_runs_key);
    const auto forget = [&record] {
        record.state.reset();
        record.until = record.made_at = record.shortened_until = 0;
        record.tokens = record.raised = 0;
        record.prompt = nullptr;
        return record;
    };
    if (record.made_at > history.size() || record.shortened_until > record.made_at) return forget();
    const Json* stored = extra.if_contains(state_key);
    if (!stored || stored->is_null()) return record;
    record.state = CompactionState::from_json(*stored);
    record.until = static_cast<std::size_t>(count_of(extra, until_key));
    // A history only grows, so the last reference speaks for those before it.
    const bool fits_history =
        record.state && record.until > 0 && record.until < history.size() &&
        !record.state->summarized_message_refs.empty() &&
        (record.state->summarized_message_refs.size() == record.until ||
         record.state->summarized_message_refs.size() == 1) &&
        fits(record.state->summarized_message_refs.back(), history[record.until - 1]);
    if (!fits_history) return forget();
    const JsonObject* view = object_member(extra, view_key);
    const bool is_ours =
        view && count_of(*view, "until") == static_cast<std::int64_t>(record.until);
    // CubePi has written a record since, which says nothing of the request.
    if (!is_ours) {
        record.made_at = record.shortened_until = 0;
        record.tokens = record.raised = 0;
    }
    return record;
}

bool CompactionRecord::is_in(const JsonObject& extra) const {
    const JsonObject* view = object_member(extra, view_key);
    if ((view ? count_of(*view, "made_at") : 0) != static_cast<std::int64_t>(made_at)) return false;
    const JsonObject* stored = object_member(extra, state_key);
    if (!stored || !state) return !stored && !state;
    return count_of(extra, until_key) == static_cast<std::int64_t>(until) &&
           string_member(*stored, "summary") == state->summary;
}

void CompactionRecord::save(JsonObject& extra) const {
    const auto number = [](std::size_t value) { return static_cast<std::int64_t>(value); };
    if (state) {
        extra[state_key] = state->to_json();
        extra[until_key] = number(until);
    } else {
        for (const std::string_view key : {state_key, until_key}) {
            if (Json* old = extra.if_contains(key)) *old = nullptr;
        }
    }
    extra[failures_key] = failures;
    extra[low_savings_key] = low_savings;
    extra[fallback_runs_key] = fallback_runs;
    JsonObject view;
    view["until"] = number(until);
    view["made_at"] = number(made_at);
    view["tokens"] = tokens;
    view["shortened_until"] = number(shortened_until);
    if (window > 0) {
        view["window"] = window;
        view["window_model"] = window_model;
    }
    if (raised > 0) view["raised"] = raised;
    if (!prompt.is_null()) {
        view["prompt"] = prompt;
        view["alike_from"] = number(alike_from);
    }
    if (is_as_stored) view["as_stored"] = true;
    extra[view_key] = std::move(view);
}

void CompactionRecord::refer_to(const MessageList& history, std::size_t count, bool to_all) {
    std::vector<std::string>& refs = state->summarized_message_refs;
    // Known references are not computed again: they stand for the same messages.
    const bool continues = to_all && refs.size() == until;
    std::vector<std::string> known = continues ? std::move(refs) : std::vector<std::string>();
    refs = std::move(known);
    const std::size_t first = to_all ? refs.size() : count - 1;
    for (std::size_t i = first; i < count; ++i) refs.push_back(message_ref(history[i]));
    state->summarized_message_ids.clear();
    state->last_summarized_message_id.reset();
    until = count;
}

}  // namespace detail

}  // namespace cubepi
