#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>

#include "gateway_api.hpp"

namespace cubepi::app {

/// A browser that is logged in to the web console.
struct ConsoleSession {
    std::string id = {};  ///< names the login, and is not secret
    GatewayRole role = GatewayRole::viewer;
    std::string name = {};        ///< of the user, in the log
    std::string csrf_token = {};  ///< which requests that change something must have as well
};

/// A stream that a login reads. The login counts it as long as the object lives.
struct ConsoleStream {
    std::shared_ptr<std::stop_source> login = {};
    std::stop_token ended = {};  ///< stop is requested when the login ends
};

/// The one-time links and the sessions of the web console (D199). Links are in memory. Sessions are stored in a file as well, and outlive
/// the process (D252). Only digests of their secrets are stored. Used on one executor.
class ConsoleSessions {
public:
    static constexpr std::chrono::hours link_lifetime{1};
    static constexpr std::chrono::hours idle_lifetime{12};
    static constexpr std::chrono::hours longest_lifetime{24 * 7};
    /// Further ones replace those that end first.
    static constexpr std::size_t max_links = 64;
    static constexpr std::size_t max_sessions = 256;
    /// The streams of a session. Further ones are refused.
    static constexpr std::size_t max_streams = 8;

    /// An empty `file`: the sessions end with the process.
    explicit ConsoleSessions(std::shared_ptr<const Runtime> runtime,
                             std::filesystem::path file = {});

    /// Reads the sessions of an earlier process. Throws Error for a file that cannot be read, or is not one of these; there are none then.
    Task<> load();
    /// Writes the sessions to the file if they have changed. Returns when every change before the call is written. Throws Error(storage).
    Task<> save();

    /// Returns the secret of a link that logs in once, within `link_lifetime`.
    std::string make_link(GatewayRole role, std::string name);
    /// Ends a link and returns the secret of a new session; nothing if the link is unknown, used or expired.
    std::optional<std::string> log_in(std::string_view link);
    /// Returns the session of a secret; nothing if it is unknown or has ended. A session ends when it was not used for `idle_lifetime`.
    std::optional<ConsoleSession> find(std::string_view secret);
    /// Returns false if the session with this id has ended. Does not use it.
    bool has(std::string_view id);
    /// Begins a stream of the session of a secret; nothing if there is no session, or if it has `max_streams`.
    std::optional<ConsoleStream> open_stream(std::string_view secret);
    void log_out(std::string_view secret);
    /// Returns the links that can be used and the sessions, oldest first.
    std::vector<ConsoleLogin> logins() const;
    /// Ends a link or a session (D219). Returns false if there is none with this id.
    bool end(std::string_view id);
    /// Ends all links and sessions.
    void end_all();

private:
    /// Requests the stop of the streams when the entry is erased, for whatever reason.
    class Streams {
    public:
        Streams() = default;
        Streams(Streams&&) noexcept = default;
        Streams& operator=(Streams&&) = delete;
        ~Streams() {
            if (source) source->request_stop();
        }
        std::shared_ptr<std::stop_source> source = std::make_shared<std::stop_source>();
    };
    struct Entry {
        ConsoleSession session = {};  ///< without the token, which is a digest of the secret
        Clock::time_point idle_end = {};
        Clock::time_point end = {};
        double since = 0;     // Unix seconds
        double used = 0;      // 0: a link
        double recorded = 0;  // `used` as it is in the file
        Streams streams = {};
        Clock::time_point ends() const { return std::min(idle_end, end); }
    };
    /// By the digest of the secret: the time of a search does not tell how much of a guess is right.
    using Entries = std::map<std::string, Entry>;

    std::string insert(Entries& entries, std::size_t most, Entry entry) const;
    void erase_ended(Entries& entries) const;
    double unix_now() const;
    std::string file_text() const;
    void read_text(const std::string& text);

    const std::shared_ptr<const Runtime> runtime_;
    const std::shared_ptr<Clock> clock_;
    const std::filesystem::path file_;
    Entries links_;
    Entries sessions_;
    std::uint64_t version_ = 0;  ///< of the sessions
    std::uint64_t saved_ = 0;    ///< in the file
    AsyncEvent idle_{true};      ///< no call of save() writes
};

}  // namespace cubepi::app
