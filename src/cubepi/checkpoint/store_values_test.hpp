// Helpers shared by the tests of all stores.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

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
