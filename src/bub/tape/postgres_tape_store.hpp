#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <bub/tape/tape_store.hpp>
#include <cubepi/checkpoint/postgres_options.hpp>

namespace cubepi::detail {
class ServerStore;
}

namespace bub {

/// Tapes in a PostgreSQL database, for several processes or hosts that share them. The tables are those of
/// apply_postgres_tape_schema().
///
/// A write holds a lock of its tape on the server until it is committed, so there is one writer at a time per tape. One whose
/// connection breaks is stored once or not at all: if its fate is unknown, it is looked up. Calls never block an event loop;
/// they may come from any thread and several executors. An executor must outlive the calls made on it. A store cannot be used
/// after fork().
///
/// `edit` of edit_state() and the guard of an append are called on the executor of the call; a copy of them is called again if
/// the transaction has to be repeated. The journals of turns are not stored: the entries of a turn whose process dies before
/// its append are lost.
///
/// Throws, from every call, what PostgresCheckpointer throws, and what TapeStore documents.
class PostgresTapeStore final : public TapeStore, public TapeMediaStore {
public:
    explicit PostgresTapeStore(cubepi::PostgresOptions options);
    ~PostgresTapeStore() override;
    PostgresTapeStore(const PostgresTapeStore&) = delete;
    PostgresTapeStore& operator=(const PostgresTapeStore&) = delete;

    /// Connects now, to detect errors early. Optional.
    Task<void> open();

    Task<std::vector<std::string>> all_tapes() override;
    Task<std::vector<TapeEntry>> fetch(std::string tape, TapeQuery query) override;
    Task<void> visit(std::string tape, TapeQuery query,
                     std::function<bool(const TapeEntry&)> visit) override;
    Task<TapePosition> append(std::string tape, std::vector<TapeEntry> entries,
                              TapeAppend options) override;
    Task<TapePosition> position(std::string tape) override;
    Task<TapeInfo> info(std::string tape) override;
    Task<std::vector<TapeEntry>> anchors(std::string tape, std::size_t limit) override;
    Task<Json> edit_state(std::string tape, std::function<Json(JsonObject& state)> edit) override;
    Task<JsonObject> read_state(std::string tape) override;
    Task<cubepi::InboxPage> list_requests(cubepi::InboxQuery query) override;
    Task<std::optional<TapeEntry>> find_message_entry(std::string tape,
                                                      std::string message_id) override;
    Task<std::optional<TapeEntry>> find_event(std::string tape, std::string name) override;
    Task<std::optional<TapeEntry>> find_run(std::string tape, std::string run_id) override;

    Task<std::string> put_media(std::string bytes) override;
    Task<std::optional<std::string>> get_media(std::string sha256) override;

private:
    std::shared_ptr<cubepi::detail::ServerStore> store_;
};

}  // namespace bub
