#include <bub/channel/http/http_exchange.hpp>

#include <algorithm>
#include <functional>
#include <initializer_list>

#include <bub/channel/http_channel.hpp>
#include <bub/questions.hpp>
#include <bub/session_tape.hpp>
#include <bub/turn_span.hpp>
#include <bub/turn_usage.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/base64.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/random_word.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/utf8.hpp>

namespace bub::detail {

namespace {

using cubepi::Error;
using cubepi::ErrorCode;

constexpr std::size_t longest_name = 200;
constexpr std::size_t most_files = 10;
constexpr std::size_t size_of_output = 256;  // in memory, without its text

[[noreturn]] void refuse(const std::string& reason) { throw Error(ErrorCode::parse, reason); }

constexpr std::size_t new_name_size = 32;

std::string new_name() {
    constexpr char digits[] = "0123456789abcdef";
    std::string name;
    for (int words = 0; words < 2; ++words) {
        std::uint64_t word = cubepi::detail::random_word();
        for (int i = 0; i < 16; ++i, word >>= 4U) name += digits[word & 15U];
    }
    return name;
}

std::string text(const JsonObject& object, std::string_view key, std::size_t limit) {
    const Json* value = object.if_contains(key);
    if (!value) return {};
    if (!value->is_string()) refuse("'" + std::string(key) + "' must be a string");
    const std::string_view given = value->get_string();
    if (given.size() > limit)
        refuse("'" + std::string(key) + "' is longer than " + std::to_string(limit) + " bytes");
    return std::string(given);
}

using Keys = std::initializer_list<std::string_view>;

JsonObject body_of(const cubepi::HttpServerRequest& request, Keys keys) {
    boost::system::error_code failed;
    Json body = boost::json::parse(request.body, failed);
    if (failed || !body.is_object()) refuse("the body must be a JSON object");
    for (const auto& member : body.get_object()) {
        if (std::find(keys.begin(), keys.end(), std::string_view(member.key())) == keys.end())
            refuse("unknown member '" + std::string(member.key()) + "'");
    }
    return std::move(body.get_object());
}

/// Refuses the names of sub-agents' sessions, which begin with that of their parent's and a mark.
void refuse_marks(std::string_view session) {
    for (const std::string_view mark : {"/agent/", "/call/"}) {
        if (session.find(mark) != std::string_view::npos)
            refuse("'session' must not contain '" + std::string(mark) + "'");
    }
}

/// Returns the session of the path or else of the body; empty if there is none.
std::string session_of(const cubepi::HttpServerRequest& request, const JsonObject& body) {
    std::string given = text(body, "session", longest_name);
    if (!given.empty()) check_id("session", given);
    const std::string_view in_path = request.parameter("session");
    if (!in_path.empty()) {
        check_id("session", in_path);
        if (!given.empty() && given != in_path)
            refuse("'session' is not the session of the path; leave it out");
        given = in_path;
    }
    refuse_marks(given);
    return given;
}

/// Reads a file of a message: `{name, type, content}`.
MediaItem file_of(const Json& value) {
    const JsonObject* const object = value.if_object();
    if (!object) refuse("each of 'files' must be an object with a 'name' and a 'content'");
    MediaItem item;
    item.filename = text(*object, "name", longest_name);
    item.mime_type = text(*object, "type", longest_name);
    if (item.mime_type.empty()) item.mime_type = "application/octet-stream";
    const bool is_type =
        item.mime_type.find('/') != std::string::npos &&
        item.mime_type.find_first_not_of(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/.+-_") ==
            std::string::npos;
    if (!is_type) refuse("the 'type' of a file must be a media type, e.g. text/plain");
    item.type = item.mime_type.starts_with("image/") ? MediaType::image : MediaType::document;
    const Json* const content = object->if_contains("content");
    if (item.filename.empty() || !content || !content->is_string())
        refuse("each of 'files' must be an object with a 'name' and a 'content'");
    const std::string_view encoded = content->get_string();
    const std::size_t end = encoded.find_first_not_of(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
    const std::string_view padding = encoded.substr(std::min(end, encoded.size()));
    if (encoded.size() % 4 != 0 || (padding != "" && padding != "=" && padding != "=="))
        refuse("the 'content' of a file must be base64");
    item.url = "data:" + item.mime_type + ";base64," + std::string(encoded);
    return item;
}

}  // namespace

void check_id(std::string_view what, std::string_view id) {
    const auto is_control = [](char c) {
        return static_cast<unsigned char>(c) < ' ' || c == '\x7F';
    };
    if (!id.empty() && id.size() <= longest_name && cubepi::is_utf8(id) &&
        std::none_of(id.begin(), id.end(), is_control))
        return;
    refuse("the id of a " + std::string(what) + " is printable text of 1 to " +
           std::to_string(longest_name) + " bytes");
}

void check_session(std::string_view session) {
    check_id("session", session);
    refuse_marks(session);
}

namespace {

constexpr std::string_view user_prefix = "user-";
/// Of the ids of firings (firing_id()): a client must not send the message of one.
constexpr std::string_view schedule_prefix = "schedule-";
constexpr std::size_t digest_size = 64;

/// Sets the id of the message, which is new for a client that names no key.
void set_id(HttpMessage& message, const cubepi::HttpServerRequest& request) {
    const std::string_view given = request.parameter("id");
    const std::string_view key = given.empty() ? request.headers.get("idempotency-key") : given;
    const bool is_given = !given.empty() || request.headers.find("idempotency-key") != nullptr;
    message.id = is_given ? std::string(key) : new_name();
    check_id("message (Idempotency-Key)", message.id);
    if (!is_given || !given.empty()) return;
    message.id = message_id(message.user, key);
    if (message.id != key) message.earlier_id = key;
}

/// Returns a message without a text; in a session of its own if the request names none.
HttpMessage message_of(const cubepi::HttpServerRequest& request, const JsonObject& body,
                       const HttpAccess& access) {
    HttpMessage message;
    message.session = session_of(request, body);
    message.has_session = !message.session.empty();
    message.user = text(body, "user", longest_name);
    set_id(message, request);
    if (!message.has_session) message.session = session_of_id(message.id);
    Envelope& envelope = message.envelope;
    envelope.chat_id = message.session;
    envelope.inbound_id = message.id;
    envelope.is_active = true;
    envelope.from_operator = !message.user.empty() && access.is_operator(message.user);
    return message;
}

}  // namespace

std::string session_of_id(const std::string& id) {
    return cubepi::detail::sha256_hex("session of " + id).substr(0, new_name_size);
}

std::string message_id(std::string_view user, std::string_view key) {
    const std::string_view digest = key.substr(std::min(user_prefix.size(), key.size()));
    const bool is_user_id = key.starts_with(user_prefix) && digest.size() == digest_size &&
                            digest.find_first_not_of("0123456789abcdef") == std::string_view::npos;
    const bool is_reserved = is_user_id || is_derived_id(key) || key.starts_with(schedule_prefix);
    if (user.empty() && !is_reserved) return std::string(key);
    std::string name;
    for (const std::string_view part : {user, key})
        name += std::to_string(part.size()) + ":" + std::string(part);
    return std::string(user_prefix) + cubepi::detail::sha256_hex(name);
}

HttpMessage read_stop(const cubepi::HttpServerRequest& request, const HttpAccess& access) {
    const JsonObject body = request.body.empty() ? JsonObject() : body_of(request, {"user"});
    HttpMessage message = message_of(request, body, access);
    message.envelope.content = "/stop";
    if (!message.user.empty()) message.envelope.context["sender_id"] = message.user;
    // The client may stop each turn.
    if (message.user.empty()) message.envelope.from_operator = true;
    return message;
}

namespace {

/// Reads a message with its text. `mark`: what precedes a text that would be a command.
HttpMessage message_in(const JsonObject& body, const cubepi::HttpServerRequest& request,
                       const HttpAccess& access, std::string_view mark = {}) {
    HttpMessage message = message_of(request, body, access);
    Envelope& envelope = message.envelope;
    envelope.content = text(body, "text", request.body.size());
    const std::string_view written = cubepi::detail::trimmed(*envelope.content);
    if (written.starts_with(',') || written.starts_with('/')) envelope.content->insert(0, mark);
    if (const Json* context = body.if_contains("context")) {
        if (!context->is_object()) refuse("'context' must be an object");
        // One member, so that none of the client's names is one that the pipeline reads (D101).
        if (!context->get_object().empty()) envelope.context["facts"] = *context;
    }
    // After the facts: the model reads them in this order.
    if (!message.user.empty()) envelope.context["sender_id"] = message.user;
    const std::string_view caller = request.headers.get("traceparent");
    if (!caller.empty() && caller.size() <= longest_name)
        envelope.context[trace_key::traceparent] = caller;
    const std::string question = text(body, "answer_to", longest_name);
    if (!question.empty()) {
        if (body.contains("files")) refuse("an answer has no 'files'");
        envelope.answer.emplace().question = question;
        envelope.answer->text = envelope.content_text();
        if (const Json* answer = body.if_contains("answer")) envelope.answer->value = *answer;
    } else {
        envelope.media = message_files(body);
        if (envelope.content_text().empty() && envelope.media.empty())
            refuse("the message has no 'text'");
    }
    note_answer(envelope);
    if (!request.headers.get("idempotency-key").empty())
        envelope.rest[request_digest_key] = content_digest(envelope);
    return message;
}

}  // namespace

HttpMessage read_message(const cubepi::HttpServerRequest& request, const HttpAccess& access) {
    const JsonObject body =
        body_of(request, {"session", "text", "user", "context", "answer_to", "answer", "files"});
    return message_in(body, request, access);
}

HttpMessage read_model_message(const cubepi::HttpServerRequest& request, const HttpAccess&) {
    const JsonObject body = body_of(request, {"session", "text", "user", "context", "files"});
    return message_in(body, request, HttpAccess(), "(not a command) ");
}

std::string content_digest(const Envelope& message) {
    JsonArray parts;
    parts.emplace_back(message.content_text());
    parts.emplace_back(sender_of(message));
    parts.push_back(message.answer ? Json(message.answer->question) : Json());
    parts.push_back(message.answer && message.answer->value ? *message.answer->value : Json());
    for (const MediaItem& file : message.media) {
        parts.emplace_back(file.filename);
        parts.emplace_back(file.url);
    }
    return cubepi::detail::sha256_hex(boost::json::serialize(parts));
}

bool HttpExchange::is_of(const HttpMessage& message) const {
    const bool has_made_name = chat_.size() == new_name_size &&
                               chat_.find_first_not_of("0123456789abcdef") == std::string::npos;
    const bool is_session = message.has_session ? message.session == chat_ : has_made_name;
    // That of an interface also covers what the agent does not get.
    const std::string asked =
        cubepi::detail::text_member(message.envelope.rest, request_digest_key);
    const bool is_other = !asked.empty() && !request_digest.empty() && asked != request_digest;
    return is_session && !is_other && digest_ == content_digest(message.envelope);
}

void HttpExchange::begin() {
    // The turn of a message that was kept until a question was answered begins a second time.
    outputs_ = JsonArray();
    output_bytes_ = 0;
    file_bytes_ = 0;
    first_parts_.clear();
    for_readers([](HttpParts& parts) { parts.clear(); });
    shared_text_.clear();
    error_.clear();
    problem_.clear();
    finish_.clear();
    usage_.clear();
    running_ = true;
    done_ = false;
    ++turns_;
    changed_.pulse();
}

bool HttpExchange::has_asked() const {
    return std::any_of(outputs_.begin(), outputs_.end(),
                       [](const Json& output) { return output.as_object().contains("question"); });
}

void HttpExchange::end(std::string error) {
    if (!error.empty()) error_ = std::move(error);
    if (!readers_.empty()) first_parts_.clear();
    running_ = false;
    done_ = true;
    changed_.pulse();
}

void HttpExchange::end_elsewhere(const JsonObject& record) {
    using cubepi::detail::text_member;
    // Otherwise its text was read from that gateway.
    if (!running_) begin();
    if (const JsonArray* const outputs = cubepi::detail::array_member(record, "outputs"))
        outputs_ = *outputs;
    output_bytes_ = boost::json::serialize(outputs_).size();
    finish_ = text_member(record, "finish");
    const JsonObject* const error = cubepi::detail::object_member(record, "error");
    end(error ? text_member(*error, "message") : std::string());
}

void HttpExchange::refuse(Refusal refusal) {
    error_ = refusal.text;
    refusal_ = std::move(refusal);
    done_ = true;
    changed_.pulse();
}

void HttpExchange::add_output(const Envelope& message, const SentFile* file) {
    JsonObject output;
    output["kind"] = message.kind.value_or(std::string(envelope_kind::normal));
    output["text"] = message.content_text();
    if (file) {
        std::string content = cubepi::detail::base64(file->bytes);
        file_bytes_ += file->bytes.size();
        output_bytes_ += content.size();
        output["file"] = JsonObject{{"name", file->name},
                                    {"size", static_cast<std::int64_t>(file->bytes.size())},
                                    {"content", std::move(content)}};
    }
    if (const Json* question = message.rest.if_contains(question_key)) {
        output["question"] = *question;
        output_bytes_ += boost::json::serialize(*question).size();
    }
    if (const Json* finish = message.rest.if_contains(finish_key); finish && finish->is_string())
        finish_ = finish->get_string();
    if (const JsonObject* usage = cubepi::detail::object_member(message.rest, usage_key))
        usage_ = *usage;
    output_bytes_ += message.content_text().size() + size_of_output;
    if (message.rest.contains(refused_answer_key)) error_ = message.content_text();
    if (message.kind == envelope_kind::error) problem_ = message.content_text();
    outputs_.push_back(std::move(output));
    changed_.pulse();
}

namespace {

/// Returns the size of an event of a call for its limit, in bytes; nothing for one that clients do not read.
std::optional<std::size_t> size_of(const cubepi::AgentEvent& event) {
    constexpr std::size_t size_of_event = 512;  // in memory, without its texts
    if (const auto* const start = event.get_if<cubepi::ToolExecutionStartEvent>())
        return size_of_event + boost::json::serialize(start->args).size();
    if (const auto* const end = event.get_if<cubepi::ToolExecutionEndEvent>())
        return size_of_event + end->result.text().size();
    const auto* const update = event.get_if<cubepi::ToolExecutionUpdateEvent>();
    const JsonObject* const progress = update ? update->partial_result.if_object() : nullptr;
    // The output of other tools follows when they end.
    if (!progress || !progress->contains("subagent")) return std::nullopt;
    return size_of_event + boost::json::serialize(*progress).size();
}

}  // namespace

void HttpParts::add(const HttpReplyPart& part, std::size_t bytes, std::size_t limit) {
    const bool is_text = !part.event;
    // A single part may be longer: it is in memory already.
    const bool is_too_much = bytes_ > 0 && bytes_ + bytes > limit;
    if (is_too_much || (is_text && omits_text_)) {
        omits_text_ = omits_text_ || is_text;
        return;
    }
    bytes_ += bytes;
    if (is_text && !parts_.empty() && parts_.back().kind == part.kind) {
        parts_.back().text += part.text;
    } else {
        parts_.push_back(part);
    }
}

std::optional<HttpReplyPart> HttpParts::take() {
    std::optional<HttpReplyPart> part;
    if (parts_.empty()) return part;
    part = std::move(parts_.front());
    parts_.pop_front();
    if (parts_.empty()) {
        bytes_ = 0;
    } else {
        const std::size_t size =
            part->event ? size_of(*part->event).value_or(0) : part->text.size();
        bytes_ -= std::min(size, bytes_);
    }
    return part;
}

void HttpParts::clear() {
    parts_.clear();
    bytes_ = 0;
    omits_text_ = false;
}

template <class Call>
void HttpExchange::for_readers(const Call& call) {
    for (const std::weak_ptr<HttpParts>& reader : readers_)
        if (const std::shared_ptr<HttpParts> parts = reader.lock()) call(*parts);
}

std::shared_ptr<HttpParts> HttpExchange::read_parts() {
    auto parts = std::make_shared<HttpParts>(first_parts_);
    if (done_) first_parts_.clear();
    std::erase_if(readers_, [](const auto& reader) { return reader.expired(); });
    readers_.push_back(parts);
    return parts;
}

bool HttpExchange::has_readers() const noexcept {
    return std::any_of(readers_.begin(), readers_.end(),
                       [](const auto& reader) { return !reader.expired(); });
}

void HttpExchange::add_part(const HttpReplyPart& part, std::size_t bytes, std::size_t limit) {
    first_parts_.add(part, bytes, limit);
    for_readers([&](HttpParts& parts) { parts.add(part, bytes, limit); });
    changed_.pulse();
}

void HttpExchange::add_text(std::string text, std::size_t limit) {
    HttpReplyPart part;
    const std::size_t size = text.size();
    part.text = std::move(text);
    if (size > 0) add_part(part, size, limit);
}

void HttpExchange::add_event(const StreamEvent& event, std::size_t limit) {
    if (shares_text && event.kind == event_kind::text) {
        const std::string_view text = event.delta();
        // Beyond the limit the outputs have it.
        if (shared_text_.size() + text.size() > limit) shares_text = false;
        if (shares_text) shared_text_ += text;
        changed_.pulse();
    }
    if (detail == HttpReplyDetail::outputs) return;
    HttpReplyPart part;
    if (event.kind == event_kind::text) {
        part.text = event.delta();
    } else if (detail != HttpReplyDetail::events) {
        return;
    } else if (event.kind == event_kind::reasoning) {
        part.kind = HttpReplyPart::Kind::reasoning;
        part.text = event.delta();
    } else if (event.kind == event_kind::agent && event.agent_event) {
        const std::optional<std::size_t> size = size_of(*event.agent_event);
        if (!size) return;
        part.kind = HttpReplyPart::Kind::event;
        part.event = event.agent_event;
        return add_part(part, *size, limit);
    } else {
        return;
    }
    const std::size_t size = part.text.size();
    if (size > 0) add_part(part, size, limit);
}

std::shared_ptr<HttpExchange> HttpExchanges::find(const std::string& id) const {
    const auto found = exchanges_.find(id);
    return found == exchanges_.end() ? nullptr : found->second;
}

std::shared_ptr<HttpExchange> HttpExchanges::add(const Envelope& message) {
    const std::string id = message.inbound_id.value_or("");
    auto exchange =
        std::make_shared<HttpExchange>(id, message.chat_id.value_or(""), content_digest(message));
    exchange->user = sender_of(message);
    exchange->request_digest = cubepi::detail::text_member(message.rest, request_digest_key);
    exchange->is_stop = message.rest.contains(stop_key);
    exchange->is_in_background = message.rest.contains(background_key);
    if (!id.empty()) exchanges_[id] = exchange;
    return exchange;
}

void HttpExchanges::refuse(const std::shared_ptr<HttpExchange>& exchange,
                           HttpExchange::Refusal refusal) {
    if (exchange->admitted && exchange->turns() > 0) return;
    exchange->refuse(std::move(refusal));
    forget(exchange);
}

void HttpExchanges::forget(const std::shared_ptr<HttpExchange>& exchange) {
    const auto found = exchanges_.find(exchange->id());
    if (found != exchanges_.end() && found->second == exchange) exchanges_.erase(found);
}

void HttpExchanges::leave(const std::shared_ptr<HttpExchange>& exchange) {
    exchange->postpone();
    exchange->elsewhere = true;
    exchange->wake();
    const auto found = current_.find(exchange->chat());
    if (found != current_.end() && found->second == exchange) current_.erase(found);
    forget(exchange);
}

std::shared_ptr<HttpExchange> HttpExchanges::current(const std::string& chat) const {
    const auto found = current_.find(chat);
    return found == current_.end() ? nullptr : found->second;
}

void HttpExchanges::begin_turn(const std::shared_ptr<HttpExchange>& exchange) {
    exchange->begin();
    current_[exchange->chat()] = exchange;
}

void HttpExchanges::end_turn(const std::shared_ptr<HttpExchange>& exchange, std::string error) {
    exchange->end(std::move(error));
    const auto found = current_.find(exchange->chat());
    if (found != current_.end() && found->second == exchange) current_.erase(found);
    if (exchange->id().empty()) return;
    ended_.push_back(Ended{exchange->id(), exchange->size()});
    bytes_ += ended_.back().bytes;
    while (ended_.size() > remembered_ || bytes_ > max_bytes_) {
        const std::shared_ptr<HttpExchange> oldest = find(ended_.front().id);
        if (oldest && oldest->done()) exchanges_.erase(ended_.front().id);
        bytes_ -= ended_.front().bytes;
        ended_.pop_front();
    }
}

void HttpExchanges::wake_all() {
    for (const auto& [id, exchange] : exchanges_) exchange->wake();
}

}  // namespace bub::detail

namespace bub {

void check_http_chat(std::string_view chat) {
    try {
        detail::check_session(chat);
    } catch (const cubepi::Error& error) {
        throw cubepi::Error(
            cubepi::ErrorCode::invalid_argument,
            std::string("the chat is a session of the channel http: ") + error.what());
    }
}

std::vector<MediaItem> message_files(const JsonObject& message) {
    std::vector<MediaItem> files;
    const Json* const given = message.if_contains("files");
    if (!given) return files;
    if (!given->is_array() || given->get_array().size() > detail::most_files)
        detail::refuse("'files' must be a list of at most " + std::to_string(detail::most_files) +
                       " files");
    for (const Json& one : given->get_array()) files.push_back(detail::file_of(one));
    return files;
}

}  // namespace bub
