#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/testing/memory_transport.hpp>

namespace bub::telegram {

using cubepi::Json;
using cubepi::JsonArray;
using cubepi::JsonObject;

/// A fault of one call.
enum class Fault : std::uint8_t {
    none,
    cut_before,  ///< the connection is lost before the service reads the request
    cut_after,   ///< the service executes the call, and the connection is lost before its answer
    too_many,    ///< 429 with retry_after
    internal,    ///< 500, not executed
    internal_after,  ///< 502, executed
    garbage,         ///< HTML in place of JSON
    forbidden,       ///< 403
    conflict,        ///< 409
};

/// A message that the fake has.
struct FakeMessage {
    std::int64_t id = 0;
    std::int64_t chat = 0;
    std::int64_t thread = 0;
    std::string text = {};
    JsonArray entities = {};
    JsonObject markup = {};
    std::int64_t reply_to = 0;
    std::string file = {};  ///< name of the file that was sent
    int edits = 0;
    bool deleted = false;
};

/// A Bot API in memory for tests. It rejects what Telegram rejects: wrong tokens, unknown chats, texts that are empty or too long,
/// invalid entities, callback data of more than 64 bytes, edits that change nothing, rates that are too high. Used on one executor.
class FakeBotApi {
public:
    explicit FakeBotApi(std::shared_ptr<cubepi::Clock> clock,
                        std::string token = "42:secret-of-the-bot");

    /// Returns a transport to this service. It keeps a reference.
    std::shared_ptr<cubepi::HttpTransport> transport();
    const std::string& token() const { return token_; }

    // Users.
    void add_chat(std::int64_t id) { chats_.insert_or_assign(id, true); }
    /// A message of a user; returns its update_id.
    std::int64_t say(std::int64_t user, std::string text);
    /// Adds an update; the update_id is set. Returns it.
    std::int64_t add_update(JsonObject update);
    /// Adds an update as it is.
    void add_raw_update(Json update) { updates_.push_back(std::move(update)); }
    /// A user presses a button of a message.
    std::int64_t press(std::int64_t user, std::int64_t message_id, std::size_t row,
                       std::size_t column);
    JsonObject message_of(std::int64_t user, std::int64_t chat, std::string text);
    /// The form of a message of the bot in `reply_to_message` and `callback_query`.
    JsonObject shown_message(std::int64_t message_id) const;
    void delete_message(std::int64_t id) { messages_.at(id).deleted = true; }
    void add_file(const std::string& file_id, std::string bytes) {
        files_[file_id] = std::move(bytes);
    }

    // Faults.
    /// The next calls of the method meet these faults, in order.
    void fail(const std::string& method, std::vector<Fault> faults);
    /// Decides before `fail`.
    std::function<Fault(const std::string& method, std::size_t call)> on_call;
    /// Called with each message of the bot that was sent or edited.
    std::function<void(const FakeMessage& message)> on_message;
    bool rejects_entities = false;
    bool waits_for_updates = true;  ///< long polling
    std::int64_t retry_after = 7;

    // Its state.
    std::vector<FakeMessage> messages(std::int64_t chat) const;
    std::vector<std::string> texts(std::int64_t chat) const;
    std::size_t count(const std::string& method) const;
    const std::vector<std::pair<std::string, JsonObject>>& calls() const { return calls_; }
    std::size_t waiting_updates() const { return updates_.size(); }
    std::vector<std::string> notices() const { return notices_; }  ///< of answerCallbackQuery
    JsonObject webhook = {};
    std::size_t largest_batch = 0;  ///< of updates
    std::size_t rejected = 0;       ///< calls that were answered with 400 or, for their rate, 429
    std::size_t too_fast = 0;       ///< of them, those that exceeded a rate
    std::string last_rejection = {};
    /// Requests of getUpdates that arrived while one of another poller (header x-poller) was waiting, which then is answered with 409.
    std::size_t conflicts = 0;
    /// Returns the poller of the last request of getUpdates.
    const std::string& poller() const { return poller_; }
    /// The process of the poller has ended, and its request with it.
    void forget(const std::string& poller) {
        if (poller_ == poller) last_poll_ = 0;
    }

private:
    friend class FakeBotTransport;
    /// A request of getUpdates that is being answered.
    class Poll {
    public:
        Poll(FakeBotApi& api, std::string_view poller, bool polls) : api_(api), number_(0) {
            if (!polls) return;
            if (api_.last_poll_ != 0 && api_.poller_ != poller) ++api_.conflicts;
            number_ = api_.last_poll_ = ++api_.polls_;
            api_.poller_ = poller;
        }
        ~Poll() {
            if (number_ != 0 && is_last()) api_.last_poll_ = 0;
        }
        Poll(const Poll&) = delete;
        Poll& operator=(const Poll&) = delete;
        bool is_last() const { return number_ == 0 || number_ == api_.last_poll_; }

    private:
        FakeBotApi& api_;
        std::size_t number_;
    };
    struct Reply {
        int status = 200;
        Json body = {};
    };
    static Reply ok(Json result);
    static Reply error(int status, std::string text);
    Reply reject(std::string text);

    cubepi::testing::MemoryResponse respond(const cubepi::HttpRequest& request);
    Fault fault_of(const std::string& method);
    Reply execute(const std::string& method, const JsonObject& parameters);
    Reply get_updates(const JsonObject& parameters);
    Reply send_message(const JsonObject& parameters, const std::string& file);
    Reply edit_text(const JsonObject& parameters);
    Reply edit_markup(const JsonObject& parameters);
    Reply delete_one(const JsonObject& parameters);
    Reply get_file(const JsonObject& parameters);
    std::optional<std::string> problem_of(const std::string& text,
                                          const JsonObject& parameters) const;
    std::optional<std::string> problem_of_markup(const JsonObject& parameters) const;
    bool exceeds_rate(std::int64_t chat);
    Reply reject_rate();
    Reply accept(const FakeMessage& message) const;
    JsonObject json_of(const FakeMessage& message) const;

    const std::shared_ptr<cubepi::Clock> clock_;
    const std::string token_;
    std::map<std::int64_t, bool> chats_;
    std::map<std::int64_t, FakeMessage> messages_;
    std::map<std::string, std::string> files_;
    std::deque<Json> updates_;
    std::map<std::string, std::deque<Fault>> faults_;
    std::map<std::string, std::size_t> counts_;
    std::vector<std::pair<std::string, JsonObject>> calls_;
    std::vector<std::string> notices_;
    std::map<std::int64_t, std::deque<cubepi::Clock::time_point>> sent_;
    std::size_t polls_ = 0;
    std::size_t last_poll_ = 0;  ///< 0: none is being answered
    std::string poller_ = {};    ///< of the last one
    std::int64_t next_message_ = 1000;
    std::int64_t next_update_ = 500;
};

}  // namespace bub::telegram
