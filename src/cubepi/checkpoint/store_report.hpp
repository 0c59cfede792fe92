#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cubepi {

/// Something that a check of a store has found.
struct StoreFinding {
    enum class Kind : std::uint8_t {
        note,    ///< nothing is wrong: an expired lease, an answer that is not used any more
        repair,  ///< is repaired by the next use of the store; `remedy` says how
        damage,  ///< stays: something is missing or cannot be read; `remedy` says what to do
    };
    Kind kind = Kind::note;
    std::string where = {};  ///< "thread 'x'", "tape 'y', line 7"
    std::string what = {};
    std::string remedy = {};  ///< may be empty
};

/// The result of checking a store (D209). A check only reads; it never creates, migrates or repairs. Its texts may contain names and
/// errors that come from the store, which is not trusted.
class StoreReport {
public:
    /// A report holds at most this many findings; omitted() counts the others.
    static constexpr std::size_t most_findings = 1000;

    explicit StoreReport(std::string store = {}) : store_(std::move(store)) {}

    /// "SQLite database 'threads.db'", without a password.
    const std::string& store() const noexcept { return store_; }
    const std::vector<StoreFinding>& findings() const noexcept { return findings_; }
    std::size_t omitted() const noexcept { return omitted_; }
    /// Numbers of what was read, in order: ("threads", 3).
    const std::vector<std::pair<std::string, std::int64_t>>& counts() const noexcept {
        return counts_;
    }
    std::size_t damages() const noexcept { return damages_; }
    std::size_t repairs() const noexcept { return repairs_; }
    /// Returns true if nothing is missing and everything can be read.
    bool is_sound() const noexcept { return damages_ == 0; }

    void add(StoreFinding::Kind kind, std::string where, std::string what,
             std::string remedy = {}) {
        if (kind == StoreFinding::Kind::damage) ++damages_;
        if (kind == StoreFinding::Kind::repair) ++repairs_;
        if (findings_.size() >= most_findings) {
            ++omitted_;
            return;
        }
        findings_.push_back({kind, std::move(where), std::move(what), std::move(remedy)});
    }
    void note(std::string where, std::string what, std::string remedy = {}) {
        add(StoreFinding::Kind::note, std::move(where), std::move(what), std::move(remedy));
    }
    void repair(std::string where, std::string what, std::string remedy) {
        add(StoreFinding::Kind::repair, std::move(where), std::move(what), std::move(remedy));
    }
    void damage(std::string where, std::string what, std::string remedy) {
        add(StoreFinding::Kind::damage, std::move(where), std::move(what), std::move(remedy));
    }
    /// Adds to the number of what was read.
    void count(const std::string& what, std::int64_t number) {
        for (auto& [name, sum] : counts_) {
            if (name != what) continue;
            sum += number;
            return;
        }
        counts_.emplace_back(what, number);
    }

    /// Adds what another check of the same store has found.
    void merge(const StoreReport& other) {
        for (const StoreFinding& one : other.findings_)
            add(one.kind, one.where, one.what, one.remedy);
        for (const auto& [name, sum] : other.counts_) count(name, sum);
        omitted_ += other.omitted_;
    }

private:
    std::string store_;
    std::vector<StoreFinding> findings_;
    std::vector<std::pair<std::string, std::int64_t>> counts_;
    std::size_t omitted_ = 0;
    std::size_t damages_ = 0;
    std::size_t repairs_ = 0;
};

}  // namespace cubepi
