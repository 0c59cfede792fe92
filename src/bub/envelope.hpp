#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
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

/// An attachment of a message.
struct MediaItem {
    MediaType type = MediaType::image;
    std::string mime_type = {};  ///< "image/png"
    std::string filename = {};
    std::string url = {};  ///< http(s) or data URL; if empty, use `fetch`
    /// Returns the bytes on demand; nothing if they are unavailable. May be empty.
    std::function<Task<std::optional<std::string>>()> fetch = {};

    /// Returns `url`, or the fetched bytes as a data URL, or nothing.
    Task<std::optional<std::string>> get_url() const;
    /// Returns the bytes of a data URL, or the fetched ones, or nothing.
    Task<std::optional<std::string>> get_bytes() const;
};

/// The actions of a channel around a turn, e.g. showing a typing indicator. The builtin plugin opens it in load_state;
/// it is closed on every path, exactly once, if open() was called (B6).
class Lifespan {
public:
    virtual ~Lifespan() = default;
    virtual Task<> open() = 0;
    /// Ends the actions. `error` is the failure of the turn; null if it succeeded.
    virtual Task<> close(std::exception_ptr error) = 0;
};

/// Holds back the turn of a message that is stored before there is anything to process, such as the message for a result that is still
/// being made. Thread-safe.
class HeldTurn {
public:
    /// Lets the turn begin.
    void begin() { decided_.request_stop(); }
    /// Withdraws the message: no turn of this process begins on it.
    void drop() {
        is_dropped_ = true;
        decided_.request_stop();
    }
    bool is_dropped() const noexcept { return is_dropped_; }
    /// Waits for begin() or drop().
    Task<> wait() const;

    /// Called by a channel manager that has accepted the message and waits.
    void accept() noexcept { is_accepted_ = true; }
    bool is_accepted() const noexcept { return is_accepted_; }

private:
    std::stop_source decided_;
    std::atomic<bool> is_dropped_ = false;
    std::atomic<bool> is_accepted_ = false;
};

/// The values of Envelope::kind that are known to the builtin plugin and the channels.
namespace envelope_kind {
inline constexpr std::string_view normal = "normal";
inline constexpr std::string_view command = "command";
inline constexpr std::string_view error = "error";
inline constexpr std::string_view question = "question";  ///< asks the user (questions.hpp)
inline constexpr std::string_view file = "file";          ///< has a file (file_key)
}  // namespace envelope_kind

/// The key of Envelope::rest with how an answer of the model that is not complete ended, as the name of a cubepi::AnswerEnd: of the
/// output with the answer, and of the output of kind `error` that describes how it ended.
inline constexpr std::string_view finish_key = "finish";

/// The key of Envelope::rest of an output of kind `file`: `{workspace, path, name}`, the file `path` below the directory `workspace`,
/// and the name under which the user receives it. The channel reads it when it sends it (read_sent_file), also after a restart.
inline constexpr std::string_view file_key = "file";
/// The key of Envelope::context with the local time of arrival, to the second, as shown to the model.
inline constexpr std::string_view date_key = "_date";
/// The key of Envelope::context with the time of arrival, in Unix seconds; of messages that were merged, that of the first.
inline constexpr std::string_view arrived_key = "_arrived";
/// The key of Envelope::context that marks a message whose turn an earlier process has begun (B18); its value is true.
inline constexpr std::string_view redelivered_key = "redelivered";
/// Formats local time with its offset, to the second.
std::string local_date(std::chrono::system_clock::time_point time);

/// The action of a user on an open question.
enum class AnswerAction : std::uint8_t { answer, approve, deny, abandon, expire };

/// The answer of a user to a question of the session (B24), as parsed by the channel. The members of the value that fit the action are
/// set: `choices`, else `value`, else `text`.
struct Answer {
    AnswerAction action = AnswerAction::answer;
    std::string question = {};       ///< its question_name(); empty: the only one
    std::string text = {};           ///< the value or the reason, as typed
    std::optional<Json> value = {};  ///< as HitlChannel::answer() takes it
    /// The options of an `ask` whose buttons were pressed: indices of a question and of its option.
    std::optional<std::vector<std::pair<std::size_t, std::size_t>>> choices = {};
    std::string user = {};   ///< the sender, as set by note_answer()
    std::string place = {};  ///< CHANNEL:CHAT, as set by note_answer()
};

/// An inbound or outbound message: the fields known to the pipeline, and any other fields of its sender (`rest`). An
/// absent field differs from an empty one. A value type; any plugin may change the inbound message, which is shared by
/// the turn.
struct Envelope {
    Envelope() {}
    explicit Envelope(std::string text) : content(std::move(text)) {}
    /// Extracts the known fields and keeps the others. A number in place of a string is read as its text, and written
    /// back as a number.
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
    std::optional<std::string> output_channel;  ///< destination of answers; absent: `channel`
    /// Facts about the sender for the model: `context_text()` puts them before the prompt. Keys that begin with `_` are
    /// not shown. Known keys: channel and chat_id (note_arrival()), model, thread_id, steering_reason, sender_id (a text), rejected and postponed (true in a notice about a message that was rejected, or whose turn is tried again), private_chat (true if the sender is the
    /// only user of the chat).
    JsonObject context;
    std::vector<MediaItem> media;
    std::optional<Answer> answer;  ///< set: the text is not a prompt
    std::shared_ptr<Lifespan> lifespan;
    std::shared_ptr<HeldTurn> held;  ///< null: its turn need not be held back
    bool is_active = false;          ///< addressed to the agent, as opposed to overheard (debounce)
    /// Permission of the sender to use comma commands (B11). Absent: only the local command line (channel `cli`) may.
    std::optional<bool> from_operator;
    /// The platform's id of this message (Telegram: its update_id). A channel manager that has stored a message with
    /// this id does not accept it a second time (B18), and the builtin agent treats all deliveries of it as one user
    /// message (D42). is_derived_id() says which ids a channel must not use. Absent: each message is new. Of an outbound message: that of the
    /// message that it answers (D288).
    std::optional<std::string> inbound_id;
    /// Set by the channel manager. The sequence number of the arrival, while the message waits in a debouncer or a steering
    /// inbox; 0: none. The delivery log's ids of this message and of those merged into it, also during its turn; empty: the
    /// message is not recorded.
    std::uint64_t arrival = 0;
    std::vector<std::string> receipts;
    JsonObject rest;

    /// Returns `content`, or an empty string.
    const std::string& content_text() const noexcept;
    /// Returns `context` as `key=value|key=value` in one line, or the member `context_str` of `rest`; empty if neither exists.
    std::string context_text() const;
    /// Sets `channel` (`$NAME`, which also names the skill of the channel), `chat_id`, the date and the time in `context`. A channel manager
    /// does so with each message that it accepts. The date of arrival is stored with the message, so that a turn that is repeated
    /// sends the same prompt (D106).
    void note_arrival(std::chrono::system_clock::time_point time);
    bool is_operator() const noexcept;
};

/// Converts the envelope to a JSON object: the fields that are set, then `rest`. The answer, lifespan, is_active,
/// from_operator, inbound_id, held, arrival and receipts are left out.
JsonObject to_json(const Envelope& envelope);

/// Returns `channel:chat_id`, the session of a message for which neither a hook nor its sender chooses one (B2).
std::string default_session(const Envelope& message);

/// Returns the id of the user message that an envelope becomes, `CHANNEL:INBOUND_ID`; repeated deliveries of one
/// inbound message have the same id (D42). Empty if the platform does not identify its messages, so that each one is
/// new.
std::string input_id_of(const Envelope& message);

/// The result of render_outbound: zero or more envelopes.
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
