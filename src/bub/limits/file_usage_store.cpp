#include <bub/limits/file_usage_store.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <set>
#include <system_error>
#include <tuple>

#include <fcntl.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/schema/json_text.hpp>

namespace bub {

using cubepi::Error;
using cubepi::ErrorCode;
using cubepi::Json;
using cubepi::JsonArray;
using cubepi::JsonObject;

namespace detail {

namespace {

/// The file is written from scratch when it has this many lines more than twice those that are needed.
constexpr std::size_t tolerated_lines = 1'000;
constexpr std::size_t longest_line = 1U << 20U;

std::int64_t number_at(const JsonArray& values, std::size_t at) {
    const Json* const value = values.if_contains(at);
    const std::int64_t* const number = value ? value->if_int64() : nullptr;
    return number ? std::max<std::int64_t>(*number, 0) : 0;
}

}  // namespace

/// The file, used on one thread.
class UsageFile {
public:
    UsageFile(std::filesystem::path directory, std::shared_ptr<const cubepi::Runtime> runtime)
        : directory_(std::move(directory)),
          path_(directory_ / "usage.jsonl"),
          runtime_(std::move(runtime)) {}

    std::int64_t now() const {
        const auto time = runtime_->clock->wall().time_since_epoch();
        return std::chrono::duration_cast<std::chrono::seconds>(time).count();
    }
    std::optional<ReachedLimit> admit(const UsageAdmission& turn);
    void add(const std::string& day, const UsageByCounter& amounts) {
        open(day);
        append(day, amounts, {});
    }
    std::vector<std::pair<std::string, UsageAmounts>> list(const std::string& day, std::size_t most,
                                                           const std::string& search);

private:
    [[noreturn]] void fail(const std::string& what, int error) const {
        const ErrorCode code =
            cubepi::detail::is_out_of_space(error) ? ErrorCode::storage_full : ErrorCode::storage;
        throw Error(code, what + " " + path_.string() + ": " + cubepi::detail::errno_text(error));
    }
    void open(const std::string& day);
    void read();
    void read_line(const std::string& line);
    void append(const std::string& day, const UsageByCounter& amounts,
                const std::vector<std::string>& records);
    void note(const std::string& day, const UsageByCounter& amounts,
              const std::vector<std::string>& records);
    void remove_old(const std::string& day);
    void write_from_scratch();
    std::size_t needed_lines() const;
    static std::string line_of(const std::string& day, const UsageByCounter& amounts,
                               const std::vector<std::string>& records);

