#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

namespace cubepi {

/// The source of ids of runs, messages and requests. Thread-safe.
class IdSource {
public:
    virtual ~IdSource() = default;

    /// Returns a new id, globally unique (the default) or at least unique for this source.
    virtual std::string next() = 0;

    IdSource(const IdSource&) = delete;
    IdSource& operator=(const IdSource&) = delete;

protected:
    IdSource() = default;
};

/// A source of ids of 15 random letters and digits: 89 bits, and short enough to fit into a std::string without an
/// allocation. Unpredictable enough for names, not for secrets. Safe after fork().
class RandomIds final : public IdSource {
public:
    std::string next() override;
};

namespace testing {

/// A source of the ids "id1", "id2", ..., or with another prefix, which a test can predict.
class SequentialIds final : public IdSource {
public:
    explicit SequentialIds(std::string prefix = "id") : prefix_(std::move(prefix)) {}
    std::string next() override { return prefix_ + std::to_string(++count_); }

private:
    const std::string prefix_;
    std::atomic<std::uint64_t> count_{0};
};

}  // namespace testing

}  // namespace cubepi
