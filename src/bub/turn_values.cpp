// The values that the stages of a turn pass on: prompt, state, stream of events, errors.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <utility>

#include <bub/event_stream.hpp>
#include <bub/prompt.hpp>
#include <bub/turn_error.hpp>
#include <bub/turn_state.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/schema/json_text.hpp>

namespace bub {

bool Prompt::empty() const noexcept {
    if (const std::string* text = if_text()) return text->empty();
    return if_parts()->empty();
}

std::string Prompt::text() const {
    if (const std::string* text = if_text()) return *text;
    std::string joined;
    for (const cubepi::Json& part : *if_parts()) {
        const cubepi::JsonObject* object = part.if_object();
        const cubepi::Json* text = object ? object->if_contains("text") : nullptr;
        if (!text || !text->is_string()) continue;
        if (!joined.empty()) joined += '\n';
        joined += text->get_string();
    }
    return joined;
}

cubepi::Json to_json(const Prompt& prompt) {
    if (const std::string* text = prompt.if_text()) return cubepi::Json(*text);
    return cubepi::Json(*prompt.if_parts());
}

std::string TurnState::text(std::string_view key) const {
    return cubepi::detail::text_member(values, key);
}

TurnState TurnState::child() const {
    TurnState made;
    made.values = values;
    made.services_ = services_;
    return made;
}

std::shared_ptr<void> TurnState::find(TypeKey key) const noexcept {
    for (const auto& [type, object] : services_) {
        if (type == key) return object;
    }
    return nullptr;
}

void TurnState::erase(TypeKey key) noexcept {
    std::erase_if(services_, [key](const auto& service) { return service.first == key; });
}

namespace {

class ListSource final : public EventSource {
public:
    explicit ListSource(std::vector<StreamEvent> events) : events_(std::move(events)) {}

    cubepi::Task<std::optional<StreamEvent>> next() override { co_return ready(); }

    std::optional<StreamEvent> ready() override {
        if (position_ == events_.size()) return std::nullopt;
        return std::move(events_[position_++]);
    }

private:
    std::vector<StreamEvent> events_;
    std::size_t position_ = 0;
};

class MapSource final : public EventSource {
public:
    MapSource(EventStream upstream, std::function<std::optional<StreamEvent>(StreamEvent)> change)
        : upstream_(std::move(upstream)), change_(std::move(change)) {}

    cubepi::Task<std::optional<StreamEvent>> next() override {
        while (true) {
            std::optional<StreamEvent> event = co_await upstream_.next();
            if (!event) co_return std::nullopt;
            std::optional<StreamEvent> changed = change_(std::move(*event));
            if (changed) co_return changed;
        }
    }

    std::optional<StreamEvent> ready() override {
        while (std::optional<StreamEvent> event = upstream_.ready()) {
            if (std::optional<StreamEvent> changed = change_(std::move(*event))) return changed;
        }
        return std::nullopt;
    }

    cubepi::Task<> close() override { return upstream_.close(); }

private:
    EventStream upstream_;
    std::function<std::optional<StreamEvent>(StreamEvent)> change_;
};

}  // namespace

StreamEvent StreamEvent::text(std::string_view delta) {
    StreamEvent event;
    event.kind = event_kind::text;
    event.data["delta"] = delta;
    return event;
}

std::string_view StreamEvent::delta() const noexcept {
    return cubepi::detail::string_member(data, "delta");
}

cubepi::Task<> EventSource::close() { co_return; }

EventStream EventStream::of(std::vector<StreamEvent> events) {
    return EventStream(std::make_unique<ListSource>(std::move(events)));
}

EventStream EventStream::of_text(std::string text) {
    std::vector<StreamEvent> events;
    events.push_back(StreamEvent::text(text));
    return of(std::move(events));
}

EventStream EventStream::map(EventStream upstream,
                             std::function<std::optional<StreamEvent>(StreamEvent)> change) {
    return EventStream(std::make_unique<MapSource>(std::move(upstream), std::move(change)));
}

namespace {

constexpr std::array<std::string_view, 7> names = {"invalid_input", "config",    "provider", "tool",
                                                   "temporary",     "not_found", "unknown"};

cubepi::ErrorCode code_of(ErrorKind kind) noexcept {
    switch (kind) {
        case ErrorKind::invalid_input: return cubepi::ErrorCode::invalid_argument;
        case ErrorKind::config: return cubepi::ErrorCode::auth;
        case ErrorKind::provider: return cubepi::ErrorCode::provider;
        case ErrorKind::temporary: return cubepi::ErrorCode::unavailable;
        case ErrorKind::not_found: return cubepi::ErrorCode::not_found;
        case ErrorKind::tool:
        case ErrorKind::unknown: break;
    }
    return cubepi::ErrorCode::unknown;
}

std::string text_of(const cubepi::Json& value) {
    if (const auto* text = value.if_string()) return std::string(*text);
    return value.is_null() ? std::string() : cubepi::json_text(value);
}

}  // namespace

std::string_view to_string(ErrorKind kind) noexcept {
    return names[static_cast<std::size_t>(kind)];
}

ErrorKind parse_error_kind(std::string_view text) noexcept {
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i] == text) return static_cast<ErrorKind>(i);
    }
    return ErrorKind::unknown;
}

