#pragma once

#include <memory>

#include <bub/tape/tape_store.hpp>
#include <cubepi/core/clock.hpp>

namespace bub {

/// A store of tapes in memory, for tests and for sessions that leave no files. Its tasks never suspend; thread-safe.
class MemoryTapeStore : public TapeStore, public TapeMediaStore {
public:
    /// `clock` supplies the dates of entries; null: the system clock.
    explicit MemoryTapeStore(std::shared_ptr<cubepi::Clock> clock = {});
    ~MemoryTapeStore() override;
    MemoryTapeStore(const MemoryTapeStore&) = delete;
    MemoryTapeStore& operator=(const MemoryTapeStore&) = delete;

    Task<std::vector<std::string>> all_tapes() override;
    Task<std::vector<TapeEntry>> fetch(std::string tape, TapeQuery query) override;
    Task<TapePosition> append(std::string tape, std::vector<TapeEntry> entries,
                              TapeAppend options) override;
    Task<TapePosition> position(std::string tape) override;
    Task<TapeInfo> info(std::string tape) override;
    Task<Json> edit_state(std::string tape, std::function<Json(JsonObject& state)> edit) override;
    /// Makes the edit at once, which cannot fail.
    void edit_state_later(const std::string& tape,
                          std::function<void(JsonObject& state)> edit) override;
    Task<JsonObject> read_state(std::string tape) override;
    Task<cubepi::QuestionPage> list_requests(cubepi::QuestionQuery query) override;
    Task<std::optional<TapeEntry>> find(std::string tape, TapeKey key, std::string value) override;
    Task<std::string> put_media(std::string bytes) override;
    Task<std::optional<std::string>> get_media(std::string sha256) override;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace bub
