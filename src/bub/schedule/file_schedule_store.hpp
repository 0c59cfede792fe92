#pragma once

#include <filesystem>
#include <memory>

#include <bub/schedule/schedule.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/runtime.hpp>

namespace bub {

namespace detail {
class ScheduleFile;
}

/// The schedules of one gateway in the file `schedules.json` of a directory, which is replaced as a whole with each change. No other
/// process may use the file at the same time. The time is that of the runtime. A file that is not valid is never replaced.
class FileScheduleStore final : public ScheduleStore {
public:
    explicit FileScheduleStore(
        std::filesystem::path directory,
        std::shared_ptr<const cubepi::Runtime> runtime = cubepi::Runtime::standard());
    ~FileScheduleStore() override;

    Task<std::int64_t> now() override;
    Task<bool> add(Schedule schedule) override;
    Task<std::vector<Schedule>> list(std::string session) override;
    Task<std::optional<Schedule>> find(std::string id) override;
    Task<bool> remove(std::string id) override;
    Task<DueSchedules> due(DuePlace after) override;
    Task<bool> advance(Schedule schedule, std::optional<std::int64_t> planned) override;

private:
    std::shared_ptr<detail::ScheduleFile> file_;
    cubepi::WorkerPool thread_;  // tasks on it may still use the file
};

}  // namespace bub
