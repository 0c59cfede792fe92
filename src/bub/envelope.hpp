#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>

namespace bub {

using cubepi::Json;
using cubepi::JsonArray;
using cubepi::JsonObject;
using cubepi::Task;

enum class MediaType : std::uint8_t { image, audio, video, document };
std::string_view to_string(MediaType type) noexcept;

/// Something that came with a message beside its text.
struct MediaItem {
    MediaType type = MediaType::image;
    std::string mime_type = {};  ///< "image/png"
    std::string filename = {};
    std::string url = {};  ///< http(s) or data URL; empty: ask `fetch`
    /// Gives the bytes when they are needed; nothing when they cannot be had. May be absent.
    std::function<Task<std::optional<std::string>>()> fetch = {};

    /// `url`, or the fetched bytes as a data URL, or nothing.
    Task<std::optional<std::string>> get_url() const;
};

/// What a channel does around a turn, e.g. show that somebody is typing. The builtin plugin opens it in load_state;
/// it is closed on every path, exactly once, when open() was called (B6).
class Lifespan {
public:
    virtual ~Lifespan() = default;
    virtual Task<> open() = 0;
    /// `error` is what the turn failed with, null when it did not.
    virtual Task<> close(std::exception_ptr error) = 0;
};

/// The values of Envelope::kind that the builtin plugin and the channels know.
namespace envelope_kind {
inline constexpr std::string_view normal = "normal";
inline constexpr std::string_view command = "command";
inline constexpr std::string_view error = "error";
}  // namespace envelope_kind

/// One message on its way in or out: the fields that the pipeline knows, and whatever else its sender put in (`rest`).
/// An absent field is not an empty one. A value; any plugin may change the inbound one, which is shared by the turn.
struct Envelope {
    Envelope() {}
    explicit Envelope(std::string text) : content(std::move(text)) {}
    /// Takes the known fields out and keeps the others. A number in the place of a text is read as its text, and written
    /// back as the number.
    explicit Envelope(JsonObject fields);

    Envelope&& on(std::string channel_name, std::string chat) && {
        channel = std::move(channel_name);
        chat_id = std::move(chat);
        return std::move(*this);
    }
    Envelope&& text(std::string value) && {
        content = std::move(value);
        return std::move(*this);
    }
    Envelope&& with(std::string_view key, Json value) && {
        rest[key] = std::move(value);
        return std::move(*this);
    }

    std::optional<std::string> session_id;
    std::optional<std::string> channel;
    std::optional<std::string> chat_id;
    std::optional<std::string> content;
    std::optional<std::string> kind;            ///< envelope_kind; absent: normal
    std::optional<std::string> output_channel;  ///< where answers go; absent: `channel`
    /// What the model is told about the sender: `context_text()` puts it before the prompt. Keys that begin with `_` are
    /// not shown. Known keys: model, thread_id, steering_reason.
    JsonObject context;
    std::vector<MediaItem> media;
    std::shared_ptr<Lifespan> lifespan;
    bool is_active = false;  ///< somebody talks to us, rather than beside us (debounce)
    /// Whether the sender may give comma commands (B11). Absent: the local command line (channel `cli`) may.
    std::optional<bool> from_operator;
    /// What the platform calls this message (Telegram: its update_id). One that a channel manager has stored is not taken in
    /// a second time (B18), and for the builtin agent it is one message of the user, however often it comes (D42). Absent: each
    /// message is a new one.
    std::optional<std::string> inbound_id;
    /// The number that the channel manager gave to this message when it arrived; 0: none. It finds the manager's records of a
    /// message that comes back from a steering inbox.
    std::uint64_t arrival = 0;
    JsonObject rest;

    /// `content`, or an empty text.
    const std::string& content_text() const noexcept;
    /// `key=value|key=value` of `context`, or the member `context_str` of `rest`; empty when there is neither.
    std::string context_text() const;
    bool is_operator() const noexcept;
};

/// The envelope as a mapping: the fields that are set, then the rest. Lifespan, is_active, from_operator, inbound_id and
/// arrival are left out.
JsonObject to_json(const Envelope& envelope);

/// What render_outbound gives: one envelope, several, or none.
class EnvelopeBatch {
public:
    EnvelopeBatch() = default;
    EnvelopeBatch(std::nullopt_t) {}
    EnvelopeBatch(Envelope one) { items.push_back(std::move(one)); }
    EnvelopeBatch(std::vector<Envelope> many) : items(std::move(many)) {}
    EnvelopeBatch(std::optional<Envelope> one) {
        if (one) items.push_back(std::move(*one));
    }

    std::vector<Envelope> items;
};

}  // namespace bub
