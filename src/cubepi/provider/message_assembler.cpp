#include <cubepi/provider/message_assembler.hpp>

#include <algorithm>
#include <limits>
#include <utility>

#include <cubepi/core/support/message_log.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/provider/answer_end.hpp>
#include <cubepi/provider/capability.hpp>
#include <cubepi/provider/wire/answer_size.hpp>
#include <cubepi/schema/partial_json.hpp>

namespace cubepi {

using Kind = detail::MessageLog::Kind;

namespace {

std::uint32_t block_number(std::int32_t index) { return static_cast<std::uint32_t>(index); }

/// Sets the arguments if a tool may run with them, else stores their text as `raw_arguments` (D4).
void set_arguments(ToolCall& call, std::string_view raw) {
    ParsedArguments parsed = parse_arguments(raw);
    if (parsed.runnable()) {
        call.arguments = std::move(parsed.value);
        return;
    }
    call.arguments.clear();
    call.extra["raw_arguments"] = raw;
}

constexpr std::size_t longest_tool_name = 64;
constexpr std::string_view mark_of_cut = "_cut";
constexpr std::string_view no_name = "unnamed";

constexpr bool is_name_character(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

/// Returns the name of a tool call as it is stored and shown (D73): 1 to 64 characters of A-Z, a-z, 0-9, _ and -. A
/// valid name is returned unchanged. In other names, white space at the ends is dropped and each run of other bytes
/// becomes `_`; a longer name is cut and ends in `_cut`, so that it does not match a tool.
SharedString tool_call_name(SharedString name) {
    const std::string_view given = name;
    const bool valid = !given.empty() && given.size() <= longest_tool_name &&
                       std::all_of(given.begin(), given.end(), is_name_character);
    if (valid) return name;
    const std::string_view visible = detail::trimmed(given);
    if (visible.empty()) return SharedString(no_name);
    std::string made;
    bool replaced = false;
    for (const char c : visible) {
        if (made.size() > longest_tool_name) break;
        const bool ok = is_name_character(c);
        if (ok || !replaced) made += ok ? c : '_';
        replaced = !ok;
    }
    if (made.size() > longest_tool_name) {
        made.resize(longest_tool_name - mark_of_cut.size());
        made += mark_of_cut;
    }
    return SharedString(std::move(made));
}

void merge(LazyObject& into, LazyObject from) {
    if (into.empty()) {
        into = std::move(from);
        return;
    }
    for (const auto& [key, value] : from.get()) into[key] = value;
}

/// Returns true if deep_merge() of `members` does not change `object`.
bool has_members(const JsonObject& object, const JsonObject& members) {
    return std::all_of(members.begin(), members.end(), [&object](const auto& member) {
        const Json* const value = object.if_contains(member.key());
        if (!value) return false;
        if (value->is_object() && member.value().is_object())
            return has_members(value->get_object(), member.value().get_object());
        return *value == member.value();
    });
}

}  // namespace

MessageAssembler::MessageAssembler(AssistantMessage head, std::size_t max_bytes)
    : head_(std::move(head)),
      max_bytes_(max_bytes == 0 ? std::numeric_limits<std::size_t>::max() : max_bytes) {}
MessageAssembler::~MessageAssembler() = default;
MessageAssembler::MessageAssembler(MessageAssembler&&) noexcept = default;
MessageAssembler& MessageAssembler::operator=(MessageAssembler&&) noexcept = default;

detail::MessageLog& MessageAssembler::log() {
    if (!log_) log_ = detail::MessageLog::make(head_);
    return *log_;
}

StreamEvent MessageAssembler::event(StreamEventType type, std::int32_t index,
                                    std::string_view delta) {
    StreamEvent made;
    made.type = type;
    made.content_index = index;
    made.delta = delta;
    made.partial = log().snapshot();
    return made;
}

void MessageAssembler::throw_too_large() const {
    throw LimitReachedError(
        std::string(max_answer_bytes_name),
        "the answer needs more memory than the limit max_answer_bytes (" +
            std::to_string(max_bytes_) + " bytes); only its first " +
            std::to_string(detail::retained_answer_size) +
            " bytes are retained; prompt again to continue, or raise the limit");
}

void MessageAssembler::count_detail(std::size_t bytes) {
    if (bytes > max_bytes_ - bytes_) throw_too_large();
    bytes_ += bytes;
}

void MessageAssembler::count_block(const AssistantContent& block) {
    check_block_count(blocks_.size() + 1);
    count_detail(detail::block_overhead + detail::block_memory(block));
}

void MessageAssembler::check_block_count(std::size_t count) {
    if (count <= max_blocks) return;
    throw Error(ErrorCode::too_large,
                "the answer has more than " + std::to_string(max_blocks) + " content blocks");
}

/// Large arguments may take many times their text as JSON values: they are refused before they are parsed.
void MessageAssembler::check_values(std::string_view json) const {
    constexpr std::size_t worth_counting = std::size_t{1} << 20U;
    if (json.size() < worth_counting) return;
    const auto values = static_cast<std::size_t>(std::count_if(
        json.begin(), json.end(), [](char c) { return c == ',' || c == '[' || c == '{'; }));
    if (values > (max_bytes_ - bytes_) / sizeof(Json)) throw_too_large();
}

StreamEvent MessageAssembler::start() {
    started_ = true;
    log_ = detail::MessageLog::make(head_);
    bytes_ = 0;
    return event(StreamEventType::start, -1);
}

void MessageAssembler::add_block_start(bool is_call) {
    const detail::LogPosition position = log().last_position();
    blocks_.push_back(Block{position, position, 0, is_call});
}

StreamEvent MessageAssembler::add_delta(StreamEventType type, std::int32_t index,
                                        std::string_view text) {
    count_detail(text.size() + detail::piece_overhead);
    blocks_[block_number(index)].counted += text.size();
    ++pieces_;
    return event(type, index, log().delta(block_number(index), text));
}

void MessageAssembler::replace(std::int32_t index, AssistantContent content) {
    std::size_t& counted = blocks_[block_number(index)].counted;
    const std::size_t size = detail::block_memory(content);
    if (size > counted) count_detail(size - counted);
    counted = std::max(counted, size);
    put(index, std::move(content));
}

void MessageAssembler::put(std::int32_t index, AssistantContent content) {
    log().replace(block_number(index), std::move(content));
    blocks_[block_number(index)].state = log().last_position();
}

void MessageAssembler::change_open_call(std::int32_t index, ToolCall call) {
    count_detail(detail::piece_overhead + detail::block_memory(call));
    put(index, std::move(call));
}

AssistantContent MessageAssembler::block(std::int32_t index) const {
    const std::uint32_t number = block_number(index);
    return log_->block(number, blocks_[number].start);
}

const ToolCall& MessageAssembler::open_call(std::int32_t index) const {
    return std::get<ToolCall>(*log_->content_at(blocks_[block_number(index)].state));
}

StreamEvent MessageAssembler::text_start(LazyObject extra) {
    const std::int32_t index = next_index();
    TextContent block;
    block.extra = std::move(extra);
    count_block(block);
    log().open(Kind::text_start, block_number(index), std::move(block));
    add_block_start(false);
    return event(StreamEventType::text_start, index);
}

StreamEvent MessageAssembler::text_delta(std::int32_t index, std::string_view text) {
    return add_delta(StreamEventType::text_delta, index, text);
}

StreamEvent MessageAssembler::text_end(std::int32_t index, LazyObject extra) {
    return end_block(StreamEventType::text_end, index, std::move(extra));
}

StreamEvent MessageAssembler::text_end(std::int32_t index, TextContent block) {
    replace(index, std::move(block));
    return event(StreamEventType::text_end, index);
}

StreamEvent MessageAssembler::thinking_start(LazyObject extra) {
    const std::int32_t index = next_index();
    ThinkingContent block;
    block.extra = std::move(extra);
    count_block(block);
    log().open(Kind::thinking_start, block_number(index), std::move(block));
    add_block_start(false);
    return event(StreamEventType::thinking_start, index);
}

StreamEvent MessageAssembler::thinking_delta(std::int32_t index, std::string_view text) {
    return add_delta(StreamEventType::thinking_delta, index, text);
}

StreamEvent MessageAssembler::thinking_end(std::int32_t index, LazyObject extra) {
    return end_block(StreamEventType::thinking_end, index, std::move(extra));
}

StreamEvent MessageAssembler::thinking_end(std::int32_t index, ThinkingContent block) {
    replace(index, std::move(block));
    return event(StreamEventType::thinking_end, index);
}

StreamEvent MessageAssembler::end_block(StreamEventType type, std::int32_t index,
                                        LazyObject extra) {
    const std::uint32_t block = block_number(index);
    if (extra.empty()) {
        log().end(block);
        return event(type, index);
    }
    AssistantContent content = this->block(index);
    if (auto* text = std::get_if<TextContent>(&content)) {
        merge(text->extra, std::move(extra));
    } else if (auto* deep = std::get_if<ThinkingContent>(&content)) {
        merge(deep->extra, std::move(extra));
    }
    replace(index, std::move(content));
    return event(type, index);
}

StreamEvent MessageAssembler::toolcall_start(SharedString id, SharedString name, LazyObject extra) {
    if (tool_calls_ == max_tool_calls) {
        throw Error(ErrorCode::too_large,
                    "the answer has more than " + std::to_string(max_tool_calls) + " tool calls");
    }
    ++tool_calls_;
    const std::int32_t index = next_index();
    ToolCall call;
    call.id = std::move(id);
    // An endpoint may send the name later.
    if (!name.empty()) call.name = tool_call_name(std::move(name));
    call.extra = std::move(extra);
    count_block(call);
    log().open(Kind::toolcall_start, block_number(index), std::move(call));
    add_block_start(true);
    return event(StreamEventType::toolcall_start, index);
}

StreamEvent MessageAssembler::toolcall_delta(std::int32_t index, std::string_view json) {
    return add_delta(StreamEventType::toolcall_delta, index, json);
}

StreamEvent MessageAssembler::toolcall_end(std::int32_t index, ToolCall call) {
    call.name = tool_call_name(std::move(call.name));
    replace(index, std::move(call));
    blocks_[block_number(index)].open_call = false;
    return event(StreamEventType::toolcall_end, index);
}

StreamEvent MessageAssembler::toolcall_end(std::int32_t index, ToolCall call,
                                           std::string_view raw) {
    check_values(raw);
    set_arguments(call, raw);
    return toolcall_end(index, std::move(call));
}

StreamEvent MessageAssembler::toolcall_end(std::int32_t index) {
    return toolcall_end(index, open_call(index), raw_arguments(index));
}

void MessageAssembler::rename_call(std::int32_t index, SharedString name) {
    name = tool_call_name(std::move(name));
    if (open_call(index).name == name) return;
    ToolCall call = open_call(index);
    call.name = std::move(name);
    change_open_call(index, std::move(call));
}

void MessageAssembler::extend_call(std::int32_t index, std::string_view key,
                                   const JsonObject& members) {
    const Json* const before = open_call(index).extra.find(key);
    if (before && before->is_object() && has_members(before->get_object(), members)) return;
    ToolCall call = open_call(index);
    Json& all = call.extra[key];
    if (!all.is_object()) all = JsonObject();
    deep_merge(all.get_object(), members);
    change_open_call(index, std::move(call));
}

void MessageAssembler::add_block(AssistantContent block) {
    count_block(block);
    log().open(Kind::text_start, block_number(next_index()), std::move(block));
    add_block_start(false);
}

std::string MessageAssembler::raw_arguments(std::int32_t index) const {
    if (!log_) return {};
    const std::uint32_t number = block_number(index);
    const auto is_open = [](const Block& block) { return block.open_call; };
    if (!is_open(blocks_[number]) || std::count_if(blocks_.begin(), blocks_.end(), is_open) < 2)
        return log_->raw(number, blocks_[number].start);
    if (raws_.size() != blocks_.size() || raws_pieces_ != pieces_) {
        std::vector<bool> wanted(blocks_.size());
        std::transform(blocks_.begin(), blocks_.end(), wanted.begin(), is_open);
        raws_ = log_->raws(wanted);
        raws_pieces_ = pieces_;
    }
    return raws_[number];
}

AssistantMessage MessageAssembler::message() const { return final_message(OpenCalls::keep); }

AssistantMessage MessageAssembler::final_message(OpenCalls open_calls) const {
    AssistantMessage message = head_;
    if (!log_) return message;
    message.content = log_->build(log_->count()).content;
    for (std::size_t i = blocks_.size(); i-- > 0;) {
        if (!blocks_[i].open_call) continue;
        if (open_calls == OpenCalls::drop) {
            message.content.erase(message.content.begin() + static_cast<std::ptrdiff_t>(i));
            continue;
        }
        const std::string raw = raw_arguments(static_cast<std::int32_t>(i));
        if (!raw.empty()) std::get<ToolCall>(message.content[i]).extra["raw_arguments"] = raw;
    }
    return message;
}

StreamEvent MessageAssembler::done(std::string_view stop_reason) {
    AssistantMessage message = final_message(OpenCalls::keep);
    message.stop_reason = stop_reason::shared(detail::server_stop_reason(stop_reason));
    return finish(StreamEventType::done, std::move(message));
}

StreamEvent MessageAssembler::error(std::string_view error_message, std::optional<ErrorInfo> info) {
    AssistantMessage message = final_message(OpenCalls::keep);
    message.stop_reason = stop_reason::shared(stop_reason::error);
    message.error_message = error_message;
    if (info) message.error = std::move(*info);
    return finish(StreamEventType::error, std::move(message));
}

StreamEvent MessageAssembler::error(const std::exception_ptr& exception) {
    std::string text = exception_text(exception);
    try {
        std::rethrow_exception(exception);
    } catch (const ProviderError& failure) {
        return error(text, failure.info());
    } catch (const Error& failure) {
        if (dynamic_cast<const LimitReachedError*>(&failure)) return limited(text);
        ErrorInfo info;
        info.code = failure.code();
        return error(text, std::move(info));
    } catch (...) {
        return error(text);
    }
}

StreamEvent MessageAssembler::limited(std::string_view error_message) {
    AssistantMessage message = final_message(OpenCalls::drop);
    detail::shorten(message, detail::retained_answer_size);
    ErrorInfo info;
    info.code = ErrorCode::limit;
    info.provider_code = max_answer_bytes_name;
    info.message = error_message;
    message.stop_reason = stop_reason::shared(stop_reason::error);
    message.error_message = error_message;
    message.error = std::move(info);
    return finish(StreamEventType::error, std::move(message));
}

StreamEvent MessageAssembler::aborted() {
    AssistantMessage message = final_message(OpenCalls::drop);
    message.stop_reason = stop_reason::shared(stop_reason::aborted);
    static const SharedString text("Request was aborted");
    message.error_message = text;
    return finish(StreamEventType::error, std::move(message));
}

StreamEvent MessageAssembler::finish(StreamEventType type, AssistantMessage final_message) {
    StreamEvent made;
    made.type = type;
    made.partial = PartialMessage(Message(std::move(final_message)));
    return made;
}

StreamEvent MessageAssembler::notice(Notice notice) {
    StreamEvent made;
    made.type = StreamEventType::notice;
    made.notice = std::move(notice);
    return made;
}

}  // namespace cubepi
