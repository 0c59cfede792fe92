#include <bub/schedule/file_schedule_store.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <system_error>
#include <tuple>
#include <utility>

#include <fcntl.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/schema/json_convert.hpp>
#include <cubepi/schema/json_text.hpp>

namespace bub {

using cubepi::Error;
using cubepi::ErrorCode;

namespace detail {

namespace {

constexpr std::int64_t file_version = 1;

}  // namespace

/// The file, used on one thread.
class ScheduleFile {
public:
    ScheduleFile(std::filesystem::path directory, std::shared_ptr<const cubepi::Runtime> runtime)
        : directory_(std::move(directory)),
          path_(directory_ / "schedules.json"),
          runtime_(std::move(runtime)) {}

    std::int64_t now() const {
        const auto time = runtime_->clock->wall().time_since_epoch();
        return std::chrono::duration_cast<std::chrono::seconds>(time).count();
    }
    const std::map<std::string, Schedule>& read() {
        if (!schedules_) load();
        return *schedules_;
    }
    /// Stores the result of `change`, which returns false to leave the file as it is.
    bool change(const std::function<bool(std::map<std::string, Schedule>&)>& apply) {
        std::map<std::string, Schedule> changed = read();
        if (!apply(changed)) return false;
        store(changed);
        schedules_ = std::move(changed);
        return true;
    }

private:
    [[noreturn]] void fail(const std::string& what, int error) const {
        const ErrorCode code =
            cubepi::detail::is_out_of_space(error) ? ErrorCode::storage_full : ErrorCode::storage;
        throw Error(code, what + " " + path_.string() + ": " + cubepi::detail::errno_text(error));
    }
    void load();
    void store(const std::map<std::string, Schedule>& schedules) const;

    const std::filesystem::path directory_;
    const std::filesystem::path path_;
    const std::shared_ptr<const cubepi::Runtime> runtime_;
    std::optional<std::map<std::string, Schedule>> schedules_;
};

void ScheduleFile::load() {
    std::map<std::string, Schedule> found;
    std::error_code unknown;
    if (std::filesystem::exists(path_, unknown)) {
        std::ifstream file(path_, std::ios::binary);
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        if (file.bad() || !file.is_open()) fail("cannot read", errno);
        try {
            const Json json = boost::json::parse(text);
            if (json.at("version").as_int64() != file_version)
                throw Error(ErrorCode::schema_mismatch, "it was written by a later version");
            cubepi::ReadOptions options;
            options.require_fields = false;
            for (const Json& one : json.at("schedules").as_array()) {
                Schedule schedule = cubepi::from_json<Schedule>(one, options);
                std::string id = schedule.id;
                found.insert_or_assign(std::move(id), std::move(schedule));
            }
        } catch (const std::exception& error) {
            throw Error(ErrorCode::storage, path_.string() + " is not valid: " + error.what() +
                                                "; repair it or move it away");
        }
    }
    schedules_ = std::move(found);
}

void ScheduleFile::store(const std::map<std::string, Schedule>& schedules) const {
    JsonArray list;
    for (const auto& [id, schedule] : schedules) list.push_back(cubepi::to_json(schedule));
    const JsonObject whole{{"version", file_version}, {"schedules", std::move(list)}};
    const std::string text = cubepi::json_text(whole) + "\n";
    std::error_code failed;
    std::filesystem::create_directories(directory_, failed);
    const std::filesystem::path temporary = path_.string() + ".new";
    cubepi::detail::ReplacementFile file(
        cubepi::detail::open_file(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC), temporary);
    if (!file || !cubepi::detail::write_all(file.get(), text) ||
        !cubepi::detail::sync_file(file.get()) || !file.replace(path_))
        fail("cannot write", errno);
    const cubepi::detail::UniqueFd directory =
        cubepi::detail::open_file(directory_.c_str(), O_RDONLY | O_DIRECTORY);
    if (!directory || !cubepi::detail::sync_file(directory.get())) fail("cannot write", errno);
}

}  // namespace detail

FileScheduleStore::FileScheduleStore(std::filesystem::path directory,
                                     std::shared_ptr<const cubepi::Runtime> runtime)
    : file_(std::make_shared<detail::ScheduleFile>(std::move(directory), std::move(runtime))),
      thread_(1, "cubepi-schedule") {}

FileScheduleStore::~FileScheduleStore() = default;

Task<std::int64_t> FileScheduleStore::now() {
    auto work = [file = file_] { return file->now(); };
    co_return co_await cubepi::offload(thread_, std::move(work));
}

Task<bool> FileScheduleStore::add(Schedule schedule) {
    check_schedule(schedule);
    auto work = [file = file_, schedule = std::move(schedule)] {
        return file->change([&](std::map<std::string, Schedule>& all) {
            if (all.contains(schedule.id)) return false;
            const auto in_session =
                std::count_if(all.begin(), all.end(), [&schedule](const auto& one) {
                    return one.second.session == schedule.session && !one.second.configured;
                });
            detail::check_limits(schedule, static_cast<std::size_t>(in_session), all.size());
            all.emplace(schedule.id, schedule);
            return true;
        });
    };
    co_return co_await cubepi::offload(thread_, std::move(work));
}

Task<std::vector<Schedule>> FileScheduleStore::list(std::string session) {
    auto work = [file = file_, session = std::move(session)] {
        std::vector<Schedule> found;
        for (const auto& [id, one] : file->read())
            if (session.empty() || one.session == session) found.push_back(one);
        return found;
    };
    co_return co_await cubepi::offload(thread_, std::move(work));
}

Task<std::optional<Schedule>> FileScheduleStore::find(std::string id) {
    auto work = [file = file_, id = std::move(id)] {
        const auto& all = file->read();
        const auto found = all.find(id);
        return found == all.end() ? std::nullopt : std::optional(found->second);
    };
    co_return co_await cubepi::offload(thread_, std::move(work));
}

Task<bool> FileScheduleStore::remove(std::string id) {
    auto work = [file = file_, id = std::move(id)] {
        return file->change(
            [&](std::map<std::string, Schedule>& all) { return all.erase(id) > 0; });
    };
    co_return co_await cubepi::offload(thread_, std::move(work));
}

Task<DueSchedules> FileScheduleStore::due(DuePlace after) {
    auto work = [file = file_, after = std::move(after)] {
        DueSchedules due;
        due.now = file->now();
        const auto is_before = [](const DuePlace& a, const DuePlace& b) {
            return std::tie(a.next, a.id) < std::tie(b.next, b.id);
        };
        for (const auto& [id, one] : file->read())
            if (detail::is_due(one, due.now) && is_before(after, detail::place_of(one)))
                due.schedules.push_back(one);
        std::sort(due.schedules.begin(), due.schedules.end(),
                  [&is_before](const Schedule& a, const Schedule& b) {
                      return is_before(detail::place_of(a), detail::place_of(b));
                  });
        if (due.schedules.size() <= detail::most_due) return due;
        due.schedules.resize(detail::most_due);
        due.more = detail::place_of(due.schedules.back());
        return due;
    };
    co_return co_await cubepi::offload(thread_, std::move(work));
}

Task<bool> FileScheduleStore::advance(Schedule schedule, std::optional<std::int64_t> planned) {
    auto work = [file = file_, schedule = std::move(schedule), planned] {
        return file->change([&](std::map<std::string, Schedule>& all) {
            const auto found = all.find(schedule.id);
            if (found == all.end() || found->second.next != planned) return false;
            found->second = schedule;
            return true;
        });
    };
    co_return co_await cubepi::offload(thread_, std::move(work));
}

}  // namespace bub
