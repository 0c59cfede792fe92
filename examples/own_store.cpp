// A custom store: one file of JSON lines per thread, checked with the conformance suite.
#include <cubepi/checkpoint/memory_checkpointer.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/cubepi.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/testing/store_conformance.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string>

using namespace cubepi;

/// The files themselves. Each append is one line, so that it is stored completely or not at all. Blocks.
class LogFiles {
public:
    explicit LogFiles(std::filesystem::path directory) : directory_(std::move(directory)) {
        std::filesystem::create_directories(directory_);
    }

    std::optional<CheckpointData> load(const std::string& thread_id) {
        const std::lock_guard lock(mutex_);
        return read(file_of(thread_id));
    }

    std::int64_t append(const std::string& thread_id, const MessageList& messages,
                        const AppendOptions& options) {
        const std::lock_guard lock(mutex_);
        const auto file = file_of(thread_id);
        const std::optional<CheckpointData> data = read(file);
        const std::int64_t position = data ? data->position : 0;
        if (options.expected_position() && *options.expected_position() != position) {
            throw StaleAppendError(
                ErrorCode::stale_append,
                "another writer has appended to thread " + thread_id + "; load it again",
                thread_id);
        }
        JsonObject line;
        JsonArray list;
        for (const Message& message : messages) list.push_back(to_json(message));
        line["messages"] = std::move(list);
        if (options.extra()) line["extra"] = *options.extra();
        write(file, line);
        return position + static_cast<std::int64_t>(messages.size());
    }

    void save_extra(const std::string& thread_id, JsonObject extra) {
        const std::lock_guard lock(mutex_);
        JsonObject line;
        line["extra"] = std::move(extra);
        write(file_of(thread_id), line);
    }

private:
    std::filesystem::path file_of(const std::string& thread_id) const {
        std::ostringstream name;
        for (const char c : thread_id) {
            if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-') {
                name << c;
            } else {
                name << '%' << std::hex << static_cast<int>(static_cast<unsigned char>(c)) << '.';
            }
        }
        return directory_ / (name.str() + ".jsonl");
    }

    static std::optional<CheckpointData> read(const std::filesystem::path& file) {
        std::ifstream in(file, std::ios::binary);
        CheckpointData data;
        bool found = false;
        std::string text;
        // A last line without its newline is an append that a crash interrupted: it is ignored.
        while (std::getline(in, text) && !in.eof()) {
            found = true;
            const Json line = parse_json(text);
            if (const Json* list = line.as_object().if_contains("messages")) {
                for (const Json& message : list->as_array()) {
                    data.messages.push_back(message_from_json(message));
                }
            }
            if (const Json* extra = line.as_object().if_contains("extra")) {
                for (const auto& [key, value] : extra->as_object()) {
                    if (value.is_null()) {
                        data.extra.erase(key);
                    } else {
                        data.extra[key] = value;
                    }
                }
            }
        }
        data.position = static_cast<std::int64_t>(data.messages.size());
        std::optional<CheckpointData> result;
        if (found) result = std::move(data);
        return result;
    }

    static void write(const std::filesystem::path& file, const JsonObject& line) {
        cut_torn_line(file);
        const std::string text = json_text(line) + '\n';
        const int fd = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        const bool good =
            fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
            ::fsync(fd) == 0;
        if (fd >= 0) ::close(fd);
        if (!good) throw CheckpointerError(ErrorCode::storage, "cannot write " + file.string());
    }

    static void cut_torn_line(const std::filesystem::path& file) {
        std::ifstream in(file, std::ios::binary);
        if (!in) return;
        std::ostringstream whole;
        whole << in.rdbuf();
        const std::string text = whole.str();
        const auto end = text.rfind('\n');
        const std::size_t good = end == std::string::npos ? 0 : end + 1;
        if (good != text.size()) std::filesystem::resize_file(file, good);
    }

    std::mutex mutex_;
    std::filesystem::path directory_;
};

/// The three functions of every store. File access blocks, so it goes to the worker pool.
class DirectoryStore final : public Checkpointer {
public:
    explicit DirectoryStore(std::filesystem::path directory)
        : files_(std::make_shared<LogFiles>(std::move(directory))),
          workers_(Runtime::standard()->workers) {}

    Task<std::optional<CheckpointData>> load(std::string thread_id) override {
        auto work = [files = files_, thread_id = std::move(thread_id)] {
            return files->load(thread_id);
        };
        co_return co_await offload(*workers_, std::move(work));
    }

    Task<std::int64_t> append(std::string thread_id, MessageList messages,
                              AppendOptions options) override {
        auto work = [files = files_, thread_id = std::move(thread_id),
                     messages = std::move(messages), options = std::move(options)] {
            return files->append(thread_id, messages, options);
        };
        co_return co_await offload(*workers_, std::move(work));
    }

    Task<void> save_extra(std::string thread_id, JsonObject extra) override {
        auto work = [files = files_, thread_id = std::move(thread_id), extra = std::move(extra)] {
            files->save_extra(thread_id, extra);
        };
        co_await offload(*workers_, std::move(work));
    }

private:
    std::shared_ptr<LogFiles> files_;
    std::shared_ptr<WorkerPool> workers_;
};

int main() {
    const auto directory =
        std::filesystem::temp_directory_path() / ("cubepi-own-store-" + std::to_string(::getpid()));
    int made = 0;
    testing::StoreUnderTest store;
    store.make = [&] {
        return std::make_shared<DirectoryStore>(directory / std::to_string(++made));
    };
    store.reopen = [&](std::shared_ptr<Checkpointer> old) {
        old.reset();
        return std::make_shared<DirectoryStore>(directory / std::to_string(made));
    };
    const auto failures = testing::check_store(store);
    for (const auto& failure : failures) {
        std::cout << failure.check << ": " << failure.text << '\n';
    }

    // An agent that uses it, and a second one that continues where the first one stopped.
    FauxProvider faux;
    faux.set_responses({"Nice to meet you, Ada.", [](const ModelRequest& request) {
                            return faux_assistant_message(
                                "I have " + std::to_string(request.messages.size()) + " messages.");
                        }});
    auto chats = std::make_shared<DirectoryStore>(directory / "chats");
    {
        Agent agent(AgentOptions{.model = faux.model(), .checkpointer = chats, .thread_id = "ada"});
        run(agent.prompt("I am Ada"));
    }
    Agent agent(AgentOptions{.model = faux.model(), .checkpointer = chats, .thread_id = "ada"});
    const RunResult result = run(agent.prompt("What do you have?"));
    std::cout << result.text() << '\n';
    std::filesystem::remove_all(directory);
    return failures.empty() && result.text() == "I have 3 messages." ? 0 : 1;
}
