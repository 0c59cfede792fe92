#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
        if (part.spare.empty()) {
            part.recent = part.runs.insert_or_assign(std::string(run_id), std::move(run)).first;
            return;
        }
        part.spare.key() = run_id;
        part.spare.mapped() = std::move(run);
        auto result = part.runs.insert(std::move(part.spare));
        if (!result.inserted) result.position->second = std::move(result.node.mapped());
        part.recent = result.position;
    }
    /// Removes the run, unless another one has taken its id.
    void remove(std::string_view run_id, const T* run) noexcept {
        std::shared_ptr<T> removed;  // destroyed after the lock
        Part& part = part_of(run_id);
        const std::lock_guard lock(part.mutex);
        const auto found = part.find(run_id);
        if (found == part.runs.end() || found->second.get() != run) return;
        removed = std::move(found->second);
        part.recent = part.runs.end();
        part.spare = part.runs.extract(found);
    }
    /// Calls `use` with the run, if there is one, under the lock of its part of the table.
    template <class Use>
    void with(std::string_view run_id, Use use) const {
        const Part& part = part_of(run_id);
        const std::lock_guard lock(part.mutex);
        const auto found = part.find(run_id);
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
        const auto found = part.find(run_id);
        return found == part.runs.end() ? nullptr : found->second;
    }

private:
    /// A hash of the ends of an id: random ids and numbered ones differ there, and it costs little.
    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view id) const noexcept {
            if (id.empty()) return 0;
            const std::size_t size = std::min(id.size(), sizeof(std::uint64_t));
            std::uint64_t first = 0;
            std::uint64_t last = 0;
            std::memcpy(&first, id.data(), size);
            std::memcpy(&last, id.data() + (id.size() - size), size);
            const std::uint64_t mixed = (first ^ std::rotl(last, 32)) * 0x9e3779b97f4a7c15U;
            return static_cast<std::size_t>(mixed ^ (mixed >> 32U)) + id.size();
        }
    };
    using Runs = std::unordered_map<std::string, std::shared_ptr<T>, Hash, std::equal_to<>>;
    struct Part {
        mutable std::mutex mutex;
        mutable Runs runs;
        typename Runs::node_type spare;  // of a removed run, for the next one
        // The entry found last: a run is looked up several times in a row.
        mutable typename Runs::iterator recent = runs.end();

        typename Runs::iterator find(std::string_view run_id) const {
            if (recent == runs.end() || recent->first != run_id) recent = runs.find(run_id);
            return recent;
        }
    };
    static constexpr std::size_t part_count = 16;

    static std::size_t index_of(std::string_view run_id) noexcept {
        return (Hash()(run_id) >> 8U) % part_count;
    }
    Part& part_of(std::string_view run_id) noexcept { return parts_[index_of(run_id)]; }
    const Part& part_of(std::string_view run_id) const noexcept { return parts_[index_of(run_id)]; }

    std::array<Part, part_count> parts_;
};

}  // namespace cubepi::detail
