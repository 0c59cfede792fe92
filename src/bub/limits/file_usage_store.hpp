#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/limits/usage_store.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/runtime.hpp>

namespace bub {

namespace detail {
class UsageFile;
}

/// The counters of one gateway in the file `usage.jsonl` of a directory: a line for each call, appended. The file is written from scratch
/// when most of its lines are no longer needed. A line survives the process; the last ones may be lost with the
/// power of the machine. No other process may use the file at the same time. The time is that of the runtime.
class FileUsageStore final : public UsageStore {
public:
    explicit FileUsageStore(
        std::filesystem::path directory,
        std::shared_ptr<const cubepi::Runtime> runtime = cubepi::Runtime::standard());
    ~FileUsageStore() override;

    Task<std::int64_t> now() override;
    Task<std::optional<ReachedLimit>> admit(UsageAdmission turn) override;
    Task<> add(std::string day, UsageByCounter amounts) override;
    Task<std::vector<std::pair<std::string, UsageAmounts>>> list(std::string day, std::size_t most,
                                                                 std::string search = {}) override;

private:
    std::shared_ptr<detail::UsageFile> file_;
    cubepi::WorkerPool thread_;  // tasks on it may still use the file
};

}  // namespace bub
