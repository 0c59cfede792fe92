#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/tape/session_tape_store.hpp>
#include <bub/tape/tape_session.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

namespace cubepi::app {

/// Conversions between the pipeline's id of a session and its name.
std::string session_id_of(std::string_view name);
/// Empty for a session of another channel.
std::string session_name_of(std::string_view id);

/// A saved conversation.
struct SavedSession {
    std::string name = {};
    double used_at = 0;          ///< Unix seconds
    std::size_t messages = 0;    ///< counted for those in SQLite only
    std::string tape = {};       ///< the tape's name; empty: it is in SQLite
    std::string workspace = {};  ///< its directory; empty for sessions in SQLite
    std::string copied_from = {};
    std::string title = {};    ///< that the user has set; empty: none
    std::string problem = {};  ///< why its messages could not be counted
};

void newest_first(std::vector<SavedSession>& sessions);

struct LastSession {
    std::string name = {};
    std::string note = {};  ///< for the user; empty: none
};

/// The result of bringing a session to its tape.
struct BroughtToTape {
    std::size_t copied = 0;  ///< messages; 0: there was nothing to copy
    std::string note = {};   ///< for the user; empty: none
};

/// A session name made from the first words of a prompt: lower case, with hyphens; "chat" if the prompt has no letters.
std::string session_name_from(std::string_view prompt);

/// The removed parts of a session.
struct RemovedSession {
    std::vector<std::string> parts = {};  ///< as readable text; empty: no such session
    std::exception_ptr not_read = {};     ///< why the database was not read; null: it was
};

enum class SessionsOf : std::uint8_t {
    directory,   ///< this one
    program,     ///< all directories
    everything,  ///< also those of a gateway, whose name is the session's id ("CHANNEL:CHAT")
};

/// The saved conversations of the program. Each is on a tape, and belongs to the directory in which it was started.
/// Those that older versions stored in SQLite are found as well, until they have been copied to a tape; the database
/// is only read.
class SavedSessions {
public:
    /// Accesses no file.
    SavedSessions(std::filesystem::path tapes, std::filesystem::path database,
                  std::filesystem::path workspace);
    SavedSessions(std::shared_ptr<bub::SessionTapeStore> tapes, std::filesystem::path database,
                  std::filesystem::path workspace);
    /// Those of this process: the configured store (configured_tapes()), the database of older versions, the current directory.
    static SavedSessions here();

    const std::shared_ptr<bub::SessionTapeStore>& tapes() const noexcept { return tapes_; }
    const std::filesystem::path& database() const noexcept { return database_; }
    /// The tape of this directory's session.
    std::string tape_of(std::string_view name) const;

    /// Returns sessions of the first `most` tapes, most recently used first.
    Task<std::vector<SavedSession>> on_tapes(
        SessionsOf which, std::size_t most = std::numeric_limits<std::size_t>::max());
    /// Returns the time of the newest entry of a tape, in Unix seconds; 0 if it has none.
    Task<double> used_at(std::string tape);
    /// Returns the session of a tape, without the time of its last use; nothing if it is not one of this program. Throws
    /// CheckpointCorruptionError if the tape's side state cannot be read.
    Task<std::optional<SavedSession>> on_tape(std::string tape);
    /// Returns the beginning of the names of this directory's tapes. Resolves the path of the directory.
    std::string tape_prefix() const;
    /// Those that are not on a tape, and were used later than `after`, in Unix seconds. Throws the errors of the database. Lists all
    /// tapes if there are such threads.
    Task<std::vector<SavedSession>> in_database(double after = -1);

    /// The most recently used session of this directory or without a directory. Throws Error(not_found) if there is
    /// none.
    Task<LastSession> last();
    /// Returns the reason why sessions cannot be saved here; empty: none known. Writes nothing.
    std::string obstacle() const;
    /// Creates a session of this directory, with a name made from its first prompt. No other session has the name, and no
    /// other process gets it.
    Task<std::string> create(std::string first_prompt);
    /// The same with this name, or with a number after it if it is taken; if `exactly`, throws Error(invalid_argument) instead.
    Task<std::string> create_named(std::string name, bool exactly = false);
    /// Names a session after its first prompt that create() has named without one, for a command: moves its tape, which no process
    /// has open. Returns the name, which stays if the tape has more than choices of the user, such as the model.
    Task<std::string> name_after(std::string name, std::string first_prompt);
    /// Saves a conversation of another store, with the requests that wait for an answer, as a new session with a name
    /// made from its first prompt. Returns the name.
    Task<std::string> adopt(std::shared_ptr<bub::TapeStore> from, std::string tape,
                            std::string first_prompt);
    /// Copies the session from the database to its tape in this directory, unless it has a tape already. Throws the
    /// errors of the database if it is needed.
    Task<BroughtToTape> bring_to_tape(std::string name);
    /// Removes this directory's tape of the session, and its messages in the database: those that were copied to this tape, or those
    /// of a session without messages on a tape here.
    Task<RemovedSession> remove(std::string name);

private:
    bool has_database() const;
    Task<std::shared_ptr<SQLiteCheckpointer>> open_database(bool read_only);
    Task<std::optional<SavedSession>> last_on_tape();
    Task<std::optional<SavedSession>> tape_with_copy(std::string name);
    Task<std::optional<SavedSession>> copy_among(std::vector<SavedSession> taped, std::string name);
    Task<> note_session(std::string name, std::string copied_from);
    Task<bool> is_taken(std::string name);
    Task<bool> was_copied_to(std::string tape);
    Task<bool> is_on_tape(std::string name);
    Task<bool> has_messages(std::string tape);
    Task<bool> remove_from_database(std::string name);

    std::shared_ptr<bub::SessionTapeStore> tapes_;
    std::filesystem::path database_;
    std::filesystem::path workspace_;
};

}  // namespace cubepi::app