TurnError::TurnError(ErrorKind kind, std::string message, cubepi::JsonObject details)
    : Error(code_of(kind), "[" + std::string(to_string(kind)) + "] " + message),
      kind_(kind),
      message_(std::move(message)),
      details_(std::move(details)) {}

TurnError error_from_event(const cubepi::JsonObject& data) {
    ErrorKind kind = ErrorKind::unknown;
    std::string message;
    cubepi::JsonObject details;
    cubepi::JsonObject others;
    for (const auto& [key, value] : data) {
        if (key == "kind") {
            kind = parse_error_kind(text_of(value));
        } else if (key == "message") {
            message = text_of(value);
        } else if (key == "details" && value.is_object()) {
            details = value.get_object();
        } else if (!(key == "details" && value.is_null())) {
            others[key] = value;
        }
    }
    for (auto& [key, value] : others) details.emplace(key, std::move(value));
    return TurnError(kind, std::move(message), std::move(details));
}

namespace {

// Lists the codes of failures that pass: all others are the turn's own.

FailureCause cause_of_code(cubepi::ErrorCode code) noexcept {
    using cubepi::ErrorCode;
    switch (code) {
        case ErrorCode::storage:
        case ErrorCode::storage_full:
        case ErrorCode::io: return FailureCause::outage;
        case ErrorCode::storage_locked:
        case ErrorCode::run_already_claimed: return FailureCause::busy;
        case ErrorCode::storage_corrupt:
        case ErrorCode::run_not_claimed:
        // Another gateway, which has taken the session, has ended the turn.
        case ErrorCode::run_already_completed:
        case ErrorCode::stale_append: return FailureCause::conflict;
        default: return FailureCause::turn;
    }
}

/// Failures of a store that other parts have too.
bool is_outage_of_store(cubepi::ErrorCode code) noexcept {
    using cubepi::ErrorCode;
    switch (code) {
        case ErrorCode::dns:
        case ErrorCode::connect:
        case ErrorCode::tls:
        case ErrorCode::disconnected:
        case ErrorCode::timeout:
        case ErrorCode::unavailable:
        case ErrorCode::auth:
        case ErrorCode::not_found:
        case ErrorCode::permission_denied:
        case ErrorCode::schema_mismatch: return true;
        default: return false;
    }
}

bool is_out_of_resources(const std::error_code& code) noexcept {
    const int number =
        code.category() == std::system_category() || code.category() == std::generic_category()
            ? code.value()
            : 0;
    return number == EMFILE || number == ENFILE || number == EIO ||
           cubepi::detail::is_out_of_space(number);
}

}  // namespace

FailureCause cause_of(const std::exception_ptr& failure) noexcept {
    if (!failure) return FailureCause::turn;
    try {
        std::rethrow_exception(failure);
    } catch (const cubepi::CheckpointerError& error) {
        return is_outage_of_store(error.code()) ? FailureCause::outage
                                                : cause_of_code(error.code());
    } catch (const cubepi::Error& error) {
        return cause_of_code(error.code());
    } catch (const std::system_error& error) {
        return is_out_of_resources(error.code()) ? FailureCause::outage : FailureCause::turn;
    } catch (...) {
        return FailureCause::turn;
    }
}

std::string describe(const std::exception_ptr& error) {
    if (!error) return {};
    if (cubepi::is_cancellation(error)) return "cancelled";
    return cubepi::exception_text(error);
}

}  // namespace bub
