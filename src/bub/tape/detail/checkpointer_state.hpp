#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <bub/tape/detail/message_entries.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/checkpoint/detail/claim_rules.hpp>

namespace bub {

namespace detail {

/// A tape's side state as a checkpointer uses it: {"claims", "open_runs", "pending", "answers"}.
class SideState {
public:
    explicit SideState(const JsonObject& state) : state_(state) {}

    bool is_open(const std::string& run_id) const;
    bool holds(const std::string& run_id, const std::string& owner_id) const;
    const JsonArray& list(std::string_view name) const;

    static cubepi::detail::HeldClaim read_claim(const JsonObject& json);
    static JsonObject claim_json(const cubepi::detail::HeldClaim& claim);
    /// The list of this name, made when it is missing.
    static JsonArray& edit(JsonObject& state, std::string_view name);
    /// Removes lists that became empty.
    static void tidy(JsonObject& state);

private:
    const JsonObject& state_;
};

/// The text under `key`; empty when there is none.
std::string state_text(const JsonObject& object, std::string_view key);

}  // namespace detail

struct TapeCheckpointer::State {
    std::shared_ptr<TapeStore> store;
    TapeStateStore* side = nullptr;
    TapeIndex* index = nullptr;
    TapeMediaStore* media = nullptr;
    TapeCheckpointerOptions options;

    /// The calls of each tape's last answer that wait for results, as of a position.
    struct Batch {
        std::int64_t position = -1;
        detail::MessageEntries entries;
    };
    std::mutex mutex;
    std::map<std::string, Batch> batches;

    double now() const;
    double lease_end() const;

    Task<std::vector<TapeEntry>> read_context(std::string tape);
    Task<bool> is_complete(std::string tape, std::string run_id);
    Task<JsonObject> extra_of(std::string tape);
    Task<std::vector<TapeEntry>> entries_of(std::string tape, cubepi::MessageList messages);
    /// Images go to the media, and what stands for them stays in the entries; and back.
    Task<void> put_media_aside(std::vector<TapeEntry>& entries);
    Task<void> restore_media(std::vector<TapeEntry>& entries);
    void forget_batch(const std::string& tape);
    void note_position(const std::string& tape, std::int64_t position);
};

}  // namespace bub
