#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <bub/tape/tape_store.hpp>

namespace bub::detail {

/// Edits of side states that failed and precede the next edit of their tape. Thread-safe.
class LateEdits {
public:
    using Edit = std::function<void(JsonObject&)>;

    void add(const std::string& tape, Edit edit) {
        const std::lock_guard lock(mutex_);
        edits_[tape].push_back(std::move(edit));
    }
    /// Appends the edits of the tape to `taken`; others do not see them from then on.
    void take(const std::string& tape, std::vector<Edit>& taken) {
        const std::lock_guard lock(mutex_);
        const auto found = edits_.find(tape);
        if (found == edits_.end()) return;
        for (Edit& edit : found->second) taken.push_back(std::move(edit));
        edits_.erase(found);
    }
    void put_back(const std::string& tape, std::vector<Edit> taken) {
        if (taken.empty()) return;
        const std::lock_guard lock(mutex_);
        std::vector<Edit>& edits = edits_[tape];
        for (Edit& edit : edits) taken.push_back(std::move(edit));
        edits = std::move(taken);
    }

private:
    std::mutex mutex_;
    std::map<std::string, std::vector<Edit>> edits_;
};

/// The late edits of a transaction, which are put back unless it was stored.
class TakenEdits {
public:
    TakenEdits(std::shared_ptr<LateEdits> from, std::string tape)
        : from_(std::move(from)), tape_(std::move(tape)) {}
    ~TakenEdits() {
        if (!stored_) from_->put_back(tape_, std::move(edits_));
    }
    TakenEdits(const TakenEdits&) = delete;
    TakenEdits& operator=(const TakenEdits&) = delete;

    /// May be called again when the transaction is repeated.
    void make(JsonObject& state) {
        from_->take(tape_, edits_);
        for (const LateEdits::Edit& edit : edits_) {
            // A copy, because the original may be needed again.
            const LateEdits::Edit once = edit;
            once(state);
        }
    }
    void set_stored() noexcept { stored_ = true; }

private:
    std::shared_ptr<LateEdits> from_;
    std::string tape_;
    std::vector<LateEdits::Edit> edits_;
    bool stored_ = false;
};

}  // namespace bub::detail