    const std::filesystem::path directory_;
    const std::filesystem::path path_;
    const std::shared_ptr<const cubepi::Runtime> runtime_;
    cubepi::detail::UniqueFd file_;  ///< none: not open
    std::size_t lines_ = 0;
    std::string day_;  ///< of the last call
    std::map<std::string, UsageByCounter> days_;
    std::map<std::string, std::set<std::string>> records_;  ///< by day
};

std::string UsageFile::line_of(const std::string& day, const UsageByCounter& amounts,
                               const std::vector<std::string>& records) {
    JsonObject line{{"day", day}};
    JsonObject all;
    for (const auto& [name, one] : amounts)
        all[name] = JsonArray{one.messages, one.tokens, one.micros};
    if (!all.empty()) line["used"] = std::move(all);
    if (!records.empty()) line["records"] = JsonArray(records.begin(), records.end());
    return cubepi::json_text(line) + "\n";
}

void UsageFile::note(const std::string& day, const UsageByCounter& amounts,
                     const std::vector<std::string>& records) {
    UsageByCounter& all = days_[day];
    for (const auto& [name, one] : amounts) all[name] += one;
    if (!records.empty()) records_[day].insert(records.begin(), records.end());
}

void UsageFile::read_line(const std::string& line) {
    boost::system::error_code failed;
    const Json json = boost::json::parse(line, failed);
    // A line that was cut off, or that another program has changed, counts nothing.
    if (failed || !json.is_object()) return;
    const JsonObject& object = json.get_object();
    const std::string day = cubepi::detail::text_member(object, "day");
    if (first_stored_day(day).empty()) return;
    UsageByCounter amounts;
    if (const JsonObject* const used = cubepi::detail::object_member(object, "used")) {
        for (const auto& one : *used) {
            if (const JsonArray* const values = one.value().if_array())
                amounts[std::string(one.key())] = UsageAmounts{
                    number_at(*values, 0), number_at(*values, 1), number_at(*values, 2)};
        }
    }
    std::vector<std::string> records;
    const Json* const list = object.if_contains("records");
    if (list && list->is_array()) {
        for (const Json& one : list->get_array())
            if (one.is_string()) records.emplace_back(one.get_string());
    }
    note(day, amounts, records);
}

void UsageFile::read() {
    std::error_code unknown;
    if (!std::filesystem::exists(path_, unknown)) return;
    std::ifstream file(path_, std::ios::binary);
    if (!file.is_open()) fail("cannot read", errno);
    std::string line;
    while (std::getline(file, line)) {
        if (line.size() <= longest_line) read_line(line);
    }
    if (file.bad()) fail("cannot read", errno);
}

/// Reads the file at the first call, and removes what is too old when a day begins.
void UsageFile::open(const std::string& day) {
    if (file_ && day == day_) return;
    if (!file_) {
        days_.clear();
        records_.clear();
        read();
    }
    remove_old(day);
    // Also after a crash: a line that was cut off must not be continued.
    write_from_scratch();
    day_ = day;
}

void UsageFile::remove_old(const std::string& day) {
    const std::string first = first_stored_day(day);
    days_.erase(days_.begin(), days_.lower_bound(first));
    records_.erase(records_.begin(), records_.lower_bound(first));
}

std::size_t UsageFile::needed_lines() const {
    std::size_t lines = 0;
    for (const auto& [day, all] : days_) lines += all.size();
    for (const auto& [day, all] : records_) lines += all.size();
    return lines;
}

void UsageFile::write_from_scratch() {
    std::error_code failed;
    std::filesystem::create_directories(directory_, failed);
    file_ = cubepi::detail::UniqueFd();
    const std::filesystem::path temporary = path_.string() + ".new";
    cubepi::detail::ReplacementFile file(
        cubepi::detail::open_file(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC), temporary);
    if (!file) fail("cannot write", errno);
    lines_ = 0;
    std::string text;
    const auto write = [&](bool all) {
        if (!all && text.size() < longest_line) return;
        if (!cubepi::detail::write_all(file.get(), text)) fail("cannot write", errno);
        text.clear();
    };
    for (const auto& [day, all] : days_) {
        for (const auto& [name, one] : all) {
            text += line_of(day, UsageByCounter{{name, one}}, {});
            ++lines_;
            write(false);
        }
    }
    for (const auto& [day, all] : records_) {
        for (const std::string& one : all) {
            text += line_of(day, {}, std::vector<std::string>(1, one));
            ++lines_;
            write(false);
        }
    }
    write(true);
    if (!cubepi::detail::sync_file(file.get()) || !file.replace(path_)) fail("cannot write", errno);
    file_ = cubepi::detail::open_file(path_.c_str(), O_WRONLY | O_APPEND);
    if (!file_) fail("cannot write", errno);
}

void UsageFile::append(const std::string& day, const UsageByCounter& amounts,
                       const std::vector<std::string>& records) {
    if (!cubepi::detail::write_all(file_.get(), line_of(day, amounts, records))) {
        const int error = errno;
        // A part of the line may be in the file, which is read again by the next call.
        file_ = cubepi::detail::UniqueFd();
        fail("cannot write", error);
    }
    note(day, amounts, records);
    if (++lines_ <= 2 * needed_lines() + tolerated_lines) return;
    try {
        write_from_scratch();
    } catch (const Error&) {
        // The line is counted: a failure here would count it again. The next call reads the file and writes it.
        file_ = cubepi::detail::UniqueFd();
    }
}

std::optional<ReachedLimit> UsageFile::admit(const UsageAdmission& turn) {
    open(turn.day);
    std::vector<UsageAmounts> used;
    const UsageByCounter& today = days_[turn.day];
    for (const LimitedCounter& counter : turn.counters) {
        const auto found = today.find(counter.name);
        used.push_back(found == today.end() ? UsageAmounts() : found->second);
    }
    std::vector<std::string> fresh;
    for (const std::string& record : turn.records) {
        const bool is_known =
            std::any_of(records_.begin(), records_.end(),
                        [&record](const auto& day) { return day.second.contains(record); });
        if (!is_known) fresh.push_back(record);
    }
    const std::int64_t messages = turn.messages(fresh.size());
    const std::optional<ReachedLimit> reached = reached_limit(turn, used, fresh.size());
    if (reached || (messages == 0 && fresh.empty())) return reached;
    UsageByCounter amounts;
    if (messages > 0) {
        for (const LimitedCounter& counter : turn.counters)
            amounts[counter.name] = UsageAmounts{messages, 0, 0};
    }
    append(turn.day, amounts, fresh);
    return std::nullopt;
}

std::vector<std::pair<std::string, UsageAmounts>> UsageFile::list(const std::string& day,
                                                                  std::size_t most,
                                                                  const std::string& search) {
    open(day);
    const std::string pattern = cubepi::detail::lower_case(search);
    std::vector<std::pair<std::string, UsageAmounts>> found;
    for (const auto& one : days_[day]) {
        if (one.first == total_counter ||
            cubepi::detail::lower_case(one.first).find(pattern) != std::string::npos)
            found.emplace_back(one);
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
        const bool a_is_part = a.first != total_counter;
        const bool b_is_part = b.first != total_counter;
        return std::tie(a_is_part, b.second.micros, b.second.tokens, b.second.messages, a.first) <
               std::tie(b_is_part, a.second.micros, a.second.tokens, a.second.messages, b.first);
    });
    if (found.size() > most) found.resize(most);
    return found;
}

}  // namespace detail

FileUsageStore::FileUsageStore(std::filesystem::path directory,
                               std::shared_ptr<const cubepi::Runtime> runtime)
    : file_(std::make_shared<detail::UsageFile>(std::move(directory), std::move(runtime))),
      thread_(1, "cubepi-usage") {}

FileUsageStore::~FileUsageStore() = default;

Task<std::int64_t> FileUsageStore::now() {
    auto work = [file = file_] { return file->now(); };
    co_return co_await cubepi::offload(thread_, std::move(work));
}

Task<std::optional<ReachedLimit>> FileUsageStore::admit(UsageAdmission turn) {
    auto work = [file = file_, turn = std::move(turn)] { return file->admit(turn); };
    co_return co_await cubepi::offload(thread_, std::move(work));
}

Task<> FileUsageStore::add(std::string day, UsageByCounter amounts) {
    auto work = [file = file_, day = std::move(day), amounts = std::move(amounts)] {
        file->add(day, amounts);
    };
    co_await cubepi::offload(thread_, std::move(work));
}

Task<std::vector<std::pair<std::string, UsageAmounts>>> FileUsageStore::list(std::string day,
                                                                             std::size_t most,
                                                                             std::string search) {
    auto work = [file = file_, day = std::move(day), most, search = std::move(search)] {
        return file->list(day, most, search);
    };
    co_return co_await cubepi::offload(thread_, std::move(work));
}

}  // namespace bub
