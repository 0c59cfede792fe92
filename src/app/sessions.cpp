#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/core/run.hpp>

#include "commands.hpp"
#include "config/paths.hpp"
#include "exit_code.hpp"
#include "terminal/style.hpp"

namespace cubepi::app {

namespace {

std::string date_text(std::optional<double> unix_seconds) {
    if (!unix_seconds) return "-";
    const auto seconds = static_cast<std::time_t>(*unix_seconds);
    std::tm local = {};
    if (!localtime_r(&seconds, &local)) return "-";
    std::array<char, 32> text = {};
    const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &local);
    return std::string(text.data(), size);
}

Task<int> list_sessions(std::shared_ptr<SQLiteCheckpointer> store) {
    std::vector<ThreadInfo> threads = co_await store->list_threads();
    std::sort(threads.begin(), threads.end(), [](const ThreadInfo& a, const ThreadInfo& b) {
        return a.updated_at.value_or(0) > b.updated_at.value_or(0);
    });
    if (threads.empty()) std::cerr << "No session is kept. Begin one: cubepi chat --session NAME\n";
    // Tabs, so that scripts can cut it.
    for (const ThreadInfo& thread : threads) {
        std::cout << one_line(thread.thread_id, 200) << '\t' << date_text(thread.updated_at) << '\t'
                  << thread.message_count
                  << (thread.message_count == 1 ? " message\n" : " messages\n");
    }
    co_return exit_ok;
}

Task<int> delete_session(std::shared_ptr<SQLiteCheckpointer> store, std::string name) {
    const std::vector<ThreadInfo> threads = co_await store->list_threads();
    const bool known = std::any_of(threads.begin(), threads.end(), [&](const ThreadInfo& thread) {
        return thread.thread_id == name;
    });
    if (!known) {
        std::cerr << "cubepi: there is no session '" << printable(name)
                  << "'.\n  See their names: cubepi sessions list\n";
        co_return exit_usage;
    }
    co_await store->delete_thread(name);
    std::cerr << "Deleted: " << printable(name) << '\n';
    co_return exit_ok;
}

Task<int> sessions_task(CommandLine line) {
    const bool removes = line.verb == Verb::sessions_delete;
    std::error_code failed;
    // Looking must not make a database where there is none.
    const bool none = !std::filesystem::exists(sessions_path(), failed);
    if (none && !removes) {
        std::cerr << "No session is kept. Begin one: cubepi chat --session NAME\n";
        co_return exit_ok;
    }
    std::string name;
    if (!line.words.empty()) name = line.words.front();
    if (none) {
        std::cerr << "cubepi: there is no session '" << printable(name)
                  << "'.\n  Begin one: cubepi chat --session NAME\n";
        co_return exit_usage;
    }
    auto store = std::make_shared<SQLiteCheckpointer>(sessions_path().string());
    if (removes) co_return co_await delete_session(std::move(store), std::move(name));
    co_return co_await list_sessions(std::move(store));
}

}  // namespace

int sessions_command(const CommandLine& line) { return run(sessions_task(line)); }

}  // namespace cubepi::app
