// Helpers shared by the tests of the stores.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/run.hpp>

namespace cubepi {

/// A directory that is gone after the test.
class TempDirectory {
public:
    TempDirectory() {
        std::string name =
            (std::filesystem::temp_directory_path() / "cubepi-store-XXXXXX").string();
        if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp failed");
        path_ = name;
    }
    ~TempDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TempDirectory(const TempDirectory&) = delete;
    TempDirectory& operator=(const TempDirectory&) = delete;

    std::string file(const std::string& name) const { return (path_ / name).string(); }

private:
    std::filesystem::path path_;
};

/// A connection to the file that is not the store's.
class RawDatabase {
public:
    explicit RawDatabase(const std::string& path) {
        if (sqlite3_open(path.c_str(), &handle_) != SQLITE_OK)
            throw std::runtime_error("cannot open " + path);
        // A store that waits for its turn looks at the file now and then, and a commit waits for that.
        sqlite3_busy_timeout(handle_, 60000);
    }
    ~RawDatabase() { sqlite3_close(handle_); }
    RawDatabase(const RawDatabase&) = delete;
    RawDatabase& operator=(const RawDatabase&) = delete;

    /// All values of all rows, in order; NULL as "NULL".
    std::vector<std::string> query(const std::string& sql) {
        std::vector<std::string> values;
        char* error = nullptr;
        const auto collect = [](void* to, int columns, char** texts, char**) {
            for (int i = 0; i < columns; ++i) {
                static_cast<std::vector<std::string>*>(to)->emplace_back(texts[i] ? texts[i]
                                                                                  : "NULL");
            }
            return 0;
        };
        if (sqlite3_exec(handle_, sql.c_str(), collect, &values, &error) != SQLITE_OK) {
            const std::string text = error ? error : "?";
            sqlite3_free(error);
            throw std::runtime_error(text + ": " + sql);
        }
        return values;
    }

private:
    sqlite3* handle_ = nullptr;
};

inline Message user(std::string text, std::string run_id = {}, std::string id = {}) {
    return user_message(std::move(text), std::move(id))
        .with_run_id(SharedString(std::move(run_id)));
}

inline MessageList one(Message message) {
    MessageList list;
    list.push_back(std::move(message));
    return list;
}

/// The error that `task` ends with; fails the test when it has none.
template <class E = Error, class T>
E error_of(Task<T> task) {
    try {
        run(std::move(task));
    } catch (const E& error) {
        return error;
    }
    ADD_FAILURE() << "nothing was thrown";
    throw std::runtime_error("nothing was thrown");
}

/// The form for a terminal: one line that ends with the remedy.
inline void expect_one_line(const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_GT(text.size(), 20U) << text;
}

}  // namespace cubepi
