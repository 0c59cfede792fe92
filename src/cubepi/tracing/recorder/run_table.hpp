#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace cubepi::detail {

/// Objects of type T, one for each active run, by run id. Thread-safe: divided into parts so that sessions on several threads do
/// not wait for each other.
template <class T>
class RunTable {
public:
    void add(std::string_view run_id, std::shared_ptr<T> run) {
        Part& part = part_of(run_id);
        const std::lock_guard lock(part.mutex);
        part.runs.insert_or_assign(std::string(run_id), std::move(run));
    }
    /// Removes the run, unless another one has taken its id.
    void remove(std::string_view run_id, const T* run) noexcept {
        std::shared_ptr<T> removed;  // destroyed after the lock
        Part& part = part_of(run_id);
        const std::lock_guard lock(part.mutex);
        const auto found = part.runs.find(run_id);
        if (found == part.runs.end() || found->second.get() != run) return;
        removed = std::move(found->second);
        part.runs.erase(found);
    }
    /// Calls `use` with the run, if there is one, under the lock of its part of the table.
    template <class Use>
    void with(std::string_view run_id, Use use) const {
        const Part& part = part_of(run_id);
        const std::lock_guard lock(part.mutex);
        const auto found = part.runs.find(run_id);
        if (found != part.runs.end()) use(*found->second);
    }
    /// Locks the part of the table with this id: what with() protects.
    std::unique_lock<std::mutex> lock(std::string_view run_id) const {
        return std::unique_lock(part_of(run_id).mutex);
    }
    /// Returns null if there is none.
    std::shared_ptr<T> find(std::string_view run_id) const {
        const Part& part = part_of(run_id);
        const std::lock_guard lock(part.mutex);
        const auto found = part.runs.find(run_id);
        return found == part.runs.end() ? nullptr : found->second;
    }

private:
    struct Hash : std::hash<std::string_view> {
        using is_transparent = void;
    };
    struct Part {
        mutable std::mutex mutex;
        std::unordered_map<std::string, std::shared_ptr<T>, Hash, std::equal_to<>> runs;
    };

    Part& part_of(std::string_view run_id) noexcept {
        return parts_[Hash()(run_id) % parts_.size()];
    }
    const Part& part_of(std::string_view run_id) const noexcept {
        return parts_[Hash()(run_id) % parts_.size()];
    }

    std::array<Part, 16> parts_;
};

}  // namespace cubepi::detail
